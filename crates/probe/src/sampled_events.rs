//! Counts of events whose programs were attached part of the time, expanded to all of it.

use iotrail_stats::expansion::{self, Rest, Window};

/// Counts up to some moment, or between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// The moment, or the time between the two.
    pub ns: u64,
    pub completions: u64,
    pub syscalls: u64,
    pub stray_calls: u64,
    pub rw_calls: u64,
    /// Interrupts in which I/O of the traced processes ended.
    pub credits: u64,
}

impl Sums {
    pub fn since(&self, before: &Sums) -> Sums {
        Sums {
            ns: self.ns - before.ns,
            completions: self.completions - before.completions,
            syscalls: self.syscalls - before.syscalls,
            stray_calls: self.stray_calls - before.stray_calls,
            rw_calls: self.rw_calls - before.rw_calls,
            credits: self.credits - before.credits,
        }
    }

    pub fn add(&mut self, more: &Sums) {
        self.ns += more.ns;
        self.completions += more.completions;
        self.syscalls += more.syscalls;
        self.stray_calls += more.stray_calls;
        self.rw_calls += more.rw_calls;
        self.credits += more.credits;
    }
}

/// Counts while the programs were attached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampledEvents {
    /// While they stayed attached.
    whole: Sums,
    windows: Vec<Sums>,
    /// Over the accounted time; events of these programs only as far as they were seen.
    pub all: Sums,
}

impl SampledEvents {
    pub fn whole(&mut self, seen: Sums) {
        self.whole.add(&seen);
    }

    pub fn window(&mut self, seen: Sums) {
        self.windows.push(seen);
    }

    /// The programs were detached at some time.
    pub fn is_sampled(&self) -> bool {
        self.whole.ns < self.all.ns
    }

    pub fn windows(&self) -> u64 {
        self.windows.len() as u64
    }

    /// All counts that were seen.
    pub fn seen(&self) -> Sums {
        let mut sum = self.whole;
        self.windows.iter().for_each(|w| sum.add(w));
        sum
    }

    /// A count over all the time, with its 95 % interval if there are enough windows. `None`: without a window.
    pub fn total(&self, of: fn(&Sums) -> u64) -> Option<expansion::Total> {
        let window = |w: &Sums| Window { span: w.ns as f64, counted: w.completions as f64, events: of(w) as f64 };
        let windows: Vec<Window> = self.windows.iter().map(window).collect();
        expansion::total(of(&self.whole) as f64, &windows, self.rest())
    }

    /// The time that the windows are a sample of.
    pub fn rest(&self) -> Rest {
        Rest {
            span: self.all.ns.saturating_sub(self.whole.ns) as f64,
            counted: self.all.completions.saturating_sub(self.whole.completions) as f64,
        }
    }
}
