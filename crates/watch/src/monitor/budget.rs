//! The monitor's budget, and which layers it sheds to stay within it. Pure: the caller passes measurements.

use std::collections::VecDeque;
use std::time::Duration;

/// Sampling may use this share of the budget; surveys, captures and probes use the rest. If they need more, sampling
/// keeps at least `LEAST`.
const SAMPLING: f64 = 0.6;
const LEAST: f64 = 0.2;

const FINEST: Duration = Duration::from_millis(1);
const SHORTEST: Duration = Duration::from_millis(8);
const LONGEST: Duration = Duration::from_secs(1);

/// Maximum sampling period while no monitored process is active.
const IDLE: Duration = Duration::from_millis(100);

/// Number of slices whose mean cost decides.
const SLICES: usize = 5;

/// Number of slices at no more than half the budget before a layer is restored.
const CALM: u32 = 30;

/// Unspent budget of this time is credited to traces.
const CREDIT: Duration = Duration::from_secs(60);

const HALF: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Share of the total CPU time of all CPUs.
    pub cpu: f64,
    pub cpus: usize,
    /// Memory of this process in bytes.
    pub memory: u64,
}

impl Budget {
    /// Budget in ns of CPU time per ns of wall time.
    fn rate(&self) -> f64 {
        self.cpu * self.cpus as f64
    }
}

iotrail_schema::named! {
    /// Layers in the order of shedding.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Layer {
        /// Traces after a trigger.
        Traces = "traces",
        /// Windows with counting probes.
        Windows = "windows",
        /// Kernel stacks of sleeping threads.
        Stacks = "stacks",
        /// Sampling rate: each further step halves it.
        Rate = "rate",
    }
}

impl Layer {
    /// Information lost while the layer is shed.
    pub fn lost(self) -> &'static str {
        match self {
            Layer::Traces => "stalls are captured without a trace of their requests",
            Layer::Windows => "errors, punts and delivery paths are not counted",
            Layer::Stacks => "blocked time has no reasons, and submissions that block are not recognised",
            Layer::Rate => "stalls must last longer to be recognised",
        }
    }
}

/// A layer was shed or restored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub layer: Layer,
    pub is_shed: bool,
    /// Mean cost as a share of the total CPU time.
    pub cpu: f64,
    pub memory: u64,
}

/// Costs within one slice, about a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Slice {
    pub wall: Duration,
    /// CPU time of this process except its traces.
    pub spent: Duration,
    /// CPU time of traces and their probes.
    pub traced: Duration,
    pub samples: u64,
    /// The part of `spent` in samples.
    pub sampled: Duration,
    pub memory: u64,
}

#[derive(Debug)]
pub struct Keeper {
    budget: Budget,
    slices: VecDeque<Slice>,
    /// Number of shed layers; each step beyond the last layer halves the sampling rate.
    level: usize,
    calm: u32,
    credit_ns: f64,
    /// Cost of one sample.
    sample_ns: f64,
    /// CPU time of everything else per ns of wall time.
    rest: f64,
    is_idle: bool,
    over: Duration,
    over_now: Duration,
    longest_over: Duration,
    /// The shortest threshold.
    finest: Duration,
}

impl Keeper {
    /// `first_ns`: assumed cost of a sample until one is measured. `finest`: the shortest threshold.
    pub fn new(budget: Budget, first_ns: f64, finest: Duration) -> Self {
        Keeper {
            budget,
            slices: VecDeque::new(),
            level: 0,
            calm: 0,
            credit_ns: budget.rate() * CREDIT.as_nanos() as f64,
            sample_ns: first_ns,
            rest: 0.0,
            is_idle: false,
            over: Duration::ZERO,
            over_now: Duration::ZERO,
            longest_over: Duration::ZERO,
            finest,
        }
    }

