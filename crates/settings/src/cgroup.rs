//! Limits the load's CPU time with a cgroup quota, in version 1 or 2. This process creates the cgroup and enters it.
//!
//! It contains all threads of the process: those of the load and of the rings, and iotrail's own, which only wait
//! during a run. It also contains the busy neighbours that iotrail starts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::change::{Cgroup, Change, is_gone};
use super::conditions::Quota;
use super::roots::{Roots, not_writable, write};
use iotrail_base::error::{Error, Result};
use iotrail_host::cgroup::{Groups, of_this_process_in};

/// A killed process stays in its cgroup until it is gone.
const ENDING: Duration = Duration::from_secs(3);

pub fn refusal(roots: &Roots, quota: Quota) -> Option<Error> {
    let place = match place(roots) {
        Ok(place) => place,
        Err(e) => return Some(e),
    };
    if let Some(e) = not_writable("the load's CPU quota", &place.parent.join("cgroup.procs")) {
        return Some(e);
    }
    let limit = place.groups.quota_from(place.above)?;
    (limit < quota.cpus()).then(|| {
        Error::machine(
            format!("cannot set a CPU quota of {}: {} is limited to {limit}", quota.cpus(), place.parent.display()),
            "request a smaller quota, or run in another cgroup",
        )
    })
}

pub fn changes(roots: &Roots, quota: Quota, name: &str) -> Result<Vec<Change>> {
    let place = place(roots)?;
    let quota = quota.us();
    let period = Quota::PERIOD_US;
    let limits = match place.groups.unified {
        false => vec![("cpu.cfs_period_us".into(), period.to_string()), ("cpu.cfs_quota_us".into(), quota.to_string())],
        true => vec![("cpu.max".into(), format!("{quota} {period}"))],
    };
    let from = place.groups.dirs.into_iter().next().unwrap_or_default();
    let cgroup = Cgroup { made: place.parent.join(name), from, limits };
    let controller = place.gives.map(|path| Change::Controller { path, name: "cpu".into() });
    Ok(controller.into_iter().chain([Change::Cgroup(cgroup)]).collect())
}

/// Creates the cgroup and moves this process into it.
pub fn enter(group: &Cgroup) -> io::Result<()> {
    fs::create_dir(&group.made)?;
    for (file, value) in &group.limits {
        write(&group.made.join(file), value)?;
    }
    write(&group.made.join("cgroup.procs"), &std::process::id().to_string())
}

/// Moves all remaining processes back and removes the cgroup; `false` if there was none.
pub fn leave(group: &Cgroup) -> io::Result<bool> {
    let began = Instant::now();
    loop {
        let members = match fs::read_to_string(group.made.join("cgroup.procs")) {
            Ok(members) => members,
            Err(e) if is_gone(&e) && !group.made.exists() => return Ok(false),
            Err(e) if is_gone(&e) => String::new(),
            Err(e) => return Err(e),
        };
        for process in members.lines() {
            let back = write(&group.from.join("cgroup.procs"), process);
            // If the original cgroup is gone, move to the parent of the created one.
            let back = match (back, group.made.parent()) {
                (Err(e), Some(parent)) if is_gone(&e) => write(&parent.join("cgroup.procs"), process),
                (back, _) => back,
            };
            match back {
                // The process has exited.
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                other => other?,
            }
        }
        match fs::remove_dir(&group.made) {
            Ok(()) => return Ok(true),
            Err(e) if is_gone(&e) => return Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && began.elapsed() < ENDING => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(e) => return Err(e),
        }
    }
}

/// Where to create the cgroup.
#[derive(Debug)]
struct Place {
    groups: Groups,
    parent: PathBuf,
    /// Index of the parent among the process's cgroups.
    above: usize,
    /// File of `parent` in which the CPU controller must be enabled first.
    gives: Option<PathBuf>,
}

