//! Long waits for locks, pipes, sockets and children: who can end them.

use super::{Check, Matter, RULE, Rule, bound_of_wait, reasons};
use iotrail_base::words::{count, list, plural, span};
use iotrail_schema::account::Reason;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::state::{LongWait, NamedProcess, StuckWait};
use iotrail_schema::trace_record::TraceRecord;

/// Maximum number of waits and processes listed in a text.
const TOLD: usize = 3;

pub(super) const DEADLOCK: Rule = Rule {
    code: "deadlock",
    about: "threads slept for at least 1 s in calls that only other sleeping threads can end: their processes have the other end of the pipe or \
            socket, are the awaited child, or own the lock. Or the owner of the lock had exited. Or all threads were in futex(2) without a timeout",
    matter: Matter::Data,
    checks: &[Check::Trace(deadlock)],
    ..RULE
};

fn deadlock(t: &TraceRecord) -> Option<Finding> {
    let state = t.state.as_ref()?;
    let waits: Vec<&LongWait> = state.waits.iter().filter(|wait| wait.cannot_end).collect();
    let stuck = state.stuck.as_ref();
    if waits.is_empty() {
        return stuck.filter(|of| of.reason == Reason::Futex).map(in_futex);
    }
    let is_stuck = |wait: &&LongWait, of: &StuckWait| wait.tid == of.tid && wait.reason == Reason::FileLock;
    if let Some(of) = stuck.filter(|of| waits.iter().any(|wait| is_stuck(wait, of))) {
        return Some(blocked(t, of, &DEADLOCK));
    }
    let longest_ns = waits.iter().map(|wait| wait.for_ns).max()?;
    let told: Vec<String> = waits.iter().take(TOLD).map(|wait| said(wait)).collect();
    let more = match waits.len() - told.len() {
        0 => String::new(),
        n => format!(" and {} more", plural(n, "thread")),
    };
    let each_other = if waits.len() > 1 { ", and they wait for each other" } else { "" };
    let text = format!(
        "{} had waited for {} and cannot continue{each_other}: {}{more}",
        plural(waits.len(), "thread"),
        span(longest_ns as f64),
        told.join("; "),
    );
    let has = |reason: Reason| waits.iter().any(|wait| wait.reason == reason);
    let writes = has(Reason::PipeFull) || has(Reason::SocketSpace);
    let remedy = match () {
        () if waits.iter().any(|wait| wait.owner.is_some() && wait.by.is_empty()) => {
            "make the mutex robust (pthread_mutexattr_setrobust(3)): the next owner then gets EOWNERDEAD and repairs the data; or hold the lock only \
             in processes that are not killed"
        }
        () if has(Reason::Lock) || has(Reason::FileLock) => {
            "take the locks in the same order in all threads, and do not wait for a thread or a process while you hold a lock that it needs"
        }
        () if has(Reason::Child) && writes => {
            "read the child's output until its end before you wait for its exit: a pipe has space for 64 KiB, and the child cannot exit while its \
             write(2) is blocked"
        }
        () if writes => {
            "read while you write: wait for both directions with poll(2) or epoll_wait(2) on non-blocking descriptors, so that no side stops reading \
             while its own write is blocked"
        }
        () => {
            "close the other end in each process that does not use it (close(2) after fork(2), O_CLOEXEC): a read returns 0 only after the last copy \
             of the write end is closed"
        }
    };
    let evidence = [("threads", waits.len() as f64), ("longest_ns", longest_ns as f64)];
    let f = DEADLOCK.finding(Severity::Warning, text, &evidence);
    Some(bound_of_wait(t, Finding { remedy: remedy.into(), ..f }, longest_ns as f64))
}

/// No thread is left to wake the others.
fn in_futex(of: &StuckWait) -> Finding {
    let who = match of.threads {
        1 => format!("the only thread ({}, {})", of.tid, of.comm),
        n => format!("all {} threads (thread {}, {}, …)", count(n as f64), of.tid, of.comm),
    };
    let text = format!(
        "{who} waited in futex(2) without a timeout for {}: no thread was left to wake them",
        span(of.for_ns as f64)
    );
    let remedy = "check which thread should release the lock, signal the condition or run the queued work: two locks taken in opposite orders, a lock taken twice, \
                  a thread that was not created, or a pool whose threads all wait for work that is queued behind them. A debugger shows the \
                  stacks (`gdb -p PID -batch -ex 'thread apply all bt'`)";
    let evidence = [("for_ns", of.for_ns as f64), ("threads", of.threads as f64)];
    // Without a bound, the failed creation of a thread precedes its effect.
    Finding { remedy: remedy.into(), ..DEADLOCK.finding(Severity::Warning, text, &evidence) }
}

/// A thread waits for a lock that is not released, or for a reader, and another thread may end the wait.
pub(super) fn stuck(t: &TraceRecord, rule: &Rule) -> Option<Finding> {
    let state = t.state.as_ref()?;
    let can_end = state.waits.iter().all(|wait| !wait.cannot_end);
    let of = state.stuck.as_ref().filter(|of| can_end && of.reason != Reason::Futex)?;
    Some(blocked(t, of, rule))
}

