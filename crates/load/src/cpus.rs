//! CPU lists, and threads bound to a CPU.

use std::io;

use iotrail_base::error::{Error, Result};
use iotrail_host::procfs;
use iotrail_schema::measurement::{Target, Warning};

/// The CPUs that `--cpus` names, in order, each once: a list (`0,2-3`), `irq` or `non-irq`. Never empty.
pub fn resolve(text: &str, target: Option<&Target>, online: &[u32]) -> Result<Vec<u32>> {
    match text.trim() {
        "irq" => {
            let cpus = of_interrupts(target);
            let cpus: Vec<u32> = online.iter().copied().filter(|c| cpus.contains(c)).collect();
            if cpus.is_empty() {
                return Err(no_interrupts("irq", target));
            }
            Ok(cpus)
        }
        "non-irq" => {
            let taken = of_interrupts(target);
            if taken.is_empty() {
                return Err(no_interrupts("non-irq", target));
            }
            let cpus: Vec<u32> = online.iter().copied().filter(|c| !taken.contains(c)).collect();
            if cpus.is_empty() {
                return Err(Error::machine(
                    "--cpus non-irq: every online CPU takes the target's interrupts",
                    "name the CPUs, or use --cpus irq",
                ));
            }
            Ok(cpus)
        }
        list => {
            let cpus = parse(list)?;
            for &cpu in &cpus {
                self::online(cpu, online, "--cpus")?;
            }
            Ok(cpus)
        }
    }
}

fn of_interrupts(target: Option<&Target>) -> Vec<u32> {
    target.map_or_else(Vec::new, |t| t.interrupts.iter().flat_map(|i| i.cpus.iter().copied()).collect())
}

fn no_interrupts(word: &str, target: Option<&Target>) -> Error {
    let why = match target {
        _ if !procfs::is_mounted() => "/proc is not mounted here, so the target's interrupts cannot be told".to_owned(),
        None => "the load has no target whose interrupts could be looked up".to_owned(),
        Some(Target { path, device: Some(device), .. }) => {
            format!("{path} is on {device}, which has no interrupts of its own")
        }
        Some(Target { path, filesystem: Some(filesystem), .. }) => {
            format!("{path} is on no disk ({filesystem}), so no interrupt completes its I/O")
        }
        Some(Target { path, .. }) => format!("{path} is on no disk, so no interrupt completes its I/O"),
    };
    Error::machine(format!("--cpus {word}: {why}"), "name the CPUs: --cpus 0,2-3")
}

/// An input error if `cpu` is not online.
pub fn online(cpu: u32, online: &[u32], option: &str) -> Result<()> {
    if online.contains(&cpu) {
        return Ok(());
    }
    let there = online.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    Err(Error::input(format!("{option}: CPU {cpu} is not there"), format!("use some of {there}")))
}

/// Reads `0,2-3`.
pub fn parse(list: &str) -> Result<Vec<u32>> {
    let bad = || Error::input(format!("'{list}' is no list of CPUs"), "write 0,2-3, or irq or non-irq");
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

/// Binds the calling thread to `cpu` and reads back whether it is.
pub fn bind(cpu: u32) -> Result<()> {
    let failed = |cause: io::Error| {
        Error::machine(format!("cannot bind a thread to CPU {cpu}"), "choose a CPU of this process's cpuset")
            .because(cause)
    };
    // SAFETY: a plain C structure, valid when all zero.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu as usize >= libc::CPU_SETSIZE as usize {
        return Err(failed(io::ErrorKind::Unsupported.into()));
    }
    // SAFETY: a live set; the index was checked against its size.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: a live set of the size given; 0 is the calling thread.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) } != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    if !is_bound(cpu) {
        return Err(failed(io::Error::other("the kernel took the request and did not follow it")));
    }
    Ok(())
}

/// Lets the calling thread run wherever the process's first thread may: a thread begins with the CPUs of the one that made it.
pub fn unbind() -> Result<()> {
    // SAFETY: a plain C structure, valid when all zero.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a live set of the size given; the first thread has the process's number, 0 is the calling thread.
    let done = unsafe {
        libc::sched_getaffinity(libc::getpid(), size_of_val(&set), &mut set) == 0
            && libc::sched_setaffinity(0, size_of_val(&set), &set) == 0
    };
    let failed = || Error::machine("cannot let a thread run on all CPUs", "see who limits this process's CPUs");
    if done { Ok(()) } else { Err(failed().because(io::Error::last_os_error())) }
}

/// Whether the calling thread may run on `cpu` and nowhere else.
pub fn is_bound(cpu: u32) -> bool {
    // SAFETY: a plain C structure, valid when all zero.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a live set of the size given.
    let read = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    // SAFETY: a live set; an index beyond its size is answered with false.
    read == 0 && unsafe { libc::CPU_COUNT(&set) == 1 && libc::CPU_ISSET(cpu as usize, &set) }
}

/// Threads of a load that were not left on their CPUs.
pub fn unpinned(moved: u32) -> Option<Warning> {
    (moved > 0).then(|| {
        Warning::new(
            "unpinned",
            format!("{moved} threads were moved off their CPU while the load ran"),
            "see who changes affinities (cpuset, taskset, a daemon)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(parse("0,2-3,2").unwrap(), [0, 2, 3]);
        for bad in ["", "1-", "3-1", "a", "0,,1", "0-99999"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bound_thread_is_bound() {
        std::thread::spawn(|| {
            // SAFETY: asks which CPU this thread is on.
            let cpu = unsafe { libc::sched_getcpu() } as u32;
            bind(cpu).unwrap();
            assert!(is_bound(cpu) && !is_bound(cpu + 1));
            assert_eq!(bind(1023).unwrap_err().exit_status(), 3);
        })
        .join()
        .unwrap();
    }
}
