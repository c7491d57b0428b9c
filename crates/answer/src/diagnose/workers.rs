//! Requests punted to io-wq workers, the causes, and the number of workers.

use super::cpu::waited_behind;
use super::errno;
use super::{Check, RULE, RestsOn, Rule, of_stages};
use crate::delivered::{WORTH_SAYING, has};
use iotrail_base::words::{bytes as words_bytes, count, percent, plural, span, three_digits};
use iotrail_schema::account::{Bound, BoundOf, Reason, RequestStage, Role, ThreadAccount};
use iotrail_schema::file::Kind;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::opcode::{READS, SOCKET, SYNCS, WORKER, WRITES, is};
use iotrail_schema::trace_record::{FileRecord, OpcodeRecord, TraceRecord};
use std::collections::BTreeSet;

/// Fewer punted requests do not show a pattern.
const PUNTS: u64 = 50;

pub const PUNTED: Rule = Rule {
    code: "punted",
    about: "at least 5 % (and at least 50) of an opcode's requests were punted to io-wq, each counted once; one finding per opcode and cause",
    rests_on: RestsOn::Requests,
    checks: &[Check::Each(punted_requests)],
    ..RULE
};

/// Requests punted to io-wq: one finding per opcode and cause.
fn punted_requests(t: &TraceRecord) -> Vec<Finding> {
    let mut opcodes: Vec<&OpcodeRecord> = t.total.opcodes.iter().collect();
    opcodes.sort_by_key(|o| std::cmp::Reverse(punts(o)));
    opcodes.retain(|o| !is_refused_polling(t, o));
    let of = |o: &OpcodeRecord| {
        let bound = latency_share(t, o);
        [asked(o), drained(o), would_block(t, o)]
            .into_iter()
            .flatten()
            .map(move |f| Finding { bound, ..f })
            .collect::<Vec<_>>()
    };
    opcodes.into_iter().flat_map(of).collect()
}

/// On an IOPOLL ring, a worker gets EOPNOTSUPP from a device without poll queues. The device is the cause, not the
/// worker.
fn is_refused_polling(t: &TraceRecord, o: &OpcodeRecord) -> bool {
    let polled = t.rings.iter().filter(|r| has(&r.flags, "iopoll"));
    let refused = polled.flat_map(|r| &r.opcodes).filter(|p| p.opcode == o.opcode).map(|p| errno(p, &["EOPNOTSUPP"]));
    refused.sum::<u64>() * 2 > punts(o)
}

/// These requests' share of latency, excluding the workers' own time: an upper bound on what avoiding io-wq can save.
fn latency_share(t: &TraceRecord, o: &OpcodeRecord) -> Option<Bound> {
    let sum = |o: &OpcodeRecord| Some(o.outcomes() as f64 * o.latency_ns.mean?);
    let punted = |o: &OpcodeRecord| Some(sum(o)? * (punts(o) as f64 / o.requests.max(1) as f64).min(1.0));
    let all: f64 = t.total.opcodes.iter().filter_map(sum).sum();
    let all_punted: f64 = t.total.opcodes.iter().filter_map(punted).sum();
    let workers = t.account.iter().flat_map(|a| &a.threads).filter(|thread| thread.role == Role::Iowq);
    let working = workers.flat_map(|thread| &thread.rows).filter(|row| row.reason != Some(Reason::IowqIdle));
    let worked: u64 = working.map(|row| row.ns).sum();
    let saved = 1.0 - worked as f64 / all_punted;
    // The part that `iowq_queue` explains.
    let queued = in_queue(t).map_or(0.0, |bound| bound.share);
    // No thread shortens a wait for a peer or a timer.
    let polled = of_stages(t, &[RequestStage::Poll]).map_or(0.0, |bound| bound.share);
    let share = (punted(o)? / all * saved.max(0.0) - queued).min(1.0 - polled);
    (worked > 0).then_some(Bound { of: BoundOf::Latency, share: share.max(0.0) })
}

