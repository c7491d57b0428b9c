//! Contradictions between a run's repeats: outliers within a cell, and a drift of the full run from its first blocks to
//! its last. No repeat is excluded for it.

use super::unit::Unit;
use iotrail_base::words::{count, percent, plural};
use iotrail_schema::measurement::Warning;
use iotrail_schema::run_record::{CellRecord, RunRecord, value_text};
use iotrail_stats::middle::{deviation, median};

/// With fewer repeats, a deviation cannot be estimated.
const ENOUGH: usize = 5;
/// A repeat within 10 % of the median causes no warning, however small the spread of the others. At this distance it
/// moves the median of five repeats, or their mean by 2 %.
const OUTLIER: f64 = 0.10;
/// Smallest reported change from the first half of the blocks to the second; equals the limit within one measurement.
const DRIFT: f64 = 0.05;
/// Significance level of the trend test (two-sided). Five blocks can reach it (1.7 %); fewer cannot.
const CHANCE: f64 = 0.02;
/// Maximum number of outliers named in a text.
const NAMED: usize = 3;

/// Warnings on throughput. Pure: the same record gives the same text.
pub fn warnings(run: &RunRecord) -> Vec<Warning> {
    [outliers(run), drift(run)].into_iter().flatten().collect()
}

/// Largest distance of a repeat from the median, in median absolute deviations (scaled to a normal distribution's
/// standard deviation). With few repeats that scale is uncertain, so the limits are simulated: one in 100 cells of `n`
/// normal repeats exceeds them.
fn limit(n: usize) -> f64 {
    3.6 + 30.0 / (n as f64 - 3.0)
}

struct Outlier<'a> {
    cell: &'a CellRecord,
    /// 1-based.
    repeat: usize,
    iops: f64,
    /// Distance from the cell's median, relative to that median.
    off: f64,
}

fn outliers(run: &RunRecord) -> Option<Warning> {
    let mut found: Vec<Outlier> = run.cells.iter().flat_map(outliers_of).collect();
    found.sort_by(|a, b| b.off.abs().total_cmp(&a.off.abs()));
    let one = |o: &Outlier| {
        let side = if o.off < 0.0 { "below" } else { "above" };
        format!(
            "{}, repeat {}: {} {}, {} {side} the median of its {}",
            named(run, o.cell),
            o.repeat,
            count(o.iops),
            Unit::of_run(run).per_second(),
            percent(o.off.abs()),
            o.cell.measurements.len()
        )
    };
    let mut text: Vec<String> = found.iter().take(NAMED).map(one).collect();
    if let more @ 1.. = found.len().saturating_sub(NAMED) {
        text.push(format!("and {more} more"));
    }
    (!found.is_empty()).then(|| {
        Warning::new(
            "outliers",
            format!("{} far from the others, but kept: {}", plural(found.len(), "repeat"), text.join("; ")),
            "the median tolerates a few outliers; many outliers indicate that other programs were running: repeat the run on an idle machine",
        )
    })
}

fn outliers_of(cell: &CellRecord) -> Vec<Outlier<'_>> {
    let known: Option<Vec<f64>> = cell.measurements.all().iter().map(|m| m.iops).collect();
    let Some(iops) = known else { return Vec::new() };
    if iops.len() < ENOUGH {
        return Vec::new();
    }
    let middle = median(iops.iter().copied()).filter(|middle| *middle > 0.0);
    let Some((middle, scale)) = middle.and_then(|m| Some((m, deviation(iops.iter().copied(), m)?))) else {
        return Vec::new();
    };
    let far = (limit(iops.len()) * scale).max(OUTLIER * middle);
    let each = iops.iter().enumerate().filter(|(_, x)| (**x - middle).abs() > far);
    each.map(|(i, x)| Outlier { cell, repeat: i + 1, iops: *x, off: x / middle - 1.0 }).collect()
}

/// `cell 7 (depth 16 · arm coop)`.
fn named(run: &RunRecord, cell: &CellRecord) -> String {
    let values = run.axes.iter().filter_map(|a| Some(format!("{a} {}", value_text(cell.params.get(a)?))));
    match values.collect::<Vec<_>>().join(" · ") {
        none if none.is_empty() => format!("cell {}", cell.cell),
        values => format!("cell {} ({values})", cell.cell),
    }
}

