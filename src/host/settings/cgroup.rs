//! The load's share of CPU time: a cgroup of ours with a quota, version 1 or 2, which this process moves into.
//!
//! All threads of the process are in it: the load's, those of the rings, and the tool's own, which only wait meanwhile; so
//! are the busy neighbours that it starts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::change::{Change, is_gone};
use super::conditions::Quota;
use super::roots::{Roots, not_writable, write};
use crate::error::{Error, Result};

/// A process that was killed is in its cgroup until it is gone.
const ENDING: Duration = Duration::from_secs(3);

/// A cgroup that is made for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    pub made: PathBuf,
    /// Where this process was, and goes back to.
    pub from: PathBuf,
    /// Files of the new one and their values, in order.
    pub limits: Vec<(String, String)>,
}

/// The hierarchy that the CPU controller is in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    version: u8,
    mount: PathBuf,
    /// The folder of the cgroup that this process is in.
    own: PathBuf,
}

pub fn refusal(roots: &Roots, quota: Quota) -> Option<Error> {
    let place = match place(roots) {
        Ok(place) => place,
        Err(e) => return Some(e),
    };
    if let Some(e) = not_writable("the load's CPU quota", &place.parent.join("cgroup.procs")) {
        return Some(e);
    }
    let limit = limit_above(&place)?;
    (limit < quota.cpus()).then(|| {
        Error::machine(
            format!("a CPU quota of {} cannot be had: {} is limited to {limit}", quota.cpus(), place.parent.display()),
            "ask for less, or run in another cgroup",
        )
    })
}

pub fn changes(roots: &Roots, quota: Quota, name: &str) -> Result<Vec<Change>> {
    let place = place(roots)?;
    let quota = quota.us();
    let period = Quota::PERIOD_US;
    let limits = match place.hierarchy.version {
        1 => vec![("cpu.cfs_period_us".into(), period.to_string()), ("cpu.cfs_quota_us".into(), quota.to_string())],
        _ => vec![("cpu.max".into(), format!("{quota} {period}"))],
    };
    let cgroup = Cgroup { made: place.parent.join(name), from: place.hierarchy.own, limits };
    let controller = place.gives.map(|path| Change::Controller { path, name: "cpu".into() });
    Ok(controller.into_iter().chain([Change::Cgroup(cgroup)]).collect())
}

/// Makes the cgroup and moves this process into it.
pub fn enter(group: &Cgroup) -> io::Result<()> {
    fs::create_dir(&group.made)?;
    for (file, value) in &group.limits {
        write(&group.made.join(file), value)?;
    }
    write(&group.made.join("cgroup.procs"), &std::process::id().to_string())
}

/// Moves every process that is still in it back, and removes it. `false`: there was none.
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
            // Where we were is gone: to the cgroup that ours is in.
            let back = match (back, group.made.parent()) {
                (Err(e), Some(parent)) if is_gone(&e) => write(&parent.join("cgroup.procs"), process),
                (back, _) => back,
            };
            match back {
                // It has ended meanwhile.
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

/// Where our cgroup is to be made.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    hierarchy: Hierarchy,
    parent: PathBuf,
    /// The file of `parent` that has to give the CPU controller first.
    gives: Option<PathBuf>,
}

fn place(roots: &Roots) -> Result<Place> {
    let refuse =
        |what: &str, remedy: &str| Error::machine(format!("the load's CPU quota cannot be set: {what}"), remedy);
    let hierarchy = hierarchy(roots).ok_or_else(|| {
        refuse("no cgroup hierarchy with the CPU controller is mounted here", "mount cgroups, or leave cpu-quota out")
    })?;
    let own = hierarchy.own.clone();
    if !own.starts_with(&hierarchy.mount) || !own.is_dir() {
        return Err(refuse(
            &format!("this process's cgroup is not to be seen below {}", hierarchy.mount.display()),
            "run on the host itself, outside of a container",
        ));
    }
    if hierarchy.version == 1 {
        if !own.join("cpu.cfs_quota_us").exists() {
            return Err(refuse("this kernel has no CPU bandwidth control", "use one with CONFIG_CFS_BANDWIDTH"));
        }
        return Ok(Place { parent: own, hierarchy, gives: None });
    }
    // In version 2 a cgroup with processes gives no controller to others (but for the root): ours stands beside, below the
    // nearest that gives this one.
    let has = |folder: &Path, file: &str| {
        fs::read_to_string(folder.join(file)).is_ok_and(|t| t.split_whitespace().any(|c| c == "cpu"))
    };
    let above = own.ancestors().take_while(|a| a.starts_with(&hierarchy.mount));
    if let Some(parent) = above.into_iter().find(|a| has(a, "cgroup.subtree_control")) {
        return Ok(Place { parent: parent.to_owned(), hierarchy, gives: None });
    }
    // Only the real root has no type.
    let root = hierarchy.mount.clone();
    if has(&root, "cgroup.controllers") && !root.join("cgroup.type").exists() {
        return Ok(Place { gives: Some(root.join("cgroup.subtree_control")), parent: root, hierarchy });
    }
    Err(refuse(
        "no cgroup above this process's gives the CPU controller to others",
        "delegate it (systemd: Delegate=cpu), or run as root outside of a container",
    ))
}

