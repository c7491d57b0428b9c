//! A fleet's screen: the answer, outliers with their distinguishing facts, and one table of the situations.

use super::compare::{hue, ratio};
use super::layout::{Cell, Column, Screen, cut};
use super::style::Style;
use iotrail_answer::fleet::{Names, figure, nodes};
use iotrail_answer::unit::Unit;
use iotrail_base::words::{UNKNOWN, plural};
use iotrail_schema::fleet_answer::{Apart, FleetAnswer, FleetEffect, GoesWith, OnMachine, Stands};
use iotrail_schema::fleet_record::{FleetNode, FleetRecord, NodeState};

/// Maximum characters per kind of line below the answer: two lines on the screen.
const SHORT: usize = 138;

/// Width of a situation's name.
const NAME: usize = 24;

/// Maximum number of lines on the screen.
const LINES: usize = 20;
const ROWS: usize = 8;

const LEGEND: &str = "ratio: mean over the machines, with its 95 % interval; spread: standard deviation between machines; another: interval that \
     contains the ratio of another such machine in 95 of 100 cases; holds: machines whose own verdict is the same. +: holds there; -: the opposite \
     direction; =: no difference; !: a difference although none is claimed; ?: inconclusive; x: not comparable; o: not testable; .: not measured. \
     docs/fleets.md describes the columns.";

/// `store`: the option that names the store in other commands, ` --store s.db`, or empty.
pub fn screen(a: &FleetAnswer, unit: Unit, full: bool, store: &str, style: Style) -> Screen {
    let mut out = Screen::new(style);
    out.heading(&a.answer);
    let names = &Names::new(&a.effects);
    let goes = a.effects.iter().flat_map(|e| e.goes_with.iter().map(move |g| goes_with(names, e, g, unit)));
    let apart = a.effects.iter().flat_map(|e| e.apart.iter().map(move |m| apart(names, e, m)));
    for (label, all) in [("with", goes.collect()), ("outlier", apart.collect()), ("note", a.notes.clone())] {
        listed(&mut out, label, &all, full);
    }
    match full {
        true => whole(&mut out, a, names),
        false => brief(&mut out, a, names, store),
    }
    out
}

/// One line each, or the first line and the number of others.
fn listed(out: &mut Screen, label: &str, all: &[String], full: bool) {
    let left = if all.len() > 1 { format!(" (and {} more: --full)", all.len() - 1) } else { String::new() };
    for (i, text) in all.iter().enumerate().take(if full { usize::MAX } else { 1 }) {
        let shown = if full { text.clone() } else { cut(text, SHORT - left.len()) + &left };
        out.paragraph(&format!("  {:<7} ", if i == 0 { label } else { "" }), &shown);
    }
}

fn brief(out: &mut Screen, a: &FleetAnswer, names: &Names, store: &str) {
    let metric = leading_metric(a);
    let shown: Vec<&FleetEffect> = a.effects.iter().filter(|e| Some(e.metric.as_str()) == metric).collect();
    // Lines besides the table rows.
    const AROUND: usize = 6;
    let room = LINES.saturating_sub(out.as_str().lines().count() + AROUND).clamp(1, ROWS);
    let rows = shown.len().min(room);
    if let Some(metric) = metric {
        out.blank();
        table(out, metric, &shown[..rows], |e| cut(&names.of(e), NAME));
    }
    let left = a.effects.len() - rows;
    if left > 0 {
        out.paragraph("  ", &format!("and {}: --full", plural(left, "more comparison")));
    }
    out.blank();
    let id = a.fleet.id();
    if let Some(base) = &a.against {
        out.line(&format!("details: iotrail compare {} {id}{store} --full", base.id()));
        return;
    }
    out.line(&format!("details: iotrail report {id}{store} --full"));
    out.line(&format!("page:    iotrail report {id}{store} -o r.html"));
}

/// The metric of the answer.
fn leading_metric(a: &FleetAnswer) -> Option<&str> {
    iotrail_answer::fleet::leading(&a.effects).map(|e| e.metric.as_str())
}

fn goes_with(names: &Names, e: &FleetEffect, g: &GoesWith, unit: Unit) -> String {
    let [with, others] = [0, 1].map(|i| figure(&e.metric, unit, g.ratios[i], g.ci95[i]));
    format!("{}, {} ({}): {with}; on the other machines {others}", names.of(e), g.with.join(", "), nodes(&g.nodes))
}

fn apart(names: &Names, e: &FleetEffect, m: &Apart) -> String {
    let than = e.ratio.map_or(String::new(), |r| format!(", mean ×{}", ratio(r)));
    let with = match m.with.is_empty() {
        true => "no recorded fact is unique to it".to_owned(),
        false => m.with.join(", "),
    };
    format!("{}: {} ×{}{than} ({}); {with}", m.node, e.metric, ratio(m.ratio), names.of(e))
}

fn table(out: &mut Screen, metric: &str, effects: &[&FleetEffect], name: impl Fn(&FleetEffect) -> String) {
    let columns = [
        Column::named(metric, NAME as u16, false),
        Column::number("ratio", 6),
        Column::words("95 % interval", 13),
        Column::number("spread", 7),
        Column::words("another", 12),
        Column::number("holds", 10),
    ];
    let interval = |i: Option<[f64; 2]>| i.map_or(UNKNOWN.into(), interval);
    let row = |e: &&FleetEffect| -> Vec<Cell> {
        vec![
            name(e).into(),
            Cell::from(e.ratio.map_or(UNKNOWN.into(), bound)).in_hue(hue(e.verdict)),
            interval(e.ci95).into(),
            e.spread.map_or(UNKNOWN.into(), spread).into(),
            interval(e.another_ci95).into(),
            format!("{} of {}", e.holds, e.asked).into(),
        ]
    };
    out.table(&columns, effects.iter().map(row).collect());
}

