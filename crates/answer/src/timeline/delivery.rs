//! Why a completion was not posted earlier.

use super::nature::of;
use iotrail_base::words::span;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::trail::{Meanwhile, RequestTrace, Wake};

/// Why the completion was not posted earlier: the thread's state, and the event that ended it.
pub(super) fn why_delivered_then(t: &RequestTrace) -> String {
    if let Some(wake) = &t.wake {
        return slept(t, wake);
    }
    let who = submitter(t);
    // Running throughout: the thread was on its CPU at both ends, and no other thread ran in between.
    let running = matches!(t.meanwhile, Some(Meanwhile::Running { cpu }) if cpu == t.posted.cpu)
        && t.switches_meanwhile.is_none_or(|n| n == 0);
    let state = match &t.meanwhile {
        Some(Meanwhile::Running { cpu }) if running => format!("{who} was running on CPU {cpu}"),
        Some(Meanwhile::Running { cpu }) if *cpu != t.posted.cpu => {
            format!("{who} was running on CPU {cpu}, was switched out, and continued on CPU {}", t.posted.cpu)
        }
        Some(Meanwhile::Running { cpu }) => {
            format!("{who} was running on CPU {cpu}, but was switched out for a time: it slept, or another thread ran")
        }
        Some(Meanwhile::Runnable { cpu, tid, comm }) => {
            let waited = t.runnable_ns().map(|ns| format!(" {}", span(ns as f64))).unwrap_or_default();
            format!("{who} waited{waited} for CPU {cpu}, which {} used", thread(*tid, comm))
        }
        Some(Meanwhile::Sleeping { cpu, tid: 0, .. }) => format!("{who} slept, and CPU {cpu} was idle"),
        Some(Meanwhile::Sleeping { cpu, tid, comm }) => {
            format!("{who} slept, and CPU {cpu} ran {}", thread(*tid, comm))
        }
        None => format!("the state of {who} is unknown"),
    };
    let detail = |what: &str| format!("{what}{}", of(&t.detail));
    // On a running thread's CPU, a kernel entry delivers the completion; other threads get it when they next run.
    let entry = |what: &str| match running {
        true => format!("{state} and nothing entered the kernel there until {}", detail(what)),
        false => format!("{state}; it was posted on return from {}", detail(what)),
    };
    let ran = format!("{state}; its task work ran only");
    match t.vehicle {
        DeliveryPath::TimerTick => entry(if running { "the timer tick" } else { "the timer interrupt" }),
        DeliveryPath::DeviceIrq => entry("a device interrupt"),
        DeliveryPath::PageFault => entry("a page fault"),
        DeliveryPath::OtherIrq => entry("an interrupt"),
        DeliveryPath::ReschedIpi => match running {
            true => format!("{state} until another CPU's reschedule interrupt came"),
            false => entry("a reschedule interrupt"),
        },
        DeliveryPath::Enter => format!("{ran} in its next io_uring_enter"),
        DeliveryPath::SyscallExit => format!("{ran} on the exit from a system call{}", of(&t.detail)),
        DeliveryPath::Inline => "its own submission posted it, and was in progress until then".into(),
        DeliveryPath::Iopoll => format!("{state}; the device was polled only in its next io_uring_enter"),
        DeliveryPath::Sqpoll if t.meanwhile.is_none() => format!("{who} did not process it until then"),
        DeliveryPath::Sqpoll => format!("{state}; it did not process the completion until then"),
        DeliveryPath::Iowq => "the io-wq worker did not post it until then, and no event shows its earlier work".into(),
        DeliveryPath::IrqDirect => format!("it was posted in interrupt context{}", of(&t.detail)),
        DeliveryPath::Thread => "the helper thread did not process it until then".into(),
        DeliveryPath::Kworker => "the kernel worker did not finish it until then".into(),
        DeliveryPath::Unknown => format!("{state}; its delivery path is unknown{}", of(&t.detail)),
    }
}

/// The thread that `tid`, `meanwhile` and `wake` of a trace refer to.
fn submitter(t: &RequestTrace) -> &'static str {
    if t.vehicle == DeliveryPath::Sqpoll { "the SQPOLL thread" } else { "the thread" }
}

pub(super) fn thread(tid: u32, comm: &str) -> String {
    match (tid, comm) {
        (0, _) => "nobody".into(),
        (tid, "") => format!("thread {tid}"),
        (tid, comm) => format!("{comm} ({tid})"),
    }
}

/// The three parts of delivery to a sleeping thread, the longest one marked.
pub(super) fn slept(t: &RequestTrace, wake: &Wake) -> String {
    let ready = t.deliverable().map_or(wake.woken.ns, |r| r.ns);
    let took = |from: u64, to: u64| to.saturating_sub(from);
    let asleep = took(ready, wake.woken.ns);
    let after =
        format!("{} after it {}", span(asleep as f64), if t.ended.is_some() { "had ended" } else { "was ready" });
    let woken = format!("{} slept and was woken by {}", submitter(t), wake.by);
    let Some(running) = wake.running else {
        return format!("{woken}, {after}; the time at which it got a CPU is unknown");
    };
    let (waited, ran) = (took(wake.woken.ns, running.ns), took(running.ns, t.posted.ns));
    if asleep >= waited && asleep >= ran {
        format!("{woken}, but only {after}")
    } else if waited >= ran {
        let who = match &t.meanwhile {
            Some(Meanwhile::Sleeping { cpu, tid, comm } | Meanwhile::Runnable { cpu, tid, comm }) if *tid != 0 => {
                format!("; CPU {cpu}, where it last ran, ran {}", thread(*tid, comm))
            }
            _ => String::new(),
        };
        format!("{woken}, but got a CPU only {} later{who}", span(waited as f64))
    } else {
        format!("{woken} and had a CPU, but posted it only {} later", span(ran as f64))
    }
}
