//! Time that threads lost outside of waiting for completions: blocked in submission or in synchronous calls, without a CPU.

use super::{Check, Matter, RULE, Rule};
use iotrail_base::words::{count, list, percent, plural, span};
use iotrail_schema::account::{Account, Bound, BoundOf, Reason, ThreadAccount, ThreadRow, ThreadState};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::syscall::{self, Call, Work};
use iotrail_schema::trace_record::{RingRecord, TraceRecord};
use std::collections::BTreeMap;

/// In less time, single events decide.
const ENOUGH_NS: u64 = 1_000_000;
/// Shares of a thread's time that are no finding.
const LITTLE: f64 = 0.01;
/// The same of synchronous calls, which programs make at their start anyway.
const LITTLE_SYNCHRONOUS: f64 = 0.05;
/// The same of a time that is divided by samples.
const LITTLE_SAMPLED: f64 = 0.1;
const ENOUGH_SAMPLED_NS: u64 = 20_000_000;
/// Calls that are made once at the start, as a rule.
const FEW_CALLS: u64 = 3;
/// Reasons that are named.
const NAMED: usize = 2;

/// Of the program itself: its end, its signals, its debugger.
fn is_apart(reason: &Reason) -> bool {
    use Reason::*;
    matches!(
        reason,
        UringTeardown | UringSetup | Child | Signal | CpuQuota | Exit | Stopped | Ptrace | Frozen | Woken | Preempted
    )
}

/// What a submission that blocks does not wait for.
fn is_wait(reason: &Reason) -> bool {
    matches!(reason, Reason::UringCompletions | Reason::UringSqSpace | Reason::AioEvents)
}

/// Of disks and file systems, not of peers.
fn is_of_storage(reason: &Reason) -> bool {
    use Reason::*;
    matches!(
        reason,
        RequestTag
            | QueueQos
            | CgroupIoLimit
            | QueueFrozen
            | DeviceFlush
            | SynchronousBio
            | JournalCommit
            | JournalSpace
            | DirtyPages
            | Writeback
            | PageIo
            | MetadataIo
            | DirectIo
            | InodeDio
            | RwSemaphore
            | FuseServer
            | NfsServer
            | NinePServer
    )
}

/// Time blocked in one call, of the threads that were.
#[derive(Default)]
struct Blocked {
    ns: u64,
    /// Of these threads.
    wall_ns: u64,
    threads: usize,
    /// Of the thread that was blocked longest.
    thread: (String, u32),
    longest_ns: u64,
    /// Not divided by samples.
    exact_ns: u64,
    /// The longest first.
    reasons: Vec<(Option<Reason>, u64)>,
}

impl Blocked {
    fn share(&self) -> f64 {
        self.ns as f64 / self.wall_ns.max(1) as f64
    }

    /// `62 % for a request tag and 6 % for the file's lock`.
    fn by_reason(&self) -> String {
        let one = |(reason, ns): &(Option<Reason>, u64)| {
            let name = reason.as_ref().map_or("short waits".into(), name);
            format!("{} for {name}", percent(*ns as f64 / self.wall_ns.max(1) as f64))
        };
        list(&self.reasons.iter().take(NAMED).map(one).collect::<Vec<_>>())
    }

    fn whose(&self) -> String {
        match self.threads {
            1 => format!("of thread {} ({})'s time", self.thread.1, self.thread.0),
            n => format!("of the time of {}", plural(n, "thread")),
        }
    }

    fn bound(&self) -> Option<Bound> {
        Some(Bound { of: BoundOf::ThreadTime, share: self.share().min(1.0) })
    }
}

/// The program's own threads.
pub(super) fn threads(t: &TraceRecord) -> impl Iterator<Item = &ThreadAccount> {
    t.account.iter().flat_map(Account::own_threads)
}

