//! Submitters that cannot post their completions because other threads use their CPU.

use super::{Check, ENOUGH_EVENTS, ENOUGH_FOLLOWED, Matter, RULE, RestsOn, Rule, of_rings};
use crate::delivered::WORTH_SAYING;
use iotrail_base::words::{list, percent, span};
use iotrail_path::runnable::LONG_NS;
use iotrail_schema::account::{Bound, BoundOf, ThreadAccount, ThreadRow, ThreadState};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::measurement::StageRecord;
use iotrail_schema::runnable::HadCpu;
use iotrail_schema::syscall::{self, Wait};
use iotrail_schema::trace_record::TraceRecord;

/// Evidence: share of the time in which the program's own threads used the CPU.
const OWN_THREADS: &str = "own_threads_share";

/// The user cannot change the load of other programs, so this finding comes last.
pub(super) fn is_of_others(f: &Finding) -> bool {
    f.code == WAITING_FOR_CPU.code && f.evidence.get(OWN_THREADS).is_some_and(|own| *own < 0.5)
}

/// Minimum share of delivery time at which the wait for a CPU is the first thing to fix; below it, delivery spends its
/// time elsewhere.
const LARGE: f64 = 0.25;

/// Share of the traced time. With shorter CPU waits, only single completions were late.
const RARE: f64 = 0.01;

pub const WAITING_FOR_CPU: Rule = Rule {
    code: "waiting_for_cpu",
    about: "at least 5 % (at least 20) of a ring's traced completions waited 100 µs or longer for a CPU that ran another thread. These waits were at least a quarter of the delivery time. (If no ring has 50 traced completions, those of all \
            rings count.) Fewer than 5 % suffice if the program's own threads had the CPU and the waits were at least a quarter of \
            the latency. Or a thread that waits for completions spent at least a quarter of its time (and at least 100 ms) waiting \
            for a CPU. In addition, that CPU mostly ran other threads of the program, or the thread runs under SCHED_IDLE or with \
            a positive nice value. The wake-up of an idle CPU does not count",
    rests_on: RestsOn::Followed,
    matter: Matter::Time,
    advice: "keep a CPU free for the submitter (`taskset` or a cpuset for other threads), run at most one busy thread per CPU, or prioritise the \
             thread that waits for I/O: SCHED_FIFO, SCHED_RR (`chrt`) or a lower nice value; SCHED_BATCH or a higher one for computing threads",
    checks: &[Check::Trace(waiting_for_cpu)],
    ..RULE
};

/// Evaluates the ring whose CPU waits cost most, or all rings together if none has enough traced completions.
fn waiting_for_cpu(t: &TraceRecord) -> Option<Finding> {
    let of_completions =
        of_rings(t, |t, r| waiting(t, r.stages.as_ref())).or_else(|| waiting(t, t.total.stages.as_ref()));
    let Some(f) = of_completions.filter(Finding::warns) else { return behind_own(t) };
    // The same cause: this remedy names the threads and the CPU.
    let remedy = behind_own(t).filter(|_| !is_of_others(&f)).map(|own| own.remedy);
    Some(Finding { remedy: remedy.unwrap_or_else(|| f.remedy.clone()), ..f })
}

/// The share of the delivery time in which submitters waited while other threads had their CPU.
pub(super) fn waits_in_delivery(stages: Option<&StageRecord>) -> f64 {
    stages.and_then(|stages| stages.runnable.as_ref()?.share()).unwrap_or(0.0)
}

/// Within less time, single time slices of other threads dominate.
const ENOUGH_WAITED_NS: u64 = 100_000_000;
const MOST: f64 = 0.5;
/// Maximum number of threads named in a text.
const NAMED: usize = 3;

/// Describes a scheduling policy or nice value below that of normal threads.
fn low(thread: &ThreadAccount) -> Option<String> {
    let policy = thread.policy.as_ref().filter(|policy| policy.contains("IDLE"));
    let nice = thread.nice.filter(|nice| *nice > 0).map(|nice| format!(" Its nice value is {nice}."));
    policy.map(|policy| format!(" It runs under {policy}.")).or(nice)
}

