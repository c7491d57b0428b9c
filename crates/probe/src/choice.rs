//! Selection of the requests to trace end to end (`bpf/choose.h`).

use std::time::Duration;

/// Rate per CPU, in requests per second, up to which adaptive selection traces all requests: at 0.3 µs per request,
/// less than 1 % of the CPU.
pub(crate) const WHOLE_PER_S: u64 = 20_000;

/// Minimum length of the windows that measure the rate.
const WINDOW: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Trace 1 in this many requests, at random; 1: all.
    pub one_in: u32,
    /// Trace all requests of a CPU while its rate is low ([`WHOLE_PER_S`]), and 1 in `one_in` otherwise.
    pub adaptive: bool,
}

impl Choice {
    /// Traces 1 in `one_in` requests at any rate.
    pub fn fixed(one_in: u32) -> Self {
        Choice { one_in: one_in.max(1), adaptive: false }
    }

    pub fn adaptive(one_in: u32) -> Self {
        Choice { one_in: one_in.max(1), adaptive: one_in > 1 }
    }

    /// Weight of a request that was sampled: `one_in`, or 1 if no request was sampled (`sampled` = 0).
    pub fn stands_for(&self, sampled: u64) -> u32 {
        if self.adaptive && sampled == 0 { 1 } else { self.one_in }
    }
}

/// Parameters of the BPF programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub jiffies: u32,
    /// Maximum number of requests per CPU and window that are all traced.
    pub requests: u32,
}

