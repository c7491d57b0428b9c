//! Counts of rings, opcodes and delivery paths per window, and the intervals of the totals extrapolated from them.

use std::collections::BTreeMap;

use super::Observed;
use crate::rings::{OpcodeCounts, RingCounts};
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_stats::expansion::{self, Rest, Window};

/// A count of one ring, or of all rings (`None`), by its path in the record: `requests`, `opcodes.read.bytes`,
/// `vehicles.enter`.
pub type Name = (Option<u32>, String);

/// Intervals by name; `None` if there are too few windows.
pub type CountIntervals = BTreeMap<Name, Option<(f64, f64)>>;

type Counts = BTreeMap<Name, u64>;

/// If there are more windows, adjacent windows are merged in pairs.
const MOST: usize = 256;

/// Known completions outside the windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Known {
    /// All are known from the rings' own counters.
    All,
    /// All except those in the last `end_ns`.
    UpTo { end_ns: u64 },
    /// None: counts are extrapolated by time.
    Time,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct WindowCounts {
    /// Total counts so far.
    so_far: Counts,
    whole: Counts,
    windows: Vec<Window>,
    /// Count per window; missing trailing values are 0.
    counts: BTreeMap<Name, Vec<u64>>,
}

impl WindowCounts {
    /// Everything since the last call was traced completely.
    pub fn whole(&mut self, observed: &Observed) {
        for (name, n) in self.grown(observed) {
            *self.whole.entry(name).or_default() += n;
        }
    }

    /// A window ended, with this duration and number of completions.
    pub fn window(&mut self, observed: &Observed, ns: u64, completions: u64) {
        if self.windows.len() == MOST {
            let pair = |w: &[Window]| Window {
                span: w[0].span + w[1].span,
                counted: w[0].counted + w[1].counted,
                events: 0.0,
            };
            self.windows = self.windows.chunks_exact(2).map(pair).collect();
            self.counts.values_mut().for_each(|n| *n = n.chunks(2).map(|pair| pair.iter().sum()).collect());
        }
        for (name, n) in self.grown(observed) {
            let counts = self.counts.entry(name).or_default();
            counts.resize(self.windows.len(), 0);
            counts.push(n);
        }
        self.windows.push(Window { span: ns as f64, counted: completions as f64, events: 0.0 });
    }

    fn grown(&mut self, observed: &Observed) -> Counts {
        let now = named(observed);
        let before = std::mem::replace(&mut self.so_far, now);
        let since = |(name, n): (&Name, &u64)| {
            let n = n.saturating_sub(before.get(name).copied().unwrap_or(0));
            (n > 0).then(|| (name.clone(), n))
        };
        self.so_far.iter().filter_map(since).collect()
    }

    /// Intervals of all estimated counts.
    pub fn intervals(&self, observed: &Observed, rest: Rest, known: Known) -> CountIntervals {
        let of = |(name, estimate): (Name, u64)| {
            let (seen, none) = (self.so_far.get(&name).copied().unwrap_or(0), vec![]);
            let whole = self.whole.get(&name).copied().unwrap_or(0);
            let events = self.counts.get(&name).unwrap_or(&none);
            let event = |(at, w): (usize, &Window)| Window { events: events.get(at).map_or(0.0, |n| *n as f64), ..*w };
            let windows: Vec<Window> = self.windows.iter().enumerate().map(event).collect();
            let count = WindowCount { whole: whole as f64, seen: seen as f64, estimate: estimate as f64 };
            let interval = match known {
                // The rings' counters are exact up to their last reading. Windows add nothing.
                Known::UpTo { end_ns } if name == (None, "ios".into()) => Some(count.unread(end_ns, rest)),
                _ => count.interval(windows, rest, known),
            };
            (name, interval)
        };
        let is_known = |(ring, name): &Name| ring.is_none() && name == "ios" && known == Known::All;
        named(observed).into_iter().filter(|(name, _)| !is_known(name)).map(of).collect()
    }
}

/// One count of a trace that continued with windows.
#[derive(Debug, Clone, Copy)]
pub struct WindowCount {
    /// Count while everything was traced.
    pub whole: f64,
    /// The same plus the counts in the windows.
    pub seen: f64,
    pub estimate: f64,
}

impl WindowCount {
    /// Interval of a count that is known except in the last `end_ns`, in which the program is not slowed by the probes.
    fn unread(&self, end_ns: u64, rest: Rest) -> (f64, f64) {
        let per_ns = (self.estimate - self.whole).max(0.0) / (rest.span - end_ns as f64).max(rest.span / 2.0);
        (self.estimate, self.estimate + rest.slowed * per_ns * end_ns as f64)
    }

    /// 95 % interval, extended to include the observed count and the estimate; `None` if there are too few windows.
    pub fn interval(&self, mut windows: Vec<Window>, rest: Rest, known: Known) -> Option<(f64, f64)> {
        let stretched = match known {
            Known::All => 1.0,
            Known::UpTo { end_ns } => 1.0 + end_ns as f64 / rest.span,
            // Outside the windows the program is not slowed by the probes.
            Known::Time => rest.slowed,
        };
        let mut rest = rest;
        if known == Known::Time {
            rest.counted = 0.0;
            windows.iter_mut().for_each(|w| w.counted = 0.0);
        }
        let (lo, hi) = expansion::total(self.whole, &windows, rest)?.interval?;
        Some((lo.max(self.seen).min(self.estimate), (hi * stretched).max(self.estimate)))
    }
}

