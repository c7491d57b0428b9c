//! One I/O's timeline in words: its moments, where most of the time went, and why as far as that was seen.

use serde::Serialize;

use iotrail_base::error::errno_name;
use iotrail_base::words::{bytes, span};
use iotrail_schema::stage::Stage;
use iotrail_schema::timeline::Span;
use iotrail_schema::trail::{Course, Meanwhile, Punt, Stamp, Trail, Wake};
use iotrail_schema::vehicle::Vehicle;

/// A moment of an I/O.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moment {
    /// A stage's name, or `woken` or `running`: of the thread that slept for it.
    pub what: &'static str,
    /// Since submission; null: not known. Negative where the stamps are out of order.
    pub after_ns: Option<i64>,
    /// The CPU; null: not known.
    pub cpu: Option<u32>,
    /// What happened.
    pub text: String,
}

/// What was asked for and what came: `read_fixed 4 KiB`, `recv: ECONNRESET`, `write 4 KiB: only 512 B`.
pub fn request(t: &Trail) -> String {
    let asked = t.asked_bytes.map_or_else(|| t.opcode.clone(), |n| format!("{} {}", t.opcode, bytes(n)));
    match (t.result, t.asked_bytes) {
        (e, _) if e < 0 => format!("{asked}: {}", errno_name(e.saturating_neg())),
        (n, Some(all)) if u64::from(n.unsigned_abs()) < all => {
            format!("{asked}: only {}", bytes(n.unsigned_abs().into()))
        }
        _ => asked,
    }
}

/// The moments in their order; a stage that does not apply is left out, one that is not known is said to be.
pub fn moments(t: &Trail) -> Vec<Moment> {
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
        // It needed no waking, but a CPU.
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
            all.insert(after_woken, moment("running", None, "not known: it was not seen to get a CPU".into()));
        }
    }
    all
}

fn known(t: &Trail, stage: Stage) -> String {
    let requests = t.block_requests;
    match (stage, t.course) {
        (Stage::Submitted, _) => submitted(t),
        (Stage::Issued, Course::Block) if requests > 1 => {
            format!("the first of {requests} block requests, to the driver")
        }
        (Stage::Issued, Course::Block) => "to the driver".into(),
        (Stage::Issued, Course::Poll) => "a poll was armed".into(),
        (Stage::Issued, Course::Direct) => String::new(),
        (Stage::Ready, Course::Block) if requests > 1 => format!("the last of {requests} block requests was done"),
        (Stage::Ready, Course::Block) => "the device was done".into(),
        (Stage::Ready, _) if was_cancelled(t) => "it was cancelled".into(),
        (Stage::Ready, Course::Poll) => "the poll was woken".into(),
        (Stage::Ready, Course::Direct) if polls(t) => "the poll was woken".into(),
        (Stage::Ready, Course::Direct) => String::new(),
        (Stage::Ended, _) => FINISHED.into(),
        (Stage::Queued, _) => "task work was added".into(),
        (Stage::Posted, _) => posted(t),
    }
}

fn submitted(t: &Trail) -> String {
    let mut text = match t.enter_batch {
        Some(1) => "the only one of its io_uring_enter".to_owned(),
        Some(n) => format!("one of {n} of one io_uring_enter"),
        None => "not by a call of io_uring_enter".to_owned(),
    };
    match t.punted {
        Some(Punt::Asked) => text.push_str("; to io-wq, as the program asked"),
        Some(Punt::WouldBlock) => text.push_str("; to io-wq: it would have blocked"),
        Some(Punt::Drained) => text.push_str("; to io-wq, once the ring was drained"),
        None => (),
    }
    text
}

/// `None`: the stage does not apply.
fn unknown(t: &Trail, stage: Stage) -> Option<&'static str> {
    let followed = t.course != Course::Direct;
    match stage {
        Stage::Issued | Stage::Ready if followed => Some("not known: it was not seen"),
        // Done on the spot: there is nothing between.
        Stage::Issued | Stage::Ready if t.vehicle == Vehicle::Inline => None,
        Stage::Issued if polls(t) => Some("not known: it was armed while it was being submitted"),
        Stage::Issued | Stage::Ready if is_timeout(t) => Some("not known: no probe stands at timers"),
        Stage::Issued | Stage::Ready => Some("not known: neither block I/O nor a poll, or not seen as such"),
        Stage::Queued if by_task_work(t.vehicle) => Some("not known: no probe stands there"),
        _ => None,
    }
}

