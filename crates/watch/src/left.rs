//! Processes that a command has left when it ended: daemons, and what a shell puts into the background.

use std::collections::BTreeMap;

use super::end::End;
use super::namespace::Numbers;
use iotrail_base::error::Result;
use iotrail_host::procfs;
use iotrail_probe::watch::Watch;

/// One that still runs.
#[derive(Debug)]
pub struct Running {
    /// In iotrail's PID namespace.
    pub here: u32,
    pub comm: String,
    end: End,
}

/// Those that still ran in the last look, by the kernel's numbers.
#[derive(Debug, Default)]
pub struct Left {
    running: BTreeMap<u32, Running>,
    /// Looks in a row that have met nobody.
    empty: u32,
}

impl Left {
    /// Looks again. A process that ends just after it has made another one may hide that from a look: only two looks in a row that meet
    /// nobody are sure.
    pub fn look(&mut self, watch: &Watch<'_>, numbers: &Numbers) -> Result<()> {
        self.running.retain(|_, running| !running.end.is_there());
        for tgid in watch.followed()? {
            if self.running.contains_key(&tgid) {
                continue;
            }
            // One that cannot be opened has gone meanwhile.
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

    /// Nobody is left.
    pub fn is_over(&self) -> bool {
        self.empty >= 2
    }

    pub fn running(&self) -> impl ExactSizeIterator<Item = &Running> {
        self.running.values()
    }

    pub fn ends(&self) -> impl Iterator<Item = &End> {
        self.running.values().map(|running| &running.end)
    }

    /// As "2 processes it left: 4711 postgres, 4712 sleep", at most three by name.
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
