//! Compares one figure with a run.

use serde_json::{Map, Value};

use super::band::{self, OF_BEST, STEPS};
use super::study::{Count, Knee, Limit, Order, Place, Ratio, Shape};
use crate::compare::{Histograms, Metric, Side, compare, noise_floor, place, together, undecided};
use crate::per_io;
use iotrail_base::words::{percent, three_digits};
use iotrail_schema::comparison::{Comparison, EQUIVALENT_WITHIN, Verdict};
use iotrail_schema::reproduction::{Band, LineOutcome};
use iotrail_schema::run_record::{ARM, CONTROL, CellRecord, RunRecord, value_text};
use iotrail_stats::bootstrap::paired;
use iotrail_stats::middle::median;
use iotrail_stats::student;

/// The measured counterpart of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    pub words: Option<String>,
    pub value: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    pub outcome: LineOutcome,
    pub reason: Option<String>,
}

impl Default for Observation {
    fn default() -> Self {
        Observation { words: None, value: None, ci95: None, outcome: LineOutcome::Inconclusive, reason: None }
    }
}

impl Observation {
    pub fn untestable(why: impl Into<String>) -> Self {
        Observation { outcome: LineOutcome::CannotBeTested, reason: Some(why.into()), ..Observation::default() }
    }
}

/// Below this utilisation, a CPU is not the bottleneck.
const SATURATED: f64 = 0.9;

/// Why a figure cannot be tested.
type Untestable = String;

pub fn judged(shape: &Shape, run: &RunRecord, histograms: Histograms<'_>) -> Observation {
    let seen = match shape {
        Shape::Ratio(ratio) => of_ratio(ratio, run, histograms),
        Shape::Count(count) => of_count(count, run),
        Shape::Knee(knee) => of_knee(knee, run, histograms),
        Shape::Order(order) => of_order(order, run, histograms),
    };
    seen.unwrap_or_else(Observation::untestable)
}

/// The measured cell.
fn cell<'r>(run: &'r RunRecord, at: &Place) -> Result<&'r CellRecord, Untestable> {
    let is_there = |c: &&CellRecord| {
        c.arm() != CONTROL && at.iter().all(|(name, value)| c.params.get(name).is_some_and(|v| same(v, value)))
    };
    let name = || at.iter().map(|(name, v)| format!("{name} {}", value_text(v))).collect::<Vec<_>>().join(", ");
    let found = run.cells.iter().find(is_there);
    let found = found.ok_or_else(|| match run.quick {
        true => format!("the quick form does not measure {}: drop --quick", name()),
        false => format!("the run has no cell with {}", name()),
    })?;
    match &found.untestable {
        Some(why) => Err(why.clone()),
        None if found.measurements.is_empty() => Err(format!("{} was not measured", name())),
        None => Ok(found),
    }
}

fn same(a: &Value, b: &Value) -> bool {
    value_text(a) == value_text(b)
}

fn named(name: &str) -> Result<Metric, Untestable> {
    name.parse().map_err(|_| format!("unknown metric {name}"))
}

fn is_known(figure: Metric, name: &str, cell: &CellRecord) -> Result<Vec<f64>, Untestable> {
    let values: Option<Vec<f64>> = cell.measurements.all().iter().map(|m| figure.of(m)).collect();
    values.ok_or_else(|| format!("{name} is not known: it needs the probes (run as root; `iotrail check`)"))
}

fn of_ratio(ratio: &Ratio, run: &RunRecord, histograms: Histograms<'_>) -> Result<Observation, Untestable> {
    let (a, b) = (cell(run, &ratio.a)?, cell(run, &ratio.b)?);
    if ratio.limit == Some(Limit::Cpu) {
        saturated(a)?;
        saturated(b)?;
    }
    let band = ratio.band();
    match named(&ratio.metric)? {
        metric if metric.is_of_time() || Metric::COUNTS.contains(&metric) => {
            let c = compared(metric, run, (a, b), histograms);
            if c.verdict == Verdict::NotComparable {
                return Err(c.reasons.join("; "));
            }
            let Some(value) = c.ratio else { return Err(c.reasons.join("; ")) };
            let noise = 1.0 + c.noise_floor.unwrap_or(0.0);
            // The load's difference from itself is not a difference between the sides.
            let ci95 = c.ci95.map(|[lo, hi]| [lo.min(value / noise), hi.max(value * noise)]);
            Ok(within(band, value, ci95, times, &c.reasons.join("; ")))
        }
        count => {
            let (of_a, of_b) = (is_known(count, &ratio.metric, a)?, is_known(count, &ratio.metric, b)?);
            let n = of_a.len().min(of_b.len());
            if of_a.iter().all(|x| *x > 0.0) && of_b.iter().all(|x| *x == 0.0) {
                return Ok(within(band, 0.0, (n > 1).then_some([0.0; 2]), times, ""));
            }
            let found = paired(&of_a[..n], &of_b[..n]);
            let Some(found) = found else {
                return Err(format!("{} is sometimes 0, so there is no ratio", ratio.metric));
            };
            Ok(within(band, found.ratio, found.interval.map(|i| [i.lo, i.hi]), times, ""))
        }
    }
}