/// Number of times that requests were punted.
fn punts(o: &OpcodeRecord) -> u64 {
    o.punted_asked + o.punted_would_block + o.punted_drained
}

/// Requests punted for one cause.
struct Punted {
    requests: f64,
    /// Share of the opcode's requests.
    share: f64,
    hand_overs: u64,
}

/// A request may be punted more than once. How many requests were is known only for traced requests; requests punted
/// exactly once, the usual case, are counted.
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
        true => format!(", {} times in total,", count(punted.hand_overs as f64)),
        false => String::new(),
    };
    let text = format!(
        "{} of the {} requests ({}) were punted to io-wq{again} because {why}. An io-wq worker executes each of them instead of the submitting \
         thread",
        percent(punted.share),
        o.opcode,
        count(punted.requests.round())
    );
    let evidence = [("share", punted.share), ("punted", punted.requests), ("hand_overs", punted.hand_overs as f64)];
    Finding { remedy: remedy.into(), ..PUNTED.finding_from(o.requests, severity, text, &evidence) }
}

fn asked(o: &OpcodeRecord) -> Option<Finding> {
    let punted = share(o.punted_asked, o)?;
    let remedy = "drop IOSQE_ASYNC: the kernel then first tries to issue the request in the submitting thread, and punts the request only if it \
                  would block";
    let mut f = finding(o, &punted, Severity::Warning, "the program requested this (IOSQE_ASYNC)", remedy);
    f.evidence.insert("asked".into(), 1.0);
    Some(f)
}

fn drained(o: &OpcodeRecord) -> Option<Finding> {
    let punted = share(o.punted_drained, o)?;
    let why = "the ring was drained (IOSQE_IO_DRAIN): the kernel punts the draining request and all requests submitted after it";
    let remedy = "order only the requests that need an order: link them (IOSQE_IO_LINK), or submit one after you have reaped the previous \
                  completion; neither affects other requests";
    let mut f = finding(o, &punted, Severity::Warning, why, remedy);
    f.evidence.insert("drained".into(), 1.0);
    Some(f)
}

const NOTHING_HELPS: &str = "if the workers disturb other threads, limit the workers with IORING_REGISTER_IOWQ_MAX_WORKERS and place them with \
                             IORING_REGISTER_IOWQ_AFF; no setting makes this operation run without a worker";

/// Operations that always go to a worker although their own system call does not block.
const DIRECT: [(&str, &str); 1] = [("shutdown", "call shutdown(2) in the thread, where it does not block")];

fn would_block(t: &TraceRecord, o: &OpcodeRecord) -> Option<Finding> {
    let punted = share(o.punted_would_block, o)?;
    let of = |traits| is(&o.opcode, traits) && !is(&o.opcode, SOCKET | WORKER);
    let (reads, writes) = (of(READS), of(WRITES));
    let is_meant = |f: &&FileRecord| if reads { f.reads.is_some() } else { f.writes.is_some() };
    let file = t.total.files.iter().find(is_meant).filter(|_| reads || writes);
    let direct = DIRECT.iter().find(|(opcode, _)| *opcode == o.opcode);
    let (severity, why, remedy) = match (o.opcode.as_str(), direct) {
        (_, Some((_, remedy))) => (Severity::Warning, "the kernel always punts this operation", (*remedy).into()),
        _ if file.is_some_and(|f| f.kind == Kind::BlockDevice) => {
            (Severity::Warning, "they could not complete without blocking", of_device(file?))
        }
        _ if reads => (Severity::Warning, "they could not complete without blocking", of_reads(t).into()),
        _ if writes => (
            Severity::Warning,
            "they could not complete without blocking",
            of_filesystem(file.and_then(|f| f.filesystem.as_deref())),
        ),
        (op, _) if is(op, SOCKET) => (
            Severity::Warning,
            "they would have blocked and their files could not be polled",
            "use sockets for these requests: the kernel waits for a pollable file without a worker".into(),
        ),
        (op, _) if is(op, WORKER) => (Severity::Note, "the kernel always punts this operation", of_worker(t, o)),
        _ => (Severity::Note, "this operation runs only in a thread that may block", of_worker(t, o)),
    };
    let remedy = if writes && wait_for_durability(t) { DURABLE.into() } else { remedy };
    let mut f = finding(o, &punted, severity, why, &remedy);
    f.evidence.insert("would_block".into(), 1.0);
    Some(f)
}

