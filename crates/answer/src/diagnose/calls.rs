//! System calls that fail, find nothing, or repeat work.

use super::{Check, Matter, RULE, Rule};
use iotrail_base::words::{count, list, percent, span, three_digits};
use iotrail_schema::account::{
    Bound, BoundOf, CallRecord, Mode, Reason, ThreadAccount, ThreadRow, ThreadState, WokenBy,
};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::{OpcodeRecord, RingRecord, TraceRecord};

/// Fewer calls do not show a pattern.
const ENOUGH_CALLS: u64 = 1000;

fn calls(t: &TraceRecord) -> &[CallRecord] {
    t.calls.as_deref().unwrap_or_default()
}

pub(super) fn of_name<'a>(t: &'a TraceRecord, names: &'a [&str]) -> impl Iterator<Item = &'a CallRecord> {
    calls(t).iter().filter(|c| names.contains(&c.syscall.as_str()))
}

pub(super) fn sum(t: &TraceRecord, names: &[&str]) -> u64 {
    of_name(t, names).map(|c| c.count).sum()
}

/// Share of all threads' CPU time spent in the kernel in these calls; `None` if kernel time is not known per call.
pub(super) fn cpu_share(t: &TraceRecord, names: &[&str]) -> Option<f64> {
    let rows = || t.own_threads().flat_map(|thread| &thread.rows).filter(|row| row.state == ThreadState::Running);
    let all: u64 = rows().map(|row| row.ns).sum();
    let in_call = rows().filter(|row| row.mode == Some(Mode::Kernel));
    let in_call = in_call.filter(|row| row.syscall.as_deref().is_some_and(|name| names.contains(&name)));
    let ns: u64 = in_call.map(|row| row.ns).sum();
    (all > 0 && ns > 0).then(|| ns as f64 / all as f64)
}

/// The same for kernel time outside of system calls: page faults and interrupts.
pub(super) fn cpu_outside_calls(t: &TraceRecord) -> Option<f64> {
    let rows = || t.own_threads().flat_map(|thread| &thread.rows).filter(|row| row.state == ThreadState::Running);
    let kernel = || rows().filter(|row| row.mode == Some(Mode::Kernel));
    let all: u64 = rows().map(|row| row.ns).sum();
    let outside: u64 = kernel().filter(|row| row.syscall.is_none()).map(|row| row.ns).sum();
    let is_divided = kernel().any(|row| row.syscall.is_some());
    (all > 0 && is_divided).then(|| outside as f64 / all as f64)
}

pub(super) fn cpu(share: Option<f64>) -> Option<Bound> {
    share.map(|share| Bound { of: BoundOf::Cpu, share: share.min(1.0) })
}

/// Calls that set up objects for later use.
const SETUP: [&str; 11] = [
    "io_uring_setup",
    "io_uring_register",
    "io_setup",
    "epoll_create",
    "epoll_create1",
    "eventfd2",
    "timerfd_create",
    "socket",
    "mlock",
    "bind",
    "listen",
];

/// Errors by which programs probe for kernel features.
const PROBING: [&str; 5] = ["EINVAL", "EOPNOTSUPP", "ENOTTY", "EEXIST", "EAFNOSUPPORT"];

/// Why the kernel rejects the call, and which limit to raise.
fn refused(syscall: &str, errno: &str) -> (&'static str, &'static str) {
    match (syscall, errno) {
        ("io_uring_setup" | "io_uring_register", "ENOMEM") => (
            "rings and registered buffers count towards the user's RLIMIT_MEMLOCK (rings: before Linux 5.12 and since 6.14, summed over the user's \
             processes) and towards the cgroup's memory.max",
            "raise RLIMIT_MEMLOCK (`ulimit -l`, LimitMEMLOCK= of the service, CAP_IPC_LOCK), or create fewer or smaller rings",
        ),
        ("io_uring_setup" | "io_uring_register" | "io_uring_enter", "EPERM" | "EACCES" | "ENOSYS") => (
            "a seccomp filter (of a container or a service), kernel.io_uring_disabled or a security module denies io_uring to this process",
            "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp filter; check `sysctl kernel.io_uring_disabled` (0: allowed) \
             and `grep Seccomp /proc/PID/status`; or let the program fall back to another interface",
        ),
        ("io_setup", "EAGAIN") => (
            "the events of all aio contexts in the system (fs.aio-nr) would exceed fs.aio-max-nr",
            "raise fs.aio-max-nr (`sysctl fs.aio-nr fs.aio-max-nr` shows its use), or create fewer or smaller contexts",
        ),
        (_, "EMFILE") => (
            "the process has reached RLIMIT_NOFILE open descriptors",
            "raise RLIMIT_NOFILE (`ulimit -n`, LimitNOFILE= of the service), or close unused descriptors",
        ),
        (_, "ENFILE") => ("the system has reached fs.file-max open files", "raise fs.file-max"),
        ("mlock", "ENOMEM") => ("RLIMIT_MEMLOCK is too small for the locked memory", "raise RLIMIT_MEMLOCK"),
        ("io_uring_setup", "EAGAIN") => (
            "RLIMIT_NPROC or the cgroup's pids.max prevented the creation of the SQPOLL thread",
            "raise RLIMIT_NPROC or pids.max",
        ),
        ("io_uring_setup" | "io_uring_register", "EINVAL") => (
            "this kernel does not support a flag, or the flags are mutually exclusive",
            "request fewer flags; `iotrail check` lists the flags that this kernel supports",
        ),
        ("bind", "EADDRINUSE") => {
            ("another socket is using the address", "set SO_REUSEADDR or SO_REUSEPORT, or use another port")
        }
        ("io_uring_register", "EBUSY") => (
            "an object of that kind is already registered",
            "unregister it first, or update it (IORING_REGISTER_FILES_UPDATE, IORING_REGISTER_BUFFERS_UPDATE)",
        ),
        _ => ("the program continues without the object, or exits", "see ERRORS in the call's manual page"),
    }
}

