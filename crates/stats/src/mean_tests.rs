use super::*;
use crate::random::SplitMix64;

fn of(items: impl IntoIterator<Item = (f64, u32)>) -> Mean {
    let mut mean = Mean::default();
    items.into_iter().for_each(|(value, weight)| mean.take(value, weight));
    mean
}

#[test]
fn completely_traced_values_do_not_contribute_to_the_error() {
    assert_eq!((Mean::default().mean(), Mean::default().interval(1)), (None, None));
    let m = of([(100.0, 1), (300.0, 1)]);
    assert_eq!((m.mean(), m.interval(1), m.interval(100)), (Some(200.0), Some([200.0, 200.0]), None));
    // With the minimum number of items, a few more may exist: 3 × 100 of 1,000, as fast as the fastest or as slow as
    // the slowest.
    let m = of((0..1_000).map(|i| (if i % 2 == 0 { 100.0 } else { 300.0 }, 1)));
    assert_eq!(m.interval(100), Some([170.0, 230.0]));
}

#[test]
fn few_samples_have_no_interval() {
    let heavy = |n| of((0..n).map(|i| (if i % 100 == 0 { 10_000.0 } else { 100.0 }, 100)));
    assert_eq!((heavy(162).interval(100), heavy(499).interval(100)), (None, None));
    assert!(heavy(162).mean().is_some_and(|m| m > 199.0));
    let [lo, hi] = heavy(500).interval(100).unwrap();
    assert!(lo < 150.0 && hi > 300.0, "{lo} to {hi}: five slow ones may as well be two or twelve");
    // An item of weight 100 contributes as much information as one item; those of weight 1 are many.
    let mixed = |whole, sampled| of((0..whole).map(|_| (100.0, 1)).chain((0..sampled).map(|_| (300.0, 100))));
    assert_eq!(mixed(48, 10).interval(100), None);
    let [lo, hi] = mixed(100_000, 10).interval(100).unwrap();
    assert!(100.5 < lo && lo < 101.5 && 103.0 < hi && hi < 105.0, "{lo} to {hi} around 102");
}

#[test]
fn equal_values_have_no_error_and_sums_are_additive() {
    let [lo, hi] = of((0..600).map(|_| (1e6 / 3.0, 64))).interval(64).unwrap();
    assert!((lo - 1e6 / 3.0).abs() < 1e-3 && (hi - 1e6 / 3.0).abs() < 1e-3, "{lo} to {hi}");
    let values: Vec<(f64, u32)> = (0..2_000).map(|i| (f64::from(i * i % 977 + 1), 1 + i as u32 % 2 * 49)).collect();
    let (a, b) = values.split_at(700);
    let (mut sum, all) = (of(a.iter().copied()), of(values.iter().copied()));
    sum.add(&of(b.iter().copied()));
    let (a, b) = (sum.interval(50).unwrap(), all.interval(50).unwrap());
    assert!((a[0] / b[0] - 1.0).abs() < 1e-9 && (a[1] / b[1] - 1.0).abs() < 1e-9, "{a:?} {b:?}");
}

type Draw = fn(&mut SplitMix64) -> f64;

/// Latency distributions with their means.
fn shapes() -> Vec<(&'static str, f64, Draw)> {
    fn log_normal(random: &mut SplitMix64, sigma: f64) -> f64 {
        (sigma * random.normal()).exp()
    }
    fn rarely(random: &mut SplitMix64, slow: Draw) -> f64 {
        if random.uniform() < 0.01 { slow(random) } else { 1.0 + 0.1 * random.normal() }
    }
    vec![
        ("nearly equal", 1.0, |r| 1.0 + 0.1 * r.normal()),
        ("exponential", 1.0, |r| -r.uniform().ln()),
        ("log-normal, 1", 0.5f64.exp(), |r| log_normal(r, 1.0)),
        ("log-normal, 1.5", 1.125f64.exp(), |r| log_normal(r, 1.5)),
        ("log-normal, 2", 2f64.exp(), |r| log_normal(r, 2.0)),
        ("Pareto, 2.5", 2.5 / 1.5, |r| r.uniform().powf(-1.0 / 2.5)),
        ("one in a hundred is slow", 0.99 + 1.0, |r| rarely(r, |_| 100.0)),
        ("one in a hundred is slow, more or less", 0.99 + 0.1, |r| rarely(r, |r| -10.0 * r.uniform().ln())),
        ("Pareto, 1.5", 3.0, |r| r.uniform().powf(-1.0 / 1.5)),
    ]
}

/// In 1,500 draws of 500 values with weight 100, the interval must contain the mean in at least 95 %, also in addition
/// to items taken with certainty.
#[test]
fn the_interval_of_a_sampled_mean_has_its_nominal_coverage() {
    const SAMPLES: u32 = 1_500;
    let alone = Mean::default();
    let beside = of((0..30_000).map(|i| (0.5 + f64::from(i % 5) / 4.0, 1)));
    for (name, truth, shape) in shapes() {
        for whole in [alone, beside] {
            let mut random = SplitMix64::new(0x2545_f491_4f6c_dd1d);
            let mut widths = 0.0;
            let all = whole.weights + ENOUGH * 100.0;
            let truth = (whole.sum + truth * ENOUGH * 100.0) / all;
            let holds = |_: &u32| {
                let mut sample = whole;
                sample.add(&of((0..ENOUGH as u32).map(|_| (shape(&mut random), 100))));
                let [lo, hi] = sample.interval(100).expect("as many as are enough");
                widths += (hi - lo) / truth / f64::from(SAMPLES);
                lo <= truth && truth <= hi
            };
            let coverage = (0..SAMPLES).filter(holds).count() as f64 / f64::from(SAMPLES);
            let least = if name == "Pareto, 1.5" { 0.94 } else { 0.95 };
            assert!(coverage >= least, "{name}, beside {} others: {coverage}", whole.weights);
            assert!(name != "exponential" || widths < 0.25, "{name}: {widths} of the mean wide");
        }
    }
}
