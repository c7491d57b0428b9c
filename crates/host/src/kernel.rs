//! The kernel's release, and settings that restrict programs.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::files::{self, ROOT};

/// A kernel version for comparisons.
pub type Version = (u32, u32, u32);

/// Release as printed by `uname -r`.
pub fn release() -> Option<String> {
    files::text(Path::new(ROOT), "proc/sys/kernel/osrelease")
}

pub fn version() -> Option<Version> {
    parse_version(&release()?)
}

/// Leading numbers of `6.18.44-fc`, `6.1.0-13-amd64`, `7.2-rc1`; a missing patch level is 0.
pub fn parse_version(release: &str) -> Option<Version> {
    let digits =
        |s: &str| -> Option<u32> { s[..s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len())].parse().ok() };
    let mut parts = release.splitn(3, '.');
    let (major, minor) = (digits(parts.next()?)?, parts.next()?);
    let patch = match parts.next() {
        // `7.2-rc1.x` has no patch level, whatever follows the suffix.
        Some(patch) if minor.bytes().all(|b| b.is_ascii_digit()) => digits(patch)?,
        _ => 0,
    };
    Some((major, digits(minor)?, patch))
}

pub(crate) fn hostname() -> Option<String> {
    files::text(Path::new(ROOT), "proc/sys/kernel/hostname")
}

/// Whether the kernel has BTF (CONFIG_DEBUG_INFO_BTF) that this process can read.
pub fn btf() -> bool {
    // BTF_MAGIC in this machine's byte order.
    let mut magic = [0; 2];
    let read = File::open("/sys/kernel/btf/vmlinux").and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && u16::from_ne_bytes(magic) == 0xeb9f
}

/// Whether /proc/kallsyms shows real addresses to this process (kernel.kptr_restrict shows zeros); `None` without the
/// file.
pub fn kallsyms() -> Option<bool> {
    let mut head = Vec::new();
    // In older kernels the first symbols are per-CPU offsets from 0, so more symbols are read.
    File::open("/proc/kallsyms").ok()?.take(64 << 10).read_to_end(&mut head).ok()?;
    shows_addresses(&String::from_utf8_lossy(&head))
}

fn shows_addresses(kallsyms: &str) -> Option<bool> {
    let mut addresses = kallsyms.lines().filter_map(|l| l.split(' ').next()).filter(|a| a.len() >= 8).peekable();
    addresses.peek()?;
    Some(addresses.any(|a| a.bytes().any(|b| b != b'0')))
}

/// Settings in /proc/sys; `None` if the kernel lacks one or it is unreadable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Who may create rings: 0 all processes; 1 those with CAP_SYS_ADMIN or in the group; 2 none. Since 6.6.
    pub io_uring_disabled: Option<u32>,
    /// The group for value 1; -1: none.
    pub io_uring_group: Option<i64>,
    /// Who may see addresses: 0 all processes with access to the file; 1 those with CAP_SYSLOG; 2 none.
    pub kptr_restrict: Option<u32>,
    /// Who may load simple programs: 0 all processes; 1 those with CAP_BPF, until reboot; 2 the same, but changeable.
    pub unprivileged_bpf_disabled: Option<u32>,
    pub perf_event_paranoid: Option<i32>,
    /// Limit and current number of native aio requests over all processes.
    pub aio_max_nr: Option<u64>,
    pub aio_nr: Option<u64>,
}

pub fn settings() -> Settings {
    settings_in(Path::new(ROOT))
}

fn settings_in(root: &Path) -> Settings {
    let kernel = |name: &str| files::text(root, format!("proc/sys/kernel/{name}"));
    Settings {
        io_uring_disabled: kernel("io_uring_disabled").and_then(|v| v.parse().ok()),
        io_uring_group: kernel("io_uring_group").and_then(|v| v.parse().ok()),
        kptr_restrict: kernel("kptr_restrict").and_then(|v| v.parse().ok()),
        unprivileged_bpf_disabled: kernel("unprivileged_bpf_disabled").and_then(|v| v.parse().ok()),
        perf_event_paranoid: kernel("perf_event_paranoid").and_then(|v| v.parse().ok()),
        aio_max_nr: files::number(root, "proc/sys/fs/aio-max-nr"),
        aio_nr: files::number(root, "proc/sys/fs/aio-nr"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    #[test]
    fn kernel_versions_are_parsed_with_any_suffix() {
        assert_eq!(parse_version("6.18.44-fc-v669"), Some((6, 18, 44)));
        assert_eq!(parse_version("6.1.0-13-amd64"), Some((6, 1, 0)));
        assert_eq!(parse_version("7.2-rc1"), Some((7, 2, 0)));
        assert_eq!(parse_version("7.2-rc1.fc45"), Some((7, 2, 0)));
        assert_eq!(parse_version("5.15.0+"), Some((5, 15, 0)));
        assert_eq!(parse_version("linux"), None);
    }

    #[test]
    fn all_zero_kallsyms_addresses_are_detected_as_hidden() {
        assert_eq!(shows_addresses("0000000000000000 A fixed\nffffffff81000000 T _text\n"), Some(true));
        assert_eq!(shows_addresses("0000000000000000 A fixed\n0000000000000000 T _text\n"), Some(false));
        assert_eq!(shows_addresses(""), None);
    }

    #[test]
    fn missing_sysctls_are_unknown() {
        let t = Tree::new()
            .file("proc/sys/kernel/io_uring_disabled", "2\n")
            .file("proc/sys/kernel/io_uring_group", "-1\n")
            .file("proc/sys/kernel/perf_event_paranoid", "-1\n");
        let s = settings_in(t.root());
        assert_eq!((s.io_uring_disabled, s.io_uring_group, s.perf_event_paranoid), (Some(2), Some(-1), Some(-1)));
        assert_eq!((s.kptr_restrict, s.aio_nr), (None, None));
    }
}
