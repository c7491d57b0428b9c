//! Stacked bars: the parts of a cell's completions, time or counts.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Head, Sheet};
use crate::html::figure::{Axis, Column, Figure, Kind, Line, Panel, Scale, Unit};
use crate::html::paths;
use crate::html::view::{Facet, View};
use iotrail_base::words::span;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{Measurement, Phases};
use iotrail_stats::share::share;

/// One part of a bar.
struct Part {
    /// Its name in the legend.
    name: String,
    /// Details; parts with the same name are adjacent.
    detail: String,
    value: f64,
    /// The count behind the value: completions, interrupts or samples.
    count: Option<u64>,
}

struct Parts<'a> {
    head: Head<'a>,
    /// Names of a part and of its value, used for columns and the axis.
    part: &'a str,
    value: (&'a str, Unit),
    axis: String,
    /// Names of parts with a class of their own, in order; all other parts share a class. If empty, the largest parts.
    names: Vec<String>,
}

/// Maximum number of parts with a class of their own.
const NAMED: usize = 9;
const OTHERS: &str = "others";

fn figure(
    view: &View<'_>,
    facets: &[Facet],
    mut parts: Parts<'_>,
    of: impl Fn(&[Measurement]) -> Option<Vec<Part>>,
) -> Option<Figure> {
    let (part, (value, unit)) = (Column::new(parts.part, Unit::Text), parts.value);
    let count = Column::new("counted", Unit::Number);
    let mut sheet = Sheet::new(view, [part, Column::new("detail", Unit::Text), Column::new(value, unit), count]);
    let own = Sheet::own(view);
    let found: Vec<Vec<(usize, Vec<Part>)>> = facets
        .iter()
        .map(|f| {
            f.spots
                .iter()
                .map(|s| (s.cell, of(&view.cells[s.cell].record.measurements.all()).unwrap_or_default()))
                .collect()
        })
        .collect();
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    found.iter().flatten().flat_map(|(_, p)| p).for_each(|p| *sums.entry(&p.name).or_default() += p.value);
    if parts.names.is_empty() {
        let mut names: Vec<(&str, f64)> = sums.iter().map(|(name, sum)| (*name, *sum)).collect();
        names.sort_by(|a, b| b.1.total_cmp(&a.1));
        parts.names = names.into_iter().take(NAMED).map(|(name, _)| name.to_owned()).collect();
    }
    let mut lots = Vec::new();
    for (facet, cells) in facets.iter().zip(&found) {
        let x = Axis::new(parts.axis.clone(), unit, Scale::Linear);
        let mut panel = Panel::new(facet.title.clone(), Kind::Bars, x, Axis::names(facet.lines_are()));
        panel.x_column = Some(own + 2);
        let mut looks: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for (spot, (cell, bar)) in facet.spots.iter().zip(cells).filter(|(_, (_, bar))| !bar.is_empty()) {
            let at = panel.lines.len();
            panel.lines.push(Line { name: facet.line_name(view, spot), ..Line::default() });
            for p in bar.iter().filter(|p| p.value > 0.0) {
                let row = sheet.push(view, *cell, [json!(p.name), json!(p.detail), json!(p.value), json!(p.count)]);
                let look = parts.names.iter().position(|n| *n == p.name).unwrap_or(parts.names.len());
                looks.entry(look).or_default().push((row, at));
            }
        }
        for (look, rows) in looks {
            let name = parts.names.get(look).map_or(OTHERS, String::as_str);
            let series = panel.series(name, paths::class(name).unwrap_or(paths::grey(look)));
            rows.into_iter().for_each(|(row, at)| series.mark(row, at));
        }
        lots.push((facet.title.clone(), vec![panel]));
    }
    sheet.figure(parts.head, lots)
}

