//! Decides whether a trace costs too much and which windows reduce the cost. Pure: the caller passes measurements.

use std::time::Duration;

use crate::windows::Windows;
use iotrail_host::cpu::busy_resolution_ns;
use iotrail_probe::cost::Spent;

/// Maximum share of the traced programs' CPU time for the probes. Unattributed overhead (entry and exit, cache misses)
/// is about as high again, so counting everything costs up to 3 %.
pub const MOST: f64 = 0.015;

/// Target share from which the windows are computed.
const AIM: f64 = 0.004;

/// Below this share of one CPU, windows are unnecessary, however little CPU time the traced programs use.
const FELT: f64 = 0.005;

/// Attaching and detaching the probes patches kernel text, which sends about 500 IPIs to every other CPU and delays the
/// traced programs. So this is not done every second.
const PERIOD: Duration = Duration::from_secs(2);
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(500);

/// The windows, and the cost of full tracing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Light {
    pub windows: Windows,
    /// As a share of the CPU time that the traced programs would use without probes.
    pub cost: f64,
}

/// Totals at one time; all of them only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Used {
    pub spent: Spent,
    /// Completions and CPU time of the traced programs.
    pub completions: u64,
    pub watched_ns: u64,
    /// CPU time of all processes; `None` if unknown.
    pub busy_ns: Option<u64>,
}

impl Used {
    /// Time that the probes took from the traced programs since `before`. For io_uring events it is split by
    /// completions. Other events come from all running processes, so their share is uncertain by `unsure_ns`.
    fn taken_since(self, before: Used, unsure_ns: u64) -> f64 {
        let since = |f: fn(Used) -> u64| f(self).saturating_sub(f(before)) as f64;
        let part = |mine: f64, all: f64| if all > 0.0 { (mine / all).min(1.0) } else { 1.0 };
        let of_requests = part(since(|u| u.completions), since(|u| u.spent.completions));
        let busy =
            self.busy_ns.zip(before.busy_ns).map(|(now, before)| now.wrapping_sub(before).cast_signed().max(0) as f64);
        let busy = busy.map_or(0.0, |ns| ns + unsure_ns as f64);
        let of_others = part(since(|u| u.watched_ns), busy);
        since(|u| u.spent.requests_ns) * of_requests + since(|u| u.spent.others_ns) * of_others
    }
}

impl Used {
    /// The same, only for the probes that can be attached in windows separately.
    pub fn costly(self) -> Used {
        Used { spent: Spent { others_ns: self.spent.costly_ns, requests_ns: 0, ..self.spent }, ..self }
    }
}

/// Cost of the probes as a share of the CPU time that the traced programs would use without them.
fn cost(before: Used, after: Used, taken: f64) -> f64 {
    taken / (after.watched_ns.saturating_sub(before.watched_ns) as f64 - taken).max(1.0)
}

/// Cost of the probes, if even its lower bound exceeds the limit.
pub(crate) fn too_much(before: Used, after: Used, span: Duration) -> Option<f64> {
    let least = after.taken_since(before, busy_resolution_ns());
    let is_too_much = cost(before, after, least) > MOST && least > FELT * span.as_nanos() as f64;
    is_too_much.then(|| cost(before, after, after.taken_since(before, 0)).min(MOST_SAID))
}

impl Light {
    /// Windows to use after this span if it cost too much; `None` if everything can be counted.
    pub fn instead(before: Used, after: Used, span: Duration) -> Option<Self> {
        let cost = too_much(before, after, span)?;
        let open = PERIOD.mul_f64(AIM / cost).clamp(SHORTEST, LONGEST);
        // Full milliseconds are easier to read.
        let open = Duration::from_millis(open.as_millis() as u64);
        Some(Light { windows: Windows { open, period: PERIOD }, cost })
    }
}

/// Upper limit of the reported share: it is meaningless if the probes run longer than the traced programs.
const MOST_SAID: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    const BEFORE: Used = Used {
        spent: Spent { requests_ns: 0, completions: 0, others_ns: 0, costly_ns: 0 },
        completions: 0,
        watched_ns: 0,
        busy_ns: Some(0),
    };

    /// One second in which the traced programs cause all events and completions.
    fn alone(spent_ms: u64, watched_ms: u64) -> Used {
        let spent = Spent { requests_ns: spent_ms * MS, completions: 1000, others_ns: 0, costly_ns: 0 };
        Used { spent, completions: 1000, watched_ns: watched_ms * MS, busy_ns: Some(watched_ms * MS) }
    }

    fn open_ms(spent_ms: u64, watched_ms: u64) -> Option<u128> {
        let light = Light::instead(BEFORE, alone(spent_ms, watched_ms), Duration::from_secs(1))?;
        Some(light.windows.open.as_millis())
    }

    #[test]
    fn the_window_length_depends_on_the_tracing_overhead() {
        assert_eq!(open_ms(14, 1000), None);
        assert_eq!(open_ms(15, 1000), Some(500), "1.5 % of what is left");
        assert_eq!(open_ms(30, 1000), Some(258), "3.1 % of what is left");
        assert_eq!(open_ms(115, 1000), Some(61), "13 %, as of a microsecond");
        assert_eq!(open_ms(480, 1000), Some(10), "92 %");
        assert_eq!(open_ms(900, 1000), Some(10), "nine times");
    }

    #[test]
    fn a_trace_with_negligible_overhead_stays_complete() {
        assert_eq!(open_ms(5, 20), None, "a quarter of next to nothing");
        assert_eq!(open_ms(6, 20), Some(18));
    }

    #[test]
    fn probe_overhead_on_other_processes_is_not_attributed() {
        let cost = |after: Used| Light::instead(BEFORE, after, Duration::from_secs(1)).map(|light| light.cost);
        // The traced program uses a fifth of the CPU time and has a tenth of the completions.
        let spent = Spent { requests_ns: 100 * MS, completions: 10_000, others_ns: 100 * MS, costly_ns: 0 };
        let one = Used { spent, completions: 1000, watched_ns: 330 * MS, busy_ns: Some(1650 * MS) };
        assert_eq!(cost(one), Some(0.1), "a tenth of 100 ms and a fifth of 100 ms, of 300");
        // An almost idle program with busy neighbours.
        let idle = Used { completions: 20, watched_ns: 20 * MS, busy_ns: Some(2000 * MS), ..one };
        assert_eq!(cost(idle), None);
        // If its share is unknown, all events are attributed to it.
        let unknown = Used { busy_ns: None, ..one };
        assert_eq!(cost(unknown), Some(0.5));
    }

    #[test]
    fn overhead_above_the_traced_time_is_bounded() {
        let after = alone(50, 20);
        let light = Light::instead(BEFORE, after, Duration::from_secs(1)).unwrap();
        assert_eq!((light.windows.open.as_millis(), light.cost), (10, MOST_SAID));
    }

    #[test]
    fn automatic_windows_are_valid_option_values() {
        for spent in [31, 80, 200, 500, 990] {
            let open = open_ms(spent, 1000).unwrap();
            assert_eq!(format!("{open}ms/2s").parse::<Windows>().map(|w| w.open.as_millis()), Ok(open));
        }
    }
}
