//! Time that threads lost outside of waits for completions: blocked in submission or in synchronous calls, or waiting
//! for a CPU.

use super::cpu::waited_behind;
use super::reasons::{is_apart, is_of_storage, is_wait, name};
use super::{Check, Matter, RULE, Rule, synchronous, workers};
use iotrail_base::words::{count, list, percent, plural, span};
use iotrail_schema::account::{Bound, BoundOf, Reason, Role, ThreadAccount, ThreadRow, ThreadState};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::syscall::{self, Wait, Work};
use iotrail_schema::trace_record::{RingRecord, TraceRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Within less time, single events dominate.
const ENOUGH_NS: u64 = 1_000_000;
/// Smaller shares of a thread's time are not reported.
const LITTLE: f64 = 0.01;
/// The same for synchronous calls, which programs make at start-up anyway.
const LITTLE_SYNCHRONOUS: f64 = 0.05;
/// The same for page faults, which are frequent at start-up.
const LITTLE_FAULTS: f64 = 0.2;
/// The same for times apportioned by samples.
const LITTLE_SAMPLED: f64 = 0.1;
const ENOUGH_SAMPLED_NS: u64 = 20_000_000;
/// Fewer calls usually occur only at start-up.
const FEW_CALLS: u64 = 3;
/// Maximum number of reasons named in a text.
const NAMED: usize = 2;

/// Time that threads were blocked in one call.
#[derive(Default)]
struct Blocked {
    ns: u64,
    /// Wall time of these threads.
    wall_ns: u64,
    /// The same without their waits for a CPU, which other programs can prolong arbitrarily.
    with_cpu_ns: u64,
    /// Thread IDs.
    threads: BTreeSet<u32>,
    /// The thread that was blocked longest.
    thread: (String, u32),
    longest_ns: u64,
    /// Blocked time not apportioned by samples.
    exact_ns: u64,
    /// In descending order.
    reasons: Vec<(Option<Reason>, u64)>,
}

impl Blocked {
    fn share(&self) -> f64 {
        self.ns as f64 / self.wall_ns.max(1) as f64
    }

    /// The share that the thresholds apply to.
    fn weight(&self) -> f64 {
        self.ns as f64 / self.with_cpu_ns.max(1) as f64
    }

    /// `62 % waiting for a request tag and 6 % waiting for the file's lock`.
    fn by_reason(&self) -> String {
        let one = |(reason, ns): &(Option<Reason>, u64)| {
            let on = reason.as_ref().map_or("in short waits".into(), |reason| format!("waiting for {}", name(reason)));
            format!("{} {on}", percent(*ns as f64 / self.wall_ns.max(1) as f64))
        };
        list(&self.reasons.iter().take(NAMED).map(one).collect::<Vec<_>>())
    }

    fn who(&self) -> String {
        match self.threads.len() {
            1 => format!("thread {} ({})", self.thread.1, self.thread.0),
            n => plural(n, "thread"),
        }
    }

    /// `one` for a single thread, otherwise `several`.
    fn either(&self, one: &'static str, several: &'static str) -> &'static str {
        if self.threads.len() == 1 { one } else { several }
    }

    fn bound(&self) -> Option<Bound> {
        Some(Bound { of: BoundOf::ThreadTime, share: self.share().min(1.0) })
    }
}

