//! Samples /proc for the traced processes: CPU time, children, io_uring kernel threads, rings. Threads that live
//! between two samples are missed, except SQPOLL threads, whose exit the probes report.

mod counter;
mod cpu_time;
mod helper;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::namespace::Numbers;
use super::quota::Quotas;
use super::recorder::now;
use super::rings::SeenRings;
pub use cpu_time::CpuTime;
use cpu_time::Used;
pub use helper::SqThread;
use helper::{Helper, Kind, Thread};
use iotrail_host::clock;
use iotrail_host::procfs::{self, Stat};
use iotrail_probe::rings::EndedSqThread;

/// Minimum interval between two samples.
const PERIOD: Duration = Duration::from_millis(100);

/// Pause after a sample, as a multiple of its duration: sampling uses at most 1 % of a CPU.
const REST: u32 = 100;

#[derive(Debug)]
struct Tracked {
    /// PID in /proc.
    number: u32,
    /// PID in iotrail's namespace, if it differs from the PID in the initial one.
    here: Option<u32>,
    comm: String,
    /// Time when `comm` was read, CLOCK_MONOTONIC.
    looked_ns: u64,
    found: bool,
    start_ticks: u64,
    used: Used,
    /// All threads found so far, by TID in the initial namespace.
    threads: HashMap<u32, Thread>,
    ended_sq_threads: Vec<(u32, Helper)>,
}

/// Kept data of an exited process.
#[derive(Debug, Clone, Default)]
struct Ended {
    comm: String,
    here: Option<u32>,
    looked_ns: u64,
    found: bool,
    /// The process's SQPOLL threads.
    sq_threads: Vec<(u32, Helper)>,
}

/// Maximum number of kept exited processes.
const ENDED: usize = 4096;

/// The traced processes since the start of the trace, by PID in the initial namespace.
#[derive(Debug)]
pub struct Processes {
    there_before: HashSet<u32>,
    with_children: bool,
    tracked: BTreeMap<u32, Tracked>,
    ended: BTreeMap<u32, Ended>,
    /// CPU time of exited processes at their last sample; `None` if there is none.
    ended_used: Option<CpuTime>,
    /// The probes report processes' CPU time at exit, which is exact for processes traced from their start.
    accounted: bool,
    /// CPU time that exited io-wq workers used before the trace; `None` if unknown for one of them.
    ended_workers_before_ns: Option<u64>,
    /// The last SQPOLL threads whose exit the probes reported: by thread, and in order of exit.
    sq_ended: (HashMap<u32, EndedSqThread>, VecDeque<u32>),
    /// Start of the trace, CLOCK_MONOTONIC.
    began_ns: u64,
    pub rings: SeenRings,
    /// CPU quotas, if requested: each sample then reads one more file per process.
    pub quotas: Option<Quotas>,
    most_workers: Option<u64>,
    numbers: Rc<Numbers>,
    next: Instant,
}

impl Processes {
    /// `with_children`: also track the children of tracked processes.
    pub fn new(with_children: bool, numbers: Rc<Numbers>) -> Self {
        Self {
            there_before: numbers.processes().into_iter().collect(),
            with_children,
            tracked: BTreeMap::new(),
            ended: BTreeMap::new(),
            ended_used: None,
            accounted: with_children,
            ended_workers_before_ns: Some(0),
            sq_ended: Default::default(),
            began_ns: now().monotonic_ns,
            rings: SeenRings::default(),
            quotas: None,
            most_workers: None,
            numbers,
            next: Instant::now(),
        }
    }

