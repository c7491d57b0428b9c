//! Threads that sleep for long in a call which another thread or process must end, and whether it can.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use iotrail_host::procfs;
use iotrail_path::delivery::syscall_name;
use iotrail_probe::snapshot::{self, Snapshot, Thread};
use iotrail_schema::account::Reason;
use iotrail_schema::state::{LongWait, NamedProcess};

use crate::namespace::Numbers;

/// Shorter waits end by themselves.
pub(super) const LONG_NS: u64 = 1_000_000_000;

/// Maximum number of recorded waits.
const LISTED: usize = 8;

/// Searches may take 1 in this many parts of the time.
const PART: u32 = 100;

/// Number of processes and threads above which /proc is not searched.
const PROCESSES: usize = 4096;
const THREADS: usize = 512;

/// futex(2) operations that wait, and flags in include/uapi/linux/futex.h.
pub(super) const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
pub(super) const FUTEX_WAIT_BITSET: u64 = 9;
pub(super) const FUTEX_PRIVATE: u64 = 128;
pub(super) const FUTEX_CLOCK_REALTIME: u64 = 256;
const FUTEX_TID: u32 = 0x3fff_ffff;

/// The longest waits of the trace.
#[derive(Debug, Default)]
pub struct Waits {
    /// Threads of the last search, with their number of sleeps: the same sleeps have the same wakers.
    last: BTreeSet<(u32, u64)>,
    /// Time before which no search starts.
    next: Option<Instant>,
    found: Vec<LongWait>,
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
}

/// The other end of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    fd: u32,
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
        for wait in &mut self.found {
            let same = long().find(|t| t.tid == wait.tid && self.last.contains(&(t.tid, t.sleeps)));
            wait.for_ns = wait.for_ns.max(same.and_then(|t| t.asleep_ns).unwrap_or(0));
        }
        let began = Instant::now();
        if key == self.last || !is_last && self.next.is_some_and(|next| began < next) {
            return;
        }
        let mut found = search(sample, numbers);
        self.next = Some(began + began.elapsed() * PART);
        self.last = key;
        found.sort_by_key(|wait| (!wait.cannot_end, std::cmp::Reverse(wait.for_ns)));
        found.truncate(LISTED);
        let rank = |waits: &[LongWait]| waits.first().map(|wait| (wait.cannot_end, wait.for_ns));
        if rank(&found) >= rank(&self.found) {
            self.found = found;
        }
    }

    pub fn record(&self) -> Vec<LongWait> {
        self.found.clone()
    }
}

