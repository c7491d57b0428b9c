//! The same plan on several kernels: merges their runs into one and compares the kernels. Counts are always compared;
//! times only if no machine was emulated.

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Map, Value};

use super::compare::{Metric, Repeat, Side, failed, forbid, metrics, noise_floor, place, together, undecided};
use super::group::vehicle_shares;
use super::spread::Spread;
use super::unit::Unit;
use iotrail_base::words::{count, list, per_io, percent, plural, three_digits};
use iotrail_schema::comparison::{Comparison, EQUIVALENT_WITHIN, Verdict};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{Delivery, Measurement};
use iotrail_schema::run_record::{ARM, CONTROL, CellRecord, KERNEL, RunRecord, value_text};
use iotrail_stats::bootstrap::Counts;

/// A requested kernel and its outcome, printed by `run --kernels --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelRecord {
    /// The kernel as requested.
    pub asked: String,
    /// Its release; null: nothing was measured.
    pub kernel: Option<String>,
    /// Numbers of its runs in the store, one per boot with measurements.
    pub runs: Vec<i64>,
    /// The machine was emulated; null: nothing was measured.
    pub emulated: Option<bool>,
    /// Errors, one sentence per boot that did not end its run.
    pub failed: Vec<String>,
}

/// Drops the distribution's suffix from a release: `6.12.107+deb13-amd64` becomes `6.12.107`.
pub fn short(release: &str) -> &str {
    release.split('+').next().unwrap_or(release).trim_end_matches("-amd64")
}

/// One kernel's runs, one per boot.
pub struct Boots {
    pub kernel: String,
    pub runs: Vec<RunRecord>,
}

impl Boots {
    /// Each run's cell with these parameters.
    fn cells<'a, 'p>(
        &'a self,
        params: &'p Map<String, Value>,
    ) -> impl Iterator<Item = (i64, &'a CellRecord)> + use<'a, 'p> {
        self.runs.iter().filter_map(move |r| Some((r.run, r.cells.iter().find(|c| c.params == *params)?)))
    }

    /// Runs in which this cell failed, one sentence each.
    fn failures(&self, cell: &CellRecord) -> Vec<String> {
        self.cells(&cell.params).filter_map(|(run, c)| Some(format!("run {run}: {}", failed(c)?))).collect()
    }
}

/// Returns the latencies of one repeat (1-based) of a cell of a run; `None` if they are not stored.
pub type Histograms<'a> = &'a dyn Fn(i64, u32, u32) -> Option<Histogram<u64>>;

/// Merges all runs into one whose first parameter is the kernel, and compares each kernel with the first. `None`
/// without runs.
pub fn merged(kernels: &[Boots], histograms: Histograms<'_>) -> Option<RunRecord> {
    let runs = || kernels.iter().flat_map(|k| &k.runs);
    let first = runs().next()?;
    let mut cells = Vec::new();
    for kernel in kernels {
        for cell in &first.cells {
            let of_boots: Vec<&CellRecord> = kernel.cells(&cell.params).map(|(_, c)| c).collect();
            let mut params: Map<String, Value> =
                [(KERNEL.to_owned(), kernel.kernel.as_str().into())].into_iter().collect();
            params.extend(cell.params.clone());
            cells.push(CellRecord {
                cell: cells.len() as u32 + 1,
                params,
                untestable: of_boots.iter().find_map(|c| c.untestable.clone()),
                measurements: of_boots.iter().flat_map(|c| c.measurements.all().to_vec()).collect(),
            });
        }
    }
    let axes = std::iter::once(KERNEL.to_owned()).chain(first.axes.clone()).collect();
    let blocks = |k: &Boots| k.runs.iter().map(|r| r.repeats).sum::<u32>();
    Some(RunRecord {
        cells,
        axes,
        repeats: kernels.iter().map(blocks).max().unwrap_or(0),
        started_unix_s: runs().map(|r| r.started_unix_s).fold(first.started_unix_s, Ord::min),
        finished_unix_s: runs()
            .map(|r| r.finished_unix_s)
            .collect::<Option<Vec<_>>>()
            .and_then(|all| all.into_iter().max()),
        comparisons: comparisons(first, kernels, histograms),
        ..first.clone()
    })
}

fn any_emulated(kernels: &[Boots]) -> bool {
    kernels.iter().flat_map(|k| &k.runs).any(RunRecord::is_emulated)
}