impl Window {
    /// Rounded up to full ticks. For an unknown tick rate, the highest one: with fewer ticks per second, the windows
    /// are longer and the limit is lower.
    pub fn of(tick_hz: Option<u32>) -> Self {
        let tick_ns = 1_000_000_000 / u64::from(tick_hz.unwrap_or(1000).max(1));
        let jiffies = (WINDOW.as_nanos() as u64).div_ceil(tick_ns).max(1);
        Window { jiffies: jiffies as u32, requests: (WHOLE_PER_S * jiffies * tick_ns / 1_000_000_000) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_stats::estimate::{self, Stratum};
    use iotrail_stats::random::SplitMix64;

    #[test]
    fn window_lengths_are_whole_ticks() {
        let of = |hz| {
            let w = Window::of(hz);
            (w.jiffies, w.requests)
        };
        assert_eq!([100, 250, 300, 1000].map(|hz| of(Some(hz))), [(1, 200), (3, 240), (4, 266), (10, 200)]);
        assert_eq!(of(None), (10, 200));
    }

    #[test]
    fn sampling_1_in_1_traces_all_requests_without_windows() {
        assert_eq!(Choice::adaptive(1), Choice::fixed(1));
        assert!(Choice::adaptive(100).adaptive && !Choice::fixed(100).adaptive);
    }

    /// `bpf/choose.h` in Rust, to simulate many seeds.
    struct Chooser {
        random: SplitMix64,
        choice: Choice,
        window: Window,
        until_next: u64,
        since: u64,
        submits: u64,
        busy: bool,
    }

    impl Chooser {
        fn new(choice: Choice, seed: u64) -> Self {
            let (random, window) = (SplitMix64::new(seed), Window::of(Some(1000)));
            Chooser { random, choice, window, until_next: 0, since: 0, submits: 0, busy: false }
        }

        fn while_few(&mut self, now: u64) -> bool {
            let (jiffies, most) = (u64::from(self.window.jiffies), u64::from(self.window.requests));
            let passed = now - self.since;
            if passed >= jiffies {
                self.busy = passed < 2 * jiffies && self.submits > most;
                (self.since, self.submits) = (now, 0);
            }
            self.submits += 1;
            !self.busy && self.submits <= most
        }

        fn is_next(&mut self) -> bool {
            let longest = 2 * u64::from(self.choice.one_in) - 1;
            if self.until_next == 0 {
                let (one, other) = (1 + self.random.below(longest + 1), 1 + self.random.below(longest));
                self.until_next = one.min(if other >= one { other + 1 } else { other });
            }
            self.until_next -= 1;
            if self.until_next > 0 {
                return false;
            }
            self.until_next = 1 + self.random.below(longest);
            true
        }

        /// Weight of a request at jiffy `now`.
        fn weight(&mut self, now: u64) -> u32 {
            if self.choice.one_in == 1 || (self.choice.adaptive && self.while_few(now)) {
                return 1;
            }
            if self.is_next() { self.choice.one_in } else { 0 }
        }
    }

    /// Pairs of arrival jiffy (1 ms) and latency; latencies grow with the load.
    fn streams() -> Vec<(&'static str, Vec<(u64, f64)>)> {
        let of = |rate: &dyn Fn(u64) -> u64| -> Vec<(u64, f64)> {
            let at = |now| (0..rate(now)).map(move |i| (now, 10.0 + rate(now) as f64 / 10.0 + (i % 7) as f64));
            (1000..1150).flat_map(at).collect()
        };
        vec![
            ("steady and slow", of(&|_| 5)),
            ("steady and fast", of(&|_| 100)),
            ("at the limit", of(&|now| 19 + now % 3)),
            ("bursts", of(&|now| if now % 41 == 0 { 3000 } else { 1 })),
            ("a ramp up", of(&|now| (now - 1000) / 2)),
            ("a ramp down", of(&|now| (1150 - now) / 2)),
        ]
    }

    #[test]
    fn traced_requests_represent_all_requests_without_bias() {
        const SEEDS: u64 = 150;
        for (name, stream) in streams() {
            let (truly, sum) = (stream.len() as f64, stream.iter().map(|r| r.1).sum::<f64>());
            for choice in [Choice::adaptive(100), Choice::fixed(100), Choice::adaptive(16)] {
                let (mut counts, mut means, mut within, mut followed) = (vec![], vec![], 0, 0);
                for seed in 0..SEEDS {
                    let mut chooser = Chooser::new(choice, seed * 7919 + 1);
                    let (mut taken, mut weighted) = (Stratum::default(), 0.0);
                    for &(now, took) in &stream {
                        let weight = chooser.weight(now);
                        if weight > 0 {
                            taken.take(weight, 1.0);
                            weighted += took * f64::from(weight);
                        }
                    }
                    let Some(t) = estimate::interval(&[taken], choice.one_in) else { continue };
                    within += u64::from(t.lo <= truly && truly <= t.hi);
                    followed += taken.items();
                    counts.push(t.total);
                    means.push(weighted);
                }
                // Unbiased: over all seeds, the mean equals the true value within four standard errors.
                let check = |what: &str, all: &[f64], truth: f64| {
                    let n = SEEDS as f64; // jiffies without any count as 0
                    let mean = all.iter().sum::<f64>() / n;
                    let zeros = (n - all.len() as f64) * mean * mean;
                    let spread = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() + zeros;
                    let error = 4.0 * (spread / n / n).sqrt() + 1e-9 * truth;
                    assert!(
                        (mean - truth).abs() <= error,
                        "{name}, {choice:?}: {what} {mean} ± {error}, truly {truth}"
                    );
                };
                check("count", &counts, truly);
                check("sum", &means, sum);
                assert!(within * 100 >= SEEDS * 95, "{name}, {choice:?}: {within} of {SEEDS} intervals hold {truly}");
                if choice.adaptive {
                    assert!(followed >= SEEDS * (truly as u64).min(200), "{name}: {followed} in all");
                }
                if name == "steady and slow" && choice.adaptive {
                    assert_eq!(followed, SEEDS * stream.len() as u64, "all of them");
                }
            }
        }
    }

    #[test]
    fn each_request_has_the_same_chance_of_being_traced() {
        let mut chosen = [0u32; 60];
        for seed in 0..40_000 {
            let mut chooser = Chooser::new(Choice::fixed(20), seed * 104_729 + 3);
            for count in &mut chosen {
                *count += u32::from(chooser.weight(0) > 0);
            }
        }
        // Expected: 2,000 each, ± 4.5 standard deviations.
        assert!(chosen.iter().all(|n| (1804..=2196).contains(n)), "{chosen:?}");
    }

    #[test]
    fn all_requests_are_traced_again_after_a_burst() {
        let mut chooser = Chooser::new(Choice::adaptive(100), 1);
        let busy: u32 = (1000..1050).flat_map(|now| [now; 1000]).map(|now| u32::from(chooser.weight(now) == 1)).sum();
        assert_eq!(busy, 200, "those of the first window");
        // Sampling continues for the current window and for the next one, which follows a busy window.
        let calm = (1050..1100).find(|now| chooser.weight(*now) == 1);
        assert!(calm.is_some_and(|now| now <= 1070), "{calm:?}");
    }
}
