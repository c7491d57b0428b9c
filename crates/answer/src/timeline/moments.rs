//! The events of an I/O in chronological order.

use serde::Serialize;

use super::nature::{FINISHED, is_timeout, of, polls, was_cancelled};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::stage::Stage;
use iotrail_schema::trail::{Course, Punt, RequestTrace, Stamp};

/// An event of an I/O.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moment {
    /// A stage's name; for the submitting thread: `woken` or `running` (it got a CPU).
    pub what: &'static str,
    /// Since submission; null: unknown. Negative if the timestamps are out of order.
    pub after_ns: Option<i64>,
    /// The CPU; null: unknown.
    pub cpu: Option<u32>,
    /// The event.
    pub text: String,
}

/// Events in chronological order. Inapplicable stages are omitted; unknown ones are marked.
pub fn moments(t: &RequestTrace) -> Vec<Moment> {
    let moment = |what, stamp: Option<Stamp>, text: String| Moment {
        what,
        after_ns: stamp.map(|s| s.ns as i64 - t.submitted.ns as i64),
        cpu: stamp.map(|s| s.cpu),
        text,
    };
    let mut all: Vec<Moment> = Vec::new();
    for stage in Stage::ALL {
        let stamp = t.stamp(stage);
        let Some(mut text) = (match stamp {
            Some(_) => Some(known(t, stage)),
            None => unknown(t, stage).map(str::to_owned),
        }) else {
            continue;
        };
        if stamp.is_some() && !t.in_order(stage) {
            text.push_str(" (out of order: not used)");
        }
        all.push(moment(stage.name(), stamp, text));
    }
    if t.wake.is_none() && t.on_cpu.is_none() {
        return all;
    }
    let mut insert = |m: Moment| {
        let later = |other: &Moment| match (other.after_ns, m.after_ns) {
            (Some(other), Some(this)) => other > this,
            _ => false,
        };
        let at = all.iter().position(later).unwrap_or(all.len() - 1);
        all.insert(at, m);
    };
    let Some(wake) = &t.wake else {
        // The thread was runnable, but waited for a CPU.
        if t.runnable_ns().is_some_and(|ns| ns > 0) {
            insert(moment("running", t.on_cpu, "the thread has a CPU".into()));
        }
        return all;
    };
    insert(moment("woken", Some(wake.woken), format!("the thread, by {}", wake.by)));
    match wake.running {
        Some(_) => insert(moment("running", wake.running, "the thread has a CPU".into())),
        None => {
            let after_woken = all.iter().position(|m| m.what == "woken").map_or(0, |i| i + 1);
            all.insert(after_woken, moment("running", None, "unknown: no event shows when it got a CPU".into()));
        }
    }
    all
}

pub(super) fn known(t: &RequestTrace, stage: Stage) -> String {
    let requests = t.block_requests;
    match (stage, t.course) {
        (Stage::Submitted, _) => submitted(t),
        (Stage::Issued, Course::Block) if requests > 1 => {
            format!("the first of {requests} block requests, to the driver")
        }
        (Stage::Issued, Course::Block) => "to the driver".into(),
        (Stage::Issued, Course::Poll) => "a poll was armed".into(),
        (Stage::Issued, Course::Direct) => String::new(),
        (Stage::Ready, Course::Block) if requests > 1 => {
            format!("the device completed the last of {requests} block requests")
        }
        (Stage::Ready, Course::Block) => "the device completed it".into(),
        (Stage::Ready, _) if was_cancelled(t) => "it was cancelled".into(),
        (Stage::Ready, Course::Poll) => "the poll was woken".into(),
        (Stage::Ready, Course::Direct) if polls(t) => "the poll was woken".into(),
        (Stage::Ready, Course::Direct) => String::new(),
        (Stage::Ended, _) => FINISHED.into(),
        (Stage::Queued, _) => "task work was queued".into(),
        (Stage::Posted, _) => posted(t),
    }
}