    /// Adds a slice, and sheds or restores a layer if due.
    pub fn turn(&mut self, slice: Slice) -> Option<Step> {
        let wall = slice.wall.as_nanos() as f64;
        let all = (slice.spent + slice.traced).as_nanos() as f64;
        let most = self.budget.rate() * CREDIT.as_nanos() as f64;
        self.credit_ns = (self.credit_ns + self.budget.rate() * wall - all).min(most);
        if slice.samples > 0 {
            let cost = slice.sampled.as_nanos() as f64 / slice.samples as f64;
            self.sample_ns += (cost - self.sample_ns) * HALF;
        }
        let rest = slice.spent.saturating_sub(slice.sampled).as_nanos() as f64 / wall.max(1.0);
        self.rest += (rest - self.rest) * HALF;
        let is_over = all > self.budget.rate() * wall;
        self.over_now = if is_over { self.over_now + slice.wall } else { Duration::ZERO };
        self.longest_over = self.longest_over.max(self.over_now);
        self.over += if is_over { slice.wall } else { Duration::ZERO };
        self.slices.push_back(slice);
        if self.slices.len() > SLICES {
            self.slices.pop_front();
        }
        self.step(slice.memory)
    }

    fn step(&mut self, memory: u64) -> Option<Step> {
        let sum = |of: fn(&Slice) -> Duration| self.slices.iter().map(of).sum::<Duration>().as_nanos() as f64;
        let (spent, wall) = (sum(|s| s.spent), sum(|s| s.wall).max(1.0));
        let is_above = |s: &Slice| s.spent.as_nanos() as f64 > self.budget.rate() * s.wall.as_nanos() as f64;
        // One expensive slice is just a burst.
        let is_lasting = self.slices.iter().filter(|s| is_above(s)).count() > SLICES / 2;
        let is_over = spent > self.budget.rate() * wall && is_lasting && self.slices.back().is_some_and(is_above);
        let has_too_much = memory > self.budget.memory;
        let calm = spent <= self.budget.rate() * wall * HALF && memory <= self.budget.memory / 10 * 9;
        let step = |layer, is_shed| Some(Step { layer, is_shed, cpu: spent / wall / self.budget.cpus as f64, memory });
        if (is_over && self.slices.len() == SLICES) || has_too_much {
            self.calm = 0;
            // Only traces and windows need much memory.
            if self.level >= 12 || (!is_over && self.level >= 2) {
                return None;
            }
            let shed = step(Layer::ALL[self.level.min(Layer::ALL.len() - 1)], true);
            self.level += 1;
            // The next step is judged after the savings of this one.
            self.slices.clear();
            return shed;
        }
        self.calm = if calm { self.calm + 1 } else { 0 };
        if self.calm >= CALM && self.level > 0 {
            self.calm = 0;
            let restored = step(Layer::ALL[(self.level - 1).min(Layer::ALL.len() - 1)], false);
            self.level -= 1;
            return restored;
        }
        None
    }

    pub fn has(&self, layer: Layer) -> bool {
        self.level <= layer as usize
    }

    /// Sets whether no monitored process is active.
    pub fn set_idle(&mut self, is_idle: bool) {
        self.is_idle = is_idle;
    }

    /// Time from one sample to the next.
    pub fn period(&self) -> Duration {
        let shed = self.level.saturating_sub(Layer::Rate as usize).min(10) as u32;
        let left = (self.budget.rate() - self.rest).min(SAMPLING * self.budget.rate()).max(LEAST * self.budget.rate());
        let paid = Duration::from_nanos((self.sample_ns / left) as u64);
        // Within the shortest threshold: four samples if the budget permits, two while idle.
        let (part, longest) = if self.is_idle { (2, IDLE) } else { (4, SHORTEST) };
        let least = (self.finest / part).clamp(FINEST, longest);
        (paid.max(least) * 2u32.pow(shed)).min(LONGEST)
    }

    /// Whether the unspent budget covers this CPU time.
    pub fn affords(&self, cost: Duration) -> bool {
        cost.as_nanos() as f64 <= self.credit_ns
    }

    /// Total time over budget, and the longest such time.
    pub fn over(&self) -> (Duration, Duration) {
        (self.over, self.longest_over)
    }

