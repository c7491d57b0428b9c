//! Extrapolates counts from windows to the time between them.
//!
//! **Estimate**: a regression of the events per window on the window's length and on a count that is kept throughout
//! (here: completions). The slope is at least 0, which extrapolates by time, and at most the ratio of events to that
//! count, which extrapolates by the count. The estimate thus covers calls that depend on the I/O and calls that do not,
//! without distinguishing them.
//!
//! **Error**: that of the residuals (HC3, because a few windows have much leverage), at least the rounding error per
//! window, with Student's distribution. The degrees of freedom are the windows with any event. The upper end is
//! symmetric on a logarithmic scale, because counts of bursts are skewed. It includes a phase that all windows could
//! miss in 40 of 100 cases, with the highest residual rate of any window. `benches/estimates.sh` measures the coverage.
//! Fewer than [`ENOUGH`] windows yield no interval.

use super::student;

/// Fewer windows do not show their spread.
pub const ENOUGH: usize = 5;

/// An estimate is printed if the ends of its interval differ by a factor of at most [`WIDEST`] and are both within
/// [`OFF`] of it, or if they differ by at most [`NARROW`] per operation.
pub const WIDEST: f64 = 1.5;
pub const NARROW: f64 = 0.01;
pub const OFF: f64 = 0.25;

/// Minimum variance of a window's count, whose ends cut through events.
const ROUNDING: f64 = 0.25;

/// Probability that all windows miss a phase of the assumed length.
const MISSED: f64 = 0.4;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Length in any unit.
    pub span: f64,
    /// The count that is kept inside and outside windows.
    pub counted: f64,
    /// The count that is only kept inside windows.
    pub events: f64,
}

/// The time that the windows sample, including the windows themselves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rest {
    pub span: f64,
    pub counted: f64,
    /// Slowdown of an operation inside windows by the attached programs; at least 1.
    pub slowed: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Total {
    pub total: f64,
    /// 95 % interval; `None` if there are too few windows.
    pub interval: Option<(f64, f64)>,
}

/// Whether a per-operation estimate with this interval is precise enough to print.
pub fn is_narrow(estimate: f64, (lo, hi): (f64, f64)) -> bool {
    let near = estimate <= (1.0 + OFF) * lo && estimate >= (1.0 - OFF) * hi;
    hi <= lo * WIDEST && near || hi - lo <= NARROW
}

