//! Time for which descendants of this process waited for a CPU while other programs used it. Sampled from /proc,
//! because a probe on every context switch would slow the descendants down.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::procfs::{self, Stat};
use super::{cpu, files};

/// Shorter runs cannot have waited long enough to matter.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(100);
/// A thread that exits between two samples is incomplete by at most 1 in this many parts of the run.
const PART: u32 = 8;
/// Samples use at most 1 in this many parts of a CPU, whatever the number of threads.
const COST: u32 = 100;

/// CPU waits of the descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// Time runnable without a CPU, summed over threads, except after a thread's last sample.
    pub runnable_ns: u64,
    /// The part of `runnable_ns` in which another program used the CPU: not this process, a descendant, or the kernel.
    pub others_ns: u64,
}

/// A measurement from [`begin`] to [`Contention::end`].
#[derive(Debug)]
pub struct Contention {
    before: Busy,
    sampler: JoinHandle<Option<Sums>>,
    over: Sender<()>,
}

/// `None` if no thread can be started.
pub fn begin() -> Option<Contention> {
    let (over, is_over) = channel();
    let before = Busy::now(Instant::now());
    let mut sums = Sums::default();
    sums.sample(false);
    let sample = move || {
        let (began, mut cost) = (Instant::now(), Duration::ZERO);
        loop {
            let pause = (began.elapsed() / PART).clamp(FIRST, LONGEST).max(cost * COST);
            let ends = !matches!(is_over.recv_timeout(pause), Err(RecvTimeoutError::Timeout));
            let at = Instant::now();
            sums.sample(true);
            cost = at.elapsed();
            if ends {
                return sums.is_known.then_some(sums);
            }
        }
    };
    let sampler = std::thread::Builder::new().name("contention".into()).spawn(sample).ok()?;
    Some(Contention { before, sampler, over })
}

impl Contention {
    /// `None` if the kernel does not count waits (CONFIG_SCHED_INFO), or no descendant was found.
    pub fn end(self) -> Option<Waits> {
        let after = Busy::now(self.before.at);
        drop(self.over);
        let sums = self.sampler.join().ok()??;
        Some(sums.waits(&self.before, &after))
    }
}

/// Total CPU time at one moment.
#[derive(Debug)]
struct Busy {
    at: Instant,
    per_cpu: BTreeMap<u32, u64>,
    /// CPU time of this process and of descendants that were waited for.
    own_ns: u64,
    kernel_threads_ns: u64,
}

impl Busy {
    fn now(since: Instant) -> Self {
        let all = procfs::processes();
        let threads = all.iter().filter_map(|pid| Stat::of(*pid)).filter(Stat::is_kernel_thread);
        let (n, ticks) = threads.fold((0, 0), |(n, sum), s| (n + 1, sum + s.user_ticks + s.system_ticks));
        let own = Stat::of(std::process::id()).map_or(0, |s| s.user_ticks + s.system_ticks + s.reaped_ticks);
        let stat = files::text(Path::new(files::ROOT), "proc/stat").unwrap_or_default();
        // Kernel threads are not visible in a PID namespace, so only user time certainly belongs to programs.
        let per_cpu = cpu::busy_of_programs(&stat, since.elapsed().as_nanos() as u64, n == 0).unwrap_or_default();
        Busy {
            at: Instant::now(),
            per_cpu,
            own_ns: procfs::ticks_to_ns(own),
            kernel_threads_ns: procfs::ticks_to_ns(ticks),
        }
    }
}

/// Times on one CPU.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct OnCpu {
    ran_ns: u64,
    waited_ns: u64,
}

#[derive(Debug, Default)]
struct Sums {
    /// By TID: start time, and times at the last sample.
    threads: HashMap<u32, (u64, OnCpu)>,
    per_cpu: BTreeMap<u32, OnCpu>,
    is_known: bool,
}

impl Sums {
    /// `counts`: threads found for the first time started after the previous sample.
    fn sample(&mut self, counts: bool) {
        let us = std::process::id();
        for tgid in std::iter::once(us).chain(procfs::descendants(us)) {
            for tid in procfs::threads(tgid) {
                let times = procfs::schedstat(format_args!("{tgid}/task/{tid}"));
                let Some((stat, times)) = Stat::of_thread(tgid, tid).zip(times) else {
                    continue;
                };
                self.is_known |= tgid != us;
                let waited_ns = if tgid == us { 0 } else { times[1] };
                self.add(tid, &stat, OnCpu { ran_ns: times[0], waited_ns }, counts);
            }
        }
    }

