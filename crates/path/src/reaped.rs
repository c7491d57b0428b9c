//! Residence time in the CQ: *posted* → *reaped*. No event reports reaping. The time is therefore bounded by the last
//! sample that found the completion in the queue and the first that did not (`probe/bpf/reap.h`).

use iotrail_schema::trace_record::{Depth, Reaping};
use iotrail_stats::durations::Durations;

/// Completions that stayed this long count as late. No kernel tick is longer, so such a completion was sampled more
/// than once. Batches processed between two reaps are shorter too.
pub(crate) const LONG_NS: u64 = 10_000_000;

/// One sampled completion. CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CqResidence {
    /// `None` for a ring without a number.
    pub ring: Option<u32>,
    pub posted_ns: u64,
    /// Last time at which the completion was seen in the queue.
    pub not_yet_ns: u64,
    /// First time at which the completion was gone; `None` if never observed.
    pub gone_ns: Option<u64>,
    /// Time since which the program had enough completions for its wait, or did not wait; `None` if it waited for more
    /// throughout.
    pub due_ns: Option<u64>,
    /// Time within the residence in which the program's thread waited for a CPU, as far as observed.
    pub starved_ns: u64,
    /// Number of completions that this one represents.
    pub weight: u32,
    /// Number of completions in the queue at its posting, including itself.
    pub depth: u32,
    /// Maximum number observed in the queue until it was reaped.
    pub deepest: u32,
    pub cq_entries: u32,
}

impl CqResidence {
    fn at_least_ns(&self) -> u64 {
        self.not_yet_ns.saturating_sub(self.posted_ns)
    }

    /// Residence time in which the program neither waited for more completions nor waited for a CPU.
    fn left_ns(&self) -> u64 {
        let free_ns = self.due_ns.map_or(0, |due_ns| self.not_yet_ns.saturating_sub(due_ns.max(self.posted_ns)));
        free_ns.saturating_sub(self.starved_ns)
    }
}

/// A subset of the sampled completions, and the sum of their weights.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    completions: u64,
    estimated: u64,
}

impl Part {
    fn take(&mut self, weight: u32) {
        self.completions += 1;
        self.estimated += u64::from(weight.max(1));
    }

    fn add(&mut self, other: Part) {
        self.completions += other.completions;
        self.estimated += other.estimated;
    }
}

/// Statistics over sampled completions.
#[derive(Debug, Clone, Default)]
pub struct Stays {
    at_least: Durations,
    at_most: Durations,
    left: Durations,
    depth: Durations,
    reaped: Part,
    long: Part,
    unreaped: Part,
    unreaped_ns: u64,
    deepest: u32,
}

impl Stays {
    pub fn take(&mut self, stay: &CqResidence) {
        self.depth.take(stay.depth.into(), stay.weight);
        self.deepest = self.deepest.max(stay.deepest).max(stay.depth);
        if stay.left_ns() >= LONG_NS {
            self.long.take(stay.weight);
        }
        let Some(gone_ns) = stay.gone_ns else {
            self.unreaped.take(stay.weight);
            self.unreaped_ns = self.unreaped_ns.max(stay.at_least_ns());
            return;
        };
        self.reaped.take(stay.weight);
        self.at_least.take(stay.at_least_ns(), stay.weight);
        self.at_most.take(gone_ns.saturating_sub(stay.posted_ns), stay.weight);
        self.left.take(stay.left_ns(), stay.weight);
    }

    pub fn add(&mut self, other: &Stays) {
        for (ours, theirs) in [
            (&mut self.at_least, &other.at_least),
            (&mut self.at_most, &other.at_most),
            (&mut self.left, &other.left),
            (&mut self.depth, &other.depth),
        ] {
            ours.add(theirs);
        }
        self.reaped.add(other.reaped);
        self.long.add(other.long);
        self.unreaped.add(other.unreaped);
        self.unreaped_ns = self.unreaped_ns.max(other.unreaped_ns);
        self.deepest = self.deepest.max(other.deepest);
    }