/// Time blocked in this call for matching reasons; `None` if negligible.
fn blocked(t: &TraceRecord, syscall: Option<&str>, is_meant: fn(Option<&Reason>) -> bool) -> Option<Blocked> {
    let of = |row: &&ThreadRow| row.state == ThreadState::Blocked && row.syscall.as_deref() == syscall;
    let mut sum = Blocked::default();
    let mut reasons: BTreeMap<Option<Reason>, u64> = BTreeMap::new();
    let mut most = 0;
    for thread in t.own_threads() {
        let rows = thread.rows.iter().filter(of).map(|row| (row.reason.as_ref(), row));
        let rows: Vec<(Option<&Reason>, &ThreadRow)> = rows.filter(|(reason, _)| is_meant(*reason)).collect();
        let ns: u64 = rows.iter().map(|(_, row)| row.ns).sum();
        if ns == 0 {
            continue;
        }
        rows.iter().for_each(|(reason, row)| *reasons.entry(reason.cloned()).or_default() += row.ns);
        // Samples apportion a call's time to reasons; its total is exact.
        let is_exact = |row: &ThreadRow| row.exact || is_meant(None);
        sum.exact_ns += rows.iter().filter(|(_, row)| is_exact(row)).map(|(_, row)| row.ns).sum::<u64>();
        sum.longest_ns = rows.iter().filter_map(|(_, row)| row.longest_ns).fold(sum.longest_ns, u64::max);
        (sum.ns, sum.wall_ns) = (sum.ns + ns, sum.wall_ns + thread.wall_ns);
        sum.threads.insert(thread.tid);
        sum.with_cpu_ns += thread.wall_ns - thread.ns_in(ThreadState::Runnable).min(thread.wall_ns);
        if ns > most {
            (most, sum.thread) = (ns, (thread.comm.clone(), thread.tid));
        }
    }
    sum.reasons = reasons.into_iter().collect();
    sum.reasons.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let exact = sum.exact_ns as f64 / sum.with_cpu_ns.max(1) as f64;
    let sampled = sum.weight() >= LITTLE_SAMPLED && sum.ns >= ENOUGH_SAMPLED_NS;
    (sum.ns >= ENOUGH_NS && (exact >= LITTLE || sampled)).then_some(sum)
}

/// The file system of most traced requests that have a file.
fn filesystem(t: &TraceRecord) -> Option<&str> {
    t.total.files.iter().find_map(|f| f.filesystem.as_deref())
}

/// The remedy for a call that submits.
fn advice(t: &TraceRecord, reason: &Reason, syscall: &str) -> String {
    use Reason::*;
    let elsewhere = match syscall {
        "io_submit" => {
            "use io_uring, whose buffered requests do not block the submitter; or set RWF_NOWAIT, with which the request fails with EAGAIN instead of \
             blocking"
        }
        _ => {
            "set IOSQE_ASYNC, which punts the request to io-wq at once; or use IORING_SETUP_SQPOLL, with which the SQPOLL thread blocks instead"
        }
    };
    match reason {
        RequestTag => {
            let queue = t.total.files.iter().find_map(|f| Some((f.queue_device.as_deref()?, f.nr_requests?)));
            let limit = match queue {
                Some((device, n)) => format!("than the nr_requests of {device} ({n}, /sys/block/{device}/queue/nr_requests)"),
                None => "than the device's nr_requests (/sys/block/DEVICE/queue/nr_requests)".into(),
            };
            format!(
                "keep fewer requests in flight {limit}, submit smaller batches, or raise nr_requests; or submit from another thread or from the \
                 SQPOLL thread (IORING_SETUP_SQPOLL), which then blocks instead"
            )
        }
        QueueQos => "set the device's wbt_lat_usec to 0, or change io.cost or io.latency of the cgroup".into(),
        CgroupIoLimit => "raise the cgroup's io.max (cgroup v1: blkio.throttle.*), or do less I/O".into(),
        DirectIo | InodeDio | JournalSpace | JournalCommit => {
            let on = match filesystem(t) {
                Some(fs) => format!("on {fs}, "),
                None => String::new(),
            };
            format!(
                "{on}a direct write that extends the file or allocates blocks is synchronous: allocate the file with fallocate(2), and overwrite \
                 blocks that were written before; or {elsewhere}"
            )
        }
        DirtyPages => {
            "use O_DIRECT, or call sync_file_range(2) periodically, so that dirty pages stay below vm.dirty_bytes; or raise vm.dirty_bytes and \
             vm.dirty_background_bytes"
                .into()
        }
        PageIo | Writeback | MetadataIo | RwSemaphore | SynchronousBio => {
            let writes = t.total.files.iter().any(|f| f.writes.is_some());
            let blocks = if writes { " on a preallocated file" } else { "" };
            format!("use O_DIRECT{blocks}, because buffered I/O may block in the call; or {elsewhere}")
        }
        CgroupReclaim => "raise the cgroup's memory.high or memory.max, or use less page cache (O_DIRECT, RWF_DONTCACHE)".into(),
        Reclaim => "use less memory or page cache (O_DIRECT, RWF_DONTCACHE)".into(),
        _ => elsewhere.into(),
    }
}

