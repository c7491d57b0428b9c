//! Threads that sleep for long in a call which another thread or process must end, and whether it can.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use iotrail_host::procfs::{self, Status};
use iotrail_path::delivery::syscall_name;
use iotrail_path::sleep;
use iotrail_probe::snapshot::{self, Snapshot, Thread};
use iotrail_schema::account::Reason;
use iotrail_schema::state::{LongWait, NamedProcess, StuckWait};

use crate::namespace::Numbers;

/// Shorter waits end by themselves.
const LONG_NS: u64 = 1_000_000_000;

/// Maximum number of recorded waits.
const LISTED: usize = 8;

/// Searches may take 1 in this many parts of the time.
const PART: u32 = 100;

/// Number of threads above which a sample is not searched, and of processes above which their descriptors are not.
const THREADS: usize = 512;
const PROCESSES: usize = 4096;

/// futex(2) operations that wait, and flags in include/uapi/linux/futex.h.
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_PRIVATE: u64 = 128;
const FUTEX_CLOCK_REALTIME: u64 = 256;
const FUTEX_TID: u32 = 0x3fff_ffff;

/// A wait, with its thread's number of sleeps.
type Slept<T> = (u64, T);

/// The longest waits of the trace.
#[derive(Debug, Default)]
pub struct Waits {
    /// Threads of the last search: the same sleeps have the same wakers.
    last: BTreeSet<(u32, u64)>,
    /// Time before which no search starts.
    next: Option<Instant>,
    found: Vec<Slept<LongWait>>,
    stuck: Option<Slept<StuckWait>>,
}

/// What can end a thread's sleep, by the IDs that /proc shows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Waker {
    /// Any thread of these processes.
    Processes(Vec<u32>),
    /// Another thread of the same process.
    Own,
    /// The owner of a lock.
    Thread(u32),
    /// A thread of any process that shares the memory.
    Any,
}

/// The other end of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    link: String,
    /// Whether a descriptor with this access mode (O_ACCMODE) can end the wait.
    reads: bool,
    writes: bool,
}

impl Waits {
    /// Takes a deep sample. `is_last`: the trace ends.
    pub fn take(&mut self, sample: &Snapshot, numbers: &Numbers, is_last: bool) {
        let own = || sample.threads.iter().filter(|t| !t.is_kernels);
        let long = || own().filter(|t| t.asleep && t.asleep_ns.is_some_and(|ns| ns >= LONG_NS));
        let key: BTreeSet<(u32, u64)> = long().map(|t| (t.tid, t.sleeps)).collect();
        if key.is_empty() || own().count() > THREADS {
            return;
        }
        let found = self.found.iter_mut().map(|(sleeps, wait)| (wait.tid, *sleeps, &mut wait.for_ns));
        let stuck = self.stuck.iter_mut().map(|(sleeps, of)| (of.tid, *sleeps, &mut of.for_ns));
        for (tid, sleeps, for_ns) in found.chain(stuck) {
            let same = long().find(|t| (t.tid, t.sleeps) == (tid, sleeps));
            *for_ns = (*for_ns).max(same.and_then(|t| t.asleep_ns).unwrap_or(0));
        }
        let began = Instant::now();
        if key == self.last || !is_last && self.next.is_some_and(|next| began < next) {
            return;
        }
        let (mut found, stuck) = search(sample, numbers);
        self.next = Some(began + began.elapsed() * PART);
        self.last = key;
        found.sort_by_key(|(_, wait)| (!wait.cannot_end, Reverse(wait.for_ns)));
        found.truncate(LISTED);
        let rank = |waits: &[Slept<LongWait>]| waits.first().map(|(_, wait)| (wait.cannot_end, wait.for_ns));
        if rank(&found) >= rank(&self.found) {
            self.found = found;
        }
        let longest_ns = self.stuck.as_ref().map_or(0, |(_, of)| of.for_ns);
        self.stuck = stuck.filter(|(_, of)| of.for_ns > longest_ns).or(self.stuck.take());
    }

    pub fn record(&self) -> (Vec<LongWait>, Option<StuckWait>) {
        (self.found.iter().map(|(_, wait)| wait.clone()).collect(), self.stuck.as_ref().map(|(_, of)| of.clone()))
    }
}