fn place(roots: &Roots) -> Result<Place> {
    let refuse =
        |what: &str, remedy: &str| Error::machine(format!("the load's CPU quota cannot be set: {what}"), remedy);
    let groups = of_this_process_in(&roots.system);
    let (Some(own), Some(top)) = (groups.dirs.first(), groups.dirs.last().cloned()) else {
        return Err(refuse(
            "no cgroup of this process with the CPU controller is visible here",
            "mount cgroups, run on the host outside a container, or omit cpu-quota",
        ));
    };
    if !groups.unified {
        if !own.join("cpu.cfs_quota_us").exists() {
            return Err(refuse("this kernel has no CPU bandwidth control", "use a kernel with CONFIG_CFS_BANDWIDTH"));
        }
        return Ok(Place { parent: own.clone(), above: 0, groups, gives: None });
    }
    // In version 2, a cgroup with processes cannot enable a controller for its children, except the root. The new
    // cgroup is therefore a sibling, below the nearest ancestor for which this one is enabled.
    let has = |folder: &Path, file: &str| {
        fs::read_to_string(folder.join(file)).is_ok_and(|t| t.split_whitespace().any(|c| c == "cpu"))
    };
    if let Some(above) = groups.dirs.iter().position(|dir| has(dir, "cgroup.subtree_control")) {
        return Ok(Place { parent: groups.dirs[above].clone(), above, groups, gives: None });
    }
    // Only the real root has no cgroup.type.
    if has(&top, "cgroup.controllers") && !top.join("cgroup.type").exists() {
        let (above, gives) = (groups.dirs.len() - 1, Some(top.join("cgroup.subtree_control")));
        return Ok(Place { parent: top, above, groups, gives });
    }
    Err(refuse(
        "no ancestor cgroup of this process delegates the CPU controller",
        "delegate it (systemd: Delegate=cpu), or run as root outside a container",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    fn roots(t: &Tree) -> Roots {
        Roots { system: t.root().into(), state: t.root().join("state") }
    }

    fn quota(cpus: f64) -> Quota {
        Quota::try_from(cpus).unwrap()
    }

    const V1: &str = "30 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      31 20 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const V2: &str = "31 20 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    fn v1() -> Tree {
        Tree::new()
            .file("proc/self/mountinfo", V1)
            .file("proc/self/cgroup", "9:name=systemd:/\n2:cpu,cpuacct:/jobs\n0::/elsewhere\n")
            .file("sys/fs/cgroup/cpu/jobs/cgroup.procs", "")
            .file("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "-1\n")
            .file("sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000\n")
    }

    fn v2(subtree_of_slice: &str) -> Tree {
        Tree::new()
            .file("proc/self/mountinfo", V2)
            .file("proc/self/cgroup", "0::/user.slice/session.scope\n")
            .file("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
            .file("sys/fs/cgroup/cgroup.subtree_control", "memory\n")
            .file("sys/fs/cgroup/cgroup.procs", "")
            .file("sys/fs/cgroup/user.slice/cgroup.subtree_control", subtree_of_slice)
            .file("sys/fs/cgroup/user.slice/cgroup.procs", "")
            .file("sys/fs/cgroup/user.slice/session.scope/cgroup.subtree_control", "\n")
    }

    #[test]
    fn a_quota_uses_the_v1_cpu_controller_in_a_hybrid_hierarchy() {
        let t = v1();
        assert!(refusal(&roots(&t), quota(0.5)).is_none());
        let jobs = t.root().join("sys/fs/cgroup/cpu/jobs");
        let expected = Cgroup {
            made: jobs.join("iotrail-1"),
            from: jobs,
            limits: vec![("cpu.cfs_period_us".into(), "100000".into()), ("cpu.cfs_quota_us".into(), "50000".into())],
        };
        assert_eq!(changes(&roots(&t), quota(0.5), "iotrail-1").unwrap(), [Change::Cgroup(expected)]);
    }

    #[test]
    fn a_quota_cgroup_is_created_below_the_nearest_delegating_ancestor() {
        let t = v2("cpu memory\n");
        let slice = t.root().join("sys/fs/cgroup/user.slice");
        let expected = Cgroup {
            made: slice.join("iotrail-1"),
            from: slice.join("session.scope"),
            limits: vec![("cpu.max".into(), "150000 100000".into())],
        };
        assert_eq!(changes(&roots(&t), quota(1.5), "iotrail-1").unwrap(), [Change::Cgroup(expected)]);
    }

    #[test]
    fn the_cpu_controller_is_enabled_at_the_v2_root_if_needed() {
        let t = v2("memory\n");
        let root = t.root().join("sys/fs/cgroup");
        let made = changes(&roots(&t), quota(1.0), "iotrail-1").unwrap();
        let controller = Change::Controller { path: root.join("cgroup.subtree_control"), name: "cpu".into() };
        assert_eq!(made[0], controller);
        assert!(matches!(&made[1], Change::Cgroup(c) if c.made == root.join("iotrail-1")));
        // A container's root is not the real root.
        let t = v2("memory\n").file("sys/fs/cgroup/cgroup.type", "domain\n");
        let e = refusal(&roots(&t), quota(1.0)).unwrap().to_string();
        assert!(e.contains("no ancestor cgroup of this process delegates the CPU controller"), "{e}");
    }

    #[test]
    fn a_lower_quota_of_an_ancestor_is_reported_in_advance() {
        let t = v1()
            .file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "40000")
            .file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
        let e = refusal(&roots(&t), quota(0.5)).unwrap().to_string();
        assert!(e.starts_with("cannot set a CPU quota of 0.5: ") && e.contains("is limited to 0.4"), "{e}");
        assert!(refusal(&roots(&t), quota(0.4)).is_none());
        let t = v2("cpu\n").file("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
        assert!(refusal(&roots(&t), quota(9.0)).is_none());
        let t = v2("cpu\n").file("sys/fs/cgroup/user.slice/cpu.max", "100000 50000\n");
        assert!(refusal(&roots(&t), quota(2.5)).is_some());
    }

    #[test]
    fn a_quota_without_a_visible_cpu_controller_is_rejected() {
        let says = |t: &Tree| refusal(&roots(t), quota(0.5)).unwrap().to_string();
        assert!(says(&Tree::new()).contains("no cgroup of this process with the CPU controller is visible here"));
        let t = v1().file("proc/self/cgroup", "2:cpu,cpuacct:/../other\n");
        assert!(says(&t).contains("is visible here"));
        let t = v1().file("proc/self/cgroup", "2:cpu,cpuacct:/\n");
        assert!(says(&t).contains("no CPU bandwidth control"));
        // A container's own cgroup, mounted as the root.
        let t = v1()
            .file("proc/self/mountinfo", "30 20 0:26 /docker/7 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
            .file("proc/self/cgroup", "2:cpu:/docker/7/jobs\n");
        assert!(refusal(&roots(&t), quota(0.5)).is_none());
    }

    #[test]
    fn a_cgroup_left_by_a_killed_run_is_removed_once() {
        let t = v1().dir("sys/fs/cgroup/cpu/jobs/iotrail-1");
        let jobs = t.root().join("sys/fs/cgroup/cpu/jobs");
        let group = Cgroup { made: jobs.join("iotrail-1"), from: jobs.clone(), limits: Vec::new() };
        assert!(leave(&group).unwrap());
        assert!(!group.made.exists());
        assert!(!leave(&group).unwrap());
    }
}
