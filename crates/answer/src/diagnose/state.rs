//! Kernel state of rings, threads, sockets and the cgroup: work that waits for a call which the program does not make,
//! and programs without progress.

use super::{Check, ENOUGH, ENOUGH_EVENTS, Matter, RULE, Rule, bound_of_wait, failed_calls, waits};
use iotrail_base::words::{bytes, count, plural, span};
use iotrail_schema::account::{Bound, BoundOf, CallRecord, Reason, RequestStage, ThreadRow, ThreadState};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::setup_flag;
use iotrail_schema::state::{ArmedRequests, Moment, RingNow, RingState, StateRecord, ThreadNow, Unread, UnreadSocket};
use iotrail_schema::trace_record::{OpcodeRecord, TraceRecord};

/// Below this share of the samples, a state is transient.
pub(super) const PART: f64 = 0.05;
const MOST: f64 = 0.5;
const UNREAPED: f64 = 0.25;

/// A ring without a completion for this long waits for a call, not for its turn.
const STUCK_NS: u64 = 100_000_000;

const DAY_NS: i64 = 86_400_000_000_000;

/// Maximum lines about one moment, and parts per line.
const LINES: usize = 12;

pub(super) const PENDING_WORK_NOT_RUN: Rule = Rule {
    code: "pending_work_not_run",
    about: "in at least 5 % of a ring's samples (`state`), task work was pending while no thread was in io_uring_enter(2) for completions. Only \
            samples in which the ring's threads slept count, or all samples if no completion was posted for 100 ms",
    checks: &[Check::Trace(pending_work_not_run)],
    ..RULE
};

pub(super) const OVERFLOW_NOT_FLUSHED: Rule = Rule {
    code: "overflow_not_flushed",
    about: "completions were in the overflow list in at least half of a ring's samples",
    advice: "call io_uring_enter(2) with IORING_ENTER_GETEVENTS when IORING_SQ_CQ_OVERFLOW is set (liburing's io_uring_peek_cqe does), or enlarge \
             the CQ (IORING_SETUP_CQSIZE)",
    matter: Matter::Data,
    checks: &[Check::Trace(overflow_not_flushed)],
    ..RULE
};

pub(super) const UNSUBMITTED: Rule = Rule {
    code: "unsubmitted",
    about: "in at least half of a ring's samples, the kernel had not consumed published SQEs. No thread was in io_uring_enter(2), or the SQPOLL thread slept with IORING_SQ_NEED_WAKEUP set",
    checks: &[Check::Trace(unsubmitted)],
    ..RULE
};

pub(super) const UNREAPED_ASLEEP: Rule = Rule {
    code: "unreaped_asleep",
    about: "completions were in the CQ while the ring's threads slept outside io_uring_enter(2). This was true in at least a quarter (and at least 20) of the ring's samples. Not reported with `left_lying`",
    advice: "wait for completions in io_uring_enter(2) (min_complete 1), or wake the thread with an eventfd that is registered with the ring \
             (IORING_REGISTER_EVENTFD) instead of a timer",
    matter: Matter::Time,
    checks: &[Check::Trace(unreaped_asleep)],
    ..RULE
};

pub(super) const HELD_BY_REQUESTS: Rule = Rule {
    code: "held_by_requests",
    about: "in two consecutive deep samples (half a second apart), a request was in flight on a file that only requests kept open",
    advice: "call shutdown(2) before close(2) on a socket with requests in flight; or cancel the requests (IORING_OP_ASYNC_CANCEL with \
             IORING_ASYNC_CANCEL_FD) and reap their completions before you close the file",
    checks: &[Check::Trace(held_by_requests)],
    ..RULE
};

pub(super) const NAGLE: Rule = Rule {
    code: "nagle",
    about: "in at least 5 % (and at least 20) of the samples, a TCP socket without TCP_NODELAY delayed a short segment until earlier packets were acknowledged. Or MSG_MORE or TCP_CORK delayed it",
    advice: "set TCP_NODELAY on the socket; or send the parts of a message in one call (sendmsg(2), MSG_MORE)",
    checks: &[Check::Trace(nagle)],
    ..RULE
};

pub(super) const UNREAD_SOCKET: Rule = Rule {
    code: "unread_socket",
    about: "data stayed unread in a socket registered with EPOLLET for at least 1 s, and for at least a quarter of the sampled time or until its end. A read had consumed a part of the data, and all threads slept, one of them in epoll_wait(2). Or connections stayed in its accept queue. Or all data stayed unread in a socket that EPOLLONESHOT had disarmed, or while a thread waited in io_uring_enter(2) and its rings had no request in flight except timeouts. Or connections stayed in the accept queue of a socket without epoll while a thread waited there",
    advice: "with EPOLLET, read the socket at each event until EAGAIN, or until a read returns fewer bytes than requested: epoll reports the \
             remaining data only when more data arrives; or register the socket without EPOLLET",
    checks: &[Check::Trace(unread_socket)],
    ..RULE
};

