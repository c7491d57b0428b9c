//! Facts about this machine. Nothing here changes a setting of the machine; `iotrail-settings` does.
//!
//! | module | facts |
//! |---|---|
//! | [`cpu`] | online CPUs, shared hardware, isolation, steal time |
//! | [`irq`] | interrupts by vector and CPU; their affinity |
//! | [`block`] | the disks below a path: queues, scheduler, completion interrupts |
//! | [`circumstances`] | other activity around a measured span; with `page_cache` and [`cgroup`] |
//! | [`contention`] | time for which a program's threads waited for CPUs that other programs used |
//! | [`pci`] | a PCI function: class, driver, IOMMU, users |
//! | [`kernel`] | release, BTF, settings |
//! | [`clock`] | clock source, time-stamp counter, tick |
//! | [`lockdown`], [`privileges`], `virtualisation` | privileges and the hypervisor |
//! | [`limits`] | resource limits; raises the soft limit of open files, and restores it for child programs |
//! | [`procfs`] | processes and threads, from /proc |
//! | [`programs`] | the path of a program, and whether it is executable |
//! | [`io_uring`], [`aio`] | tests which features of the interfaces work; [`refusal`] explains rejections |
//!
//! Unreadable values are `None`. Readers take the root of sysfs and procfs, so that tests can use small trees.
//!
//! Uses `iotrail-base` and `iotrail-schema`.

pub mod aio;
pub mod block;
pub mod cgroup;
pub mod circumstances;
pub mod clock;
pub mod contention;
pub mod cpu;
pub mod files;
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
pub mod virtualisation;

use std::path::Path;

use iotrail_base::error::Result;
use iotrail_schema::measurement::Host;

/// The host in the record's form, with the load's target.
///
/// Fails with a usage error if the target does not exist, or a machine error if sysfs is unreadable.
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
    fn this_host_has_a_kernel_release_cpus_and_a_target() {
        let host = facts(Some(Path::new("/proc/self/exe"))).unwrap();
        assert!(kernel::parse_version(&host.kernel).is_some(), "{}", host.kernel);
        // This process may be bound to fewer CPUs.
        assert!(host.cpus as usize >= std::thread::available_parallelism().unwrap().get(), "{}", host.cpus);
        let target = host.target.unwrap();
        assert!(target.path.starts_with('/') && target.filesystem.is_some(), "{target:?}");
    }

    #[test]
    fn a_missing_target_is_an_input_error() {
        assert_eq!(facts(Some(Path::new("/no/such/file"))).unwrap_err().exit_status(), 2);
    }
}
