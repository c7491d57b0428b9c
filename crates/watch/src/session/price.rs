//! Repeatedly measures the cost of tracing for the traced programs.

use std::time::{Duration, Instant};

use super::cpu::cpu;
use super::watched::Watched;
use crate::light::{self, Light, Used};
use crate::namespace::Numbers;
use crate::processes::Processes;
use iotrail_base::error::Result;
use iotrail_probe::cost::Account;
use iotrail_probe::watch::Watch;

/// Duration of a cost measurement, which itself costs time.
const LOOK: Duration = Duration::from_millis(300);

/// Interval between two measurements.
const AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct Price {
    /// Time after which probes may be attached in windows only; `None`: never.
    light_after: Option<Duration>,
    light_due: Option<Instant>,
    due: Instant,
    look: Option<Look>,
    /// This kernel does not measure the cost.
    is_unknown: bool,
}

struct Look {
    _account: Account,
    since: Instant,
    used: Used,
}

impl Price {
    pub fn new(light_after: Option<Duration>, now: Instant) -> Self {
        let light_due = light_after.map(|after| now + after);
        Price { light_after, light_due, due: now, look: None, is_unknown: false }
    }

    /// If the costliest probes cost too much, attaches them in windows. Returns windows for all probes if together they
    /// cost too much.
    pub fn turn(
        &mut self,
        watch: &mut Watch<'_>,
        processes: &mut Processes,
        watched: &Watched,
        numbers: &Numbers,
    ) -> Result<Option<Light>> {
        let now = Instant::now();
        if now < self.due || self.is_unknown {
            return Ok(None);
        }
        let light = self.light_due.is_some_and(|due| now >= due) && watch.can_be_windows();
        let Some(look) = self.look.take() else {
            if !light && !watch.costly_are_busy() {
                return Ok(None);
            }
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
        self.due = now + AGAIN;
        let span = look.since.elapsed();
        let Some(used) = used(watch, processes, watched, numbers)? else { return Ok(None) };
        if light {
            self.light_due = self.light_after.map(|after| now + after.max(AGAIN));
            if let Some(light) = Light::instead(look.used, used, span) {
                return Ok(Some(light));
            }
        }
        if watch.costly_are_busy()
            && let Some(cost) = light::too_much(look.used.costly(), used.costly(), span)
        {
            watch.sample(cost)?;
        }
        Ok(None)
    }

    /// Restarts the measurement after a return to full tracing.
    pub fn again(&mut self, now: Instant) {
        self.due = now + AGAIN;
    }
}

/// Totals so far; `None` if the traced programs' CPU time is unknown.
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