pub(super) const CGROUP_IO_MAX: Rule = Rule {
    code: "cgroup_io_max",
    about: "blk-throttle throttled bios of the program's cgroup in at least 5 % of the samples",
    advice: "raise `io.max` (cgroup v1: `blkio.throttle.*`) of the program's cgroup or of its ancestors, or do less I/O",
    checks: &[Check::Trace(cgroup_io_max)],
    ..RULE
};

pub(super) const MEMORY_LIMIT: Rule = Rule {
    code: "memory_limit",
    about: "the program's cgroup or an ancestor reached its memory limit at least 100 times. The kernel also re-read evicted file \
        pages: at least 16 MiB, and at least 5 % of the bytes that requests moved",
    advice: "raise memory.max (cgroup v1: memory.limit_in_bytes) so that the re-read files fit into memory; or read the files with O_DIRECT, and \
             cache the required data in the program's own buffers",
    checks: &[Check::Trace(memory_limit)],
    ..RULE
};

pub(super) const DISTANT_TIMEOUT: Rule = Rule {
    code: "distant_timeout",
    about: "every armed timeout had at least a day left",
    advice: "keep the timespec of IORING_OP_TIMEOUT and IORING_OP_LINK_TIMEOUT unchanged until io_uring_enter(2) has submitted the \
             request: the kernel reads it then, not when the SQE is filled in",
    checks: &[Check::Trace(distant_timeout)],
    ..RULE
};

pub(super) const NO_PROGRESS: Rule = Rule {
    code: "no_progress",
    about: "no completion was posted, a program with a ring is still running, and it makes fewer than 10 system calls per second that transfer data or make it durable. Or, at the end of the trace, threads had waited \
        for completions for at least 1 s with no request in flight. Or a thread was blocked for at least 1 s by a file lock, a full pipe or a full send buffer",
    advice: "ignore this if the program is idle; otherwise use IORING_OP_LINK_TIMEOUT or IORING_OP_ASYNC_CANCEL to end requests whose peer does not \
             answer",
    checks: &[Check::Trace(|t| stuck(t).or_else(|| starved(t)).or_else(|| starved_aio(t)).or_else(|| no_progress(t)))],
    ..RULE
};

/// A share of the samples; `None` with too few samples.
pub(super) fn share(part: u64, samples: u64) -> Option<f64> {
    (samples >= ENOUGH_EVENTS).then(|| part as f64 / samples as f64)
}

/// Reports the ring with the largest `share` if it is at least `least`.
pub(super) fn worst(
    t: &TraceRecord,
    least: f64,
    of: impl Fn(&RingState) -> Option<f64>,
    finding: impl Fn(&RingState, f64) -> Finding,
) -> Option<Finding> {
    let state = t.state.as_ref()?;
    let shares = state.rings.iter().filter_map(|r| Some((r, of(r)?)));
    let (r, share) = shares.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, share)| *share >= least)?;
    let mut f = finding(r, share);
    let same = |of: &&iotrail_schema::trace_record::RingRecord| {
        of.tgid == r.tgid && r.fd.is_some_and(|fd| of.fds.contains(&fd))
    };
    f.ring = t.rings.iter().find(same).map(|of| of.ring);
    if state.rings.len() > 1 {
        f.text = format!("{}: {}", ring_name(r.tgid, r.fd), f.text);
    }
    Some(f)
}

pub(super) fn bound(mut f: Finding, of: BoundOf, share: f64) -> Finding {
    f.bound = Some(Bound { of, share });
    f
}

fn ring_name(tgid: u32, fd: Option<u32>) -> String {
    match fd {
        Some(fd) => format!("ring {fd} of process {tgid}"),
        None => format!("a ring of process {tgid} without a descriptor"),
    }
}