/// The long waits of a sample whose wakers are known.
fn search(sample: &Snapshot, numbers: &Numbers) -> Vec<LongWait> {
    let threads: Vec<&Thread> = sample.threads.iter().filter(|t| !t.is_kernels).collect();
    let shown = |id: u32| numbers.in_proc(id).unwrap_or(0);
    if threads.iter().all(|t| snapshot::reason(&t.stack).is_none_or(|reason| reason == Reason::Epoll)) {
        return vec![];
    }
    let processes = procfs::processes();
    if processes.len() > PROCESSES {
        return vec![];
    }
    let ends: Vec<Option<End>> = threads.iter().map(|t| other_end(t, shown(t.tgid))).collect();
    let wanted: BTreeSet<&str> = ends.iter().flatten().map(|end| end.link.as_str()).collect();
    let open = holders(&processes, &wanted);
    let waker = |(t, end): (&&Thread, &Option<End>)| -> Option<Waker> {
        let own = shown(t.tgid);
        if let Some(end) = end {
            let of = open.get(end.link.as_str()).into_iter().flatten();
            let meant = of.filter(|(_, reads, writes)| end.reads && *reads || end.writes && *writes);
            let by: BTreeSet<u32> = meant.map(|(pid, ..)| *pid).collect();
            return (!by.is_empty()).then(|| Waker::Processes(by.into_iter().collect()));
        }
        match snapshot::reason(&t.stack)? {
            Reason::Child => {
                let children = procfs::children(own, &procfs::threads(own));
                (!children.is_empty()).then_some(Waker::Processes(children))
            }
            Reason::Futex => futex(t, own),
            _ => None,
        }
    };
    let wakers: Vec<Option<Waker>> = threads.iter().zip(&ends).map(waker).collect();
    let ids: Vec<(u32, u32)> = threads.iter().map(|t| (shown(t.tgid), shown(t.tid))).collect();
    let runs = |tid: u32| procfs::Stat::of(tid).is_some_and(|stat| !stat.is_zombie());
    let stuck = stuck(&ids, &wakers, sample.rings.is_empty(), &runs);
    let one = |i: usize| {
        let (t, waker) = (threads[i], wakers[i].as_ref()?);
        let for_ns = t.asleep_ns.filter(|ns| stuck[i] || *ns >= LONG_NS)?;
        let (by, owner) = match waker {
            Waker::Processes(by) => (by.clone(), None),
            Waker::Own => (vec![ids[i].0], None),
            Waker::Thread(tid) => {
                (procfs::Status::of(*tid).map(|status| status.tgid).into_iter().collect(), Some(*tid))
            }
        };
        let named = |pid: u32| NamedProcess { tgid: pid, comm: procfs::comm(pid, pid).unwrap_or_default() };
        Some(LongWait {
            tid: t.tid,
            tgid: t.tgid,
            comm: t.comm.clone(),
            syscall: syscall_name(t.call?),
            reason: if owner.is_some() { Reason::Lock } else { snapshot::reason(&t.stack)? },
            fd: ends[i].as_ref().map(|end| end.fd),
            for_ns,
            by: by.into_iter().take(LISTED).map(named).collect(),
            owner,
            cannot_end: stuck[i],
        })
    };
    (0..threads.len()).filter_map(one).collect()
}

/// The end that a read or write of a pipe or a socket waits for; `None` for other calls.
fn other_end(t: &Thread, pid: u32) -> Option<End> {
    let reason = snapshot::reason(&t.stack).filter(|_| t.asleep)?;
    let fd = u32::try_from(t.arguments[0]).ok()?;
    let end = |link, reads, writes| Some(End { fd, link, reads, writes });
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
pub(super) fn holders<'w>(processes: &[u32], wanted: &BTreeSet<&'w str>) -> BTreeMap<&'w str, Vec<(u32, bool, bool)>> {
    let mut found: BTreeMap<&str, Vec<(u32, bool, bool)>> = BTreeMap::new();
    if wanted.is_empty() {
        return found;
    }
    for pid in processes {
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

/// Who wakes a thread in futex(2). `None`: anyone, or a timeout.
fn futex(t: &Thread, pid: u32) -> Option<Waker> {
    let [at, operation, expected, timeout, _] = t.arguments;
    let command = operation & !(FUTEX_PRIVATE | FUTEX_CLOCK_REALTIME);
    if timeout != 0 || ![FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET].contains(&command) {
        return None;
    }
    let mut bytes = [0; 20];
    let memory = File::open(format!("/proc/{pid}/mem")).and_then(|memory| memory.read_exact_at(&mut bytes, at));
    let word = |i: usize| u32::from_ne_bytes(bytes[i * 4..][..4].try_into().expect("four bytes"));
    if memory.is_ok() {
        if command == FUTEX_LOCK_PI {
            return Some(Waker::Thread(word(0) & FUTEX_TID));
        }
        if let Some(owner) = owner(expected as u32, [0, 1, 2, 3, 4].map(word)) {
            return Some(Waker::Thread(owner));
        }
    }
    (operation & FUTEX_PRIVATE != 0).then_some(Waker::Own)
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
            None => false,
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
    fn only_a_contended_mutex_has_an_owner() {
        assert_eq!(owner(2, [2, 1, 77, 1, 128]), Some(77));
        assert_eq!(owner(0, [0, 0, 77, 1, 0]), None);
        assert_eq!(owner(2, [2, 0, 0, 1, 0]), None);
        assert_eq!(owner(2, [2, 5, 77, 0xbeef, 0x7fff_0000]), None, "data behind another kind of lock");
    }
}