pub const BLOCKED_IN_SUBMISSION: Rule = Rule {
    code: "blocked_in_submission",
    about: "threads were blocked in io_uring_enter(2) or io_submit(2) for at least 1 % of their time (at least 1 ms). Waits for completions do not count",
    matter: Matter::Time,
    checks: &[Check::Each(in_submission)],
    ..RULE
};

fn in_submission(t: &TraceRecord) -> Vec<Finding> {
    let one = |syscall: &str| {
        let sum =
            blocked(t, Some(syscall), |reason| reason.is_some_and(|reason| !is_wait(reason) && !is_apart(reason)))?;
        let longest = match sum.longest_ns {
            0 => String::new(),
            ns => format!(" (at most {} at a time)", span(ns as f64)),
        };
        let why = match sum.reasons.as_slice() {
            [(Some(reason), _)] => format!(", waiting for {}{longest}", name(reason)),
            _ => format!("{longest}: {}", sum.by_reason()),
        };
        let text = format!(
            "{} {} blocked in {syscall}(2) while submitting for {} of {} time{why}",
            sum.who(),
            sum.either("was", "were"),
            percent(sum.share()),
            sum.either("its", "their"),
        );
        let evidence = [("share", sum.share()), ("blocked_ns", sum.ns as f64), ("longest_ns", sum.longest_ns as f64)];
        let remedy = advice(t, sum.reasons.first()?.0.as_ref()?, syscall);
        Some(Finding {
            bound: sum.bound(),
            remedy,
            ..BLOCKED_IN_SUBMISSION.finding(Severity::Warning, text, &evidence)
        })
    };
    syscall::ALL.iter().filter(|call| call.work == Some(Work::Submits)).filter_map(|call| one(call.name)).collect()
}

pub const LOCK_CONTENDED: Rule = Rule {
    code: "lock_contended",
    about: "at least 100 times, threads that submit or reap were blocked on a lock of the program. It took at least 10 % of their time",
    matter: Matter::Time,
    advice: "give each thread its own ring; or hold the lock only while you prepare SQEs or reap CQEs, not across io_uring_enter(2) or another call \
             that waits",
    checks: &[Check::Trace(lock_contended)],
    ..RULE
};

/// For a program without rings.
const ADVICE_OF_LOCKS: &str = "do not hold the lock across a call that waits (fsync(2), read(2), write(2)): collect the work under the lock, and \
                               release the lock before the I/O; one fsync(2) makes the writes of several threads durable";

/// With fewer waits, the futex may be a condition variable: its counter can look like a lock.
const ENOUGH_LOCKED: u64 = 100;
const MUCH_LOCKED: f64 = 0.1;

fn lock_contended(t: &TraceRecord) -> Option<Finding> {
    let sum = blocked(t, Some("futex"), |reason| reason == Some(&Reason::Lock))?;
    let locked = || t.own_threads().filter(|thread| thread.rows.iter().any(|row| row.reason == Some(Reason::Lock)));
    let does_io = |row: &ThreadRow| {
        let call = row.syscall.as_deref().and_then(syscall::find);
        call.is_some_and(|call| {
            call.work.is_some() || call.wait.is_some_and(|wait| wait != Wait::Futex && wait != Wait::Sleep)
        })
    };
    let rows = locked().flat_map(|thread| &thread.rows).filter(|row| row.reason == Some(Reason::Lock));
    let sleeps: u64 = rows.filter_map(|row| row.count).sum();
    if sleeps < ENOUGH_LOCKED || sum.share() < MUCH_LOCKED || !locked().flat_map(|thread| &thread.rows).any(does_io) {
        return None;
    }
    let remedy = if t.rings.is_empty() { ADVICE_OF_LOCKS } else { LOCK_CONTENDED.advice };
    let text = format!(
        "{} {} blocked in futex(2) for {} of {} time: another thread held a lock of the program ({} sleeps, {} each, the longest {})",
        sum.who(),
        sum.either("was", "were"),
        percent(sum.share()),
        sum.either("its", "their"),
        count(sleeps as f64),
        span(sum.ns as f64 / sleeps as f64),
        span(sum.longest_ns as f64)
    );
    let evidence = [("share", sum.share()), ("blocked_ns", sum.ns as f64), ("sleeps", sleeps as f64)];
    let f = LOCK_CONTENDED.finding(Severity::Warning, text, &evidence);
    Some(Finding { bound: sum.bound(), remedy: remedy.into(), ..f })
}