    fn add(&mut self, tid: u32, stat: &Stat, now: OnCpu, counts: bool) {
        let before = self.threads.insert(tid, (stat.start_ticks, now));
        let before = match before.filter(|(start, _)| *start == stat.start_ticks) {
            Some((_, before)) => before,
            None if counts => OnCpu::default(),
            None => now,
        };
        let on = self.per_cpu.entry(stat.cpu).or_default();
        on.ran_ns += now.ran_ns.saturating_sub(before.ran_ns);
        on.waited_ns += now.waited_ns.saturating_sub(before.waited_ns);
    }

    fn waits(&self, before: &Busy, after: &Busy) -> Waits {
        let busy = |cpu: &u32| {
            let of = |busy: &Busy| busy.per_cpu.get(cpu).copied();
            // Idle time in ticks may exceed the time of an idle CPU.
            of(after).zip(of(before)).map_or(0, |(after, before)| (after.wrapping_sub(before) as i64).max(0) as u64)
        };
        // Time that other programs used on other CPUs is not waited for.
        let waited = self.per_cpu.iter().map(|(cpu, on)| on.waited_ns.min(busy(cpu).saturating_sub(on.ran_ns))).sum();
        let grown = |of: fn(&Busy) -> u64| of(after).saturating_sub(of(before));
        // Times of descendants that were waited for are complete; samples also cover running ones.
        let sampled: u64 = self.per_cpu.values().map(|on| on.ran_ns).sum();
        let own = sampled.max(grown(|b| b.own_ns));
        let all: u64 = after.per_cpu.keys().map(busy).sum();
        let others = all.saturating_sub(own + grown(|b| b.kernel_threads_ns));
        Waits { runnable_ns: self.per_cpu.values().map(|on| on.waited_ns).sum(), others_ns: others.min(waited) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn busy(per_cpu: &[u64], own: u64, kernel: u64) -> Busy {
        let per_cpu = per_cpu.iter().zip(0..).map(|(ms, cpu)| (cpu, ms * MS)).collect();
        Busy { at: Instant::now(), per_cpu, own_ns: own * MS, kernel_threads_ns: kernel * MS }
    }

    /// Waits for other programs in ms, for threads with these running and waiting times per CPU, and CPUs that were
    /// busy this long.
    fn others(threads: &[(u64, u64)], per_cpu: &[u64], own: u64, kernel: u64) -> u64 {
        let on = |(ran, waited): &(u64, u64)| OnCpu { ran_ns: ran * MS, waited_ns: waited * MS };
        let per = threads.iter().zip(0..).map(|(t, cpu)| (cpu, on(t))).collect();
        let sums = Sums { per_cpu: per, ..Sums::default() };
        let none: Vec<u64> = per_cpu.iter().map(|_| 0).collect();
        sums.waits(&busy(&none, 0, 0), &busy(per_cpu, own, kernel)).others_ns / MS
    }

    #[test]
    fn waits_are_attributed_to_the_programs_that_had_the_cpu() {
        assert_eq!(others(&[(250, 750)], &[1000, 0], 250, 0), 750, "a neighbour had it");
        assert_eq!(others(&[(1000, 3000)], &[1000, 0], 1000, 0), 0, "its own threads had it");
        assert_eq!(others(&[(1000, 3000)], &[1000, 1000], 1000, 0), 0, "a neighbour on the other CPU");
        assert_eq!(others(&[(600, 400)], &[1000, 0], 600, 380), 20, "kernel threads had it");
        assert_eq!(others(&[(500, 400)], &[1000, 0], 990, 0), 10, "processes that ended between samples had it");
        assert_eq!(others(&[(900, 0)], &[1000, 1000], 900, 0), 0, "nothing waited");
    }

    #[test]
    fn an_idle_cpu_whose_ticks_exceed_its_time_counts_as_0() {
        let on = OnCpu { ran_ns: 250 * MS, waited_ns: 750 * MS };
        let sums = Sums { per_cpu: [(0, on)].into(), ..Sums::default() };
        let waits = sums.waits(&busy(&[0, 10], 0, 0), &busy(&[1000, 9], 250, 0));
        assert_eq!(waits.others_ns, 750 * MS);
    }

    #[test]
    fn a_thread_counts_from_the_first_sample_and_an_id_may_be_reused() {
        let stat = |start_ticks, cpu| Stat { start_ticks, cpu, ..Stat::default() };
        let at = |ran_ns, waited_ns| OnCpu { ran_ns, waited_ns };
        let mut sums = Sums::default();
        sums.add(7, &stat(1, 0), at(100, 10), false);
        sums.add(7, &stat(1, 1), at(130, 15), true);
        sums.add(7, &stat(2, 1), at(3, 2), true);
        assert_eq!((sums.per_cpu[&0], sums.per_cpu[&1]), (at(0, 0), at(33, 7)));
    }
}