/// Compares counts; compares the experiment's own metric only if no machine was emulated.
fn comparisons(run: &RunRecord, kernels: &[Boots], histograms: Histograms<'_>) -> Vec<Comparison> {
    let Some((base, others)) = kernels.split_first() else { return Vec::new() };
    let mut wanted: Vec<Metric> = Metric::COUNTS.to_vec();
    if !any_emulated(kernels) {
        wanted.extend(metrics(run).into_iter().filter(|m| m.is_of_time()));
    }
    let mut found = Vec::new();
    for metric in wanted {
        for other in others {
            for cell in run.cells.iter().filter(|c| c.arm() != CONTROL) {
                let of = |kernel, cell| side(kernel, cell, metric, histograms);
                let (a, b) = (of(base, cell), of(other, cell));
                if a.repeats.is_empty() || b.repeats.is_empty() {
                    continue;
                }
                // As in `compare`, so that it has the same verdict on the stored runs.
                let beside = |arm: &str| run.cells.iter().find(|c| c.arm() == arm && place(c) == place(cell));
                let floor = |kernel| {
                    let (twin, control) = (beside(run.arms.first()?)?, beside(CONTROL)?);
                    noise_floor(metric, &of(kernel, twin), &of(kernel, control))
                };
                let floor = [base, other].into_iter().filter_map(floor).reduce(f64::max);
                let mut c = undecided(metric, &a, &b, false, floor);
                forbid(&mut c, [base, other].into_iter().flat_map(|kernel| kernel.failures(cell)).collect());
                found.push(Comparison { at: cell.params.clone(), ..c });
            }
        }
    }
    together(&mut found, EQUIVALENT_WITHIN);
    found
}

/// A cell's repeats from all boots, each of which counts as one run.
fn side<'a>(kernel: &'a Boots, cell: &CellRecord, metric: Metric, histograms: Histograms<'_>) -> Side<'a> {
    let mut repeats = Vec::new();
    for (boot, (run, cell)) in kernel.cells(&cell.params).enumerate() {
        for (measurement, repeat) in cell.measurements.each().zip(1..) {
            let latency = metric.quantile().and_then(|_| histograms(run, cell.cell, repeat));
            let latency = latency.as_ref().map(|all| Counts::of(all).into());
            repeats.push(Repeat { run: Some(boot), ..Repeat::new(measurement, latency) });
        }
    }
    Side { name: kernel.kernel.clone(), repeats }
}

/// One cell's metrics on all kernels, side by side.
pub struct Beside {
    pub label: String,
    /// Metrics whose ranges do not overlap on at least two kernels.
    pub differing: Vec<Figure>,
    /// The remaining metrics, with their common value.
    pub alike: Vec<String>,
}

pub struct Figure {
    pub name: String,
    /// One value per kernel, in kernel order; `None` if unknown.
    pub values: Vec<Option<String>>,
}

type Reading<'a> = Box<dyn Fn(&Measurement) -> Option<f64> + 'a>;
type Text = fn(f64) -> String;

/// Every cell but the control arm's, in the order of the plan.
pub fn beside(kernels: &[Boots]) -> Vec<Beside> {
    let Some(first) = kernels.iter().find_map(|k| k.runs.first()) else { return Vec::new() };
    first.cells.iter().filter(|c| c.arm() != CONTROL).map(|cell| of_cell(first, cell, kernels)).collect()
}

fn of_cell(run: &RunRecord, cell: &CellRecord, kernels: &[Boots]) -> Beside {
    let label =
        run.axes.iter().filter_map(|a| Some(format!("{a} {}", value_text(cell.params.get(a)?)))).collect::<Vec<_>>();
    let pooled: Vec<Vec<Measurement>> = kernels
        .iter()
        .map(|k| k.cells(&cell.params).flat_map(|(_, c)| c.measurements.all().to_vec()).collect())
        .collect();
    let mut beside = Beside { label: label.join(" · "), differing: Vec::new(), alike: Vec::new() };
    for (name, of, text) in figures(run, &pooled, any_emulated(kernels)) {
        let spreads: Vec<Option<Spread>> = pooled.iter().map(|all| Spread::of_known(all.iter().map(&of))).collect();
        if spreads.iter().all(Option::is_none) {
            continue;
        }
        let values: Vec<Option<String>> = spreads.iter().map(|s| s.map(|s| spread_text(s, text))).collect();
        if are_alike(&spreads) {
            let known: Vec<Spread> = spreads.iter().flatten().copied().collect();
            let medians = Spread::of(known.iter().map(|s| s.median));
            beside.alike.extend(medians.map(|m| format!("{name} {}", text(m.median))));
        } else {
            beside.differing.push(Figure { name, values });
        }
    }
    beside.differing.extend(order_figure(&pooled));
    beside
}

