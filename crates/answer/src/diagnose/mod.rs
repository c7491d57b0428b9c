//! Diagnoses of a watched program: what stands out in its trace, the figures that show it, and what would change it.
//!
//! | file | about |
//! |---|---|
//! | `notify` | how a thread comes to know: the tick, kicks, the CPU it runs on |
//! | `batch` | how many requests a call submits, how many completions a run carries |
//! | `polling` | what breaks a loop that looks at the ring, and polling of a device that has no queue for it |
//! | `sqpoll` | the submission-queue thread's use of its CPU |
//! | `workers` | what goes to io-wq, and to how many |
//! | `buffers` | memory that the kernel could not use |
//! | `cpu` | submitters that wait for a CPU |
//! | `threads` | who submits, and who waits for it |
//! | `results` | what completions said: no room, no buffer, failed |
//! | `memory` | buffers that requests in flight share, or outlive |
//! | `unfinished` | requests without a completion at the end |
//! | `reaping` | completions that lie in the completion queue |
//! | `order` | completions out of the order of submission, or of readiness |
//!
//! A rule fires on figures that were measured, never on flags alone, and says nothing where there are too few of them. A
//! program that waits in the kernel, in batches, where its interrupts arrive, yields no finding.

mod batch;
mod buffers;
mod cpu;
mod memory;
mod notify;
mod order;
mod polling;
mod reaping;
mod results;
mod sqpoll;
#[cfg(test)]
mod tests;
pub mod threads;
mod unfinished;
mod workers;

use iotrail_base::words::so_many;
use iotrail_schema::finding::Finding;
use iotrail_schema::trace_record::{OpcodeRecord, RingRecord, TraceRecord};

/// Completions below which a share is no habit of the program: 5 % of them are five.
const ENOUGH: u64 = 100;

/// Followed completions below which a share of one half or more is not told from chance: of 50, it is right within 7 %
/// (one standard deviation). Fewer than [`ENOUGH`], since they are a sample.
const ENOUGH_FOLLOWED: u64 = 50;

/// Events below which they are no habit: wake-ups, kicks, completions that a tick carried, …
const ENOUGH_EVENTS: u64 = 20;

/// The codes that findings can have.
pub const CODES: [&str; 26] = [
    "stranded",
    "kick_storm",
    "wrong_core",
    "waiting_for_cpu",
    "reaped_elsewhere",
    "iopoll_without_queues",
    "faulting_poller",
    "chatty_poller",
    "sqpoll_napping",
    "sqpoll_spinning",
    "one_per_enter",
    "capped_batch",
    "cq_overflow",
    "buffers_exhausted",
    "bad_buffers",
    "errors",
    "short_reads",
    "short_writes",
    "punted",
    "iowq_fanout",
    "delivered_out_of_order",
    "reordered",
    "overlapping_buffers",
    "unregistered_in_flight",
    "left_lying",
    "never_completed",
];

/// Those that weigh times, which mean nothing where software runs the machine's instructions.
const OF_TIMES: [&str; 3] = ["waiting_for_cpu", "sqpoll_spinning", "left_lying"];

fn is_meaningless(t: &TraceRecord, code: &str) -> bool {
    t.total.host.is_emulated() && OF_TIMES.contains(&code)
}

/// Why nothing can be said of the finding of this code in this trace, where that is so.
pub fn unjudged(t: &TraceRecord, code: &str) -> Option<String> {
    match is_meaningless(t, code) {
        true => Some("it weighs times, and software runs this machine's instructions: times mean nothing".into()),
        false => results::unjudged(t, code),
    }
}