pub const SETUP_FAILED: Rule = Rule {
    code: "setup_failed",
    about: "a call that sets up a ring, a context or a descriptor failed (a note if the call succeeded later and the error only shows which features \
            the kernel has)",
    matter: Matter::Data,
    checks: &[Check::Each(setup_failed)],
    ..RULE
};

fn setup_failed(t: &TraceRecord) -> Vec<Finding> {
    let mut failed: Vec<(&CallRecord, &str, u64)> =
        of_name(t, &SETUP).flat_map(|c| c.errors.iter().map(move |(errno, n)| (c, errno.as_str(), *n))).collect();
    failed.sort_by_key(|(.., n)| std::cmp::Reverse(*n));
    let one = |(c, errno, n): &(&CallRecord, &str, u64)| {
        let succeeded = c.judged().saturating_sub(c.failed());
        let probes = PROBING.contains(errno) && (succeeded > 0 || c.syscall == "io_uring_register");
        let (why, remedy) = refused(&c.syscall, errno);
        let text = format!(
            "{}(2) failed with {errno} in {} of {} calls: {why}",
            c.syscall,
            count(*n as f64),
            count(c.judged() as f64)
        );
        let evidence = [("failed", *n as f64), ("calls", c.judged() as f64)];
        // No remedy for a call that a library only probes.
        let remedy = if probes { "" } else { remedy };
        Finding { remedy: remedy.into(), ..SETUP_FAILED.finding(Severity::warning_if(!probes), text, &evidence) }
    };
    failed.iter().map(one).collect()
}

/// Errors of submitting calls, which differ from request results.
const OF_SUBMISSION: [(&str, &str, &str); 6] = [
    (
        "EBUSY",
        "completions wait in the overflow list",
        "reap them with IORING_ENTER_GETEVENTS, and enlarge the CQ (IORING_SETUP_CQSIZE)",
    ),
    (
        "EEXIST",
        "a second thread submits to a ring with IORING_SETUP_SINGLE_ISSUER",
        "submit from one thread, or drop the flag",
    ),
    ("EBADFD", "the ring is disabled", "enable it first (IORING_REGISTER_ENABLE_RINGS)"),
    (
        "EAGAIN",
        "the context has no free events, or the kernel is out of memory",
        "reap events before submitting, or create a larger context",
    ),
    ("EINVAL", "a request, a flag or a descriptor is not valid", "check the first request that was not submitted"),
    ("EBADF", "a request's descriptor is not open", "check the first request that was not submitted"),
];

pub const SUBMISSION_FAILED: Rule = Rule {
    code: "submission_failed",
    about: "at least 1 % (and at least 20) of the io_uring_enter(2) or io_submit(2) calls failed, not counting timeouts and signals",
    matter: Matter::Data,
    checks: &[Check::Each(submission_failed)],
    ..RULE
};

fn submission_failed(t: &TraceRecord) -> Vec<Finding> {
    let one = |c: &CallRecord| {
        let of = |(errno, ..): &&(&str, &str, &str)| c.errors.get(*errno).copied().unwrap_or(0);
        let (errno, why, remedy) = OF_SUBMISSION.iter().max_by_key(of)?;
        let n = c.errors.get(*errno).copied()?;
        let share = n as f64 / c.judged().max(1) as f64;
        if n < super::ENOUGH_EVENTS || share < 0.01 {
            return None;
        }
        let text = format!(
            "{}(2) failed with {errno} in {} of its calls ({}): {why}",
            c.syscall,
            percent(share),
            count(n as f64)
        );
        let f = SUBMISSION_FAILED.finding(Severity::Warning, text, &[("share", share), ("failed", n as f64)]);
        Some(Finding { remedy: (*remedy).into(), ..f })
    };
    of_name(t, &["io_uring_enter", "io_submit"]).filter_map(one).collect()
}