/// A DEFER_TASKRUN ring's thread does not enter the kernel for completions, or a COOP_TASKRUN ring's thread does not
/// enter it at all.
fn pending_work_not_run(t: &TraceRecord) -> Option<Finding> {
    let waits = |r: &RingState| {
        let part = if r.unrun_longest_ns >= STUCK_NS { r.unrun } else { r.unrun_asleep };
        share(part, r.samples)
    };
    worst(t, PART, waits, |r, share| {
        let (thread, defer) = (r.runner.unwrap_or_default(), setup_flag::is_set(&r.flags, "defer_taskrun"));
        let (who, call) = match defer {
            true => (format!("With DEFER_TASKRUN only thread {thread} posts them"), "with IORING_ENTER_GETEVENTS"),
            false => (
                format!("With COOP_TASKRUN the next kernel entry of thread {thread} posts them"),
                "or another system call",
            ),
        };
        let longest = match r.unrun_longest_ns {
            0 => String::new(),
            ns => format!(", for up to {} at a time", span(ns as f64)),
        };
        let text = format!(
            "requests were ready but their completions were not posted in {} of {} samples{longest}. {who}, and that thread did not call \
             io_uring_enter(2) {call} during that time",
            count(r.unrun as f64),
            count(r.samples as f64),
        );
        let remedy = match defer {
            true => {
                "set IORING_ENTER_GETEVENTS in io_uring_enter(2) whenever you poll the CQ ring (io_uring_get_events, \
                     io_uring_submit_and_get_events), or wait there; a min_complete of 0 does not block"
            }
            false => {
                "set `taskrun_flag`, and call io_uring_enter(2) with IORING_ENTER_GETEVENTS when IORING_SQ_TASKRUN is set"
            }
        };
        let evidence = [("share", share), ("longest_ns", r.unrun_longest_ns as f64), ("samples", r.samples as f64)];
        let f = Finding { remedy: remedy.into(), ..PENDING_WORK_NOT_RUN.finding(Severity::Warning, text, &evidence) };
        bound(f, BoundOf::ThreadTime, share)
    })
}

/// The kernel keeps completions that did not fit into the CQ until a thread enters for completions.
fn overflow_not_flushed(t: &TraceRecord) -> Option<Finding> {
    worst(
        t,
        MOST,
        |r| share(r.overflowed, r.samples),
        |r, share| {
            let most =
                r.most_overflowed.filter(|n| *n > 0).map(|n| format!("up to {} ", plural(n as usize, "completion")));
            let text = format!(
                "{}waited in the kernel's overflow list in {} of {} samples. The completion queue was full, and only io_uring_enter(2) with \
             IORING_ENTER_GETEVENTS moves the overflowed completions to the CQ",
                most.unwrap_or_else(|| "completions ".into()),
                count(r.overflowed as f64),
                count(r.samples as f64),
            );
            let mut evidence = vec![("share", share), ("samples", r.samples as f64)];
            evidence.extend(r.most_overflowed.map(|n| ("most_overflowed", n as f64)));
            let f = OVERFLOW_NOT_FLUSHED.finding(Severity::Warning, text, &evidence);
            bound(f, BoundOf::ThreadTime, share)
        },
    )
}

/// The program published SQEs that the kernel does not consume: the submitting call is missing.
fn unsubmitted(t: &TraceRecord) -> Option<Finding> {
    let sqpoll = |r: &RingState| setup_flag::is_set(&r.flags, "sqpoll");
    let waits = |r: &RingState| share(if sqpoll(r) { r.need_wakeup } else { r.unsubmitted }, r.samples);
    worst(t, MOST, waits, |r, share| {
        let (why, remedy) = match sqpoll(r) {
            true => (
                "the SQPOLL thread was asleep and had set IORING_SQ_NEED_WAKEUP".into(),
                "after publishing SQEs, call io_uring_enter(2) with IORING_ENTER_SQ_WAKEUP if IORING_SQ_NEED_WAKEUP is set, with a full memory \
                 barrier before the check (io_uring_submit does both)",
            ),
            false => not_submitted(t, r),
        };
        let samples = if sqpoll(r) { r.need_wakeup } else { r.unsubmitted };
        let text = format!(
            "published SQEs waited in the SQ in {} of {} samples: {why}",
            count(samples as f64),
            count(r.samples as f64)
        );
        let evidence = [("share", share), ("samples", r.samples as f64)];
        let f = Finding { remedy: remedy.into(), ..UNSUBMITTED.finding(Severity::Warning, text, &evidence) };
        bound(f, BoundOf::ThreadTime, share)
    })
}