pub const SYNCHRONOUS_CALLS: Rule = Rule {
    code: "synchronous_calls",
    about: "threads were blocked on storage in calls that do not submit, or in fsync(2) and similar calls (each called at least \
        three times). This took at least 5 % of the time in which they did not wait for a CPU. Or page faults blocked them for at \
        least 20 % of this time",
    matter: Matter::Time,
    checks: &[Check::Trace(synchronous)],
    ..RULE
};

/// A single finding for all these calls, because a thread blocks in one after another.
fn synchronous(t: &TraceRecord) -> Option<Finding> {
    let is = |syscall: &str, work: Work| syscall::find(syscall).is_some_and(|call| call.work == Some(work));
    let meant = |syscall: Option<&str>| -> fn(Option<&Reason>) -> bool {
        match syscall.is_some_and(|syscall| is(syscall, Work::Syncs)) {
            true => |reason| !reason.is_some_and(is_apart),
            false => |reason| reason.is_some_and(is_of_storage),
        }
    };
    // glibc's threads execute POSIX AIO requests by such calls.
    if t.contexts.iter().any(|c| c.interface == "posix_aio") {
        return None;
    }
    let is_meant = |syscall: &Option<&str>| match syscall {
        Some(syscall) => !is(syscall, Work::Submits) && t.call(syscall).is_none_or(|c| c.count >= FEW_CALLS),
        None => true,
    };
    let rows = t.own_threads().flat_map(|thread| &thread.rows).filter(|row| row.state == ThreadState::Blocked);
    let calls: BTreeSet<Option<&str>> = rows.map(|row| row.syscall.as_deref()).filter(is_meant).collect();
    let of = |syscall: Option<&str>| Some((syscall?.to_owned(), blocked(t, syscall, meant(syscall))?));
    let faults = || Some(("page faults".to_owned(), blocked(t, None, meant(None))?));
    let mut found: Vec<(String, Blocked)> = calls
        .into_iter()
        .filter_map(|syscall| {
            of(syscall).or_else(|| faults().filter(|(_, sum)| syscall.is_none() && sum.weight() >= LITTLE_FAULTS))
        })
        .collect();
    found.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.ns));
    let behind = behind_sync(&found);
    // All shares have the same base: the time of all threads that were blocked in these calls.
    let tids: BTreeSet<u32> = found.iter().flat_map(|(_, sum)| sum.threads.iter().copied()).collect();
    let of_these = || t.own_threads().filter(|thread| tids.contains(&thread.tid));
    let wall_ns = of_these().map(|thread| thread.wall_ns).sum();
    let runnable = |thread: &ThreadAccount| thread.ns_in(ThreadState::Runnable).min(thread.wall_ns);
    let with_cpu_ns = of_these().map(|thread| thread.wall_ns - runnable(thread)).sum();
    for (_, sum) in &mut found {
        (sum.wall_ns, sum.with_cpu_ns, sum.threads) = (wall_ns, with_cpu_ns, tids.clone());
    }
    let (_, largest) = found.first()?;
    let sum = |of: fn(&Blocked) -> f64| found.iter().map(|(_, sum)| of(sum)).sum::<f64>().min(1.0);
    let (share, weight) = (sum(Blocked::share), sum(Blocked::weight));
    // A single long call, such as an open that truncates a file, does not count.
    let without_longest = |(_, sum): &(String, Blocked)| {
        let ns = sum.ns.saturating_sub(sum.longest_ns);
        if sum.longest_ns * 2 >= sum.ns { ns as f64 / sum.with_cpu_ns.max(1) as f64 } else { sum.weight() }
    };
    if weight < LITTLE_SYNCHRONOUS || found.iter().map(without_longest).sum::<f64>() < LITTLE_SYNCHRONOUS {
        return None;
    }
    let one = |(syscall, sum): &(String, Blocked)| {
        let each = t.call(syscall).map(|c| {
            let mean = span(c.blocked_ns as f64 / c.count.max(1) as f64);
            format!(", {} calls, {mean} each", count(c.count as f64))
        });
        let name =
            if syscall.contains(' ') { syscall.clone() } else { format!("{}(2)", syscall.trim_end_matches("64")) };
        format!("{name} {} ({}{})", percent(sum.share()), sum.by_reason(), each.unwrap_or_default())
    };
    let calls: Vec<String> = found.iter().take(NAMED).map(one).collect();
    let text = format!(
        "synchronous calls blocked {} for {} of {} time: {}{}",
        largest.who(),
        percent(share),
        largest.either("its", "their"),
        list(&calls),
        behind.as_deref().unwrap_or_default()
    );
    let largest_is_faults = found.first().is_some_and(|(name, _)| name.contains(' '));
    let syncs = found.iter().any(|(syscall, _)| is(syscall, Work::Syncs));
    // Workers write the file's dirty pages back under its lock.
    let writes_locked = |(name, sum): &&(String, Blocked)| {
        name.contains("write") && sum.reasons.iter().any(|(reason, _)| *reason == Some(Reason::RwSemaphore))
    };
    let behind_writeback = found.first().filter(writes_locked).and_then(|_| workers::behind_writeback(t));
    let remedy = match (t.rings.is_empty(), synchronous::advice(t)) {
        (false, _) if behind_writeback.is_some() => behind_writeback.unwrap_or_default().into(),
        (true, _) if largest_is_faults => FAULTS.into(),
        _ if behind.is_some() => BEHIND_SYNC.into(),
        (true, _) if found.first().is_some_and(|(name, _)| name == "sync" || name == "syncfs") => SYNC_ALL.into(),
        (true, Some(advice)) if syncs => format!("{advice}; sync once for several writes{}", grows(&found)),
        (true, Some(advice)) => advice,
        _ if largest_is_faults => "read this data through the ring instead of a mapping, since the thread submits nothing while it waits for a page; \
                       or populate the mapping before its use (madvise(2) with MADV_POPULATE_READ or MADV_WILLNEED, in another thread)"
            .into(),
        _ if syncs => "submit IORING_OP_FSYNC after the write (IOSQE_IO_LINK), or set RWF_DSYNC on the write, since the thread submits nothing while \
                       it is blocked; sync once for several writes if durability permits"
            .into(),
        _ => "do this I/O through the ring too: the thread submits nothing while it is blocked".into(),
    };
    let blocked_ns: u64 = found.iter().map(|(_, sum)| sum.ns).sum();
    let evidence = [("share", share), ("blocked_ns", blocked_ns as f64)];
    let f = SYNCHRONOUS_CALLS.finding(Severity::Warning, text, &evidence);
    Some(Finding { bound: Some(Bound { of: BoundOf::ThreadTime, share }), remedy, ..f })
}

