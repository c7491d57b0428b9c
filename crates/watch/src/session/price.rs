//! What watching costs the watched, measured now and then while all is watched.

use std::time::{Duration, Instant};

use super::cpu::cpu;
use super::watched::Watched;
use crate::light::{Light, Used};
use crate::namespace::Numbers;
use crate::processes::Processes;
use iotrail_base::error::Result;
use iotrail_probe::cost::Account;
use iotrail_probe::watch::Watch;

/// So long the kernel measures what the probes cost, which costs something itself.
const LOOK: Duration = Duration::from_millis(300);

/// Where all is watched again since the program did little: until it is measured anew.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Price {
    after: Duration,
    due: Instant,
    look: Option<Look>,
    /// The kernel does not measure it here.
    is_unknown: bool,
}

struct Look {
    _account: Account,
    since: Instant,
    used: Used,
}

impl Price {
    /// Measured for the first time when so much time has gone by, and then again and again.
    pub fn after(after: Duration, now: Instant) -> Self {
        Price { after, due: now + after, look: None, is_unknown: false }
    }

    /// By which windows to go on, if it has been found to cost too much.
    pub fn turn(
        &mut self,
        watch: &mut Watch<'_>,
        processes: &mut Processes,
        watched: &Watched,
        numbers: &Numbers,
    ) -> Result<Option<Light>> {
        let now = Instant::now();
        if now < self.due || self.is_unknown || !watch.can_be_windows() {
            return Ok(None);
        }
        let Some(look) = self.look.take() else {
            match Watch::measure_cost() {
                Ok(account) => {
                    let used = used(watch, processes, watched, numbers)?;
                    self.look = used.map(|used| Look { _account: account, since: Instant::now(), used });
                    self.is_unknown = self.look.is_none();
                    self.due = Instant::now() + LOOK;
                }
                Err(_) => self.is_unknown = true,
            }
            return Ok(None);
        };
        self.due = now + self.after.max(AGAIN);
        let span = look.since.elapsed();
        let used = used(watch, processes, watched, numbers)?;
        Ok(used.and_then(|used| Light::instead(look.used, used, span)))
    }

    /// All is watched again.
    pub fn again(&mut self, now: Instant) {
        self.due = now + AGAIN;
    }
}

/// Up to now; `None`: /proc does not say what the watched used.
fn used(
    watch: &mut Watch<'_>,
    processes: &mut Processes,
    watched: &Watched,
    numbers: &Numbers,
) -> Result<Option<Used>> {
    let Some(cpu) = cpu(watch, processes, watched, numbers)? else { return Ok(None) };
    Ok(Some(Used {
        spent: watch.spent()?,
        completions: watch.completions(),
        watched_ns: cpu.user_ns + cpu.system_ns,
        busy_ns: iotrail_host::cpu::busy_ns(iotrail_host::clock::monotonic_ns()),
    }))
}
