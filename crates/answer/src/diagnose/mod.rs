//! Diagnoses: problems in a trace or a measurement, with their evidence and remedy. [`RULES`] lists all of them.
//!
//! A rule fires only on measured values and with enough samples. Flags never suffice. No rule fires for a program that
//! waits in the kernel, in batches, on the CPU of its interrupts.

mod batch;
mod blocked;
mod buffers;
mod calls;
mod connects;
mod cpu;
mod failed_calls;
mod failures;
mod measurement;
mod memory;
pub mod notify;
mod order;
mod polling;
mod posix_aio;
mod reaping;
mod reasons;
mod results;
mod small_calls;
mod sockets;
mod sqpoll;
pub mod state;
pub mod synchronous;
#[cfg(test)]
mod tests;
pub mod threads;
mod unfinished;
mod waits;
mod workers;

use std::cmp::Reverse;

use crate::callsites;
pub use cpu::WAITING_FOR_CPU;
pub use failed_calls::moving_failed as failed_call;
pub use failures::unexpected as unexpected_errors;
use iotrail_base::words::{count, plural, so_many};
use iotrail_schema::account::{Bound, BoundOf, Mode, RequestStage, ThreadAccount, ThreadRow, ThreadState};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::measurement::{Measurement, StageRecord};
use iotrail_schema::syscall::{self, Wait};
use iotrail_schema::trace_record::{OpcodeRecord, RingRecord, TraceRecord};
use reasons::Waits;
pub use reasons::name as reason_name;

/// Fewer completions do not show a pattern: 5 % of 100 are five.
const ENOUGH: u64 = 100;

/// With fewer traced completions, a share of one half or more is indistinguishable from chance: with 50, its standard
/// deviation is 7 %. Lower than [`ENOUGH`], because they are a sample.
const ENOUGH_FOLLOWED: u64 = 50;

/// Fewer events (wake-ups, kicks, completions delivered by a tick, …) do not show a pattern.
const ENOUGH_EVENTS: u64 = 20;

/// All rules. Findings without a bound keep this order, in which the costliest comes first.
pub const RULES: &[Rule] = &[
    state::PENDING_WORK_NOT_RUN,
    state::OVERFLOW_NOT_FLUSHED,
    state::UNSUBMITTED,
    state::UNREAPED_ASLEEP,
    state::HELD_BY_REQUESTS,
    state::NAGLE,
    state::UNREAD_SOCKET,
    sockets::SOCKET_DROPS,
    sockets::SMALL_SEND_BUFFER,
    state::CGROUP_IO_MAX,
    state::MEMORY_LIMIT,
    state::DISTANT_TIMEOUT,
    state::NO_PROGRESS,
    notify::STRANDED,
    notify::KICK_STORM,
    measurement::DEVICE_IRQ,
    measurement::IOWQ,
    measurement::NOT_GRANTED,
    failed_calls::SETUP_FAILED,
    failed_calls::SUBMISSION_FAILED,
    waits::DEADLOCK,
    calls::EPOLL_SPINS,
    calls::EMPTY_ENTERS,
    calls::WAITS_TIME_OUT,
    calls::EPOLL_CTL_PER_OPERATION,
    calls::SETUP_PER_OPERATION,
    failed_calls::CALLS_FAIL,
    small_calls::SMALL_CALLS,
    memory::READS_FAULT,
    posix_aio::POSIX_AIO_SERIAL,
    blocked::BLOCKED_IN_SUBMISSION,
    blocked::LOCK_CONTENDED,
    blocked::SYNCHRONOUS_CALLS,
    connects::SLOW_CONNECTS,
    blocked::CPU_QUOTA,
    blocked::SQPOLL_SHARES_CPU,
    notify::WRONG_CORE,
    cpu::WAITING_FOR_CPU,
    threads::REAPED_ELSEWHERE,
    polling::IOPOLL_WITHOUT_QUEUES,
    polling::FAULTING_POLLER,
    polling::CHATTY_POLLER,
    polling::IDLE_POLLER,
    sqpoll::SQPOLL_NAPPING,
    sqpoll::SQPOLL_SPINNING,
    sqpoll::SQPOLL_SHARED,
    batch::ONE_PER_ENTER,
    batch::CAPPED_BATCH,
    results::MULTISHOT_ENDED,
    results::CQ_OVERFLOW,
    reaping::LEFT_LYING,
    results::BUFFERS_EXHAUSTED,
    failures::SUBMITTER_EXITED,
    buffers::BAD_BUFFERS,
    failures::REFUSED_BY_POLICY,
    failures::ERRORS,
    failures::REQUESTS_FAIL,
    failures::LINKED_TIMEOUTS_EXPIRE,
    failures::TIMEOUTS_END_EARLY,
    results::COPIED_ZERO_COPY,
    results::OFFSET_IGNORED,
    results::SHORT_READS,
    results::SHORT_WRITES,
    workers::PUNTED,
    workers::IOWQ_QUEUE,
    workers::IOWQ_FANOUT,
    order::DELIVERED_OUT_OF_ORDER,
    order::REORDERED,
    unfinished::NEVER_COMPLETED,
    memory::UNREGISTERED_IN_FLIGHT,
    memory::OVERLAPPING_BUFFERS,
];

