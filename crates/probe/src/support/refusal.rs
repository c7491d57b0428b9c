//! Error texts for loads that the kernel refuses.

use std::mem::MaybeUninit;
use std::path::Path;

use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};

use super::messages::quiet;
use crate::skel::IotrailSkelBuilder;
use iotrail_base::error::{Error, errno_in};
use iotrail_host::limits;
use iotrail_host::lockdown;
use iotrail_host::privileges::{Capability, Seccomp};
use iotrail_host::refusal::Circumstances;

/// The kernel's BTF.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Cause and remedy of a refused load. Each cause has its own text: a missing privilege is not reported as a missing
/// kernel feature.
pub fn refusal(e: &libbpf_rs::Error) -> (String, &'static str) {
    match errno(e) {
        Some(libc::EPERM) => not_allowed(&Circumstances::read(), || lockdown::detect().mode),
        // Without sysfs the kernel's BTF is not visible, so that every type seems to be missing.
        Some(libc::ENOENT | libc::ESRCH) if !Path::new(TYPES).exists() => (
            format!("{TYPES} cannot be read: sysfs is not mounted here, or the kernel has no type information"),
            "mount -t sysfs sysfs /sys",
        ),
        // libbpf's feature tests need descriptors too; without any, libbpf considers features missing.
        Some(libc::EINVAL) if has_few_files(limits::open_files(), descriptors()) => cause(libc::EMFILE),
        Some(number) => cause(number),
        None => match e.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => cause(libc::EACCES),
            libbpf_rs::ErrorKind::NotFound => cause(libc::ENOENT),
            libbpf_rs::ErrorKind::OutOfMemory => cause(libc::ENOMEM),
            _ => ("the kernel rejected the program".into(), REPORT),
        },
    }
}

/// The error of a refused load.
pub fn refused(what: &str, e: libbpf_rs::Error) -> Error {
    let (why, remedy) = refusal(&e);
    Error::machine(format!("{what}: {why}"), remedy).because(e)
}

/// Number of open files with all probes loaded: two per program, one per map, and a few more.
pub fn descriptors() -> Option<u64> {
    const OTHERS: usize = 32;
    /// More than all probes need.
    const MOST: u64 = 512;
    quiet();
    let mut space = MaybeUninit::<OpenObject>::uninit();
    let Ok(open) = IotrailSkelBuilder::default().open(&mut space) else {
        // libbpf needs a descriptor per map to read the object, so with fewer the probes cannot be counted.
        return limits::open_files().filter(|limit| *limit < MOST).map(|_| MOST);
    };
    let object = open.open_object();
    Some((object.maps().count() + 2 * object.progs().count() + OTHERS) as u64)
}

fn has_few_files(limit: Option<u64>, needed: Option<u64>) -> bool {
    limit.zip(needed).is_some_and(|(limit, needed)| limit < needed)
}

const REPORT: &str = "report this with the kernel release and the output of `iotrail check --verbose`";

/// The errno of a libbpf error, which only its text contains.
fn errno(e: &libbpf_rs::Error) -> Option<i32> {
    errno_in(&format!("{e:#}"))
}

fn cause(number: i32) -> (String, &'static str) {
    let (why, remedy) = match number {
        libc::EMFILE => (
            "this process has reached its open file limit, and each probe needs one file",
            "raise the hard open file limit: ulimit -Hn, or LimitNOFILE of the service; `iotrail check` shows how many are needed",
        ),
        libc::ENFILE => ("the system has reached its open file limit", "as root: raise fs.file-max with sysctl"),
        libc::ENOMEM => (
            "not enough memory for the probes' maps",
            "free memory, or raise this process's memory cgroup limit (memory.max, MemoryMax of the service)",
        ),
        libc::ENOSPC => (
            "the kernel has no memory for another probe or map",
            "stop other programs that use BPF, or run fewer at once",
        ),
        libc::EBUSY | libc::EEXIST => {
            ("another program uses the probe's attachment point", "stop other tracers (perf, bpftrace) and try again")
        }
        libc::EAGAIN | libc::EINTR => ("the kernel aborted loading the program", "try again"),
        libc::ENOSYS => (
            "the kernel has no bpf(2), or a seccomp filter hides it",
            "a kernel with CONFIG_BPF_SYSCALL, or let the filter of the container or service allow bpf",
        ),
        libc::ENOENT | libc::ESRCH => ("the kernel lacks a type or tracepoint that the program reads", REPORT),
        libc::EINVAL | libc::EACCES | libc::E2BIG | libc::EFAULT => {
            ("the kernel's verifier rejected the program", REPORT)
        }
        other => {
            let cause = std::io::Error::from_raw_os_error(other);
            return (format!("the kernel rejected the program: {cause}"), REPORT);
        }
    };
    (why.into(), remedy)
}

