//! Loops that poll for completions: what interrupts them, and polling of a device without poll queues.

use super::calls::{cpu, cpu_outside_calls, cpu_share};
use super::{Check, ENOUGH, ENOUGH_EVENTS, Matter, RULE, RestsOn, Rule, on_average, ring_seconds};
use crate::delivered::{WORTH_SAYING, has, share, share_of};
use iotrail_base::words::{count, percent, span, three_digits};
use iotrail_schema::account::{Mode, ThreadAccount, ThreadState};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::opcode;
use iotrail_schema::trace_record::{RingRecord, TraceRecord};
use iotrail_stats::expansion::is_narrow;

/// Half: the ring's main activity.
const MOSTLY: f64 = 0.5;

pub const IOPOLL_WITHOUT_QUEUES: Rule = Rule {
    code: "iopoll_without_queues",
    about: "on a ring with IOPOLL, at least 5 % (and at least 20) of the requests failed with EOPNOTSUPP. Or polling found none of at least 100 completions",
    rests_on: RestsOn::Completions,
    matter: Matter::Data,
    advice: "configure poll queues, which the kernel polls instead of waiting for interrupts (load the driver with `nvme.poll_queues=N`; \
             /sys/block/*/queue/io_poll shows whether a device has poll queues); or drop IOPOLL",
    checks: &[Check::Ring(iopoll_without_queues)],
    ..RULE
};

fn iopoll_without_queues(_: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    if !has(&r.flags, "iopoll") {
        return None;
    }
    let refused: u64 = r.opcodes.iter().map(|o| super::errno(o, &["EOPNOTSUPP"])).sum();
    // The kernel rejects each of these requests in the same way, so fewer suffice.
    if refused.min(r.completions) < ENOUGH_EVENTS && r.completions < ENOUGH {
        return None;
    }
    let refused_share = refused as f64 / r.completions as f64;
    let polled = share(&r.vehicles, DeliveryPath::Iopoll);
    let known = !r.vehicles.is_empty();
    let what = if refused_share >= WORTH_SAYING {
        format!("{} of the requests on a ring with IOPOLL failed with EOPNOTSUPP", percent(refused_share))
    } else if known && polled == 0.0 && r.opcodes.iter().any(|o| opcode::is(&o.opcode, opcode::POLLED)) {
        format!("polling found none of the {} completions on a ring with IOPOLL", count(r.completions as f64))
    } else {
        return None;
    };
    let text = format!("{what}: the device has no poll queues, or the file was opened without O_DIRECT");
    let mut evidence = vec![("eopnotsupp_share", refused_share)];
    if known {
        evidence.push(("iopoll_share", polled));
    }
    Some(IOPOLL_WITHOUT_QUEUES.finding_from(r.completions, Severity::Warning, text, &evidence))
}

/// More page faults than a program's start-up causes: an interpreter takes several thousand.
const FAULTS: u64 = 10_000;
/// One per I/O interrupts every iteration of the loop.
const FAULTS_PER_IO: f64 = 1.0;

/// Share of completions posted while the thread was in user mode: it polls the CQ ring, or computes.
pub fn from_user_mode(vehicles: &[DeliveryPathCount]) -> f64 {
    use DeliveryPath::{DeviceIrq, OtherIrq, PageFault, ReschedIpi, TimerTick};
    share_of(vehicles, |v| matches!(v.vehicle, DeviceIrq | OtherIrq | PageFault | ReschedIpi | TimerTick))
}

pub const FAULTING_POLLER: Rule = Rule {
    code: "faulting_poller",
    about: "page faults delivered at least 5 % of the completions. Or a program that polls from user mode took at least one page fault per I/O and 10,000 in total",
    rests_on: RestsOn::Completions,
    advice: "fault in the loop's memory before the loop starts (MAP_POPULATE, mlock(2), or one write per page), reuse memory instead of mapping new \
             memory, or map huge pages: the loop then stays in user mode",
    checks: &[Check::Ring(faulting)],
    ..RULE
};