/// Below this time, an operation's own call hardly blocks.
const SHORT_NS: f64 = 100_000.0;
/// Data per sync, in bytes: writing more takes longer than the sync itself.
const PER_SYNC: u64 = 16 << 10;

/// The remedy for an operation that always goes to a worker. Empty if nothing needs to change.
fn of_worker(t: &TraceRecord, o: &OpcodeRecord) -> String {
    let mean = o.latency_ns.mean.unwrap_or(f64::INFINITY);
    let written = || t.total.opcodes.iter().filter(|w| is(&w.opcode, WRITES) && !is(&w.opcode, SOCKET));
    let bytes: u64 = written().map(|w| w.bytes).sum();
    match is(&o.opcode, SYNCS) {
        true if bytes > 0 && bytes / o.outcomes().max(1) < PER_SYNC => format!(
            "collect several writes before one fsync (group commit), since one fsync covers all earlier writes to the file, but here it covered only {}; \
             or set RWF_DSYNC on the write, which needs no second request",
            words_bytes(bytes / o.outcomes().max(1))
        ),
        true => String::new(),
        false if mean < SHORT_NS => format!(
            "make the system call in the thread, which costs less than a punt (these requests took {} each on average); or submit several requests \
             together",
            span(mean)
        ),
        false => NOTHING_HELPS.into(),
    }
}

const DURABLE: &str = "write without O_SYNC, O_DSYNC, RWF_SYNC and RWF_DSYNC, with which each write waits until its data is on the disk, and submit \
                       one IORING_OP_FSYNC for several writes if durability permits";

/// Worker time outside of idle waits, for matching reasons.
fn worker_ns(t: &TraceRecord, is_meant: impl Fn(&Reason) -> bool) -> u64 {
    let workers = t.account.iter().flat_map(|a| &a.threads).filter(|thread| thread.role == Role::Iowq);
    let rows = workers.flat_map(|thread| &thread.rows);
    rows.filter(|row| row.reason.as_ref().is_some_and(&is_meant)).map(|row| row.ns).sum()
}

/// Time in which workers with work are blocked.
fn workers_blocked_ns(t: &TraceRecord) -> u64 {
    worker_ns(t, |r| !matches!(r, Reason::IowqIdle | Reason::Woken | Reason::Preempted))
}

/// Workers are blocked mostly by flushes, the journal or writeback, although nothing was synced.
fn wait_for_durability(t: &TraceRecord) -> bool {
    use Reason::*;
    let synced: u64 = t.total.opcodes.iter().filter(|o| is(&o.opcode, SYNCS)).map(handed).sum();
    let durable = worker_ns(t, |r| matches!(r, DeviceFlush | Writeback | JournalCommit | MetadataIo));
    let flushed = worker_ns(t, |r| *r == DeviceFlush);
    let blocked = workers_blocked_ns(t);
    // A write that allocates blocks also waits for the journal, but flushes nothing.
    synced == 0 && flushed > 0 && durable * 2 >= blocked
}

/// A reason below one tenth of the workers' blocked time explains few requests.
const EXPLAINS: u64 = 10;

fn of_reads(t: &TraceRecord) -> &'static str {
    behind_writeback(t).unwrap_or(OF_READS)
}

/// The remedy if workers wait for dirty pages.
pub(super) fn behind_writeback(t: &TraceRecord) -> Option<&'static str> {
    let blocked = workers_blocked_ns(t);
    (worker_ns(t, |r| *r == Reason::Writeback) * EXPLAINS >= blocked.max(1)).then_some(BEHIND_WRITEBACK)
}