/// Minimum share of the calls for them to be the program's main activity.
const MOST: f64 = 0.5;

pub const EMPTY_ENTERS: Rule = Rule {
    code: "empty_enters",
    about: "at least half (and at least 1,000) of the io_uring_enter(2) or io_getevents(2) calls submitted nothing and returned no \
        completion. The program also ran for at least 5 % of the time",
    advice: "wait for completions in the call: IORING_ENTER_GETEVENTS with min_complete 1 (io_uring_submit_and_wait); or poll the CQ ring, \
             and enter the kernel only to submit, or when IORING_SQ_TASKRUN or IORING_SQ_CQ_OVERFLOW is set",
    checks: &[Check::Trace(empty_enters)],
    ..RULE
};

/// For native AIO.
const OF_EVENTS: &str = "wait in the call (min_nr 1), with or without a timeout; a call with a timeout of 0 only polls, which keeps a CPU busy while \
                         the device works";

fn empty_enters(t: &TraceRecord) -> Option<Finding> {
    let c = of_name(t, &WAITS).max_by_key(|c| c.ended.map(|ended| ended.nothing))?;
    let is_ring = c.syscall == "io_uring_enter";
    let empty = c.ended?.nothing;
    let share = empty as f64 / c.count.max(1) as f64;
    if empty < ENOUGH_CALLS || share < MOST || ran(t).is_some_and(|ran| ran < LITTLE) {
        return None;
    }
    let per_completion = match t.total.ios {
        0 => "the trace has no completion".into(),
        n => format!("{} calls per completion", three_digits(c.count as f64 / n as f64)),
    };
    let text = format!(
        "{} of {} {}(2) calls {}returned no completion: {per_completion}",
        percent(share),
        count(c.count as f64),
        c.syscall,
        if is_ring { "submitted no request and " } else { "" }
    );
    let bound = cpu(cpu_share(t, &[&c.syscall]).map(|cpu| cpu * share));
    let f = EMPTY_ENTERS.finding(Severity::Warning, text, &[("share", share), ("empty", empty as f64)]);
    let remedy = if is_ring { f.remedy.clone() } else { OF_EVENTS.into() };
    Some(Finding { bound, remedy, ..f })
}

/// A program that runs for less of the time loses little by its activity.
const LITTLE: f64 = 0.05;

/// Running time of the program's threads as a share of the trace's duration.
fn ran(t: &TraceRecord) -> Option<f64> {
    t.account.as_ref()?;
    let rows = t.own_threads().flat_map(|thread| &thread.rows).filter(|row| row.state == ThreadState::Running);
    Some(rows.map(|row| row.ns).sum::<u64>() as f64 / t.total.elapsed_ns.max(1) as f64)
}

const EPOLL_WAITS: [&str; 3] = ["epoll_wait", "epoll_pwait", "epoll_pwait2"];

/// Interest list changes per wait; EPOLLONESHOT needs one.
const CHANGES_PER_WAIT: f64 = 1.5;

pub const EPOLL_CTL_PER_OPERATION: Rule = Rule {
    code: "epoll_ctl_per_operation",
    about: "at least 1.5 epoll_ctl(2) calls per epoll_wait(2) call, and at least 1,000 in total",
    advice: "keep descriptors registered: one EPOLL_CTL_ADD for EPOLLIN and EPOLLOUT with EPOLLET is enough for the life of the descriptor; if \
             several threads wait, EPOLLONESHOT needs one EPOLL_CTL_MOD per event, and EPOLLEXCLUSIVE needs none",
    checks: &[Check::Trace(epoll_ctl_per_operation)],
    ..RULE
};

fn epoll_ctl_per_operation(t: &TraceRecord) -> Option<Finding> {
    let (changes, waits) = (sum(t, &["epoll_ctl"]), sum(t, &EPOLL_WAITS));
    let per_wait = changes as f64 / waits.max(1) as f64;
    if changes < ENOUGH_CALLS || per_wait < CHANGES_PER_WAIT {
        return None;
    }
    let text = format!(
        "{} epoll_ctl(2) calls for {} epoll_wait(2) calls, {} per wait: the program adds and removes descriptors for each operation",
        count(changes as f64),
        count(waits as f64),
        three_digits(per_wait)
    );
    let f = EPOLL_CTL_PER_OPERATION.finding(
        Severity::Warning,
        text,
        &[("per_wait", per_wait), ("changes", changes as f64)],
    );
    Some(Finding { bound: cpu(cpu_share(t, &["epoll_ctl"])), ..f })
}