    pub fn budget(&self) -> Budget {
        self.budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MB: u64 = 1 << 20;

    fn keeper() -> Keeper {
        Keeper::new(Budget { cpu: 0.01, cpus: 2, memory: 64 * MB }, 80_000.0, Duration::from_millis(200))
    }

    fn slice(spent_ms: u64, samples: u64) -> Slice {
        let spent = Duration::from_millis(spent_ms);
        Slice { wall: SECOND, spent, traced: Duration::ZERO, samples, sampled: spent, memory: MB }
    }

    #[test]
    fn the_sampling_period_follows_the_cost_of_a_sample() {
        let mut k = keeper();
        assert_eq!(k.period(), SHORTEST, "80 µs each: 150 per second are paid for");
        // Two thousand threads take 1 ms per sample.
        (0..10).for_each(|_| assert_eq!(k.turn(slice(10, 10)), None));
        let paid = k.period();
        assert!(paid > Duration::from_millis(75) && paid < Duration::from_millis(90), "{paid:?}");
        (0..20).for_each(|_| assert_eq!(k.turn(slice(1, 100)), None));
        assert_eq!(k.period(), SHORTEST);
        k.set_idle(true);
        assert_eq!(k.period(), IDLE);
        k.finest = Duration::from_millis(5);
        assert_eq!(k.period(), Duration::from_micros(2500), "a short threshold is sampled as often as the budget pays");
    }

    #[test]
    fn other_costs_reduce_the_sampling_budget() {
        let mut k = keeper();
        let slice = Slice { sampled: Duration::from_millis(1), ..slice(16, 10) };
        (0..20).for_each(|_| assert_eq!(k.turn(slice), None));
        let paid = k.period();
        assert!(paid > Duration::from_millis(19) && paid < Duration::from_millis(21), "0.1 ms of 5 ms/s: {paid:?}");
    }

    #[test]
    fn layers_are_shed_in_order_and_restored_in_reverse_order() {
        let mut k = keeper();
        let mut steps = vec![];
        for _ in 0..SLICES * 6 {
            steps.extend(k.turn(slice(30, 100)));
        }
        let layers: Vec<Layer> = steps.iter().map(|s| s.layer).collect();
        assert_eq!(layers[..5], [Layer::Traces, Layer::Windows, Layer::Stacks, Layer::Rate, Layer::Rate]);
        assert!(steps.iter().all(|s| s.is_shed && (s.cpu - 0.015).abs() < 1e-9), "{steps:?}");
        assert!(Layer::ALL.iter().all(|layer| !k.has(*layer)));
        let mut restored = vec![];
        for _ in 0..CALM * 8 {
            restored.extend(k.turn(slice(5, 100)));
        }
        assert_eq!(restored.last().map(|s| (s.layer, s.is_shed)), Some((Layer::Traces, false)));
        assert!(Layer::ALL.iter().all(|layer| k.has(*layer)));
        assert!(k.over().1 >= SECOND * 10, "{:?}", k.over());
    }

    #[test]
    fn single_expensive_slices_shed_no_layer() {
        let mut k = keeper();
        for i in 0..50 {
            assert_eq!(k.turn(slice(if i % 10 == 9 { 90 } else { 10 }, 100)), None, "{i}");
        }
        assert_eq!(k.over(), (SECOND * 5, SECOND));
    }

    #[test]
    fn a_trace_starts_only_if_the_saved_budget_covers_its_cost() {
        let mut k = keeper();
        let cost = Duration::from_millis(700);
        assert!(k.affords(cost));
        k.turn(Slice { traced: cost, ..slice(10, 100) });
        assert!(!k.affords(cost));
        let waits = (0..)
            .take_while(|_| {
                k.turn(slice(10, 100));
                !k.affords(cost)
            })
            .count();
        assert!((10..30).contains(&waits), "10 ms per second are left: {waits} s");
        (0..1000).for_each(|_| assert_eq!(k.turn(slice(0, 100)), None));
        assert!(k.affords(Duration::from_millis(1200)) && !k.affords(Duration::from_millis(1201)));
    }

    #[test]
    fn excessive_memory_use_sheds_the_layers_that_cause_it() {
        let mut k = keeper();
        let big = Slice { memory: 65 * MB, ..slice(1, 100) };
        let shed: Vec<Layer> = (0..10).filter_map(|_| k.turn(big)).map(|s| s.layer).collect();
        assert_eq!(shed, [Layer::Traces, Layer::Windows]);
    }
}
