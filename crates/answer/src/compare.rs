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
use iotrail_base::words::plural;
use iotrail_schema::comparison::{Comparison, Disturbed, EQUIVALENT_WITHIN, Needed, SCHEMA, Verdict};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{ARM, CONTROL, CellRecord, RunRecord, Table};
use iotrail_stats::bootstrap::{Counts, FEWEST, Median, MergedQuantile, Ratio, paired, paired_quantiles, unpaired};
use iotrail_stats::middle::median;
use iotrail_stats::{holm, student};

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
    /// Which of the side's runs it is of; `None`: the only one of its run.
    pub run: Option<usize>,
}

impl<'a> Repeat<'a> {
    pub fn new(measurement: &'a Measurement, latency: Option<Counts>) -> Self {
        Self { measurement, latency, run: None }
    }
}

impl<'a> Side<'a> {
    /// A cell's repeats; their histograms are read only where one of the metrics needs them.
    pub fn of_cell(name: &str, cell: &'a CellRecord, histograms: Histograms<'_>, metrics: &[Metric]) -> Self {
        let needed = metrics.iter().any(|m| m.quantile().is_some());
        let repeat = |(measurement, number): (&'a Measurement, u32)| {
            let latency = if needed { histograms(cell.cell, number).as_ref().map(Counts::of) } else { None };
            Repeat::new(measurement, latency)
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

    /// Places of the repeats, by the run that they are of.
    fn runs(&self) -> Vec<Vec<usize>> {
        let mut runs: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
        for (i, repeat) in self.repeats.iter().enumerate() {
            match runs.iter_mut().find(|(run, _)| run.is_some() && *run == repeat.run) {
                Some((_, of)) => of.push(i),
                None => runs.push((repeat.run, vec![i])),
            }
        }
        runs.into_iter().map(|(_, of)| of).collect()
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
                let c = undecided(*metric, &a, &b, true, noise[i]);
                found.push(((i, j), Comparison { at: at.clone(), ..c }));
            }
        }
    }
    found.sort_by_key(|(order, _)| *order);
    let mut found: Vec<Comparison> = found.into_iter().map(|(_, c)| c).collect();
    together(&mut found, record.equivalent_within.unwrap_or(EQUIVALENT_WITHIN));
    found
}

/// Verdicts of comparisons that were made together: those of one metric share their chance of a false difference (Holm).
pub fn together(all: &mut [Comparison], within: f64) {
    let mut metrics: Vec<Metric> = all.iter().filter_map(|c| c.metric.parse().ok()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    for metric in metrics {
        let mut of_metric: Vec<&mut Comparison> = all.iter_mut().filter(|c| c.metric == metric.name()).collect();
        let told: Vec<f64> = of_metric.iter().filter_map(|c| c.p).collect();
        let mut adjusted = holm::adjusted(&told).into_iter();
        for c in &mut of_metric {
            c.equivalent_within = within;
            c.together = told.len();
            c.p_adjusted = c.p.and_then(|_| adjusted.next());
            decide(metric, c);
        }
    }
}

/// Differences that chance alone makes so rarely are none of chance.
const CHANCE: f64 = 0.05;

fn decide(metric: Metric, c: &mut Comparison) {
    if c.verdict == Verdict::NotComparable {
        return;
    }
    let floor = c.noise_floor.unwrap_or(0.0);
    let above_floor = c.ratio.is_none_or(|r| r.max(1.0 / r) > 1.0 + floor);
    let differs = c.p_adjusted.is_some_and(|p| p < CHANCE);
    // Where no difference could be told, neither can equivalence.
    let within = c.p.is_some()
        && c.ci95.is_some_and(|[lo, hi]| lo >= 1.0 / (1.0 + c.equivalent_within) && hi <= 1.0 + c.equivalent_within);
    c.verdict = match () {
        () if within => Verdict::Equivalent,
        // What has no ratio was 0 before.
        () if differs && above_floor => direction(metric, c.ratio.is_none_or(|r| r > 1.0)),
        () => Verdict::Inconclusive,
    };
    if c.verdict == Verdict::Inconclusive && differs {
        c.reasons.push("the difference is within the noise floor: the load differs as much from itself".into());
    }
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
        (true, Table::Program) => own_metrics(record).into_iter().chain([Metric::Elapsed, Metric::CpuTime]).collect(),
        // A name that this version does not know was checked by the one that planned the run.
        (false, _) => {
            own_metrics(record);
            record.metrics.iter().filter_map(|m| m.parse().ok()).collect()
        }
    }
}

