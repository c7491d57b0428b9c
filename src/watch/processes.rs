//! What /proc says of the watched processes while they run: CPU time, children, io_uring's helper threads, rings. Sampled: what
//! comes and goes between two looks is not seen.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::namespace::Numbers;
use super::recorder::now;
use super::rings::SeenRings;
use crate::host::procfs::{self, Stat, Status};

/// Between two looks, at least.
const PERIOD: Duration = Duration::from_millis(100);

/// A look waits for so many times what the last one took: looking takes one hundredth of a CPU at most.
const REST: u32 = 100;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub user_ns: u64,
    pub system_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    SubmissionQueue,
    Worker,
}

/// By the names that the kernel gives (io_uring/sqpoll.c, io_uring/io-wq.c).
fn kind(comm: &str) -> Option<Kind> {
    match comm {
        _ if comm.starts_with("iou-sqp-") => Some(Kind::SubmissionQueue),
        _ if comm.starts_with("iou-wrk-") => Some(Kind::Worker),
        _ => None,
    }
}

/// A counter that only grows, over the time that it was watched; `None`: not readable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Span {
    first: Option<u64>,
    last: Option<u64>,
}

impl Span {
    fn take(&mut self, value: Option<u64>) {
        self.last = value.or(self.last);
    }

    fn grown(self) -> Option<u64> {
        self.last?.checked_sub(self.first?)
    }
}

/// One of io_uring's own threads.
#[derive(Debug, Clone, Copy)]
struct Helper {
    kind: Kind,
    on_cpu_ns: Span,
    voluntary_switches: Span,
    since: Instant,
    until: Instant,
}

/// A submission-queue thread while it was watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqThread {
    pub tid: u32,
    pub elapsed_ns: u64,
    pub cpu_ns: Option<u64>,
    /// Times that it gave its CPU away to wait, which is its way to sleep.
    pub sleeps: Option<u64>,
}

#[derive(Debug)]
struct Tracked {
    /// In /proc.
    number: u32,
    /// In this PID namespace, where that is another one than the kernel's.
    here: Option<u32>,
    comm: String,
    /// When that was its name, CLOCK_MONOTONIC.
    looked_ns: u64,
    found: bool,
    start_ticks: u64,
    user_ticks: Span,
    system_ticks: Span,
    /// It was there when the command had ended: the kernel's account of that has nothing of it.
    outlived: bool,
    /// Every thread that was seen, by the kernel's number; `None`: one of the program's own.
    threads: HashMap<u32, Option<Helper>>,
    ended_sq_threads: Vec<(u32, Helper)>,
}

/// What is left of a process that has ended.
#[derive(Debug, Clone, Default)]
struct Ended {
    comm: String,
    here: Option<u32>,
    looked_ns: u64,
    found: bool,
    /// Its submission-queue threads.
    sq_threads: Vec<(u32, Helper)>,
}

/// Ended processes of which that is kept, the first ones.
const ENDED: usize = 4096;

/// The watched processes by the kernel's numbers, from the beginning of the watched span.
#[derive(Debug)]
pub struct Processes {
    there_before: HashSet<u32>,
    with_children: bool,
    tracked: BTreeMap<u32, Tracked>,
    ended: BTreeMap<u32, Ended>,
    /// CPU time of those that have ended; `None`: none of them had any that was told.
    ended_ticks: Option<(u64, u64)>,
    /// The same of those that were there when the command had ended.
    outlived_ticks: Option<(u64, u64)>,
    /// The same of io-wq workers that have ended; `None`: /proc did not say for one.
    ended_workers_ns: Option<u64>,
    pub rings: SeenRings,
    most_workers: Option<u64>,
    numbers: Rc<Numbers>,
    command_ended: bool,
    next: Instant,
}

impl Processes {
    /// The span begins. With `with_children` the children of tracked processes are tracked too.
    pub fn new(with_children: bool, numbers: Rc<Numbers>) -> Self {
        Self {
            there_before: numbers.processes().into_iter().collect(),
            with_children,
            tracked: BTreeMap::new(),
            ended: BTreeMap::new(),
            ended_ticks: None,
            outlived_ticks: None,
            ended_workers_ns: Some(0),
            rings: SeenRings::default(),
            most_workers: None,
            numbers,
            command_ended: false,
            next: Instant::now(),
        }
    }