/// At this number of waits per second, they take a substantial part of a CPU.
const SPINS_PER_S: f64 = 10_000.0;
/// The same for waits that return a hang-up or an error that the program does not handle.
const HANG_UPS_PER_S: f64 = 1_000.0;
/// Share of all I/O calls.
const NEARLY_ALL: f64 = 0.8;

pub const EPOLL_SPINS: Rule = Rule {
    code: "epoll_spins",
    about: "the program made at least 10,000 epoll_wait(2) or poll(2) calls per second, which were at least 80 % of its I/O calls. \
        Or it made at least 1,000 per second, and half of them returned a hang-up or an error of one descriptor. Or at least 10,000 \
        poll requests per second completed inline on a ring, or as many timeouts expired, and these were at least 80 % of the ring's \
        completions",
    checks: &[Check::Trace(epoll_spins), Check::Ring(ring_spins)],
    ..RULE
};

pub(super) const SPIN: [&str; 5] = ["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll"];

/// Events reported without a request until the descriptor is removed.
fn is_hang_up(by: &WokenBy) -> bool {
    by.events.iter().any(|event| event.ends_with("HUP") && !event.ends_with("RDHUP") || event.ends_with("ERR"))
}

/// Advice for a descriptor that stays ready, by its file and events.
fn of_descriptor(by: &WokenBy) -> &'static str {
    let is = |event: &str| by.events.iter().any(|name| name.ends_with(event));
    match by.file.as_deref() {
        _ if is_hang_up(by) => {
            "on EPOLLHUP or EPOLLERR remove the descriptor (EPOLL_CTL_DEL) or close it: both are reported even if not requested"
        }
        Some("eventfd" | "timerfd" | "signalfd" | "[eventfd]") => {
            "read(2) the descriptor at each event: its counter keeps it ready; or register it with EPOLLET"
        }
        _ if is("OUT") && !is("IN") => {
            "request EPOLLOUT only while you have data to send: a socket with free buffer space is always ready for writing"
        }
        _ => {
            "read the descriptor until EAGAIN, or remove it (EPOLL_CTL_DEL) while you do not want its data; EPOLLET reports it once"
        }
    }
}

fn epoll_spins(t: &TraceRecord) -> Option<Finding> {
    let c = of_name(t, &SPIN).max_by_key(|c| c.count)?;
    let all: u64 = calls(t).iter().map(|c| c.count).sum();
    let per_s = c.count as f64 / (t.total.elapsed_ns.max(1) as f64 / 1e9);
    let share = c.count as f64 / all.max(1) as f64;
    let with_events = c.ended.is_some_and(|ended| ended.completions as f64 >= MOST * c.count as f64);
    let by = c.woken_by.first().filter(|by| with_events && by.share >= MOST && by.fd.is_some());
    let (least, part) = if by.is_some_and(is_hang_up) { (HANG_UPS_PER_S, 0.0) } else { (SPINS_PER_S, NEARLY_ALL) };
    if c.count < ENOUGH_CALLS || per_s < least || share < part {
        return None;
    }
    let (what, remedy) = match (with_events, by) {
        (true, Some(by)) => {
            let file = by.file.as_ref().map(|file| format!(", {file}")).unwrap_or_default();
            let what = format!(
                "descriptor {} of process {}{file}, ended {} of them with {}, and the program did not handle that event",
                by.fd.unwrap_or_default(),
                by.tgid,
                percent(by.share),
                list(&by.events)
            );
            (what, of_descriptor(by))
        }
        (true, None) => (
            "each returned an event that the program did not handle. epoll(7) reports a level-triggered descriptor until the program handles the \
             event, and reports EPOLLHUP and EPOLLERR even if not requested"
                .into(),
            "read or write the descriptor until EAGAIN; on EPOLLHUP or EPOLLERR remove it (EPOLL_CTL_DEL) or close it",
        ),
        (false, _) => (
            "each returned no event, because its timeout was 0".into(),
            "wait: set the timeout to -1, or to the time until the next timer; wake the thread for other work with an eventfd",
        ),
    };
    let text =
        format!("{} {}(2) calls per second, {} of all I/O calls: {what}", count(per_s), c.syscall, percent(share));
    let f = EPOLL_SPINS.finding(Severity::Warning, text, &[("per_s", per_s), ("share", share)]);
    Some(Finding { remedy: remedy.into(), bound: cpu(cpu_share(t, &[&c.syscall])), ..f })
}

