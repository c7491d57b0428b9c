use super::*;
use crate::{histogram, holm};

/// Generates synthetic repeats.
struct World {
    random: SplitMix64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self { random: SplitMix64::new(seed) }
    }

    /// One repeat in ten is an outlier.
    fn outlier(&mut self) -> f64 {
        if self.random.uniform() < 0.1 { 1.0 + self.random.uniform() } else { 1.0 + 0.01 * self.random.normal() }
    }

    /// From a distribution without a finite variance.
    fn heavy(&mut self) -> f64 {
        (0.02 * self.random.normal() / self.random.uniform().sqrt()).exp()
    }
}

type Arms = (Vec<f64>, Vec<f64>);
type Generator = fn(&mut World, usize) -> Arms;

/// Distributions of the repeats of two arms whose true ratio is 1.
const WORLDS: [(&str, Generator); 6] = [
    ("normal", |w, n| (0..n).map(|_| (1.0 + 0.02 * w.random.normal(), 1.0 + 0.02 * w.random.normal())).unzip()),
    ("log-normal", |w, n| (0..n).map(|_| (w.random.normal().exp(), w.random.normal().exp())).unzip()),
    ("heavier tails", |w, n| (0..n).map(|_| (w.heavy(), w.heavy())).unzip()),
    ("outliers", |w, n| (0..n).map(|_| (w.outlier(), w.outlier())).unzip()),
    ("drift of both", |w, n| {
        let mut drift = 0.0;
        let mut both = || {
            drift += 0.1 * w.random.normal();
            (f64::exp(drift + 0.01 * w.random.normal()), f64::exp(drift + 0.01 * w.random.normal()))
        };
        (0..n).map(|_| both()).unzip()
    }),
    ("one arm varies more", |w, n| {
        (0..n).map(|_| ((0.01 * w.random.normal()).exp(), (0.1 * w.random.normal()).exp())).unzip()
    }),
];

fn excludes_1(ratio: Ratio) -> bool {
    let i = ratio.interval.expect("there are pairs enough");
    i.lo > 1.0 || i.hi < 1.0
}

fn two_medians(a: &[f64], b: &[f64]) -> Option<Ratio> {
    Some(unpaired(&Median::new(a)?, &Median::new(b)?))
}

/// Trials per simulated rate, a quarter of them from each of four consecutive seeds. Trials without resampling are ten
/// times as many.
const TRIALS: usize = 1_000;

/// Share of `trials` in which `happens`.
fn share(trials: usize, mut happens: impl FnMut(&mut World) -> bool) -> f64 {
    let of_seed = |seed| {
        let mut w = World::new(seed);
        (0..trials / 4).filter(|_| happens(&mut w)).count()
    };
    (1..=4).map(of_seed).sum::<usize>() as f64 / trials as f64
}

/// A rate with the true value `p` exceeds this bound in 1 of 30,000 cases: four standard errors.
fn at_most(p: f64, trials: usize) -> f64 {
    p + 4.0 * (p * (1.0 - p) / trials as f64).sqrt()
}

/// Share of simulated comparisons whose interval misses the true ratio, so that equal arms would be reported as
/// different.
fn misses(made: Generator, n: usize, compare: fn(&[f64], &[f64]) -> Option<Ratio>) -> f64 {
    share(TRIALS, |w| {
        let (a, b) = made(w, n);
        excludes_1(compare(&a, &b).expect("simulated repeats are above 0"))
    })
}

#[test]
fn equal_arms_differ_in_at_most_5_percent_of_trials() {
    for n in [2, 5, 8, 12, 20] {
        for (name, made) in WORLDS {
            let missed = misses(made, n, paired);
            assert!(missed <= at_most(0.05, TRIALS), "{missed} of {n} pairs, {name}");
        }
    }
}

/// Measurements of real loads on a busy machine in chronological order (`benches/traces.sh`), with their drift,
/// outliers and autocorrelation.
fn measured() -> Vec<(&'static str, Vec<f64>)> {
    let line = |l: &'static str| {
        let (name, values) = l.split_once(": ").expect("a name and its values");
        (name, values.split(' ').map(|v| v.parse().expect("a number")).collect())
    };
    include_str!("traces.txt").lines().map(line).collect()
}