/// The figures that the run's program prints, in its order.
fn own_metrics(record: &RunRecord) -> Vec<Metric> {
    let programs = record.cells.iter().flat_map(|c| &c.measurements).filter_map(|m| m.program.as_ref());
    let mut found: Vec<Metric> = Vec::new();
    for figure in programs.flat_map(|p| &p.figures) {
        let metric = Metric::own(&figure.name, figure.less_is_better);
        if !found.contains(&metric) {
            found.push(metric);
        }
    }
    found
}

/// A cell's parameters but the arm.
pub fn place(cell: &CellRecord) -> Map<String, Value> {
    cell.params.iter().filter(|(name, _)| *name != ARM).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// How far a load seems to differ from itself: the half-width of the interval between the two, or their ratio where that is farther
/// off. `None`: they have no interval.
pub fn noise_floor(metric: Metric, twin: &Side<'_>, control: &Side<'_>) -> Option<f64> {
    let n = twin.repeats.len().min(control.repeats.len());
    let r = ratio(metric, &twin.first(n), &control.first(n), true, false).ok()?.0;
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

/// b against a, by itself. `interleaved`: repeat i of both is of one block. `noise_floor`: where a control arm tells it.
pub fn compare(metric: Metric, a: &Side<'_>, b: &Side<'_>, interleaved: bool, noise_floor: Option<f64>) -> Comparison {
    let mut c = undecided(metric, a, b, interleaved, noise_floor);
    together(std::slice::from_mut(&mut c), EQUIVALENT_WITHIN);
    c
}

/// The same for [`together`] to decide.
pub fn undecided(
    metric: Metric,
    a: &Side<'_>,
    b: &Side<'_>,
    interleaved: bool,
    noise_floor: Option<f64>,
) -> Comparison {
    let (kept_a, kept_b, disturbed, mut said) = undisturbed(a, b, interleaved);
    let (a, b) = (&kept_a, &kept_b);
    let pairs = a.repeats.len().min(b.repeats.len());
    let mut c = Comparison {
        schema: SCHEMA.into(),
        metric: metric.to_string(),
        at: Map::new(),
        a: a.name.clone(),
        b: b.name.clone(),
        pairs,
        paired: interleaved,
        disturbed,
        ratio: None,
        ci95: None,
        noise_floor,
        smallest_visible: None,
        p: None,
        p_adjusted: None,
        together: 0,
        equivalent_within: EQUIVALENT_WITHIN,
        to_show_10_percent: None,
        verdict: Verdict::Inconclusive,
        reasons: Vec::new(),
    };
    c.reasons.append(&mut said);
    // What differs from run to run of the same is in the spread of the runs, and in no repeats of one.
    let runs = a.runs().len().min(b.runs().len());
    let by_run = !interleaved && runs >= RUNS;
    let mut against: Vec<String> = [a, b].into_iter().flat_map(against).collect();
    let (of_a, of_b): (Vec<_>, Vec<_>) = (a.measurements().collect(), b.measurements().collect());
    against.extend(comparable::failed_apart((&a.name, &of_a), (&b.name, &of_b)));
    if metric.is_of_time() && a.measurements().chain(b.measurements()).any(|m| m.host.is_emulated()) {
        against.push("times mean nothing where software runs the machine's instructions".into());
    }
    match ratio(metric, a, b, interleaved, by_run) {
        Err(Unknown::Missing(why)) => {
            c.reasons.push(why);
            c.ratio = of_medians(metric, a, b);
        }
        Err(Unknown::NotKnown(why)) => {
            against.push(why);
            c.ratio = of_medians(metric, a, b);
        }
        Err(Unknown::HasZeros) => of_zeros(metric, a, b, interleaved, &mut c),
        Ok((r, how)) => {
            c.reasons.extend(how);
            c.ratio = Some(r.ratio);
            match r.interval {
                _ if !against.is_empty() => {}
                None => c.reasons.push(too_few(pairs, interleaved)),
                Some(i) => {
                    c.ci95 = Some([i.lo, i.hi]);
                    c.p = Some(i.p);
                    c.smallest_visible = Some(i.smallest_visible(r.ratio, noise_floor.unwrap_or(0.0)));
                    let each = seconds_each(a, b);
                    let (n, each) = if by_run { (runs, each * pairs as f64 / runs as f64) } else { (pairs, each) };
                    c.to_show_10_percent =
                        i.repeats_to_show(n, 0.1).map(|repeats| Needed { repeats, seconds: repeats as f64 * each });
                }
            }
        }
    }
    if !interleaved && !by_run && pairs > 0 {
        c.p = None;
        c.to_show_10_percent = None;
        let runs = plural(runs, "run");
        c.reasons.push(format!(
            "measured apart, {runs} a side: what differs from run to run is not in the interval, and a verdict needs {RUNS} runs of \
             each, or both as arms of one run"
        ));
    }
    if !against.is_empty() {
        c.verdict = Verdict::NotComparable;
        c.p = None;
        c.reasons.splice(0..0, against);
    }
    c
}

/// What a repeat of both sides takes.
fn seconds_each(a: &Side<'_>, b: &Side<'_>) -> f64 {
    let of = |side: &Side<'_>| {
        let all: u64 = side.measurements().map(|m| m.load.warmup_ns + m.elapsed_ns).sum();
        all as f64 / 1e9 / side.repeats.len().max(1) as f64
    };
    of(a) + of(b)
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

/// What forbids to compare this side with anything: it is another load than was asked for.
fn against(side: &Side<'_>) -> Vec<String> {
    let (name, all) = (&side.name, side.repeats.len());
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for reason in side.measurements().flat_map(comparable::another_load) {
        match reasons.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, n)) => *n += 1,
            None => reasons.push((reason, 1)),
        }
    }
    let said = |(reason, n): (String, usize)| match n == all {
        true => format!("{name}: {reason}"),
        false => format!("{name}, {n} of {}: {reason}", plural(all, "measurement")),
    };
    reasons.into_iter().map(said).collect()
}

