//! CPU lists, and pinning threads to a CPU.

use std::io;

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use iotrail_base::error::{Error, Result};
use iotrail_host::procfs;
use iotrail_schema::measurement::{Target, Warning};

/// How messages refer to a CPU option.
#[derive(Clone, Copy)]
struct Naming {
    before: &'static str,
    remedy: &'static str,
    example: &'static str,
}

const JOBS: Naming = Naming { before: "--cpus ", remedy: "specify the CPUs", example: "--cpus 0,2-3" };
const REAPER: Naming = Naming { before: "--reaper thread:", remedy: "specify the CPU", example: "--reaper thread:0" };

/// The CPUs in `--cpus`, in order and without duplicates: a list (`0,2-3`), `irq` or `non-irq`. Never empty.
pub fn resolve(text: &str, target: Option<&Target>, online: &[u32]) -> Result<Vec<u32>> {
    if let Some(cpus) = by_interrupts(text.trim(), target, online, JOBS) {
        return cpus;
    }
    let cpus = parse(text.trim())?;
    for &cpu in &cpus {
        self::online(cpu, online, "--cpus")?;
    }
    Ok(cpus)
}

/// The CPU in `--reaper thread:`: its number, or the first one of `irq` or `non-irq`. `None` for other words.
pub fn of_reaper(text: &str, target: Option<&Target>, online: &[u32]) -> Option<Result<u32>> {
    if let Some(cpus) = by_interrupts(text, target, online, REAPER) {
        return Some(cpus.map(|cpus| cpus[0]));
    }
    let cpu = text.parse().ok()?;
    Some(self::online(cpu, online, "--reaper thread").map(|()| cpu))
}

/// Resolves `irq` and `non-irq` to a non-empty list; `None` for other words.
fn by_interrupts(word: &str, target: Option<&Target>, online: &[u32], naming: Naming) -> Option<Result<Vec<u32>>> {
    let Naming { before, remedy, .. } = naming;
    let wanted = match word {
        "irq" => true,
        "non-irq" => false,
        _ => return None,
    };
    let taken = of_interrupts(target);
    let cpus: Vec<u32> = online.iter().copied().filter(|c| taken.contains(c) == wanted).collect();
    Some(match (taken.is_empty(), cpus.is_empty()) {
        (false, false) => Ok(cpus),
        (false, true) if !wanted => Err(Error::machine(
            format!("{before}non-irq: every online CPU handles interrupts of the target"),
            format!("{remedy}, or use {before}irq"),
        )),
        _ => Err(no_interrupts(word, target, naming)),
    })
}

fn of_interrupts(target: Option<&Target>) -> Vec<u32> {
    target.map_or_else(Vec::new, |t| t.interrupts.iter().flat_map(|i| i.cpus.iter().copied()).collect())
}

fn no_interrupts(word: &str, target: Option<&Target>, Naming { before, remedy, example }: Naming) -> Error {
    let why = match target {
        _ if !procfs::is_mounted() => "/proc is not mounted here, so the target's interrupts are unknown".to_owned(),
        None => "the load has no target with interrupts".to_owned(),
        Some(Target { path, device: Some(device), .. }) => {
            format!("{path} is on {device}, which has no interrupts of its own")
        }
        Some(Target { path, filesystem: Some(filesystem), .. }) => {
            format!("{path} is on no disk ({filesystem}), so no interrupt completes its I/O")
        }
        Some(Target { path, .. }) => format!("{path} is on no disk, so no interrupt completes its I/O"),
    };
    Error::machine(format!("{before}{word}: {why}"), format!("{remedy}: {example}"))
}

/// Returns a usage error if `cpu` is offline.
pub fn online(cpu: u32, online: &[u32], option: &str) -> Result<()> {
    if online.contains(&cpu) {
        return Ok(());
    }
    let there = online.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    Err(Error::input(format!("{option}: CPU {cpu} does not exist"), format!("the online CPUs are {there}")))
}

/// Parses `0,2-3`.
pub(crate) fn parse(list: &str) -> Result<Vec<u32>> {
    let bad = || Error::input(format!("'{list}' is not a CPU list"), "use the form 0,2-3, or irq or non-irq");
    let mut cpus = Vec::new();
    for part in list.split(',').map(str::trim) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().map_err(|_| bad())?, to.parse().map_err(|_| bad())?);
        if from > to || to - from > 8192 {
            return Err(bad());
        }
        for cpu in from..=to {
            if !cpus.contains(&cpu) {
                cpus.push(cpu);
            }
        }
    }
    Ok(cpus)
}

/// Pins the calling thread to `cpu` and verifies that.
pub fn bind(cpu: u32) -> Result<()> {
    let failed = |cause: io::Error| {
        Error::machine(format!("cannot bind a thread to CPU {cpu}"), "choose a CPU in this process's cpuset")
            .because(cause)
    };
    let set = alone(cpu).map_err(failed)?;
    sched_setaffinity(None, &set).map_err(|e| failed(e.into()))?;
    if !is_bound(cpu) {
        return Err(failed(io::Error::other("the kernel accepted the request but did not apply it")));
    }
    Ok(())
}

/// A set containing only this CPU. Fails if its number does not fit into a set.
pub(crate) fn alone(cpu: u32) -> io::Result<CpuSet> {
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    Ok(set)
}

/// Resets the calling thread's affinity to that of the process's first thread, because a new thread inherits its
/// creator's affinity.
pub(crate) fn unbind() -> Result<()> {
    // The first thread's ID is the process ID.
    sched_getaffinity(Some(getpid())).and_then(|set| sched_setaffinity(None, &set)).map_err(|e| {
        Error::machine("cannot allow a thread to run on all CPUs", "check this process's CPU affinity limits")
            .because(io::Error::from(e))
    })
}

/// Whether the calling thread may run only on `cpu`.
pub fn is_bound(cpu: u32) -> bool {
    alone(cpu).is_ok_and(|set| sched_getaffinity(None) == Ok(set))
}

/// Warns about threads that did not stay on their CPUs.
pub fn unpinned(moved: u32) -> Option<Warning> {
    (moved > 0).then(|| {
        Warning::new(
            "unpinned",
            format!("{moved} threads were moved off their CPU while the load ran"),
            "find the program that changes affinities (cpuset, taskset, a daemon)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed_or_rejected() {
        assert_eq!(parse("0,2-3,2").unwrap(), [0, 2, 3]);
        for bad in ["", "1-", "3-1", "a", "0,,1", "0-99999"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bound_thread_runs_only_on_its_cpu() {
        std::thread::spawn(|| {
            let cpu = rustix::thread::sched_getcpu() as u32;
            bind(cpu).unwrap();
            assert!(is_bound(cpu) && !is_bound(cpu + 1));
            assert_eq!(bind(1023).unwrap_err().exit_status(), 3);
        })
        .join()
        .unwrap();
    }
}
