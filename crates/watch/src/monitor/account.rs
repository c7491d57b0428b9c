//! Time and queues per program, from the kernel's counts per thread and ring. Blocked time is split by samples. Pure.

use std::collections::{BTreeMap, BTreeSet};

use iotrail_path::delivery::IO_URING_ENTER;
use iotrail_probe::snapshot::{Snapshot, Thread};
use iotrail_schema::account::Reason;
use iotrail_schema::stall::{StalledProcess, Trigger};

use super::triggers::Sleeps;

/// Maximum number of programs with their own metrics; the others are summed.
pub const PROGRAMS: usize = 64;

/// Maximum number of listed reasons per program.
const REASONS: usize = 24;

/// Name and cgroup, so that a restarted program continues its series.
pub type Program = (String, String);

const OTHERS: &str = "others";

/// Totals that grow for as long as the monitor runs.
#[derive(Debug, Default)]
pub struct Sums {
    pub running_ns: u64,
    pub runnable_ns: u64,
    /// `None`: reason unknown.
    pub blocked_ns: BTreeMap<Option<Reason>, u64>,
    /// Blocked time during which the CPU counted as iowait.
    pub iowait_ns: u64,
    /// The part of `iowait_ns` spent waiting for completions in io_uring_enter.
    pub enter_iowait_ns: u64,
    /// CPU time of SQPOLL threads and io-wq workers.
    pub kernel_ns: u64,
    pub quota_ns: u64,
    pub taken: u64,
    pub posted: u64,
    pub stalls: BTreeMap<Trigger, u64>,
    pub now: Queues,
}

/// Queue lengths in the last sample.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Queues {
    pub threads: u64,
    pub rings: u64,
    pub unreaped: u64,
    pub unsubmitted: u64,
    pub overflowed: u64,
    /// From the last deep reading.
    pub in_flight: Option<u64>,
}

#[derive(Debug, Default)]
struct Seen {
    started_ns: u64,
    at_ns: u64,
    ran_ns: u64,
    runnable_ns: u64,
    asleep: bool,
    sleeps: u64,
    /// Time that no counter explains yet; below 0: charged as blocked before a counter explained it.
    rest_ns: i64,
    reason: Option<Reason>,
    is_in_iowait: bool,
    is_in_enter: bool,
}

