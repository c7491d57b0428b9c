//! Owner of changes: a process in one boot of one machine, distinguished from later processes with the same ID.

use serde::{Deserialize, Serialize};

use super::roots::Roots;
use iotrail_host::procfs::{self, Stat};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub tgid: u32,
    /// Start time in clock ticks since boot.
    pub started_ticks: u64,
    pub boot_id: String,
    pub hostname: String,
}

impl Owner {
    /// This process; `None` if /proc does not show it.
    pub fn this(roots: &Roots) -> Option<Self> {
        let tgid = std::process::id();
        Some(Self {
            tgid,
            started_ticks: started_ticks(roots, tgid)?,
            boot_id: boot_id(roots)?,
            hostname: hostname(roots)?,
        })
    }

    /// Whether the process still exists.
    pub fn lives(&self, roots: &Roots) -> bool {
        self.is_of_this_start(roots) && started_ticks(roots, self.tgid) == Some(self.started_ticks)
    }

    /// Whether the machine was not restarted since.
    pub fn is_of_this_start(&self, roots: &Roots) -> bool {
        boot_id(roots).is_none_or(|now| now == self.boot_id)
    }

    /// Whether the owner was on another machine, which shares the journal's directory.
    pub fn is_elsewhere(&self, roots: &Roots) -> bool {
        !self.is_of_this_start(roots) && hostname(roots).is_some_and(|here| here != self.hostname)
    }
}

fn boot_id(roots: &Roots) -> Option<String> {
    roots.text("proc/sys/kernel/random/boot_id")
}

fn hostname(roots: &Roots) -> Option<String> {
    roots.text("proc/sys/kernel/hostname")
}

fn started_ticks(roots: &Roots, tgid: u32) -> Option<u64> {
    let stat = Stat::parse(&procfs::text(roots.path(format!("proc/{tgid}/stat")))?)?;
    (!stat.is_zombie()).then_some(stat.start_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    fn stat(state: &str, started: u64) -> String {
        format!("7 (a) b) {state} 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {started} 9 9\n")
    }

    fn roots(t: &Tree) -> Roots {
        Roots { system: t.root().into(), state: t.root().join("state") }
    }

    fn machine(state: &str, started: u64, boot: &str, host: &str) -> Tree {
        Tree::new()
            .file("proc/7/stat", &stat(state, started))
            .file("proc/sys/kernel/random/boot_id", boot)
            .file("proc/sys/kernel/hostname", host)
    }

    #[test]
    fn a_process_is_distinguished_from_a_later_one_with_the_same_pid() {
        let owner = Owner { tgid: 7, started_ticks: 50, boot_id: "b1".into(), hostname: "h".into() };
        let lives = |t: &Tree| owner.lives(&roots(t));
        assert!(lives(&machine("S", 50, "b1", "h")));
        assert!(!lives(&machine("S", 51, "b1", "h")));
        assert!(!lives(&machine("Z", 50, "b1", "h")));
        assert!(!lives(&machine("S", 50, "b2", "h")));
        let restarted = machine("S", 50, "b2", "h");
        assert!(!owner.is_of_this_start(&roots(&restarted)) && !owner.is_elsewhere(&roots(&restarted)));
        assert!(owner.is_elsewhere(&roots(&machine("S", 50, "b2", "other"))));
    }

    #[test]
    fn this_process_is_reported_as_alive() {
        let roots = Roots { system: "/".into(), state: "/none".into() };
        let this = Owner::this(&roots).unwrap();
        assert!(this.lives(&roots));
        assert!(!Owner { started_ticks: this.started_ticks + 1, ..this }.lives(&roots));
    }
}
