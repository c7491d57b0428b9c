//! CPU time of threads, and the time for which they waited for a CPU.

use std::io;

use iotrail_base::error::{Error, Result};
use iotrail_host::procfs::{Stat, schedstat};

/// A thread's usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The sum of user and system time is exact to the scheduler's clock. getrusage splits it, which most kernels
    /// sample at each timer tick; without a tick in the thread, all of it is user time.
    pub user_ns: u64,
    pub system_ns: u64,
    /// Time for which the thread was runnable without a CPU; `None` if the kernel does not account it
    /// (CONFIG_SCHED_INFO).
    pub run_queue_wait_ns: Option<u64>,
    pub involuntary_switches: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

impl Usage {
    /// Limits the CPU time to `elapsed_ns`, the maximum for one thread, because the readings are slightly outside the
    /// span.
    pub fn within(self, elapsed_ns: u64) -> Usage {
        let cpu_ns = (self.user_ns + self.system_ns).min(elapsed_ns);
        let (user_ns, system_ns) = split(cpu_ns, self.user_ns, self.system_ns);
        Usage { user_ns, system_ns, ..self }
    }

    /// Adds another thread's usage. The wait is unknown if either thread's wait is unknown.
    pub fn add(&mut self, other: Usage) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.run_queue_wait_ns = self.run_queue_wait_ns.zip(other.run_queue_wait_ns).map(|(a, b)| a + b);
        self.involuntary_switches += other.involuntary_switches;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
    }
}

/// A thread's usage up to a point in time.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// getrusage's CPU time of a running thread is up to a tick old, so it is only used for the split.
    cpu_ns: u64,
    sampled: Usage,
}

impl Reading {
    pub fn since(self, before: Reading) -> Usage {
        let (now, then) = (self.sampled, before.sampled);
        let grown = (now.user_ns.saturating_sub(then.user_ns), now.system_ns.saturating_sub(then.system_ns));
        // If the span is too short for a tick, it is split like the thread's total time.
        let (user, system) = if grown == (0, 0) { (now.user_ns, now.system_ns) } else { grown };
        let (user_ns, system_ns) = split(self.cpu_ns.saturating_sub(before.cpu_ns), user, system);
        Usage {
            user_ns,
            system_ns,
            run_queue_wait_ns: now
                .run_queue_wait_ns
                .zip(then.run_queue_wait_ns)
                .map(|(after, before)| after.saturating_sub(before)),
            involuntary_switches: now.involuntary_switches - then.involuntary_switches,
            minor_faults: now.minor_faults - then.minor_faults,
            major_faults: now.major_faults - then.major_faults,
        }
    }
}

/// Splits `cpu_ns` in the ratio of `user` to `system`. Like the kernel, treats all as user time if both are 0.
fn split(cpu_ns: u64, user: u64, system: u64) -> (u64, u64) {
    let user_ns = match u128::from(user) + u128::from(system) {
        0 => cpu_ns,
        both => (u128::from(cpu_ns) * u128::from(user) / both) as u64,
    };
    (user_ns, cpu_ns - user_ns)
}

/// The calling thread's usage at the start of a span, excluding the reading itself.
pub(crate) fn before() -> Result<Reading> {
    let run_queue_wait_ns = run_queue_wait();
    let sampled = Usage { run_queue_wait_ns, ..sampled()? };
    Ok(Reading { sampled, cpu_ns: cpu_time(libc::CLOCK_THREAD_CPUTIME_ID, "a thread's")? })
}

/// The calling thread's usage at the end of a span, excluding the reading itself.
pub(crate) fn after() -> Result<Reading> {
    let cpu_ns = cpu_time(libc::CLOCK_THREAD_CPUTIME_ID, "a thread's")?;
    let sampled = sampled()?;
    Ok(Reading { sampled: Usage { run_queue_wait_ns: run_queue_wait(), ..sampled }, cpu_ns })
}

/// rustix cannot report a rejected clock, so this uses libc.
fn cpu_time(clock: libc::clockid_t, whose: &str) -> Result<u64> {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live structure that the call fills.
    match unsafe { libc::clock_gettime(clock, &mut t) } {
        0 => Ok(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64),
        _ => {
            let why = io::Error::last_os_error();
            Err(Error::machine(format!("cannot read {whose} CPU time"), "").because(why))
        }
    }
}

/// The calling thread's usage according to getrusage(2), which rustix lacks.
pub(crate) fn sampled() -> Result<Usage> {
    // SAFETY: a plain C structure, valid when zeroed, which the call fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0 {
        return Err(Error::machine("cannot read a thread's resource usage", "").because(io::Error::last_os_error()));
    }
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    Ok(Usage {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        run_queue_wait_ns: None,
        involuntary_switches: usage.ru_nivcsw as u64,
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
    })
}

fn run_queue_wait() -> Option<u64> {
    schedstat("thread-self").map(|[_, wait]| wait)
}