/// It is a poll itself: its submission arms it.
fn polls(t: &Trail) -> bool {
    t.opcode == "poll_add"
}

/// By a request or call that takes others back, or by its linked timeout; of a linked timeout itself, since what it was for had ended.
fn was_cancelled(t: &Trail) -> bool {
    const ECANCELED: i32 = 125;
    t.result == -ECANCELED
}

fn is_timeout(t: &Trail) -> bool {
    matches!(t.opcode.as_str(), "timeout" | "link_timeout")
}

fn by_task_work(v: Vehicle) -> bool {
    match v {
        Vehicle::Enter
        | Vehicle::SyscallExit
        | Vehicle::ReschedIpi
        | Vehicle::DeviceIrq
        | Vehicle::TimerTick
        | Vehicle::PageFault
        | Vehicle::OtherIrq
        | Vehicle::Sqpoll
        | Vehicle::Unknown => true,
        Vehicle::Inline | Vehicle::Iopoll | Vehicle::Iowq | Vehicle::IrqDirect | Vehicle::Thread | Vehicle::Kworker => {
            false
        }
    }
}

fn posted(t: &Trail) -> String {
    let detail = |name: &str| format!("{name}{}", of(&t.detail));
    let by = match t.vehicle {
        Vehicle::Inline => "inline, while it was being submitted".into(),
        // The detail names the waker, which is told by itself.
        Vehicle::Enter if t.wake.is_some() => "enter: in io_uring_enter, after a sleep".into(),
        Vehicle::Enter => detail("enter: in io_uring_enter"),
        Vehicle::SyscallExit => detail("syscall_exit: leaving a system call"),
        Vehicle::ReschedIpi => "resched_ipi: on return from a reschedule interrupt".into(),
        Vehicle::DeviceIrq => detail("device_irq: on return from a device's interrupt"),
        Vehicle::TimerTick => "timer_tick: on return from the timer interrupt".into(),
        Vehicle::PageFault => "page_fault: on return from a page fault".into(),
        Vehicle::OtherIrq => detail("other_irq: on return from an interrupt"),
        Vehicle::Sqpoll => "sqpoll: by the submission-queue thread".into(),
        Vehicle::Iopoll => "iopoll: by a poll of the device".into(),
        Vehicle::Iowq => "iowq: by an io-wq worker".into(),
        Vehicle::IrqDirect => detail("irq_direct: in interrupt context"),
        Vehicle::Thread => "thread: by a helper thread".into(),
        Vehicle::Kworker => "kworker: by a kernel worker".into(),
        Vehicle::Unknown => detail("unknown: what carried it could not be told"),
    };
    match t.run_items {
        Some(n) if n > 1 => format!("{by}; {n} items in that run"),
        _ => by,
    }
}

/// Where most of the time went, and why; of a `later` completion of a request, how its delivery went. The first sentence is
/// the answer; those that follow tell of delivery where that was not the longest part.
pub fn headline(t: &Trail, later: bool) -> Vec<String> {
    let (spans, total) = (t.spans(), span(t.latency_ns() as f64));
    let delivery: u64 = spans.iter().filter(|s| s.from >= Stage::Ready).map(Span::ns).sum();
    let delay_known = spans.iter().any(|s| s.from >= Stage::Ready);
    let mut sentences = Vec::new();
    if later {
        sentences
            .push("One of several completions of its request: the time since submission is no latency.".to_owned());
    }
    let Some(longest) = t.longest().filter(|_| !later) else {
        sentences.push(match (spans.is_empty(), delay_known) {
            (true, _) => "Its stamps are out of order: nothing can be said of its stages.".into(),
            (_, true) => delivery_took(t, &spans, delivery),
            (_, false) => "When it was ready is not known.".into(),
        });
        return sentences;
    };
    let between = format!("between {} and {}", longest.from.name(), longest.to.name());
    let spent = match spans.len() {
        1 => format!("All {total} lie {between}"),
        _ => format!("{} of {total} were spent {between}", span(longest.ns() as f64)),
    };
    sentences.push(format!("{spent}: {}.", why(t, &longest)));
    if longest.from < Stage::Ready && delay_known {
        sentences.push(delivery_took(t, &spans, delivery));
    }
    sentences
}