/// For a program without rings.
const FAULTS: &str = "populate the mapping before its use, in another thread (madvise(2) with MADV_POPULATE_READ or MADV_WILLNEED), or read(2) the data. With \
                      MADV_RANDOM the kernel reads a single page per fault: clear it (MADV_NORMAL) if the program accesses the pages in order";

const SYNC_ALL: &str = "call fsync(2) or fdatasync(2) for each file that must be durable: sync(2) also writes the dirty pages of all other programs and file \
                        systems, syncfs(2) those of one file system";

const BEHIND_SYNC: &str = "collect the data in memory while the other thread syncs, and write it afterwards; or preallocate the file and write it with O_DIRECT; or \
                           sync more often, so that each sync writes less";

/// A thread's writes wait for pages or for the journal while another thread syncs them.
fn behind_sync(found: &[(String, Blocked)]) -> Option<String> {
    use Reason::*;
    let is_sync = |name: &str| syscall::find(name).is_some_and(|call| call.work == Some(Work::Syncs));
    let waits = |(reason, _): &(Option<Reason>, u64)| {
        matches!(reason, Some(Writeback | JournalSpace | JournalCommit | RwSemaphore | PageIo))
    };
    let writes = |(name, sum): &&(String, Blocked)| {
        let is_write = name.trim_start_matches('p').starts_with("write");
        is_write && sum.weight() >= LITTLE_SYNCHRONOUS && sum.reasons.first().is_some_and(waits)
    };
    let (name, write) = found.iter().find(writes)?;
    let (sync, other) = found.iter().find(|(name, sum)| is_sync(name) && sum.threads.is_disjoint(&write.threads))?;
    Some(format!(
        ". {}(2) waits for pages or the journal while thread {} ({}) writes them in {sync}(2)",
        name.trim_end_matches("64"),
        other.thread.1,
        other.thread.0
    ))
}

