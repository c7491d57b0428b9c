use super::*;
use crate::holm;
use crate::random::SplitMix64;

fn fleet(of: &[(f64, f64)]) -> Vec<Machine> {
    of.iter().map(|(effect, error)| Machine { effect: *effect, error2: error * error, df: 7.0 }).collect()
}

/// `metafor`'s `rma(yi, vi, method = "PM", test = "knha")` with its data set `dat.bcg` (log relative risks), a
/// published check.
#[test]
fn the_meta_analysis_of_vaccine_trials_matches_metafor() {
    let of: Vec<Machine> = [
        (-0.8893, 0.3256),
        (-1.5854, 0.1946),
        (-1.3481, 0.4154),
        (-1.4416, 0.0200),
        (-0.2175, 0.0512),
        (-0.7861, 0.0069),
        (-1.6209, 0.2230),
        (0.0120, 0.0040),
        (-0.4694, 0.0564),
        (-1.3713, 0.0730),
        (-0.3394, 0.0124),
        (0.4459, 0.5325),
        (-0.0173, 0.0714),
    ]
    .map(|(effect, error2)| Machine { effect, error2, df: f64::MAX })
    .into();
    let all = summary(&of);
    // Paule and Mandel: tau² 0.3181, mean −0.7150; the Q-profile of tau²: 0.1197 to 1.1115.
    assert!((all.spread.powi(2) - 0.3181).abs() < 5e-4, "{all:?}");
    assert!((all.mean + 0.7150).abs() < 5e-4, "{all:?}");
    let (lo, hi) = all.spread_interval;
    assert!((lo * lo - 0.1197).abs() < 5e-4 && (hi * hi - 1.1115).abs() < 2e-3, "{all:?}");
    let (lo, hi) = all.interval;
    assert!(lo < all.mean && all.mean < hi && hi < 0.0, "{all:?}");
    let (wider_lo, wider_hi) = all.another.unwrap();
    assert!(wider_lo < lo && wider_hi > hi && all.unlike.is_empty(), "{all:?}");
}

#[test]
fn missing_or_invalid_values_have_no_result() {
    assert_eq!(across(&[]), None);
    assert_eq!(across(&fleet(&[(0.1, 0.01)])), None);
    assert_eq!(across(&fleet(&[(0.1, 0.01), (f64::NAN, 0.01)])), None);
    assert_eq!(across(&fleet(&[(0.1, 0.01), (0.2, 0.0)])), None);
    let two = across(&fleet(&[(0.1, 0.01), (0.1, 0.01)])).unwrap();
    assert_eq!((two.mean, two.spread, two.spread_interval.0, two.another), (0.1, 0.0, 0.0, None));
}

#[test]
fn digamma_and_trigamma_match_published_tables() {
    for (x, di, tri) in [
        (0.5, -1.963_510_026, 4.934_802_201),
        (1.0, -0.577_215_665, 1.644_934_067),
        (3.5, 1.103_156_641, 0.330_357_756),
    ] {
        assert!(
            (digamma(x) - di).abs() < 1e-6 && (trigamma(x) - tri).abs() < 1e-6,
            "{x}: {} {}",
            digamma(x),
            trigamma(x)
        );
    }
    let half = half_df(trigamma(7.25)).unwrap();
    assert!((half - 7.25).abs() < 1e-3, "{half}");
    assert_eq!(half_df(0.0), None);
}

#[test]
fn the_error_of_a_machine_is_derived_from_its_interval() {
    // The interval's half-width is t(0.975, 7) = 2.3646 errors.
    let [lo, hi] = [-1.0, 1.0].map(|sign: f64| (0.2 + sign * 0.023_646_24).exp());
    let m = Machine::of_ratio(0.2f64.exp(), [lo, hi], 8).unwrap();
    assert!((m.effect - 0.2).abs() < 1e-12 && (m.error2.sqrt() - 0.01).abs() < 1e-7 && m.df == 7.0, "{m:?}");
    assert!(Machine::of_ratio(1.0, [1.0; 2], 8).unwrap().error2 > 0.0);
    for (ratio, interval, pairs) in [(1.0, [0.9, 1.1], 1), (0.0, [0.9, 1.1], 8), (1.0, [0.0, 1.1], 8)] {
        assert_eq!(Machine::of_ratio(ratio, interval, pairs), None, "{ratio} {interval:?} {pairs}");
    }
}

/// Noise by machine index.
type Noise = fn(usize) -> f64;

/// A synthetic fleet with this number of pairs per machine.
fn made(machines: usize, pairs: usize, spread: f64, noise: Noise, random: &mut SplitMix64) -> Vec<Machine> {
    let one = |i| {
        let own = 0.1 + spread * random.normal();
        let all: Vec<f64> = (0..pairs).map(|_| own + noise(i) * random.normal()).collect();
        let effect = all.iter().sum::<f64>() / pairs as f64;
        let squares: f64 = all.iter().map(|x| (x - effect).powi(2)).sum();
        let df = (pairs - 1) as f64;
        Machine { effect, error2: squares / df / pairs as f64, df }
    };
    (0..machines).map(one).collect()
}