fn delivery_took(t: &Trail, spans: &[Span], delivery_ns: u64) -> String {
    let worker = spans.iter().find(|s| (s.from, s.to) == (Stage::Ready, Stage::Ended));
    let until = worker.map(|s| format!(", {} of it until {FINISHED}", span(s.ns() as f64))).unwrap_or_default();
    format!("Delivery took {}{until}: {}.", span(delivery_ns as f64), why_delivered_then(t))
}

const FINISHED: &str = "a kernel worker of the file system had finished it";

fn why(t: &Trail, longest: &Span) -> String {
    use Stage::*;
    match (longest.from, longest.to) {
        (Submitted, Issued) => before_issue(t),
        (Submitted, Posted) => untold(t),
        (Issued, Ready) => match (t.course, t.block_requests) {
            (Course::Block, 0 | 1) => "the device took that long".into(),
            (Course::Block, n) => format!("the device took that long for all of its {n} block requests"),
            (Course::Poll, _) if was_cancelled(t) => "nothing came until it was cancelled".into(),
            (Course::Poll, _) => "there was nothing to be had, or no room, until the other side made it ready".into(),
            (Course::Direct, _) => "what it waited for is not known".into(),
        },
        (Issued, Posted) => format!("{} and delivery together, since when it was ready is not known", waited_for(t)),
        (Submitted, Ready) if polls(t) && was_cancelled(t) => "nothing came until it was cancelled".into(),
        (Submitted, Ready) if polls(t) => "nothing made what it polls ready until then".into(),
        (Submitted, Ready) => {
            format!("submission and {} together, since when it was issued is not known", waited_for(t))
        }
        (Ready, Ended) => {
            "the device was done, and a kernel worker of the file system had to finish it before it could be delivered"
                .into()
        }
        (Ready | Ended, Queued) => "it was ready, but no task work had been added for it yet".into(),
        (Ready | Ended | Queued, Posted) => why_delivered_then(t),
        _ => "what came between is not known".into(),
    }
}

fn waited_for(t: &Trail) -> &'static str {
    match t.course {
        Course::Block => "the device",
        Course::Poll => "the other side",
        Course::Direct => "what it waited for",
    }
}

fn before_issue(t: &Trail) -> String {
    match (t.punted, t.course, t.enter_batch) {
        (Some(punt), ..) => format!("it was handed to io-wq {}, and a worker had to take it up first", because(punt)),
        (None, Course::Poll, _) => "it was tried, and a poll armed when it could not go on".into(),
        (None, _, Some(n)) if n > 1 => format!(
            "it is one of {n} requests of one io_uring_enter; may be: the block layer held it back until the last of the call \
             was there"
        ),
        _ => "io_uring, the file system and the block layer took that long to bring it to the driver".into(),
    }
}

fn because(punt: Punt) -> &'static str {
    match punt {
        Punt::Asked => "as the program asked (IOSQE_ASYNC)",
        Punt::WouldBlock => "because it would have blocked",
        Punt::Drained => "once the ring was drained (IOSQE_IO_DRAIN)",
    }
}

/// Of a request of which only submission and posting are known.
fn untold(t: &Trail) -> String {
    match (t.vehicle, t.punted, t.course) {
        (Vehicle::Inline, ..) => "it was done while it was being submitted".into(),
        (_, Some(punt), _) => {
            format!("it was handed to io-wq {}, and what the worker did with it was not seen", because(punt))
        }
        (Vehicle::Iowq, None, _) => "an io-wq worker did it, and how it got there was not seen".into(),
        _ if is_timeout(t) && was_cancelled(t) => "it was cancelled before its time was up".into(),
        _ if is_timeout(t) => {
            "a timeout ends when its time is up, or the completions that it counts are there".into()
        }
        (_, _, Course::Direct) if t.enter_batch.is_some_and(|n| n > 1) => {
            "what it waited for is not known: neither block I/O nor a poll, or not seen as such; a linked request waits \
             for the ones before it"
                .into()
        }
        (_, _, Course::Direct) => {
            "what it waited for is not known: neither block I/O nor a poll, or not seen as such".into()
        }
        _ => "its stages were not seen".into(),
    }
}