/// Why published SQEs stay in the SQ of a ring without SQPOLL, and the remedy.
fn not_submitted(t: &TraceRecord, r: &RingState) -> (String, &'static str) {
    match failed_calls::of_submission(t) {
        Some(&(errno, why, remedy)) => (format!("io_uring_enter(2) failed with {errno}: {why}"), remedy),
        None if t.total.errors > 0 && !setup_flag::is_set(&r.flags, "submit_all") => (
            "no thread called io_uring_enter(2) to submit them".into(),
            "check the result of io_uring_submit, which ends at a request that the kernel rejects: submit the rest again, or set IORING_SETUP_SUBMIT_ALL",
        ),
        None => (
            "no thread called io_uring_enter(2) to submit them".into(),
            "call io_uring_enter(2) with to_submit after publishing SQEs (io_uring_submit); without SQPOLL the kernel reads the SQ only in this call",
        ),
    }
}

/// The program sleeps although the CQ contains completions.
fn unreaped_asleep(t: &TraceRecord) -> Option<Finding> {
    if t.rings.iter().any(|r| super::reaping::left_lying(t, r).is_some()) {
        return None;
    }
    let asleep = |r: &RingState| share(r.unreaped, r.samples).filter(|_| r.unreaped >= ENOUGH_EVENTS);
    worst(t, UNREAPED, asleep, |r, share| {
        let text = format!(
            "in {} of {} samples, completions were in the CQ while the ring's threads slept in other calls",
            count(r.unreaped as f64),
            count(r.samples as f64)
        );
        let f = UNREAPED_ASLEEP.finding(Severity::Warning, text, &[("share", share), ("samples", r.samples as f64)]);
        let f = super::reaping::for_eventfd(t, f);
        bound(f, BoundOf::ThreadTime, share)
    })
}

/// close(2) of a descriptor does not end requests on its file.
fn held_by_requests(t: &TraceRecord) -> Option<Finding> {
    worst(
        t,
        1.0,
        |r| r.most_held.map(|n| n as f64),
        |r, most| {
            let text = format!(
                "files that the program has closed still have {} in flight. These requests keep the files open, so a socket sends no FIN and the \
             requests do not complete",
                plural(most as usize, &format!("{} request", r.held_opcode.as_deref().unwrap_or("pending"))),
            );
            let evidence = [("requests", most), ("samples", r.samples as f64)];
            HELD_BY_REQUESTS.finding(Severity::Warning, text, &evidence)
        },
    )
}

/// A short segment waits until the peer acknowledges earlier data; delayed ACK postpones this by 40 ms.
fn nagle(t: &TraceRecord) -> Option<Finding> {
    let state = t.state.as_ref()?;
    let sum = state.nagle.filter(|sum| sum.held >= ENOUGH_EVENTS)?;
    let held = share(sum.held, state.samples).filter(|held| *held >= PART)?;
    let (tgid, fd) = sum.tgid.zip(sum.fd)?;
    let corked = sum.corked * 2 > sum.held;
    let (what, until, remedy) = match corked {
        true => (
            "MSG_MORE or TCP_CORK",
            "for more data, which did not follow. The kernel sends them after 200 ms",
            "send the last part of a message without MSG_MORE, and clear TCP_CORK after it: the kernel then sends the segment at once",
        ),
        false => (
            "Nagle's algorithm",
            "until the peer acknowledged earlier data, and a delayed ACK takes 40 ms",
            NAGLE.advice,
        ),
    };
    let text = format!(
        "{what} delayed short TCP segments in {} of {} samples, on descriptor {fd} of process {tgid} in {}. Up to {} waited {until}",
        count(sum.held as f64),
        count(state.samples as f64),
        count(sum.fd_held as f64),
        plural(sum.unsent_bytes as usize, "byte"),
    );
    let evidence = [("share", held), ("samples", state.samples as f64), ("fd", f64::from(fd))];
    let f = Finding { remedy: remedy.into(), ..NAGLE.finding(Severity::Warning, text, &evidence) };
    let asleep = share(sum.held_asleep, state.samples).unwrap_or(0.0);
    Some(bound(f, BoundOf::ThreadTime, asleep))
}

/// A program that handles a single message for longer is slow for another reason.
pub(super) const UNREAD_NS: u64 = 1_000_000_000;

