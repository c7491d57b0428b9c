//! Is B different from A, by how much, how sure. The interval is that of `stats::bootstrap`; what a load differs from itself (the
//! control arm against its twin) is the noise floor, and a difference below it is none. `docs/method.md` says how to read it.

mod differ;
mod level;
mod metric;

use hdrhistogram::Histogram;
use serde_json::{Map, Value};

pub use self::level::{Level, level};
pub use self::metric::Metric;
use super::comparable;
use super::words::plural;
use crate::comparison::{Comparison, SCHEMA, Verdict};
use crate::measurement::Measurement;
use crate::run_record::{ARM, CONTROL, CellRecord, RunRecord, Table};
use crate::stats::bootstrap::{Counts, FEWEST, Median, MergedQuantile, Ratio, paired, paired_quantiles, unpaired};
use crate::stats::middle::median;

/// Latencies of a repeat (from 1) of a cell, by their numbers; `None`: not kept.
pub type Histograms<'a> = &'a dyn Fn(u32, u32) -> Option<Histogram<u64>>;

/// One side: the repeats of one load.
#[derive(Clone)]
pub struct Side<'a> {
    pub name: String,
    /// In the order in which they were measured.
    pub repeats: Vec<Repeat<'a>>,
}

#[derive(Clone)]
pub struct Repeat<'a> {
    pub measurement: &'a Measurement,
    pub latency: Option<Counts>,
}

impl<'a> Side<'a> {
    /// A cell's repeats; their histograms are read only where one of the metrics needs them.
    pub fn of_cell(name: &str, cell: &'a CellRecord, histograms: Histograms<'_>, metrics: &[Metric]) -> Self {
        let needed = metrics.iter().any(|m| m.quantile().is_some());
        let repeat = |(measurement, number): (&'a Measurement, u32)| {
            let latency = if needed { histograms(cell.cell, number).as_ref().map(Counts::of) } else { None };
            Repeat { measurement, latency }
        };
        Self { name: name.into(), repeats: cell.measurements.iter().zip(1..).map(repeat).collect() }
    }

    fn measurements(&self) -> impl Iterator<Item = &'a Measurement> {
        self.repeats.iter().map(|r| r.measurement)
    }

    fn values(&self, metric: Metric) -> Option<Vec<f64>> {
        self.repeats.iter().map(|r| metric.of(r.measurement)).collect()
    }

    fn latencies(&self) -> Option<Vec<&Counts>> {
        self.repeats.iter().map(|r| r.latency.as_ref()).collect()
    }

    fn first(&self, n: usize) -> Self {
        Self { name: self.name.clone(), repeats: self.repeats[..n].to_vec() }
    }
}

/// Every other arm against the first, at each combination of the other parameters, on the run's metrics. Metric by metric, arm by
/// arm.
pub fn of_run(record: &RunRecord, histograms: Histograms<'_>) -> Vec<Comparison> {
    let metrics = metrics(record);
    let Some((base, others)) = record.arms.split_first() else { return Vec::new() };
    let mut places: Vec<Map<String, Value>> = Vec::new();
    for cell in &record.cells {
        let at = place(cell);
        if !places.contains(&at) {
            places.push(at);
        }
    }
    let mut found = Vec::new();
    for at in &places {
        let side = |arm: &str| {
            let cell = record.cells.iter().find(|c| c.arm() == arm && place(c) == *at)?;
            (!cell.measurements.is_empty()).then(|| Side::of_cell(arm, cell, histograms, &metrics))
        };
        let Some(a) = side(base) else { continue };
        let control = side(CONTROL);
        let noise: Vec<Option<f64>> =
            metrics.iter().map(|m| control.as_ref().and_then(|c| noise_floor(*m, &a, c))).collect();
        for (j, other) in others.iter().enumerate() {
            let Some(b) = side(other) else { continue };
            for (i, metric) in metrics.iter().enumerate() {
                let c = compare(*metric, &a, &b, true, noise[i]);
                found.push(((i, j), Comparison { at: at.clone(), ..c }));
            }
        }
    }
    found.sort_by_key(|(order, _)| *order);
    found.into_iter().map(|(_, c)| c).collect()
}