/// The definition of one kind of finding.
pub struct Rule {
    /// Stable name.
    pub code: &'static str,
    /// The condition, as docs/formats.md states it.
    pub about: &'static str,
    pub rests_on: RestsOn,
    pub matter: Matter,
    /// The remedy; empty if each finding has its own.
    advice: &'static str,
    checks: &'static [Check],
    /// Why the absence of this finding in a trace proves nothing.
    unjudged: fn(&TraceRecord) -> Option<String>,
}

/// Defaults for most rules.
const RULE: Rule = Rule {
    code: "",
    about: "",
    rests_on: RestsOn::Events,
    matter: Matter::Work,
    advice: "",
    checks: &[],
    unjudged: |_| None,
};

/// The base of a finding's share. The finding reports its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestsOn {
    /// All completions.
    Completions,
    /// Completions traced end to end, usually a sample.
    Followed,
    Requests,
    /// Not a share: the rule counts single events.
    Events,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matter {
    /// Data is lost or corrupt, or a request failed. These warnings come first.
    Data,
    /// The kernel or the program does unnecessary work.
    Work,
    /// The rule compares times, which are meaningless on an emulated machine.
    Time,
}

/// A rule's function, by its input.
enum Check {
    Trace(fn(&TraceRecord) -> Option<Finding>),
    /// Evaluated per ring: see [`of_rings`].
    Ring(fn(&TraceRecord, &RingRecord) -> Option<Finding>),
    Each(fn(&TraceRecord) -> Vec<Finding>),
    Measurement(fn(&Measurement) -> Option<Finding>),
}

impl Rule {
    /// `evidence`: the numbers behind the text, with units in their names.
    fn finding(&self, severity: Severity, text: String, evidence: &[(&str, f64)]) -> Finding {
        Finding::new(self.code, severity, text, self.advice, evidence)
    }

    /// The same, based on `n` of the rule's [`RestsOn`].
    fn finding_from(&self, n: u64, severity: Severity, text: String, evidence: &[(&str, f64)]) -> Finding {
        self.from(n, self.finding(severity, text, evidence))
    }

    fn from(&self, n: u64, mut f: Finding) -> Finding {
        let (name, what) = match self.rests_on {
            RestsOn::Completions => ("from_completions", "completion"),
            RestsOn::Followed => ("from_followed", "traced completion"),
            RestsOn::Requests => ("from_requests", "request"),
            RestsOn::Events => return f,
        };
        f.text += &format!(". Basis: {}", so_many(n, what));
        f.evidence.insert(name.into(), n as f64);
        f
    }

    /// Whether the rule can apply to a trace.
    pub fn is_of_traces(&self) -> bool {
        !self.checks.iter().all(|c| matches!(c, Check::Measurement(_)))
    }