const BEHIND_WRITEBACK: &str = "open the file with O_DIRECT in the writer too, or read the file through the page cache. The workers wait for the \
                                writeback of dirty pages: the file is also written through the page cache, and an O_DIRECT read first writes back \
                                the dirty pages in its range";

const OF_READS: &str = "keep fewer requests in flight than the device's nr_requests, and read preallocated files with O_DIRECT. A read blocks if metadata is not in memory, if the request queue is full, or if the file system does not support NOWAIT";

/// Depends on the driver: md, brd and zram accept requests only from a context that may block.
fn of_device(f: &FileRecord) -> String {
    let device = f.path.as_deref().or(f.queue_device.as_deref()).unwrap_or("the device");
    format!(
        "use plain pread(2) or pwrite(2), which cost less than a punt: the driver of {device} does not support NOWAIT, so each request is punted, or \
         its request queue is full (nr_requests); or limit the workers with IORING_REGISTER_IOWQ_MAX_WORKERS and place them with \
         IORING_REGISTER_IOWQ_AFF"
    )
}

/// The file system determines which writes block.
fn of_filesystem(name: Option<&str>) -> String {
    let direct = "use O_DIRECT, and overwrite blocks that were written before (from Linux 6.12 on, it is enough to fallocate(2) them)";
    let too = "and so is an O_DIRECT write that extends the file or allocates blocks";
    match name {
        Some("xfs") => format!("{direct}. On XFS, a buffered write is punted only if it waits for memory, a lock or an allocation, {too}"),
        Some("btrfs") => {
            "write to allocated blocks of a file without copy-on-write (chattr +C, then fallocate(2)): on btrfs, every other write is punted".into()
        }
        Some(fs @ ("ext4" | "overlay" | "nfs" | "fuse" | "9p" | "ext3" | "ext2" | "vfat" | "f2fs")) => {
            format!("{direct}. On {fs}, each buffered write is punted, {too}")
        }
        Some(fs) => format!("{direct}. On {fs}, a write is punted if it waits for memory, a lock or an allocation, {too}"),
        None => format!("{direct}. On some file systems, such as ext4, each buffered write is punted, {too}"),
    }
}

/// Below this share of latency, the time in io-wq's queue has no finding of its own.
const QUEUED: f64 = 0.1;

pub const IOWQ_QUEUE: Rule = Rule {
    code: "iowq_queue",
    about: "requests spent at least 10 % of all latency in the io-wq queue. At least half of the punted requests were file writes, and two or more were in flight on one file. Or the program limits the workers, and two or more requests per worker were in flight. Or requests (none of them a file write) spent at least half of all latency in the queue, all workers were blocked, and at least four more requests than workers were in flight",
    rests_on: RestsOn::Requests,
    advice: "write more bytes per request, spread the writes over several files, or use O_DIRECT on blocks that were written before: additional \
             in-flight writes to the same file only wait",
    checks: &[Check::Trace(queued)],
    ..RULE
};

/// Requests punted to io-wq.
fn handed(o: &OpcodeRecord) -> u64 {
    punts(o).min(o.requests)
}

/// io-wq serialises buffered writes to a regular file (`io_wq_hash_work`). A single write only waits for its worker.
fn in_queue(t: &TraceRecord) -> Option<Bound> {
    let requests = t.account.as_ref()?.requests.as_ref()?;
    let writes = |o: &&OpcodeRecord| is(&o.opcode, WRITES) && !is(&o.opcode, SOCKET);
    let (all, written): (u64, u64) =
        (t.total.opcodes.iter().map(handed).sum(), t.total.opcodes.iter().filter(writes).map(handed).sum());
    // If there are more workers than files, these writes do not wait for each other in the queue.
    let files = t.total.files.iter().filter(|f| f.kind == Kind::File && f.writes.is_some()).count() as u64;
    let on_file = t.total.files.iter().filter_map(|f| Some(f.writes?.requests.total)).reduce(f64::max);
    // Writes in flight on the busiest file.
    let share = on_file.map_or(1.0, |n| (n / written.max(1) as f64).min(1.0));
    let parallel =
        files > 0 && t.total.other_files.is_none() && t.total.iowq.most_at_once.is_some_and(|most| most > files + 1);
    let serial = written >= PUNTS
        && written * 2 > all
        && requests.latency_sum_ns as f64 * share >= 2.0 * t.total.elapsed_ns as f64
        && !parallel;
    of_stages(t, &[RequestStage::IowqQueue]).filter(|bound| serial && bound.share >= QUEUED)
}