/// What a run's arms are compared on: what it says, else what its table is about. Where times mean nothing, counts.
pub fn metrics(record: &RunRecord) -> Vec<Metric> {
    let asked = asked_metrics(record);
    if !record.is_emulated() {
        return asked;
    }
    let counts: Vec<Metric> = asked.into_iter().filter(|m| !m.is_of_time()).collect();
    if counts.is_empty() { Metric::COUNTS.to_vec() } else { counts }
}

fn asked_metrics(record: &RunRecord) -> Vec<Metric> {
    match (record.metrics.is_empty(), record.table) {
        (true, Table::Delivery) => vec![Metric::Iops, Metric::LatencyP99],
        (true, Table::Cost) => vec![Metric::Elapsed],
        (true, Table::Placement) => vec![Metric::Iops, Metric::LatencyMean, Metric::LatencyP99],
        (true, Table::ModeSwitches) => vec![Metric::Iops, Metric::LatencyP99_99, Metric::ModeSwitchesPerIo],
        (true, Table::Delays) => vec![Metric::LatencyMean, Metric::LatencyP99, Metric::Iops],
        (true, Table::Timelines) => vec![Metric::Iops, Metric::LatencyMean],
        (true, Table::Shares) => vec![Metric::CpuPerIo, Metric::Iops],
        (true, Table::Wakeups) => vec![Metric::LatencyMean, Metric::CpuPerIo],
        (true, Table::Punts) => vec![Metric::LatencyMean, Metric::CpuPerIo],
        (true, Table::Net) => vec![Metric::Iops, Metric::CpuPerIo, Metric::LatencyP99],
        (true, Table::Order) => vec![Metric::Iops],
        (true, Table::Kicks) => vec![Metric::Iops, Metric::LatencyP99, Metric::KicksPerIo],
        // A name that this version does not know was checked by the one that planned the run.
        (false, _) => record.metrics.iter().filter_map(|m| m.parse().ok()).collect(),
    }
}