    /// Why the absence of this finding in this trace proves nothing.
    pub fn unjudged(&self, t: &TraceRecord) -> Option<String> {
        match self.is_meaningless(t) {
            true => Some("this finding compares times, which are meaningless on an emulated machine (no KVM)".into()),
            false => (self.unjudged)(t).or_else(|| self.too_few_traced(t)),
        }
    }

    /// Sampling left too few traced completions for this rule.
    fn too_few_traced(&self, t: &TraceRecord) -> Option<String> {
        let n = t.total.followed.completions;
        let few = self.rests_on == RestsOn::Followed && n < ENOUGH_FOLLOWED && is_sampled(t);
        few.then(|| format!("{} traced, which is too few; {TRACE_ALL}", plural(n as usize, "completion")))
    }

    fn is_meaningless(&self, t: &TraceRecord) -> bool {
        self.matter == Matter::Time && t.total.host.is_emulated()
    }

    fn of_trace(&self, t: &TraceRecord) -> Vec<Finding> {
        let checks = self.checks.iter().filter(|_| !self.is_meaningless(t));
        checks
            .flat_map(|check| match check {
                Check::Trace(of) => of(t).into_iter().collect(),
                Check::Ring(of) => of_rings(t, *of).into_iter().collect(),
                Check::Each(of) => of(t),
                Check::Measurement(_) => Vec::new(),
            })
            .collect()
    }

    fn of_measurement(&self, m: &Measurement) -> Vec<Finding> {
        let of = |check: &Check| match check {
            Check::Measurement(of) => of(m),
            _ => None,
        };
        self.checks.iter().filter_map(of).collect()
    }
}

/// Whether traced requests represent untraced ones.
fn is_sampled(t: &TraceRecord) -> bool {
    t.total.followed.whole < t.total.followed.completions
}

const TRACE_ALL: &str = "trace all requests with --one-in 1";

/// The same for the rule with this code.
pub fn unjudged(t: &TraceRecord, code: &str) -> Option<String> {
    RULES.iter().find(|rule| rule.code == code)?.unjudged(t)
}

/// The condition of `--fail-on`: a single error suffices, regardless of its cost.
pub fn is_present(t: &TraceRecord, code: &str) -> bool {
    let failed = || t.total.errors > 0 || failed_calls::moving_failed(t).is_some();
    t.findings.iter().any(|f| f.code == code) || code == failures::ERRORS.code && failed()
}

/// Findings of a trace, ordered by [`rank`]. The trace's warnings report doubts about its numbers (`doubt.rs`).
pub fn findings(t: &TraceRecord) -> Vec<Finding> {
    let mut all = ranked(|rule| rule.of_trace(t), |of| most_of_threads(t, of));
    callsites::name(&mut all, t.stacks.as_ref());
    all
}

/// Findings of one measurement, ordered by [`rank`].
pub fn findings_of(m: &Measurement) -> Vec<Finding> {
    ranked(|rule| rule.of_measurement(m), |_| 1.0)
}

/// A change that gains less than this share is not worthwhile.
pub const WORTH_A_CHANGE: f64 = 0.02;

/// The largest share of this time in any thread's wall time; makes shares of different times comparable.
fn most_of_threads(t: &TraceRecord, of: BoundOf) -> f64 {
    let looks = t.rings.iter().any(|r| polling::from_user_mode(&r.vehicles) > 0.0);
    let waits = |row: &ThreadRow| {
        let call = row.syscall.as_deref().and_then(syscall::find).and_then(|call| call.wait);
        let for_io = row.reason.as_ref().is_some_and(|reason| reasons::waits_for(reason) != Waits::Other);
        row.state == ThreadState::Blocked && (for_io || call.is_some_and(|wait| wait != Wait::Sleep))
    };
    let counts = |row: &ThreadRow| match of {
        BoundOf::ThreadTime => true,
        BoundOf::Cpu => row.state == ThreadState::Running,
        // This includes a program that polls the CQ ring from user mode.
        BoundOf::Latency | BoundOf::P99 => {
            waits(row) || looks && row.mode != Some(Mode::Kernel) && row.syscall.is_none()
        }
    };
    most_of_wall(t, counts).unwrap_or(1.0)
}