/// CPU-bound figures do not apply to a load that waits for the disk.
fn saturated(cell: &CellRecord) -> Result<(), Untestable> {
    let busy = median(cell.measurements.all().iter().filter_map(per_io::busy));
    match busy {
        Some(busy) if busy < SATURATED => Err(format!(
            "the disk is the limit here: the load's CPU was busy for {} of the time, and the study's was saturated",
            percent(busy)
        )),
        Some(_) => Ok(()),
        None => Err("the CPU's utilisation is not known".into()),
    }
}

fn side<'r>(cell: &'r CellRecord, metric: Metric, histograms: Histograms<'_>) -> Side<'r> {
    Side::of_cell(&name(cell), cell, histograms, &[metric])
}

fn name(cell: &CellRecord) -> String {
    cell.params.iter().map(|(name, value)| format!("{name} {}", value_text(value))).collect::<Vec<_>>().join(" · ")
}

/// b compared with a. Includes the control arm's noise if one of them is its twin; the noise does not apply to another
/// load.
fn compared(
    metric: Metric,
    run: &RunRecord,
    (a, b): (&CellRecord, &CellRecord),
    histograms: Histograms<'_>,
) -> Comparison {
    let (a, b, noise) = sides(metric, run, (a, b), histograms);
    compare(metric, &a, &b, true, noise)
}

/// Both sides, and the noise of the first arm if one of them is that arm.
fn sides<'r>(
    metric: Metric,
    run: &RunRecord,
    (a, b): (&'r CellRecord, &'r CellRecord),
    histograms: Histograms<'_>,
) -> (Side<'r>, Side<'r>, Option<f64>) {
    let noise = noise(metric, run, a, histograms).or_else(|| noise(metric, run, b, histograms));
    (side(a, metric, histograms), side(b, metric, histograms), noise)
}

fn noise(metric: Metric, run: &RunRecord, at: &CellRecord, histograms: Histograms<'_>) -> Option<f64> {
    if run.arms.first().is_none_or(|first| at.arm() != first) {
        return None;
    }
    let here: Map<String, Value> = place(at);
    let of = |arm: &str| run.cells.iter().find(|c| c.arm() == arm && place(c) == here);
    let (first, control) = (of(run.arms.first()?)?, of(CONTROL)?);
    noise_floor(metric, &side(first, metric, histograms), &side(control, metric, histograms))
}

/// Outcome by the interval's position relative to the band.
fn within(
    band: Band,
    value: f64,
    ci95: Option<[f64; 2]>,
    words: impl Fn(f64) -> String,
    else_said: &str,
) -> Observation {
    let mut seen = Observation { value: Some(value), ci95, words: Some(words(value)), ..Observation::default() };
    let Some([lo, hi]) = ci95 else {
        let why = if else_said.is_empty() { "too few repeats for an interval" } else { else_said };
        seen.reason = Some(why.to_owned());
        return seen;
    };
    (seen.outcome, seen.reason) = match () {
        () if band.holds(lo) && band.holds(hi) => (LineOutcome::Agrees, None),
        () if band.is_apart_from([lo, hi]) => (LineOutcome::Disagrees, None),
        () => (LineOutcome::Inconclusive, Some("the measured interval crosses an edge of the band".into())),
    };
    seen
}

pub fn times(x: f64) -> String {
    format!("×{}", three_digits(x))
}

fn of_count(count: &Count, run: &RunRecord) -> Result<Observation, Untestable> {
    let cell = cell(run, &count.at)?;
    let values = is_known(named(&count.figure)?, &count.figure, cell)?;
    let band = count.band();
    let value = values.iter().sum::<f64>() / values.len() as f64;
    // Counts are never negative.
    let ci95 = student::interval_of_mean(&values).map(|[lo, hi]| [lo.max(0.0), hi]);
    Ok(within(band, value, ci95, three_digits, ""))
}

