//! Waits that none of the program's threads can end, and the processes with the other end of a pipe or socket.

use super::state::bound_of_wait;
use super::{Check, Matter, RULE, Rule, reasons};
use iotrail_base::words::{list, plural, span};
use iotrail_schema::account::Reason;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::state::{LongWait, NamedProcess};
use iotrail_schema::trace_record::TraceRecord;

/// Maximum number of waits and processes listed in a text.
const TOLD: usize = 3;

pub(super) const DEADLOCK: Rule = Rule {
    code: "deadlock",
    about: "threads slept for at least 1 s in calls that only other sleeping threads can end: their processes have the other end of the pipe or \
            socket, are the awaited child, or own the lock. Or the owner of the lock had exited",
    matter: Matter::Data,
    checks: &[Check::Trace(deadlock)],
    ..RULE
};

fn deadlock(t: &TraceRecord) -> Option<Finding> {
    let waits: Vec<&LongWait> = t.state.as_ref()?.waits.iter().filter(|wait| wait.cannot_end).collect();
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
        () if has(Reason::Lock) => {
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

fn said(wait: &LongWait) -> String {
    let by = named(wait);
    let only = if wait.by.len() == 1 { "only " } else { "" };
    let fd = wait.fd.map(|fd| format!(" (descriptor {fd})")).unwrap_or_default();
    let what = match (&wait.reason, wait.owner) {
        (_, Some(owner)) if wait.by.is_empty() => format!("a lock of thread {owner}, which has exited"),
        (_, Some(owner)) => format!("a lock of thread {owner} in {by}"),
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
    let is_meant = |wait: &&LongWait| wait.syscall == syscall && wait.fd.is_some() && !wait.by.is_empty();
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
