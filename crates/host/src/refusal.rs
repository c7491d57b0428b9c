//! Explains why the kernel rejected an interface. One errno has several causes, which settings of the machine
//! distinguish.

use super::kernel::{self, Settings, Version};
use super::privileges::{Capability, Privileges, Seccomp};

/// A rejection as text for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub why: String,
    pub restore: String,
}

impl Refusal {
    pub(super) fn new(why: impl Into<String>, restore: impl Into<String>) -> Self {
        Self { why: why.into(), restore: restore.into() }
    }
}

/// Facts that distinguish the causes.
#[derive(Debug, Clone)]
pub struct Circumstances {
    pub version: Option<Version>,
    pub settings: Settings,
    pub privileges: Privileges,
}

impl Circumstances {
    pub fn read() -> Self {
        Self { version: kernel::version(), settings: kernel::settings(), privileges: Privileges::read() }
    }

    fn older_than(&self, version: Version) -> bool {
        self.version.is_some_and(|v| v < version)
    }

    /// Rings counted as locked memory (RLIMIT_MEMLOCK) before 5.12, which charges them to the memory cgroup, and again
    /// since 6.14, in which rings are regions.
    fn rings_are_locked_memory(&self) -> bool {
        let charged = self.version.is_some_and(|v| !((5, 12, 0)..(6, 14, 0)).contains(&v));
        charged && self.privileges.has(Capability::IpcLock) != Some(true)
    }

    fn filtered(&self) -> bool {
        matches!(self.privileges.seccomp, Some(Seccomp::Filter | Seccomp::Strict))
    }

    /// io_uring_setup rejected a plain ring.
    pub fn ring(&self, errno: i32) -> Refusal {
        let filter = || {
            Refusal::new(
                "the seccomp filter of this process (a container's or a service's) blocks io_uring",
                "let the filter allow io_uring_setup, io_uring_enter and io_uring_register, or run outside it",
            )
        };
        match errno {
            libc::ENOSYS if self.older_than((5, 1, 0)) => {
                Refusal::new("this kernel is older than io_uring", "Linux 5.1 or later (6.1 for all features)")
            }
            // Since 6.6 the setting exists if io_uring is built in, so a filter must have rejected the call.
            libc::ENOSYS
                if self.filtered() && (self.settings.io_uring_disabled.is_some() || self.older_than((6, 6, 0))) =>
            {
                filter()
            }
            libc::ENOSYS => Refusal::new("this kernel was built without io_uring", "a kernel with CONFIG_IO_URING=y"),
            libc::EPERM if self.settings.io_uring_disabled == Some(2) => Refusal::new(
                "kernel.io_uring_disabled is 2: no process may create a ring, root included",
                "as root: sysctl kernel.io_uring_disabled=0",
            ),
            libc::EPERM
                if self.settings.io_uring_disabled == Some(1)
                    && self.privileges.has(Capability::SysAdmin) != Some(true) =>
            {
                let group = match self.settings.io_uring_group {
                    Some(gid) if gid >= 0 => format!("join the group {gid} (kernel.io_uring_group)"),
                    _ => "set kernel.io_uring_group to a group and join it".into(),
                };
                Refusal::new(
                    "kernel.io_uring_disabled is 1: only its group and CAP_SYS_ADMIN may create a ring",
                    format!("run as root, {group}, or as root: sysctl kernel.io_uring_disabled=0"),
                )
            }
            libc::EPERM if self.filtered() => filter(),
            libc::EPERM => Refusal::new(
                "a security module (such as SELinux) denies io_uring to this process",
                "allow it in the module's policy",
            ),
            libc::ENOMEM if self.rings_are_locked_memory() => Refusal::new(
                "a ring counts as locked memory, and this user's limit is reached",
                "raise it: ulimit -l unlimited, LimitMEMLOCK=infinity of the service, or run with CAP_IPC_LOCK",
            ),
            libc::ENOMEM => {
                Refusal::new("not enough memory for a ring", "free memory, or raise this process's memory cgroup limit")
            }
            libc::EMFILE => Refusal::new("this process has reached its open file limit", "raise it: ulimit -n"),
            libc::ENFILE => Refusal::new("the system has reached its open file limit", "raise fs.file-max"),
            libc::EAGAIN => Refusal::new(
                "the ring's kernel thread could not be created: too many processes",
                "raise the limit: ulimit -u, or this process's pids cgroup limit",
            ),
            other => unexplained("cannot create a ring", other),
        }
    }

    /// A setup flag was rejected although a plain ring was not. `since`: first kernel with the flag.
    pub(super) fn flag(&self, errno: i32, since: Version) -> Refusal {
        match errno {
            libc::EINVAL if self.older_than(since) => Refusal::new("not supported by this kernel", or_later(since)),
            libc::EINVAL => Refusal::new(
                format!("the kernel rejects it, although Linux {} supports it", name(since)),
                format!("{}, without a distributor's change to this feature", or_later(since)),
            ),
            libc::EPERM if self.older_than((5, 11, 0)) => {
                Refusal::new("before Linux 5.11, only root may use SQPOLL", "run as root")
            }
            other => self.ring(other),
        }
    }

