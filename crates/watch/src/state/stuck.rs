//! Threads that are blocked for long by a file lock, a full pipe or a full send buffer, and the process that can end
//! the wait. Threads that all wait for each other.

use std::collections::BTreeSet;
use std::fs;

use super::waits::{FUTEX_CLOCK_REALTIME, FUTEX_PRIVATE, FUTEX_WAIT, FUTEX_WAIT_BITSET, LONG_NS, holders};
use crate::namespace::Numbers;
use iotrail_host::procfs;
use iotrail_path::delivery::syscall_name;
use iotrail_probe::snapshot::{self, Snapshot, Thread};
use iotrail_schema::account::Reason;
use iotrail_schema::state::{Other, StuckWait};

/// The longest such wait in a deep sample. `numbers`: for /proc.
pub fn of(sample: &Snapshot, numbers: &Numbers) -> Option<StuckWait> {
    by_a_process(sample, numbers).or_else(|| deadlock(sample))
}

/// All threads wait in futex(2) without a timeout, or for a process whose threads do.
fn deadlock(sample: &Snapshot) -> Option<StuckWait> {
    let threads = || sample.threads.iter().filter(|t| !t.is_kernels);
    let is = |t: &Thread, name: &str| t.call.map(syscall_name).is_some_and(|call| call == name);
    let command = |t: &Thread| t.arguments[1] & !(FUTEX_PRIVATE | FUTEX_CLOCK_REALTIME);
    let waits =
        |t: &Thread| is(t, "futex") && [FUTEX_WAIT, FUTEX_WAIT_BITSET].contains(&command(t)) && t.arguments[3] == 0;
    let is_stuck = |t: &Thread| {
        let is_long = t.asleep && t.asleep_ns.is_some_and(|ns| ns >= LONG_NS);
        is_long && (waits(t) || is(t, "wait4") || is(t, "waitid"))
    };
    // A futex that processes share may be woken by one that is not traced.
    let own = threads().find(|t| waits(t) && t.arguments[1] & FUTEX_PRIVATE != 0)?;
    threads().all(is_stuck).then(|| StuckWait {
        tid: own.tid,
        tgid: own.tgid,
        comm: own.comm.clone(),
        syscall: "futex".into(),
        fd: None,
        reason: Reason::Futex,
        for_ns: threads().filter_map(|t| t.asleep_ns).min().unwrap_or(0),
        threads: threads().count() as u64,
        by: None,
    })
}

fn by_a_process(sample: &Snapshot, numbers: &Numbers) -> Option<StuckWait> {
    let is_long = |t: &&Thread| !t.is_kernels && t.asleep_ns.is_some_and(|ns| ns >= LONG_NS);
    let reasons = sample.threads.iter().filter(is_long).filter_map(|t| Some((t, snapshot::reason(&t.stack)?)));
    let stuck: Vec<(&Thread, Reason)> = reasons
        .filter(|(_, reason)| matches!(reason, Reason::FileLock | Reason::PipeFull | Reason::SocketSpace))
        .collect();
    let (t, reason) = stuck.iter().max_by_key(|(t, _)| t.asleep_ns)?;
    let here = numbers.here(t.tgid)?;
    let fd = t.arguments[0] as u32;
    let by = match reason {
        Reason::FileLock => holder(here),
        Reason::PipeFull => reader(here, fd, sample, numbers),
        _ => None,
    };
    // The process may be one that is not traced.
    let traced = |number: u32| sample.processes.iter().map(|p| p.tgid).find(|p| numbers.here(*p) == Some(number));
    let other = by.map(|number| {
        let tgid = traced(number).unwrap_or(number);
        let sleeping = sample.threads.iter().filter(|t| t.tgid == tgid && t.asleep).max_by_key(|t| t.asleep_ns);
        let comm = procfs::comm(number, number).unwrap_or_default();
        Other { tgid, comm, syscall: sleeping.and_then(|t| t.call).map(syscall_name) }
    });
    Some(StuckWait {
        tid: t.tid,
        tgid: t.tgid,
        comm: t.comm.clone(),
        syscall: t.call.map(syscall_name)?,
        fd: Some(fd),
        reason: reason.clone(),
        for_ns: t.asleep_ns?,
        threads: stuck.iter().filter(|(_, other)| other == reason).count() as u64,
        by: other,
    })
}

/// The process that holds a file lock for which this process waits.
fn holder(waiter: u32) -> Option<u32> {
    holder_in(&fs::read_to_string("/proc/locks").ok()?, waiter)
}

/// `1: FLOCK ADVISORY WRITE 9 …`, and behind it `1: -> FLOCK ADVISORY WRITE 7 …` for each waiter.
fn holder_in(locks: &str, waiter: u32) -> Option<u32> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = locks.lines().map(words).collect();
    let waits =
        |line: &&Vec<String>| line.get(1).is_some_and(|w| w == "->") && line.get(5) == Some(&waiter.to_string());
    let number = lines.iter().find(waits)?.first()?;
    let holds = |line: &&Vec<String>| line.first() == Some(number) && line.get(1).is_some_and(|w| w != "->");
    lines.iter().find(holds)?.get(4)?.parse().ok()
}

/// A traced process that has the other end of the pipe open, if possible one other than the writer.
fn reader(writer: u32, fd: u32, sample: &Snapshot, numbers: &Numbers) -> Option<u32> {
    let pipe = fs::read_link(format!("/proc/{writer}/fd/{fd}")).ok()?;
    let pipe = pipe.to_str()?;
    let mut traced: Vec<u32> = sample.processes.iter().filter_map(|p| numbers.here(p.tgid)).collect();
    traced.sort_by_key(|process| *process == writer);
    let open = holders(&traced, &BTreeSet::from([pipe]));
    open.get(pipe)?.iter().find(|(_, reads, _)| *reads).map(|(process, ..)| *process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_all_wait_in_futex_without_a_timeout_wait_for_each_other() {
        let call = |name: &str| (0..512).find(|nr| syscall_name(*nr) == name);
        let of = |call, arguments| Thread {
            asleep: true,
            asleep_ns: Some(2 * LONG_NS),
            call,
            arguments,
            ..Thread::default()
        };
        let lock = || of(call("futex"), [0, FUTEX_PRIVATE, 2, 0, 0]);
        let join = || of(call("futex"), [0, 9 | FUTEX_CLOCK_REALTIME, 7, 0, 0]);
        let with = |threads| deadlock(&Snapshot { threads, ..Snapshot::default() }).map(|of| (of.threads, of.for_ns));
        assert_eq!(with(vec![join(), lock(), of(call("wait4"), [0; 5])]), Some((3, 2 * LONG_NS)));
        assert_eq!(with(vec![join()]), None, "its thread may have been created by another process");
        assert_eq!(with(vec![lock(), of(call("futex"), [0, FUTEX_PRIVATE, 2, 0x7ff, 0])]), None, "a timeout");
        assert_eq!(with(vec![lock(), of(call("epoll_wait"), [0; 5])]), None);
        assert_eq!(with(vec![lock(), Thread { asleep_ns: Some(1), ..lock() }]), None);
    }

    #[test]
    fn the_holder_of_a_lock_is_listed_before_its_waiters() {
        let locks = "1: FLOCK  ADVISORY  WRITE 9 fe:00:131 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 7 fe:00:131 0 EOF\n\
                     2: POSIX  ADVISORY  READ 5 fe:00:132 0 EOF\n";
        assert_eq!((holder_in(locks, 7), holder_in(locks, 5)), (Some(9), None));
    }
}