/// Every block contains each cell once, so a block's level is the median of its cells relative to their own medians.
/// The trend is Kendall's rank correlation between level and block number, with its exact distribution.
fn drift(run: &RunRecord) -> Option<Warning> {
    let whole: Vec<&CellRecord> =
        run.cells.iter().filter(|c| !c.measurements.is_empty() && c.measurements.len() >= ENOUGH).collect();
    let blocks = whole.iter().map(|c| c.measurements.len()).min()?;
    let relative: Vec<Vec<f64>> = whole.iter().filter_map(|c| relative(c, blocks)).collect();
    let level = |block: usize| median(relative.iter().map(|cell| cell[block]));
    let levels: Vec<f64> = (0..blocks).map(level).collect::<Option<_>>()?;
    if chance(&levels) > CHANCE {
        return None;
    }
    let halves = |levels: &[f64]| {
        let half = levels.len() / 2;
        Some(median(levels[levels.len() - half..].iter().copied())? / median(levels[..half].iter().copied())? - 1.0)
    };
    let change = halves(&levels)?;
    if !change.is_finite() || change.abs() < DRIFT {
        return None;
    }
    let most = whole
        .iter()
        .filter_map(|c| Some((*c, halves(&self::relative(c, blocks)?)?)))
        .filter(|(_, change)| change.is_finite())
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let course = |change: f64| format!("{} by {}", if change < 0.0 { "fell" } else { "rose" }, percent(change.abs()));
    let worst =
        if whole.len() > 1 { format!("; in {} it {}", named(run, most.0), course(most.1)) } else { String::new() };
    Some(Warning::new(
        "drift",
        format!(
            "throughput {} from the first repeats to the last (median over the cells, {blocks} blocks, p = {:.3}){worst}",
            course(change),
            chance(&levels)
        ),
        "ratios are valid because arms share each block; absolute numbers are not. Find the cause (heat, a filling drive, a cache, other programs), \
         or let the machine settle first",
    ))
}

/// The first `blocks` repeats relative to the cell's median; `None` without one.
fn relative(cell: &CellRecord, blocks: usize) -> Option<Vec<f64>> {
    let iops: Vec<f64> = cell.measurements.all().iter().take(blocks).map(|m| m.iops).collect::<Option<_>>()?;
    let middle = median(iops.iter().copied())?;
    (middle > 0.0).then(|| iops.iter().map(|x| x / middle).collect())
}