pub(super) fn submitted(t: &RequestTrace) -> String {
    let mut text = match t.enter_batch {
        Some(1) => "the only request of its io_uring_enter".to_owned(),
        Some(n) => format!("one of {n} requests of one io_uring_enter"),
        None => "not by an io_uring_enter call".to_owned(),
    };
    match t.punted {
        Some(Punt::Asked) => text.push_str("; to io-wq, as the program requested"),
        Some(Punt::WouldBlock) => text.push_str("; to io-wq: it would have blocked"),
        Some(Punt::Drained) => text.push_str("; to io-wq, once the ring was drained"),
        None => (),
    }
    text
}

/// `None` if the stage does not apply.
pub(super) fn unknown(t: &RequestTrace, stage: Stage) -> Option<&'static str> {
    let followed = t.course != Course::Direct;
    match stage {
        Stage::Issued | Stage::Ready if followed => Some("unknown: no event was traced"),
        // A request that completes at submission has no stages in between.
        Stage::Issued | Stage::Ready if t.vehicle == DeliveryPath::Inline => None,
        Stage::Issued if polls(t) => Some("unknown: it was armed during its submission"),
        Stage::Issued | Stage::Ready if is_timeout(t) => Some("unknown: no probe traces timers"),
        Stage::Issued | Stage::Ready => Some("unknown: neither block I/O nor a poll, or not traced"),
        Stage::Queued if by_task_work(t.vehicle) => Some("unknown: no probe traces this stage"),
        _ => None,
    }
}

fn by_task_work(v: DeliveryPath) -> bool {
    match v {
        DeliveryPath::Enter
        | DeliveryPath::SyscallExit
        | DeliveryPath::ReschedIpi
        | DeliveryPath::DeviceIrq
        | DeliveryPath::TimerTick
        | DeliveryPath::PageFault
        | DeliveryPath::OtherIrq
        | DeliveryPath::Sqpoll
        | DeliveryPath::Unknown => true,
        DeliveryPath::Inline
        | DeliveryPath::Iopoll
        | DeliveryPath::Iowq
        | DeliveryPath::IrqDirect
        | DeliveryPath::Thread
        | DeliveryPath::Kworker => false,
    }
}

pub(super) fn posted(t: &RequestTrace) -> String {
    let detail = |name: &str| format!("{name}{}", of(&t.detail));
    let by = match t.vehicle {
        DeliveryPath::Inline => "inline, during its submission".into(),
        // The detail names the waker, which is printed on its own line.
        DeliveryPath::Enter if t.wake.is_some() => "enter: in io_uring_enter, after a sleep".into(),
        DeliveryPath::Enter => detail("enter: in io_uring_enter"),
        DeliveryPath::SyscallExit => detail("syscall_exit: on the exit from a system call"),
        DeliveryPath::ReschedIpi => "resched_ipi: on return from a reschedule interrupt".into(),
        DeliveryPath::DeviceIrq => detail("device_irq: on return from a device interrupt"),
        DeliveryPath::TimerTick => "timer_tick: on return from the timer interrupt".into(),
        DeliveryPath::PageFault => "page_fault: on return from a page fault".into(),
        DeliveryPath::OtherIrq => detail("other_irq: on return from an interrupt"),
        DeliveryPath::Sqpoll => "sqpoll: by the SQPOLL thread".into(),
        DeliveryPath::Iopoll => "iopoll: by a poll of the device".into(),
        DeliveryPath::Iowq => "iowq: by an io-wq worker".into(),
        DeliveryPath::IrqDirect => detail("irq_direct: in interrupt context"),
        DeliveryPath::Thread => "thread: by a helper thread".into(),
        DeliveryPath::Kworker => "kworker: by a kernel worker".into(),
        DeliveryPath::Unknown => detail("unknown"),
    };
    match t.run_items {
        Some(n) if n > 1 => format!("{by}; {n} items in that run"),
        _ => by,
    }
}
