//! Kernel lockdown, from its file, or without securityfs from operations that lockdown forbids.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::ioctl::{self, NoArg, Opcode};

use super::files::{self, ROOT};

/// The mode and the evidence for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lockdown {
    /// `none`, `integrity` or `confidentiality`; `None` if unknown.
    pub mode: Option<String>,
    /// The evidence, as text.
    pub how: String,
}

pub fn detect() -> Lockdown {
    if let Some(text) = files::text(Path::new(ROOT), "sys/kernel/security/lockdown") {
        return Lockdown { mode: in_file(&text), how: "by /sys/kernel/security/lockdown".into() };
    }
    by_effects(pci_configuration_locked(Path::new("/proc/bus/pci")), register_samples_locked())
}

/// The bracketed mode in `none [integrity] confidentiality`.
fn in_file(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn by_effects(integrity: Option<bool>, confidentiality: Option<bool>) -> Lockdown {
    let (mode, how) = match (integrity, confidentiality) {
        (_, Some(true)) => (Some("confidentiality"), "the kernel denies register samples"),
        (Some(true), Some(false)) => (Some("integrity"), "the kernel denies PCI control but allows register samples"),
        (Some(false), _) => (Some("none"), "the kernel allows PCI control"),
        (Some(true), None) => (None, "locked down, but the mode is unknown"),
        (None, _) => (None, "securityfs is not mounted, and the effects of lockdown could not be tested"),
    };
    Lockdown { mode: mode.map(str::to_owned), how: how.into() }
}

/// Lockdown (integrity and above) rejects any ioctl on /proc/bus/pci/*/* before checking it, for all users
/// (`proc_bus_pci_ioctl`, since 5.4). Without lockdown, the ioctl used here returns the PCI domain number and changes
/// nothing.
fn pci_configuration_locked(buses: &Path) -> Option<bool> {
    const PCIIOC_CONTROLLER: Opcode = (b'P' as Opcode) << 24 | (b'C' as Opcode) << 16 | (b'I' as Opcode) << 8;
    let bus = files::entries(buses, "").into_iter().find(|e| buses.join(e).is_dir())?;
    let device = files::entries(buses, &bus).into_iter().next()?;
    let file = File::open(buses.join(bus).join(device)).ok()?;
    // SAFETY: the request takes no argument and writes no memory.
    match unsafe { ioctl::ioctl(file, NoArg::<PCIIOC_CONTROLLER>::new()) } {
        Ok(()) => Some(false),
        Err(Errno::PERM) => Some(true),
        Err(_) => None,
    }
}

/// Lockdown (confidentiality) rejects a perf event that samples registers at interrupts (`LOCKDOWN_PERF`, since 5.4).
/// The result is only conclusive if the same event without registers is allowed: perf_event_paranoid and seccomp may
/// also reject it.
fn register_samples_locked() -> Option<bool> {
    const PERF_SAMPLE_REGS_INTR: u64 = 1 << 18;
    perf_event(0).ok()?;
    match perf_event(PERF_SAMPLE_REGS_INTR) {
        Ok(_) => Some(false),
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => Some(true),
        Err(_) => None,
    }
}

/// Opens a disabled user-mode task-clock event on this thread.
fn perf_event(sample_type: u64) -> std::io::Result<OwnedFd> {
    // struct perf_event_attr version 4 (Linux 3.19), the first with sample_regs_intr. Newer kernels recognise it by
    // its size.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample_period: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup_events: u32,
        bp_type: u32,
        config1: u64,
        config2: u64,
        branch_sample_type: u64,
        sample_regs_user: u64,
        sample_stack_user: u32,
        clockid: i32,
        sample_regs_intr: u64,
    }
    const PERF_TYPE_SOFTWARE: u32 = 1;
    const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;
    const DISABLED: u64 = 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HV: u64 = 1 << 6;
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    let attributes = Attributes {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: PERF_COUNT_SW_TASK_CLOCK,
        sample_period: 1_000_000,
        sample_type,
        flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV,
        sample_regs_intr: u64::from(sample_type != 0),
        ..Default::default()
    };
    // SAFETY: the kernel reads `size` bytes during the call. It would write the size field only on E2BIG, which a
    // published size never causes.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lockdown_mode_is_the_one_in_brackets() {
        assert_eq!(in_file("none [integrity] confidentiality").as_deref(), Some("integrity"));
        assert_eq!(in_file("garbage"), None);
    }

    #[test]
    fn the_lockdown_mode_is_inferred_only_from_conclusive_effects() {
        let mode = |i, c| by_effects(i, c).mode;
        assert_eq!(mode(Some(true), Some(false)).as_deref(), Some("integrity"));
        assert_eq!(mode(Some(true), Some(true)).as_deref(), Some("confidentiality"));
        assert_eq!(mode(Some(false), Some(false)).as_deref(), Some("none"));
        assert_eq!(mode(Some(false), None).as_deref(), Some("none"));
        assert_eq!(mode(Some(true), None), None);
        assert_eq!(mode(None, Some(false)), None);
        assert_eq!(mode(None, None), None);
    }
}
