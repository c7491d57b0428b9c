//! Facts of this machine: read, never changed but in [`settings`], which puts back what it has changed.
//!
//! | module | facts |
//! |---|---|
//! | [`cpu`] | which CPUs are online, what they share, what is kept off them, stolen time |
//! | [`irq`] | interrupts by vector and CPU; where each may be delivered |
//! | [`block`] | the disks under a path: queues, scheduler, the interrupts that carry completions |
//! | [`circumstances`] | what else went on around a measured span; with `page_cache` and [`cgroup`] |
//! | [`pci`] | a function on the bus: its class, driver, IOMMU, and what uses it |
//! | [`kernel`] | release, BTF, settings |
//! | [`clock`] | clock source, time-stamp counter, tick |
//! | [`lockdown`], [`privileges`], `virtualisation` | what is allowed, to whom, on whose machine |
//! | [`limits`] | what they are; of open files: the soft limit raised, and given back to what is started |
//! | [`procfs`] | processes and threads, from the texts of /proc |
//! | [`programs`] | where a program is, and whether it may be run |
//! | [`settings`] | conditions that an experiment asks for: changed, journalled, put back |
//! | [`io_uring`], [`aio`] | what the interfaces give, by asking; [`refusal`]: why not, in words |
//!
//! What can't be read is `None`; readers take the root of sysfs and procfs, so that tests run on small trees.
//!
//! It uses `iotrail-base`, `iotrail-schema`.

pub mod aio;
pub mod block;
pub mod cgroup;
pub mod circumstances;
pub mod clock;
pub mod cpu;
mod files;
#[cfg(test)]
mod fixture;
pub mod io_uring;
pub mod irq;
pub mod kernel;
pub mod limits;
pub mod lockdown;
mod page_cache;
pub mod pci;
pub mod pid_namespace;
pub mod privileges;
pub mod procfs;
pub mod programs;
pub mod refusal;
pub mod settings;
pub mod virtualisation;

use std::path::Path;

use iotrail_base::error::Result;
use iotrail_schema::measurement::Host;

/// The host as a measurement records it, with what the load runs against.
///
/// Errors: the target is missing (wrong input); sysfs is not readable (machine).
pub fn facts(target: Option<&Path>) -> Result<Host> {
    let unknown = || "unknown".to_owned();
    Ok(Host {
        hostname: kernel::hostname().unwrap_or_else(unknown),
        kernel: kernel::release().unwrap_or_else(unknown),
        cpu_model: cpu::model().unwrap_or_else(unknown),
        cpus: cpu::online()?.len() as u32,
        target: target.map(block::target).transpose()?,
        clock_source: clock::source(),
        lockdown: lockdown::detect().mode,
        virtualisation: virtualisation::detect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_that_runs_this_has_a_release_and_cpus() {
        let host = facts(Some(Path::new("/proc/self/exe"))).unwrap();
        assert!(kernel::parse_version(&host.kernel).is_some(), "{}", host.kernel);
        // This process may be bound to fewer.
        assert!(host.cpus as usize >= std::thread::available_parallelism().unwrap().get(), "{}", host.cpus);
        let target = host.target.unwrap();
        assert!(target.path.starts_with('/') && target.filesystem.is_some(), "{target:?}");
    }

    #[test]
    fn a_missing_target_is_wrong_input() {
        assert_eq!(facts(Some(Path::new("/no/such/file"))).unwrap_err().exit_status(), 2);
    }
}