/// The same for ring requests: polls of a descriptor that stays ready, and timeouts that expire at once.
fn ring_spins(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let seconds = super::ring_seconds(t, r)?;
    let most = NEARLY_ALL * r.completions as f64;
    let of = |o: &&OpcodeRecord| match o.opcode.as_str() {
        "poll" | "poll_add" => super::inlined(r) >= NEARLY_ALL && o.more == 0,
        "timeout" => super::errno(o, &["ETIME"]) as f64 >= NEARLY_ALL * o.completions as f64,
        _ => false,
    };
    let o = r.opcodes.iter().filter(of).max_by_key(|o| o.completions)?;
    let per_s = o.completions as f64 / seconds;
    if (o.completions as f64) < most || per_s < SPINS_PER_S || (o.completions as f64) < SPINS_PER_S {
        return None;
    }
    let expired = o.latency_ns.mean.map(|ns| format!("each expired {} after submission, on average", span(ns)));
    let (what, remedy) = match o.opcode.as_str() {
        "poll" | "poll_add" => (
            "the descriptor was ready every time, and the program did not handle the event".into(),
            "read or write the descriptor until EAGAIN before the next poll; on POLLHUP or POLLERR close it",
        ),
        _ => (
            expired.unwrap_or_else(|| "each expired soon after submission".into()),
            "arm one timeout for the program's next timer, and round its time up; or wait in io_uring_enter(2) with a timeout",
        ),
    };
    let share = o.completions as f64 / r.completions.max(1) as f64;
    let text = format!(
        "{} {} requests per second, {} of the ring's completions: {what}",
        count(per_s),
        o.opcode,
        percent(share)
    );
    let f = EPOLL_SPINS.finding(Severity::Warning, text, &[("per_s", per_s), ("share", share)]);
    Some(Finding { remedy: remedy.into(), bound: cpu(cpu_share(t, &["io_uring_enter"])), ..f })
}

/// Minimum number of waits for a meaningful share.
const ENOUGH_WAITS: u64 = 20;
/// Smaller shares of the threads' time are not reported.
const LITTLE_WAITING: f64 = 0.05;

pub const WAITS_TIME_OUT: Rule = Rule {
    code: "waits_time_out",
    about: "at least half (and at least 20) of the waits for completions in io_uring_enter(2) or io_getevents(2) timed out, and \
        threads were blocked there for at least 5 % of their time. It is a warning if half of these waits had completions, but fewer \
        than min_complete, or if at least 1,000 per second timed out. Also reported, as a warning, if signals ended at least half of \
        the waits (at least 1,000 in total, and 100 per second)",
    matter: Matter::Time,
    checks: &[Check::Each(waits_time_out)],
    ..RULE
};

fn waits_time_out(t: &TraceRecord) -> Vec<Finding> {
    let one = |c: &CallRecord| {
        let ended = c.ended?;
        let waits = ended.completions + ended.time_limit + ended.signal;
        let share = ended.time_limit as f64 / waits.max(1) as f64;
        let of_call = |row: &&ThreadRow| row.state == ThreadState::Blocked && row.syscall.as_ref() == Some(&c.syscall);
        let in_it = t.own_threads().filter(|thread| thread.rows.iter().any(|row| of_call(&row)));
        let wall: u64 = in_it.map(|thread| thread.wall_ns).sum();
        let blocked = c.blocked_ns as f64 / wall.max(1) as f64;
        if ended.time_limit < ENOUGH_WAITS || share < MOST || blocked < LITTLE_WAITING {
            return None;
        }
        let is_partial = ended.partial as f64 >= MOST * ended.time_limit as f64;
        let per_s = ended.time_limit as f64 / (t.total.elapsed_ns.max(1) as f64 / 1e9);
        let is_busy = per_s >= TIME_LIMITS_PER_S;
        let (what, remedy) = match () {
            () if is_partial => (
                "most of these had completions, but fewer than min_complete. The thread slept when it could have reaped them",
                "wait for one completion (min_complete 1), or for no more completions than requests are in flight",
            ),
            () if is_busy => (
                "no completion was posted in that time. Each such wait costs a sleep, a timer and a wake-up",
                "wait without a timeout, or until the program's next timer: a completion ends the wait. For other work, end the wait with an eventfd \
                 that a request of the ring reads, or with IORING_OP_MSG_RING",
            ),
            () if registers_eventfd(t) => (
                "no completion was posted in that time",
                "to wake the thread, read another eventfd with a request of the ring (IORING_OP_READ, IORING_OP_POLL_ADD), or send \
                 IORING_OP_MSG_RING. A write to an eventfd registered with IORING_REGISTER_EVENTFD does not end the wait: the kernel writes to that \
                 eventfd, and the ring does not read it",
            ),
            () => (
                "no completion was posted in that time",
                "ignore this if the program is idle; otherwise check the requests in flight (`state` in --json), and wait without a timeout: a \
                 completion ends the wait",
            ),
        };
        let rate = if is_busy { format!(", {} per second", count(per_s)) } else { String::new() };
        let text = format!(
            "{} of the waits in {}(2) ({}{rate}) timed out: {what}",
            percent(share),
            c.syscall,
            count(ended.time_limit as f64)
        );
        let evidence = [("share", share), ("time_limits", ended.time_limit as f64), ("partial", ended.partial as f64)];
        let f = WAITS_TIME_OUT.finding(Severity::warning_if(is_partial || is_busy), text, &evidence);
        // Waits that return early take less of the time.
        let bound = is_partial.then_some(Bound { of: BoundOf::ThreadTime, share: (blocked * share).min(1.0) });
        Some(Finding { remedy: remedy.into(), bound, ..f })
    };
    let interrupted = of_name(t, &WAITS).filter_map(|c| interrupted(t, c));
    of_name(t, &WAITS).filter_map(one).chain(interrupted).collect()
}

