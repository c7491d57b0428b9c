//! Puts a stall into words: its cause, and a sentence that explains it. Pure.

use std::time::Duration;

use iotrail_base::words::{count, percent, plural, span};
use iotrail_schema::account::Reason;
use iotrail_schema::stall::Trigger;

use crate::diagnose::state::reason_name;

/// Samples taken when a trigger fired; `None` if unknown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Time since the condition began to hold.
    pub for_ns: u64,
    pub ring: Option<RingFacts>,
    pub thread: Option<ThreadFacts>,
    /// Bios, nanoseconds, errors or punts, depending on the trigger.
    pub amount: f64,
    /// The time limit of the thread's wait; `None` if the timeout is a request of the ring.
    pub limit: Option<Duration>,
    /// The usual latency against which a request is slow; `None` if the threshold is a fixed time.
    pub usual: Option<Usual>,
    /// The --when expression and its value, or the errors by name.
    pub detail: String,
}

/// A threshold relative to the ring's usual latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usual {
    pub multiple: f64,
    pub p99_9_ns: u64,
    pub threshold_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RingFacts {
    pub fd: Option<u32>,
    pub is_defer: bool,
    /// Excludes polls and timeouts, except for [`Trigger::WaitsForMore`].
    pub in_flight: Option<u64>,
    /// Number of completions that the thread waits for.
    pub awaited: u64,
    pub unreaped: u64,
    pub unsubmitted: u64,
    pub overflowed: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadFacts {
    pub tid: u32,
    pub comm: String,
    pub is_asleep: bool,
    /// The thread is runnable, but no CPU runs it.
    pub lacks_cpu: bool,
    /// The system call that the thread is in.
    pub call: Option<String>,
    pub reason: Option<Reason>,
}

/// The cause in a few words, and the sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub cause: String,
    pub text: String,
}

impl ThreadFacts {
    fn name(&self) -> String {
        format!("thread {} ({})", self.tid, self.comm)
    }

    /// `sleeps in fsync(2): writeback`.
    fn does(&self) -> String {
        let reason = self.reason.as_ref().map(|r| format!(": {}", reason_name(r))).unwrap_or_default();
        match (&self.call, self.is_asleep) {
            (Some(call), true) => format!("sleeps in {call}(2){reason}"),
            (None, true) => format!("sleeps{reason}"),
            (_, false) if self.lacks_cpu => "is ready to run and waits for a CPU".into(),
            (_, false) => "runs".into(),
        }
    }
}

/// Why the thread sleeps, or what it does instead.
fn reason(thread: Option<&ThreadFacts>) -> String {
    let known = thread.and_then(|t| t.reason.as_ref()).map(reason_name);
    known.or_else(|| thread.map(ThreadFacts::does)).unwrap_or_else(|| "unknown".into())
}

/// Set if the thread cannot act at all.
fn cannot_act(thread: &ThreadFacts) -> Option<String> {
    let is_held = |r: &&Reason| matches!(r, Reason::Stopped | Reason::Frozen | Reason::Ptrace | Reason::CpuQuota);
    thread.reason.as_ref().filter(is_held).map(reason_name)
}