#[test]
fn intervals_of_measured_loads_cover_the_true_ratio_in_95_percent() {
    const TRUE: f64 = 1.07;
    let holds = |r: Option<Ratio>| {
        let i = r.unwrap().interval.unwrap();
        i.lo <= TRUE && TRUE <= i.hi
    };
    let mut held_of_all = Vec::new();
    for (name, trace) in measured() {
        for n in [3, 5, 10] {
            let pairs = share(2 * TRIALS, |w| {
                // As many measurements as a run makes, from a random start. The order of the arms within a block is
                // random.
                let start = w.random.below((trace.len() - 2 * n) as u64) as usize;
                let pair = |block: &[f64]| match w.random.below(2) {
                    0 => (block[0], TRUE * block[1]),
                    _ => (block[1], TRUE * block[0]),
                };
                let (a, b): Arms = trace[start..start + 2 * n].chunks_exact(2).map(pair).unzip();
                holds(paired(&a, &b))
            });
            let runs_apart = share(2 * TRIALS, |w| {
                let mut any = || trace[w.random.below(trace.len() as u64) as usize];
                let (a, b): Arms = (0..n).map(|_| (any(), TRUE * any())).unzip();
                holds(apart(&a, &b))
            });
            eprintln!("{name}: {n} pairs {:.1} %, {n} runs a side {:.1} %", 100.0 * pairs, 100.0 * runs_apart);
            held_of_all.extend([(name, n, pairs), (name, n, runs_apart)]);
        }
    }
    for (name, n, held) in held_of_all {
        assert!(held >= 1.0 - at_most(0.05, 2 * TRIALS), "{name}, {n}: {held}");
    }
}

#[test]
fn intervals_of_separate_medians_cover_the_true_ratio_in_95_percent() {
    for n in [2, 3, 5, 6, 12] {
        for (name, made) in WORLDS {
            let missed = misses(made, n, two_medians);
            assert!(missed <= at_most(0.05, TRIALS), "{missed} of {n} repeats, {name}");
        }
    }
}

/// `n` runs with log-normal variation of `spread`.
fn side(w: &mut World, n: usize, middle: f64, spread: f64) -> Vec<f64> {
    (0..n).map(|_| middle * (spread * w.random.normal()).exp()).collect()
}

/// Few runs cannot show which side varies more, so no rule may depend on that.
#[test]
fn intervals_of_separate_runs_cover_the_true_ratio_for_any_variance() {
    const SIZES: [(usize, usize, usize); 12] = [
        (2, 2, 10 * TRIALS),
        (3, 3, 10 * TRIALS),
        (4, 4, 10 * TRIALS),
        (5, 5, 10 * TRIALS),
        (2, 3, 10 * TRIALS),
        (2, 5, 10 * TRIALS),
        (3, 4, 10 * TRIALS),
        (3, 5, 10 * TRIALS),
        (4, 5, 10 * TRIALS),
        // With six or more runs, resampling takes a hundred times as long.
        (3, 8, TRIALS),
        (8, 8, TRIALS),
        (20, 20, TRIALS),
    ];
    for (n, m, trials) in SIZES {
        for times in [0.2, 1.0, 3.0, 5.0] {
            let missed = share(trials, |w| {
                let (a, b) = (side(w, n, 1.0, 0.05), side(w, m, 1.0, 0.05 * times));
                excludes_1(apart(&a, &b).unwrap())
            });
            assert!(
                missed <= at_most(0.05, trials),
                "{missed} of {n} and {m} runs, the latter vary {times} times as much"
            );
        }
    }
    for n in [2, 3, 4, 5] {
        for (name, made) in WORLDS {
            let missed = misses(made, n, apart);
            assert!(missed <= at_most(0.05, TRIALS), "{missed} of {n} runs, {name}");
        }
    }
}

/// Share of cases in which `n` runs per side with variation `spread` detect a difference of 20 %.
fn found(n: usize, spread: f64) -> f64 {
    share(TRIALS, |w| apart(&side(w, n, 1.0, spread), &side(w, n, 1.2, spread)).unwrap().interval.unwrap().lo > 1.0)
}