/// The counts that have intervals.
fn named(observed: &Observed) -> Counts {
    let mut counts = Counts::new();
    let mut add = |ring: Option<u32>, name: String, n: u64| *counts.entry((ring, name)).or_default() += n;
    let mut ring = |of: Option<u32>, opcodes: &[OpcodeCounts], vehicles: &[DeliveryPathCount]| {
        for o in opcodes {
            let all =
                [("requests", o.requests), ("completions", o.completions), ("bytes", o.bytes), ("errors", o.errors)];
            for (name, n) in all {
                add(of, name.into(), n);
                add(of, format!("opcodes.{}.{name}", o.opcode), n);
            }
        }
        for v in vehicles {
            add(of, format!("vehicles.{}", v.vehicle.name()), v.completions);
            if let Some(detail) = &v.detail {
                add(of, format!("vehicles.{}: {detail}", v.vehicle.name()), v.completions);
            }
        }
    };
    for RingCounts { ring: number, opcodes, vehicles, .. } in &observed.rings {
        ring(Some(*number), opcodes, vehicles);
        ring(None, opcodes, &[]);
    }
    observed.others.iter().for_each(|others| ring(None, &others.opcodes, &[]));
    ring(None, &[], &observed.vehicles);
    add(None, "ios".into(), observed.seen);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::delivery_path::DeliveryPath;

    /// Counts after `reads` reads and `entered` io_uring_enter calls.
    fn observed(reads: u64, entered: u64) -> Observed {
        let opcode =
            OpcodeCounts { opcode: "read".into(), requests: reads, completions: reads, ..OpcodeCounts::default() };
        let path = |vehicle, completions| DeliveryPathCount { vehicle, completions, detail: None, delay_ns: None };
        let vehicles = vec![path(DeliveryPath::Enter, entered), path(DeliveryPath::Inline, reads - entered)];
        let ring = RingCounts { ring: 3, opcodes: vec![opcode], vehicles: vehicles.clone(), ..RingCounts::default() };
        Observed { seen: reads, vehicles, rings: vec![ring], ..Observed::default() }
    }

    fn traced(windows: u64) -> (WindowCounts, u64) {
        let mut counts = WindowCounts::default();
        counts.whole(&observed(1_000, 250));
        for n in 1..=windows {
            counts.window(&observed(1_000 + 40 * n, 250 + 10 * n), 10, 40);
        }
        (counts, 1_000 + 40 * windows)
    }

    fn rest(windows: u64) -> Rest {
        Rest { span: 100.0 * windows as f64, counted: 400.0 * windows as f64, slowed: 1.0 }
    }

    #[test]
    fn an_expanded_count_has_an_interval_around_its_estimate() {
        let (counts, _) = traced(40);
        let all = counts.intervals(&observed(17_000, 4_250), rest(40), Known::All);
        let of = |ring, name: &str| all[&(ring, name.to_owned())].unwrap();
        let requests = of(Some(3), "requests");
        assert!(requests.0 > 16_000.0 && requests.1 < 18_000.0, "{requests:?}");
        assert!(!all.contains_key(&(None, "ios".into())), "it is known by the rings' own counters");
        let ios = |known| {
            counts.intervals(&observed(17_000, 4_250), Rest { slowed: 1.5, ..rest(40) }, known)[&(None, "ios".into())]
                .unwrap()
        };
        let (lo, hi) = ios(Known::Time);
        assert!(lo < 17_000.0 && hi > 1.5 * 17_000.0, "{lo} to {hi}: it is slower in windows");
        let (lo, hi) = ios(Known::UpTo { end_ns: 400 });
        assert!(lo == 17_000.0 && hi > 1.1 * 17_000.0, "{lo} to {hi}: a tenth was not read");
        for (lo, hi) in [of(Some(3), "vehicles.enter"), of(None, "vehicles.enter")] {
            assert!((3_500.0..4_250.0).contains(&lo) && (4_250.0..5_000.0).contains(&hi), "{lo} to {hi}");
        }
        assert_eq!(of(None, "opcodes.read.errors"), (0.0, of(None, "errors").1), "none was seen");
        assert!(of(None, "errors").1 > 0.0);
    }

    #[test]
    fn a_count_from_four_windows_has_no_interval() {
        let (counts, _) = traced(4);
        let all = counts.intervals(&observed(2_600, 650), rest(4), Known::All);
        assert!(all.values().all(Option::is_none), "{all:?}");
        // The rings' counters need no windows. 360 time units have 1,600 completions, and 40 are unread.
        let all = counts.intervals(&observed(2_600, 650), rest(4), Known::UpTo { end_ns: 40 });
        let (ios, others): (Vec<_>, Vec<_>) = all.iter().partition(|(name, _)| **name == (None, "ios".into()));
        assert!(ios.len() == 1 && others.iter().all(|(_, of)| of.is_none()), "{all:?}");
        let (lo, hi) = ios[0].1.unwrap();
        assert_eq!((lo, hi.round()), (2_600.0, 2_778.0));
    }

    #[test]
    fn many_windows_use_bounded_memory_and_keep_all_counts() {
        let (counts, _) = traced(5_000);
        assert!(counts.windows.len() <= MOST, "{}", counts.windows.len());
        let requests = &counts.counts[&(Some(3), "requests".into())];
        assert_eq!((requests.len(), requests.iter().sum::<u64>()), (counts.windows.len(), 200_000));
        assert_eq!(counts.windows.iter().map(|w| w.counted).sum::<f64>(), 200_000.0);
    }
}