/// All metrics: name, reader and format.
fn figures<'a>(run: &RunRecord, pooled: &[Vec<Measurement>], emulated: bool) -> Vec<(String, Reading<'a>, Text)> {
    let per = Unit::of_run(run).one();
    let mut all: Vec<(String, Reading<'a>, Text)> = Vec::new();
    for metric in Metric::PER_IO {
        all.push((format!("{} per {per}", metric.counted()), Box::new(move |m| metric.of(m)), per_io as Text));
    }
    let mut vehicles: Vec<DeliveryPath> = Vec::new();
    for (vehicle, share) in pooled.iter().flat_map(|all| vehicle_shares(all)) {
        if share >= WORTH_NAMING && !vehicles.contains(&vehicle) {
            vehicles.push(vehicle);
        }
    }
    for vehicle in vehicles {
        let share = move |m: &Measurement| {
            let shares = vehicle_shares(std::slice::from_ref(m));
            (!shares.is_empty()).then(|| shares.iter().find(|(v, _)| *v == vehicle).map_or(0.0, |(_, s)| *s))
        };
        all.push((format!("by {vehicle}"), Box::new(share), percent as Text));
    }
    if !emulated {
        all.push((Metric::Iops.words(Unit::of_run(run)), Box::new(|m| m.iops), count as Text));
        for (name, metric) in [("mean", Metric::LatencyMean), ("p99", Metric::LatencyP99)] {
            let us = move |m: &Measurement| metric.of(m).map(|ns| ns / 1e3);
            all.push((format!("{name} latency, µs"), Box::new(us), three_digits as Text));
        }
    }
    all
}

/// Minimum share: a delivery path below this share on every kernel has no line.
const WORTH_NAMING: f64 = 0.01;

/// Medians within 2 % count as equal, as do metrics whose ranges overlap.
const NEAR: f64 = 0.02;
/// Absolute tolerance for values near zero.
const NEAR_ZERO: f64 = 0.005;

fn are_alike(spreads: &[Option<Spread>]) -> bool {
    let near = |a: &Spread, b: &Spread| {
        let apart = (a.median - b.median).abs();
        apart <= NEAR_ZERO || apart <= NEAR * a.median.max(b.median) || (a.min <= b.max && b.min <= a.max)
    };
    let all: Option<Vec<Spread>> = spreads.iter().copied().collect();
    all.is_some_and(|all| all.iter().all(|a| all.iter().all(|b| near(a, b))))
}

fn spread_text(s: Spread, text: Text) -> String {
    let (middle, least, most) = (text(s.median), text(s.min), text(s.max));
    let wide = s.max - s.min > NEAR_ZERO && s.relative_range().is_none_or(|r| r > NEAR);
    if wide && least != most { format!("{middle} ({}–{most})", least.trim_end_matches(" %")) } else { middle }
}

/// Completions posted before an earlier-ready completion, among completions with a known ready time.
fn order_figure(pooled: &[Vec<Measurement>]) -> Option<Figure> {
    let of =
        |all: &Vec<Measurement>| reversed(all.iter().map(Measurement::delivery)).map(|(n, of)| format!("{n} of {of}"));
    let values: Vec<Option<String>> = pooled.iter().map(of).collect();
    values.iter().any(Option::is_some).then(|| Figure { name: "posted out of order".into(), values })
}

/// Inversions, and completions with a known ready time; `None` if a measurement lacks them.
fn reversed<'a>(all: impl Iterator<Item = Option<&'a Delivery>>) -> Option<(u64, u64)> {
    let each = all.map(|d| d.filter(|d| d.completions > 0).map(|d| (d.inversions, d.completions)));
    let each: Vec<(u64, u64)> = each.collect::<Option<_>>()?;
    (!each.is_empty()).then(|| each.iter().fold((0, 0), |(a, b), (x, y)| (a + x, b + y)))
}

/// Ready order versus posted order in each measurement of an arm.
fn deliveries(arm: &str, kernel: &Boots) -> Vec<Option<Delivery>> {
    let cells = kernel.runs.iter().flat_map(|r| &r.cells).filter(|c| c.arm() == arm);
    cells.flat_map(|c| c.measurements.each()).map(|m| m.delivery().cloned()).collect()
}

/// By kernel: completions of an arm posted before an earlier-ready completion, and all completions with a known order.
/// `None` if no kernel has them.
pub fn lost_order(arm: &str, kernels: &[Boots]) -> Option<Vec<(String, u64, u64)>> {
    let of = |k: &Boots| {
        let all = deliveries(arm, k);
        reversed(all.iter().map(Option::as_ref)).map(|(n, of)| (short(&k.kernel).to_owned(), n, of))
    };
    let known: Vec<_> = kernels.iter().filter_map(of).collect();
    (!known.is_empty()).then_some(known)
}