/// Table of docs/method.md: `cargo test -p iotrail-stats runs_per_side_detect -- --nocapture`.
#[test]
fn more_runs_per_side_detect_20_percent_despite_larger_variance() {
    const SPREADS: [f64; 6] = [0.02, 0.03, 0.04, 0.05, 0.065, 0.08];
    let header = SPREADS.map(|spread| format!(" {:.1} %", 100.0 * spread)).join(" |");
    eprintln!("| runs a side | half-width, in spreads |{header} |");
    for (n, finds_95_percent_up_to) in [(3, 0.03), (4, 0.05), (5, 0.065), (6, 0.065), (8, 0.08)] {
        let found = SPREADS.map(|spread| found(n, spread));
        let mut w = World::new(1);
        let mut widths: Vec<f64> = (0..TRIALS)
            .map(|_| apart(&side(&mut w, n, 1.0, 0.01), &side(&mut w, n, 1.0, 0.01)).unwrap().interval.unwrap())
            .map(|i| (i.hi / i.lo).ln() / 2.0 / 0.01)
            .collect();
        widths.sort_by(f64::total_cmp);
        let shares = found.map(|found| format!(" {:.0}", 100.0 * found)).join(" |");
        eprintln!("| {n} | {:.1} |{shares} |", widths[TRIALS / 2]);
        for (spread, found) in SPREADS.into_iter().zip(found) {
            assert!(spread > finds_95_percent_up_to || found >= 0.95, "{n} runs a side, {spread}: {found}");
        }
    }
}

#[test]
fn few_separate_runs_are_compared_by_their_means() {
    // Logarithms 0, 2, 4 and 10, 12, 14 with variances of 4: the error is √(8/3), and t with 3 degrees is 3.182.
    let of = |logs: [f64; 3]| logs.map(f64::exp);
    let i = apart(&of([0.0, 2.0, 4.0]), &of([10.0, 12.0, 14.0])).unwrap();
    let near = |x: f64, y: f64| (x.ln() - y).abs() < 1e-3;
    assert!(near(i.ratio, 10.0) && near(i.interval.unwrap().lo, 10.0 - 3.1824 * (8.0_f64 / 3.0).sqrt()), "{i:?}");
    assert!(near(i.interval.unwrap().hi, 10.0 + 3.1824 * (8.0_f64 / 3.0).sqrt()), "{i:?}");
    // If one side varies far more, two degrees of freedom remain: 4.303.
    let i = apart(&[1.0; 3], &of([10.0, 12.0, 14.0])).unwrap().interval.unwrap();
    assert!(near(i.lo, 12.0 - 4.3027 * (4.0_f64 / 3.0).sqrt()), "{i:?}");
    let same = apart(&[1.0; 3], &[1.0; 3]).unwrap();
    assert_eq!((same.ratio, same.interval.map(|i| (i.lo, i.hi, i.p))), (1.0, Some((1.0, 1.0, 1.0))));
    assert!(apart(&[1.0, 0.0], &[1.0]).is_none() && apart(&[], &[1.0]).is_none());
}

#[test]
fn at_most_1_in_20_runs_of_equal_arms_shows_any_difference() {
    const TOGETHER: usize = 12;
    const RUNS: usize = TRIALS / 5;
    for n in [3, 5, 10] {
        for (name, made) in WORLDS {
            let p = |w: &mut World| {
                let (a, b) = made(w, n);
                paired(&a, &b).unwrap().interval.unwrap().p
            };
            let wrong = share(RUNS, |w| {
                let of_run = (0..TOGETHER).map(|_| p(w)).collect::<Vec<_>>();
                holm::adjusted(&of_run).iter().any(|p| *p < 0.05)
            });
            assert!(wrong <= at_most(0.05, RUNS), "{wrong} of {n} pairs, {name}");
        }
    }
}

#[test]
fn p_is_below_0_05_exactly_if_the_interval_excludes_1() {
    let mut w = World::new(1);
    for n in [2, 3, 5, 20] {
        for _ in 0..50 {
            let (a, b) = WORLDS[0].1(&mut w, n);
            let i = paired(&a, &b).unwrap().interval.unwrap();
            let excludes_1 = i.lo > 1.0 || i.hi < 1.0;
            assert_eq!(i.p < 0.05, excludes_1, "{n}: {i:?}");
        }
    }
}

#[test]
fn the_predicted_number_of_repeats_shows_the_difference() {
    let mut w = World::new(3);
    let mut spread = |n: usize, ratio: f64| -> Arms {
        (0..n).map(|_| ((0.1 * w.random.normal()).exp(), ratio * (0.1 * w.random.normal()).exp())).unzip()
    };
    let needed = |(a, b): Arms| {
        let i = paired(&a, &b).unwrap().interval.unwrap();
        i.repeats_to_show(a.len(), 0.1).unwrap()
    };
    let mut of_runs: Vec<usize> = (0..TRIALS / 5).map(|_| needed(spread(5, 1.0))).collect();
    of_runs.sort_unstable();
    // Few repeats estimate their spread poorly, so the estimate is conservative.
    let middle = of_runs[of_runs.len() / 2];
    assert!((28..200).contains(&middle), "{middle}: the true number is 28");
    let shown = (0..TRIALS / 5).filter(|_| {
        let (a, b) = spread(middle, 1.1);
        excludes_1(paired(&a, &b).unwrap())
    });
    let shown = shown.count() as f64 / (TRIALS / 5) as f64;
    assert!(shown >= 0.9, "{shown}");
    let (a, b) = (vec![1.0; 5], vec![1.0; 5]);
    assert_eq!(paired(&a, &b).unwrap().interval.unwrap().repeats_to_show(5, 0.1), None, "nothing varied");
}

