//! CPU quotas of the traced processes' cgroups, and the time for which they throttled the processes.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use iotrail_base::words::span;
use iotrail_host::cgroup;
use iotrail_schema::measurement::Warning;

/// Cgroups with a quota, each since the first sample of a process in it.
#[derive(Debug, Default)]
pub struct Quotas {
    memberships: HashSet<String>,
    throttled_before_ns: BTreeMap<PathBuf, u64>,
}

impl Quotas {
    /// Records the cgroup of a traced process, given by its PID in /proc.
    pub fn meet(&mut self, number: u32) {
        let Some(membership) = cgroup::membership(number) else { return };
        if self.memberships.contains(&membership) {
            return;
        }
        for dir in cgroup::of(&membership).dirs {
            if let (Some(_), Some(ns)) = (cgroup::quota(&dir), cgroup::throttled_ns(&dir)) {
                self.throttled_before_ns.entry(dir).or_insert(ns);
            }
        }
        self.memberships.insert(membership);
    }

    /// Reports the cgroup that was throttled longest; its ancestors were throttled for the same time.
    pub fn warning(&self) -> Option<Warning> {
        let lost = |(dir, before): (&PathBuf, &u64)| {
            let ns = cgroup::throttled_ns(dir)?.checked_sub(*before).filter(|ns| *ns > 0)?;
            Some((ns, dir.clone()))
        };
        let (ns, dir) = self.throttled_before_ns.iter().filter_map(lost).max()?;
        Some(warning(ns, &dir, cgroup::quota(&dir)))
    }
}

fn warning(throttled_ns: u64, dir: &Path, cpus: Option<f64>) -> Warning {
    let allowed = cpus.map(|cpus| format!(" ({cpus} CPUs)")).unwrap_or_default();
    Warning::new(
        "cpu_quota",
        format!(
            "the CPU quota of the cgroup {}{allowed} throttled its threads for {}, summed over CPUs: the times of their requests include this",
            dir.display(),
            span(throttled_ns as f64)
        ),
        "raise the quota to see the programs without it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_quota_throttling_is_reported_with_its_cgroup() {
        let said = warning(380_000_000, Path::new("/sys/fs/cgroup/cpu/a"), Some(0.5));
        assert_eq!(
            said.text,
            "the CPU quota of the cgroup /sys/fs/cgroup/cpu/a (0.5 CPUs) throttled its threads for 380 ms, summed over CPUs: the times of their \
             requests include this"
        );
        assert!(Quotas::default().warning().is_none());
    }
}
