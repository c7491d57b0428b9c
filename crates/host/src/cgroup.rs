//! CPU bandwidth limits of a process's cgroups, in version 1 (`cpu.cfs_quota_us`) or 2 (`cpu.max`).
//!
//! A quota applies to a cgroup and its descendants. So all cgroups from the process's own up to the root count.

use std::path::{Component, Path, PathBuf};

use super::files::{self, ROOT};

/// The cgroups that can throttle a process.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    /// Directories of the cgroups: the process's own first, then its ancestors up to the hierarchy's mount point.
    pub dirs: Vec<PathBuf>,
    /// Whether the hierarchy is version 2.
    pub unified: bool,
}

/// Cgroups of this process; empty if no CPU controller is mounted.
pub(crate) fn of_this_process() -> Groups {
    of_this_process_in(Path::new(ROOT))
}

pub fn of_this_process_in(root: &Path) -> Groups {
    let groups = files::text(root, "proc/self/cgroup");
    groups.and_then(|groups| those_of(&groups, root, "cpu")).unwrap_or_default()
}

/// Cgroups of a process (PID in /proc), as text for [`of`].
pub fn membership(number: u32) -> Option<String> {
    files::text(Path::new(ROOT), format!("proc/{number}/cgroup"))
}

/// The CPU cgroups, as far as they are visible from here.
pub fn of(membership: &str) -> Groups {
    those_of(membership, Path::new(ROOT), "cpu").unwrap_or_default()
}

/// The same for the cgroups that limit memory.
pub fn of_memory(membership: &str) -> Groups {
    those_of(membership, Path::new(ROOT), "memory").unwrap_or_default()
}

/// Memory limit of a cgroup, and its effects since the cgroup was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub limit_bytes: u64,
    /// Number of times the limit was reached.
    pub reached: u64,
    /// File bytes read again after their eviction from the cgroup.
    pub refaulted_bytes: u64,
}

/// `None` if the cgroup has no limit.
pub fn memory(dir: &Path) -> Option<Memory> {
    let field = |file: &str, name: &str| {
        let text = files::text(dir, file)?;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    // Version 1 has no name for "no limit", but the largest number of pages.
    let limit = files::number::<u64>(dir, "memory.max").or_else(|| files::number(dir, "memory.limit_in_bytes"));
    let reached = field("memory.events", "max").or_else(|| files::number(dir, "memory.failcnt"));
    let refaulted = field("memory.stat", "total_workingset_refault_file")
        .or_else(|| field("memory.stat", "workingset_refault_file"));
    Some(Memory {
        limit_bytes: limit.filter(|bytes| *bytes < 1 << 60)?,
        reached: reached?,
        refaulted_bytes: refaulted? * rustix::param::page_size() as u64,
    })
}

fn those_of(groups: &str, root: &Path, controller: &str) -> Option<Groups> {
    let mounts = files::text(root, "proc/self/mountinfo")?;
    let mut best = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let unified = controllers.is_empty();
        if !unified && !controllers.split(',').any(|c| c == controller) {
            continue;
        }
        let Some((mount_root, mount)) = mounts.lines().find_map(|m| mounted(m, unified, controller)) else { continue };
        // Cgroups outside the mounted part (in a container) are not visible.
        let Ok(rest) = Path::new(path).strip_prefix(mount_root) else { continue };
        // Nor are those shown as `/../x`, above the root of this process's cgroup namespace.
        if rest.components().any(|c| c == Component::ParentDir) {
            continue;
        }
        let top = files::below(root, mount);
        let dir = top.join(rest);
        let dirs: Vec<PathBuf> = dir.ancestors().take_while(|d| d.starts_with(&top)).map(Path::to_owned).collect();
        // If both versions are mounted, the hierarchy with the controller is version 1.
        if !unified || best.is_none() {
            best = Some(Groups { dirs, unified });
        }
    }
    best
}