pub fn vehicles(view: &View<'_>, facets: &[Facet]) -> Option<Figure> {
    let names = DeliveryPath::ALL.iter().map(|v| v.name().to_owned()).collect();
    let head = Head {
        id: "vehicles",
        title: "How completions were delivered",
        reads: "The kernel entry that delivered each completion, from ready to posted, over all repeats. Parts with the same colour differ in their details. docs/delivery.md describes the delivery paths.",
        is_of_time: false,
    };
    let axis = "share of the completions".to_owned();
    let parts = Parts { head, part: "vehicle", value: ("share", Unit::Share), axis, names };
    figure(view, facets, parts, |all| {
        let mut sums: BTreeMap<(DeliveryPath, &str), u64> = BTreeMap::new();
        for v in all.iter().flat_map(|m| &m.vehicles) {
            *sums.entry((v.vehicle, v.detail.as_deref().unwrap_or_default())).or_default() += v.completions;
        }
        let total: u64 = sums.values().sum();
        let part = |((vehicle, detail), n): ((DeliveryPath, &str), u64)| Part {
            name: vehicle.name().into(),
            detail: detail.into(),
            value: n as f64 / total as f64,
            count: Some(n),
        };
        Some(sums.into_iter().filter(|(_, n)| *n > 0).map(part).collect())
    })
}

pub fn stages(view: &View<'_>, facets: &[Facet]) -> Option<Figure> {
    let names = ["submitted → issued", "issued → ready", "ready → posted"];
    let head = Head {
        id: "stages",
        title: "Stages of the latency",
        reads: "Means over the traced requests with all stages. The stages end when the request is issued, when the device completes it, and when its completion is posted (the delivery delay).",
        is_of_time: true,
    };
    let axis = "time of one I/O".to_owned();
    let parts = Parts { head, part: "stage", value: ("ns", Unit::Ns), axis, names: names.map(Into::into).to_vec() };
    figure(view, facets, parts, |all| {
        let followed = || all.iter().filter_map(|m| m.stages.as_ref());
        let n: u64 = followed().map(|s| s.completions).sum();
        let mean = |of: fn(&iotrail_schema::measurement::StageRecord) -> f64| {
            followed().map(|s| of(s) * s.completions as f64).sum::<f64>() / n as f64
        };
        let means = [mean(|s| s.issue_ns), mean(|s| s.wait_ns), mean(|s| s.delivery_ns)];
        let part =
            |(name, value): (&str, f64)| Part { name: name.into(), detail: String::new(), value, count: Some(n) };
        (n > 0).then(|| names.into_iter().zip(means).map(part).collect())
    })
}

type Phase = (&'static str, fn(&Phases) -> f64);

pub fn phases(view: &View<'_>, facets: &[Facet]) -> Option<Figure> {
    let each: [Phase; 4] =
        [("submit", |p| p.submit), ("poll", |p| p.poll), ("clear", |p| p.clear), ("other", |p| p.other)];
    let head = Head {
        id: "phases",
        title: "Where the jobs' time went",
        reads: "Shares of the jobs' wall time over all repeats: submitting, polling (checking or waiting for completions), clearing ring slots, and the rest.",
        is_of_time: true,
    };
    let names = each.map(|(name, _)| name.to_owned()).to_vec();
    let axis = "share of the jobs' time".to_owned();
    let one = view.unit.one();
    let parts = Parts { head, part: "phase", value: ("share", Unit::Share), axis, names };
    figure(view, facets, parts, |all| {
        let (ios, total) = all
            .iter()
            .fold((0, 0), |(i, t), m| (i + m.ios.unwrap_or(0), t + m.phases.as_ref().map_or(0, |p| p.total_ns)));
        let phases = || all.iter().filter_map(|m| m.phases.as_ref());
        let sum = |of: fn(&Phases) -> f64| phases().map(|p| of(p) * p.total_ns as f64).sum::<f64>();
        let part = |(name, of): Phase| Part {
            name: name.into(),
            detail: format!("{} per {one}", span(sum(of) / ios as f64)),
            value: sum(of) / total as f64,
            count: None,
        };
        (ios > 0 && total > 0).then(|| each.map(part).into())
    })
}

pub fn cpu_shares(view: &View<'_>, facets: &[Facet]) -> Option<Figure> {
    let head = Head {
        id: "cpu",
        title: "Where the CPU went",
        reads: "Shares of the CPU samples of all repeats. The details show the 95 % interval of each share. docs/counters.md describes the places.",
        is_of_time: false,
    };
    let axis = "share of the samples".to_owned();
    let parts = Parts { head, part: "place", value: ("share", Unit::Share), axis, names: Vec::new() };
    figure(view, facets, parts, |all| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for s in all.iter().filter_map(|m| m.cpu_shares.as_deref()).flatten() {
            *sums.entry(s.place.to_string()).or_default() += s.samples;
        }
        let total: u64 = sums.values().sum();
        let part = |(name, n): (String, u64)| {
            let s = share(n, total)?;
            let detail = format!("{:.1} % to {:.1} %", s.lo * 100.0, s.hi * 100.0);
            (n > 0).then_some(Part { name, detail, value: s.share, count: Some(n) })
        };
        Some(sums.into_iter().filter_map(part).collect())
    })
}