/// Equal noise, and noise from 2 to 10 %.
const NOISES: [(&str, Noise); 2] = [("alike", |_| 0.03), ("not alike", |i| 0.02 * [1.0, 2.0, 5.0][i % 3])];

/// Coverage of the intervals of mean, spread and prediction, in percent.
fn coverage(fleets: usize, machines: usize, pairs: usize, spread: f64, noise: Noise) -> [f64; 3] {
    let mut random = SplitMix64::new(machines as u64);
    let mut held = [0; 3];
    for _ in 0..fleets {
        let all = summary(&squeezed(&made(machines, pairs, spread, noise, &mut random)));
        let another = 0.1 + spread * random.normal();
        let holds = |(lo, hi): (f64, f64), what: f64| usize::from(lo <= what && what <= hi);
        held[0] += holds(all.interval, 0.1);
        held[1] += holds(all.spread_interval, spread);
        held[2] += all.another.map_or(0, |interval| holds(interval, another));
    }
    held.map(|n| 100.0 * n as f64 / fleets as f64)
}

#[test]
fn intervals_of_synthetic_fleets_have_their_nominal_coverage() {
    for (called, noise) in NOISES {
        for machines in [3, 10, 200] {
            for spread in [0.02, 0.1] {
                let fleets = if machines > 100 { 400 } else { 800 };
                let held = coverage(fleets, machines, 8, spread, noise);
                println!("{machines:4} machines, noise {called}, spread {spread}: {held:?}");
                // The simulation itself has a standard error of 0.8 to 1.1.
                assert!(held.iter().all(|held| *held >= 93.0), "{machines} {called} {spread}: {held:?}");
            }
        }
    }
}

/// Table of docs/method.md: `cargo test -p iotrail-stats print_the_coverage_of_more_synthetic_fleets -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn print_the_coverage_of_more_synthetic_fleets() {
    println!("of 100 held: the mean, the spread, another machine");
    for (called, noise) in NOISES {
        for (machines, pairs) in [3, 10, 200].into_iter().flat_map(|m| [3, 8, 20].map(|p| (m, p))) {
            for spread in [0.0, 0.01, 0.02, 0.05, 0.1] {
                let [mean, spread_held, another] = coverage(2000, machines, pairs, spread, noise);
                println!(
                    "{machines:4} machines, {pairs:2} pairs, noise {called}, spread {spread}: {mean:.1} {spread_held:.1} {another:.1}"
                );
            }
        }
    }
}

fn apart(machines: &[Machine]) -> Vec<usize> {
    let adjusted = holm::adjusted(&across(machines).unwrap().unlike);
    (0..machines.len()).filter(|i| adjusted[*i] < 0.05).collect()
}

#[test]
fn homogeneous_fleets_rarely_have_an_outlier() {
    let mut random = SplitMix64::new(5);
    let called = (0..200).filter(|_| !apart(&made(12, 8, 0.05, NOISES[0].1, &mut random)).is_empty()).count();
    assert!(called <= 18, "{called} of 200");
}

#[test]
fn a_machine_with_the_opposite_effect_is_an_outlier() {
    let mut of: Vec<(f64, f64)> = (0..12).map(|i| (0.1 + 0.01 * f64::from(i % 3), 0.01)).collect();
    of[7].0 = -0.4;
    assert_eq!(apart(&fleet(&of)), [7]);
    of[7].0 = 0.11;
    assert_eq!(apart(&fleet(&of)), [0usize; 0]);
    // Three machines are too few for an outlier.
    assert_eq!(across(&fleet(&of[..3])).unwrap().unlike, [1.0; 3]);
}

#[test]
fn equal_groups_differ_in_at_most_1_of_20_fleets_unlike_distinct_ones() {
    let mut random = SplitMix64::new(9);
    let mut called = [0; 2];
    for _ in 0..400 {
        for (by, called) in [0.0, 0.3].into_iter().zip(&mut called) {
            let mut all = made(10, 8, 0.05, NOISES[1].1, &mut random);
            let is_first: Vec<bool> = (0..10).map(|i| i < 3).collect();
            all[..3].iter_mut().for_each(|m| m.effect += by);
            let groups = groups(&all, &is_first).unwrap();
            *called += usize::from(groups.p < 0.05);
        }
    }
    assert!((8..=28).contains(&called[0]) && called[1] >= 390, "{called:?} of 400");
    // One machine is not a group.
    let all = made(10, 8, 0.05, NOISES[0].1, &mut random);
    assert_eq!(groups(&all, &[true, false, false, false, false, false, false, false, false, false]), None);
    assert_eq!(groups(&all[..3], &[true, true, false]), None);
}