/// A process at the last sample.
#[derive(Debug, Default)]
struct Process {
    program: Program,
    threads: BTreeMap<u32, Seen>,
    rings: BTreeMap<u64, (u32, u32)>,
    quota_ns: Option<u64>,
    /// CPU time of its exited threads, and of all threads since its creation; `None` before its first sample.
    exited_ns: u64,
    ran_ns: Option<u64>,
    in_flight: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Accounts {
    programs: BTreeMap<Program, Sums>,
    processes: BTreeMap<u32, Process>,
}

impl Accounts {
    /// Adds a sample of these processes.
    pub fn take(&mut self, sample: &Snapshot, sleeps: &Sleeps, known: &BTreeMap<u32, StalledProcess>) {
        let tgids: BTreeSet<u32> = sample.threads.iter().map(|t| t.tgid).collect();
        self.processes.retain(|tgid, _| tgids.contains(tgid));
        self.programs.values_mut().for_each(|sums| sums.now = Queues::default());
        for tgid in &tgids {
            let Some(process) = known.get(tgid) else { continue };
            let program = self.program(process);
            let sums = self.programs.entry(program.clone()).or_default();
            let kept = self.processes.entry(*tgid).or_default();
            kept.program = program;
            let read = sample.processes.iter().find(|p| p.tgid == *tgid);
            kept.exited_ns = read.map_or(kept.exited_ns, |p| p.exited_ns);
            let (mut threads, mut ran_ns, kernel_ns) = (BTreeMap::new(), kept.exited_ns, sums.kernel_ns);
            for t in sample.threads.iter().filter(|t| t.tgid == *tgid) {
                sums.now.threads += u64::from(!t.is_kernels);
                ran_ns += t.ran_ns;
                let seen = kept.threads.remove(&t.tid).filter(|seen| seen.started_ns == t.started_ns);
                // A thread that the last sample lacks was created since, and its whole life counts.
                let new = || Seen { started_ns: t.started_ns, at_ns: t.started_ns, ..Seen::default() };
                let seen = seen.or_else(|| kept.ran_ns.map(|_| new()));
                threads.insert(t.tid, sums.charge(t, seen.as_ref(), sample.at_ns, sleeps));
            }
            kept.threads = threads;
            // Includes threads that exited since the last sample. A thread that exits during a sample may be missing until the next.
            let before = kept.ran_ns.unwrap_or(ran_ns);
            sums.running_ns += ran_ns.saturating_sub(before).saturating_sub(sums.kernel_ns - kernel_ns);
            kept.ran_ns = Some(ran_ns.max(before));
            let mut rings = BTreeMap::new();
            let mut in_flight = None;
            for r in sample.rings.iter().filter(|r| r.tgid == *tgid) {
                // Earlier progress may predate the monitor.
                let (taken, posted) = kept.rings.get(&r.address).copied().unwrap_or((r.taken, r.posted));
                sums.taken += u64::from(r.taken.wrapping_sub(taken));
                sums.posted += u64::from(r.posted.wrapping_sub(posted));
                rings.insert(r.address, (r.taken, r.posted));
                sums.now.rings += 1;
                sums.now.unreaped += u64::from(r.unreaped);
                sums.now.unsubmitted += u64::from(r.unsubmitted);
                sums.now.overflowed += u64::from(r.has_overflowed);
                if let Some(n) = r.depth.as_ref().and_then(|d| d.in_flight) {
                    in_flight = Some(in_flight.unwrap_or(0) + u64::from(n));
                }
            }
            kept.rings = rings;
            kept.in_flight = in_flight.or(kept.in_flight);
            if let Some(n) = kept.in_flight {
                sums.now.in_flight = Some(sums.now.in_flight.unwrap_or(0) + n);
            }
            if let Some(p) = read {
                sums.quota_ns += p.quota_ns.saturating_sub(kept.quota_ns.unwrap_or(p.quota_ns));
                kept.quota_ns = Some(p.quota_ns);
            }
        }
    }

    fn program(&self, process: &StalledProcess) -> Program {
        let program = (process.comm.clone(), process.cgroup.clone().unwrap_or_default());
        match self.programs.contains_key(&program) || self.programs.len() < PROGRAMS {
            true => program,
            false => (OTHERS.into(), String::new()),
        }
    }

    pub fn stalled(&mut self, process: &StalledProcess, trigger: Trigger) {
        let program = self.program(process);
        *self.programs.entry(program).or_default().stalls.entry(trigger).or_default() += 1;
    }