/// From /proc/self/cgroup and /proc/self/mountinfo. Where both versions are mounted, a controller is in one of them.
fn hierarchy(roots: &Roots) -> Option<Hierarchy> {
    let cgroups = roots.text("proc/self/cgroup")?;
    let mounts = roots.text("proc/self/mountinfo")?;
    let mut unified = None;
    for line in cgroups.lines() {
        // hierarchy:controllers:path (cgroups(7))
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        if controllers.split(',').any(|c| c == "cpu") {
            let (mount, top) =
                mount_of(&mounts, |kind, options| kind == "cgroup" && options.split(',').any(|o| o == "cpu"))?;
            return Some(at(roots, 1, &mount, &top, path));
        }
        if controllers.is_empty() {
            unified = Some(path);
        }
    }
    let (mount, top) = mount_of(&mounts, |kind, _| kind == "cgroup2")?;
    Some(at(roots, 2, &mount, &top, unified?))
}

/// `top`: the cgroup that is mounted at `mount`, which in a container is not the root.
fn at(roots: &Roots, version: u8, mount: &str, top: &str, path: &str) -> Hierarchy {
    let mount = roots.path(mount);
    let below = Path::new(path).strip_prefix(top).map(Path::to_owned);
    // `/../x`: outside of what this cgroup namespace shows.
    let seen = below.ok().filter(|p| p.components().all(|c| matches!(c, std::path::Component::Normal(_))));
    // A path that is not below the mount is refused by whoever looks at it.
    let own = seen.map_or_else(PathBuf::new, |p| if p.as_os_str().is_empty() { mount.clone() } else { mount.join(p) });
    Hierarchy { version, mount, own }
}

/// Mount point and mounted root of the last mount that `wanted` takes, by its type and its super block's options.
fn mount_of(mountinfo: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<(String, String)> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        wanted(kind, options).then(|| (point.to_owned(), root.to_owned()))
    });
    mounts.last()
}

/// The smallest limit of the cgroups from the parent of ours up, in CPUs; `None`: there is none.
fn limit_above(place: &Place) -> Option<f64> {
    let above = place.parent.ancestors().take_while(|a| a.starts_with(&place.hierarchy.mount));
    let limits = above.filter_map(|folder| {
        let number = |file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<f64>().ok();
        if place.hierarchy.version == 1 {
            let quota = number("cpu.cfs_quota_us").filter(|q| *q > 0.0)?;
            return Some(quota / number("cpu.cfs_period_us")?);
        }
        let max = fs::read_to_string(folder.join("cpu.max")).ok()?;
        let (quota, period) = max.trim().split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    });
    limits.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fixture::Tree;

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
    fn version_1_in_a_hybrid_hierarchy() {
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
    fn version_2_below_the_nearest_that_gives_the_controller() {
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
    fn version_2_where_the_root_has_to_give_it_first() {
        let t = v2("memory\n");
        let root = t.root().join("sys/fs/cgroup");
        let made = changes(&roots(&t), quota(1.0), "iotrail-1").unwrap();
        let controller = Change::Controller { path: root.join("cgroup.subtree_control"), name: "cpu".into() };
        assert_eq!(made[0], controller);
        assert!(matches!(&made[1], Change::Cgroup(c) if c.made == root.join("iotrail-1")));
        // A container's root is none.
        let t = v2("memory\n").file("sys/fs/cgroup/cgroup.type", "domain\n");
        let e = refusal(&roots(&t), quota(1.0)).unwrap().to_string();
        assert!(e.contains("no cgroup above this process's gives the CPU controller"), "{e}");
    }

    #[test]
    fn a_limit_above_is_told_beforehand() {
        let t = v1()
            .file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "40000")
            .file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
        let e = refusal(&roots(&t), quota(0.5)).unwrap().to_string();
        assert!(e.starts_with("a CPU quota of 0.5 cannot be had: ") && e.contains("is limited to 0.4"), "{e}");
        assert!(refusal(&roots(&t), quota(0.4)).is_none());
        let t = v2("cpu\n").file("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
        assert!(refusal(&roots(&t), quota(9.0)).is_none());
        let t = v2("cpu\n").file("sys/fs/cgroup/user.slice/cpu.max", "100000 50000\n");
        assert!(refusal(&roots(&t), quota(2.5)).is_some());
    }

    #[test]
    fn without_the_controller_or_outside_of_what_is_seen_it_is_refused() {
        let says = |t: &Tree| refusal(&roots(t), quota(0.5)).unwrap().to_string();
        assert!(says(&Tree::new()).contains("no cgroup hierarchy"));
        let t = v1().file("proc/self/cgroup", "2:cpu,cpuacct:/../other\n");
        assert!(says(&t).contains("is not to be seen below"));
        let t = v1().file("proc/self/cgroup", "2:cpu,cpuacct:/\n");
        assert!(says(&t).contains("no CPU bandwidth control"));
        // The container's own cgroup, mounted as the top.
        let t = v1()
            .file("proc/self/mountinfo", "30 20 0:26 /docker/7 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
            .file("proc/self/cgroup", "2:cpu:/docker/7/jobs\n");
        assert!(refusal(&roots(&t), quota(0.5)).is_none());
    }

    #[test]
    fn what_is_left_of_it_is_removed_once() {
        let t = v1().dir("sys/fs/cgroup/cpu/jobs/iotrail-1");
        let jobs = t.root().join("sys/fs/cgroup/cpu/jobs");
        let group = Cgroup { made: jobs.join("iotrail-1"), from: jobs.clone(), limits: Vec::new() };
        assert!(leave(&group).unwrap());
        assert!(!group.made.exists());
        assert!(!leave(&group).unwrap());
    }
}