    /// io_uring_register rejected an operation.
    pub(super) fn register(&self, errno: i32, since: Version) -> Refusal {
        match errno {
            libc::EINVAL if self.older_than(since) => Refusal::new("not supported by this kernel", or_later(since)),
            libc::ENOMEM => Refusal::new(
                "it counts as locked memory, and this user's limit is reached",
                "raise it: ulimit -l unlimited, LimitMEMLOCK=infinity of the service, or run with CAP_IPC_LOCK",
            ),
            libc::EPERM | libc::ENOSYS | libc::EACCES if self.filtered() => Refusal::new(
                "the seccomp filter of this process blocks io_uring_register",
                "let the filter allow io_uring_register, or run outside it",
            ),
            other => unexplained("io_uring_register", other),
        }
    }

    /// io_setup (native aio) failed.
    pub(super) fn native_aio(&self, errno: i32) -> Refusal {
        match errno {
            libc::EAGAIN => {
                let room = match (self.settings.aio_nr, self.settings.aio_max_nr) {
                    (Some(nr), Some(max)) => format!(" ({nr} of {max})"),
                    _ => String::new(),
                };
                Refusal::new(
                    format!("the system-wide limit of native aio requests is reached{room}"),
                    "as root: raise fs.aio-max-nr with sysctl",
                )
            }
            libc::EPERM | libc::ENOSYS | libc::EACCES if self.filtered() => Refusal::new(
                "the seccomp filter of this process blocks native aio",
                "let the filter allow io_setup, io_submit, io_getevents and io_destroy, or run outside it",
            ),
            libc::ENOSYS => Refusal::new("this kernel was built without native aio", "a kernel with CONFIG_AIO=y"),
            libc::ENOMEM => {
                Refusal::new("not enough memory for an aio context", "free memory, or raise the cgroup's limit")
            }
            other => unexplained("cannot create an aio context", other),
        }
    }
}

/// `6.1` for (6, 1, 0).
pub(super) fn name((major, minor, _): Version) -> String {
    format!("{major}.{minor}")
}

pub(super) fn or_later(since: Version) -> String {
    format!("Linux {} or later", name(since))
}

/// Unknown cause: the kernel's error text.
pub(super) fn unexplained(what: &str, errno: i32) -> Refusal {
    let cause = std::io::Error::from_raw_os_error(errno);
    Refusal::new(format!("{what}: {cause}"), "report this with the kernel's release")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(version: Version, disabled: Option<u32>, capabilities: u64, seccomp: Seccomp) -> Circumstances {
        Circumstances {
            version: Some(version),
            settings: Settings { io_uring_disabled: disabled, io_uring_group: Some(7), ..Default::default() },
            privileges: Privileges {
                euid: 1000,
                effective: Some(capabilities),
                seccomp: Some(seccomp),
                no_new_privileges: Some(false),
                initial_namespace: Some(true),
                memlock_bytes: None,
            },
        }
    }

    #[test]
    fn a_rejected_ring_setup_has_one_cause() {
        let new = (6, 18, 0);
        let why = |c: Circumstances, errno| c.ring(errno).why;
        let off = Seccomp::Off;
        assert!(why(with(new, Some(2), !0, off), libc::EPERM).contains("is 2: no process"));
        assert!(why(with(new, Some(1), 0, off), libc::EPERM).contains("is 1: only its group"));
        assert!(with(new, Some(1), 0, off).ring(libc::EPERM).restore.contains("join the group 7"));
        let mut nobody = with(new, Some(1), 0, off);
        nobody.settings.io_uring_group = Some(-1);
        assert!(nobody.ring(libc::EPERM).restore.contains("set kernel.io_uring_group to a group"));
        assert!(why(with(new, Some(1), !0, off), libc::EPERM).contains("security module"));
        assert!(why(with(new, Some(0), 0, Seccomp::Filter), libc::EPERM).contains("seccomp"));
        assert!(why(with(new, Some(0), 0, Seccomp::Filter), libc::ENOSYS).contains("seccomp"));
        assert!(why(with(new, None, 0, Seccomp::Filter), libc::ENOSYS).contains("built without"));
        assert!(why(with((6, 1, 0), None, 0, Seccomp::Filter), libc::ENOSYS).contains("seccomp"));
        assert!(why(with(new, None, 0, off), libc::ENOSYS).contains("built without"));
        assert!(why(with((4, 19, 0), None, 0, off), libc::ENOSYS).contains("older"));
        assert!(why(with((5, 10, 0), None, 0, off), libc::ENOMEM).contains("locked"));
        assert!(why(with(new, None, 0, off), libc::ENOMEM).contains("locked"));
        assert!(why(with(new, None, !0, off), libc::ENOMEM).contains("not enough memory"));
        assert!(why(with((6, 1, 0), None, 0, off), libc::ENOMEM).contains("not enough memory"));
    }

    #[test]
    fn a_flag_of_a_later_kernel_is_reported_with_its_release() {
        let c = with((5, 15, 0), None, 0, Seccomp::Off);
        assert_eq!(c.flag(libc::EINVAL, (6, 1, 0)).restore, "Linux 6.1 or later");
        assert!(c.flag(libc::EINVAL, (5, 5, 0)).why.contains("though Linux 5.5 supports it"));
    }

    #[test]
    fn exhausted_native_aio_requests_are_reported_with_the_limit() {
        let mut c = with((6, 1, 0), None, 0, Seccomp::Off);
        (c.settings.aio_nr, c.settings.aio_max_nr) = (Some(65536), Some(65536));
        assert!(c.native_aio(libc::EAGAIN).why.ends_with("(65536 of 65536)"));
    }
}