/// Reasons for EPERM: missing privileges, namespaces and other restrictions.
fn not_allowed(c: &Circumstances, lockdown: impl Fn() -> Option<String>) -> (String, &'static str) {
    let p = &c.privileges;
    let has = |capability| p.has(capability) == Some(true);
    let may = has(Capability::SysAdmin) || has(Capability::Bpf) && has(Capability::Perfmon);
    let (why, remedy) = if p.initial_namespace == Some(false) {
        ("the process is in a user namespace", "run it outside, as root or with CAP_BPF and CAP_PERFMON")
    } else if !may && p.euid == 0 {
        ("the process is root without CAP_BPF and CAP_PERFMON", "give the container or service CAP_BPF and CAP_PERFMON")
    } else if !may {
        ("the process has neither CAP_BPF nor CAP_SYS_ADMIN", "run as root, or with CAP_BPF and CAP_PERFMON")
    } else if lockdown().as_deref() == Some("confidentiality") {
        ("the kernel is locked down: confidentiality", "boot without lockdown=confidentiality")
    } else if matches!(p.seccomp, Some(Seccomp::Filter | Seccomp::Strict)) {
        (
            "the seccomp filter of the container or service blocks bpf",
            "let the filter allow bpf and perf_event_open, or run outside it",
        )
    } else {
        (
            "a security module (such as SELinux) or the locked memory limit",
            "allow bpf in its policy, or ulimit -l unlimited",
        )
    };
    (format!("the kernel does not let this process load BPF programs: {why}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_host::privileges::Privileges;

    #[test]
    fn each_probe_load_errno_has_a_cause_and_a_remedy() {
        let of = |number| refusal(&libbpf_rs::Error::from_raw_os_error(number));
        for (number, why, remedy) in [
            (libc::EMFILE, "reached its open file limit", "ulimit -Hn"),
            (libc::ENFILE, "the system has reached its open file limit", "fs.file-max"),
            (libc::ENOMEM, "memory for the probes' maps", "memory cgroup"),
            (libc::ENOSPC, "no memory for another probe", "fewer at once"),
            (libc::EBUSY, "another program uses", "other tracers"),
            (libc::EINVAL, "the kernel's verifier rejected", "check --verbose"),
            (libc::E2BIG, "the kernel's verifier rejected", "check --verbose"),
            (libc::EACCES, "the kernel's verifier rejected", "check --verbose"),
            (libc::ENOENT, "lacks a type or tracepoint", "check --verbose"),
            (libc::ENOSYS, "a seccomp filter hides it", "CONFIG_BPF_SYSCALL"),
            (libc::EIO, "Input/output error", "check --verbose"),
        ] {
            let (got, restore) = of(number);
            assert!(got.contains(why) && restore.contains(remedy), "{number}: {got}; {restore}");
        }
    }

    #[test]
    fn a_descriptor_limit_below_the_probes_needs_is_detected() {
        assert!(has_few_files(Some(48), Some(300)));
        assert!(
            !has_few_files(Some(1024), Some(300)) && !has_few_files(None, Some(300)) && !has_few_files(Some(48), None)
        );
    }

    #[test]
    fn a_missing_privilege_is_distinguished_from_other_restrictions() {
        let with = |euid, effective: u64, seccomp, initial| {
            let mut c = Circumstances { version: None, settings: Default::default(), privileges: Privileges::read() };
            (c.privileges.euid, c.privileges.effective) = (euid, Some(effective));
            (c.privileges.seccomp, c.privileges.initial_namespace) = (Some(seccomp), Some(initial));
            c
        };
        let says = |c: Circumstances, mode: &str| not_allowed(&c, || Some(mode.into()));
        let off = Seccomp::Off;
        assert!(says(with(0, 0, off, true), "none").1.starts_with("give the container"));
        assert!(says(with(7, 0, Seccomp::Filter, true), "none").1.starts_with("run as root"));
        assert!(says(with(0, !0, off, false), "none").0.contains("user namespace"));
        assert!(says(with(0, !0, off, true), "confidentiality").1.starts_with("boot without"));
        assert!(says(with(0, !0, Seccomp::Filter, true), "none").0.contains("seccomp"));
        assert!(says(with(0, !0, off, true), "none").0.contains("security module"));
    }
}
