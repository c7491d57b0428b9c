//! Memory limits of the traced processes' cgroups.

use std::collections::BTreeMap;
use std::path::PathBuf;

use iotrail_host::cgroup::{self, Memory};
use iotrail_schema::state::MemoryLimit;

/// Cgroups with a limit, each since the first sample of a process in it.
#[derive(Debug, Default)]
pub struct Limits(BTreeMap<PathBuf, Memory>);

impl Limits {
    /// Records the cgroup of a traced process, given by its PID in /proc. The process may have changed its cgroup.
    pub fn meet(&mut self, number: u32) {
        let Some(membership) = cgroup::membership(number) else { return };
        for dir in cgroup::of_memory(&membership).dirs {
            if let Some(memory) = cgroup::memory(&dir) {
                self.0.entry(dir).or_insert(memory);
            }
        }
    }

    /// The limit of the cgroup that evicted most pages. Its ancestors count the same pages.
    pub fn record(&self) -> Option<MemoryLimit> {
        let of = |(dir, before): (&PathBuf, &Memory)| {
            let now = cgroup::memory(dir)?;
            let reached = now.reached.checked_sub(before.reached).filter(|n| *n > 0)?;
            let refaulted_bytes = now.refaulted_bytes.saturating_sub(before.refaulted_bytes);
            Some(MemoryLimit {
                cgroup: dir.display().to_string(),
                limit_bytes: now.limit_bytes,
                reached,
                refaulted_bytes,
            })
        };
        self.0.iter().filter_map(of).max_by_key(|limit| limit.refaulted_bytes)
    }
}