/// A cell's parameters but the arm.
pub fn place(cell: &CellRecord) -> Map<String, Value> {
    cell.params.iter().filter(|(name, _)| *name != ARM).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// How far a load seems to differ from itself: the half-width of the interval between the two, or their ratio where that is farther
/// off. `None`: they have no interval.
pub fn noise_floor(metric: Metric, twin: &Side<'_>, control: &Side<'_>) -> Option<f64> {
    let n = twin.repeats.len().min(control.repeats.len());
    let r = ratio(metric, &twin.first(n), &control.first(n), true).ok()?.0;
    let half = r.interval?.relative_half_width(r.ratio);
    Some(half.max(r.ratio.max(1.0 / r.ratio) - 1.0))
}

/// Relative half-width of the interval between two arms as it stands, of the measurements' own numbers; for deciding whether to
/// measure on. `None`: there is no interval yet.
pub fn interval_width(metric: Metric, a: &[Measurement], b: &[Measurement]) -> Option<f64> {
    let n = a.len().min(b.len());
    let of = |side: &[Measurement]| side[..n].iter().map(|m| metric.of(m)).collect::<Option<Vec<f64>>>();
    let r = paired(&of(a)?, &of(b)?)?;
    r.interval.map(|i| i.relative_half_width(r.ratio))
}

/// b against a. `interleaved`: repeat i of both is of one block. `noise_floor`: where a control arm tells it.
pub fn compare(metric: Metric, a: &Side<'_>, b: &Side<'_>, interleaved: bool, noise_floor: Option<f64>) -> Comparison {
    let pairs = a.repeats.len().min(b.repeats.len());
    let cut = interleaved.then(|| (a.first(pairs), b.first(pairs)));
    let (a, b) = cut.as_ref().map_or((a, b), |(a, b)| (a, b));
    let mut c = Comparison {
        schema: SCHEMA.into(),
        metric: metric.to_string(),
        at: Map::new(),
        a: a.name.clone(),
        b: b.name.clone(),
        pairs,
        paired: interleaved,
        ratio: None,
        ci95: None,
        noise_floor,
        smallest_visible: None,
        verdict: Verdict::NotComparable,
        reasons: Vec::new(),
    };
    let mut against: Vec<String> = [a, b].into_iter().flat_map(against).collect();
    if metric.is_of_time() && a.measurements().chain(b.measurements()).any(|m| m.host.is_emulated()) {
        against.push("times mean nothing where software runs the machine's instructions".into());
    }
    if interleaved {
        match between(a, b) {
            Ok(said) => c.reasons.extend(said),
            Err(why) => against.push(why),
        }
    }
    match ratio(metric, a, b, interleaved) {
        Err(Unknown::Missing(why)) => {
            c.reasons.push(why);
            c.ratio = of_medians(metric, a, b);
        }
        Err(Unknown::HasZeros) => of_zeros(metric, a, b, against.is_empty(), &mut c),
        Ok((r, how)) => {
            c.reasons.extend(how);
            c.ratio = Some(r.ratio);
            match r.interval {
                _ if !against.is_empty() => {}
                None => c.reasons.push(too_few(pairs, interleaved)),
                Some(i) => {
                    let floor = noise_floor.unwrap_or(0.0);
                    c.ci95 = Some([i.lo, i.hi]);
                    c.smallest_visible = Some(i.smallest_visible(r.ratio, floor));
                    let excludes_1 = i.lo > 1.0 || i.hi < 1.0;
                    let above_floor = r.ratio.max(1.0 / r.ratio) > 1.0 + floor;
                    if excludes_1 && !above_floor {
                        c.reasons.push(
                            "the difference is within the noise floor: the load differs as much from itself".into(),
                        );
                    }
                    c.verdict = if excludes_1 && above_floor {
                        direction(metric, r.ratio > 1.0)
                    } else {
                        Verdict::NoDifference
                    };
                }
            }
        }
    }
    if !against.is_empty() {
        c.verdict = Verdict::NotComparable;
        c.reasons.splice(0..0, against);
    }
    c
}

/// In what two sides that were measured apart differ beside what was measured: a sentence each for hosts, targets and loads.
pub fn differences(a: &Side<'_>, b: &Side<'_>) -> Vec<String> {
    let (a, b): (Vec<_>, Vec<_>) = (a.measurements().collect(), b.measurements().collect());
    differ::said(&a, &b)
}

fn direction(metric: Metric, higher: bool) -> Verdict {
    if higher == metric.higher_is_better() { Verdict::Faster } else { Verdict::Slower }
}

fn too_few(pairs: usize, interleaved: bool) -> String {
    let (what, of_each) = if interleaved { ("pair", "") } else { ("repeat", " of each side") };
    format!("{}, and an interval needs {FEWEST}{of_each} at least: measure more", plural(pairs, what))
}

/// What forbids to compare this side with anything.
fn against(side: &Side<'_>) -> Vec<String> {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    let all = side.repeats.len();
    for m in side.measurements() {
        for reason in comparable::reasons(m) {
            match reasons.iter_mut().find(|(r, _)| *r == reason) {
                Some((_, n)) => *n += 1,
                None => reasons.push((reason, 1)),
            }
        }
    }
    let said = |(reason, n): (String, usize)| match n == all {
        true => format!("{}: {reason}", side.name),
        false => format!("{}, {n} of {}: {reason}", side.name, plural(all, "measurement")),
    };
    reasons.into_iter().map(said).collect()
}

/// Pairs whose two do not go together. Where that is so in every pair, it is what the arms differ in, and is said; where it is in
/// some, something happened to these, and it forbids to compare (`Err`).
fn between(a: &Side<'_>, b: &Side<'_>) -> Result<Option<String>, String> {
    let pairs = a.repeats.len().min(b.repeats.len());
    let each = a.measurements().zip(b.measurements()).map(|(a, b)| comparable::reasons_between(a, b));
    let apart: Vec<Vec<String>> = each.filter(|reasons| !reasons.is_empty()).collect();
    let Some(first) = apart.first() else { return Ok(None) };
    let said = first.join(", and ");
    match apart.len() {
        n if n == pairs => Ok(Some(format!("in every pair, {said}"))),
        n => Err(format!("in {n} of {} the two do not go together: {said}", plural(pairs, "pair"))),
    }
}

enum Unknown {
    /// Why there is no ratio.
    Missing(String),
    /// What is 0 has no logarithm.
    HasZeros,
}

/// The ratio, and what has to be said of how it came about.
fn ratio(metric: Metric, a: &Side<'_>, b: &Side<'_>, interleaved: bool) -> Result<(Ratio, Option<String>), Unknown> {
    if a.repeats.is_empty() || b.repeats.is_empty() {
        return Err(Unknown::Missing(too_few(0, interleaved)));
    }
    let mut how = None;
    if let Some(q) = metric.quantile() {
        if let (Some(of_a), Some(of_b)) = (a.latencies(), b.latencies()) {
            let merged = |side: &Side<'_>, counts: &[&Counts]| {
                let few = || format!("too few I/Os of {} for {metric}, even of all its repeats together", side.name);
                MergedQuantile::new(counts, q).ok_or_else(|| Unknown::Missing(few()))
            };
            let (of_a, of_b) = (merged(a, &of_a)?, merged(b, &of_b)?);
            return Ok((if interleaved { paired_quantiles(&of_a, &of_b) } else { unpaired(&of_a, &of_b) }, None));
        }
        how = Some(format!(
            "{metric} is compared by medians of the measurements' own quantiles: not all have their histograms here"
        ));
    }
    let values = |side: &Side<'_>| {
        side.values(metric).ok_or_else(|| {
            let unknown = side.repeats.iter().filter(|r| metric.of(r.measurement).is_none()).count();
            let of = plural(side.repeats.len(), "measurement");
            Unknown::Missing(format!("{metric} is not known in {unknown} of {of} of {}", side.name))
        })
    };
    let (of_a, of_b) = (values(a)?, values(b)?);
    let ratio = match interleaved {
        true => paired(&of_a, &of_b),
        false => Median::new(&of_a).zip(Median::new(&of_b)).map(|(a, b)| unpaired(&a, &b)),
    };
    ratio.map(|r| (r, how)).ok_or(Unknown::HasZeros)
}

