//! Processes that a command leaves running: daemons and background jobs of a shell.

use std::collections::BTreeMap;

use super::end::End;
use super::namespace::Numbers;
use iotrail_base::error::Result;
use iotrail_host::procfs;
use iotrail_probe::watch::Watch;

/// A running process.
#[derive(Debug)]
pub struct Running {
    /// PID in iotrail's namespace.
    pub here: u32,
    pub comm: String,
    end: End,
}

/// Processes that ran at the last check, by PID in the initial namespace.
#[derive(Debug, Default)]
pub struct Left {
    running: BTreeMap<u32, Running>,
    /// Number of consecutive checks that found no process.
    empty: u32,
}

impl Left {
    /// Checks for running processes. A single check may miss a process whose parent exits right after fork, so two
    /// consecutive empty checks are required.
    pub fn look(&mut self, watch: &Watch<'_>, numbers: &Numbers) -> Result<()> {
        self.running.retain(|_, running| !running.end.is_there());
        for tgid in watch.followed()? {
            if self.running.contains_key(&tgid) {
                continue;
            }
            // If its pidfd cannot be opened, the process has just exited.
            let Some((here, end)) = numbers.here(tgid).and_then(|here| Some((here, End::of(here).ok()?))) else {
                continue;
            };
            if !end.is_there() {
                let name = numbers.in_proc(tgid).and_then(|number| procfs::comm(number, number));
                self.running.insert(tgid, Running { here, comm: name.unwrap_or_else(|| "?".into()), end });
            }
        }
        self.empty = if self.running.is_empty() { self.empty + 1 } else { 0 };
        Ok(())
    }

    /// Whether no process is left.
    pub fn is_over(&self) -> bool {
        self.empty >= 2
    }

    pub fn running(&self) -> impl ExactSizeIterator<Item = &Running> {
        self.running.values()
    }

    pub fn ends(&self) -> impl Iterator<Item = &End> {
        self.running.values().map(|running| &running.end)
    }

    /// Text such as "2 processes it left: 4711 postgres, 4712 sleep", with at most three names.
    pub fn words(&self) -> String {
        const NAMED: usize = 3;
        let mut names: Vec<String> =
            self.running().take(NAMED).map(|running| format!("{} {}", running.here, running.comm)).collect();
        let more = self.running.len().saturating_sub(NAMED);
        if more > 0 {
            names.push(format!("and {more} more"));
        }
        let processes = if self.running.len() == 1 { "process" } else { "processes" };
        format!("{} {processes} it left: {}", self.running.len(), names.join(", "))
    }
}