/// Why the completion was posted no earlier: what the thread did, and what it was that came.
fn why_delivered_then(t: &Trail) -> String {
    if let Some(wake) = &t.wake {
        return slept(t, wake);
    }
    let who = submitter(t);
    // Running all the time: it was on its CPU at both ends, and no other thread was between.
    let running = matches!(t.meanwhile, Some(Meanwhile::Running { cpu }) if cpu == t.posted.cpu)
        && t.switches_meanwhile.is_none_or(|n| n == 0);
    let state = match &t.meanwhile {
        Some(Meanwhile::Running { cpu }) if running => format!("{who} was running on CPU {cpu}"),
        Some(Meanwhile::Running { cpu }) if *cpu != t.posted.cpu => {
            format!("{who} was running on CPU {cpu}, but was off it and went on on CPU {}", t.posted.cpu)
        }
        Some(Meanwhile::Running { cpu }) => {
            format!("{who} was running on CPU {cpu}, but was off it for a time: it slept, or another thread ran")
        }
        Some(Meanwhile::Runnable { cpu, tid, comm }) => {
            let waited = t.runnable_ns().map(|ns| format!(" {}", span(ns as f64))).unwrap_or_default();
            format!("{who} waited{waited} for CPU {cpu}, which {} had", thread(*tid, comm))
        }
        Some(Meanwhile::Sleeping { cpu, tid: 0, .. }) => format!("{who} slept, and CPU {cpu} was idle"),
        Some(Meanwhile::Sleeping { cpu, tid, comm }) => {
            format!("{who} slept, and CPU {cpu} ran {}", thread(*tid, comm))
        }
        None => format!("what {who} did is not known"),
    };
    let detail = |what: &str| format!("{what}{}", of(&t.detail));
    // What comes to a running thread's CPU takes the completion along; to others it comes when they run again.
    let entry = |what: &str| match running {
        true => format!("{state} and nothing entered the kernel there until {}", detail(what)),
        false => format!("{state}; it was posted on return from {}", detail(what)),
    };
    let ran = format!("{state}; its task work ran only");
    match t.vehicle {
        Vehicle::TimerTick => entry(if running { "the timer tick" } else { "the timer interrupt" }),
        Vehicle::DeviceIrq => entry("a device's interrupt"),
        Vehicle::PageFault => entry("a page fault"),
        Vehicle::OtherIrq => entry("an interrupt"),
        Vehicle::ReschedIpi => match running {
            true => format!("{state} until another CPU's reschedule interrupt came"),
            false => entry("a reschedule interrupt"),
        },
        Vehicle::Enter => format!("{ran} when it was in io_uring_enter again"),
        Vehicle::SyscallExit => format!("{ran} on its way out of a system call{}", of(&t.detail)),
        Vehicle::Inline => "its own submission posted it, and was under way until then".into(),
        Vehicle::Iopoll => format!("{state}; the device was polled only in its next io_uring_enter"),
        Vehicle::Sqpoll if t.meanwhile.is_none() => format!("{who} came to it only then"),
        Vehicle::Sqpoll => format!("{state}; it came to it only then"),
        Vehicle::Iowq => "the io-wq worker posted it only then, and what it did until then was not seen".into(),
        Vehicle::IrqDirect => format!("it was posted in interrupt context{}", of(&t.detail)),
        Vehicle::Thread => "the helper thread came to it only then".into(),
        Vehicle::Kworker => "the kernel worker that had to finish it came to it only then".into(),
        Vehicle::Unknown => format!("{state}; what carried it could not be told{}", of(&t.detail)),
    }
}

/// The thread that a trail's `tid`, `meanwhile` and `wake` are of.
fn submitter(t: &Trail) -> &'static str {
    if t.vehicle == Vehicle::Sqpoll { "the submission-queue thread" } else { "the thread" }
}

