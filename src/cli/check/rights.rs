//! Privileges: user, capabilities, seccomp filter, and locked-memory limit.

use iotrail_host::privileges::{Capability, Privileges, Seccomp};
use iotrail_report::check::{Item, Section::Privileges as HERE};

pub(super) fn items(p: &Privileges) -> Vec<Item> {
    vec![probing(p), filter(p), memlock(p)]
}

/// BPF programs on tracepoints need CAP_BPF and CAP_PERFMON (5.8 and later); CAP_SYS_ADMIN includes both.
fn probing(p: &Privileges) -> Item {
    let (id, name) = ("privileges.probing", "may load probes");
    let who = if p.euid == 0 { "root".to_owned() } else { format!("user {}", p.euid) };
    let Some(_) = p.effective else {
        return Item::unknown(
            HERE,
            id,
            name,
            format!("{who}; the capabilities are unreadable"),
            "mount /proc where this process can read it",
        );
    };
    let held: Vec<&str> =
        Capability::ALL.into_iter().filter(|&c| p.has(c) == Some(true)).map(Capability::name).collect();
    let has = |c| p.has(c) == Some(true);
    if has(Capability::SysAdmin) || has(Capability::Bpf) && has(Capability::Perfmon) {
        return Item::ok(HERE, id, name, format!("{who}, with {}", held.join(", ")));
    }
    let with = if held.is_empty() { "no relevant capability".to_owned() } else { held.join(", ") };
    let restore = if p.initial_namespace == Some(false) {
        "run it outside this user namespace (a rootless container's), as root or with CAP_BPF and CAP_PERFMON"
            .to_owned()
    } else if p.euid == 0 {
        "give the container CAP_BPF and CAP_PERFMON (docker run --cap-add BPF --cap-add PERFMON)".to_owned()
    } else if p.no_new_privileges == Some(true) {
        "start it outside this sandbox (no_new_privs is set: sudo has no effect here), as root or with CAP_BPF and \
         CAP_PERFMON"
            .to_owned()
    } else {
        "sudo; or chgrp GROUP, chmod 0750 and setcap cap_bpf,cap_perfmon,cap_syslog+ep on the program, in this order: each \
         member of GROUP may then trace every process, root's included"
            .to_owned()
    };
    Item::missing(
        HERE,
        id,
        name,
        format!("{who}, with {with}"),
        "the probes: loads run and are timed, but delivery paths are unknown",
        restore,
    )
}

fn filter(p: &Privileges) -> Item {
    let (id, name) = ("privileges.seccomp", "seccomp");
    match p.seccomp {
        Some(Seccomp::Off) => Item::ok(HERE, id, name, "no filter on this process's system calls"),
        Some(Seccomp::Filter | Seccomp::Strict) => {
            Item::fact(HERE, id, name, "system calls of this process are filtered; rejected features are listed below")
        }
        None => Item::unknown(HERE, id, name, "unknown whether system calls are filtered", "mount /proc"),
    }
}

fn memlock(p: &Privileges) -> Item {
    let (id, name) = ("privileges.memlock", "locked memory");
    // The default load registers 16 buffers of 4 KiB.
    const DEFAULT_LOAD: u64 = 64 << 10;
    if p.has(Capability::IpcLock) == Some(true) {
        return Item::ok(HERE, id, name, "no limit for this process (CAP_IPC_LOCK)");
    }
    let raise = "ulimit -l unlimited, LimitMEMLOCK=infinity of the service, or CAP_IPC_LOCK";
    match p.memlock_bytes {
        None => Item::unknown(HERE, id, name, "the limit is unreadable", "let getrlimit through the seccomp filter"),
        Some((None, _)) => Item::ok(HERE, id, name, "no limit"),
        Some((Some(bytes), _)) if bytes >= DEFAULT_LOAD => Item::ok(
            HERE,
            id,
            name,
            format!("{} for this user's registered buffers (and rings, from Linux 6.14)", size(bytes)),
        ),
        Some((Some(bytes), _)) => Item::missing(
            HERE,
            id,
            name,
            format!("{}: less than the default load's buffers ({})", size(bytes), size(DEFAULT_LOAD)),
            "registered buffers (--register buffers), and many concurrent rings",
            raise,
        ),
    }
}

/// `needed`: number of descriptors with all probes loaded; `None` if unknown.
pub(super) fn open_files(limit: Option<u64>, needed: Option<u64>) -> Item {
    let (id, name) = ("privileges.open_files", "open files");
    match (limit, needed) {
        (None, _) => {
            Item::unknown(HERE, id, name, "the limit is unreadable", "let getrlimit through the seccomp filter")
        }
        (Some(limit), Some(needed)) if limit < needed => Item::missing(
            HERE,
            id,
            name,
            format!("at most {limit}, and the probes need up to {needed}"),
            "some or all probes; loads with many jobs or connections",
            format!("raise the hard limit: ulimit -Hn {needed}, or LimitNOFILE={needed} of the service"),
        ),
        (Some(limit), _) => Item::ok(HERE, id, name, format!("{limit} for this process")),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 && b % (1 << 30) == 0 => format!("{} GiB", b >> 30),
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 => format!("{} KiB", b >> 10),
        b => format!("{b} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_report::check::State;

    fn user(euid: u32, effective: u64, memlock: u64) -> Privileges {
        Privileges {
            euid,
            effective: Some(effective),
            seccomp: Some(Seccomp::Off),
            no_new_privileges: Some(false),
            initial_namespace: Some(true),
            memlock_bytes: Some((Some(memlock), None)),
        }
    }

    #[test]
    fn missing_capabilities_of_root_are_explained_by_a_container() {
        let item = probing(&user(0, 0, 0));
        assert_eq!(item.state, State::Missing);
        assert!(item.restore.unwrap().contains("--cap-add BPF"));
        assert_eq!(probing(&user(1000, 1 << 38 | 1 << 39, 0)).state, State::Ok);
        assert_eq!(probing(&user(1000, 1 << 39, 0)).state, State::Missing);
        assert!(probing(&user(1000, 0, 0)).restore.unwrap().starts_with("sudo"));
        let sandboxed = Privileges { no_new_privileges: Some(true), ..user(1000, 0, 0) };
        assert!(probing(&sandboxed).restore.unwrap().contains("no_new_privs"));
    }

    #[test]
    fn the_open_file_limit_is_compared_with_the_probes_need() {
        assert_eq!(open_files(Some(1024), Some(300)).state, State::Ok);
        let item = open_files(Some(64), Some(300));
        assert_eq!((item.state, item.text.as_str()), (State::Missing, "at most 64, and the probes need up to 300"));
        assert!(item.restore.unwrap().contains("ulimit -Hn 300"));
        assert_eq!(open_files(Some(64), None).state, State::Ok);
        assert_eq!(open_files(None, Some(300)).state, State::Unknown);
    }

    #[test]
    fn the_memlock_limit_is_compared_with_the_default_load() {
        assert_eq!(memlock(&user(1, 0, 65_536)).state, State::Ok);
        assert!(memlock(&user(1, 0, 8 << 20)).text.starts_with("8 MiB for"));
        assert_eq!(memlock(&user(1, 0, 65_535)).state, State::Missing);
        assert_eq!(memlock(&user(1, 1 << 14, 0)).state, State::Ok);
    }
}