fn unread_socket(t: &TraceRecord) -> Option<Finding> {
    let state = t.state.as_ref()?;
    let sampled_ns = state.every_ns.unwrap_or(0) * state.samples;
    let at_start = state.start.iter().flat_map(|moment| &moment.unread);
    let lasts = |of: &&UnreadSocket| of.at_end || of.for_ns as f64 >= UNREAPED * sampled_ns as f64;
    let of = state.unread.iter().chain(at_start).filter(lasts).max_by_key(|of| of.for_ns)?;
    if of.for_ns < UNREAD_NS {
        return None;
    }
    let (why, remedy) = match of.because {
        Unread::Partly => (
            "A read consumed only a part of the received data, and EPOLLET does not report the rest again",
            UNREAD_SOCKET.advice,
        ),
        Unread::Unaccepted => (
            "EPOLLET reports new connections once, and the program accepted fewer than had arrived",
            "with EPOLLET, call accept4(2) at each event until EAGAIN: epoll reports the remaining connections only when another one arrives; or register the \
             listening socket without EPOLLET",
        ),
        Unread::Disarmed => (
            "EPOLLONESHOT disabled the descriptor's events when it reported one, and the program did not enable them again",
            "after each event, call epoll_ctl(2) with EPOLL_CTL_MOD and all events that the program still waits for (EPOLLIN too after an EPOLLOUT); or \
             register the socket without EPOLLONESHOT",
        ),
        Unread::NotAccepting => (
            "No request of its rings accepts them",
            "keep an accept in flight on each listening socket, and submit a multishot accept again after a completion without IORING_CQE_F_MORE; close \
             listening sockets that the program does not use: with SO_REUSEPORT, the kernel distributes the connections among all of them",
        ),
        Unread::NotArmed => (
            "No request of its rings is in flight that reads them",
            "submit the receive again after each completion without IORING_CQE_F_MORE: a multishot request ends with ENOBUFS, an error or a full CQ, and \
             then receives nothing",
        ),
    };
    let text = format!("{}. {why}", unread_now(of));
    let evidence = [("for_ns", of.for_ns as f64), ("bytes", of.bytes as f64), ("fd", f64::from(of.fd))];
    let f = Finding { remedy: remedy.into(), ..UNREAD_SOCKET.finding(Severity::Warning, text, &evidence) };
    Some(bound_of_wait(t, f, of.for_ns as f64))
}

fn unread_now(of: &UnreadSocket) -> String {
    let backlog = of.backlog.map(|n| format!(" (backlog {})", count(n as f64))).unwrap_or_default();
    let (noun, state, call) = match of.because {
        Unread::Disarmed if of.backlog.is_some() => ("connection", "not accepted from", "epoll_wait"),
        Unread::Partly | Unread::Disarmed => ("byte", "unread in", "epoll_wait"),
        Unread::Unaccepted => ("connection", "not accepted from", "epoll_wait"),
        Unread::NotArmed => ("byte", "unread in", "io_uring_enter"),
        Unread::NotAccepting => ("connection", "not accepted from", "io_uring_enter"),
    };
    format!(
        "{} {state} descriptor {} of process {}{backlog} for {}, while thread {} ({}) sleeps in {call}(2)",
        plural(of.bytes as usize, noun),
        of.fd,
        of.tgid,
        span(of.for_ns as f64),
        of.tid,
        of.comm
    )
}

/// No thread sleeps, because the kernel queues the bios.
fn cgroup_io_max(t: &TraceRecord) -> Option<Finding> {
    let state = t.state.as_ref()?;
    let sum = state.cgroup.as_ref()?;
    let throttled = share(sum.throttled, state.samples).filter(|throttled| *throttled >= PART)?;
    let text = format!(
        "the cgroup's `io.max` throttled block I/O in {} of {} samples, up to {} at a time",
        count(sum.throttled as f64),
        count(state.samples as f64),
        plural(sum.most_bios as usize, "bio"),
    );
    let evidence = [("share", throttled), ("most_bios", sum.most_bios as f64), ("samples", state.samples as f64)];
    let f = CGROUP_IO_MAX.finding(Severity::Warning, text, &evidence);
    Some(bound(f, BoundOf::Latency, throttled))
}

/// Every program refaults fewer bytes at start-up.
const REFAULTED: u64 = 16 << 20;

fn memory_limit(t: &TraceRecord) -> Option<Finding> {
    let limit = t.state.as_ref()?.memory.as_ref()?;
    let share = limit.refaulted_bytes as f64 / t.total.bytes.max(1) as f64;
    if limit.reached < ENOUGH || limit.refaulted_bytes < REFAULTED || share < PART {
        return None;
    }
    let text = format!(
        "the cgroup {} reached its memory limit of {} {} times, and {} of evicted file pages were read again",
        limit.cgroup,
        bytes(limit.limit_bytes),
        count(limit.reached as f64),
        bytes(limit.refaulted_bytes)
    );
    let evidence = [("reached", limit.reached as f64), ("refaulted_bytes", limit.refaulted_bytes as f64)];
    // Requests served from the page cache would complete at submission.
    let bound = super::of_stages(t, &[RequestStage::Device, RequestStage::Block]);
    Some(Finding { bound, ..MEMORY_LIMIT.finding(Severity::warning_if(bound.is_some()), text, &evidence) })
}