/// Blocked time in this call for the reasons that are meant; `None`: too little of it.
fn blocked(t: &TraceRecord, syscall: &str, is_meant: fn(Option<&Reason>) -> bool) -> Option<Blocked> {
    let of = |row: &&ThreadRow| row.state == ThreadState::Blocked && row.syscall.as_deref() == Some(syscall);
    let mut sum = Blocked::default();
    let mut reasons: BTreeMap<Option<Reason>, u64> = BTreeMap::new();
    let mut most = 0;
    for thread in threads(t) {
        let rows = thread.rows.iter().filter(of).map(|row| (row.reason.as_ref(), row));
        let rows: Vec<(Option<&Reason>, &ThreadRow)> = rows.filter(|(reason, _)| is_meant(*reason)).collect();
        let ns: u64 = rows.iter().map(|(_, row)| row.ns).sum();
        if ns == 0 {
            continue;
        }
        rows.iter().for_each(|(reason, row)| *reasons.entry(reason.cloned()).or_default() += row.ns);
        sum.exact_ns += rows.iter().filter(|(_, row)| row.exact).map(|(_, row)| row.ns).sum::<u64>();
        sum.longest_ns = rows.iter().filter_map(|(_, row)| row.longest_ns).fold(sum.longest_ns, u64::max);
        (sum.ns, sum.wall_ns, sum.threads) = (sum.ns + ns, sum.wall_ns + thread.wall_ns, sum.threads + 1);
        if ns > most {
            (most, sum.thread) = (ns, (thread.comm.clone(), thread.tid));
        }
    }
    sum.reasons = reasons.into_iter().collect();
    sum.reasons.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let exact = sum.exact_ns as f64 / sum.wall_ns.max(1) as f64;
    let sampled = sum.share() >= LITTLE_SAMPLED && sum.ns >= ENOUGH_SAMPLED_NS;
    (sum.ns >= ENOUGH_NS && (exact >= LITTLE || sampled)).then_some(sum)
}

/// What was waited for, as part of a sentence.
pub fn name(reason: &Reason) -> String {
    use Reason::*;
    let words = match reason {
        RequestTag => "a free request tag (nr_requests are in flight)",
        QueueQos => "the block queue's latency control (wbt, io.cost or io.latency)",
        CgroupIoLimit => "the cgroup's io.max",
        QueueFrozen => "the block queue, which is frozen",
        DeviceFlush => "a flush of the device's cache",
        SynchronousBio => "synchronous block I/O",
        JournalCommit => "a commit of the file system's journal",
        JournalSpace => "the file system's journal",
        DirtyPages => "the limit of dirty pages",
        Writeback => "dirty pages to be written",
        PageIo => "a page to be read or unlocked",
        MetadataIo => "the file system's metadata",
        DirectIo => "its own direct I/O",
        InodeDio => "the direct I/O of the file to end",
        RwSemaphore => "a lock of the kernel, usually the file's",
        MmapLock => "the lock of the address space",
        Mutex => "a mutex of the kernel",
        CgroupReclaim => "memory within the cgroup's memory.max or memory.high",
        Reclaim => "free memory",
        SwapIn => "a page from swap",
        FuseServer => "the server of a FUSE file system",
        NfsServer => "the NFS server",
        NinePServer => "the server of a 9p file system",
        SocketData => "a peer's data",
        SocketSpace => "space in the send buffer",
        PipeEmpty => "data in a pipe",
        PipeFull => "space in a pipe",
        Futex => "a futex",
        Sleep => "a sleep",
        Epoll | Poll => "events",
        UringCompletions | AioEvents => "completions",
        Accept => "connections",
        Function(function) => return format!("{function}()"),
        other => {
            let json = serde_json::to_value(other).ok();
            return json.and_then(|v| Some(v.as_str()?.replace('_', " "))).unwrap_or_default();
        }
    };
    words.into()
}

/// The file system that most of the traced requests with a file went to.
fn filesystem(t: &TraceRecord) -> Option<&str> {
    t.total.files.iter().find_map(|f| f.filesystem.as_deref())
}

