//! What threads took: CPU time, and what kept them from running.

use std::io;

use crate::error::{Error, Result};

/// What one thread took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The sum of user and system time is exact to the scheduler's clock; the split is sampled at each timer tick by most
    /// kernels.
    pub user_ns: u64,
    pub system_ns: u64,
    /// Time that it could have run and something else had its CPU; `None` where the kernel keeps none (CONFIG_SCHED_INFO).
    pub run_queue_wait_ns: Option<u64>,
    pub involuntary_switches: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

impl Usage {
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            user_ns: self.user_ns - before.user_ns,
            system_ns: self.system_ns - before.system_ns,
            run_queue_wait_ns: self
                .run_queue_wait_ns
                .zip(before.run_queue_wait_ns)
                .map(|(after, before)| after.saturating_sub(before)),
            involuntary_switches: self.involuntary_switches - before.involuntary_switches,
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
        }
    }

    /// Another thread's on top; a wait that one thread does not know is not known of both.
    pub fn add(&mut self, other: Usage) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.run_queue_wait_ns = self.run_queue_wait_ns.zip(other.run_queue_wait_ns).map(|(a, b)| a + b);
        self.involuntary_switches += other.involuntary_switches;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
    }
}

/// Of the calling thread so far, where a span begins: what asking takes is before it.
pub fn before() -> Result<Usage> {
    let run_queue_wait_ns = run_queue_wait();
    Ok(Usage { run_queue_wait_ns, ..taken()? })
}

/// Of the calling thread so far, where a span ends: what asking takes is after it.
pub fn after() -> Result<Usage> {
    let taken = taken()?;
    Ok(Usage { run_queue_wait_ns: run_queue_wait(), ..taken })
}

fn taken() -> Result<Usage> {
    // SAFETY: a plain C structure, valid when all zero, which the call fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0 {
        return Err(Error::machine("cannot read a thread's CPU time", "").because(io::Error::last_os_error()));
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

/// CPU time of all threads of this process but the calling one, ended ones included, so far.
pub fn of_others() -> Result<u64> {
    let ns = |clock| {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a live structure that the call fills.
        match unsafe { libc::clock_gettime(clock, &mut t) } {
            0 => Ok(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64),
            _ => Err(Error::machine("cannot read the process's CPU time", "").because(io::Error::last_os_error())),
        }
    };
    // This thread's first: read later, its own few nanoseconds would be missing in the others'.
    let own = ns(libc::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(ns(libc::CLOCK_PROCESS_CPUTIME_ID)?.saturating_sub(own))
}

/// CPU time of another thread of this process (an SQPOLL thread), so far; `None` where the kernel keeps none.
pub fn of_tid(tid: i32) -> Option<u64> {
    schedstat(&format!("self/task/{tid}")).map(|[cpu, _]| cpu)
}

/// What another thread of this process took so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The sum is exact; the split is by ticks on most kernels.
    pub user_ns: u64,
    pub system_ns: u64,
    pub run_queue_wait_ns: u64,
}

impl Taken {
    pub fn since(self, before: Taken) -> Taken {
        Taken {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            run_queue_wait_ns: self.run_queue_wait_ns.saturating_sub(before.run_queue_wait_ns),
        }
    }
}

/// Of a thread of this process; `None` where it is gone or the kernel keeps none.
pub fn taken_by(tid: i32) -> Option<Taken> {
    let [cpu, wait] = schedstat(&format!("self/task/{tid}"))?;
    let stat = stat_from_state(tid)?;
    // The state is field 3, user and system time in ticks are fields 14 and 15.
    let mut fields = stat.split_whitespace().skip(11).map(|n| n.parse::<u64>().ok());
    let (user, system) = (fields.next()??, fields.next()??);
    let user_ns = match user + system {
        0 => 0,
        ticks => (u128::from(cpu) * u128::from(user) / u128::from(ticks)) as u64,
    };
    Some(Taken { user_ns, system_ns: cpu - user_ns, run_queue_wait_ns: wait })
}

/// Whether a thread of this process waits for something to happen; one that is gone does not.
pub fn sleeps(tid: i32) -> bool {
    stat_from_state(tid).is_some_and(|stat| stat.trim_start().starts_with('S'))
}

/// /proc's line from the field after the name on, which may hold anything.
fn stat_from_state(tid: i32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.to_owned())
}

/// Time on a CPU and time waiting for one, ns.
fn schedstat(of: &str) -> Option<[u64; 2]> {
    let stat = std::fs::read_to_string(format!("/proc/{of}/schedstat")).ok()?;
    let mut numbers = stat.split_whitespace().map(|n| n.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

/// The calling thread's number in /proc, which may be of a PID namespace further out; where /proc does not show the thread, the number
/// that it knows itself.
pub fn tid() -> i32 {
    let shown = std::fs::read_link("/proc/thread-self").ok();
    let number = shown.as_deref().and_then(|path| path.file_name()?.to_str()?.parse().ok());
    // SAFETY: no preconditions.
    number.unwrap_or_else(|| unsafe { libc::gettid() })
}