/// Conclusions about all cells.
pub fn sentences(kernels: &[Boots], comparisons: &[Comparison]) -> Vec<String> {
    let Some(run) = kernels.iter().find_map(|k| k.runs.first()) else { return Vec::new() };
    let mut out: Vec<String> = run.arms.iter().filter_map(|arm| order(arm, kernels)).collect();
    let unit = Unit::of_run(run);
    for group in comparisons.chunk_by(|a, b| (&a.metric, &a.b) == (&b.metric, &b.b)) {
        let Ok(metric) = group[0].metric.parse::<Metric>() else { continue };
        out.extend(said(&metric.words(unit), metric, group, run));
    }
    if any_emulated(kernels) {
        out.push(
            "Times are not compared: these machines were emulated (no KVM), and their times are meaningless.".into(),
        );
    }
    out
}

/// Delivery order on each kernel, over all completions of an arm. The counts are exact.
fn order(arm: &str, kernels: &[Boots]) -> Option<String> {
    let (mut lost, mut kept) = (Vec::new(), Vec::new());
    for kernel in kernels {
        let all = deliveries(arm, kernel);
        match reversed(all.iter().map(Option::as_ref)) {
            Some((0, of)) => kept.push(format!("{} ({of} completions)", short(&kernel.kernel))),
            Some((n, of)) => {
                let far = all.iter().flatten().map(|d| d.max_displacement).max().unwrap_or(0);
                let by = all.iter().flatten().map(|d| d.by.task_work).sum::<u64>();
                lost.push(format!(
                    "{} {n} of {of} ({by} of them in task work, by at most {})",
                    short(&kernel.kernel),
                    plural(far as usize, "place")
                ));
            }
            None => {}
        }
    }
    if lost.is_empty() && kept.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    if !lost.is_empty() {
        parts.push(format!("posted before a completion that was ready earlier: on {}", list(&lost)));
    }
    if !kept.is_empty() {
        parts.push(format!("posted in ready order: on {}", list(&kept)));
    }
    Some(format!("{arm}: {}.", parts.join("; ")))
}

/// Compares a metric between the first kernel and one other kernel.
fn said(words: &str, metric: Metric, group: &[Comparison], run: &RunRecord) -> Option<String> {
    let label = |c: &Comparison| {
        let one = |a: &String| Some(format!("{a} {}", value_text(c.at.get(a)?)));
        run.axes.iter().filter(|a| run.values(a).len() > 1 || *a == ARM).filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let ratio = |c: &Comparison| c.ratio.map_or_else(String::new, |r| format!(" (×{})", three_digits(r)));
    let (mut higher, mut lower, mut same, mut unsure, mut open) = (Vec::new(), Vec::new(), 0, 0, Vec::new());
    for c in group {
        match c.verdict {
            Verdict::Equivalent => same += 1,
            Verdict::Inconclusive => unsure += 1,
            Verdict::NotComparable => open.push(c),
            v if (v == Verdict::Faster) == metric.higher_is_better() => {
                higher.push(format!("{}{}", label(c), ratio(c)))
            }
            _ => lower.push(format!("{}{}", label(c), ratio(c))),
        }
    }
    let mut parts = Vec::new();
    for (word, cells) in [("higher", &higher), ("lower", &lower)] {
        if !cells.is_empty() {
            parts.push(format!("{word} with {}", cells.join("; ")));
        }
    }
    if same > 0 {
        parts.push(format!("equivalent in {}", plural(same, "cell")));
    }
    if unsure > 0 {
        parts.push(format!("inconclusive in {}", plural(unsure, "cell")));
    }
    if let Some(why) = open.first().and_then(|c| c.reasons.first()) {
        parts.push(format!("not comparable in {} ({why})", plural(open.len(), "cell")));
    }
    let first = group.first()?;
    (!parts.is_empty())
        .then(|| format!("{words} on {} against {}: {}.", short(&first.b), short(&first.a), parts.join("; ")))
}

/// Whether all runs have the same cells, as runs of one plan do.
pub fn have_one_plan(kernels: &[Boots]) -> bool {
    let cells = |r: &RunRecord| r.cells.iter().map(|c| (place(c), c.arm().to_owned())).collect::<Vec<_>>();
    let mut runs = kernels.iter().flat_map(|k| &k.runs);
    runs.next().is_none_or(|first| runs.all(|r| cells(r) == cells(first)))
}

#[cfg(test)]
#[path = "across_tests.rs"]
mod tests;