/// Latencies with an occasional slow repeat, as in real tails. The level differs slightly between repeats.
fn latencies(w: &mut World) -> Counts {
    let mut h = histogram::new();
    let level = 100_000.0 * (0.03 * w.random.normal()).exp() * if w.random.uniform() < 0.1 { 1.5 } else { 1.0 };
    for _ in 0..300 {
        h.record((level * (1.0 - w.random.uniform().ln())) as u64).unwrap();
    }
    Counts::of(&h)
}

#[test]
fn quantiles_of_equal_arms_differ_in_at_most_5_percent_of_trials() {
    for (n, q) in [(2, 0.5), (5, 0.99), (10, 0.99)] {
        for compare in [paired_quantiles, |a: &_, b: &_| unpaired(a, b)] {
            let missed = share(TRIALS, |w| {
                let mut arm = || (0..n).map(|_| latencies(w)).collect::<Vec<_>>();
                let (a, b) = (arm(), arm());
                let merged = |side: &[Counts]| MergedQuantile::new(&side.iter().collect::<Vec<_>>(), q).unwrap();
                excludes_1(compare(&merged(&a), &merged(&b)))
            });
            assert!(missed <= at_most(0.05, TRIALS), "{missed} of {n} repeats, quantile {q}");
        }
    }
}

/// The smallest detectable difference is detected, whatever spread the repeats showed.
#[test]
fn a_detectable_difference_is_detected_in_95_percent_of_trials() {
    let trials = TRIALS / 2;
    for (n, percent) in [(5, 4.5), (8, 3.0), (12, 2.5), (20, 1.5)] {
        let mut w = World::new(n as u64);
        let slower = 1.0 + percent / 100.0;
        let mut arm = |level: f64| -> Vec<f64> { (0..n).map(|_| level * (0.01 * w.random.normal()).exp()).collect() };
        let (mut visible, mut right) = (0, 0);
        for _ in 0..trials {
            let (a, control, b) = (arm(1.0), arm(1.0), arm(slower));
            let twin = paired(&a, &control).unwrap();
            let floor = twin.interval.unwrap().relative_half_width(twin.ratio);
            let r = paired(&a, &b).unwrap();
            let i = r.interval.unwrap();
            if i.smallest_visible(r.ratio, floor) < slower - 1.0 {
                visible += 1;
                right += usize::from(i.lo > 1.0 && r.ratio > 1.0 + floor);
            }
        }
        assert!(visible > trials / 8, "{percent} % is visible in {visible} of {trials} with {n} pairs");
        assert!(right as f64 >= 0.95 * visible as f64, "{right} of {visible} with {n} pairs");
    }
}

#[test]
fn bisection_and_walk_find_the_same_median_ratio() {
    let mut w = World::new(1);
    for n in [1, 2, 5, 8, 33] {
        // Some values are equal.
        let b: Vec<f64> = (0..n).map(|_| (8.0 * w.random.uniform()).ceil()).collect();
        let pairs = PairRatios::new(&vec![1.0; n], &b).unwrap();
        for _ in 0..50 {
            let mut times = vec![0; n];
            (0..n).for_each(|_| times[w.random.below(n as u64) as usize] += 1);
            assert_eq!(pairs.log(&times), pairs.bisected(&times), "{n}: {b:?} {times:?}");
        }
    }
}

