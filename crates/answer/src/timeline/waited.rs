//! The longest wait of an I/O in a few words: the causes in `headline`, without threads and CPUs.

use super::nature::{is_timeout, polls, was_cancelled};
use iotrail_base::error::errno_name;
use iotrail_base::words::{bytes, percent, span};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::stage::Stage;
use iotrail_schema::timeline::Span;
use iotrail_schema::trail::{Course, Meanwhile, RequestTrace, Wake};

/// The longest part of an I/O's latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    pub ns: u64,
    /// Continues "it waited": `for the device`, `to be issued to the driver`.
    pub what: &'static str,
}

/// `delivery`: considers only the time since the I/O was ready. `None` if no part is known.
pub fn waited(t: &RequestTrace, delivery: bool) -> Option<Waited> {
    // `max_by_key` returns the last of several equal parts, which is the easiest to change.
    let spans = t.spans().into_iter().filter(|s| !delivery || s.from >= Stage::Ready);
    let longest = spans.max_by_key(Span::ns)?;
    Some(Waited { ns: longest.ns(), what: what(t, &longest) })
}

/// `read of 4 KiB, 8.10 ms: for 7.90 ms (98 %) it waited for the thread to enter the kernel (timer tick)`.
/// `slowness_ns`: latency, or with `delivery` the time since the I/O was ready.
pub fn sentence(t: &RequestTrace, slowness_ns: u64, delivery: bool) -> String {
    let size = t.asked_bytes.map_or(String::new(), |n| format!(" of {}", bytes(n)));
    let failed = if t.result < 0 { format!(" ({})", errno_name(t.result.saturating_neg())) } else { String::new() };
    let time = format!("{}{}", span(slowness_ns as f64), if delivery { " of delivery" } else { "" });
    let why = match waited(t, delivery) {
        Some(w) if slowness_ns > 0 => {
            let share = percent(w.ns as f64 / slowness_ns as f64);
            format!("for {} ({share}) it waited {}", span(w.ns as f64), w.what)
        }
        _ => "the object of its wait is unknown".into(),
    };
    format!("{}{size}{failed}, {time}: {why}", t.opcode)
}

const UNSEEN: &str = "for an untraced event";

fn what(t: &RequestTrace, longest: &Span) -> &'static str {
    use Stage::*;
    match (longest.from, longest.to) {
        (Submitted, Issued) => match (t.punted, t.course) {
            (Some(_), _) => "for an io-wq worker to pick it up",
            (None, Course::Poll) => "to be tried, and its poll armed",
            (None, _) => "to be issued to the driver",
        },
        (Submitted, Posted) if t.vehicle == DeliveryPath::Inline => "for its own submission to end",
        (Submitted, Posted) if t.punted.is_some() || t.vehicle == DeliveryPath::Iowq => {
            "for an io-wq worker to execute it"
        }
        (Submitted, Posted) if is_timeout(t) && !was_cancelled(t) => "until it expired",
        (Submitted, Ready | Posted) if was_cancelled(t) => "until it was cancelled",
        (Submitted, Ready) if polls(t) => "for the polled file to be ready",
        (Issued, Ready) if t.course == Course::Poll && was_cancelled(t) => "until it was cancelled",
        (Issued, Ready) => match t.course {
            Course::Block => "for the device",
            Course::Poll => "for the peer",
            Course::Direct => UNSEEN,
        },
        (Issued, Posted) if t.course == Course::Block => "for the device and its delivery",
        (Submitted, Ready) if t.course == Course::Block => "to be issued, and for the device",
        (Ready, Ended) => "for a kernel worker of the file system",
        (Ready | Ended, Queued) => "for its task work to be queued",
        (Ready | Ended | Queued, Posted) => delivery(t),
        _ => UNSEEN,
    }
}

fn delivery(t: &RequestTrace) -> &'static str {
    if let Some(wake) = &t.wake {
        return slept(t, wake);
    }
    // The thread was on its CPU when the I/O was ready, but did not run throughout.
    let was_off = matches!(t.meanwhile, Some(Meanwhile::Running { cpu })
        if cpu != t.posted.cpu || t.switches_meanwhile.is_some_and(|n| n > 0));
    match (&t.meanwhile, t.vehicle) {
        (_, DeliveryPath::Inline) => "for its own submission to end",
        (_, DeliveryPath::Iowq) => "for the io-wq worker to post it",
        (_, DeliveryPath::IrqDirect) => "for the interrupt that posted it",
        (_, DeliveryPath::Thread) => "for the helper thread",
        (_, DeliveryPath::Kworker) => "for a kernel worker",
        (Some(Meanwhile::Runnable { .. }), _) => "for a CPU that another thread used",
        _ if was_off => "for the thread, which was switched out for a time",
        (_, DeliveryPath::Sqpoll) => "for the SQPOLL thread",
        (_, DeliveryPath::TimerTick) => "for the thread to enter the kernel (timer tick)",
        (_, DeliveryPath::DeviceIrq) => "for the thread to enter the kernel (a device interrupt)",
        (_, DeliveryPath::PageFault) => "for the thread to enter the kernel (page fault)",
        (_, DeliveryPath::OtherIrq) => "for the thread to enter the kernel (an interrupt)",
        (_, DeliveryPath::ReschedIpi) => "for the thread to enter the kernel (reschedule interrupt)",
        (_, DeliveryPath::Enter) => "for the thread to enter the kernel (io_uring_enter)",
        (_, DeliveryPath::SyscallExit) => "for the thread to leave a system call",
        (_, DeliveryPath::Iopoll) => "for the thread to poll the device (io_uring_enter)",
        (_, DeliveryPath::Unknown) => UNSEEN,
    }
}

/// The longest of the three parts of delivery to a sleeping thread.
fn slept(t: &RequestTrace, wake: &Wake) -> &'static str {
    let ready = t.deliverable().map_or(wake.woken.ns, |r| r.ns);
    let asleep = wake.woken.ns.saturating_sub(ready);
    let Some(running) = wake.running else { return "for the sleeping thread" };
    let waited = running.ns.saturating_sub(wake.woken.ns);
    let ran = t.posted.ns.saturating_sub(running.ns);
    if asleep >= waited && asleep >= ran {
        "for the sleeping thread to be woken"
    } else if waited >= ran {
        "for the woken thread to get a CPU"
    } else {
        "for the woken thread to post it"
    }
}