/// At this share of latency or more, workers are missing regardless of the program's other activity.
const MOST_QUEUED: f64 = 0.5;
/// Minimum share of the workers' time spent blocked: if workers run or idle, no more are needed.
const MOSTLY: f64 = 0.8;
/// Mean number of requests waiting for a worker.
const MISSING: f64 = 4.0;

/// io-wq creates a worker when all are blocked, unless a limit prevents it.
fn too_few(t: &TraceRecord) -> Option<Finding> {
    let requests = t.account.as_ref()?.requests.as_ref()?;
    let most = t.total.iowq.most_at_once.filter(|most| *most > 0)?;
    let writes: u64 = t.total.opcodes.iter().filter(|o| o.opcode.starts_with("write")).map(handed).sum();
    let punted: u64 = t.total.opcodes.iter().map(handed).sum();
    let bound = of_stages(t, &[RequestStage::IowqQueue])?;
    let in_flight = requests.latency_sum_ns as f64 / t.total.elapsed_ns.max(1) as f64;
    let calls = t.rings.iter().filter_map(|r| r.register_calls.as_ref()).flatten();
    let by_program = calls.into_iter().any(|call| call.operation == "iowq_max_workers");
    let entries = t.rings.iter().map(|r| u64::from(r.sq_entries)).max().unwrap_or(u64::MAX);
    let default = (WORKERS_BY_DEFAULT * u64::from(t.total.host.cpus)).min(entries);
    let workers = t.account.iter().flat_map(|a| &a.threads).filter(|thread| thread.role == Role::Iowq);
    let wall_ns: u64 = workers.map(|thread| thread.wall_ns).sum();
    let blocked_ns = workers_blocked_ns(t);
    let all_block = blocked_ns > 0 && blocked_ns as f64 >= MOSTLY * wall_ns as f64;
    let are_missing = match by_program {
        true => bound.share >= QUEUED && in_flight >= 2.0 * most as f64 && (punted >= PUNTS || all_block),
        false => bound.share >= MOST_QUEUED && in_flight >= most as f64 + MISSING && all_block && writes == 0,
    };
    if !are_missing || (default == 0 && !by_program) {
        return None;
    }
    let (limit, remedy) = match () {
        () if by_program => (" ran at a time, the limit that the program set (IORING_REGISTER_IOWQ_MAX_WORKERS)", MORE),
        () if most >= default => {
            (" ran at a time, io-wq's default limit for files (4 per CPU, at most the SQ entries)", MORE)
        }
        () => (
            " at a time",
            "raise pids.max of the cgroup (containers: --pids-limit; services: TasksMax=) and RLIMIT_NPROC: each worker is a thread; or keep \
             blocking requests out of io-wq (submit requests on sockets and pipes without IOSQE_ASYNC)",
        ),
    };
    let text = format!(
        "requests spent {} of their latency in the io-wq queue: at most {}{limit}, for {} requests in flight on average{}",
        percent(bound.share),
        plural(most as usize, "worker"),
        three_digits(in_flight),
        if remedy == MORE { "" } else { ". All workers were blocked, and io-wq could not create another" }
    );
    let evidence = [("share", bound.share), ("punted", punted as f64), ("in_flight", in_flight)];
    let f = IOWQ_QUEUE.finding_from(punted, Severity::Warning, text, &evidence);
    Some(Finding { bound: Some(bound), remedy: remedy.into(), ..f })
}

const MORE: &str = "raise the limit with IORING_REGISTER_IOWQ_MAX_WORKERS (bounded work: files; unbounded work: sockets and the rest) to the \
                    number of requests that may block at the same time";

