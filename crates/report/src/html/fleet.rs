//! A fleet's page: the answer, a grid of machines × situations, each situation's mean around 1, and each machine.

use serde_json::{Value, json};

use super::figure::{Axis, Figure, Head, Kind, Line, Panel, Place, Scale, Unit};
use super::words::Sentence;
use super::{Answered, safe};
use iotrail_answer::fleet::{Names, figure, leading, nodes, situation};
use iotrail_answer::unit::Unit as Counted;
use iotrail_base::distinct::distinct;
use iotrail_base::error::Result;
use iotrail_base::words::{list, three_digits};
use iotrail_schema::comparison::Verdict;
use iotrail_schema::fleet_answer::{Factor, FleetAnswer, FleetEffect, OnMachine, Stands};

/// Up to this number of machines, their own ratios are shown below the grid; otherwise that section is collapsed.
const OPEN: usize = 24;

/// Maximum number of facts next to a machine's fields.
const FACTS: usize = 2;

pub fn page(a: &FleetAnswer, unit: Counted) -> Result<String> {
    let page = Answered {
        title: format!("{}: {} on {} machines", a.fleet.name, a.fleet.experiment, a.fleet.nodes.len()),
        answer: a.answer.clone(),
        name: format!("iotrail-{}-{}", a.fleet.id(), safe::file_name(&a.fleet.name)),
        between_title: "Associated facts, outliers, missing data",
        between: said(a, unit),
        figures: grids(a, true).into_iter().chain(means(a)).chain(by_machine(a)).chain(grids(a, false)).collect(),
    };
    page.page()
}

fn said(a: &FleetAnswer, unit: Counted) -> Vec<Sentence> {
    let names = Names::new(&a.effects);
    let at = |e: &FleetEffect| names.of(e);
    let goes = a.effects.iter().flat_map(|e| e.goes_with.iter().map(move |g| (e, g))).map(|(e, g)| {
        let [with, others] = [0, 1].map(|i| figure(&e.metric, unit, g.ratios[i], g.ci95[i]));
        format!("{} ({}), {}: {with}; on the other machines {others}", list(&g.with), nodes(&g.nodes), at(e))
    });
    let apart = a.effects.iter().flat_map(|e| e.apart.iter().map(move |m| (e, m))).map(|(e, m)| {
        let with = if m.with.is_empty() { "no recorded fact is unique to it".into() } else { list(&m.with) };
        format!("{} is an outlier: {} ×{}, {}; {with}", m.node, e.metric, three_digits(m.ratio), at(e))
    });
    goes.chain(apart).chain(a.notes.iter().cloned()).map(Sentence::new).collect()
}

/// Machines × situations: the grid of the answer's metric, or those of the other metrics.
fn grids(a: &FleetAnswer, is_lead: bool) -> Vec<Figure> {
    let Some(lead) = leading(&a.effects) else { return Vec::new() };
    let place = if is_lead { Place::First } else { Place::Folded };
    let metrics = distinct(a.effects.iter().map(|e| e.metric.as_str()));
    let these = metrics.into_iter().filter(|m| (*m == lead.metric) == is_lead);
    these.filter_map(|m| picture(a, m, lead, place)).collect()
}