/// Page faults enter the kernel from a loop that should stay in user mode.
fn faulting(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let carried = share(&r.vehicles, DeliveryPath::PageFault);
    let faults = t.total.page_faults;
    let per_io = faults.map(|n| n as f64 / t.total.ios.max(1) as f64);
    let many = faults.is_some_and(|n| n >= FAULTS) && per_io.is_some_and(|x| x >= FAULTS_PER_IO);
    let breaks = carried >= WORTH_SAYING || (many && from_user_mode(&r.vehicles) >= MOSTLY);
    if r.completions < ENOUGH || !breaks {
        return None;
    }
    let mut text = format!("{} of completions were posted on return from a page fault", percent(carried));
    text +=
        &per_io.map(|x| format!(", and the program took {} page faults per I/O", three_digits(x))).unwrap_or_default();
    text += ". The polling loop touches memory for the first time, and each first touch enters the kernel";
    let mut evidence = vec![("page_fault_share", carried)];
    evidence.extend(per_io.map(|x| ("page_faults_per_io", x)));
    let f = FAULTING_POLLER.finding_from(r.completions, Severity::Warning, text, &evidence);
    Some(Finding { bound: cpu(cpu_outside_calls(t)), ..f })
}

/// Calls that a loop may make without disturbing its polling. In some of them a thread sleeps for events (other events
/// or the ring's descriptor), so the wake-up delivers completions at their exit. Others can make a request of the same
/// thread ready, so their exit is the earliest possible delivery.
const AT_HOME: [&str; 47] = [
    "accept",
    "accept4",
    "clock_nanosleep",
    "close",
    "connect",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "exit",
    "exit_group",
    "futex",
    "futex_wait",
    "futex_waitv",
    "futex_wake",
    "io_getevents",
    "io_pgetevents",
    "io_uring_enter",
    "io_uring_register",
    "kill",
    "msgrcv",
    "msgsnd",
    "nanosleep",
    "pause",
    "poll",
    "ppoll",
    "pselect6",
    "read",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "select",
    "semtimedop",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "shutdown",
    "splice",
    "tgkill",
    "timerfd_settime",
    "wait4",
    "waitid",
    "write",
    "writev",
];

/// System calls per I/O besides io_uring_enter. One or two may be part of the I/O itself (an eventfd, a message).
const STRAY_PER_IO: f64 = 3.0;

pub const CHATTY_POLLER: Rule = Rule {
    code: "chatty_poller",
    about: "at least a quarter of the completions were posted on return from system calls that neither wait nor make requests \
        ready. Or a program that polls from user mode made at least three non-submitting system calls per I/O (if calls were counted)",
    rests_on: RestsOn::Completions,
    advice: "move these calls out of the loop (`strace -c` lists them), or make them once per batch of I/Os",
    checks: &[Check::Ring(chatty)],
    ..RULE
};

/// A polling loop makes system calls between its polls: they deliver unrelated completions, or there are many per I/O.
fn chatty(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    if r.completions < ENOUGH {
        return None;
    }
    carrying_calls(t, r).or_else(|| stray_calls(t, r))
}

/// A quarter. If a program waits elsewhere, in futex or epoll_wait, its other calls deliver a few completions.
const CARRYING: f64 = 0.25;

fn carrying_calls(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let strayed = |v: &DeliveryPathCount| {
        let call = v.detail.as_deref();
        v.vehicle == DeliveryPath::SyscallExit && call.is_some_and(|call| AT_HOME.binary_search(&call).is_err())
    };
    let share = share_of(&r.vehicles, strayed);
    if share < CARRYING {
        return None;
    }
    let most = r.vehicles.iter().filter(|v| strayed(v)).max_by_key(|v| v.completions)?;
    let call = most.detail.as_deref()?;
    let exact_or_narrow = |x: Option<f64>, name: &str| {
        x.filter(|x| t.total.per_io_intervals.get(name).is_none_or(|[lo, hi]| is_narrow(*x, (*lo, *hi))))
    };
    let calls = exact_or_narrow(t.total.per_io.syscalls, "syscalls");
    let per_io = calls.map(|x| format!(" ({} system calls per I/O in total)", three_digits(x))).unwrap_or_default();
    let text = format!(
        "{} of completions were posted at the exit of unrelated system calls, mostly {call}{per_io}. The polling loop enters the kernel for other \
         work",
        percent(share)
    );
    let remedy = format!(
        "move {call} out of the loop, or call it once per batch of I/Os; if the delivery of completions depends on {call}, call io_uring_enter with \
         IORING_ENTER_GETEVENTS instead, when IORING_SQ_TASKRUN is set (taskrun_flag)"
    );
    let mut evidence = vec![("share", share)];
    evidence.extend(calls.map(|x| ("syscalls_per_io", x)));
    evidence
        .extend(exact_or_narrow(t.total.per_io.mode_switches, "mode_switches").map(|x| ("mode_switches_per_io", x)));
    let bound = cpu(cpu_share(t, &[call]));
    Some(Finding { remedy, bound, ..CHATTY_POLLER.finding_from(r.completions, Severity::Warning, text, &evidence) })
}