    /// Tracks a process. `found`: it did something before the span that is not to be counted.
    pub fn track(&mut self, tgid: u32, found: bool) {
        if self.tracked.contains_key(&tgid) {
            return;
        }
        if !found {
            self.there_before.remove(&tgid);
        }
        let looked_ns = now().monotonic_ns;
        let Some(number) = self.numbers.in_proc(tgid) else { return };
        let Some(stat) = Stat::of(number) else { return };
        let first = |value| Span { first: Some(if found { value } else { 0 }), last: Some(value) };
        self.tracked.insert(
            tgid,
            Tracked {
                number,
                here: if self.numbers.differ() { self.numbers.here(tgid) } else { None },
                found,
                outlived: self.command_ended,
                start_ticks: stat.start_ticks,
                user_ticks: first(stat.user_ticks),
                system_ticks: first(stat.system_ticks),
                comm: stat.comm,
                looked_ns,
                threads: HashMap::new(),
                ended_sq_threads: vec![],
            },
        );
        let children = self.look_at(tgid, found, true).children;
        self.track_children(&children);
    }

    /// What a tracked process has used up to now is not counted: a command's, which waits at its gate.
    pub fn count_cpu_from_now(&mut self, tgid: u32) {
        if let Some(tracked) = self.tracked.get_mut(&tgid) {
            tracked.user_ticks.first = tracked.user_ticks.last;
            tracked.system_ticks.first = tracked.system_ticks.last;
        }
    }

    /// What the kernel accounts to the command is complete: those that are there now, and later ones, have times of their own.
    pub fn command_has_ended(&mut self) {
        self.command_ended = true;
        self.look(false);
        for tracked in self.tracked.values_mut() {
            tracked.outlived = true;
        }
    }

    /// One that did something that was followed, whoever its parent is.
    pub fn noticed(&mut self, tgid: u32) {
        let found = self.was_there(tgid);
        self.track(tgid, found);
    }

    fn track_children(&mut self, children: &[u32]) {
        for child in children.iter().filter(|_| self.with_children).copied().collect::<Vec<_>>() {
            // Those that were there before are followed only where the session said so, and then tracked already.
            if !self.was_there(child) {
                self.track(child, false);
            }
        }
    }

    /// Alive when the span began.
    pub fn was_there(&self, tgid: u32) -> bool {
        let known = self.tracked.get(&tgid).map(|t| t.found).or_else(|| self.ended.get(&tgid).map(|e| e.found));
        known.unwrap_or_else(|| self.there_before.contains(&tgid))
    }

    /// It is gone: what is to be said of it is kept, its number may be another one's.
    fn has_ended(&mut self, tgid: u32) {
        let Some(gone) = self.tracked.remove(&tgid) else { return };
        self.there_before.remove(&tgid);
        self.rings.ended(tgid);
        if let (Some(user), Some(system)) = (gone.user_ticks.grown(), gone.system_ticks.grown()) {
            let sum = if gone.outlived { &mut self.outlived_ticks } else { &mut self.ended_ticks };
            let sum = sum.get_or_insert_default();
            (sum.0, sum.1) = (sum.0 + user, sum.1 + system);
        }
        let mut sq_threads = gone.ended_sq_threads;
        for (tid, helper) in gone.threads {
            match helper {
                Some(helper) if helper.kind == Kind::SubmissionQueue => sq_threads.push((tid, helper)),
                Some(helper) => self.worker_has_ended(&helper),
                None => {}
            }
        }
        // The probes count the others. Of one whose number was used again, the name is gone.
        if self.ended.len() < ENDED || self.ended.contains_key(&tgid) {
            let (comm, here, looked_ns, found) = (gone.comm, gone.here, gone.looked_ns, gone.found);
            self.ended.insert(tgid, Ended { comm, here, looked_ns, found, sq_threads });
        }
    }

    fn worker_has_ended(&mut self, worker: &Helper) {
        self.ended_workers_ns = self.ended_workers_ns.zip(worker.on_cpu_ns.grown()).map(|(sum, ns)| sum + ns);
    }

    /// Looks, if it is time to.
    pub fn sample(&mut self) {
        if Instant::now() >= self.next {
            self.look(false);
        }
    }

    /// Looks at all of them; a `thorough` look, at the end, at every ring too.
    pub fn look(&mut self, thorough: bool) {
        let began = Instant::now();
        let (mut workers, mut children) = (0, vec![]);
        for tgid in self.tracked.keys().copied().collect::<Vec<_>>() {
            let seen = self.look_at(tgid, false, thorough);
            workers += seen.workers;
            children.extend(seen.children);
        }
        self.most_workers = self.most_workers.max(Some(workers));
        self.track_children(&children);
        let now = Instant::now();
        self.next = now + PERIOD.max((now - began) * REST);
    }

