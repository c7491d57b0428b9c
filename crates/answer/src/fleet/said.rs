//! A fleet's result in words, for terminals and HTML pages.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::facts::{only_on, words};
use crate::compare::Metric;
use crate::summary::of_figure;
use crate::unit::Unit;
use crate::verdicts::factor;
use iotrail_base::grouped::grouped;
use iotrail_base::words::{list, plural};
use iotrail_schema::comparison::Verdict;
use iotrail_schema::fleet_answer::{Factor, FleetEffect, FleetMachine, OnMachine, Stands};
use iotrail_schema::fleet_record::{FleetRecord, NodeState};
use iotrail_schema::run_record::value_text;

/// Maximum number of machines named in a text.
const NAMED: usize = 4;

/// `c3, c7 and c9`; if there are many, the first ones and the number of others.
pub fn nodes<T: AsRef<str>>(of: &[T]) -> String {
    let mut named: Vec<String> = of.iter().take(NAMED).map(|n| n.as_ref().to_owned()).collect();
    named.extend((of.len() > NAMED).then(|| format!("{} more", of.len() - NAMED)));
    list(&named)
}

/// `depth 16 · wait peek`.
pub fn situation(at: &Map<String, Value>) -> String {
    at.iter().map(|(name, value)| format!("{name} {}", value_text(value))).collect::<Vec<_>>().join(" · ")
}

/// The parameters that distinguish a fleet's effects: those with several values, and the arm if there are several.
pub struct Names(BTreeSet<String>);

/// Placeholder for the arm among the parameters.
const ARM: &str = "";

impl Names {
    pub fn new(effects: &[FleetEffect]) -> Self {
        let mut values: BTreeSet<(&str, String)> = BTreeSet::new();
        for e in effects {
            values.extend(e.at.iter().map(|(name, value)| (name.as_str(), value_text(value))));
            values.insert((ARM, e.b.clone()));
        }
        let several = |name: &str| values.iter().filter(|(n, _)| *n == name).count() > 1;
        Names(values.iter().map(|(name, _)| *name).filter(|name| several(name)).map(str::to_owned).collect())
    }

    /// `depth 16 · wait peek`; the arm if nothing else differs.
    pub fn of(&self, e: &FleetEffect) -> String {
        let arm = self.0.contains(ARM).then(|| e.b.clone());
        let params = e.at.iter().filter(|(name, _)| self.0.contains(name.as_str()));
        let params = params.map(|(name, value)| format!("{name} {}", value_text(value)));
        let all: Vec<String> = arm.into_iter().chain(params).collect();
        if all.is_empty() { e.b.clone() } else { all.join(" · ") }
    }
}

/// `12 % more IOPS (95 % CI 8–16 %)`.
pub fn figure(metric: &str, unit: Unit, ratio: f64, ci95: [f64; 2]) -> String {
    match metric.parse::<Metric>() {
        Ok(metric) => of_figure(metric, unit, ratio, ci95),
        Err(_) => format!("×{ratio:.3} of {metric}"),
    }
}

pub fn answer(
    fleet: &FleetRecord,
    machines: &[FleetMachine],
    factors: &[Factor],
    effects: &[FleetEffect],
    unit: Unit,
) -> String {
    match machines {
        [] => return format!("{}: none of {} completed a measurement", fleet.experiment, so_many(fleet.nodes.len())),
        [one] => {
            return format!(
                "{}: of {} only {} completed a measurement: `iotrail report {}` has its answer",
                fleet.experiment,
                so_many(fleet.nodes.len()),
                one.node,
                one.run
            );
        }
        _ => {}
    }
    let Some(e) = leading(effects) else {
        return format!(
            "{}: {} completed measurements, and none can be compared",
            fleet.experiment,
            so_many(machines.len())
        );
    };
    let at = match effects.iter().filter(|o| o.metric == e.metric && o.b == e.b).count() {
        0 | 1 => String::new(),
        _ => format!(" at {}", situation(&e.at)),
    };
    let sides = format!("{} against {}", e.b, e.a);
    let on = so_many(e.machines);
    match (e.ratio, e.ci95) {
        (Some(ratio), Some(ci95)) if matches!(e.verdict, Verdict::Faster | Verdict::Slower) => {
            format!("{sides}: {} on average of {on}{at}; {}", figure(&e.metric, unit, ratio, ci95), stands(e, factors))
        }
        (Some(_), _) if e.verdict == Verdict::Equivalent => {
            let within = factor(within(e));
            format!("{sides}: {} equivalent within {within} on average of {on}{at}; {}", e.metric, stands(e, factors))
        }
        _ if e.machines == 0 => {
            format!("{sides}: {} inconclusive{at}: too few blocks on each of {}", e.metric, so_many(machines.len()))
        }
        _ => format!("{sides}: no common answer for {on} in {}{at}: {}", e.metric, stands(e, factors)),
    }
}

/// Largest distance of the mean from 1 that the interval allows.
fn within(e: &FleetEffect) -> f64 {
    e.ci95.map_or(0.0, |[lo, hi]| hi.max(1.0 / lo) - 1.0)
}

