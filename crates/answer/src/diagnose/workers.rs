//! What goes to io-wq's worker threads, why, and to how many of them.

use super::{Check, RULE, RestsOn, Rule};
use crate::delivered::WORTH_SAYING;
use iotrail_base::words::{count, percent};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::opcode::{READS, SOCKET, WORKER, WRITES, is};
use iotrail_schema::trace_record::{OpcodeRecord, TraceRecord};

/// Fewer requests in a worker are no habit.
const PUNTS: u64 = 50;

pub const PUNTED: Rule = Rule {
    code: "punted",
    about: "5 % of an opcode's requests, 50 or more, went to io-wq, however often each; one finding for each opcode and cause",
    rests_on: RestsOn::Requests,
    checks: &[Check::Each(punted)],
    ..RULE
};

/// Requests that were handed to io-wq: one finding for each opcode and cause.
fn punted(t: &TraceRecord) -> Vec<Finding> {
    let mut opcodes: Vec<&OpcodeRecord> = t.total.opcodes.iter().collect();
    opcodes.sort_by_key(|o| std::cmp::Reverse(punts(o)));
    opcodes.into_iter().flat_map(|o| [asked(o), drained(o), would_block(o)]).flatten().collect()
}

/// Times that a request was handed over.
fn punts(o: &OpcodeRecord) -> u64 {
    o.punted_asked + o.punted_would_block + o.punted_drained
}

/// What went to io-wq for one cause.
struct Punted {
    requests: f64,
    /// Of the opcode's.
    share: f64,
    hand_overs: u64,
}

/// A request may be handed over more than once. How many there were is known of the followed ones; what is handed over once each, as
/// most are, is counted.
fn share(hand_overs: u64, o: &OpcodeRecord) -> Option<Punted> {
    let all = punts(o) as f64;
    let counted = all.min(o.requests as f64);
    let requests = o.punted_requests.filter(|e| e.ci95[1] < all).map_or(counted, |e| e.total.min(counted));
    let requests = requests * hand_overs as f64 / all.max(1.0);
    let share = requests / o.requests.max(1) as f64;
    (requests >= PUNTS as f64 && share >= WORTH_SAYING).then_some(Punted { requests, share, hand_overs })
}

fn finding(o: &OpcodeRecord, punted: &Punted, severity: Severity, why: &str, remedy: &str) -> Finding {
    let again = match punted.hand_overs as f64 > punted.requests {
        true => format!(", {} times in all,", count(punted.hand_overs as f64)),
        false => String::new(),
    };
    let text = format!(
        "{} of the {} requests ({}) went to io-wq{again} because {why}: a worker thread does each, in place of the one that \
         submitted it",
        percent(punted.share),
        o.opcode,
        count(punted.requests.round())
    );
    let evidence = [("share", punted.share), ("punted", punted.requests), ("hand_overs", punted.hand_overs as f64)];
    Finding { remedy: remedy.into(), ..PUNTED.finding_from(o.requests, severity, text, &evidence) }
}

fn asked(o: &OpcodeRecord) -> Option<Finding> {
    let punted = share(o.punted_asked, o)?;
    let remedy = "without IOSQE_ASYNC the kernel first tries to issue the request in the submitting thread, and goes to a \
                  worker only where that would block";
    let mut f = finding(o, &punted, Severity::Warning, "the program asked for it (IOSQE_ASYNC)", remedy);
    f.evidence.insert("asked".into(), 1.0);
    Some(f)
}

fn drained(o: &OpcodeRecord) -> Option<Finding> {
    let punted = share(o.punted_drained, o)?;
    let why = "the ring was drained (IOSQE_IO_DRAIN): the kernel hands what asked for that, and all that is submitted \
               meanwhile, to workers";
    let remedy = "order only what has to be: a link (IOSQE_IO_LINK), or the next request submitted when the last one's \
                  completion has been seen, leaves the others alone";
    let mut f = finding(o, &punted, Severity::Warning, why, remedy);
    f.evidence.insert("drained".into(), 1.0);
    Some(f)
}

const NOTHING_HELPS: &str = "nothing makes it run without a worker; if the workers are in the way, \
                             IORING_REGISTER_IOWQ_MAX_WORKERS limits and IORING_REGISTER_IOWQ_AFF places them";

fn would_block(o: &OpcodeRecord) -> Option<Finding> {
    let punted = share(o.punted_would_block, o)?;
    let (severity, why, remedy) = match o.opcode.as_str() {
        op if is(op, READS) && !is(op, SOCKET) => (
            Severity::Warning,
            "they could not be done without waiting",
            "a file system without FMODE_NOWAIT does no read without waiting, and a full request queue or metadata that is not in \
             memory makes one wait: O_DIRECT on files laid out beforehand, or fewer requests in flight than the device's nr_requests",
        ),
        op if is(op, WRITES) && !is(op, SOCKET | WORKER) => (
            Severity::Warning,
            "they could not be done without waiting",
            "some file systems do no buffered write without waiting (ext4, overlayfs; XFS and btrfs do), so that every one goes \
             there; else what waits for memory or a lock, or allocates blocks, does: O_DIRECT into a file that is laid out and \
             written before (fallocate alone leaves extents to convert), no two writers that extend one file",
        ),
        op if is(op, SOCKET) => (
            Severity::Warning,
            "they would have blocked and could not be polled",
            "give sockets to these requests: on what can be polled, the kernel waits for readiness without a worker",
        ),
        op if is(op, WORKER) => (Severity::Note, "the kernel always has a worker do this operation", NOTHING_HELPS),
        _ => (Severity::Note, "this operation runs only where it may block", NOTHING_HELPS),
    };
    let mut f = finding(o, &punted, severity, why, remedy);
    f.evidence.insert("would_block".into(), 1.0);
    Some(f)
}

/// Workers at one time for each CPU: one may run and one may wait; what is beyond them waits for those.
const WORKERS_PER_CPU: u64 = 2;
/// Below it, threads are no burden anywhere.
const WORKERS: u64 = 8;

pub const IOWQ_FANOUT: Rule = Rule {
    code: "iowq_fanout",
    about: "two workers for each CPU at one time, and eight at least",
    rests_on: RestsOn::Requests,
    checks: &[Check::Trace(fanout)],
    ..RULE
};

fn fanout(t: &TraceRecord) -> Option<Finding> {
    let (most, cpus) = (t.total.iowq.most_at_once?, u64::from(t.total.host.cpus));
    let punted: u64 = t.total.opcodes.iter().map(|o| punts(o).min(o.requests)).sum();
    if cpus == 0 || most < (WORKERS_PER_CPU * cpus).max(WORKERS) || punted.max(t.total.iowq.completions) < PUNTS {
        return None;
    }
    let others = match t.total.iowq.workers {
        all if all > most => format!(", {all} different ones in all"),
        _ => String::new(),
    };
    let text = format!(
        "{most} io-wq workers at one time on {cpus} CPUs{others}: they contend for the CPUs, for locks of the file and with the \
         threads that submit"
    );
    let remedy = format!(
        "limit them with IORING_REGISTER_IOWQ_MAX_WORKERS (for bounded work, files, and for unbounded work, sockets and the \
         rest), to {cpus} and upwards from there; or keep the requests out of io-wq, as under `punted`"
    );
    let evidence = [("workers_at_once", most as f64), ("workers", t.total.iowq.workers as f64), ("cpus", cpus as f64)];
    let f = IOWQ_FANOUT.finding_from(punted.max(t.total.iowq.completions), Severity::Warning, text, &evidence);
    Some(Finding { remedy, ..f })
}