pub fn mode_switches(view: &View<'_>, facets: &[Facet]) -> Option<Figure> {
    let one = view.unit.one();
    let title = format!("Returns to user mode per {one}, by cause");
    let head = Head {
        id: "mode-switches",
        title: &title,
        reads: "Returns from the kernel to user mode in the traced threads, over all repeats.",
        is_of_time: false,
    };
    let axis = format!("returns per {one}");
    let parts = Parts { head, part: "cause", value: ("per_io", Unit::Number), axis, names: Vec::new() };
    figure(view, facets, parts, |all| {
        let counted = || all.iter().filter(|m| m.per_io.mode_switches.is_some());
        per_io(counted(), |m| m.mode_switches.iter().map(|s| (s.cause.to_string(), String::new(), s.count)).collect())
    })
}

pub fn interrupts(view: &View<'_>, facets: &[Facet]) -> Option<Figure> {
    let one = view.unit.one();
    let title = format!("Interrupts per {one}, by vector and CPU");
    let head = Head {
        id: "interrupts",
        title: &title,
        reads: "All interrupts on each CPU during the measurements, regardless of the process that they served. The less frequent ones are listed by name in the table.",
        is_of_time: false,
    };
    let axis = format!("interrupts per {one}");
    let parts = Parts { head, part: "interrupt", value: ("per_io", Unit::Number), axis, names: Vec::new() };
    figure(view, facets, parts, |all| {
        per_io(all.iter(), |m| {
            let each = m.interrupts.iter();
            each.map(|i| (format!("{} {} on CPU {}", i.vector, i.name, i.cpu), String::new(), i.count)).collect()
        })
    })
}

pub fn ipis(view: &View<'_>, facets: &[Facet]) -> Option<Figure> {
    let one = view.unit.one();
    let title = format!("IPIs per {one}, by sender");
    let head = Head {
        id: "ipis",
        title: &title,
        reads: "Interprocessor interrupts that kicked or woke a traced thread or that a traced thread sent, by the sending kernel function. Those from task_work_add are kicks. The details show the sending and receiving CPUs.",
        is_of_time: false,
    };
    let axis = format!("IPIs per {one}");
    let parts = Parts { head, part: "site", value: ("per_io", Unit::Number), axis, names: Vec::new() };
    figure(view, facets, parts, |all| {
        per_io(all.iter(), |m| {
            let each = m.ipis.iter();
            each.map(|i| (i.site.to_string(), format!("CPU {} to CPU {}", i.from_cpu, i.to_cpu), i.count)).collect()
        })
    })
}

/// Counts of all measurements by name and detail, divided by the I/Os of the same measurements.
fn per_io<'m>(
    measurements: impl Iterator<Item = &'m Measurement>,
    of: impl Fn(&Measurement) -> Vec<(String, String, u64)>,
) -> Option<Vec<Part>> {
    let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut ios = 0;
    for m in measurements {
        ios += m.ios.unwrap_or(0);
        of(m).into_iter().for_each(|(name, detail, n)| *sums.entry((name, detail)).or_default() += n);
    }
    let part = |((name, detail), n): ((String, String), u64)| Part {
        name,
        detail,
        value: n as f64 / ios as f64,
        count: Some(n),
    };
    (ios > 0).then(|| sums.into_iter().filter(|(_, n)| *n > 0).map(part).collect())
}