fn of_knee(knee: &Knee, run: &RunRecord, histograms: Histograms<'_>) -> Result<Observation, Untestable> {
    let metric = named(&knee.metric)?;
    let at = |value: &Value| {
        let mut at = knee.at.clone();
        at.insert(knee.along.clone(), value.clone());
        cell(run, &at)
    };
    let cells = knee.values.iter().map(at).collect::<Result<Vec<_>, _>>()?;
    let mid = |c: &&CellRecord| median(c.measurements.all().iter().filter_map(|m| metric.of(m)));
    let middles = cells.iter().map(mid).collect::<Option<Vec<f64>>>();
    let middles = middles.ok_or_else(|| format!("{} is not known everywhere", knee.metric))?;
    let best = |a: f64, b: f64| if metric.higher_is_better() { a.max(b) } else { a.min(b) };
    let top = middles.iter().copied().reduce(best).and_then(|top| middles.iter().position(|x| *x == top));
    let (Some(top), Some(ours), Some(theirs)) = (top, band::knee(&middles, best), band::knee(&knee.published, best))
    else {
        return Err("a curve without values has no knee".into());
    };
    // For each value: whether the knee has certainly been reached, and whether it may have been.
    let of_place = |c: &&CellRecord| -> Result<[bool; 2], Untestable> {
        if std::ptr::eq(*c, cells[top]) {
            return Ok([true; 2]);
        }
        let c = compared(metric, run, (cells[top], c), histograms);
        if c.verdict == Verdict::NotComparable {
            return Err(c.reasons.join("; "));
        }
        let Some(ends) = c.ci95 else { return Ok([false, true]) };
        let [lo, hi] = if metric.higher_is_better() { ends } else { [1.0 / ends[1], 1.0 / ends[0]] };
        Ok([lo >= OF_BEST, hi >= OF_BEST])
    };
    let all = cells.iter().map(of_place).collect::<Result<Vec<_>, _>>()?;
    let first = |which: usize| all.iter().position(|at| at[which]).unwrap_or(top);
    let (from, to) = (first(1), first(0));
    let text = |i: usize| value_text(&knee.values[i]);
    let value = |i: usize| text(i).parse::<f64>().ok();
    let near = |i: usize| i.abs_diff(theirs) <= STEPS;
    let words = if from == to {
        format!("at {}", text(ours))
    } else {
        format!("at {} ({}–{})", text(ours), text(from), text(to))
    };
    let (outcome, reason) = match () {
        () if near(from) && near(to) => (LineOutcome::Agrees, None),
        () if (from..=to).any(near) => {
            (LineOutcome::Inconclusive, Some("the interval of the measured knee is wider than one step".to_owned()))
        }
        () => (LineOutcome::Disagrees, None),
    };
    Ok(Observation {
        words: Some(words),
        value: value(ours),
        ci95: value(from).zip(value(to)).map(|(a, b)| [a, b]),
        outcome,
        reason,
    })
}

fn of_order(order: &Order, run: &RunRecord, histograms: Histograms<'_>) -> Result<Observation, Untestable> {
    let metric = named(&order.metric)?;
    let cells = order.cells.iter().map(|at| cell(run, at)).collect::<Result<Vec<_>, _>>()?;
    let pair = |pair: &[&CellRecord]| {
        let (a, b, noise) = sides(metric, run, (pair[0], pair[1]), histograms);
        undecided(metric, &a, &b, true, noise)
    };
    let mut pairs: Vec<Comparison> = cells.windows(2).map(pair).collect();
    together(&mut pairs, EQUIVALENT_WITHIN);
    if let Some(c) = pairs.iter().find(|c| c.verdict == Verdict::NotComparable) {
        return Err(c.reasons.join("; "));
    }
    let mut words = short(&order.cells[0]);
    for (c, at) in pairs.iter().zip(&order.cells[1..]) {
        let sign = match c.verdict {
            Verdict::Slower => ">",
            Verdict::Faster => "<",
            Verdict::Equivalent => "=",
            Verdict::Inconclusive | Verdict::NotComparable => "?",
        };
        words.push_str(&format!(" {sign} {}", short(at)));
    }
    let is = |verdict: Verdict| pairs.iter().any(|c| c.verdict == verdict);
    let (outcome, reason) = match () {
        () if is(Verdict::Faster) || is(Verdict::Equivalent) => (LineOutcome::Disagrees, None),
        () if is(Verdict::Inconclusive) => {
            (LineOutcome::Inconclusive, Some("two neighbours of the order are indistinguishable".to_owned()))
        }
        () => (LineOutcome::Agrees, None),
    };
    Ok(Observation { words: Some(words), outcome, reason, ..Observation::default() })
}

/// The arm only, if no other parameter distinguishes the cells.
pub fn short(at: &Place) -> String {
    at.get(ARM).map_or_else(|| at.values().map(value_text).collect::<Vec<_>>().join(" "), value_text)
}
