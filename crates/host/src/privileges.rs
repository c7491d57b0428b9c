//! Privileges of this process: identity, capabilities, seccomp filter, locked memory limit.

use std::path::Path;

use rustix::process::Resource;

use super::files::{self, ROOT};
use super::limits;

/// A capability that iotrail needs, numbered by its bit (linux/capability.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    IpcLock = 14,
    SysRawio = 17,
    SysAdmin = 21,
    SysNice = 23,
    SysResource = 24,
    Perfmon = 38,
    Bpf = 39,
}

impl Capability {
    pub const ALL: [Capability; 7] = [
        Capability::SysAdmin,
        Capability::Bpf,
        Capability::Perfmon,
        Capability::SysNice,
        Capability::IpcLock,
        Capability::SysResource,
        Capability::SysRawio,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Capability::IpcLock => "CAP_IPC_LOCK",
            Capability::SysRawio => "CAP_SYS_RAWIO",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::SysNice => "CAP_SYS_NICE",
            Capability::SysResource => "CAP_SYS_RESOURCE",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

/// Seccomp mode of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seccomp {
    Off,
    Strict,
    Filter,
}

/// From /proc/self/status and getrlimit(2); `None` if unreadable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privileges {
    pub euid: u32,
    /// Effective capabilities as a bit mask.
    pub effective: Option<u64>,
    pub seccomp: Option<Seccomp>,
    /// If set, programs started by this process gain no privileges: sudo and file capabilities have no effect.
    pub no_new_privileges: Option<bool>,
    /// `false` in a nested user namespace, where capabilities only apply to the namespace's own resources.
    pub initial_namespace: Option<bool>,
    /// Soft and hard limit of locked memory; an inner `None` means unlimited.
    pub memlock_bytes: Option<(Option<u64>, Option<u64>)>,
}

impl Privileges {
    pub fn read() -> Self {
        let euid = rustix::process::geteuid().as_raw();
        let status = files::text(Path::new(ROOT), "proc/self/status").unwrap_or_default();
        let uid_map = files::text(Path::new(ROOT), "proc/self/uid_map");
        let memlock = limits::now(Resource::Memlock).ok();
        Self {
            memlock_bytes: memlock.map(|limit| (limit.current, limit.maximum)),
            initial_namespace: uid_map.as_deref().map(maps_everyone),
            ..Self::parse(euid, &status)
        }
    }

    fn parse(euid: u32, status: &str) -> Self {
        let field = |name: &str| {
            status.lines().filter_map(|l| l.split_once(':')).find(|(k, _)| *k == name).map(|(_, v)| v.trim())
        };
        Self {
            euid,
            effective: field("CapEff").and_then(|v| u64::from_str_radix(v, 16).ok()),
            seccomp: field("Seccomp").and_then(|v| match v {
                "0" => Some(Seccomp::Off),
                "1" => Some(Seccomp::Strict),
                "2" => Some(Seccomp::Filter),
                _ => None,
            }),
            no_new_privileges: field("NoNewPrivs").map(|v| v == "1"),
            initial_namespace: None,
            memlock_bytes: None,
        }
    }

    /// Whether the capability is effective in the initial user namespace, as BPF, io_uring's setting and locked memory
    /// require; `None` if unreadable.
    pub fn has(&self, capability: Capability) -> Option<bool> {
        let held = self.effective? & (1 << capability as u32) != 0;
        Some(held && self.initial_namespace != Some(false))
    }
}

/// Whether this process may load BPF programs.
pub fn may_watch() -> bool {
    let privileges = Privileges::read();
    let has = |capability| privileges.has(capability) == Some(true);
    has(Capability::SysAdmin) || has(Capability::Bpf) && has(Capability::Perfmon)
}

/// Only the initial user namespace maps all 2³² − 1 IDs to themselves.
fn maps_everyone(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_and_seccomp_mode_are_parsed_from_the_process_status() {
        let status = "Name:\tx\nCapEff:\t000000c000200000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let p = Privileges::parse(1000, status);
        let has: Vec<_> =
            Capability::ALL.into_iter().filter(|&c| p.has(c) == Some(true)).map(Capability::name).collect();
        assert_eq!(has, ["CAP_SYS_ADMIN", "CAP_BPF", "CAP_PERFMON"]);
        assert_eq!((p.seccomp, p.no_new_privileges), (Some(Seccomp::Filter), Some(true)));
    }

    #[test]
    fn capabilities_in_a_user_namespace_are_not_effective() {
        assert!(maps_everyone("         0          0 4294967295"));
        assert!(!maps_everyone("         0       1000          1"));
        let inside =
            Privileges { initial_namespace: Some(false), ..Privileges::parse(0, "CapEff:\tffffffffffffffff\n") };
        assert_eq!(inside.has(Capability::Bpf), Some(false));
    }

    #[test]
    fn missing_status_fields_are_unknown() {
        let p = Privileges::parse(0, "");
        assert_eq!((p.has(Capability::Bpf), p.seccomp, p.no_new_privileges), (None, None, None));
    }
}