/// The long waits of a sample whose wakers are known or that block a call, and the one that blocks it longest.
fn search(sample: &Snapshot, numbers: &Numbers) -> (Vec<Slept<LongWait>>, Option<Slept<StuckWait>>) {
    let threads: Vec<&Thread> = sample.threads.iter().filter(|t| !t.is_kernels).collect();
    let reasons: Vec<Option<Reason>> = threads.iter().map(|t| reason(t)).collect();
    if reasons.iter().all(|reason| matches!(reason, None | Some(Reason::Epoll))) {
        return (vec![], None);
    }
    let shown = |id: u32| numbers.in_proc(id).unwrap_or(0);
    let ids: Vec<(u32, u32)> = threads.iter().map(|t| (shown(t.tgid), shown(t.tid))).collect();
    let end = |i: usize| other_end(threads[i], reasons[i].as_ref()?, ids[i].0);
    let ends: Vec<Option<End>> = (0..threads.len()).map(end).collect();
    let open = holders(&ends.iter().flatten().map(|end| end.link.as_str()).collect());
    let waker = |i: usize| {
        let own = ids[i].0;
        let by: BTreeSet<u32> = match reasons[i].as_ref()? {
            Reason::Futex => return futex(threads[i], own),
            Reason::Child => procfs::children(own, &procfs::threads(own)).into_iter().collect(),
            Reason::FileLock => lock_holder(&procfs::text("/proc/locks")?, own).into_iter().collect(),
            _ => {
                let end = ends[i].as_ref()?;
                let of = open.get(end.link.as_str()).into_iter().flatten();
                let meant = of.filter(|(_, reads, writes)| end.reads && *reads || end.writes && *writes);
                meant.map(|(pid, ..)| *pid).collect()
            }
        };
        (!by.is_empty()).then(|| Waker::Processes(by.into_iter().collect()))
    };
    let wakers: Vec<Option<Waker>> = (0..threads.len()).map(waker).collect();
    let runs = |tid: u32| procfs::Stat::of(tid).is_some_and(|stat| !stat.is_zombie());
    let stuck = stuck(&ids, &wakers, sample.rings.is_empty(), &runs);
    let named = |pid: u32| {
        let tgid = numbers.of_proc(pid).unwrap_or(pid);
        let sleeping = threads.iter().filter(|t| t.tgid == tgid && t.asleep).max_by_key(|t| t.asleep_ns);
        let syscall = sleeping.and_then(|t| t.call).map(syscall_name);
        Some(NamedProcess { tgid, comm: procfs::comm(pid, pid)?, syscall })
    };
    let one = |i: usize| {
        let (t, reason) = (threads[i], reasons[i].clone()?);
        let for_ns = t.asleep_ns.filter(|ns| stuck[i] || *ns >= LONG_NS)?;
        let (by, owner) = match &wakers[i] {
            Some(Waker::Processes(by)) => (by.clone(), None),
            Some(Waker::Own) => (vec![ids[i].0], None),
            Some(Waker::Thread(tid)) => (Status::of(*tid).map(|status| status.tgid).into_iter().collect(), Some(*tid)),
            None if blocks(&reason) => (vec![], None),
            None | Some(Waker::Any) => return None,
        };
        let has_fd = blocks(&reason) || matches!(reason, Reason::PipeEmpty | Reason::SocketData);
        let wait = LongWait {
            tid: t.tid,
            tgid: t.tgid,
            comm: t.comm.clone(),
            syscall: syscall_name(t.call?),
            reason: if owner.is_some() { Reason::Lock } else { reason },
            fd: has_fd.then_some(t.arguments[0] as u32),
            for_ns,
            by: by.into_iter().take(LISTED).filter_map(named).collect(),
            owner,
            cannot_end: stuck[i],
        };
        Some((t.sleeps, wait))
    };
    let waits: Vec<Slept<LongWait>> = (0..threads.len()).filter_map(one).collect();
    let stuck = blocked(&waits).or_else(|| in_futex(&threads, &wakers, &waits));
    (waits, stuck)
}

fn reason(t: &Thread) -> Option<Reason> {
    let call = || t.call.filter(|_| t.asleep).map(syscall_name);
    snapshot::reason(&t.stack).or_else(|| sleep::reason_of_call(&call()?))
}

/// Whether a call that may wait only briefly sleeps for this reason.
fn blocks(reason: &Reason) -> bool {
    matches!(reason, Reason::FileLock | Reason::PipeFull | Reason::SocketSpace)
}

