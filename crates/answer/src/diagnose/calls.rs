//! System calls that find nothing or repeat work.

use super::{Check, Matter, RULE, Rule};
use iotrail_base::words::{count, list, percent, span, three_digits};
use iotrail_schema::account::{Bound, BoundOf, CallRecord, Mode, ThreadRow, ThreadState, WokenBy};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::{OpcodeRecord, RingRecord, TraceRecord};

/// Fewer calls do not show a pattern.
pub(super) const ENOUGH_CALLS: u64 = 1000;

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

pub(super) const EPOLL_WAITS: [&str; 3] = ["epoll_wait", "epoll_pwait", "epoll_pwait2"];

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
    about: "at least 10,000 epoll_wait(2) or poll(2) calls per second, and at least 80 % of the program's I/O calls. Or at least 1,000 such calls per second, half of which returned a hang-up or an error of one descriptor, or an event of a descriptor that the process has closed. Or at least 10,000 inline poll completions per second on a ring, or as many expired timeouts, and at least 80 % of the ring's completions",
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
        _ if by.is_closed => {
            "call epoll_ctl(2) with EPOLL_CTL_DEL before close(2): epoll watches the open file, not the descriptor, until the last copy is closed. \
             Close inherited descriptors in child processes (O_CLOEXEC); only closing the epoll instance removes a file without a descriptor"
        }
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
    let (least, part) = if by.is_some_and(|by| is_hang_up(by) || by.is_closed) {
        (HANG_UPS_PER_S, 0.0)
    } else {
        (SPINS_PER_S, NEARLY_ALL)
    };
    if c.count < ENOUGH_CALLS || per_s < least || share < part {
        return None;
    }
    let (what, remedy) = match (with_events, by) {
        (true, Some(by)) => {
            let file = by.file.as_ref().map(|file| format!(", {file}")).unwrap_or_default();
            let why = match by.is_closed {
                true => {
                    "although the process has closed it: a copy in another process (fork(2)) or of dup(2) keeps the file open and registered"
                }
                false => "and the program did not handle that event",
            };
            let what = format!(
                "descriptor {} of process {}{file}, ended {} of them with {}, {why}",
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
        super::rate(per_s, seconds),
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
    about: "at least half (and at least 20) of the waits for completions in io_uring_enter(2) or io_getevents(2) timed out. Threads were blocked in these waits for at least 5 % of their time. It is a warning if at least 1,000 per second timed out. It is \
        also a warning if half of these waits had completions, but fewer than min_complete. It is also a warning if signals ended at least half of the waits (at least 1,000 in total, and 100 per second)",
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
                "most of these had completions, but fewer than min_complete. The thread slept although it could have reaped them",
                "wait for one completion (min_complete 1), or for no more completions than requests are in flight",
            ),
            () if is_busy => (
                "no completion was posted in that time. Each such wait costs a sleep, a timer and a wake-up",
                "wait without a timeout, or until the program's next timer: a completion ends the wait. To end the wait for other work, use an eventfd that a request of the ring reads, or IORING_OP_MSG_RING",
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
    about: "the program set up a ring, a context or registered memory at least once per two completions, and at least 100 times",
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