/// The full report: all comparisons, each machine, then the machines' facts.
fn whole(out: &mut Screen, a: &FleetAnswer, names: &Names) {
    let effects: Vec<&FleetEffect> = a.effects.iter().collect();
    for of_metric in effects.chunk_by(|x, y| x.metric == y.metric) {
        out.blank();
        table(out, &of_metric[0].metric, of_metric, |e| names.of(e));
        out.blank();
        machines(out, of_metric, names);
    }
    if !a.factors.is_empty() {
        out.blank();
        out.heading("differences between the machines");
        for factor in &a.factors {
            let values: Vec<String> = factor.values.iter().map(|v| format!("{} ({})", v.is, nodes(&v.nodes))).collect();
            out.field(&factor.name, &values);
        }
    }
    out.blank();
    out.heading("machines");
    let columns = [
        Column::words("machine", 20),
        Column::words("state", 11),
        Column::number("run", 5),
        Column::number("done", 11),
        Column::words("", 28),
    ];
    let row = |n: &FleetNode| {
        let measured = a.machines.iter().find(|m| m.node == n.node);
        vec![
            n.node.clone(),
            n.state.words().to_owned(),
            n.run.map_or(UNKNOWN.into(), |r| r.to_string()),
            measured.map_or(UNKNOWN.into(), |m| format!("{}/{}", m.measurements, m.planned)),
            n.said.clone().unwrap_or_default(),
        ]
    };
    out.table(&columns, a.fleet.nodes.iter().map(row).collect());
    out.blank();
    out.paragraph("", LEGEND);
}

/// Maximum number of situations side by side; the rest appear only on the page.
const BESIDE: usize = 6;

/// One line per machine with its ratio in each situation.
fn machines(out: &mut Screen, effects: &[&FleetEffect], names: &Names) {
    for some in effects.chunks(BESIDE) {
        let mut columns = vec![Column::words("machine", 14)];
        columns.extend(some.iter().map(|e| Column::named(&names.of(e), 10, false)));
        let rows = (0..some[0].on.len()).map(|i| -> Vec<Cell> {
            let own = |e: &&FleetEffect| -> Cell {
                let m = &e.on[i];
                Cell::from(mark(m)).in_hue(hue(m.verdict))
            };
            std::iter::once(Cell::from(&some[0].on[i].node)).chain(some.iter().map(own)).collect()
        });
        out.table(&columns, rows.collect());
    }
}

fn mark(m: &OnMachine) -> String {
    let sign = match m.stands {
        Stands::Holds => '+',
        Stands::TurnsAround => '-',
        Stands::Equivalent => '=',
        Stands::Differs => '!',
        Stands::Inconclusive => '?',
        Stands::NotComparable => 'x',
        Stands::CannotTest => 'o',
        Stands::Missing => '.',
    };
    m.ratio.map_or(sign.to_string(), |r| format!("{sign} {}", bound(r)))
}

/// A ratio that fits its column. A prediction interval from a few heterogeneous machines can be too wide to be
/// meaningful.
fn bound(x: f64) -> String {
    if x >= 999.5 { ">1000".into() } else { ratio(x) }
}

/// Both ends, or a single sign if both exceed the printable range.
fn interval(ends: [f64; 2]) -> String {
    match ends.map(bound) {
        [lo, hi] if lo == hi && lo.starts_with(['<', '>']) => lo,
        [lo, hi] => format!("{lo}–{hi}"),
    }
}

/// A standard deviation between machines.
fn spread(share: f64) -> String {
    match share * 100.0 {
        p if p >= 999.5 => ">999 %".into(),
        p if p >= 99.95 => format!("±{p:.0} %"),
        p => format!("±{p:.1} %"),
    }
}

pub fn list(out: &mut Screen, fleets: &[FleetRecord]) {
    let columns = [
        Column::words("fleet", 6),
        Column::words("name", 18),
        Column::words("experiment", 18),
        Column::number("machines", 8),
        Column::words("", 24),
    ];
    let row = |f: &FleetRecord| {
        let ended = f.nodes.iter().filter(|n| n.state == NodeState::Done).count();
        let others = f.nodes.len() - ended;
        let state = match (f.finished_unix_s, others) {
            (None, _) => format!("{ended} done; not finished"),
            (Some(_), 0) => "all done".to_owned(),
            (Some(_), n) => format!("{n} not done"),
        };
        vec![f.id(), f.name.clone(), f.experiment.clone(), f.nodes.len().to_string(), state]
    };
    out.table(&columns, fleets.iter().map(row).collect());
}

#[cfg(test)]
mod tests {
    use super::{bound, interval, spread};

    /// The table's column widths are 6, 13, 7 and 12.
    #[test]
    fn numbers_of_any_magnitude_fit_their_columns() {
        let all = [0.0, 1e-9, 0.001, 0.617, 1.0, 9.99, 99.9, 100.0, 999.4, 999.6, 93_738_624.0, 1e300, f64::INFINITY];
        assert!(all.iter().all(|x| bound(*x).chars().count() <= 6 && spread(*x).chars().count() <= 7));
        for (lo, hi) in all.iter().flat_map(|lo| all.iter().map(move |hi| (*lo, *hi))) {
            assert!(interval([lo, hi]).chars().count() <= 12, "{lo} {hi}");
        }
        assert_eq!([bound(93_738_624.0), bound(1e-9), spread(20.0)], [">1000", "<0.001", ">999 %"]);
        assert_eq!([interval([1e-9, 1e-8]), interval([0.5, 0.5])], ["<0.001", "0.500–0.500"]);
    }
}