/// The largest share that the matching rows have in any thread's wall time.
fn most_of_wall(t: &TraceRecord, counts: impl Fn(&ThreadRow) -> bool) -> Option<f64> {
    let share = |thread: &ThreadAccount| {
        let ns: u64 = thread.rows.iter().filter(|row| counts(row)).map(|row| row.ns).sum();
        ns as f64 / thread.wall_ns.max(1) as f64
    };
    t.own_threads().map(share).reduce(f64::max)
}

fn ranked(of: impl Fn(&Rule) -> Vec<Finding>, most: impl Fn(BoundOf) -> f64) -> Vec<Finding> {
    let mut all: Vec<(&Rule, Finding)> =
        RULES.iter().flat_map(|rule| of(rule).into_iter().map(move |f| (rule, f))).collect();
    let small = all.iter_mut().filter(|(_, f)| f.bound.is_some_and(|bound| bound.share < WORTH_A_CHANGE));
    small.for_each(|(_, f)| f.severity = Severity::Note);
    // A loop that never sleeps keeps the program's other threads off its CPU.
    let spins = all
        .iter()
        .any(|(rule, f)| f.warns() && [calls::EMPTY_ENTERS.code, calls::EPOLL_SPINS.code].contains(&rule.code));
    all.sort_by_key(|(rule, f)| (spins && f.code == cpu::WAITING_FOR_CPU.code, rank(rule, f, &most)));
    let mut all: Vec<Finding> = all.into_iter().map(|(_, f)| f).collect();
    together_at_most_whole(&mut all);
    all
}

/// Reduces smaller bounds so that time saved by a larger bound is not saved twice. Each thread has its own time.
fn together_at_most_whole(findings: &mut [Finding]) {
    for of in [BoundOf::Latency, BoundOf::Cpu, BoundOf::P99] {
        let mut left = 1.0_f64;
        for bound in findings.iter_mut().filter_map(|f| f.bound.as_mut()).filter(|bound| bound.of == of) {
            bound.share = bound.share.min(left.max(0.0));
            left -= bound.share;
        }
    }
}

/// The bound of a thread's wait of this length.
fn bound_of_wait(t: &TraceRecord, f: Finding, ns: f64) -> Finding {
    let share = (ns / t.total.elapsed_ns.max(1) as f64).min(1.0);
    Finding { bound: Some(Bound { of: BoundOf::ThreadTime, share }), ..f }
}

/// Upper bound on the share of latency saved by faster delivery of this share of completions.
fn of_delivery(stages: Option<&StageRecord>, share: f64) -> Option<Bound> {
    let stages = stages.filter(|stages| stages.total_ns > 0.0)?;
    let share = share * stages.delivery_ns / stages.total_ns;
    Some(Bound { of: BoundOf::Latency, share: share.clamp(0.0, 1.0) })
}

/// Failures come first, then the bounds that save most thread time, then findings without a bound, then effects of
/// other programs. Ties keep the order of [`RULES`].
fn rank(rule: &Rule, f: &Finding, most: impl Fn(BoundOf) -> f64) -> (bool, bool, Reverse<Option<u64>>) {
    let is_failure = rule.matter == Matter::Data && f.warns();
    // The bit patterns of non-negative floats sort like the numbers.
    let saved = f.bound.map(|bound| (bound.share * most(bound.of)).to_bits());
    (!is_failure, cpu::is_of_others(f), Reverse(saved))
}

/// The share of request latency spent in these stages.
fn of_stages(t: &TraceRecord, stages: &[RequestStage]) -> Option<Bound> {
    let requests = t.account.as_ref()?.requests.as_ref()?;
    let share = requests.share_at_most(|row| stages.contains(&row.stage));
    (share > 0.0).then_some(Bound { of: BoundOf::Latency, share })
}