fn picture(a: &FleetAnswer, metric: &str, lead: &FleetEffect, place: Place) -> Option<Figure> {
    let columns = [
        ("machine", Unit::Text),
        ("arm", Unit::Text),
        ("at", Unit::Text),
        ("stands", Unit::Text),
        ("column", Unit::Number),
        ("ratio", Unit::Ratio),
        ("lo", Unit::Ratio),
        ("hi", Unit::Ratio),
        ("apart", Unit::Text),
        ("reason", Unit::Text),
    ];
    let effects: Vec<&FleetEffect> = a.effects.iter().filter(|e| e.metric == metric).collect();
    let names = Names::new(&a.effects);
    let facts: Vec<&Factor> = a.factors.iter().take(FACTS).collect();
    let named = |f: &&Factor| f.name.clone();
    let title = facts.iter().map(named).collect::<Vec<_>>().join(" · ");
    let mut panel = Panel::new("", Kind::Grid, Axis::names(title), Axis::names("machine"));
    (panel.x_column, panel.y_column) = (Some(4), Some(5));
    panel.heads = effects.iter().map(|e| names.of(e)).collect();
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for i in order(lead) {
        let node = &lead.on[i].node;
        let fact =
            |f: &&Factor| f.values.iter().find(|v| v.nodes.contains(node)).map(|v| v.is.clone()).unwrap_or_default();
        let says = facts.iter().map(fact).collect::<Vec<_>>().join(" · ");
        let line = panel.lines.len();
        panel.lines.push(Line { name: node.clone(), says, across: Vec::new() });
        for (column, e) in effects.iter().enumerate() {
            let m = &e.on[i];
            let apart = e.apart.iter().find(|x| x.node == *node);
            let (words, class) = look(m, apart.is_some());
            panel.series(words, class).mark(rows.len(), line);
            let [lo, hi] = m.ci95.map_or([Value::Null, Value::Null], |ci| ci.map(|x| json!(x)));
            rows.push(vec![
                json!(node),
                json!(e.b),
                json!(situation(&e.at)),
                json!(words),
                json!(column),
                json!(m.ratio),
                lo,
                hi,
                json!(apart.map(|x| if x.with.is_empty() { "yes".to_owned() } else { x.with.join(", ") })),
                json!(m.reason),
            ]);
        }
    }
    let head = Head {
        id: &format!("machines-{}", safe::file_name(metric)),
        title: &format!("Machines × situations: {metric}, {} against {}", arms(&effects), lead.a),
        reads: "Each field is a machine's own ratio in one situation. Machines are sorted by their ratio in the situation of the answer. Green: better on this machine; red: worse; grey: no difference; pale with a dashed edge: inconclusive; empty: not measured, not testable or not comparable; thick edge: an outlier.",
        is_of_time: false,
    };
    Figure::plain(head, place, &columns, rows, vec![panel])
}

fn arms(effects: &[&FleetEffect]) -> String {
    nodes(&distinct(effects.iter().map(|e| e.b.as_str())))
}

/// Machines sorted by their ratio in the answer's effect, machines without a ratio last.
fn order(lead: &FleetEffect) -> Vec<usize> {
    let mut places: Vec<usize> = (0..lead.on.len()).collect();
    let ratio = |i: usize| lead.on[i].ratio.unwrap_or(f64::INFINITY);
    places.sort_by(|a, b| ratio(*a).total_cmp(&ratio(*b)));
    places
}

fn look(m: &OnMachine, is_apart: bool) -> (&'static str, &'static str) {
    match (m.stands, m.verdict, is_apart) {
        (Stands::CannotTest, ..) => ("cannot test", "empty"),
        (Stands::Missing, ..) => ("not measured", "empty"),
        (Stands::NotComparable, ..) => ("not comparable", "empty"),
        (_, Verdict::Faster, true) => ("better, apart", "good ring"),
        (_, Verdict::Faster, false) => ("better", "good"),
        (_, Verdict::Slower, true) => ("worse, apart", "bad ring"),
        (_, Verdict::Slower, false) => ("worse", "bad"),
        (_, Verdict::Equivalent, true) => ("no difference, outlier", "open ring"),
        (_, Verdict::Equivalent, false) => ("no difference", "open"),
        (_, _, true) => ("inconclusive, apart", "unsure ring"),
        (_, _, false) => ("inconclusive", "unsure"),
    }
}