/// fsync(2) waited for metadata, which fdatasync(2) writes only if the file's size or blocks changed.
fn grows(found: &[(String, Blocked)]) -> &'static str {
    let of_metadata = |reason: &Option<Reason>| {
        matches!(reason, Some(Reason::MetadataIo | Reason::JournalCommit | Reason::JournalSpace))
    };
    let syncs = |name: &str| name == "fsync" || name == "fdatasync";
    match found.iter().any(|(name, sum)| syncs(name) && sum.reasons.iter().any(|(reason, _)| of_metadata(reason))) {
        true => {
            ". A file that grows writes its metadata each time: write the file in full length first, overwrite it, and use fdatasync(2). A journal commit of \
             ext4 also writes the new data of other files"
        }
        false => "",
    }
}

/// Minimum share of time in which a quota kept runnable threads off their CPUs.
const QUOTA: f64 = 0.02;

pub const CPU_QUOTA: Rule = Rule {
    code: "cpu_quota",
    about: "a cgroup's CPU quota throttled threads for at least 2 % of their time",
    advice: "raise the cgroup's cpu.max (cgroup v1: cpu.cfs_quota_us; containers: --cpus), or reduce the program's CPU use; a used-up quota \
             throttles the threads until its period (default 100 ms) ends",
    matter: Matter::Time,
    checks: &[Check::Trace(cpu_quota)],
    ..RULE
};

fn cpu_quota(t: &TraceRecord) -> Option<Finding> {
    let throttled = |thread: &ThreadAccount| {
        thread.rows.iter().filter(|row| row.state == ThreadState::Throttled).map(|row| row.ns).sum::<u64>()
    };
    let all = t.account.iter().flat_map(|a| &a.threads);
    let held: Vec<(&ThreadAccount, u64)> =
        all.map(|thread| (thread, throttled(thread))).filter(|(_, ns)| *ns > 0).collect();
    let ns: u64 = held.iter().map(|(_, ns)| ns).sum();
    let wall: u64 = held.iter().map(|(thread, _)| thread.wall_ns).sum();
    let share = ns as f64 / wall.max(1) as f64;
    if share < QUOTA {
        return None;
    }
    let (most, _) = held.iter().max_by_key(|(_, ns)| *ns)?;
    let text = format!(
        "the cgroup's CPU quota throttled {} for {} of their time ({} in total; {} ({}) was throttled most), even if CPUs were idle",
        plural(held.len(), "thread"),
        percent(share),
        span(ns as f64),
        most.comm,
        most.tid
    );
    let bound = Some(Bound { of: BoundOf::ThreadTime, share });
    let f = CPU_QUOTA.finding(Severity::Warning, text, &[("share", share), ("throttled_ns", ns as f64)]);
    Some(Finding { bound, ..f })
}