/// Total of `known` events outside `rest` and the estimated events in `rest`; `None` if `rest` has time but no window.
pub fn total(known: f64, windows: &[Window], rest: Rest) -> Option<Total> {
    if rest.span <= 0.0 {
        return Some(Total { total: known, interval: Some((known, known)) });
    }
    let sum = |of: fn(&Window) -> f64| windows.iter().map(of).sum::<f64>();
    let (span, counted, events) = (sum(|w| w.span), sum(|w| w.counted), sum(|w| w.events));
    if span <= 0.0 {
        return None;
    }
    let (event_rate, count_rate) = (events / span, counted / span);
    let over: Vec<(f64, f64)> =
        windows.iter().map(|w| (w.counted - count_rate * w.span, w.events - event_rate * w.span)).collect();
    let spread: f64 = over.iter().map(|(v, _)| v * v).sum();
    let ratio = if count_rate > 0.0 { event_rate / count_rate } else { 0.0 };
    let product: f64 = over.iter().map(|(v, u)| u * v).sum();
    let slope = if spread > 0.0 { (product / spread).clamp(0.0, ratio) } else { 0.0 };
    let unseen = (event_rate * rest.span + slope * (rest.counted - count_rate * rest.span)).max(events);
    let interval = (windows.len() >= ENOUGH).then(|| {
        let n = windows.len() as f64;
        let squares: f64 = over
            .iter()
            .map(|(v, u)| {
                let leverage = 1.0 / n + if spread > 0.0 { v * v / spread } else { 0.0 };
                (u - slope * v).powi(2) / (1.0 - leverage.min(0.9)).powi(2)
            })
            .sum();
        let expansion = rest.span / span;
        let outside = (1.0 - span / rest.span).max(0.0);
        let error = expansion * (squares.max(events.min(n * ROUNDING)) * outside).sqrt();
        let met = windows.iter().filter(|w| w.events > 0.0).count() as f64;
        let reach = student::quantile(0.975, met.min(n - 2.0).max(1.0)) * error;
        let missed = (1.0 - MISSED.powf(1.0 / n)) * rest.span;
        let left = |w: &Window| (w.events - slope * w.counted) / w.span;
        let highest = windows.iter().filter(|w| w.span > 0.0).map(left).fold(0.0, f64::max);
        let left_rate = event_rate - slope * count_rate;
        let hi = match unseen > 0.0 {
            true => (unseen * (reach / unseen).min(20.0).exp()).max(unseen + missed * (highest - left_rate).max(0.0)),
            // 97.5 % bound for a Poisson count of 0.
            false => 3.69 * expansion * outside,
        };
        // More operations than the windows account for, given their slowdown and twice their standard error, belong to
        // a phase that no window met. Its events per operation are unknown.
        let count_error = expansion * (spread * outside).sqrt();
        let beyond = rest.counted - rest.slowed * count_rate * rest.span;
        let unmet = if beyond > 2.0 * rest.slowed * count_error { beyond } else { 0.0 };
        let most = windows.iter().filter(|w| w.counted > 0.0).map(|w| w.events / w.counted).fold(1.0, f64::max);
        (known + (unseen - reach - slope * unmet).max(events), known + hi + (most - slope).max(0.0) * unmet)
    });
    Some(Total { total: known + unseen, interval })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn window(events: f64, counted: f64) -> Window {
        Window { span: 5.0, counted, events }
    }

    #[test]
    fn the_total_of_a_completely_observed_period_is_exact() {
        let none = Rest { span: 0.0, counted: 0.0, slowed: 1.0 };
        let rest = Rest { span: 10.0, counted: 10.0, slowed: 1.0 };
        assert_eq!(total(7.0, &[], none), Some(Total { total: 7.0, interval: Some((7.0, 7.0)) }));
        assert_eq!(total(7.0, &[], rest), None);
        assert_eq!(total(7.0, &[window(2.0, 5.0)], rest), Some(Total { total: 11.0, interval: None }));
    }

    #[test]
    fn events_are_expanded_by_operations_or_by_time() {
        let rest = Rest { span: 1000.0, counted: 3000.0, slowed: 1.0 };
        let counts = [10.0, 0.0, 40.0, 10.0, 0.0, 20.0];
        // The windows met 80 operations in 30 ms, which is 2,667 of 3,000.
        let followed = counts.map(|n| window(2.0 * n, n));
        assert_eq!(total(0.0, &followed, rest).unwrap().total, 6000.0);
        let steady = counts.map(|n| window(15.0, n));
        assert_eq!(total(0.0, &steady, rest).unwrap().total, 3000.0);
    }

    #[test]
    fn zero_observed_events_have_a_nonzero_upper_bound() {
        let windows = [window(0.0, 10.0); 40];
        let t = total(0.0, &windows, Rest { span: 5000.0, counted: 10_000.0, slowed: 1.0 }).unwrap();
        let (lo, hi) = t.interval.unwrap();
        assert_eq!((t.total, lo), (0.0, 0.0));
        assert!((80.0..100.0).contains(&hi), "{hi}");
        assert!(is_narrow(0.0, (lo / 10_000.0, hi / 10_000.0)) && !is_narrow(0.0, (lo / 1000.0, hi / 1000.0)));
    }

    #[test]
    fn an_estimate_far_from_an_interval_bound_is_not_narrow() {
        let printed = [1.0, 1.2, 1.26, 1.4].map(|estimate| is_narrow(estimate, (1.0, 1.45)));
        assert_eq!(printed, [false, true, false, false]);
        assert!(is_narrow(1.24, (1.0, 1.5)) && !is_narrow(1.24, (1.0, 1.51)), "too wide");
    }

    #[test]
    fn operations_outside_all_windows_widen_the_interval() {
        // No window met 2,000 of 4,000 operations, which took 30 ms.
        let windows = [window(30.0, 10.0); 40];
        let t = total(0.0, &windows, Rest { span: 1000.0, counted: 4000.0, slowed: 1.0 }).unwrap();
        let (lo, hi) = t.interval.unwrap();
        assert!(lo < 6100.0 && hi > 11_900.0, "{t:?}");
    }

    #[test]
    fn the_interval_accounts_for_slowdown_in_windows() {
        // Half as many operations per time as outside.
        let windows = [window(20.0, 10.0); 40];
        let width = |slowed| {
            let (lo, hi) =
                total(0.0, &windows, Rest { span: 1000.0, counted: 4000.0, slowed }).unwrap().interval.unwrap();
            hi / lo
        };
        assert!(width(1.0) > 1.4 && width(2.0) < 1.2, "{} {}", width(1.0), width(2.0));
    }

    /// Events in one millisecond of a synthetic program, and the count that is kept throughout.
    type Program = fn(&mut Random, u64) -> (f64, f64);

    const PROGRAMS: [(&str, Program); 4] = [
        // As many operations as a busy machine permits, a few milliseconds at a time.
        ("one call per operation", |random, ms| {
            let n = (50 + (ms / 9) % 7 * 20 + random.below(40)) as f64;
            (n + random.below(3) as f64, n)
        }),
        ("bursts of calls between I/O", |_, ms| match ms % 22 {
            0 => (2000.0, 0.0),
            1 => (50.0, 50.0),
            _ => (0.0, 0.0),
        }),
        ("phases of calls and of I/O", |random, ms| match (ms / 37) % 3 {
            0 => (3.0, 40.0 + random.below(40) as f64),
            _ => (random.below(60) as f64, 0.0),
        }),
        ("independent events", |random, _| {
            let n = (0..8).filter(|_| random.below(4) == 0).count() as f64;
            (n, (0..8).filter(|_| random.below(2) == 0).count() as f64)
        }),
    ];

    /// Four standard errors over 500 runs are 3.9 % of the nominal 95 %.
    #[test]
    fn expansion_intervals_have_their_nominal_coverage() {
        const SPANS: u64 = 500;
        for (name, program) in PROGRAMS {
            let covered = (0..SPANS).filter(|seed| is_covered(program, *seed)).count();
            assert!((0.911..=0.989).contains(&(covered as f64 / SPANS as f64)), "{name}: {covered} of {SPANS}");
        }
    }

    fn is_covered(program: Program, seed: u64) -> bool {
        let mut random = Random::new(seed);
        let phase = random.below(1000);
        let ms: Vec<(f64, f64)> = (0..5000).map(|ms| program(&mut random, ms + phase)).collect();
        let windows: Vec<Window> = ms
            .chunks_exact(125)
            .map(|period| {
                let seen = &period[random.below(120) as usize..][..5];
                let sum = |of: fn(&(f64, f64)) -> f64| seen.iter().map(of).sum();
                Window { span: 5.0, counted: sum(|ms| ms.1), events: sum(|ms| ms.0) }
            })
            .collect();
        let sum = |of: fn(&(f64, f64)) -> f64| ms.iter().map(of).sum::<f64>();
        let t = total(0.0, &windows, Rest { span: 5000.0, counted: sum(|ms| ms.1), slowed: 1.0 }).expect("windows");
        let (lo, hi) = t.interval.expect("40 windows");
        (lo..=hi).contains(&sum(|ms| ms.0))
    }
}