    /// Tracks a process. `found`: its activity so far is not counted.
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
        let here = if self.numbers.differ() { self.numbers.here(tgid) } else { None };
        self.tracked.insert(
            tgid,
            Tracked {
                number,
                here,
                found,
                start_ticks: stat.start_ticks,
                used: Used::first(self.ran_ns(tgid, here), &stat, found),
                comm: stat.comm,
                looked_ns,
                threads: HashMap::new(),
                ended_sq_threads: vec![],
            },
        );
        let children = self.look_at(tgid, found, true).children;
        self.track_children(&children);
    }

    /// Excludes the CPU time so far, which a command used before its exec.
    pub fn count_cpu_from_now(&mut self, tgid: u32) {
        if let Some(tracked) = self.tracked.get_mut(&tgid) {
            tracked.used.count_from_now();
        }
    }

    /// CPU time of a process including its exited threads; `None` if it has no PID here.
    fn ran_ns(&self, tgid: u32, here: Option<u32>) -> Option<u64> {
        clock::of_process_ns(if self.numbers.differ() { here? } else { tgid })
    }

    /// Tracks a process that issued a traced request, whatever its parent is.
    pub fn noticed(&mut self, tgid: u32) {
        let found = self.was_there(tgid);
        self.track(tgid, found);
    }

    fn track_children(&mut self, children: &[u32]) {
        for child in children.iter().filter(|_| self.with_children).copied().collect::<Vec<_>>() {
            // Processes that existed before the trace are traced only on request, and are already tracked.
            if !self.was_there(child) {
                self.track(child, false);
            }
        }
    }

    /// Tracked processes that have not exited.
    pub fn running(&self) -> impl Iterator<Item = u32> {
        self.tracked.keys().copied()
    }

    pub fn tracks(&self, tgid: u32) -> bool {
        self.tracked.contains_key(&tgid)
    }

    /// Whether the process was alive when the trace began.
    pub fn was_there(&self, tgid: u32) -> bool {
        let known = self.tracked.get(&tgid).map(|t| t.found).or_else(|| self.ended.get(&tgid).map(|e| e.found));
        known.unwrap_or_else(|| self.there_before.contains(&tgid))
    }

    /// Moves an exited process's data aside: its PID may be reused.
    fn has_ended(&mut self, tgid: u32) {
        let Some(gone) = self.tracked.remove(&tgid) else { return };
        self.there_before.remove(&tgid);
        self.rings.ended(tgid);
        if let Some(used) = gone.used.grown().filter(|_| gone.found || !self.accounted) {
            *self.ended_used.get_or_insert_default() += used;
        }
        let mut sq_threads = gone.ended_sq_threads;
        for (tid, thread) in gone.threads {
            match thread.helper() {
                Some(helper) if helper.kind == Kind::SubmissionQueue => sq_threads.push((tid, *helper)),
                Some(helper) => self.worker_has_ended(helper),
                None => {}
            }
        }
        // The probes count the rest. If a PID is reused, the earlier process's name is lost.
        if self.ended.len() < ENDED || self.ended.contains_key(&tgid) {
            let (comm, here, looked_ns, found) = (gone.comm, gone.here, gone.looked_ns, gone.found);
            self.ended.insert(tgid, Ended { comm, here, looked_ns, found, sq_threads });
        }
    }

    fn worker_has_ended(&mut self, worker: &Helper) {
        self.ended_workers_before_ns =
            self.ended_workers_before_ns.zip(worker.on_cpu_ns.first).map(|(sum, ns)| sum + ns);
    }

    /// Takes a sample if due.
    pub fn sample(&mut self) {
        if Instant::now() >= self.next {
            self.look(false);
        }
    }

    /// Samples all processes. `thorough`, at the end: also reads every ring.
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
        let Some(here) = self.tracked.get(&tgid).map(|t| t.here) else { return Look::default() };
        // Read before stat, which confirms that the PID still belongs to the same process.
        let ran_ns = self.ran_ns(tgid, here);
        let Some(tracked) = self.tracked.get_mut(&tgid) else { return Look::default() };
        let (start, mut ended_workers) = (tracked.start_ticks, vec![]);
        let looked_ns = now().monotonic_ns;
        let number = tracked.number;
        let Some(stat) = Stat::of(number).filter(|s| s.start_ticks == start) else {
            self.has_ended(tgid);
            return Look::default();
        };
        tracked.used.take(ran_ns, &stat);
        (tracked.comm, tracked.looked_ns) = (stat.comm, looked_ns);
        let threads = procfs::threads(number);
        // A process whose PID is not known yet is found by the next sample.
        let there: HashMap<u32, u32> =
            threads.iter().filter_map(|tid| Some((self.numbers.of_proc(*tid)?, *tid))).collect();
        let gone: Vec<(u32, Thread)> = tracked.threads.extract_if(|tid, _| !there.contains_key(tid)).collect();
        let mut workers = 0;
        for (kernels, tid) in there {
            let thread = tracked.threads.entry(kernels).or_insert(Thread::Nameless(0));
            thread.recognize(number, tid, found);
            if let Thread::Helper(helper) = thread {
                helper.look(number, tid);
                workers += u64::from(helper.kind == Kind::Worker);
            }
        }
        for (tid, helper) in gone.into_iter().filter_map(|(tid, thread)| Some((tid, *thread.helper()?))) {
            match helper.kind {
                // A ring's thread is looked up at the end.
                Kind::SubmissionQueue => tracked.ended_sq_threads.push((tid, helper)),
                Kind::Worker => ended_workers.push(helper),
            }
        }
        // A program may create hundreds of thousands of rings with SQPOLL threads.
        let many = tracked.ended_sq_threads.len().saturating_sub(ENDED);
        tracked.ended_sq_threads.drain(..many);
        ended_workers.iter().for_each(|worker| self.worker_has_ended(worker));
        self.rings.sample(tgid, number, found, thorough);
        if let Some(quotas) = &mut self.quotas {
            quotas.meet(number);
        }
        let children = if self.with_children { procfs::children(number, &threads) } else { vec![] };
        let children = children.into_iter().filter_map(|child| self.numbers.of_proc(child)).collect();
        Look { workers, children }
    }

    /// PID and name of the tracked processes.
    pub fn names(&self) -> impl Iterator<Item = (u32, &str)> {
        let ended = self.ended.iter().filter(|(tgid, _)| !self.tracked.contains_key(tgid));
        let ended = ended.map(|(tgid, e)| (*tgid, e.comm.as_str()));
        self.tracked.iter().map(|(tgid, t)| (*tgid, t.comm.as_str())).chain(ended)
    }

    /// PID in iotrail's namespace, if it differs from the PID in the initial one.
    pub fn here(&self, tgid: u32) -> Option<u32> {
        let tracked =
            self.tracked.get(&tgid).map(|t| t.here).or_else(|| self.ended.get(&tgid).map(|e| e.here)).flatten();
        tracked.or_else(|| self.numbers.here(tgid).filter(|_| self.numbers.differ()))
    }

    /// Whether the name was read from /proc at or after `ns` (CLOCK_MONOTONIC).
    pub fn looked_at_since(&self, tgid: u32, ns: u64) -> bool {
        let looked_ns = self.tracked.get(&tgid).map(|t| t.looked_ns);
        looked_ns.or_else(|| self.ended.get(&tgid).map(|e| e.looked_ns)).is_some_and(|looked| looked >= ns)
    }

    /// CPU time in the trace. `ended`: the probes' total for exited processes traced from their start, including
    /// processes that no sample found.
    pub fn cpu(&self, ended: Option<CpuTime>) -> Option<CpuTime> {
        let mut sum = ended.filter(|_| self.accounted);
        for used in self.ended_used.into_iter().chain(self.tracked.values().filter_map(|t| t.used.grown())) {
            *sum.get_or_insert_default() += used;
        }
        sum
    }

    /// Takes SQPOLL threads whose exit the probes reported.
    pub fn sq_threads_ended(&mut self, ended: Vec<EndedSqThread>) {
        let (by_thread, order) = &mut self.sq_ended;
        for thread in ended {
            order.push_back(thread.tid);
            by_thread.insert(thread.tid, thread);
            if order.len() > ENDED {
                let oldest = order.pop_front().filter(|tid| !order.contains(tid));
                oldest.map(|tid| by_thread.remove(&tid));
            }
        }
    }

    /// Data from the samples, or from the probes if the thread has exited.
    pub fn sq_thread(&self, tgid: u32, tid: u32) -> Option<SqThread> {
        let of = |all: &[(u32, Helper)]| all.iter().rev().find(|(other, _)| *other == tid).map(|(_, helper)| *helper);
        let looked_at = match self.tracked.get(&tgid) {
            Some(t) => t.threads.get(&tid).and_then(Thread::helper).copied().or_else(|| of(&t.ended_sq_threads)),
            None => self.ended.get(&tgid).and_then(|ended| of(&ended.sq_threads)),
        };
        let looked_at = looked_at.filter(|helper| helper.kind == Kind::SubmissionQueue);
        // A later thread may have the same TID.
        let ended = self.sq_ended.0.get(&tid).filter(|e| e.tgid == tgid);
        let ended = ended.filter(|e| looked_at.is_none_or(|helper| helper.until_ns <= e.ended_ns));
        ended.and_then(|e| self.sq_thread_to_its_end(e, looked_at)).or_else(|| Some(looked_at?.so_far(tid)))
    }

    /// `None` if the thread's time before the trace is unknown.
    fn sq_thread_to_its_end(&self, ended: &EndedSqThread, looked_at: Option<Helper>) -> Option<SqThread> {
        let (since_ns, cpu_ns, sleeps) = if ended.started_ns >= self.began_ns {
            (ended.started_ns, Some(ended.ran_ns), Some(ended.sleeps))
        } else {
            let helper = looked_at.filter(|helper| helper.until_ns >= ended.started_ns)?;
            let (cpu, switches) = (helper.on_cpu_ns, helper.voluntary_switches);
            (helper.since_ns, cpu.grown_to(ended.ran_ns), switches.grown_to(ended.sleeps))
        };
        let elapsed_ns = ended.ended_ns.saturating_sub(since_ns);
        Some(SqThread { tid: ended.tid, elapsed_ns, cpu_ns, sleeps })
    }

    /// Maximum number of io-wq workers in a sample; `None` without any sample.
    pub fn most_workers(&self) -> Option<u64> {
        self.most_workers
    }

    /// CPU time of all io-wq workers in the trace; `None` if unknown for one of them. `ended`: the probes' total for
    /// exited workers, each since its start.
    pub fn workers_cpu_ns(&self, ended: u64) -> Option<u64> {
        let helpers = self.tracked.values().flat_map(|t| t.threads.values().filter_map(Thread::helper));
        let living: Option<u64> = helpers.filter(|h| h.kind == Kind::Worker).map(|h| h.on_cpu_ns.grown()).sum();
        living.zip(self.ended_workers_before_ns).map(|(living, before)| living + ended.saturating_sub(before))
    }
}

#[derive(Debug, Default)]
struct Look {
    workers: u64,
    children: Vec<u32>,
}

#[cfg(test)]
mod tests;