/// The longest wait for a file lock, for the reader of a pipe or for space in a socket.
fn blocked(waits: &[Slept<LongWait>]) -> Option<Slept<StuckWait>> {
    let long = || waits.iter().filter(|(_, wait)| blocks(&wait.reason) && wait.for_ns >= LONG_NS);
    let (sleeps, wait) = long().max_by_key(|(_, wait)| wait.for_ns)?;
    let another = wait.by.iter().find(|p| p.tgid != wait.tgid).or(wait.by.first());
    let threads = long().filter(|(_, other)| other.reason == wait.reason).count();
    let by = another.filter(|_| wait.reason != Reason::SocketSpace).cloned();
    Some((*sleeps, StuckWait { by, ..stuck_wait(wait, threads) }))
}

/// All threads wait in futex(2) without a timeout, or for a process whose threads do.
fn in_futex(threads: &[&Thread], wakers: &[Option<Waker>], waits: &[Slept<LongWait>]) -> Option<Slept<StuckWait>> {
    // A futex that processes share may be woken by one that is not traced.
    let (sleeps, wait) = waits.iter().find(|(_, wait)| wait.reason == Reason::Futex)?;
    let is_stuck = |(t, waker): (&&Thread, &Option<Waker>)| {
        waker.is_some() && matches!(reason(t), Some(Reason::Futex | Reason::Child))
    };
    let for_ns = threads.iter().map(|t| t.asleep_ns.unwrap_or(0)).min().filter(|ns| *ns >= LONG_NS)?;
    let all = threads.iter().zip(wakers).all(is_stuck);
    all.then(|| (*sleeps, StuckWait { for_ns, ..stuck_wait(wait, threads.len()) }))
}

fn stuck_wait(wait: &LongWait, threads: usize) -> StuckWait {
    StuckWait {
        tid: wait.tid,
        tgid: wait.tgid,
        comm: wait.comm.clone(),
        syscall: wait.syscall.clone(),
        fd: wait.fd,
        reason: wait.reason.clone(),
        for_ns: wait.for_ns,
        threads: threads as u64,
        by: None,
    }
}

/// The end that a read or write of a pipe or a socket waits for; `None` for other calls.
fn other_end(t: &Thread, reason: &Reason, pid: u32) -> Option<End> {
    let fd = t.arguments[0] as u32;
    let end = |link, reads, writes| Some(End { link, reads, writes });
    let link = || Some(fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?.to_str()?.to_owned());
    match reason {
        Reason::PipeEmpty => end(link()?, false, true),
        Reason::PipeFull => end(link()?, true, false),
        Reason::SocketData | Reason::SocketSpace => {
            let peer = match t.peer_inode {
                0 => tcp_peer(pid, &link()?)?,
                inode => inode,
            };
            end(format!("socket:[{peer}]"), true, true)
        }
        _ => None,
    }
}