/// Two-sided probability that a random order has at least this surplus of rising over falling pairs (or the reverse).
fn chance(levels: &[f64]) -> f64 {
    let n = levels.len();
    let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let sign = |(i, j): (usize, usize)| match levels[j].total_cmp(&levels[i]) {
        std::cmp::Ordering::Greater => 1i64,
        std::cmp::Ordering::Less => -1,
        std::cmp::Ordering::Equal => 0,
    };
    let s = pairs.map(sign).sum::<i64>().unsigned_abs() as usize;
    let all = n * n.saturating_sub(1) / 2;
    // Permutations by number of falling pairs: element i adds 0 to i of them, with equal probability.
    let mut orders = vec![1.0];
    for i in 1..n {
        // Sliding sum over the last i + 1 entries.
        let (mut sum, mut next) = (0.0f64, Vec::with_capacity(orders.len() + i));
        for k in 0..orders.len() + i {
            sum += orders.get(k).copied().unwrap_or(0.0);
            if k > i {
                sum -= orders.get(k - i - 1).copied().unwrap_or(0.0);
            }
            next.push(sum.max(0.0) / (i + 1) as f64);
        }
        orders = next;
    }
    let extreme = (all - s) / 2;
    (2.0 * orders.iter().take(extreme + 1).sum::<f64>()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::run_record::ARM;
    use iotrail_stats::random::SplitMix64;
    use iotrail_testing::sample;

    /// One cell per slice, with the IOPS of its repeats.
    fn run(cells: &[&[f64]]) -> RunRecord {
        let cell = |(i, iops): (usize, &&[f64])| CellRecord {
            cell: i as u32 + 1,
            params: [("depth".into(), (i + 1).into()), (ARM.into(), "coop".into())].into_iter().collect(),
            untestable: None,
            measurements: iops
                .iter()
                .map(|iops| iotrail_schema::measurement::Measurement { iops: Some(*iops), ..sample::measurement() })
                .collect(),
        };
        RunRecord {
            repeats: 5,
            axes: vec!["depth".into(), ARM.into()],
            arms: vec!["default".into(), "coop".into()],
            cells: cells.iter().enumerate().map(cell).collect(),
            ..sample::run()
        }
    }

    fn texts(cells: &[&[f64]]) -> Vec<String> {
        warnings(&run(cells)).into_iter().map(|w| w.text).collect()
    }

    #[test]
    fn repeats_that_vary_show_no_drift() {
        assert_eq!(texts(&[]), [""; 0]);
        assert_eq!(texts(&[&[]]), [""; 0]);
        assert_eq!(texts(&[&[100.0, 103.0, 98.0, 101.0, 99.0], &[0.0; 5]]), [""; 0]);
        // Four repeats show neither.
        assert_eq!(texts(&[&[100.0, 90.0, 80.0, 20.0]]), [""; 0]);
    }

    #[test]
    fn an_outlier_repeat_is_reported_with_its_deviation() {
        let far = [1000.0, 1010.0, 500.0, 990.0, 1005.0];
        assert_eq!(
            texts(&[&[2000.0, 2001.0, 1999.0, 2000.0, 2002.0], &far]),
            [
                "1 repeat far from the others, but kept: cell 2 (depth 2 · arm coop), repeat 3: 500 IOPS, 50 % below the median \
                 of its 5"
            ]
        );
        // Many deviations away, but only a few per cent.
        assert_eq!(texts(&[&[1000.0, 1000.1, 999.9, 1000.0, 1090.0]]), [""; 0]);
        let many: Vec<&[f64]> = vec![&far; 5];
        assert!(texts(&many)[0].ends_with("; and 2 more"), "{:?}", texts(&many));
    }

    #[test]
    fn a_run_that_slows_down_is_reported_with_its_worst_cell() {
        let falls = [1000.0, 980.0, 950.0, 930.0, 900.0];
        let falls_more = [500.0, 480.0, 450.0, 420.0, 400.0];
        assert_eq!(
            texts(&[&falls, &falls_more]),
            [
                "throughput fell by 12 % from the first repeats to the last (median over the cells, 5 blocks, p = 0.017); in cell 2 \
                 (depth 2 · arm coop) it fell by 16 %"
            ]
        );
        // Monotonic, but by little.
        assert_eq!(texts(&[&[1000.0, 999.0, 998.0, 997.0, 996.0]]), [""; 0]);
        // With one pair out of order, five blocks do not prove a drift.
        assert_eq!(texts(&[&[1000.0, 980.0, 950.0, 900.0, 930.0]]), [""; 0]);
        // An interrupted run: only its complete blocks count.
        assert_eq!(texts(&[&falls, &falls_more[..3]]).len(), 1);
    }

    #[test]
    fn p_values_match_the_textbook_values() {
        // Kendall's S for n = 5: 2 of 120 permutations are monotonic; 10 of 120 are at most one swap away.
        assert!((chance(&[1.0, 2.0, 3.0, 4.0, 5.0]) - 2.0 / 120.0).abs() < 1e-12);
        assert!((chance(&[5.0, 4.0, 3.0, 1.0, 2.0]) - 10.0 / 120.0).abs() < 1e-12);
        assert!((chance(&[1.0, 1.0, 1.0]) - 1.0).abs() < 1e-12);
    }

    /// With normally distributed repeats, at most one cell in 100 may show an outlier, and one run in 50 a drift.
    #[test]
    fn the_false_positive_rate_does_not_exceed_the_nominal_rate() {
        let mut random = SplitMix64::new(0x2545_f491_4f6c_dd1d);
        for n in [5, 8, 12, 20] {
            let mut hits = 0;
            for _ in 0..2000 {
                let iops: Vec<f64> = (0..n).map(|_| random.normal()).collect();
                let middle = median(iops.iter().copied()).unwrap();
                let scale = deviation(iops.iter().copied(), middle).unwrap();
                hits += u32::from(iops.iter().any(|x| (x - middle).abs() > limit(n) * scale));
            }
            assert!(hits <= 32, "{hits} of 2,000 cells with {n} repeats");
        }
    }
}