/// A timeout of a day or longer is rarely intended. The kernel reads the timespec when it consumes the SQE.
fn distant_timeout(t: &TraceRecord) -> Option<Finding> {
    let far = |r: &RingState| r.least_timeout_ns.filter(|ns| *ns >= DAY_NS).map(|ns| ns as f64);
    worst(t, 0.0, far, |r, ns| {
        let text = format!(
            "the first armed timeout expires in {:.0} h. The kernel reads the timespec only when the request is submitted, and the program may have \
             overwritten the timespec before",
            ns / 3.6e12
        );
        DISTANT_TIMEOUT.finding(Severity::Warning, text, &[("left_ns", ns), ("samples", r.samples as f64)])
    })
}

/// No completion was posted: reports the requests and calls in which the program waits.
fn no_progress(t: &TraceRecord) -> Option<Finding> {
    let state: &StateRecord = t.state.as_ref().filter(|_| t.total.ios == 0)?;
    let moment = state.end.as_ref()?;
    let still_ns = moment.still_ns.filter(|ns| *ns > 0)?;
    let lines = now(moment);
    if moment.rings.is_empty() || lines.is_empty() || works_without_rings(t) {
        return None;
    }
    let text =
        format!("no ring took a request or posted a completion for {}: {}", span(still_ns as f64), lines.join("; "));
    let evidence = [("still_ns", still_ns as f64), ("rings", moment.rings.len() as f64)];
    Some(NO_PROGRESS.finding(Severity::Warning, text, &evidence))
}

/// System calls per second that transfer data or make it durable: a program that makes as many does not hang.
const WORKS_PER_S: f64 = 10.0;

fn works_without_rings(t: &TraceRecord) -> bool {
    let works = |c: &&CallRecord| c.bytes.is_some_and(|bytes| bytes > 0) || c.syscall.ends_with("sync");
    let calls: u64 = t.calls.iter().flatten().filter(works).map(|c| c.count).sum();
    calls as f64 >= WORKS_PER_S * t.total.elapsed_ns as f64 / 1e9
}

fn stuck(t: &TraceRecord) -> Option<Finding> {
    waits::stuck(t, &NO_PROGRESS)
}

/// A shorter wait may be for a thread that is about to submit.
const STARVED_NS: u64 = 1_000_000_000;

/// A thread waits for completions of requests that were never submitted.
fn starved(t: &TraceRecord) -> Option<Finding> {
    let has_messages = t.rings.iter().flat_map(|r| &r.opcodes).any(|o| o.messages > 0 || o.opcode == "msg_ring");
    let silent: u64 = t.total.opcodes.iter().map(OpcodeRecord::silent).sum();
    let is_starved = |r: &RingState| {
        let waits = r.starved_ns >= STARVED_NS && (!r.starved_limited || silent > 0);
        waits && is_alone(t, Some(r.tgid)) && !has_messages
    };
    let least = |r: &RingState| is_starved(r).then_some(r.starved_ns as f64);
    worst(t, 0.0, least, |r, ns| {
        let skipped = match silent {
            0 => String::new(),
            n => format!(". {} succeeded without a completion (IOSQE_CQE_SKIP_SUCCESS)", plural(n as usize, "request")),
        };
        let text = format!(
            "io_uring_enter(2) had been waiting for {} for {} at the end of the trace, and no request was in flight: {}{skipped}",
            plural(r.starved_for as usize, "completion"),
            span(ns),
            if r.starved_limited { "only the time limit ends the wait" } else { "the wait cannot end" }
        );
        let f = NO_PROGRESS.finding(
            Severity::Warning,
            text,
            &[("starved_ns", ns), ("awaited", r.starved_for as f64), ("samples", r.samples as f64)],
        );
        // After fork(2), both processes have the ring mapped.
        let name = t.own_threads().find(|thread| thread.tgid == r.tgid).map(|thread| &thread.comm);
        let forked = t.own_threads().any(|thread| thread.tgid != r.tgid && Some(&thread.comm) == name);
        let shared = forked && r.starved_for <= t.total.ios;
        let remedy = match () {
            () if silent > 0 => SKIPPED,
            () if shared => REAPED_BY_ANOTHER,
            () => NOT_SUBMITTED,
        };
        let f = Finding { remedy: remedy.into(), ..f };
        bound_of_wait(t, f, ns)
    })
}

/// Whether no other thread of the process can submit the awaited requests. `None`: the only traced process.
fn is_alone(t: &TraceRecord, tgid: Option<u32>) -> bool {
    let all_listed = t.account.as_ref().is_some_and(|account| account.more_threads == 0);
    all_listed && t.own_threads().filter(|thread| tgid.is_none_or(|tgid| thread.tgid == tgid)).count() == 1
}