fn blocked(t: &TraceRecord, of: &StuckWait, rule: &Rule) -> Finding {
    let is_lock = of.reason == Reason::FileLock;
    let is_socket = of.reason == Reason::SocketSpace;
    let by_itself = of.by.as_ref().is_some_and(|by| by.tgid == of.tgid);
    let sleeps =
        |by: &NamedProcess| by.syscall.as_ref().map(|call| format!(", which is in {call}(2)")).unwrap_or_default();
    let who = match &of.by {
        Some(_) if by_itself && is_lock => "this process holds the lock itself, through another descriptor".into(),
        Some(by) if is_lock => {
            let sleeps = if sleeps(by).is_empty() { String::new() } else { format!("{},", sleeps(by)) };
            format!("process {} ({}){sleeps} holds the lock", by.tgid, by.comm)
        }
        Some(by) => {
            format!("the pipe is full, and its reader, process {} ({}){}, does not read", by.tgid, by.comm, sleeps(by))
        }
        None if is_lock => "another process or descriptor holds the lock".into(),
        None if is_socket => "its send buffer is full, and the peer does not read".into(),
        None => "the pipe is full, and its reader does not read".into(),
    };
    let more = match of.threads {
        0 | 1 => String::new(),
        n => format!(", like {}", plural(n as usize - 1, "other thread")),
    };
    let text = format!(
        "thread {} ({}) was blocked in {}(2) on descriptor {} for {}{more}: {who}",
        of.tid,
        of.comm,
        of.syscall,
        of.fd.unwrap_or_default(),
        span(of.for_ns as f64)
    );
    let waits_for_exit =
        of.by.as_ref().and_then(|by| by.syscall.as_deref()).is_some_and(|call| call.starts_with("wait"));
    let remedy = match (is_lock, by_itself || waits_for_exit) {
        (true, true) => {
            "release the lock in a thread that does not wait for it or behind it: a lock of flock(2) belongs to the open file, so that each open(2) needs its \
             own lock, and close(2) of its last descriptor releases it; or use LOCK_NB, and try again"
        }
        (true, false) => {
            "release the lock there, or end that process (`lslocks` lists locks); use LOCK_NB or F_SETLK with a limit on the retries, so that a lock that is not \
             released is reported"
        }
        (false, true) => {
            "read the pipe until its end before you wait for the exit of its writer (wait4(2)): a pipe holds 64 KiB, and then blocks the writer"
        }
        (false, false) if is_socket => {
            "read the socket in the peer; with EPOLLET, until the read itself returns EAGAIN (splice(2) also returns EAGAIN if its pipe is full). Send with \
             MSG_DONTWAIT or SO_SNDTIMEO if the peer may stop reading"
        }
        (false, false) => {
            "read the pipe in the other process, or close its end there; if the reader is only slow, write from another thread or with O_NONBLOCK"
        }
    };
    let evidence = [("for_ns", of.for_ns as f64), ("threads", of.threads as f64)];
    let f = Finding { remedy: remedy.into(), ..rule.finding(Severity::Warning, text, &evidence) };
    bound_of_wait(t, f, of.for_ns as f64)
}

fn said(wait: &LongWait) -> String {
    let by = named(wait);
    let only = if wait.by.len() == 1 { "only " } else { "" };
    let fd = wait.fd.map(|fd| format!(" (descriptor {fd})")).unwrap_or_default();
    let what = match (&wait.reason, wait.owner) {
        (_, Some(owner)) if wait.by.is_empty() => format!("a lock of thread {owner}, which has exited"),
        (_, Some(owner)) => format!("a lock of thread {owner} in {by}"),
        (Reason::FileLock, _) => format!("a file lock{fd}, which {by} holds"),
        (Reason::Child, _) => format!("the exit of {by}"),
        (Reason::PipeFull, _) => format!("space in a pipe{fd}, which {only}{by} can read"),
        (Reason::PipeEmpty, _) => format!("data in a pipe{fd}, which {only}{by} can write"),
        (Reason::SocketSpace, _) => format!("space in the send buffer of a socket{fd}, whose peer is {by}"),
        (Reason::SocketData, _) => format!("data of a socket{fd}, whose peer is {by}"),
        (Reason::Futex, _) => "another thread of its process".into(),
        (reason, _) => reasons::name(reason),
    };
    format!("thread {} ({}) waits in {}(2) for {what}", wait.tid, wait.comm, wait.syscall)
}

/// The processes that can end the wait.
fn named(wait: &LongWait) -> String {
    let one = |p: &NamedProcess| format!("process {} ({})", p.tgid, p.comm);
    let mut names: Vec<String> = wait.by.iter().take(TOLD).map(one).collect();
    if wait.by.len() > TOLD {
        names.push(format!("{} more", wait.by.len() - TOLD));
    }
    list(&names)
}

/// The processes with the other end of the pipe or socket that the longest wait in this call is for, as a sentence that
/// follows the wait.
pub(super) fn other_end(t: &TraceRecord, syscall: &str) -> Option<String> {
    let waits = || t.state.iter().flat_map(|state| &state.waits);
    let is_end = |wait: &LongWait| wait.fd.is_some() && wait.reason != Reason::FileLock;
    let is_meant = |wait: &&LongWait| wait.syscall == syscall && is_end(wait) && !wait.by.is_empty();
    let wait = waits().filter(is_meant).max_by_key(|wait| wait.for_ns)?;
    // A program that it started inherited the descriptor.
    let is_started = |tgid: u32| t.own_threads().any(|thread| thread.tgid == tgid);
    let inherits = wait.by.iter().any(|p| p.tgid != wait.tgid && p.comm != wait.comm && is_started(p.tgid));
    let hint = match inherits && matches!(wait.reason, Reason::PipeEmpty | Reason::SocketData) {
        true => {
            ". The end of the stream comes only after the last copy is closed: create the descriptor with O_CLOEXEC (SOCK_CLOEXEC, accept4(2)) if that \
             program does not use it"
        }
        false => "",
    };
    Some(format!(
        "for {}, the other end of descriptor {} was open in {}{hint}",
        span(wait.for_ns as f64),
        wait.fd?,
        named(wait)
    ))
}