/// What would change it, for a call that submits.
fn advice(t: &TraceRecord, reason: &Reason, syscall: &str) -> String {
    use Reason::*;
    let elsewhere = match syscall {
        "io_submit" => {
            "io_uring hands such a request to io-wq; with RWF_NOWAIT io_submit(2) returns EAGAIN in place of blocking"
        }
        _ => "IOSQE_ASYNC hands a request to io-wq at once; IORING_SETUP_SQPOLL lets the kernel's thread block instead",
    };
    match reason {
        RequestTag => {
            "keep fewer requests in flight than the device's nr_requests (/sys/block/DEVICE/queue/nr_requests), submit in smaller batches, \
             or raise nr_requests; another thread, or IORING_SETUP_SQPOLL, can block in place of this one"
                .into()
        }
        QueueQos => "set wbt_lat_usec of the device to 0, or change io.cost or io.latency of the cgroup".into(),
        CgroupIoLimit => "raise io.max (cgroup v1: blkio.throttle.*) of the cgroup, or do less I/O".into(),
        DirectIo | InodeDio | JournalSpace | JournalCommit => {
            let on = match filesystem(t) {
                Some(fs) => format!("on {fs}, "),
                None => String::new(),
            };
            format!(
                "{on}a direct write that extends the file, or allocates blocks, is done before the call returns: lay the file out with \
                 fallocate(2) and write over blocks that were written before; {elsewhere}"
            )
        }
        DirtyPages => {
            "O_DIRECT, or sync_file_range(2) from time to time, keeps dirty pages below vm.dirty_bytes; or raise vm.dirty_bytes and \
             vm.dirty_background_bytes"
                .into()
        }
        PageIo | Writeback | MetadataIo | RwSemaphore | SynchronousBio => {
            format!("buffered I/O may block in the call: O_DIRECT on a file that is laid out beforehand does not; {elsewhere}")
        }
        CgroupReclaim => "raise memory.high or memory.max of the cgroup, or use less page cache (O_DIRECT, RWF_DONTCACHE)".into(),
        Reclaim => "use less memory or page cache (O_DIRECT, RWF_DONTCACHE)".into(),
        _ => elsewhere.into(),
    }
}

pub const BLOCKED_IN_SUBMISSION: Rule = Rule {
    code: "blocked_in_submission",
    about: "threads were blocked in io_uring_enter(2) or io_submit(2) for 1 % of their time, and 1 ms, not waiting for completions",
    matter: Matter::Time,
    checks: &[Check::Each(in_submission)],
    ..RULE
};