/// The point estimate of what has no interval, wherever both sides have a number.
fn of_medians(metric: Metric, a: &Side<'_>, b: &Side<'_>) -> Option<f64> {
    let of = |side: &Side<'_>| median(side.values(metric)?);
    let (a, b) = of(a).zip(of(b))?;
    (a > 0.0).then(|| b / a)
}

/// Counts that are 0 at times: no interval of a ratio, but where all repeats of one side are above all of the other's, chance is
/// rarely why: of the (n+m over n) orders that equal arms have alike, two are such.
fn of_zeros(metric: Metric, a: &Side<'_>, b: &Side<'_>, comparable: bool, c: &mut Comparison) {
    let (Some(a), Some(b)) = (a.values(metric), b.values(metric)) else { return };
    let reach = |v: &[f64]| (v.iter().copied().fold(f64::INFINITY, f64::min), v.iter().copied().fold(0.0, f64::max));
    let ((a_min, a_max), (b_min, b_max)) = (reach(&a), reach(&b));
    let medians = median(a.iter().copied()).zip(median(b.iter().copied()));
    c.ratio = medians.filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a);
    c.reasons
        .push(format!("{metric} is 0 at times: no interval of a ratio; the verdict is by the order of all repeats"));
    if !comparable {
        return;
    }
    if chance_of_apart(a.len(), b.len()) > 0.05 {
        c.reasons.push(format!("{} are too few for that: 4 of each side are needed", plural(c.pairs, "repeat")));
        return;
    }
    c.verdict = match (b_min > a_max, b_max < a_min) {
        (true, _) => direction(metric, true),
        (_, true) => direction(metric, false),
        _ => Verdict::NoDifference,
    };
}

/// How often all repeats of one of two equal arms lie above all of the other's.
fn chance_of_apart(n: usize, m: usize) -> f64 {
    (1..=n).fold(2.0, |p, i| p * i as f64 / (m + i) as f64)
}

#[cfg(test)]
#[path = "compare/tests.rs"]
mod tests;
