//! Completions and calls grouped by properties, most frequent first.

use crate::terminal::measured;
use iotrail_base::words::{UNKNOWN, count, percent, plural};
use iotrail_schema::measurement::Followed;
use iotrail_schema::trace_record::{CpuPair, EnterBatch, Estimate, RunItems, Total};

/// Maximum number of batch and run sizes, most frequent first.
const SIZES: usize = 6;

/// Calls by number of submitted requests.
pub fn enter_batches(batches: &[EnterBatch], all: Option<&Estimate>, followed: &Followed) -> Vec<String> {
    let requests: u64 = batches.iter().map(|b| b.requests).sum();
    let calls: f64 = batches.iter().map(|b| b.calls).sum();
    if calls <= 0.0 || requests == 0 {
        return Vec::new();
    }
    let Some(all) = all else {
        return vec![format!(
            "io_uring_enter calls {UNKNOWN}: only {} traced, too few",
            plural(requests as usize, "request")
        )];
    };
    let mut most: Vec<&EnterBatch> = batches.iter().collect();
    most.sort_by(|a, b| b.calls.total_cmp(&a.calls));
    let shown = most.iter().take(SIZES).filter(|b| b.calls > 0.0);
    let one = |b: &&EnterBatch| {
        let size = match b.at_least {
            0 | 1 => "1".to_owned(),
            n => format!("{n} to {}", n * 2 - 1),
        };
        format!("{} of {size}", percent(b.calls / calls))
    };
    let of = if followed.came_later.unwrap_or(0) > 0 { " while requests were selected" } else { "" };
    let calls = if all.ci95 == [1.0; 2] { "call" } else { "calls" };
    let about = format!("about {} io_uring_enter {calls}{of}", estimated(all));
    std::iter::once(about).chain(shown.map(one)).collect()
}

/// The estimate with its interval, if known.
fn estimated(e: &Estimate) -> String {
    let of = |n: f64| count(n.round());
    let [lo, hi] = e.ci95;
    if lo == hi { of(e.total) } else { format!("{} ({} to {})", of(e.total), of(lo), of(hi)) }
}

/// Completions by the size of their task work run. The number of runs is a separate, exact count.
pub fn run_items(items: &[RunItems], completions: u64) -> Vec<String> {
    let carried: u64 = items.iter().map(RunItems::stands_for).sum();
    if carried == 0 {
        return Vec::new();
    }
    let mut most: Vec<&RunItems> = items.iter().filter(|i| i.completions > 0).collect();
    most.sort_by_key(|i| std::cmp::Reverse(i.stands_for()));
    let followed: u64 = most.iter().map(|i| i.completions).sum();
    let part = |these: &[&RunItems]| {
        let stands_for: u64 = these.iter().map(|i| i.stands_for()).sum();
        measured::part(these.iter().map(|i| i.completions).sum(), followed, stands_for as f64 / carried as f64)
    };
    let one = |i: &&RunItems| format!("{} in runs of {}", part(&[*i]), i.items);
    let rest = most.get(SIZES..).filter(|rest| !rest.is_empty()).map(|rest| format!("{} in others", part(rest)));
    let of = of_followed(followed, completions);
    most.iter().take(SIZES).map(one).chain(rest).chain(of).collect()
}

/// The base of the shares, unless it is all completions.
fn of_followed(followed: u64, completions: u64) -> Option<String> {
    (followed > 0 && followed < completions).then(|| format!("of {} traced", count(followed as f64)))
}

/// The CPUs on which completions became ready and were posted.
pub fn cpu_pairs(total: &Total) -> Vec<String> {
    let all: u64 = total.cpu_pairs.iter().map(CpuPair::stands_for).sum();
    let mut most: Vec<_> = total.cpu_pairs.iter().filter(|p| p.completions > 0).collect();
    most.sort_by_key(|p| std::cmp::Reverse(p.stands_for()));
    let followed: u64 = total.cpu_pairs.iter().map(|p| p.completions).sum();
    let one = |p: &&CpuPair| {
        let share = measured::part(p.completions, followed, p.stands_for() as f64 / all as f64);
        match p.ready_cpu == p.posted_cpu {
            true => format!("{share} on CPU {} and posted there", p.ready_cpu),
            false => format!("{share} on CPU {}, posted on CPU {}", p.ready_cpu, p.posted_cpu),
        }
    };
    most.iter().take(SIZES).map(one).chain(of_followed(followed, total.ios)).collect()
}