fn of(detail: &Option<String>) -> String {
    detail.as_ref().map_or(String::new(), |d| format!(" ({d})"))
}

fn thread(tid: u32, comm: &str) -> String {
    match (tid, comm) {
        (0, _) => "nobody".into(),
        (tid, "") => format!("thread {tid}"),
        (tid, comm) => format!("{comm} ({tid})"),
    }
}

/// The three parts of a delivery to a sleeper, the longest one told.
fn slept(t: &Trail, wake: &Wake) -> String {
    let ready = t.deliverable().map_or(wake.woken.ns, |r| r.ns);
    let took = |from: u64, to: u64| to.saturating_sub(from);
    let asleep = took(ready, wake.woken.ns);
    let after =
        format!("{} after it {}", span(asleep as f64), if t.ended.is_some() { "had ended" } else { "was ready" });
    let woken = format!("{} slept and was woken by {}", submitter(t), wake.by);
    let Some(running) = wake.running else {
        return format!("{woken}, {after}; when it got a CPU is not known");
    };
    let (waited, ran) = (took(wake.woken.ns, running.ns), took(running.ns, t.posted.ns));
    if asleep >= waited && asleep >= ran {
        format!("{woken}, but only {after}")
    } else if waited >= ran {
        let who = match &t.meanwhile {
            Some(Meanwhile::Sleeping { cpu, tid, comm } | Meanwhile::Runnable { cpu, tid, comm }) if *tid != 0 => {
                format!("; CPU {cpu}, where it was last, ran {}", thread(*tid, comm))
            }
            _ => String::new(),
        };
        format!("{woken}, but got a CPU only {} later{who}", span(waited as f64))
    } else {
        format!("{woken} and had a CPU, but posted it only {} later", span(ran as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::trail_example::trail;
    use iotrail_schema::waker::Waker;

    fn at(t: &Trail, ns: u64, cpu: u32) -> Stamp {
        Stamp { ns: t.submitted.ns + ns, cpu }
    }

    #[test]
    fn the_longest_part_comes_first_with_its_reason() {
        let mut t = trail();
        t.meanwhile = Some(Meanwhile::Running { cpu: 0 });
        assert_eq!(
            headline(&t, false),
            ["2.90 ms of 3.00 ms were spent between ready and posted: the thread was running on CPU 0 and nothing \
              entered the kernel there until the timer tick."]
        );
        t.posted = at(&t, 110_000, 0);
        assert_eq!(
            headline(&t, false),
            [
                "89.0 µs of 110 µs were spent between issued and ready: the device took that long.",
                "Delivery took 9.00 µs: the thread was running on CPU 0 and nothing entered the kernel there until \
                 the timer tick."
            ]
        );
    }

    #[test]
    fn a_thread_that_lost_its_cpu_did_not_hold_it_all_the_time() {
        let mut t = trail();
        t.meanwhile = Some(Meanwhile::Running { cpu: 0 });
        t.switches_meanwhile = Some(4);
        assert!(headline(&t, false)[0].ends_with(
            "posted: the thread was running on CPU 0, but was off it for a time: it slept, or another thread ran; it \
             was posted on return from the timer interrupt."
        ));
        (t.posted.cpu, t.switches_meanwhile) = (1, None);
        assert!(
            headline(&t, false)[0].contains("running on CPU 0, but was off it and went on on CPU 1; it was posted")
        );
        t.vehicle = Vehicle::Sqpoll;
        t.meanwhile = Some(Meanwhile::Runnable { cpu: 0, tid: 54, comm: "kworker/0:1H".into() });
        assert!(headline(&t, false)[0].ends_with(
            "posted: the submission-queue thread waited for CPU 0, which kworker/0:1H (54) had; it came to it only then."
        ));
        t.on_cpu = Some(at(&t, 2_101_000, 0));
        assert!(headline(&t, false)[0].contains("waited 2.00 ms for CPU 0, which"), "{:?}", headline(&t, false));
        let order: Vec<_> = moments(&t).iter().map(|m| m.what).collect();
        assert_eq!(order, ["submitted", "issued", "ready", "queued", "running", "posted"]);
    }

    #[test]
    fn the_file_systems_worker_is_named() {
        let mut t = trail();
        (t.opcode, t.meanwhile) = ("write".into(), Some(Meanwhile::Running { cpu: 0 }));
        t.ended = Some(at(&t, 2_900_000, 1));
        assert_eq!(
            headline(&t, false),
            [
                "2.80 ms of 3.00 ms were spent between ready and ended: the device was done, and a kernel worker of the file \
              system had to finish it before it could be delivered."
            ]
        );
        (t.ended, t.posted) = (Some(at(&t, 105_000, 1)), at(&t, 110_000, 0));
        assert_eq!(
            headline(&t, false)[1],
            "Delivery took 9.00 µs, 4.00 µs of it until a kernel worker of the file system had finished it: the thread was \
             running on CPU 0 and nothing entered the kernel there until the timer tick."
        );
        let ended = moments(&t).into_iter().find(|m| m.what == "ended").unwrap();
        assert_eq!((ended.after_ns, ended.text.as_str()), (Some(105_000), FINISHED));
        assert!(moments(&trail()).iter().all(|m| m.what != "ended"), "most I/O has no such worker");
    }

    #[test]
    fn polls_and_timeouts_in_their_own_words() {
        let mut t = trail();
        (t.opcode, t.asked_bytes, t.issued, t.course) = ("poll_add".into(), None, None, Course::Direct);
        t.ready = Some(at(&t, 2_000_000, 1));
        assert!(headline(&t, false)[0].ends_with("submitted and ready: nothing made what it polls ready until then."));
        t.result = -125;
        assert!(headline(&t, false)[0].ends_with("submitted and ready: nothing came until it was cancelled."));
        assert!(moments(&t).iter().any(|m| m.what == "ready" && m.text == "it was cancelled"));
        (t.opcode, t.ready) = ("timeout".into(), None);
        assert!(headline(&t, false)[0].contains("posted: it was cancelled before its time was up"));
        t.result = 0;
        assert!(headline(&t, false)[0].contains("posted: a timeout ends when its time is up"));
    }

    #[test]
    fn a_sleep_is_taken_apart() {
        let mut t = trail();
        (t.vehicle, t.detail) = (Vehicle::Enter, Some("slept, woken by irq 36 on CPU 1".into()));
        t.meanwhile = Some(Meanwhile::Sleeping { cpu: 0, tid: 99, comm: "busy".into() });
        let by = Waker::Thread { cpu: 1 };
        let mut wake = Wake { woken: at(&t, 102_000, 1), by, running: Some(at(&t, 2_900_000, 0)) };
        t.wake = Some(wake.clone());
        assert!(headline(&t, false)[0].ends_with(
            "ready and posted: the thread slept and was woken by a thread on CPU 1, but got a CPU only 2.80 ms later; \
             CPU 0, where it was last, ran busy (99)."
        ));
        let order: Vec<_> = moments(&t).iter().map(|m| m.what).collect();
        assert_eq!(order, ["submitted", "issued", "ready", "queued", "woken", "running", "posted"]);
        wake.running = None;
        t.wake = Some(wake);
        assert!(headline(&t, false)[0].ends_with("1, 1.00 µs after it was ready; when it got a CPU is not known."));
    }

    #[test]
    fn what_is_not_known_is_said_to_be() {
        let mut t = trail();
        (t.issued, t.ready, t.course) = (None, None, Course::Direct);
        assert_eq!(
            headline(&t, false),
            ["All 3.00 ms lie between submitted and posted: what it waited for is not known: neither block I/O nor a \
              poll, or not seen as such."]
        );
        let unknown: Vec<_> = moments(&t).into_iter().filter(|m| m.after_ns.is_none()).map(|m| m.what).collect();
        assert_eq!(unknown, ["issued", "ready", "queued"]);
    }

    #[test]
    fn results_in_words() {
        let with = |result, asked_bytes| request(&Trail { result, asked_bytes, ..trail() });
        assert_eq!(with(4096, Some(4096)), "read_fixed 4 KiB");
        assert_eq!(with(512, Some(4096)), "read_fixed 4 KiB: only 512 B");
        assert_eq!(with(-5, Some(4096)), "read_fixed 4 KiB: EIO");
        assert_eq!(with(1, None), "read_fixed");
    }
}
