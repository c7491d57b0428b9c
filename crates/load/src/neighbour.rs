//! Busy processes that compete with the load for its CPUs.

use std::io;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, waitpid,
};
use rustix::thread::sched_setaffinity;

use super::cpus;
use iotrail_base::error::{OrFail, Result};

/// Compute-bound processes; they exit on drop, and with the calling thread, however it ends.
#[derive(Debug, Default)]
pub struct Neighbours {
    children: Vec<Pid>,
}

impl Neighbours {
    /// Starts `each` processes on every CPU in `cpus`. Call this on the thread that runs the load, because the
    /// processes exit with the calling thread.
    pub fn start(each: u32, cpus: &[u32]) -> Result<Self> {
        let mut all = Self::default();
        for &cpu in cpus {
            for _ in 0..each {
                all.children.push(spawn(cpu).or_machine(
                    format_args!("cannot start a CPU-bound process on CPU {cpu}"),
                    "use fewer in --neighbour",
                )?);
            }
        }
        Ok(all)
    }
}

fn spawn(cpu: u32) -> io::Result<Pid> {
    let set = cpus::alone(cpu)?;
    let parent = getpid();
    // SAFETY: the child makes only async-signal-safe calls (prctl, sched_setaffinity, getppid, _exit) and touches no
    // lock or allocation that another thread may have held.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: as above.
        0 => unsafe {
            let ready = set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
                && sched_setaffinity(None, &set).is_ok()
                // Ctrl-C reaches the whole process group; this process must exit with the load, after it has finished.
                && libc::signal(libc::SIGINT, libc::SIG_IGN) != libc::SIG_ERR
                && getppid() == Some(parent); // or the parent died before prctl
            if !ready {
                libc::_exit(1);
            }
            compute()
        },
        child => Ok(Pid::from_raw(child).expect("a child has a number")),
    }
}

/// Computes until killed, without system calls and without memory other than registers.
fn compute() -> ! {
    let mut x = 1u64;
    loop {
        x = std::hint::black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for &child in &self.children {
            // The child has not been reaped, so its PID cannot belong to another process.
            kill_process(child, Signal::KILL).unwrap_or(());
        }
        for &child in &self.children {
            while matches!(waitpid(Some(child), WaitOptions::empty()), Err(Errno::INTR)) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_neighbours_use_the_cpu_and_exit_when_dropped() {
        let neighbours = Neighbours::start(1, &[0]).unwrap();
        let child = neighbours.children[0];
        std::thread::sleep(std::time::Duration::from_millis(200));
        let stat = std::fs::read_to_string(format!("/proc/{child}/schedstat")).unwrap();
        let ran_ns: u64 = stat.split(' ').next().unwrap().parse().unwrap();
        assert!(ran_ns > 1_000_000, "{ran_ns}");
        drop(neighbours);
        assert!(!std::path::Path::new(&format!("/proc/{child}")).exists());
    }
}