/// Of those that were measured, at least such a share has to be left when the disturbed ones are left out; else all count.
const LEFT: f64 = 0.5;

/// Both sides without the pairs (of sides that were measured apart, without the measurements) that others disturbed, and what is to be
/// said of that. What was disturbed is told by what was seen of the machine, never by the result, so that leaving it out leans to
/// neither side.
fn undisturbed<'a>(a: &Side<'a>, b: &Side<'a>, interleaved: bool) -> (Side<'a>, Side<'a>, Disturbed, Vec<String>) {
    let pairs = a.repeats.len().min(b.repeats.len());
    let (a, b) = if interleaved { (a.first(pairs), b.first(pairs)) } else { (a.clone(), b.clone()) };
    let all = a.repeats.len() + b.repeats.len();
    let thrown = a.measurements().chain(b.measurements()).filter(|m| m.thrown_away > 0).count();
    let mut disturbed = Disturbed { measurements: all, repeated: thrown, left_out: 0, counted: 0 };
    let mut said = Vec::new();
    let is = |r: &Repeat<'_>| !comparable::disturbances(r.measurement).is_empty();
    let of = |side: &Side<'_>| side.repeats.iter().map(is).collect::<Vec<bool>>();
    let (mut of_a, mut of_b) = (of(&a), of(&b));
    let mut apart: Vec<(usize, Vec<String>)> = Vec::new();
    if interleaved {
        let each = a.measurements().zip(b.measurements()).map(|(a, b)| comparable::reasons_between(a, b));
        apart = each.enumerate().filter(|(_, reasons)| !reasons.is_empty()).collect();
        // Where that is so in every pair, it is what the arms differ in; where it is in some, something happened to these.
        if let (Some((_, first)), true) = (apart.first(), apart.len() == pairs) {
            said.push(format!("in every pair, {}", first.join(", and ")));
            apart.clear();
        }
        for i in 0..pairs {
            let pair = of_a[i] || of_b[i] || apart.iter().any(|(at, _)| *at == i);
            (of_a[i], of_b[i]) = (pair, pair);
        }
    }
    let (bad_a, bad_b) = (of_a.iter().filter(|d| **d).count(), of_b.iter().filter(|d| **d).count());
    if bad_a + bad_b == 0 {
        if thrown > 0 {
            said.push(format!("{thrown} of {} were disturbed and measured again", plural(all, "measurement")));
        }
        return (a, b, disturbed, said);
    }
    let enough = |bad: usize, all: usize| {
        let left = all - bad;
        left >= FEWEST.max(all.min(FEWEST_LEFT)) && left as f64 >= LEFT * all as f64
    };
    let leave_out = enough(bad_a, of_a.len()) && enough(bad_b, of_b.len());
    let why = why_disturbed(&a, &b, &apart);
    let unit = if interleaved { "pair" } else { "measurement" };
    let n = if interleaved { bad_a } else { bad_a + bad_b };
    let of_all = plural(if interleaved { pairs } else { all }, unit);
    let again = if thrown > 0 { format!("; {thrown} were measured again") } else { String::new() };
    if !leave_out {
        disturbed.counted = n;
        said.push(format!(
            "{n} of {of_all} were disturbed and count all the same, since too few others are left{again}: {why}"
        ));
        return (a, b, disturbed, said);
    }
    disturbed.left_out = n;
    said.push(format!("{n} of {of_all} were disturbed and are left out{again}: {why}"));
    let keep = |side: Side<'a>, bad: &[bool]| {
        let kept = side.repeats.iter().zip(bad).filter(|(_, bad)| !**bad).map(|(r, _)| r.clone()).collect();
        Side { repeats: kept, ..side }
    };
    let (kept_a, kept_b) = (keep(a, &of_a), keep(b, &of_b));
    (kept_a, kept_b, disturbed, said)
}