const WAITS: [&str; 3] = ["io_uring_enter", "io_getevents", "io_pgetevents"];

/// At this number of waits per second that time out, they take a substantial part of a CPU.
const TIME_LIMITS_PER_S: f64 = 1_000.0;
const SIGNALS_PER_S: f64 = 100.0;

/// Whether an eventfd is registered with a ring.
fn registers_eventfd(t: &TraceRecord) -> bool {
    let calls = t.rings.iter().filter_map(|r| r.register_calls.as_ref()).flatten();
    calls.into_iter().any(|call| call.operation.starts_with("eventfd"))
}

/// Waits that a signal interrupts before a completion is posted.
fn interrupted(t: &TraceRecord, c: &CallRecord) -> Option<Finding> {
    let ended = c.ended?;
    let share = ended.signal as f64 / (ended.completions + ended.time_limit + ended.signal).max(1) as f64;
    let per_s = ended.signal as f64 / (t.total.elapsed_ns.max(1) as f64 / 1e9);
    if ended.signal < ENOUGH_CALLS || share < MOST || per_s < SIGNALS_PER_S {
        return None;
    }
    let text = format!(
        "{} of the waits in {}(2) ({}, {} per second) failed with EINTR: a signal arrived before a completion",
        percent(share),
        c.syscall,
        count(ended.signal as f64),
        count(per_s)
    );
    let remedy = "block the signal in the thread that waits (pthread_sigmask(3), or the signal mask of the call), or handle it in another thread; \
                  replace a periodic timer (setitimer(2), timer_create(2)) with a timerfd or IORING_OP_TIMEOUT";
    let f = WAITS_TIME_OUT.finding(Severity::Warning, text, &[("share", share), ("signals", ended.signal as f64)]);
    Some(Finding { remedy: remedy.into(), bound: cpu(cpu_share(t, &[&c.syscall])), ..f })
}

/// Fewer set-up calls belong to the program's start.
const ENOUGH_SETUPS: u64 = 100;

pub const SETUP_PER_OPERATION: Rule = Rule {
    code: "setup_per_operation",
    about: "the program called a set-up function of a ring, a context or registered memory at least once per two completions, and at least 100 times",
    advice: "set up rings, contexts and registered buffers and files once, with one ring per thread, and use them for all operations; update \
             registrations instead of repeating them (IORING_REGISTER_FILES_UPDATE, IORING_REGISTER_BUFFERS_UPDATE)",
    checks: &[Check::Trace(setup_per_operation)],
    ..RULE
};

fn setup_per_operation(t: &TraceRecord) -> Option<Finding> {
    let names = ["io_uring_setup", "io_uring_register", "io_setup"];
    let setups = |c: &CallRecord| if c.syscall == "io_uring_register" { registers(t, c) } else { c.count };
    let (c, calls) = of_name(t, &names).map(|c| (c, setups(c))).max_by_key(|(_, calls)| *calls)?;
    let per_completion = calls as f64 / t.total.ios.max(1) as f64;
    if calls < ENOUGH_SETUPS || t.total.ios == 0 || per_completion < MOST {
        return None;
    }
    let text = format!(
        "the program called {}(2) {} times for {} completions: it repeats its set-up for each operation",
        c.syscall,
        count(calls as f64),
        count(t.total.ios as f64)
    );
    let evidence = [("calls", calls as f64), ("per_completion", per_completion)];
    let f = SETUP_PER_OPERATION.finding(Severity::Warning, text, &evidence);
    Some(Finding { bound: cpu(cpu_share(t, &names)), ..f })
}