const REAPED_BY_ANOTHER: &str = "use a ring in one process only: fork(2) shares the ring's mappings, and a child that polls the CQ ring reaps the \
                                 parent's completions. While the ring is in use, create another ring in the child, or call execve(2) after \
                                 fork(2). If no other process uses the ring, do not wait for more completions than submitted requests";

const SKIPPED: &str = "do not set IOSQE_CQE_SKIP_SUCCESS on requests whose completion the program waits for: with it, a request posts a completion only \
                       if it fails";

const NOT_SUBMITTED: &str = "wait for no more completions than the number of submitted requests, which io_uring_submit returns; if io_uring_get_sqe \
                             returns NULL, the SQ is full: prepare the request again after io_uring_submit. If a wait for one request reaps the \
                             completions of others, record their results before the next wait";

/// The same for io_getevents(2): the call did not return although all requests of the contexts had completed.
fn starved_aio(t: &TraceRecord) -> Option<Finding> {
    let contexts = || t.contexts.iter().filter(|c| c.interface == "libaio");
    let requests: u64 = contexts().map(|c| c.requests).sum();
    let completed: u64 = contexts().map(|c| c.completions).sum();
    let call = t.calls.iter().flatten().find(|c| c.syscall == "io_getevents" || c.syscall == "io_pgetevents")?;
    let ended = call.ended.as_ref()?;
    // A signal that kills the program also ends its last wait.
    let returned = ended.completions + ended.time_limit + ended.nothing;
    let waits = |row: &&ThreadRow| row.state == ThreadState::Blocked && row.syscall.as_deref() == Some(&call.syscall);
    let rows = || t.own_threads().flat_map(|thread| &thread.rows).filter(waits);
    let longest_ns = rows().filter_map(|row| row.longest_ns).max().or_else(|| rows().map(|row| row.ns).max())?;
    if requests == 0
        || !is_alone(t, None)
        || requests != completed
        || call.seen.is_some()
        || call.count <= returned
        || longest_ns < STARVED_NS
    {
        return None;
    }
    let text = format!(
        "{}(2) waited for events for {}, and no request was in flight: the wait cannot end. io_submit(2) accepted {}, and all of them completed",
        call.syscall,
        span(longest_ns as f64),
        plural(requests as usize, "request")
    );
    let remedy = "check the result of io_submit(2), which may accept fewer requests than it was passed (the context has no more free events, see \
                  io_setup(2)); submit the rest after io_getevents(2), and wait for no more events than the number of accepted requests";
    let f = NO_PROGRESS.finding(
        Severity::Warning,
        text,
        &[("starved_ns", longest_ns as f64), ("requests", requests as f64)],
    );
    let f = Finding { remedy: remedy.into(), ..f };
    Some(bound_of_wait(t, f, longest_ns as f64))
}

/// One line per fact: ready and stuck requests first, threads last.
pub fn now(moment: &Moment) -> Vec<String> {
    let several = moment.rings.len() > 1;
    let of_ring = |r: &RingNow| {
        let name = if several { format!("{}: ", ring_name(r.tgid, r.fd)) } else { String::new() };
        ring_now(r).into_iter().map(move |line| format!("{name}{line}")).collect::<Vec<_>>()
    };
    let mut lines: Vec<String> = moment.rings.iter().flat_map(of_ring).collect();
    lines.extend(moment.unread.iter().map(unread_now));
    lines.extend(threads_now(&moment.threads, moment.more_threads));
    lines.truncate(LINES);
    lines
}