fn stray_calls(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let stray = t.total.stray_calls? as f64 / t.total.ios.max(1) as f64;
    // The entire interval of an estimate must be above the threshold.
    let least = t.total.intervals.get("stray_calls").map_or(stray, |[lo, _]| lo / t.total.ios.max(1) as f64);
    let looks = from_user_mode(&r.vehicles);
    if least < STRAY_PER_IO || looks < MOSTLY {
        return None;
    }
    let text = format!(
        "{} system calls per I/O besides io_uring_enter, in threads that submit and poll the CQ ring. {} of the completions found these threads in user mode. The polling loop enters the kernel for other work",
        three_digits(stray),
        percent(looks)
    );
    let evidence = [("stray_syscalls_per_io", stray), ("from_user_mode_share", looks)];
    Some(CHATTY_POLLER.finding_from(r.completions, Severity::Warning, text, &evidence))
}

/// Maximum completions per second of a program with little to do.
const FEW_PER_S: f64 = 1_000.0;
/// Minimum share of a thread's time in user mode to count as busy.
const BUSY: f64 = 0.3;
/// Mean requests in flight: none for most of the time.
const NOTHING: f64 = 0.1;

pub const IDLE_POLLER: Rule = Rule {
    code: "idle_poller",
    about: "at least half of a ring's completions (at least 20, and fewer than 1,000 per second) found the thread in user mode (a note). At most 0.1 requests were in flight on average. The thread ran in user mode for at least 30 % of the time in which \
        it did not wait for a CPU",
    rests_on: RestsOn::Completions,
    matter: Matter::Time,
    advice: "wait in io_uring_enter(2) (min_complete 1) while no request is in flight; to end this wait for other work, use an eventfd that a request of the ring reads, or IORING_OP_MSG_RING; ignore this if the thread computes",
    checks: &[Check::Ring(idle_poller)],
    ..RULE
};

/// A thread that runs in user mode although few requests complete: it polls the CQ ring, or computes.
fn idle_poller(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let user = |thread: &ThreadAccount| -> u64 {
        thread.rows.iter().filter(|row| row.mode == Some(Mode::User)).map(|row| row.ns).sum()
    };
    let in_flight = on_average(r.opcodes.iter(), ring_seconds(t, r)?)?;
    let per_s = r.completions as f64 / ring_seconds(t, r)?;
    if r.completions < ENOUGH_EVENTS
        || per_s >= FEW_PER_S
        || in_flight > NOTHING
        || from_user_mode(&r.vehicles) < MOSTLY
    {
        return None;
    }
    let thread = t.own_threads().filter(|thread| thread.tgid == r.tgid).max_by_key(|thread| user(thread))?;
    let had = thread.wall_ns - thread.ns_in(ThreadState::Runnable).min(thread.wall_ns);
    let share = user(thread) as f64 / had.max(1) as f64;
    if share < BUSY {
        return None;
    }
    let text = format!(
        "thread {} ({}) ran in user mode for {} of its time, {} per completion, and no request was in flight for {} of the time. The thread polls \
         the CQ ring, or computes",
        thread.tid,
        thread.comm,
        percent(share),
        span(user(thread) as f64 / r.completions as f64),
        percent(1.0 - in_flight)
    );
    let evidence = [("user_share", share), ("in_flight", in_flight)];
    Some(IDLE_POLLER.finding_from(r.completions, Severity::Note, text, &evidence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_table_is_sorted_for_binary_search() {
        assert!(AT_HOME.is_sorted());
    }
}
