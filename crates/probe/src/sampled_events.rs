//! Counts of programs that were attached only part of the time, extrapolated to the full trace.

use iotrail_stats::expansion::{self, Rest, Window};

/// Total counts at a point in time, or the difference between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// CLOCK_MONOTONIC time, or the duration.
    pub ns: u64,
    pub completions: u64,
    /// By [`Sampled`].
    pub events: [u64; Sampled::ALL.len()],
}

impl Sums {
    pub fn since(&self, before: &Sums) -> Sums {
        self.combine(before, u64::saturating_sub)
    }

    pub fn add(&mut self, more: &Sums) {
        *self = self.combine(more, u64::wrapping_add);
    }

    fn combine(&self, other: &Sums, of: fn(u64, u64) -> u64) -> Sums {
        Sums {
            ns: of(self.ns, other.ns),
            completions: of(self.completions, other.completions),
            events: std::array::from_fn(|i| of(self.events[i], other.events[i])),
        }
    }
}

iotrail_schema::named! {
    /// A number that is estimated if its programs are attached only part of the time.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Sampled {
        Syscalls = "syscalls",
        StrayCalls = "stray_calls",
        PreadPwriteCalls = "pread_pwrite_calls",
        DeviceIrqs = "device_irqs",
        Kicks = "kicks",
        ReschedIpis = "resched_ipis",
        /// Returns to user mode from interrupts and exceptions.
        Returns = "returns",
        ContextSwitches = "context_switches",
        TaskWorkRuns = "task_work_runs",
    }
}

impl Sampled {
    /// Whether the number comes from programs that can be attached in windows separately.
    pub fn is_costly(self) -> bool {
        matches!(self, Sampled::Syscalls | Sampled::StrayCalls | Sampled::PreadPwriteCalls | Sampled::DeviceIrqs)
    }
}

/// Counts while the programs were attached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampledEvents {
    /// Counts of the time in which they stayed attached.
    pub(crate) whole: Sums,
    windows: Vec<Sums>,
    /// Counts of the full accounted time; for these programs, only the observed events.
    pub all: Sums,
    /// Maximum measured cost of the programs, as a share of the traced CPU time.
    cost: f64,
}

impl SampledEvents {
    pub fn cost(&mut self, share: f64) {
        self.cost = self.cost.max(share);
    }

    pub fn whole(&mut self, seen: Sums) {
        self.whole.add(&seen);
    }

    pub fn window(&mut self, seen: Sums) {
        self.windows.push(seen);
    }

    /// Whether the programs were ever detached.
    pub fn is_sampled(&self) -> bool {
        self.whole.ns < self.all.ns
    }

    pub fn windows(&self) -> u64 {
        self.windows.len() as u64
    }

    /// All observed counts.
    pub fn seen(&self) -> Sums {
        let mut sum = self.whole;
        self.windows.iter().for_each(|w| sum.add(w));
        sum
    }

    /// Total over the full trace, with its 95 % interval if there are enough windows; `None` without any window.
    pub fn total(&self, of: Sampled) -> Option<expansion::Total> {
        let of = |s: &Sums| s.events[of as usize];
        let window = |w: &Sums| Window { span: w.ns as f64, counted: w.completions as f64, events: of(w) as f64 };
        let windows: Vec<Window> = self.windows.iter().map(window).collect();
        expansion::total(of(&self.whole) as f64, &windows, self.rest())
    }

    /// The time that the windows represent.
    pub fn rest(&self) -> Rest {
        Rest {
            span: self.all.ns.saturating_sub(self.whole.ns) as f64,
            counted: self.all.completions.saturating_sub(self.whole.completions) as f64,
            // Overhead that the kernel does not attribute to the programs is about as high again.
            slowed: 1.0 + 2.0 * self.cost,
        }
    }
}