fn ring_now(r: &RingNow) -> Vec<String> {
    let some = |n: u64, noun: &str| (n > 0).then(|| plural(n as usize, noun));
    let of = |thread: Option<u32>| thread.map_or("a thread".into(), |tid| format!("thread {tid}"));
    let defer = r.flags.as_deref().is_some_and(|flags| setup_flag::is_set(flags, "defer_taskrun"));
    let with = if defer { " with IORING_ENTER_GETEVENTS (DEFER_TASKRUN)" } else { "" };
    let mut lines = vec![];
    if r.unrun == Some(true) {
        lines.push(format!(
            "requests are ready but their completions are not posted: {} must call io_uring_enter(2){with}",
            of(r.runner)
        ));
    }
    lines.extend(some(r.overflowed.unwrap_or(0), "completion").map(|n| {
        format!("{n} in the overflow list: a thread must call io_uring_enter(2) with IORING_ENTER_GETEVENTS")
    }));
    lines.extend(some(r.unsubmitted, "published SQE").map(|n| match r.need_wakeup {
        true => {
            format!(
                "{n} not consumed: the SQPOLL thread sleeps until an io_uring_enter(2) call with IORING_ENTER_SQ_WAKEUP"
            )
        }
        false => format!("{n} not consumed by the kernel"),
    }));
    lines.extend(some(r.unreaped, "completion").map(|n| format!("{n} in the CQ, not reaped by the program")));
    lines.extend(r.armed.iter().map(|of| armed_now(of, r.unrun == Some(true))));
    let armed: u64 = r.armed.iter().map(|of| of.requests).sum();
    let others = r.in_flight.unwrap_or(0).saturating_sub(armed);
    lines.extend(some(others, "other request").filter(|_| r.timeouts == Some(0)).map(|n| format!("{n} in flight")));
    lines.extend(some(r.timeouts.unwrap_or(0), "timeout").map(|n| match r.soonest_timeout_ns {
        Some(ns) if ns >= 0 => format!("{n} armed, the first expires in {}", span(ns as f64)),
        Some(ns) => format!("{n} armed, the first was due {} ago", span(ns.unsigned_abs() as f64)),
        None => format!("{n} armed"),
    }));
    lines
}

fn armed_now(of: &ArmedRequests, some_are_ready: bool) -> String {
    let name = if of.opcode == "any" { String::new() } else { format!("{} ", of.opcode) };
    let mut first: Vec<String> = of.fd.map(|fd| format!("descriptor {fd}")).into_iter().collect();
    first.extend(of.user_data.as_ref().map(|data| format!("user_data {data}")));
    let first = match (first.is_empty(), of.requests) {
        (true, _) => String::new(),
        (false, 1) => format!(" ({})", first.join(", ")),
        (false, _) => format!(" (the first: {})", first.join(", ")),
    };
    let (noun, wait) = match (of.requests, some_are_ready) {
        (1, false) => ("request", "waits for data or a peer"),
        (1, true) => ("request", "is in flight"),
        (_, false) => ("requests", "wait for data or a peer"),
        (_, true) => ("requests", "are in flight"),
    };
    let since = of.at_least_ns.map(|ns| format!(", for at least {}", span(ns as f64))).unwrap_or_default();
    let held = match of.held.filter(|n| *n > 0) {
        Some(n) => format!(
            "; only requests keep the files of {} open: shutdown(2) before close(2) would end these requests, close(2) alone does not",
            count(n as f64)
        ),
        None => String::new(),
    };
    format!("{} {name}{noun}{first} {wait}{since}{held}", count(of.requests as f64))
}

/// Threads in the same state share a line.
fn threads_now(threads: &[ThreadNow], more: u64) -> Vec<String> {
    let key = |t: &ThreadNow| (t.syscall.clone(), t.reason.clone());
    let mut kinds: Vec<(&ThreadNow, u64)> = vec![];
    for t in threads {
        match kinds.iter_mut().find(|(of, _)| key(of) == key(t)) {
            Some((longest, n)) => {
                *n += 1;
                if t.asleep_ns > longest.asleep_ns {
                    *longest = t;
                }
            }
            None => kinds.push((t, 1)),
        }
    }
    let line = |(t, n): &(&ThreadNow, u64)| {
        let who = match n {
            1 => format!("thread {} ({})", t.tid, t.comm),
            n => format!("{} threads ({}, …)", count(*n as f64), t.tid),
        };
        let Some(call) = &t.syscall else {
            return format!("{who} {}", if *n == 1 { "runs" } else { "run" });
        };
        let sleeps = if *n == 1 { "sleeps" } else { "sleep" };
        let up_to = if *n == 1 { "" } else { "up to " };
        let time = t.asleep_ns.map(|ns| format!(" for {up_to}{}", span(ns as f64))).unwrap_or_default();
        let reason = t.reason.as_ref().map(|r| format!(": {}", reason_name(r))).unwrap_or_default();
        format!("{who} {sleeps} in {call}(2){time}{reason}")
    };
    let mut lines: Vec<String> = kinds.iter().map(line).collect();
    lines.extend((more > 0).then(|| format!("{} more", plural(more as usize, "thread"))));
    lines
}

/// The name used in records.
pub fn reason_name(reason: &Reason) -> String {
    if let Reason::Function(name) = reason {
        return name.clone();
    }
    let text = serde_json::to_value(reason).ok().and_then(|name| name.as_str().map(str::to_owned));
    text.map_or_else(|| "unknown".into(), |name| name.replace('_', " "))
}