    fn look_at(&mut self, tgid: u32, found: bool, thorough: bool) -> Look {
        let Some(tracked) = self.tracked.get_mut(&tgid) else { return Look::default() };
        let (start, mut ended_workers) = (tracked.start_ticks, vec![]);
        let looked_ns = now().monotonic_ns;
        let number = tracked.number;
        let Some(stat) = Stat::of(number).filter(|s| s.start_ticks == start) else {
            self.has_ended(tgid);
            return Look::default();
        };
        tracked.user_ticks.take(Some(stat.user_ticks));
        tracked.system_ticks.take(Some(stat.system_ticks));
        (tracked.comm, tracked.looked_ns) = (stat.comm, looked_ns);
        let threads = procfs::threads(number);
        // One whose number is not known yet is met by the next look.
        let there: HashMap<u32, u32> =
            threads.iter().filter_map(|tid| Some((self.numbers.of_proc(*tid)?, *tid))).collect();
        let gone: Vec<(u32, Option<Helper>)> = tracked.threads.extract_if(|tid, _| !there.contains_key(tid)).collect();
        let mut workers = 0;
        for (kernels, tid) in there {
            let helper = tracked.threads.entry(kernels).or_insert_with(|| Helper::of(number, tid, found));
            if let Some(helper) = helper {
                helper.look(number, tid);
                workers += u64::from(helper.kind == Kind::Worker);
            }
        }
        for (tid, helper) in gone.into_iter().filter_map(|(tid, helper)| Some((tid, helper?))) {
            match helper.kind {
                // A ring's thread is asked for at the end.
                Kind::SubmissionQueue => tracked.ended_sq_threads.push((tid, helper)),
                Kind::Worker => ended_workers.push(helper),
            }
        }
        // A program may make rings with such threads by the hundred thousand.
        let many = tracked.ended_sq_threads.len().saturating_sub(ENDED);
        tracked.ended_sq_threads.drain(..many);
        ended_workers.iter().for_each(|worker| self.worker_has_ended(worker));
        self.rings.sample(tgid, number, found, thorough);
        let children = if self.with_children { procfs::children(number, &threads) } else { vec![] };
        let children = children.into_iter().filter_map(|child| self.numbers.of_proc(child)).collect();
        Look { workers, children }
    }

    /// The watched processes that were tracked: number and name.
    pub fn names(&self) -> impl Iterator<Item = (u32, &str)> {
        let ended = self.ended.iter().filter(|(tgid, _)| !self.tracked.contains_key(tgid));
        let ended = ended.map(|(tgid, e)| (*tgid, e.comm.as_str()));
        self.tracked.iter().map(|(tgid, t)| (*tgid, t.comm.as_str())).chain(ended)
    }

    /// The number that it has in this PID namespace, where that is not the kernel's.
    pub fn here(&self, tgid: u32) -> Option<u32> {
        let tracked =
            self.tracked.get(&tgid).map(|t| t.here).or_else(|| self.ended.get(&tgid).map(|e| e.here)).flatten();
        tracked.or_else(|| self.numbers.here(tgid).filter(|_| self.numbers.differ()))
    }

    /// Whether /proc has told its name at that moment (CLOCK_MONOTONIC) or later.
    pub fn looked_at_since(&self, tgid: u32, ns: u64) -> bool {
        let looked_ns = self.tracked.get(&tgid).map(|t| t.looked_ns);
        looked_ns.or_else(|| self.ended.get(&tgid).map(|e| e.looked_ns)).is_some_and(|looked| looked >= ns)
    }

    /// CPU time in the span. `ended`: a command that was waited for; the kernel's account of it has all its children that
    /// were waited for, those included that no look has met.
    pub fn cpu(&self, ended: Option<CpuTime>) -> Option<CpuTime> {
        let mut sum = ended;
        let gone = [self.ended_ticks.filter(|_| ended.is_none()), self.outlived_ticks];
        for (user, system) in gone.into_iter().flatten() {
            let sum = sum.get_or_insert_default();
            sum.user_ns += procfs::ticks_to_ns(user);
            sum.system_ns += procfs::ticks_to_ns(system);
        }
        for t in self.tracked.values() {
            let (Some(user), Some(system)) = (t.user_ticks.grown(), t.system_ticks.grown()) else { continue };
            let sum = sum.get_or_insert_default();
            sum.user_ns += procfs::ticks_to_ns(user);
            sum.system_ns += procfs::ticks_to_ns(system);
        }
        sum
    }

    pub fn sq_thread(&self, tgid: u32, tid: u32) -> Option<SqThread> {
        let of = |all: &[(u32, Helper)]| all.iter().rev().find(|(other, _)| *other == tid).map(|(_, helper)| *helper);
        let helper = match self.tracked.get(&tgid) {
            Some(t) => t.threads.get(&tid).copied().flatten().or_else(|| of(&t.ended_sq_threads))?,
            None => of(&self.ended.get(&tgid)?.sq_threads)?,
        };
        let (looked_at, cpu_ns) = ((helper.until - helper.since).as_nanos() as u64, helper.on_cpu_ns.grown());
        (helper.kind == Kind::SubmissionQueue).then(|| SqThread {
            tid,
            // A thread made meanwhile has run before the first look at it.
            elapsed_ns: cpu_ns.map_or(looked_at, |cpu| cpu.max(looked_at)),
            cpu_ns,
            sleeps: helper.voluntary_switches.grown(),
        })
    }