/// io_uring_register operations on single requests.
const FOR_REQUESTS: [&str; 6] =
    ["files_update", "files_update2", "buffers_update", "sync_cancel", "pbuf_status", "zcrx_ctrl"];

/// io_uring_register calls that set up an object. Excludes calls without a ring (IORING_REGISTER_SEND_MSG_RING).
fn registers(t: &TraceRecord, c: &CallRecord) -> u64 {
    let of_ring = |r: &RingRecord| -> Option<u64> {
        let calls = r.register_calls.as_ref()?.iter();
        Some(calls.filter(|call| !FOR_REQUESTS.contains(&call.operation.as_str())).map(|call| call.calls).sum())
    };
    let of_rings: Option<u64> = t.rings.iter().map(of_ring).sum();
    of_rings.filter(|_| t.others.is_empty()).map_or(c.count, |n| n.min(c.count))
}

pub const CALLS_FAIL: Rule = Rule {
    code: "calls_fail",
    about: "at least 90 % (and at least 1,000) of the calls of one kind that read, write, accept or connect failed with the same \
        errno. Or at least 1 % (and at least 20) failed with the errno of a limit. Or at least 10 % (and at least 100) of the accepts \
        failed with EAGAIN in several threads, each after one wait for events",
    checks: &[Check::Trace(|t| calls_fail(t).or_else(|| limited(t)).or_else(|| herd(t)))],
    ..RULE
};

const MOVES: [&str; 20] = [
    "read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2", "recvfrom",
    "recvmsg", "recvmmsg", "sendto", "sendmsg", "sendmmsg", "accept", "accept4", "connect", "sendfile",
];

const SYNCS: [&str; 6] = ["fsync", "fdatasync", "syncfs", "sync_file_range", "msync", "fallocate"];

/// A read, a write or a sync failed with an errno other than EAGAIN and EINTR.
pub(super) fn moving_failed(t: &TraceRecord) -> bool {
    let failed = |c: &CallRecord| c.errors.keys().any(|errno| errno != "EAGAIN" && errno != "EINTR");
    let moves = of_name(t, &MOVES).filter(|c| !c.syscall.starts_with("accept") && c.syscall != "connect");
    moves.chain(of_name(t, &SYNCS)).any(failed)
}

/// Below this share of the calls, failures are part of a loop that waits in epoll_wait(2).
const FAIL: f64 = 0.9;

fn calls_fail(t: &TraceRecord) -> Option<Finding> {
    let failed = of_name(t, &MOVES).flat_map(|c| c.errors.iter().map(move |(errno, n)| (c, errno, *n)));
    let habits = failed.filter(|(c, _, n)| *n >= ENOUGH_CALLS && *n as f64 >= FAIL * c.judged() as f64);
    let (c, errno, n) = habits.max_by_key(|(.., n)| *n)?;
    let (why, remedy) = match errno.as_str() {
        "EAGAIN" => (
            "no data was available, and the descriptor is non-blocking (O_NONBLOCK)",
            "wait for readiness first (epoll_wait(2), poll(2)), or submit the operation to a ring, which waits for it",
        ),
        "EMFILE" | "ENFILE" => refused(&c.syscall, errno),
        _ => ("the program repeats a failing call", "stop at this error, and look up its meaning in the manual page"),
    };
    let text = format!(
        "{} of {} {}(2) calls failed with {errno}: {why}",
        count(n as f64),
        count(c.judged() as f64),
        c.syscall.trim_end_matches("64")
    );
    let bound = cpu(cpu_share(t, &[&c.syscall]));
    let f = CALLS_FAIL.finding(Severity::Warning, text, &[("failed", n as f64), ("calls", c.judged() as f64)]);
    Some(Finding { remedy: remedy.into(), bound, ..f })
}