/// Everything that can be said of one trace: what costs most first. Doubts are not here: the trace has them
/// in its warnings (`answer/doubt.rs`).
pub fn findings(t: &TraceRecord) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    all.extend(of_rings(t, notify::stranded));
    all.extend(notify::kick_storm(t));
    all.extend(notify::wrong_core(t));
    all.extend(cpu::waiting_for_cpu(t));
    all.extend(of_rings(t, threads::reaped_elsewhere));
    all.extend(of_rings(t, polling::iopoll_without_queues));
    all.extend(of_rings(t, polling::faulting));
    all.extend(of_rings(t, polling::chatty));
    all.extend(of_rings(t, sqpoll::napping));
    all.extend(of_rings(t, sqpoll::spinning));
    all.extend(of_rings(t, |t, r| batch::one_per_enter(t, r).or_else(|| batch::one_at_a_time(t, r))));
    all.extend(of_rings(t, batch::capped));
    all.extend(of_rings(t, results::cq_overflow));
    all.extend(of_rings(t, reaping::left_lying));
    all.extend(results::buffers_exhausted(t));
    all.extend(buffers::bad_buffers(t));
    all.extend(results::errors(t));
    all.extend(results::short(t));
    all.extend(workers::punted(t));
    all.extend(workers::fanout(t));
    all.extend(of_rings(t, order::delivered_out_of_order));
    all.extend(order::reordered(t));
    all.extend(unfinished::never_completed(t));
    all.extend(memory::outlived(t));
    all.extend(memory::overlapping(t));
    all.retain(|f| !is_meaningless(t, &f.code));
    all
}

/// What a finding rests on.
#[derive(Debug, Clone, Copy)]
enum From {
    /// So many completions, all that there were.
    Completions(u64),
    /// Followed ones, a sample as a rule.
    Followed(u64),
    Requests(u64),
}

/// A finding says from how many.
fn from(mut f: Finding, from: From) -> Finding {
    let (name, n, what) = match from {
        From::Completions(n) => ("from_completions", n, "completion"),
        From::Followed(n) => ("from_followed", n, "followed completion"),
        From::Requests(n) => ("from_requests", n, "request"),
    };
    f.text += &format!("; from {}", so_many(n, what));
    f.evidence.insert(name.into(), n as f64);
    f
}

type RingRule = fn(&TraceRecord, &RingRecord) -> Option<Finding>;

/// What a rule says of the rings, once: of the one where it costs most, with how many others it holds for.
fn of_rings(t: &TraceRecord, rule: RingRule) -> Option<Finding> {
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
        f.text += &format!(". It holds for {rings} of {} rings, and most for this one", t.rings.len());
    }
    Some(f)
}

/// How long the ring was in use, in seconds, as far as it was counted; where that is not known, as long as it was watched, so that a
/// rate over it is no higher than it was. `None` where no time passed.
fn ring_seconds(t: &TraceRecord, r: &RingRecord) -> Option<f64> {
    let ns = r.active_ns.unwrap_or(t.total.elapsed_ns);
    (ns > 0).then_some(ns as f64 / 1e9)
}

/// How long rings were in use, in seconds: no longer than all of them one after the other. Rates over it are no higher
/// than they were.
fn seconds(t: &TraceRecord) -> Option<f64> {
    let active = t.rings.iter().try_fold(0u64, |sum, r| sum.checked_add(r.active_ns?)).filter(|ns| *ns > 0);
    let ns = active.map_or(t.total.elapsed_ns, |ns| ns.min(t.total.elapsed_ns));
    (ns > 0).then_some(ns as f64 / 1e9)
}

/// Requests of some opcodes in flight, on average while the ring was in use: Little's law, rate × mean latency. Waits
/// ([`iotrail_path::waits`]) and multishot requests, which have no one latency, are left out. `None`: no latency is known.
fn in_flight(t: &TraceRecord, r: &RingRecord, of: fn(&str) -> bool) -> Option<f64> {
    let seconds = ring_seconds(t, r)?;
    let one = |o: &OpcodeRecord| {
        // Where there is nothing else, the mean is of the waits.
        let waits = o.waits.as_ref().filter(|w| w.requests < o.latency_ns.count).map_or(0, |w| w.estimated);
        Some(o.completions.saturating_sub(waits) as f64 / seconds * o.latency_ns.mean? / 1e9)
    };
    let plain = || r.opcodes.iter().filter(|o| o.more == 0 && of(&o.opcode));
    if plain().map(|o| o.latency_ns.count).sum::<u64>() < ENOUGH_FOLLOWED {
        return None;
    }
    let known: Vec<f64> = plain().filter_map(one).collect();
    (!known.is_empty()).then(|| known.iter().sum())
}