/// A thread that waits for completions but rarely gets its CPU, because the program's other threads use it.
fn behind_own(t: &TraceRecord) -> Option<Finding> {
    let is_own = |tid: u32| t.own_threads().any(|thread| thread.tid == tid);
    let reaps = |row: &ThreadRow| {
        row.syscall.as_deref().and_then(syscall::find).and_then(|call| call.wait) == Some(Wait::Enter)
    };
    let behind = |thread: &ThreadAccount| {
        let own = thread.cpu_had.iter().filter(|by| by.tid.is_some_and(|tid| tid != thread.tid && is_own(tid)));
        own.fold(0.0, |sum, by| sum + by.share)
    };
    let waited = |thread: &&ThreadAccount| {
        let ns = thread.ns_in(ThreadState::Runnable);
        let has_cause = behind(thread) >= MOST || low(thread).is_some();
        ns >= ENOUGH_WAITED_NS && ns as f64 >= LARGE * thread.wall_ns as f64 && has_cause
    };
    let submits = |thread: &&ThreadAccount| {
        let of_ring = |tid: u32| {
            t.rings.iter().filter_map(|r| r.threads.as_ref()).flat_map(|of| &of.threads).any(|of| of.tid == tid)
        };
        thread.rows.iter().any(reaps) || of_ring(thread.tid)
    };
    let thread =
        t.own_threads().filter(submits).filter(waited).max_by_key(|thread| thread.ns_in(ThreadState::Runnable))?;
    let share = thread.ns_in(ThreadState::Runnable) as f64 / thread.wall_ns.max(1) as f64;
    let only = thread.only_cpu.map(|cpu| format!(" Its affinity allows only CPU {cpu}.")).unwrap_or_default();
    let low = low(thread);
    let had_it: Vec<String> = thread.cpu_had.iter().take(NAMED).map(had).collect();
    let text = format!(
        "{} ({}), which waits for completions, spent {} of its time waiting for a CPU that was running {}.{}{only}",
        thread.comm,
        thread.tid,
        percent(share),
        list(&had_it),
        low.as_deref().unwrap_or_default(),
    );
    let remedy = match (low.is_some(), thread.only_cpu) {
        (true, _) => "run the thread that waits for I/O under SCHED_OTHER with nice value 0 (chrt, renice, Nice= and CPUSchedulingPolicy= of the \
                      service); use SCHED_IDLE and high nice values only for the threads that compute"
            .to_owned(),
        (false, Some(cpu)) => format!(
            "keep the threads that compute off CPU {cpu} (pthread_setaffinity_np(3), taskset, a cpuset), or let this thread run on all CPUs"
        ),
        (false, None) => WAITING_FOR_CPU.advice.into(),
    };
    // The program chose this policy, so other programs may use the CPU.
    let own = if low.is_some() { 1.0 } else { behind(thread) };
    let evidence = [(OWN_THREADS, own), ("waited_share", share)];
    let f = WAITING_FOR_CPU.finding(Severity::Warning, text.trim_end_matches('.').to_owned(), &evidence);
    Some(Finding { remedy, bound: Some(Bound { of: BoundOf::ThreadTime, share }), ..f })
}

/// At least 5 % of completions waited 100 µs (a scheduler slice) or longer for another thread, and these waits were a
/// quarter of delivery time. Waits for an idle CPU do not count: a virtual machine may take milliseconds to wake it,
/// and advice on threads would not help.
fn waiting(t: &TraceRecord, stages: Option<&StageRecord>) -> Option<Finding> {
    let stages = stages?;
    let r = stages.runnable.as_ref().filter(|r| r.completions >= ENOUGH_FOLLOWED)?;
    let share = r.share()?;
    let is_own = |tid: u32| t.account.iter().flat_map(|a| &a.threads).any(|thread| thread.tid == tid);
    let own = r.by.iter().filter(|by| by.tid.is_some_and(is_own)).fold(0.0, |sum, by| sum + by.share);
    let is_costly = own >= MOST && share * stages.delivery_ns >= LARGE * stages.total_ns;
    let is_rare = r.long_share < WORTH_SAYING && !is_costly;
    if r.long < ENOUGH_EVENTS || is_rare || share < LARGE {
        return None;
    }
    let quantile = |name: &str, ns: Option<u64>| Some(format!("{name} {}", span(ns? as f64)));
    let quantiles = [quantile("p50", r.delay_ns.p50), quantile("p99", r.delay_ns.p99), quantile("max", r.delay_ns.max)];
    let quantiles: Vec<String> = quantiles.into_iter().flatten().collect();
    let text = format!(
        "{} of completions waited {} or longer for a CPU that was running another thread, although their submitter was runnable ({}). These waits \
         are {} of the delivery time. The CPU was running {}",
        percent(r.long_share),
        span(LONG_NS as f64),
        quantiles.join(", "),
        percent(share),
        list(&r.by.iter().map(had).collect::<Vec<_>>()),
    );
    let mut evidence = vec![
        (OWN_THREADS, own),
        ("long_share", r.long_share),
        ("share_of_delivery", share),
        ("mean_ns", r.mean_ns),
        ("delivery_ns", r.delivery_ns),
    ];
    evidence.extend(r.delay_ns.p50.map(|ns| ("p50_ns", ns as f64)));
    evidence.extend(r.delay_ns.p99.map(|ns| ("p99_ns", ns as f64)));
    // Completions of one batch share a wait; the threads' own times show whether waits were frequent.
    let runnable: u64 = t.own_threads().map(|thread| thread.ns_in(ThreadState::Runnable)).sum();
    let is_rare = t.account.is_some() && (runnable as f64) < RARE * t.total.elapsed_ns as f64;
    let f = WAITING_FOR_CPU.finding_from(r.completions, Severity::warning_if(!is_rare), text, &evidence);
    // A note gives advice only if the change is worthwhile.
    let remedy = if is_rare { String::new() } else { f.remedy.clone() };
    let f = Finding { remedy, ..f };
    Some(Finding { bound: super::of_delivery(Some(stages), share), ..f })
}

/// `postgres (4711) 62 %`.
pub(crate) fn had(by: &HadCpu) -> String {
    let share = percent(by.share);
    match (by.tid, &by.comm) {
        (Some(0), _) => format!("no thread (idle, waking up) {share}"),
        (Some(tid), Some(comm)) => format!("{comm} ({tid}) {share}"),
        (Some(tid), None) => format!("thread {tid} {share}"),
        (None, _) => format!("unknown {share}"),
    }
}

/// Time that a thread waited for a CPU that matching threads used.
pub(super) fn waited_behind(thread: &ThreadAccount, is_meant: impl Fn(u32) -> bool) -> f64 {
    let had = thread.cpu_had.iter().filter(|by| by.tid.is_some_and(&is_meant)).map(|by| by.share);
    thread.ns_in(ThreadState::Runnable) as f64 * had.fold(0.0, |sum, share| sum + share)
}
