//! CPUs: finds out which CPU handles the interrupts of reads, by reading and checking /proc/interrupts.

use anyhow::{Context, Result, ensure};

use crate::load::Target;
use crate::run::Unsupported;

pub struct Cores {
    /// A CPU that handles its own reads' interrupts.
    pub with: Option<usize>,
    /// A CPU whose reads interrupt another CPU.
    pub without: Option<usize>,
}

const READS: u64 = 24;

pub fn find(target: &mut Target) -> Result<Cores> {
    let before = affinity()?;
    let mut cores = Cores { with: None, without: None };
    for cpu in allowed()? {
        pin(cpu)?;
        let earlier = device_interrupts()?;
        for _ in 0..READS {
            target.read_one()?;
        }
        let after = device_interrupts()?;
        let taken = after.iter().zip(&earlier).flat_map(|(after, earlier)| {
            after.iter().zip(earlier).enumerate().map(|(cpu, (after, earlier))| (after - earlier, cpu))
        });
        match taken.max() {
            Some((count, by)) if count >= READS / 2 && by == cpu => cores.with = cores.with.or(Some(cpu)),
            Some((count, _)) if count >= READS / 2 => cores.without = cores.without.or(Some(cpu)),
            _ => Err(Unsupported("the reads cause no device interrupts".into()))?,
        }
    }
    set_affinity(&before)?;
    Ok(cores)
}

/// Counts per CPU of each numbered IRQ.
fn device_interrupts() -> Result<Vec<Vec<u64>>> {
    let text = std::fs::read_to_string("/proc/interrupts").context("/proc/interrupts")?;
    let heading = text.lines().next().context("/proc/interrupts is empty")?;
    let cpus = heading.split_whitespace().count();
    let numbered =
        text.lines().filter_map(|line| line.split_once(':')).filter(|(n, _)| n.trim().parse::<u32>().is_ok());
    Ok(numbered.map(|(_, rest)| rest.split_whitespace().take(cpus).map_while(|n| n.parse().ok()).collect()).collect())
}

pub fn pin(cpu: usize) -> Result<()> {
    // SAFETY: a zeroed cpu_set_t is the empty set; CPU_SET checks its bound.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    ensure!(cpu < libc::CPU_SETSIZE as usize, "there is no CPU {cpu}");
    // SAFETY: as above.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    set_affinity(&set).with_context(|| format!("running on CPU {cpu}"))
}

/// A CPU other than `than` on which this process could run before it was pinned.
pub fn another(than: usize) -> Result<usize> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").context("which CPUs are online")?;
    let last = online.trim().rsplit([',', '-']).next().and_then(|n| n.parse::<usize>().ok());
    let last = last.with_context(|| format!("CPUs {online:?}"))?;
    (0..=last).rev().find(|&cpu| cpu != than).ok_or_else(|| Unsupported("there is one CPU only".into()).into())
}

/// The CPUs on which this thread may run.
pub fn allowed() -> Result<Vec<usize>> {
    let set = affinity()?;
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| is_set(cpu, &set)).collect())
}

fn is_set(cpu: usize, set: &libc::cpu_set_t) -> bool {
    // SAFETY: `cpu` is below CPU_SETSIZE at every call.
    unsafe { libc::CPU_ISSET(cpu, set) }
}

fn affinity() -> Result<libc::cpu_set_t> {
    // SAFETY: the call writes the set, whose size is passed.
    let (set, failed) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let failed = libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        (set, failed)
    };
    ensure!(failed == 0, std::io::Error::last_os_error());
    Ok(set)
}

fn set_affinity(set: &libc::cpu_set_t) -> Result<()> {
    // SAFETY: the call reads the set, whose size is passed.
    let failed = unsafe { libc::sched_setaffinity(0, size_of_val(set), set) };
    ensure!(failed == 0, std::io::Error::last_os_error());
    Ok(())
}