/// Share of a thread's time in which it waited for a CPU used by the other thread.
const CONTENDED: f64 = 0.05;
/// Within less time, a few time slices dominate: the SQPOLL thread starts on the CPU of the thread that created it.
const ENOUGH_WAITED_NS: f64 = 20e6;

pub const SQPOLL_SHARES_CPU: Rule = Rule {
    code: "sqpoll_shares_cpu",
    about: "for at least 5 % of its time, a thread of the process or an io-wq worker waited for a CPU that the SQPOLL thread used. These waits were at least half of its CPU waits. Or the SQPOLL thread waited for these threads in the same way. Or both may run on only \
        one CPU",
    advice: "give the SQPOLL thread its own CPU with IORING_SETUP_SQ_AFF and sq_thread_cpu; or allow more CPUs (taskset, cpuset, cpu.max); or set a \
             shorter sq_thread_idle, so that the SQPOLL thread sleeps sooner; or use a ring without SQPOLL",
    matter: Matter::Time,
    checks: &[Check::Ring(sqpoll_shares_cpu)],
    ..RULE
};

/// Minimum share of the waits for a CPU. On a busy machine any two threads reach a smaller share.
const MOST: f64 = 0.5;

pub(super) fn sqpoll_shares_cpu(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let sqpoll = r.sqpoll.as_ref()?;
    let account = t.account.as_ref()?;
    let own = account.threads.iter().find(|thread| thread.tid == sqpoll.tid)?;
    let others = || account.threads.iter().filter(|thread| thread.tgid == r.tgid && thread.role != Role::Sqpoll);
    // On a single CPU the thread waits for all other threads there; the recorded holder is only the last of them.
    let one_cpu = |thread: &ThreadAccount| thread.only_cpu.is_some() && thread.only_cpu == own.only_cpu;
    let share = |thread: &ThreadAccount, ran_ns: u64, one_cpu: bool, is_meant: &dyn Fn(u32) -> bool| {
        let waited = thread.ns_in(ThreadState::Runnable);
        let behind = waited_behind(thread, is_meant);
        let ns = match one_cpu {
            true => waited.min(ran_ns) as f64,
            _ if behind < MOST * waited as f64 => 0.0,
            _ => behind,
        };
        ns / thread.wall_ns.max(1) as f64
    };
    let ran_ns = others().map(|thread| thread.ns_in(ThreadState::Running)).sum();
    let sq = share(own, ran_ns, others().any(one_cpu), &|tid| others().any(|thread| thread.tid == tid));
    let of_own = |thread| share(thread, own.ns_in(ThreadState::Running), one_cpu(thread), &|tid| tid == own.tid);
    let (other, thread) = others().map(|thread| (of_own(thread), thread)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let most = sq.max(other);
    let waited_ns = (sq * own.wall_ns as f64).max(other * thread.wall_ns as f64);
    if most < CONTENDED || waited_ns < ENOUGH_WAITED_NS {
        return None;
    }
    let text = format!(
        "the SQPOLL thread (tid {}) shares a CPU with its program. Thread {} ({}) spent {} of its time waiting for a CPU that the SQPOLL thread used. The SQPOLL thread spent {} of its time waiting for a CPU that the program's threads used",
        sqpoll.tid,
        thread.tid,
        thread.comm,
        percent(other),
        percent(sq),
    );
    let evidence = [("sqpoll_waited", sq), ("submitter_waited", other)];
    // An idle worker does not delay requests.
    let idle = |row: &&ThreadRow| row.reason == Some(Reason::IowqIdle);
    let idle_ns: u64 = thread.rows.iter().filter(idle).map(|row| row.ns).sum();
    let busy = thread.wall_ns.saturating_sub(idle_ns).max(1);
    let of_busy = (other * thread.wall_ns as f64 / busy as f64).min(1.0);
    let most = if other >= CONTENDED { most.max(of_busy) } else { most };
    let f = SQPOLL_SHARES_CPU.finding(Severity::Warning, text, &evidence);
    Some(Finding { bound: Some(Bound { of: BoundOf::ThreadTime, share: most }), ..f })
}