    /// Most io-wq workers in one look; `None`: there was no look.
    pub fn most_workers(&self) -> Option<u64> {
        self.most_workers
    }

    /// CPU time of all io-wq workers that were met; `None`: /proc did not say for one.
    pub fn workers_cpu_ns(&self) -> Option<u64> {
        let helpers = self.tracked.values().flat_map(|t| t.threads.values().flatten());
        let living: Option<u64> = helpers.filter(|h| h.kind == Kind::Worker).map(|h| h.on_cpu_ns.grown()).sum();
        living.zip(self.ended_workers_ns).map(|(living, ended)| living + ended)
    }
}

#[derive(Debug, Default)]
struct Look {
    workers: u64,
    children: Vec<u32>,
}

impl Helper {
    /// `None`: the thread is one of the program's own.
    fn of(tgid: u32, tid: u32, found: bool) -> Option<Self> {
        let kind = kind(&procfs::comm(tgid, tid)?)?;
        let now = Instant::now();
        let first = |value| Span { first: if found { value } else { Some(0) }, last: None };
        Some(Helper {
            kind,
            on_cpu_ns: first(procfs::on_cpu_ns(tgid, tid)),
            voluntary_switches: first(Status::of(tid).and_then(|s| s.voluntary_switches)),
            since: now,
            until: now,
        })
    }

    fn look(&mut self, tgid: u32, tid: u32) {
        self.on_cpu_ns.take(procfs::on_cpu_ns(tgid, tid));
        if self.kind == Kind::SubmissionQueue {
            self.voluntary_switches.take(Status::of(tid).and_then(|s| s.voluntary_switches));
        }
        self.until = Instant::now();
    }
}

/// All processes below `tgid` that are there now, nearest first, by /proc's numbers.
pub fn descendants(tgid: u32) -> Vec<u32> {
    let mut found = vec![];
    let mut open = vec![tgid];
    while let Some(parent) = open.pop() {
        for child in procfs::children(parent, &procfs::threads(parent)) {
            // Numbers are reused while this looks: nobody is met twice.
            if child != tgid && !found.contains(&child) {
                found.push(child);
                open.push(child);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helper_threads_by_name() {
        assert_eq!(kind("iou-sqp-5164"), Some(Kind::SubmissionQueue));
        assert_eq!(kind("iou-wrk-5194"), Some(Kind::Worker));
        assert_eq!(kind("load-0"), None);
    }

    #[test]
    fn a_counter_grows_from_where_it_was_found() {
        let mut span = Span { first: Some(5), last: None };
        assert_eq!(span.grown(), None);
        span.take(Some(12));
        span.take(None);
        assert_eq!(span.grown(), Some(7));
        assert_eq!(Span { first: None, last: Some(3) }.grown(), None);
    }

    #[test]
    fn a_child_is_tracked_and_its_time_counts() {
        let mut processes = Processes::new(true, Rc::new(Numbers::SAME));
        assert!(processes.was_there(std::process::id()));
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 600 & wait";
        let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        processes.track(child.id(), false);
        assert_eq!(processes.cpu(None).map(|_| ()), Some(()));
        let sleep = loop {
            processes.look(true);
            let sleeps = |p: &Processes| p.names().find(|(_, name)| *name == "sleep").map(|(tgid, _)| tgid);
            if let Some(tgid) = sleeps(&processes) {
                break tgid;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(descendants(child.id()), [sleep]);
        let cpu = processes.cpu(None).unwrap();
        assert!(cpu.user_ns + cpu.system_ns > 0, "{cpu:?}");
        assert!(!processes.was_there(sleep) && !processes.was_there(child.id()));
        assert_eq!((processes.most_workers(), processes.workers_cpu_ns()), (Some(0), Some(0)));
        // SAFETY: a child of our child, which has not been waited for.
        unsafe { libc::kill(sleep as libc::pid_t, libc::SIGKILL) };
        child.wait().unwrap();
        processes.look(true);
        // What was waited for is told by the kernel; nothing is counted twice.
        let told = CpuTime { user_ns: 7, system_ns: 8 };
        assert_eq!(processes.cpu(Some(told)), Some(told));
        let after = processes.cpu(None).unwrap();
        assert!(after.user_ns >= cpu.user_ns && after.system_ns >= cpu.system_ns, "it counts after its end: {after:?}");
        assert!(processes.tracked.is_empty() && processes.names().any(|(_, name)| name == "sleep"));
        // Its number may be another one's.
        processes.track(std::process::id(), true);
        assert_eq!(processes.tracked.len(), 1);
    }
}