fn so_many(machines: usize) -> String {
    plural(machines, "machine")
}

/// The strongest significant effect of the first metric that has one; otherwise the effect with the largest spread
/// between machines; otherwise the first.
pub fn leading(effects: &[FleetEffect]) -> Option<&FleetEffect> {
    let size = |e: &&FleetEffect| e.ratio.map_or(0.0, |r| r.ln().abs());
    let first = |is: &dyn Fn(&FleetEffect) -> bool| {
        let metric = effects.iter().find(|e| is(e))?.metric.as_str();
        let all = effects.iter().filter(|e| e.metric == metric && is(e));
        all.max_by(|a, b| size(a).total_cmp(&size(b)))
    };
    first(&|e| matches!(e.verdict, Verdict::Faster | Verdict::Slower))
        .or_else(|| first(&|e| e.on.iter().any(|m| matches!(m.stands, Stands::TurnsAround | Stands::Differs))))
        .or(effects.first())
}

/// `holds on 11 of 12; changes sign on c7: there the drive has a vector per CPU`.
fn stands(e: &FleetEffect, factors: &[Factor]) -> String {
    let of =
        |stands: Stands| -> Vec<&str> { e.on.iter().filter(|m| m.stands == stands).map(|m| m.node.as_str()).collect() };
    let claim = match (e.claim == e.verdict, e.claim) {
        (_, Verdict::Inconclusive | Verdict::NotComparable) => format!("none of {} shows a difference", e.asked),
        (true, _) => format!("holds on {} of {}", e.holds, e.asked),
        (false, claim) => format!("{} on {} of {}", claim.words(), e.holds, e.asked),
    };
    let holding = of(Stands::Holds);
    let there =
        |nodes: &[&str]| words(&only_on(factors, nodes, &holding)).map(|w| format!(": there {w}")).unwrap_or_default();
    let mut parts = vec![claim];
    for (stands, said) in [(Stands::TurnsAround, "changes sign on"), (Stands::Equivalent, "no difference on")] {
        let found = of(stands);
        parts.extend((!found.is_empty()).then(|| format!("{said} {}{}", nodes(&found), there(&found))));
    }
    for (verdict, said) in [(Verdict::Faster, "better on"), (Verdict::Slower, "worse on")] {
        let differs = |m: &&OnMachine| m.stands == Stands::Differs && m.verdict == verdict;
        let found: Vec<&str> = e.on.iter().filter(differs).map(|m| m.node.as_str()).collect();
        parts.extend((!found.is_empty()).then(|| format!("{said} {}{}", nodes(&found), there(&found))));
    }
    if e.claim != Verdict::Inconclusive {
        let open = of(Stands::Inconclusive).len();
        parts.extend((open > 0).then(|| format!("inconclusive on {open}")));
    }
    parts.join("; ")
}

/// Machines without a run, or whose run has no measurement.
pub fn brought_nothing(fleet: &FleetRecord, nothing: &[&FleetMachine]) -> Vec<String> {
    let without = fleet.nodes.iter().filter(|n| n.run.is_none() || nothing.iter().any(|m| m.node == n.node));
    let what = |state: NodeState| match state {
        NodeState::Done | NodeState::Partial => "without a measurement",
        state => state.words(),
    };
    let by_state = grouped(without.map(|n| (what(n.state), n)));
    let line = |(state, all): (&str, Vec<&iotrail_schema::fleet_record::FleetNode>)| {
        let names: Vec<&str> = all.iter().map(|n| n.node.as_str()).collect();
        let said = all.iter().find_map(|n| n.said.clone());
        let said = match (said, all.len()) {
            (None, _) => String::new(),
            (Some(said), 1) => format!(": {said}"),
            (Some(said), _) => format!("; the first reported: {said}"),
        };
        format!("{} of {} {state}: {}{said}", all.len(), so_many(fleet.nodes.len()), nodes(&names))
    };
    by_state.into_iter().map(line).collect()
}

pub fn cannot_test(machines: &[FleetMachine]) -> Option<String> {
    let measured = || machines.iter().filter(|m| m.measurements > 0 && !m.cannot_test.is_empty());
    let names: Vec<&str> = measured().map(|m| m.node.as_str()).collect();
    let first = measured().flat_map(|m| &m.cannot_test).next()?;
    let cells: usize = measured().map(|m| m.cannot_test.len()).sum();
    Some(format!("{} not testable on {}: {}", plural(cells, "cell"), nodes(&names), first.reason))
}

pub fn partial(machines: &[FleetMachine]) -> Option<String> {
    let all: Vec<&FleetMachine> =
        machines.iter().filter(|m| m.measurements > 0 && m.measurements < m.planned).collect();
    let names: Vec<&str> = all.iter().map(|m| m.node.as_str()).collect();
    let first = all.first()?;
    let how = match all.len() {
        1 => format!("{} of {} measurements", first.measurements, first.planned),
        _ => format!("{} of {} on the first", first.measurements, first.planned),
    };
    Some(format!("partial on {}: {how}", nodes(&names)))
}