/// Combines all rings into one finding: about the ring with the highest cost, with the number of affected rings.
fn of_rings(t: &TraceRecord, rule: fn(&TraceRecord, &RingRecord) -> Option<Finding>) -> Option<Finding> {
    let found = t.rings.iter().filter_map(|r| Some((r, rule(t, r)?)));
    let mut found: Vec<(&RingRecord, Finding)> = found.collect();
    found.sort_by_key(|(r, f)| std::cmp::Reverse((f.warns(), r.completions)));
    let rings = found.len();
    let (ring, mut f) = found.into_iter().next()?;
    f.ring = Some(ring.ring);
    if t.rings.len() > 1 {
        f.text = format!("ring {} of {} ({}): {}", ring.ring, ring.comm, ring.tgid, f.text);
        f.evidence.insert("rings".into(), rings as f64);
    }
    if rings > 1 {
        f.text += &format!(". The finding applies to {rings} of {} rings; this ring is affected most", t.rings.len());
    }
    Some(f)
}

/// Share of a ring's completions posted during submission.
fn inlined(r: &RingRecord) -> f64 {
    let all = r.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::Inline);
    all.map(|v| v.completions).sum::<u64>() as f64 / r.completions.max(1) as f64
}

/// Completions of this opcode with one of these errors.
fn errno(o: &OpcodeRecord, names: &[&str]) -> u64 {
    o.errnos.iter().filter(|e| names.contains(&e.errno.as_str())).map(|e| e.count).sum()
}

/// Time in which the ring was in use, in seconds; if unknown, the traced time, which makes rates over it lower bounds.
/// `None` if no time passed.
fn ring_seconds(t: &TraceRecord, r: &RingRecord) -> Option<f64> {
    let ns = r.active_ns.unwrap_or(t.total.elapsed_ns);
    (ns > 0).then_some(ns as f64 / 1e9)
}

/// Time in which rings were in use, in seconds: the sum over the rings, limited to the traced time. Rates over it are
/// lower bounds.
fn seconds(t: &TraceRecord) -> Option<f64> {
    let active = t.rings.iter().try_fold(0u64, |sum, r| sum.checked_add(r.active_ns?)).filter(|ns| *ns > 0);
    let ns = active.map_or(t.total.elapsed_ns, |ns| ns.min(t.total.elapsed_ns));
    (ns > 0).then_some(ns as f64 / 1e9)
}

/// The time in which a ring was in use is known to a tick of the kernel, rounded up.
const TICKS_MATTER_S: f64 = 0.1;

/// A rate over the time in which rings were in use.
fn rate(per_s: f64, seconds: f64) -> String {
    let at_least = if seconds < TICKS_MATTER_S { "at least " } else { "" };
    format!("{at_least}{}", count(per_s))
}

/// Mean number of requests in flight over these seconds, by Little's law: rate × mean latency. Excludes waits
/// ([`iotrail_path::waits`]) and multishot requests, which have no single latency. `None` without a known latency.
fn on_average<'o>(opcodes: impl Iterator<Item = &'o OpcodeRecord>, seconds: f64) -> Option<f64> {
    let one = |o: &OpcodeRecord| {
        // If all requests are waits, their own mean applies.
        let waits = o.waits.as_ref().filter(|w| w.requests < o.latency_ns.count).map_or(0, |w| w.estimated);
        Some(o.completions.saturating_sub(waits) as f64 / seconds * o.latency_ns.mean? / 1e9)
    };
    opcodes.filter(|o| o.more == 0).filter_map(one).reduce(|sum, n| sum + n)
}

/// The same for requests with some opcodes, while the ring was in use. `None` if too few latencies are known.
fn in_flight(t: &TraceRecord, r: &RingRecord, of: fn(&str) -> bool) -> Option<f64> {
    let these = || r.opcodes.iter().filter(|o| o.more == 0 && of(&o.opcode));
    let known: u64 = these().map(|o| o.latency_ns.count).sum();
    on_average(these(), ring_seconds(t, r)?).filter(|_| known >= ENOUGH_FOLLOWED)
}