/// Root within the hierarchy and mount point of a mount, if the line of mountinfo (proc_pid_mountinfo(5)) describes the
/// hierarchy with the controller.
fn mounted<'l>(line: &'l str, unified: bool, controller: &str) -> Option<(&'l str, &'l str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let kind = right.next()?;
    let options = right.nth(1).unwrap_or_default();
    let right =
        if unified { kind == "cgroup2" } else { kind == "cgroup" && options.split(',').any(|o| o == controller) };
    right.then_some((root, point))
}

impl Groups {
    /// Number of CPUs that the tightest quota allows; `None` if no cgroup has a quota.
    pub fn quota(&self) -> Option<f64> {
        self.quota_from(0)
    }

    /// The same without the first `n` cgroups, only for their ancestors.
    pub fn quota_from(&self, n: usize) -> Option<f64> {
        self.dirs.iter().skip(n).filter_map(|dir| quota(dir)).reduce(f64::min)
    }

    /// Per cgroup: time for which its quota throttled it so far, summed over CPUs, in ns; empty if the kernel does not
    /// report it.
    pub fn throttled_ns(&self) -> Vec<Option<u64>> {
        self.dirs.iter().map(|dir| throttled_ns(dir)).collect()
    }
}

/// Time for which a cgroup was throttled so far, summed over CPUs.
pub fn throttled_ns(dir: &Path) -> Option<u64> {
    throttled(&files::text(dir, "cpu.stat")?)
}

/// Maximum over the cgroups. An ancestor's time includes that of its descendants, so a sum would count it twice.
pub(crate) fn throttled_since(after: &[Option<u64>], before: &[Option<u64>]) -> Option<u64> {
    after.iter().zip(before).filter_map(|(after, before)| Some((*after)?.saturating_sub((*before)?))).max()
}

/// Number of CPUs that a cgroup's quota allows.
pub fn quota(dir: &Path) -> Option<f64> {
    let (quota, period) = match files::text(dir, "cpu.max") {
        Some(max) => {
            let (quota, period) = max.split_once(' ')?;
            (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
        }
        None => (files::number::<f64>(dir, "cpu.cfs_quota_us")?, files::number::<f64>(dir, "cpu.cfs_period_us")?),
    };
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

fn throttled(stat: &str) -> Option<u64> {
    let number =
        |name: &str| stat.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok());
    number("throttled_time").or_else(|| number("throttled_usec").map(|us| us * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    #[test]
    fn cgroup_v1_quota_and_throttling_include_the_ancestors() {
        let t = Tree::new()
            .file("proc/self/cgroup", "4:memory:/m\n2:cpu,cpuacct:/a/b\n0::/x\n")
            .file(
                "proc/self/mountinfo",
                "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                 31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                 32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            )
            .file("sys/fs/cgroup/cpu/a/b/cpu.stat", "nr_periods 10\nnr_throttled 2\nthrottled_time 5000\n")
            .file("sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n")
            .file("sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n")
            .file("sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 10\nnr_throttled 2\nthrottled_time 7000\n")
            .file("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n")
            .file("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
        let groups = of_this_process_in(t.root());
        assert_eq!(groups.quota(), Some(0.5));
        let now = groups.throttled_ns();
        assert_eq!(now, [Some(5000), Some(7000), None]);
        assert_eq!(throttled_since(&now, &[Some(4000), Some(1000), None]), Some(6000));
    }

    #[test]
    fn cgroup_v2_limits_are_read_in_a_container() {
        let t = Tree::new()
            .file("proc/self/cgroup", "0::/pod/app\n")
            .file("proc/self/mountinfo", "32 25 0:28 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n")
            .file("sys/fs/cgroup/app/cpu.stat", "usage_usec 9\nnr_throttled 1\nthrottled_usec 12\n")
            .file("sys/fs/cgroup/app/cpu.max", "150000 100000\n")
            .file("sys/fs/cgroup/cpu.max", "max 100000\n");
        let groups = of_this_process_in(t.root());
        assert_eq!((groups.quota(), groups.throttled_ns()), (Some(1.5), vec![Some(12_000), None]));
    }

    #[test]
    fn limits_are_unknown_without_a_cgroup_mount() {
        let groups = of_this_process_in(Tree::new().root());
        assert_eq!((groups.quota(), throttled_since(&groups.throttled_ns(), &[])), (None, None));
    }
}