#[test]
fn the_median_ratio_matches_the_hodges_lehmann_estimate() {
    // Hodges–Lehmann: the median of the logarithms 1, 2, 3, 8 and their pairwise means: 1, 1.5, 2, 2.5, 3, 4, 4.5,
    // 5.5, 6, 8.
    let b: Vec<f64> = [1.0, 2.0, 3.0, 8.0].iter().map(|x: &f64| x.exp()).collect();
    let r = paired(&[1.0; 4], &b).unwrap();
    let of = |mut v: Vec<f64>| {
        v.sort_by(f64::total_cmp);
        (v[4] + v[5]) / 2.0
    };
    let expected = of(vec![1.0, 1.5, 2.0, 4.5, 2.0, 2.5, 5.0, 3.0, 5.5, 8.0]);
    assert!((r.ratio.ln() - expected).abs() < 1e-12, "{}", r.ratio.ln());
    // If each block has its own level, the ratio is that of the pairs.
    let r = paired(&[1.0, 10.0, 100.0], &[2.0, 20.0, 200.0]).unwrap();
    let i = r.interval.unwrap();
    assert!([r.ratio, i.lo, i.hi].iter().all(|x| (x - 2.0).abs() < 1e-9), "{r:?}");
}

#[test]
fn the_interval_of_two_pairs_matches_students_t() {
    // Log ratios 0.01 and 0.03: mean 0.02, standard error 0.01, t with one degree of freedom 12.706.
    let r = paired(&[1.0, 1.0], &[0.01f64.exp(), 0.03f64.exp()]).unwrap();
    let i = r.interval.unwrap();
    assert!((r.ratio.ln() - 0.02).abs() < 1e-12);
    let half = (i.hi.ln() - i.lo.ln()) / 2.0;
    assert!((half / 0.12706 - 1.0).abs() < 0.03, "{half}");
    assert!((i.relative_half_width(r.ratio) - half.exp_m1()).abs() < 1e-9);
}

#[test]
fn one_pair_has_no_interval_and_a_zero_value_no_ratio() {
    for r in [paired(&[2.0], &[3.0]).unwrap(), two_medians(&[2.0], &[3.0, 3.0, 4.0]).unwrap()] {
        assert!((r.ratio - 1.5).abs() < 1e-12 && r.interval.is_none(), "{r:?}");
    }
    assert_eq!(paired(&[2.0, 0.0], &[3.0, 1.0]), None);
    assert_eq!(paired(&[], &[]), None);
    assert!(Median::new(&[1.0, 0.0]).is_none() && Median::new(&[]).is_none() && Median::new(&[f64::NAN]).is_none());
}

#[test]
fn equal_values_have_equal_intervals() {
    let (a, b) = ([3.0, 1.0, 4.0, 1.5], [9.0, 2.0, 6.0, 5.0]);
    assert_eq!(paired(&a, &b), paired(&a, &b));
    assert_eq!(two_medians(&a, &b), two_medians(&a, &b));
    // Medians of even numbers of values: (1.5 + 3) / 2 and (5 + 6) / 2.
    assert!((two_medians(&a, &b).unwrap().ratio - 5.5 / 2.25).abs() < 1e-12);
}

#[test]
fn a_merged_quantile_equals_that_of_the_merged_histogram() {
    let mut w = World::new(1);
    let mut all = histogram::new();
    let mut repeats = Vec::new();
    for i in 0..4 {
        let mut h = histogram::new();
        for _ in 0..2_000 {
            h.record((1e5 * f64::from(1 + i) * w.heavy()) as u64).unwrap();
        }
        // The second repeat is drawn twice, the last one never.
        for _ in 0..[1, 2, 1, 0][i as usize] {
            all.add(&h).unwrap();
        }
        repeats.push(Counts::of(&h));
    }
    let repeats: Vec<&Counts> = repeats.iter().collect();
    for q in [0.5, 0.9, 0.99, 0.999] {
        let merged = MergedQuantile::new(&repeats, q).unwrap();
        assert_eq!(merged.log(&[1, 2, 1, 0]), (all.value_at_quantile(q) as f64).ln(), "{q}");
    }
    assert!(MergedQuantile::new(&repeats, 0.9999).is_none(), "8,000 samples are too few for it");
    assert!(MergedQuantile::new(&[&Counts::of(&histogram::new())], 0.5).is_none());
}

/// The histogram's resolution is 0.1 %. Repeats that agree within a bin contain no further information.
#[test]
fn the_interval_of_a_quantile_is_at_least_one_bin_wide() {
    let one = |value: u64| {
        let mut h = histogram::new();
        h.record_n(value, 1_000).unwrap();
        Counts::of(&h)
    };
    let side = |value: u64| MergedQuantile::new(&[&one(value); 5], 0.99).unwrap();
    let i = paired_quantiles(&side(100_000), &side(100_050)).interval.unwrap();
    assert!(i.lo < 1.0 && i.hi > 1.0, "{i:?}");
    assert!(paired_quantiles(&side(100_000), &side(100_500)).interval.unwrap().lo > 1.0);
}