    pub fn programs(&self) -> &BTreeMap<Program, Sums> {
        &self.programs
    }
}

impl Sums {
    /// Attributes a thread's time since its last sample, except its running time.
    fn charge(&mut self, t: &Thread, seen: Option<&Seen>, at_ns: u64, sleeps: &Sleeps) -> Seen {
        let reason = sleeps.get(&t.tid).filter(|_| t.asleep).and_then(|s| s.reason.clone());
        let mut rest_ns = 0;
        if let Some(seen) = seen {
            let ran = t.ran_ns.saturating_sub(seen.ran_ns);
            if t.is_kernels {
                self.kernel_ns += ran;
            } else {
                let runnable = t.runnable_ns.saturating_sub(seen.runnable_ns);
                self.runnable_ns += runnable;
                // The kernel adds a wait for the CPU to its counter when the wait ends, and running time at the tick. Until
                // then the rest of a thread that did not sleep is not blocked time.
                rest_ns = seen.rest_ns + at_ns.saturating_sub(seen.at_ns) as i64 - (ran + runnable) as i64;
                let has_slept = t.asleep || seen.asleep || t.sleeps != seen.sleeps;
                let blocked = if has_slept { rest_ns.max(0) as u64 } else { 0 };
                rest_ns -= blocked as i64;
                let of = reason.clone().or_else(|| seen.reason.clone());
                let is_listed = self.blocked_ns.contains_key(&of) || self.blocked_ns.len() < REASONS;
                *self.blocked_ns.entry(if is_listed { of } else { None }).or_default() += blocked;
                if t.in_iowait || (!t.asleep && seen.is_in_iowait) {
                    self.iowait_ns += blocked;
                    let is_in_enter = if t.in_iowait { waits_in_enter(t, reason.as_ref()) } else { seen.is_in_enter };
                    self.enter_iowait_ns += if is_in_enter { blocked } else { 0 };
                }
            }
        }
        let (ran_ns, runnable_ns) = (t.ran_ns, t.runnable_ns);
        let is_in_enter = waits_in_enter(t, reason.as_ref());
        let (started_ns, asleep, sleeps, is_in_iowait) = (t.started_ns, t.asleep, t.sleeps, t.in_iowait);
        Seen { started_ns, at_ns, ran_ns, runnable_ns, asleep, sleeps, rest_ns, reason, is_in_iowait, is_in_enter }
    }
}

/// Whether the thread waits for completions, as far as the reason is known: a submission may sleep in the same call.
fn waits_in_enter(t: &Thread, reason: Option<&Reason>) -> bool {
    t.call == Some(IO_URING_ENTER) && reason.is_none_or(|reason| *reason == Reason::UringCompletions)
}

#[cfg(test)]
mod tests {
    use super::super::triggers::Sleep;
    use super::*;
    use iotrail_probe::snapshot::{Process, Ring};

    const MS: u64 = 1_000_000;

    fn thread(tid: u32, ran_ms: u64, asleep: bool) -> Thread {
        Thread { tid, tgid: 7, ran_ns: ran_ms * MS, asleep, ..Thread::default() }
    }

    #[test]
    fn the_time_of_a_thread_is_attributed_completely() {
        let known = BTreeMap::from([(7, StalledProcess { tgid: 7, comm: "db".into(), cgroup: None })]);
        let sleeps = Sleeps::from([(8, Sleep { reason: Some(Reason::Writeback), is_sync: false, ..Sleep::default() })]);
        let mut accounts = Accounts::default();
        for i in 0..=10 {
            let runs = Thread { runnable_ns: i * MS, sleeps: i, ..thread(7, i * 2, false) };
            let ring = Ring { address: 1, tgid: 7, posted: (i as u32).wrapping_sub(3), unreaped: 2, ..Ring::default() };
            let threads = vec![runs, thread(8, 0, true)];
            let sample = Snapshot { at_ns: i * 10 * MS, threads, rings: vec![ring], ..Snapshot::default() };
            accounts.take(&sample, &sleeps, &known);
        }
        let sums = &accounts.programs()[&("db".to_owned(), String::new())];
        assert_eq!((sums.running_ns, sums.runnable_ns), (20 * MS, 10 * MS));
        assert_eq!(sums.blocked_ns, BTreeMap::from([(None, 70 * MS), (Some(Reason::Writeback), 100 * MS)]));
        assert_eq!((sums.posted, sums.now.unreaped, sums.now.rings, sums.now.in_flight), (10, 2, 1, None));
    }