/// For files, per CPU.
const WORKERS_BY_DEFAULT: u64 = 4;

fn queued(t: &TraceRecord) -> Option<Finding> {
    let Some(bound) = in_queue(t) else { return too_few(t) };
    let punted: u64 = t.total.opcodes.iter().map(handed).sum();
    let durable = wait_for_durability(t);
    let why = if durable { "each write occupies its worker until its data is on the disk, and " } else { "" };
    let text = format!(
        "requests spent {} of their latency in the io-wq queue: {why}io-wq runs the writes of a file one at a time. Exceptions are O_DIRECT writes on a file system that supports parallel writes",
        percent(bound.share)
    );
    let evidence = [("share", bound.share), ("punted", punted as f64)];
    let mut f = IOWQ_QUEUE.finding_from(punted, Severity::Warning, text, &evidence);
    if durable {
        f.remedy = DURABLE.into();
    }
    Some(Finding { bound: Some(bound), ..f })
}

/// Concurrent workers per CPU: one may run and one may wait; further workers wait for these.
const WORKERS_PER_CPU: u64 = 2;
/// Fewer threads do not burden any machine.
const WORKERS: u64 = 8;
/// This many burden the machine even if they only wait for a device.
const FAR_TOO_MANY_PER_CPU: u64 = 32;

pub const IOWQ_FANOUT: Rule = Rule {
    code: "iowq_fanout",
    about: "at least two workers per CPU at a time (and at least eight). The finding does not apply if the workers waited longer for storage or for peers than for CPUs and locks, unless there were 32 or more per CPU",
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
    // Workers that wait concurrently for a device or a peer are the purpose of io-wq.
    let locks = worker_ns(t, |r| matches!(r, Reason::RwSemaphore | Reason::Mutex)) as f64;
    let overlapped = workers_blocked_ns(t) as f64 - locks;
    let waited = waited_for_each_other(t);
    let contended = locks + waited.map_or(0.0, |(ns, _)| ns);
    if overlapped > contended && most < FAR_TOO_MANY_PER_CPU * cpus {
        return None;
    }
    let others = match t.total.iowq.workers {
        all if all > most => format!(" ({all} different workers in total)"),
        _ => String::new(),
    };
    let text = format!(
        "up to {most} io-wq workers at a time on {cpus} CPUs{others}. The workers compete with one another and with the submitting threads for the \
         CPUs, and for the file's locks"
    );
    let why = punted_requests(t).into_iter().map(|f| f.remedy).find(|remedy| !remedy.is_empty());
    let keep_out = why.map(|why| format!("keep the requests out of io-wq: {why}; or ")).unwrap_or_default();
    let remedy = format!(
        "{keep_out}limit the workers with IORING_REGISTER_IOWQ_MAX_WORKERS (bounded work: files; unbounded work: sockets and the rest), \
         starting at {cpus}"
    );
    let evidence = [("workers_at_once", most as f64), ("workers", t.total.iowq.workers as f64), ("cpus", cpus as f64)];
    let f = IOWQ_FANOUT.finding_from(punted.max(t.total.iowq.completions), Severity::Warning, text, &evidence);
    Some(Finding { remedy, bound: waited.map(|(_, bound)| bound), ..f })
}

/// Time in which workers waited for a CPU that another worker used, and its share of their time.
fn waited_for_each_other(t: &TraceRecord) -> Option<(f64, Bound)> {
    let all = || t.account.iter().flat_map(|a| &a.threads).filter(|thread| thread.role == Role::Iowq);
    let tids: BTreeSet<u32> = all().map(|thread| thread.tid).collect();
    let wall: u64 = all().map(|thread| thread.wall_ns).sum();
    let behind = |thread: &ThreadAccount| waited_behind(thread, |tid| tids.contains(&tid));
    let ns: f64 = all().map(behind).sum();
    (wall > 0).then(|| (ns, Bound { of: BoundOf::ThreadTime, share: (ns / wall as f64).min(1.0) }))
}