/// Fewer pairs tell too little of their own spread: they are not made fewer by choice.
const FEWEST_LEFT: usize = 3;

/// The first disturbance, and how many more there are.
fn why_disturbed(a: &Side<'_>, b: &Side<'_>, apart: &[(usize, Vec<String>)]) -> String {
    let each = a.measurements().chain(b.measurements()).flat_map(comparable::disturbances);
    let mut all = each.chain(apart.iter().flat_map(|(_, r)| r.clone()));
    let first = all.next().unwrap_or_default();
    match all.count() {
        0 => first,
        more => format!("{first}, and {more} more such"),
    }
}

enum Unknown {
    /// Why there is no ratio yet;
    Missing(String),
    /// or why there will be none.
    NotKnown(String),
    /// What is 0 has no logarithm.
    HasZeros,
}

/// Runs of each of two sides that were measured apart, below which there is no verdict.
const RUNS: usize = 3;

/// The ratio, and what has to be said of how it came about. `by_run`: each run of a side is one number.
fn ratio(
    metric: Metric,
    a: &Side<'_>,
    b: &Side<'_>,
    interleaved: bool,
    by_run: bool,
) -> Result<(Ratio, Option<String>), Unknown> {
    if a.repeats.is_empty() || b.repeats.is_empty() {
        return Err(Unknown::Missing(too_few(0, interleaved)));
    }
    let mut how = None;
    if let Some(q) = metric.quantile() {
        if let (Some(of_a), Some(of_b)) = (a.latencies(), b.latencies()) {
            let merged = |side: &Side<'_>, counts: &[&Counts]| {
                let of_runs: Vec<Counts> = match by_run {
                    true => side.runs().iter().map(|run| Counts::merged(&pick(counts, run))).collect(),
                    false => counts.iter().map(|c| (*c).clone()).collect(),
                };
                let counts = &of_runs.iter().collect::<Vec<_>>()[..];
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
            Unknown::NotKnown(format!("{metric} is not known in {unknown} of {of} of {}", side.name))
        })
    };
    let of_runs = |side: &Side<'_>| -> Result<Vec<f64>, Unknown> {
        let values = values(side)?;
        let of = |run: &Vec<usize>| median(run.iter().map(|i| values[*i])).unwrap_or(f64::NAN);
        Ok(if by_run { side.runs().iter().map(of).collect() } else { values })
    };
    let (of_a, of_b) = (of_runs(a)?, of_runs(b)?);
    let ratio = match interleaved {
        true => paired(&of_a, &of_b),
        false => Median::new(&of_a).zip(Median::new(&of_b)).map(|(a, b)| unpaired(&a, &b)),
    };
    ratio.map(|r| (r, how)).ok_or(Unknown::HasZeros)
}

fn pick<'a>(of: &[&'a Counts], places: &[usize]) -> Vec<&'a Counts> {
    places.iter().map(|i| of[*i]).collect()
}

/// The point estimate of what has no interval, wherever both sides have a number.
fn of_medians(metric: Metric, a: &Side<'_>, b: &Side<'_>) -> Option<f64> {
    let of = |side: &Side<'_>| median(side.values(metric)?);
    let (a, b) = of(a).zip(of(b))?;
    (a > 0.0).then(|| b / a)
}

/// Counts that are 0 at times: no interval of a ratio, but the differences have a mean and an error.
fn of_zeros(metric: Metric, a: &Side<'_>, b: &Side<'_>, interleaved: bool, c: &mut Comparison) {
    let (Some(a), Some(b)) = (a.values(metric), b.values(metric)) else { return };
    let medians = median(a.iter().copied()).zip(median(b.iter().copied()));
    c.ratio = medians.filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a);
    if a.iter().chain(&b).all(|x| *x == 0.0) {
        (c.ratio, c.ci95, c.p) = (Some(1.0), Some([1.0; 2]), Some(1.0));
        return;
    }
    c.reasons.push(format!("{metric} is 0 at times: no interval of a ratio; the verdict is by the differences"));
    c.p = match interleaved {
        true => student::mean_is_0(&a.iter().zip(&b).map(|(a, b)| b - a).collect::<Vec<_>>()),
        false => student::means_are_the_same(&a, &b),
    };
}

#[cfg(test)]
#[path = "compare/tests.rs"]
mod tests;