/// Each situation's mean around 1, with its prediction interval.
fn means(a: &FleetAnswer) -> Option<Figure> {
    let columns = [
        ("metric", Unit::Text),
        ("arm", Unit::Text),
        ("at", Unit::Text),
        ("ratio", Unit::Ratio),
        ("lo", Unit::Ratio),
        ("hi", Unit::Ratio),
        ("spread", Unit::Share),
        ("another_lo", Unit::Ratio),
        ("another_hi", Unit::Ratio),
        ("holds", Unit::Number),
        ("asked", Unit::Number),
        ("verdict", Unit::Text),
    ];
    let names = Names::new(&a.effects);
    let mut panels: Vec<Panel> = Vec::new();
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for e in &a.effects {
        let (Some(ratio), Some([lo, hi])) = (e.ratio, e.ci95) else { continue };
        if panels.last().is_none_or(|p| p.title != e.metric) {
            let x = Axis::new("arm ÷ first arm", Unit::Ratio, Scale::Log);
            let mut panel = Panel::new(e.metric.clone(), Kind::Ratios, x, Axis::names(""));
            (panel.x_column, panel.lo_column, panel.hi_column) = (Some(3), Some(4), Some(5));
            panels.push(panel);
        }
        let Some(panel) = panels.last_mut() else { continue };
        let says = format!("holds on {} of {}", e.holds, e.asked);
        let at = panel.lines.len();
        panel.lines.push(Line { name: names.of(e), says, across: e.another_ci95.iter().flatten().copied().collect() });
        let class = match e.verdict {
            Verdict::Faster => "good",
            Verdict::Slower => "bad",
            _ => "open",
        };
        panel.series(e.verdict.words(), class).mark(rows.len(), at);
        let [another_lo, another_hi] = e.another_ci95.map_or([Value::Null, Value::Null], |i| i.map(|x| json!(x)));
        rows.push(vec![
            json!(e.metric),
            json!(e.b),
            json!(situation(&e.at)),
            json!(ratio),
            json!(lo),
            json!(hi),
            json!(e.spread),
            another_lo,
            another_hi,
            json!(e.holds),
            json!(e.asked),
            json!(e.verdict.words()),
        ]);
    }
    let head = Head {
        id: "means",
        title: "Mean over the machines, with 95 % intervals",
        reads: "The wide bars are 95 % prediction intervals for another machine of the fleet.",
        is_of_time: false,
    };
    Figure::plain(head, Place::Open, &columns, rows, panels)
}

/// Each machine's ratio in the answer's effect.
fn by_machine(a: &FleetAnswer) -> Option<Figure> {
    let e = leading(&a.effects)?;
    let columns = [
        ("machine", Unit::Text),
        ("ratio", Unit::Ratio),
        ("lo", Unit::Ratio),
        ("hi", Unit::Ratio),
        ("stands", Unit::Text),
    ];
    let x = Axis::new("arm ÷ first arm", Unit::Ratio, Scale::Log);
    let mut panel = Panel::new("", Kind::Ratios, x, Axis::names(""));
    (panel.x_column, panel.lo_column, panel.hi_column) = (Some(1), Some(2), Some(3));
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for m in order(e).into_iter().map(|i| &e.on[i]) {
        let (Some(ratio), Some([lo, hi])) = (m.ratio, m.ci95) else { continue };
        let (words, class) = look(m, false);
        let at = panel.lines.len();
        panel.lines.push(Line { name: m.node.clone(), says: words.into(), across: e.ratio.into_iter().collect() });
        panel.series(words, if class == "unsure" { "open" } else { class }).mark(rows.len(), at);
        rows.push(vec![json!(m.node), json!(ratio), json!(lo), json!(hi), json!(words)]);
    }
    let at = situation(&e.at);
    let at = if at.is_empty() { at } else { format!(", {at}") };
    let head = Head {
        id: "by-machine",
        title: &format!("Machine by machine: {}, {} against {}{at}", e.metric, e.b, e.a),
        reads: "Each machine's ratio with its 95 % interval. The vertical bar is the mean over all machines.",
        is_of_time: false,
    };
    let place = if rows.len() > OPEN { Place::Folded } else { Place::Open };
    Figure::plain(head, place, &columns, rows, vec![panel])
}