    #[test]
    fn the_life_of_a_thread_that_comes_and_goes_is_attributed() {
        let known = BTreeMap::from([(7, StalledProcess { tgid: 7, comm: "db".into(), cgroup: None })]);
        let mut accounts = Accounts::default();
        let mut take = |at_ms: u64, exited_ms: u64, threads: Vec<Thread>| {
            let read = Process { tgid: 7, exited_ns: exited_ms * MS, ..Process::default() };
            let sample = Snapshot { at_ns: at_ms * MS, threads, processes: vec![read], ..Snapshot::default() };
            accounts.take(&sample, &Sleeps::default(), &known);
            let sums = &accounts.programs()[&("db".to_owned(), String::new())];
            [sums.running_ns, sums.runnable_ns, sums.blocked_ns.values().sum(), sums.kernel_ns].map(|ns| ns / MS)
        };
        let new = |tid, started_ms: u64, ran_ms, runnable_ms: u64| Thread {
            started_ns: started_ms * MS,
            runnable_ns: runnable_ms * MS,
            ..thread(tid, ran_ms, true)
        };
        assert_eq!(take(100, 500, vec![thread(7, 90, true)]), [0, 0, 0, 0], "its time before the monitor");
        // Created at 120: ran for 10 ms, waited for 2 ms, and sleeps.
        assert_eq!(take(150, 500, vec![thread(7, 90, true), new(8, 120, 10, 2)]), [10, 2, 50 + 18, 0]);
        // It ran for 5 ms more and exited. A thread that no sample finds ran for 3 ms. Another one has the same ID.
        assert_eq!(take(200, 518, vec![thread(7, 90, true), new(8, 190, 4, 0)]), [10 + 5 + 3 + 4, 2, 68 + 50 + 6, 0]);
        // It exits while the sample is read, after the process's total.
        assert_eq!(take(210, 518, vec![thread(7, 90, true)]), [22, 2, 134, 0]);
        let worker = Thread { is_kernels: true, ..new(9, 212, 6, 0) };
        assert_eq!(take(220, 523, vec![thread(7, 90, true), worker]), [23, 2, 144, 6]);
    }

    #[test]
    fn a_thread_that_never_sleeps_is_never_blocked() {
        let known = BTreeMap::from([(7, StalledProcess { tgid: 7, comm: "db".into(), cgroup: None })]);
        let mut accounts = Accounts::default();
        // Runs for half of the time. Each third wait for the CPU is added to the counter when it has ended, after the sample.
        for i in 0..=10u64 {
            let waited = i * 5 - if i % 3 == 0 { 5.min(i * 5) } else { 0 };
            // It sleeps once, for 1 ms of its running time, before the last sample.
            let runs = Thread { runnable_ns: waited * MS, sleeps: i / 10, ..thread(7, i * 5 - i / 10, false) };
            let sample = Snapshot { at_ns: i * 10 * MS, threads: vec![runs], ..Snapshot::default() };
            accounts.take(&sample, &Sleeps::default(), &known);
            let sums = &accounts.programs()[&("db".to_owned(), String::new())];
            assert_eq!(sums.blocked_ns.values().sum::<u64>(), i / 10 * MS, "sample {i}");
        }
    }

    #[test]
    fn iowait_is_the_blocked_time_before_a_sample_in_iowait() {
        let known = BTreeMap::from([(7, StalledProcess { tgid: 7, comm: "db".into(), cgroup: None })]);
        let reason = |reason| Sleep { reason: Some(reason), is_sync: false, ..Sleep::default() };
        let sleeps = Sleeps::from([(7, reason(Reason::UringCompletions)), (8, reason(Reason::RequestTag))]);
        let mut accounts = Accounts::default();
        for i in 0..=10 {
            let in_enter = |tid, in_iowait| Thread { in_iowait, call: Some(IO_URING_ENTER), ..thread(tid, 0, true) };
            // Half of 7's samples are waits with IORING_ENTER_NO_IOWAIT; 8 submits; 9 reads.
            let threads = vec![
                in_enter(7, i % 2 == 0),
                in_enter(8, true),
                Thread { in_iowait: true, call: Some(0), ..thread(9, 0, true) },
            ];
            let sample = Snapshot { at_ns: i * 10 * MS, threads, ..Snapshot::default() };
            accounts.take(&sample, &sleeps, &known);
        }
        let sums = &accounts.programs()[&("db".to_owned(), String::new())];
        assert_eq!((sums.iowait_ns, sums.enter_iowait_ns), (250 * MS, 50 * MS));
    }

    #[test]
    fn the_number_of_programs_is_bounded() {
        let mut accounts = Accounts::default();
        for tgid in 0..1000u32 {
            let process = StalledProcess { tgid, comm: format!("p{tgid}"), cgroup: None };
            accounts.stalled(&process, Trigger::Overflow);
        }
        assert_eq!(accounts.programs().len(), PROGRAMS + 1);
        let others = &accounts.programs()[&(OTHERS.to_owned(), String::new())];
        assert_eq!(others.stalls[&Trigger::Overflow], 1000 - PROGRAMS as u64);
    }
}