/// CPU time so far of all threads of this process except the calling thread, including exited threads.
pub fn of_others() -> Result<u64> {
    // This thread's time is read first: read later, it would include a few nanoseconds that are missing in the total.
    let own = cpu_time(libc::CLOCK_THREAD_CPUTIME_ID, "a thread's")?;
    Ok(cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID, "the process's")?.saturating_sub(own))
}

/// CPU time so far of another thread of this process (an SQPOLL thread); `None` if the kernel does not record it.
pub fn of_tid(tid: i32) -> Option<u64> {
    schedstat(format_args!("self/task/{tid}")).map(|[cpu, _]| cpu)
}

/// Usage so far of another thread of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadUsage {
    /// The sum is exact; most kernels split it by ticks.
    pub user_ns: u64,
    pub system_ns: u64,
    pub run_queue_wait_ns: u64,
}

impl ThreadUsage {
    pub fn since(self, before: ThreadUsage) -> ThreadUsage {
        ThreadUsage {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            run_queue_wait_ns: self.run_queue_wait_ns.saturating_sub(before.run_queue_wait_ns),
        }
    }
}

/// Usage of a thread of this process; `None` if it has exited, or if the kernel does not account it.
pub fn taken_by(tid: i32) -> Option<ThreadUsage> {
    let [cpu, wait] = schedstat(format_args!("self/task/{tid}"))?;
    let Stat { user_ticks: user, system_ticks: system, .. } = Stat::of(format_args!("self/task/{tid}"))?;
    let user_ns = match user + system {
        0 => 0,
        ticks => (u128::from(cpu) * u128::from(user) / u128::from(ticks)) as u64,
    };
    Some(ThreadUsage { user_ns, system_ns: cpu - user_ns, run_queue_wait_ns: wait })
}

/// Whether a thread of this process sleeps; false if it has exited.
pub fn sleeps(tid: i32) -> bool {
    Stat::of(format_args!("self/task/{tid}")).is_some_and(|stat| stat.state == 'S')
}

/// The calling thread's ID in /proc, which may belong to an outer PID namespace. If /proc does not show the thread, the
/// ID in its own namespace.
pub fn tid() -> i32 {
    let shown = std::fs::read_link("/proc/thread-self").ok();
    let number = shown.as_deref().and_then(|path| path.file_name()?.to_str()?.parse().ok());
    number.unwrap_or_else(|| rustix::thread::gettid().as_raw_pid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(cpu_ns: u64, user_ns: u64, system_ns: u64) -> Reading {
        Reading { cpu_ns, sampled: Usage { user_ns, system_ns, ..Usage::default() } }
    }

    fn span(before: Reading, after: Reading) -> (u64, u64) {
        let usage = after.since(before);
        (usage.user_ns, usage.system_ns)
    }

    #[test]
    fn total_cpu_time_is_exact_and_split_according_to_getrusage() {
        // A tick added 209 µs to getrusage's account within a span of 8 µs.
        assert_eq!(span(reading(1_000_000, 791_000, 0), reading(1_008_000, 1_000_000, 0)), (8_000, 0));
        assert_eq!(span(reading(1_000, 100, 100), reading(9_000, 400, 200)), (6_000, 2_000));
        // Without a tick in the span, the total time's split applies; without any tick, all is user time.
        assert_eq!(span(reading(1_000, 100, 300), reading(9_000, 100, 300)), (2_000, 6_000));
        assert_eq!(span(reading(1_000, 0, 0), reading(9_000, 0, 0)), (8_000, 0));
        let at_most = |usage: Usage, ns| (usage.within(ns).user_ns, usage.within(ns).system_ns);
        let usage = Usage { user_ns: 6_000, system_ns: 2_000, ..Usage::default() };
        assert_eq!((at_most(usage, 7_000), at_most(usage, 8_000)), ((5_250, 1_750), (6_000, 2_000)));
        assert_eq!(at_most(usage, 0), (0, 0));
    }

    #[test]
    fn cpu_times_of_short_spans_add_up_to_the_threads_cpu_time() {
        // As in a load, on a separate thread: the spans add up to the thread's usage, although each is shorter than a
        // tick.
        let spans = std::thread::spawn(|| {
            let first = before().unwrap();
            let sums: Vec<(u64, u64)> = (0..200)
                .map(|_| {
                    let began = std::time::Instant::now();
                    let then = before().unwrap();
                    let usage = after().unwrap().since(then);
                    (usage.user_ns + usage.system_ns, began.elapsed().as_nanos() as u64)
                })
                .collect();
            let all = after().unwrap().since(first);
            (sums, all.user_ns + all.system_ns)
        });
        let (spans, all) = spans.join().unwrap();
        assert!(spans.iter().all(|(cpu, wall)| (1..=*wall).contains(cpu)), "{spans:?}");
        assert!(spans.iter().map(|(cpu, _)| cpu).sum::<u64>() <= all, "{spans:?} in {all}");
    }
}