pub fn explain(trigger: Trigger, f: &Facts) -> Explanation {
    let time = span(f.for_ns as f64);
    let ring = f.ring.clone().unwrap_or_default();
    let of_ring = ring.fd.map_or("a ring without a descriptor".into(), |fd| format!("ring {fd}"));
    let thread = f.thread.as_ref();
    let name = thread.map_or("its thread".into(), ThreadFacts::name);
    let does = thread.map_or(String::new(), |t| format!("; {} {}", t.name(), t.does()));
    let completions = plural(ring.unreaped as usize, "completion");
    let (cause, text) = match trigger {
        Trigger::SlowRequest => (
            match thread.and_then(|t| t.reason.as_ref()) {
                Some(reason) if *reason != Reason::UringCompletions => reason_name(reason),
                _ => "requests in flight".into(),
            },
            match (&f.ring, thread) {
                (None, Some(worker)) => {
                    format!(
                        "a request has occupied io-wq worker {} for {time}: the worker {}",
                        worker.tid,
                        worker.does()
                    )
                }
                _ => format!(
                    "{of_ring} posted no completion for {time} while {} in flight{}{does}",
                    ring.in_flight.map_or("requests were".into(), |n| {
                        format!("{} {}", plural(n as usize, "request"), if n == 1 { "was" } else { "were" })
                    }),
                    f.usual.map_or(String::new(), |u| format!(" (p99.9 of its latency: {})", span(u.p99_9_ns as f64)))
                ),
            },
        ),
        Trigger::AsleepWithCompletions => (
            "wake-up missing".into(),
            format!(
                "{name} slept in io_uring_enter(2) for {time} although {of_ring} held {completions}, as many as it waited for"
            ),
        ),
        Trigger::WaitsForMore => {
            let can_come = ring.in_flight.map(|n| n + ring.unreaped);
            let (cause, rest) = match can_come {
                Some(n) if n < ring.awaited => {
                    let left = plural((n - ring.unreaped) as usize, "request");
                    (
                        "completions that cannot arrive",
                        format!("with {left} in flight, they cannot arrive unless a thread submits more"),
                    )
                }
                _ => ("more completions awaited", "none arrived in this time".into()),
            };
            let text = format!(
                "{name} slept in io_uring_enter(2) for {time} although {of_ring} held {completions}: it waits for {}, and {rest}",
                ring.awaited
            );
            (cause.into(), text)
        }
        Trigger::Unreaped => (
            match thread {
                Some(t) if t.is_asleep => {
                    format!("the program sleeps{}", t.call.as_ref().map_or(String::new(), |c| format!(" in {c}")))
                }
                _ => "the program does not reap".into(),
            },
            format!("{completions} stayed in the CQ of {of_ring} for {time}, and no thread waited for them{does}"),
        ),
        Trigger::TaskWorkWaits => (
            "task work not run".into(),
            format!(
                "task work of {of_ring} was pending for {time}: its requests are ready, and {name} must call io_uring_enter(2){}",
                if ring.is_defer { " with IORING_ENTER_GETEVENTS (DEFER_TASKRUN)" } else { "" }
            ),
        ),
        Trigger::LateTimer => (
            if f.limit.is_some() { "wake-up late" } else { "timeout expired" }.into(),
            match f.limit {
                Some(limit) => format!(
                    "{name} waited in io_uring_enter(2) with a timeout of {}, and the wait took {} longer{does}",
                    span(limit.as_nanos() as f64),
                    span(f.amount)
                ),
                None => format!(
                    "a timeout of {of_ring} was due {} ago, but its completion is not posted{does}",
                    span(f.amount)
                ),
            },
        ),
        Trigger::Overflow => (
            "CQ overflow".into(),
            format!(
                "{} in the overflow list of {of_ring} for {time}: the CQ was full, and a thread must call io_uring_enter(2) with \
                 IORING_ENTER_GETEVENTS{does}",
                match ring.overflowed {
                    Some(n) => format!("{} {}", plural(n as usize, "completion"), if n == 1 { "was" } else { "were" }),
                    None => "completions were".into(),
                }
            ),
        ),
        Trigger::Unsubmitted => (
            "not submitted".into(),
            format!(
                "{} of {of_ring} {} not consumed for {time}: no thread called io_uring_enter(2) to submit{does}",
                plural(ring.unsubmitted as usize, "published SQE"),
                if ring.unsubmitted == 1 { "was" } else { "were" }
            ),
        ),
        Trigger::SqpollAsleep => (
            "SQPOLL thread asleep".into(),
            format!(
                "{} of {of_ring} {} not consumed for {time}: the SQPOLL thread sleeps until an io_uring_enter(2) call with IORING_ENTER_SQ_WAKEUP",
                plural(ring.unsubmitted as usize, "published SQE"),
                if ring.unsubmitted == 1 { "was" } else { "were" }
            ),
        ),
        Trigger::SqpollSpins => (
            "SQPOLL thread spins".into(),
            format!(
                "the SQPOLL thread of {of_ring} ran for {} of {time} and consumed no SQE: a shorter sq_thread_idle would let the thread sleep",
                percent(f.amount)
            ),
        ),
        Trigger::BlockedSubmission => (
            reason(thread),
            format!(
                "{name} was blocked in submission for {time}: it {}",
                thread.map_or("sleeps".into(), ThreadFacts::does)
            ),
        ),
        Trigger::SlowSync => (
            reason(thread),
            format!("a sync of {name} has taken {time}: it {}", thread.map_or("sleeps".into(), ThreadFacts::does)),
        ),
        Trigger::ThrottledIo => (
            "cgroup io.max".into(),
            format!(
                "the cgroup's `io.max` has throttled block I/O for {time}, now {}",
                plural(f.amount as usize, "bio")
            ),
        ),
        Trigger::ThrottledCpu => (
            "cgroup cpu.max".into(),
            format!(
                "the cgroup's CPU quota (`cpu.max`) throttled its threads for {} in {time}, summed over CPUs",
                span(f.amount)
            ),
        ),
        Trigger::WaitsForCpu => {
            let left = (ring.unreaped > 0).then(|| format!(", while {completions} stayed in the CQ of {of_ring}"));
            let text = format!("{name} was ready to run and waited for a CPU for {time}{}", left.unwrap_or_default());
            ("no CPU".into(), text)
        }
        Trigger::WriteErrors => {
            (f.detail.clone(), format!("{} failed in {time}: {}", plural(f.amount as usize, "write"), f.detail))
        }
        Trigger::Punts => (
            "io-wq punts".into(),
            format!("{} requests per second were punted to io-wq, over a window of {time}", count(f.amount)),
        ),
        Trigger::When => (f.detail.clone(), format!("--when {}: the value is {}", f.detail, count(f.amount))),
    };
    let held = matches!(
        trigger,
        Trigger::Unreaped
            | Trigger::AsleepWithCompletions
            | Trigger::WaitsForMore
            | Trigger::TaskWorkWaits
            | Trigger::LateTimer
            | Trigger::Overflow
            | Trigger::Unsubmitted
    );
    match thread.filter(|_| held).and_then(cannot_act) {
        Some(cause) if does.is_empty() || text.contains(&does) => Explanation { cause, text },
        Some(cause) => Explanation { cause, text: text + &does },
        None => Explanation { cause, text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(call: &str, reason: Reason) -> Option<ThreadFacts> {
        Some(ThreadFacts {
            tid: 7,
            comm: "db".into(),
            is_asleep: true,
            call: Some(call.into()),
            reason: Some(reason),
            ..ThreadFacts::default()
        })
    }

    #[test]
    fn a_stall_is_explained_by_thread_call_and_reason() {
        let ring = Some(RingFacts { fd: Some(3), unreaped: 2, ..RingFacts::default() });
        let f =
            Facts { for_ns: 250_000_000, ring, thread: thread("clock_nanosleep", Reason::Sleep), ..Facts::default() };
        assert_eq!(
            explain(Trigger::Unreaped, &f),
            Explanation {
                cause: "the program sleeps in clock_nanosleep".into(),
                text: "2 completions stayed in the CQ of ring 3 for 250 ms, and no thread waited for them; thread 7 (db) sleeps in \
                       clock_nanosleep(2): sleep"
                    .into(),
            }
        );
        let f = Facts { thread: thread("io_uring_enter", Reason::RequestTag), ..f };
        let said = explain(Trigger::BlockedSubmission, &f);
        assert_eq!(said.cause, "request tag");
        assert_eq!(
            said.text,
            "thread 7 (db) was blocked in submission for 250 ms: it sleeps in io_uring_enter(2): request tag"
        );
    }

    #[test]
    fn a_stopped_thread_is_the_cause_of_the_stalls_it_would_end() {
        let f = Facts { for_ns: 1, thread: thread("io_uring_enter", Reason::Stopped), ..Facts::default() };
        for trigger in [Trigger::Unreaped, Trigger::LateTimer, Trigger::TaskWorkWaits, Trigger::WaitsForMore] {
            let said = explain(trigger, &f);
            assert_eq!(said.cause, "stopped", "{trigger:?}");
            assert!(said.text.ends_with("thread 7 (db) sleeps in io_uring_enter(2): stopped"), "{}", said.text);
        }
    }

    #[test]
    fn a_thread_without_a_cpu_is_reported_with_the_work_that_it_cannot_do() {
        let ring = Some(RingFacts { fd: Some(3), unreaped: 2, ..RingFacts::default() });
        let waits = ThreadFacts { tid: 7, comm: "db".into(), lacks_cpu: true, ..ThreadFacts::default() };
        let f = Facts { for_ns: 512_000_000, ring, thread: Some(waits), ..Facts::default() };
        let said = explain(Trigger::WaitsForCpu, &f);
        assert_eq!(said.cause, "no CPU");
        let text = "thread 7 (db) was ready to run and waited for a CPU for 512 ms, while 2 completions stayed in the CQ of ring 3";
        assert_eq!(said.text, text);
    }

    #[test]
    fn a_wait_for_completions_with_no_request_in_flight_is_reported() {
        let ring = RingFacts { fd: Some(3), unreaped: 1, awaited: 2, in_flight: Some(0), ..RingFacts::default() };
        let f = Facts { ring: Some(ring.clone()), ..Facts::default() };
        assert_eq!(explain(Trigger::WaitsForMore, &f).cause, "completions that cannot arrive");
        let f = Facts { ring: Some(RingFacts { in_flight: Some(1), ..ring }), ..f };
        assert_eq!(explain(Trigger::WaitsForMore, &f).cause, "more completions awaited");
    }

    #[test]
    fn each_trigger_has_a_cause_and_a_sentence_without_facts() {
        for trigger in Trigger::ALL {
            let f = Facts { detail: "x".into(), for_ns: 1_000_000, ..Facts::default() };
            let said = explain(trigger, &f);
            assert!(!said.cause.is_empty() && said.text.len() > 20, "{trigger:?}: {said:?}");
        }
    }
}