fn in_submission(t: &TraceRecord) -> Vec<Finding> {
    let one = |syscall: &str| {
        let sum = blocked(t, syscall, |reason| reason.is_some_and(|reason| !is_wait(reason) && !is_apart(reason)))?;
        let longest = match sum.longest_ns {
            0 => String::new(),
            ns => format!(", once for {}", span(ns as f64)),
        };
        let text = format!(
            "{syscall}(2) was blocked in submission for {} {}{longest}: {}",
            percent(sum.share()),
            sum.whose(),
            sum.by_reason()
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

pub const SYNCHRONOUS_CALLS: Rule = Rule {
    code: "synchronous_calls",
    about: "threads were blocked in fsync(2), read(2), write(2) or another call of file I/O, made three times or more, for 5 % of their time",
    matter: Matter::Time,
    checks: &[Check::Trace(synchronous)],
    ..RULE
};

/// One finding of all these calls: they are blocked one after the other.
fn synchronous(t: &TraceRecord) -> Option<Finding> {
    // The requests of POSIX AIO are such calls of glibc's threads.
    if t.contexts.iter().any(|c| c.interface == "posix_aio") {
        return None;
    }
    let record = |syscall: &str| t.calls.iter().flatten().find(|c| c.syscall == syscall);
    let calls = syscall::ALL.iter().filter(|call| record(call.name).is_none_or(|c| c.count >= FEW_CALLS));
    let mut found: Vec<(&Call, Blocked)> = calls
        .filter_map(|call| {
            let is_meant: fn(Option<&Reason>) -> bool = match call.work? {
                Work::Submits => return None,
                Work::DoesIo => |reason| reason.is_some_and(is_of_storage),
                Work::Syncs => |reason| !reason.is_some_and(is_apart),
            };
            Some((call, blocked(t, call.name, is_meant)?))
        })
        .collect();
    found.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.ns));
    let (_, largest) = found.first()?;
    let share = found.iter().map(|(_, sum)| sum.share()).sum::<f64>().min(1.0);
    if share < LITTLE_SYNCHRONOUS {
        return None;
    }
    let one = |(call, sum): &(&Call, Blocked)| {
        let each = record(call.name).map(|c| {
            let mean = span(c.blocked_ns as f64 / c.count.max(1) as f64);
            format!(", {} calls, {mean} each", count(c.count as f64))
        });
        let name = call.name.trim_end_matches("64");
        format!("{name}(2) {} ({}{})", percent(sum.share()), sum.by_reason(), each.unwrap_or_default())
    };
    let calls: Vec<String> = found.iter().take(NAMED).map(one).collect();
    let text = format!("synchronous calls were blocked for {} {}: {}", percent(share), largest.whose(), list(&calls));
    let remedy = match (found.iter().any(|(call, _)| call.work == Some(Work::Syncs)), t.rings.is_empty()) {
        (true, false) => {
            "the thread submits nothing meanwhile: submit IORING_OP_FSYNC after the write (IOSQE_IO_LINK), or set RWF_DSYNC on the write; sync \
             once for several writes where that is allowed"
        }
        (true, true) => {
            "io_uring would let the thread continue meanwhile (IORING_OP_FSYNC, or RWF_DSYNC on the write); one sync for several writes costs \
             less"
        }
        (false, false) => "the thread submits nothing meanwhile: do this I/O by the ring too",
        (false, true) => {
            "io_uring would let the thread continue meanwhile; reads that the page cache has would not gain"
        }
    };
    let blocked_ns: u64 = found.iter().map(|(_, sum)| sum.ns).sum();
    let evidence = [("share", share), ("blocked_ns", blocked_ns as f64)];
    let f = SYNCHRONOUS_CALLS.finding(Severity::Warning, text, &evidence);
    Some(Finding { bound: Some(Bound { of: BoundOf::ThreadTime, share }), remedy: remedy.into(), ..f })
}

/// Time that a thread could have run and did not, because of its quota, before it is a finding.
const QUOTA: f64 = 0.02;

pub const CPU_QUOTA: Rule = Rule {
    code: "cpu_quota",
    about: "the CPU quota of a cgroup kept threads off their CPUs for 2 % of their time",
    advice: "raise cpu.max of the cgroup (cgroup v1: cpu.cfs_quota_us; containers: --cpus), or let the program use less CPU; a quota holds \
             until its period (100 ms by default) ends",
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
        "the CPU quota of the cgroup kept {} off the CPU for {} of their time ({} in all, {} ({}) most), with the CPUs idle or not",
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

/// The share of a thread's time in which it waited for the CPU that the other one had.
const CONTENDED: f64 = 0.05;

pub const SQPOLL_SHARES_CPU: Rule = Rule {
    code: "sqpoll_shares_cpu",
    about: "the SQPOLL thread and a thread of its process waited for a CPU for 5 % of their time or longer while the other ran, and both together ran as \
            long as one CPU does",
    advice: "give the SQPOLL thread a CPU of its own: IORING_SETUP_SQ_AFF with sq_thread_cpu, a wider affinity (taskset, cpuset) or cpu.max; \
             where there is none, a ring without SQPOLL",
    matter: Matter::Time,
    checks: &[Check::Ring(sqpoll_shares_cpu)],
    ..RULE
};

fn sqpoll_shares_cpu(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let sqpoll = r.sqpoll.as_ref()?;
    let account = t.account.as_ref()?;
    let own = account.threads.iter().find(|thread| thread.tid == sqpoll.tid)?;
    let in_state = |thread: &ThreadAccount, state: ThreadState| {
        thread.rows.iter().filter(|row| row.state == state).map(|row| row.ns).sum::<u64>()
    };
    let (ran, waited) = (in_state(own, ThreadState::Running), in_state(own, ThreadState::Runnable));
    let others: Vec<&ThreadAccount> = threads(t).filter(|thread| thread.tgid == r.tgid).collect();
    let others_ran: u64 = others.iter().map(|thread| in_state(thread, ThreadState::Running)).sum();
    let share = |waited: u64, meanwhile: u64, wall: u64| waited.min(meanwhile) as f64 / wall.max(1) as f64;
    let of_others = others.iter().map(|thread| share(in_state(thread, ThreadState::Runnable), ran, thread.wall_ns));
    let (sq, submitter) = (share(waited, others_ran, own.wall_ns), of_others.fold(0.0, f64::max));
    let most = sq.max(submitter);
    // Threads on two CPUs run longer, unless they sleep; with other programs on their CPU they run less.
    let together = (ran + others_ran) as f64 / own.wall_ns.max(1) as f64;
    let on_one_cpu = (0.9..=1.05).contains(&together);
    if sq.min(submitter) < CONTENDED || !on_one_cpu {
        return None;
    }
    let text = format!(
        "the SQPOLL thread (tid {}) shares a CPU with the threads of its process: it waited for the CPU for {} of its time, and they for up to \
         {} of theirs, while the other ran",
        sqpoll.tid,
        percent(sq),
        percent(submitter)
    );
    let evidence = [("sqpoll_waited", sq), ("submitter_waited", submitter)];
    let f = SQPOLL_SHARES_CPU.finding(Severity::Warning, text, &evidence);
    Some(Finding { bound: Some(Bound { of: BoundOf::ThreadTime, share: most }), ..f })
}