/// The inode of the other end of a TCP connection within the machine's network namespace of the process.
fn tcp_peer(pid: u32, link: &str) -> Option<u64> {
    let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    let tables = ["tcp", "tcp6"].map(|name| procfs::text(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    let rows = || tables.iter().flat_map(|table| table.lines().skip(1)).map(|row| row.split_whitespace().collect());
    let own = rows().find(|row: &Vec<&str>| row.get(9) == Some(&inode))?;
    let peer = rows().find(|row| row.get(1) == own.get(2) && row.get(2) == own.get(1))?;
    peer.get(9)?.parse().ok().filter(|inode| *inode != 0)
}

/// Processes with one of these files open, and whether their descriptor reads and writes.
fn holders<'w>(wanted: &BTreeSet<&'w str>) -> BTreeMap<&'w str, Vec<(u32, bool, bool)>> {
    let mut found: BTreeMap<&str, Vec<(u32, bool, bool)>> = BTreeMap::new();
    let processes = if wanted.is_empty() { vec![] } else { procfs::processes() };
    for pid in processes.iter().filter(|_| processes.len() <= PROCESSES) {
        for fd in procfs::numbers(format!("/proc/{pid}/fd")) {
            let Ok(link) = fs::read_link(format!("/proc/{pid}/fd/{fd}")) else { continue };
            let Some(link) = link.to_str().and_then(|link| wanted.get(link)) else { continue };
            let info = procfs::text(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            let mode = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(libc::O_RDWR);
            let of = |mode: i32, only: i32| mode & libc::O_ACCMODE == only || mode & libc::O_ACCMODE == libc::O_RDWR;
            found.entry(link).or_default().push((*pid, of(mode, libc::O_RDONLY), of(mode, libc::O_WRONLY)));
        }
    }
    found
}

/// The process that holds a file lock for which this process waits. /proc/locks: `1: FLOCK ADVISORY WRITE 9 …`, and
/// behind it `1: -> FLOCK ADVISORY WRITE 7 …` for each waiter.
fn lock_holder(locks: &str, waiter: u32) -> Option<u32> {
    let lines: Vec<Vec<&str>> = locks.lines().map(|line| line.split_whitespace().collect()).collect();
    let waits = |line: &&Vec<&str>| line.get(1) == Some(&"->") && line.get(5) == Some(&waiter.to_string().as_str());
    let number = lines.iter().find(waits)?.first();
    let holds = |line: &&Vec<&str>| line.first() == number && line.get(1) != Some(&"->");
    lines.iter().find(holds)?.get(4)?.parse().ok()
}

/// Who wakes a thread in futex(2). `None`: a timeout, or unknown.
fn futex(t: &Thread, pid: u32) -> Option<Waker> {
    let [at, operation, expected, timeout, _] = t.arguments;
    let command = operation & !(FUTEX_PRIVATE | FUTEX_CLOCK_REALTIME);
    let is_futex = t.call.map(syscall_name).is_some_and(|call| call == "futex");
    if !is_futex || timeout != 0 || ![FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET].contains(&command) {
        return None;
    }
    let mut bytes = [0; 20];
    let memory = File::open(format!("/proc/{pid}/mem")).and_then(|memory| memory.read_exact_at(&mut bytes, at));
    let word = |i: usize| u32::from_ne_bytes(bytes[i * 4..][..4].try_into().expect("four bytes"));
    if memory.is_ok() {
        if command == FUTEX_LOCK_PI {
            return shown_thread(pid, word(0) & FUTEX_TID).map(Waker::Thread);
        }
        if let Some(owner) = owner(expected as u32, [0, 1, 2, 3, 4].map(word)) {
            return shown_thread(pid, owner).map(Waker::Thread);
        }
    }
    Some(if operation & FUTEX_PRIVATE != 0 { Waker::Own } else { Waker::Any })
}

/// The ID in /proc of a thread that has this ID in the process's PID namespace.
fn shown_thread(pid: u32, tid: u32) -> Option<u32> {
    let of = |id: u32| Status::of(id).map(|status| status.numbers);
    match of(pid)?.len() {
        1 => Some(tid),
        _ => procfs::threads(pid).into_iter().find(|shown| of(*shown).is_some_and(|ids| ids.last() == Some(&tid))),
    }
}

/// The owner of glibc's pthread_mutex_t: lock word, recursions, owner, users, kind. A robust mutex is not owned by a
/// thread that has exited.
fn owner(expected: u32, [lock, recursions, owner, users, kind]: [u32; 5]) -> Option<u32> {
    /// A mutex that other threads wait for.
    const CONTENDED: u32 = 2;
    /// Types, robustness, protocols, sharing and elision.
    const KINDS: u32 = 0x3ff;
    let is_one = expected == CONTENDED && lock == CONTENDED && recursions <= 1 && users >= 1 && kind & !KINDS == 0;
    (is_one && owner != 0 && owner <= FUTEX_TID).then_some(owner)
}

/// Whether each thread sleeps until another one of these threads ends its sleep. `ids`: process and thread.
fn stuck(ids: &[(u32, u32)], wakers: &[Option<Waker>], without_rings: bool, runs: &dyn Fn(u32) -> bool) -> Vec<bool> {
    let mut stuck: Vec<bool> = wakers.iter().map(Option::is_some).collect();
    let of_process = |stuck: &[bool], pid: u32| {
        let mut own = ids.iter().zip(stuck).filter(|((tgid, _), _)| *tgid == pid).peekable();
        own.peek().is_some() && own.all(|(_, stuck)| *stuck)
    };
    loop {
        let keeps = |i: usize| match &wakers[i] {
            None | Some(Waker::Any) => false,
            Some(Waker::Own) => of_process(&stuck, ids[i].0),
            // A ring may hold the other end.
            Some(Waker::Processes(by)) => without_rings && by.iter().all(|pid| of_process(&stuck, *pid)),
            Some(Waker::Thread(tid)) => match ids.iter().position(|(_, id)| id == tid) {
                Some(owner) => stuck[owner],
                None => !runs(*tid),
            },
        };
        let next: Vec<bool> = (0..stuck.len()).map(|i| stuck[i] && keeps(i)).collect();
        if next == stuck {
            break;
        }
        stuck = next;
    }
    // Threads that only wait in futex(2) for each other may wait for a signal.
    let any = (0..stuck.len()).any(|i| stuck[i] && wakers[i] != Some(Waker::Own));
    stuck.iter().map(|stuck| *stuck && any).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stuck_of(ids: &[(u32, u32)], wakers: Vec<Option<Waker>>) -> Vec<bool> {
        stuck(ids, &wakers, true, &|tid| tid != 99)
    }

    #[test]
    fn a_wait_cannot_end_if_only_waiting_threads_can_end_it() {
        let by = |pids: &[u32]| Some(Waker::Processes(pids.to_vec()));
        let (parent, child, other) = ((1, 1), (2, 2), (3, 3));
        assert_eq!(stuck_of(&[parent, child], vec![by(&[2]), by(&[1])]), [true, true], "a full pipe and its reader");
        assert_eq!(stuck_of(&[parent, child], vec![by(&[2]), None]), [false, false], "a child that runs");
        assert_eq!(stuck_of(&[parent, child], vec![by(&[2]), by(&[1, 7])]), [false, false], "another reader");
        assert_eq!(stuck_of(&[parent, (1, 4), child], vec![by(&[2]), None, by(&[1])]), [false; 3], "a second thread");
        assert_eq!(stuck_of(&[other], vec![Some(Waker::Thread(99))]), [true], "an owner that has exited");
        assert_eq!(stuck_of(&[other], vec![Some(Waker::Thread(98))]), [false]);
        let (a, b) = ((1, 10), (1, 11));
        let locks = vec![Some(Waker::Thread(11)), Some(Waker::Thread(10))];
        assert_eq!(stuck_of(&[a, b], locks), [true, true], "two locks in different order");
        assert_eq!(
            stuck_of(&[a, b], vec![Some(Waker::Own), Some(Waker::Own)]),
            [false, false],
            "a signal may end this"
        );
        assert_eq!(stuck_of(&[a, b], vec![by(&[1]), Some(Waker::Own)]), [true, true], "the write end of its own pipe");
    }

    #[test]
    fn threads_that_all_wait_in_futex_without_a_timeout_wait_for_each_other() {
        let call = |name: &str| (0..512).find(|nr| syscall_name(*nr) == name);
        let asleep_ns = Some(2 * LONG_NS);
        let of = |call, arguments| Thread { asleep: true, asleep_ns, call, arguments, ..Thread::default() };
        let lock = || of(call("futex"), [0, FUTEX_PRIVATE, 2, 0, 0]);
        let join = || of(call("futex"), [0, 9 | FUTEX_CLOCK_REALTIME, 7, 0, 0]);
        let with = |threads: Vec<Thread>| {
            let (_, stuck) = search(&Snapshot { threads, ..Snapshot::default() }, &Numbers::SAME);
            stuck.map(|(_, of)| (of.threads, of.for_ns))
        };
        assert_eq!(with(vec![join(), lock()]), Some((2, 2 * LONG_NS)));
        assert_eq!(with(vec![join()]), None, "its thread may have been created by another process");
        assert_eq!(with(vec![lock(), of(call("futex"), [0, FUTEX_PRIVATE, 2, 0x7ff, 0])]), None, "a timeout");
        assert_eq!(with(vec![lock(), of(call("epoll_wait"), [0; 5])]), None);
        assert_eq!(with(vec![lock(), Thread { asleep_ns: Some(1), ..lock() }]), None);
    }

    #[test]
    fn the_holder_of_a_lock_is_listed_before_its_waiters() {
        let locks = "1: FLOCK  ADVISORY  WRITE 9 fe:00:131 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 7 fe:00:131 0 EOF\n\
                     2: POSIX  ADVISORY  READ 5 fe:00:132 0 EOF\n";
        assert_eq!((lock_holder(locks, 7), lock_holder(locks, 5)), (Some(9), None));
    }

    #[test]
    fn only_a_contended_mutex_has_an_owner() {
        assert_eq!(owner(2, [2, 1, 77, 1, 128]), Some(77));
        assert_eq!(owner(0, [0, 0, 77, 1, 0]), None);
        assert_eq!(owner(2, [2, 0, 0, 1, 0]), None);
        assert_eq!(owner(2, [2, 5, 77, 0xbeef, 0x7fff_0000]), None, "data behind another kind of lock");
    }
}
