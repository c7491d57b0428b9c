//! Counts of events that were seen a part of the time, estimated from the completions in it: these are counted all the time.

use iotrail_stats::ratio;

/// Counts up to some moment, or between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    pub completions: u64,
    pub syscalls: u64,
    pub stray_calls: u64,
    pub rw_calls: u64,
    /// Interrupts in which I/O of the watched ended.
    pub credits: u64,
}

impl Sums {
    pub fn since(&self, before: &Sums) -> Sums {
        Sums {
            completions: self.completions - before.completions,
            syscalls: self.syscalls - before.syscalls,
            stray_calls: self.stray_calls - before.stray_calls,
            rw_calls: self.rw_calls - before.rw_calls,
            credits: self.credits - before.credits,
        }
    }
}

/// What was seen: all at first, then in windows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampledEvents {
    first: Option<Sums>,
    windows: Vec<Sums>,
    /// All, seen or not.
    pub completions: u64,
}

impl SampledEvents {
    pub fn window(&mut self, seen: Sums) {
        match self.first {
            None => self.first = Some(seen),
            Some(_) => self.windows.push(seen),
        }
    }

    /// The beginning is one of them.
    pub fn windows(&self) -> u64 {
        self.windows.len() as u64 + u64::from(self.first.is_some())
    }

    /// Completions in them.
    pub fn seen(&self) -> u64 {
        self.windows.iter().chain(&self.first).map(|w| w.completions).sum()
    }

    /// A count over all the time, with its 95 % interval where there are windows enough. `None`: there were none, or no completion
    /// in any.
    pub fn total(&self, of: fn(&Sums) -> u64) -> Option<ratio::Total> {
        let first = self.first.unwrap_or_default();
        let windows: Vec<(f64, f64)> = self.windows.iter().map(|w| (of(w) as f64, w.completions as f64)).collect();
        ratio::total(of(&first) as f64, &windows, self.completions.saturating_sub(first.completions) as f64)
    }
}