    /// `None` if no completion was sampled.
    pub fn record(&self) -> Option<Reaping> {
        let depth = self.depth.delay()?;
        let ends = |of: &Durations| of.latency(1).mean_ci95;
        Some(Reaping {
            completions: self.reaped.completions,
            estimated: self.reaped.estimated,
            at_least_ns: self.at_least.delay().unwrap_or_default(),
            at_most_ns: self.at_most.delay().unwrap_or_default(),
            mean_ns_ci95: ends(&self.at_least).zip(ends(&self.at_most)).map(|(least, most)| [least[0], most[1]]),
            left_ns: self.left.delay().unwrap_or_default(),
            left_long: self.long.completions,
            left_long_estimated: self.long.estimated,
            depth: Depth { p50: depth.p50, p99: depth.p99, max: depth.max },
            deepest: self.deepest,
            unreaped: self.unreaped.completions,
            unreaped_estimated: self.unreaped.estimated,
            unreaped_at_least_ns: (self.unreaped.completions > 0).then_some(self.unreaped_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Posted at 100 ms.
    fn stay(not_yet_ms: u64, gone_ms: Option<u64>, due_ms: Option<u64>) -> CqResidence {
        CqResidence {
            ring: Some(0),
            posted_ns: 100 * MS,
            not_yet_ns: not_yet_ms * MS,
            gone_ns: gone_ms.map(|ms| ms * MS),
            due_ns: due_ms.map(|ms| ms * MS),
            starved_ns: 0,
            weight: 1,
            depth: 3,
            deepest: 7,
            cq_entries: 128,
        }
    }

    fn of(stays: &[CqResidence]) -> Reaping {
        let mut sum = Stays::default();
        stays.iter().for_each(|s| sum.take(s));
        sum.record().expect("some")
    }

    #[test]
    fn unreaped_time_bounds_are_observed_values() {
        let r = of(&[stay(899, Some(903), Some(100)); 20]);
        let within = |ns: Option<u64>, ms: u64| ns.is_some_and(|ns| ns >= ms * MS && ns < (ms + 1) * MS);
        assert!(within(r.at_least_ns.p50, 799) && within(r.at_most_ns.p50, 803), "{r:?}");
        assert_eq!((r.completions, r.left_long, r.unreaped, r.unreaped_at_least_ns), (20, 20, 0, None));
        assert_eq!((r.depth.p50, r.depth.max, r.deepest), (Some(3), Some(3), 7));
        assert_eq!(Stays::default().record(), None);
    }

    #[test]
    fn completions_are_not_late_while_the_program_waits_for_more() {
        // The program had enough completions for its wait for 20 ms and then reaped; or never had enough.
        let r = of(&[stay(180, Some(181), Some(160)), stay(165, Some(166), Some(160)), stay(300, Some(301), None)]);
        assert_eq!((r.completions, r.left_long), (3, 1));
        // To the resolution of the histogram.
        let about = |ns: Option<u64>, ms: u64| ns.is_some_and(|ns| ns.abs_diff(ms * MS) <= ms * MS / 1000);
        assert!(about(r.at_least_ns.max, 200) && about(r.left_ns.max, 20), "{r:?}");
    }

    #[test]
    fn completions_are_not_late_while_the_thread_has_no_cpu() {
        let mut starved = stay(125, Some(126), Some(100));
        starved.starved_ns = 16 * MS;
        let r = of(&[starved]);
        assert_eq!((r.completions, r.left_long), (1, 0));
        starved.starved_ns = 15 * MS;
        assert_eq!(of(&[starved]).left_long, 1);
    }

    #[test]
    fn unreaped_completions_are_counted_separately_with_their_known_time() {
        let mut lying = stay(150, None, Some(100));
        lying.weight = 8;
        let r = of(&[lying, stay(100, Some(101), Some(100))]);
        assert_eq!((r.completions, r.estimated, r.unreaped, r.unreaped_estimated), (1, 1, 1, 8));
        assert_eq!((r.unreaped_at_least_ns, r.left_long, r.left_long_estimated), (Some(50 * MS), 1, 8));
        assert_eq!(r.at_least_ns.count, Some(1));
    }
}
