//! The kernel: release, BTF and restrictions.

use iotrail_host::refusal::Circumstances;
use iotrail_host::{kernel, lockdown, procfs};
use iotrail_report::check::{Item, Section};

pub(in crate::cli::check) fn kernel(circumstances: &Circumstances) -> Vec<Item> {
    const HERE: Section = Section::Kernel;
    let release = kernel::release();
    let text = release.as_deref().unwrap_or("unknown");
    let release = match circumstances.version {
        Some(v) if v < (6, 1, 0) => Item::missing(
            HERE,
            "kernel.release",
            "release",
            text,
            "the probes: their events have a different format before 6.1",
            "Linux 6.1 or later",
        ),
        Some(_) => Item::ok(HERE, "kernel.release", "release", text),
        None => Item::unknown(HERE, "kernel.release", "release", text, "mount /proc"),
    };
    let btf = if kernel::btf() {
        Item::ok(HERE, "kernel.btf", "type information", "/sys/kernel/btf/vmlinux is readable")
    } else {
        Item::missing(
            HERE,
            "kernel.btf",
            "type information",
            "/sys/kernel/btf/vmlinux is missing or not readable",
            "all probes",
            "a kernel with CONFIG_DEBUG_INFO_BTF=y, and sysfs mounted",
        )
    };
    vec![release, btf, locked(lockdown::detect()), symbols(kernel::kallsyms(), circumstances.settings.kptr_restrict)]
}

pub(super) fn locked(found: lockdown::Lockdown) -> Item {
    let (here, id, name) = (Section::Kernel, "kernel.lockdown", "lockdown");
    let how = found.how;
    match found.mode.as_deref() {
        Some("confidentiality") => Item::missing(
            here,
            id,
            name,
            format!("confidentiality ({how})"),
            "the probes: BPF programs may not read kernel memory",
            "boot with lockdown=integrity or without lockdown",
        ),
        Some("integrity") => Item::ok(here, id, name, format!("integrity ({how}): the probes are allowed")),
        Some(mode) => Item::ok(here, id, name, format!("{mode} ({how})")),
        None => Item::unknown(here, id, name, how, "mount -t securityfs securityfs /sys/kernel/security, as root"),
    }
}

pub(super) fn symbols(readable: Option<bool>, restrict: Option<u32>) -> Item {
    let (here, id, name) = (Section::Kernel, "kernel.symbols", "kernel symbols");
    let lost = "the names of the interrupts and system calls that delivered completions";
    match readable {
        Some(true) => Item::ok(here, id, name, "/proc/kallsyms shows addresses"),
        Some(false) => {
            let restore = match restrict {
                Some(2) => "as root: sysctl kernel.kptr_restrict=1",
                _ => "run as root or with CAP_SYSLOG",
            };
            Item::missing(here, id, name, "/proc/kallsyms hides addresses from this process", lost, restore)
        }
        None => {
            let (why, restore) = match procfs::is_mounted() {
                true => ("/proc/kallsyms is not readable", "a kernel with CONFIG_KALLSYMS=y"),
                false => ("/proc is not mounted here", "mount -t proc proc /proc"),
            };
            Item::missing(here, id, name, why, lost, restore)
        }
    }
}