/// The limit behind an errno, and the remedy.
fn limit(syscall: &str, errno: &str) -> Option<(&'static str, &'static str)> {
    Some(match (syscall, errno) {
        ("connect", "EADDRNOTAVAIL") => (
            "no local port (net.ipv4.ip_local_port_range) is free, because each closed connection keeps its port in TIME_WAIT for 60 s",
            "keep connections open, and reuse them for several requests; or widen net.ipv4.ip_local_port_range",
        ),
        ("sendto" | "sendmsg" | "sendmmsg", "ENOBUFS") => (
            "the socket is out of memory for the notifications of in-flight MSG_ZEROCOPY sends (net.core.optmem_max), or the device queue is full",
            "send small buffers without MSG_ZEROCOPY, keep fewer sends in flight, and read the zero-copy notifications (recvmsg(2) with \
             MSG_ERRQUEUE); or raise net.core.optmem_max",
        ),
        ("accept" | "accept4" | "recvmsg", "EMFILE" | "ENFILE") => refused(syscall, errno),
        ("fcntl", "EAGAIN" | "EACCES") => (
            "another process holds a lock on the file (F_SETLK)",
            "hold the lock for a shorter time there (shorter transactions, no sleeps or network calls within them); or wait with F_SETLKW instead of sleeping \
             and trying again",
        ),
        (_, "EFBIG") => (
            "the file would exceed RLIMIT_FSIZE or the file system's maximum file size",
            "raise RLIMIT_FSIZE (`ulimit -f`)",
        ),
        (_, "ENOSPC") => ("the file system is full", "free space, and check the result of each write"),
        (_, "EDQUOT") => ("the user's disk quota is exhausted", "raise the quota, or free space"),
        _ => return None,
    })
}

/// Minimum share of the calls for errors due to a limit to be more than single events.
const LIMITED: f64 = 0.01;

fn limited(t: &TraceRecord) -> Option<Finding> {
    let calls = of_name(t, &MOVES).chain(of_name(t, &["fcntl"]));
    let failed = calls.flat_map(|c| c.errors.iter().map(move |(errno, n)| (c, errno, *n)));
    let of_limits = failed.filter_map(|(c, errno, n)| Some((c, errno, n, limit(&c.syscall, errno)?)));
    let meant = of_limits.filter(|(c, _, n, _)| *n >= super::ENOUGH_EVENTS && *n as f64 >= LIMITED * c.judged() as f64);
    let (c, errno, n, (why, remedy)) = meant.max_by_key(|(_, _, n, _)| *n)?;
    let text = format!(
        "{} of {} {}(2) calls failed with {errno}: {why}",
        count(n as f64),
        count(c.judged() as f64),
        c.syscall.trim_end_matches("64")
    );
    let f = CALLS_FAIL.finding(Severity::Warning, text, &[("failed", n as f64), ("calls", c.judged() as f64)]);
    Some(Finding { remedy: remedy.into(), bound: slept(t).filter(|_| c.syscall == "fcntl"), ..f })
}

/// The thread that sleeps most: at most this much is until it tries again.
fn slept(t: &TraceRecord) -> Option<Bound> {
    let is_sleep = |row: &ThreadRow| row.state == ThreadState::Blocked && row.reason == Some(Reason::Sleep);
    super::most_of_wall(t, is_sleep).map(|share| Bound { of: BoundOf::ThreadTime, share })
}

/// Minimum share of accepts without a connection; fewer are normal.
const HERD: f64 = 0.1;
const ENOUGH_OF_HERD: u64 = 100;
/// Maximum accepts per wait if every wait is followed by one accept. A program that accepts until EAGAIN makes two or
/// more.
const ONE_ACCEPT: f64 = 1.2;

/// Several threads wait on one listening socket: a connection wakes more than one of them, but only one accepts it.
fn herd(t: &TraceRecord) -> Option<Finding> {
    let c = of_name(t, &["accept", "accept4"]).max_by_key(|c| c.count)?;
    let n = c.errors.get("EAGAIN").copied().unwrap_or(0);
    let share = n as f64 / c.judged().max(1) as f64;
    let waits: u64 = of_name(t, &EPOLL_WAITS).filter_map(|c| c.ended).map(|ended| ended.completions).sum();
    let is_wait = |row: &ThreadRow| row.syscall.as_deref().is_some_and(|name| EPOLL_WAITS.contains(&name));
    let threads = t.own_threads().filter(|thread| thread.rows.iter().any(is_wait)).count();
    if n < ENOUGH_OF_HERD || share < HERD || c.count as f64 > ONE_ACCEPT * waits as f64 || threads < 2 {
        return None;
    }
    let text = format!(
        "{} of {} {}(2) calls failed with EAGAIN: a connection woke several of the {threads} threads that wait on the listening socket, but only one \
         thread accepted the connection",
        count(n as f64),
        count(c.judged() as f64),
        c.syscall
    );
    let f = CALLS_FAIL.finding(Severity::Warning, text, &[("failed", n as f64), ("calls", c.judged() as f64)]);
    let remedy = "add the listening socket to each epoll instance with EPOLLEXCLUSIVE, which limits the wake-ups; or give each thread its own \
                  listening socket with SO_REUSEPORT";
    Some(Finding { remedy: remedy.into(), bound: cpu(cpu_share(t, &[&c.syscall])), ..f })
}
