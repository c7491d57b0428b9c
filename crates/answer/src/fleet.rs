//! One experiment on several machines: results that hold on all of them, the spread between machines, machines with
//! opposite results, outliers, and their differing facts.
//!
//! A machine's effect is its own ratio of two arms, from its own pairs, with its own interval. A random-effects summary
//! combines the machines (`stats::machines`; docs/method.md).

mod facts;
mod said;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::facts::only_on;
use crate::compare::Metric;
use crate::unit::Unit;
use iotrail_base::distinct::distinct;
use iotrail_schema::comparison::{Comparison, EQUIVALENT_WITHIN, Verdict};
use iotrail_schema::fleet_answer::{
    Apart, CannotTest, Factor, FleetAnswer, FleetEffect, FleetMachine, GoesWith, OnMachine, SCHEMA, Stands,
};
use iotrail_schema::fleet_record::FleetRecord;
use iotrail_schema::run_record::{ARM, CONTROL, CellRecord, RunRecord};
use iotrail_stats::holm;
use iotrail_stats::machines::{Across, Machine, across, groups};

pub use self::said::{Names, figure, leading, nodes, situation};

/// Significance level.
const CHANCE: f64 = 0.05;

/// One machine's contribution.
#[derive(Debug, Clone)]
pub struct Brought {
    machine: FleetMachine,
    comparisons: Vec<Comparison>,
    unit: Option<Unit>,
    within: Option<f64>,
    quick: bool,
}

impl Brought {
    /// Built from a run with its comparisons; a run without measurements contributes only untestable cells.
    pub fn new(node: &str, run: &RunRecord) -> Self {
        let first = run.first();
        Brought {
            machine: FleetMachine {
                node: node.into(),
                run: run.run,
                measurements: run.done(),
                planned: run.planned(),
                facts: first.map(facts::of).unwrap_or_default(),
                cannot_test: run.cells.iter().filter_map(cannot_test).collect(),
            },
            comparisons: run.comparisons.clone(),
            unit: first.map(Unit::of),
            within: run.equivalent_within,
            quick: run.quick,
        }
    }

    /// For a comparison of two runs: adds the cells of `now` that the machine could not test in the earlier run `name`.
    pub fn against(mut self, now: &RunRecord, earlier: &RunRecord, name: &str) -> Self {
        let is_here = |cell: &&CellRecord| now.cells.iter().any(|c| c.params == cell.params);
        let unmeasured = earlier.cells.iter().filter(|cell| cell.measurements.is_empty()).filter(is_here);
        for other in unmeasured.filter_map(cannot_test) {
            let all = &mut self.machine.cannot_test;
            if all.iter().all(|one| one.at != other.at) {
                all.push(CannotTest { reason: format!("in {name}: {}", other.reason), ..other });
            }
        }
        self
    }
}

fn cannot_test(cell: &CellRecord) -> Option<CannotTest> {
    let reason = cell.untestable.clone().filter(|_| cell.arm() != CONTROL)?;
    Some(CannotTest { at: cell.params.clone(), reason })
}

/// The machines collected so far.
#[derive(Debug, Default)]
pub struct Gathered {
    machines: Vec<FleetMachine>,
    comparisons: Vec<Vec<Comparison>>,
    unit: Option<Unit>,
    within: Option<f64>,
    /// Number of machines that ran the quick form.
    quick: usize,
}

/// The identity of an effect.
#[derive(Debug, Clone, PartialEq)]
struct Key {
    metric: Metric,
    at: Map<String, Value>,
    a: String,
    b: String,
}

impl Key {
    fn of(c: &Comparison) -> Option<Self> {
        Some(Key { metric: c.metric.parse().ok()?, at: c.at.clone(), a: c.a.clone(), b: c.b.clone() })
    }
}

impl Gathered {
    /// Adds a machine; call in the fleet's order.
    pub fn add(&mut self, one: Brought) {
        self.machines.push(one.machine);
        self.comparisons.push(one.comparisons);
        self.unit = self.unit.or(one.unit);
        self.within = self.within.or(one.within);
        self.quick += usize::from(one.quick);
    }

    /// The unit that the load counts.
    pub fn unit(&self) -> Unit {
        self.unit.unwrap_or(Unit::Io)
    }

    pub fn answer(&self, fleet: FleetRecord) -> FleetAnswer {
        let (measured, nothing): (Vec<&FleetMachine>, _) = self.machines.iter().partition(|m| m.measurements > 0);
        let factors = facts::factors(&measured.into_iter().cloned().collect::<Vec<_>>());
        let effects = self.effects(&factors);
        let unit = self.unit();
        let mut notes = said::brought_nothing(&fleet, &nothing);
        notes.extend(said::cannot_test(&self.machines));
        notes.extend(said::partial(&self.machines));
        if self.quick > 0 && self.quick < self.machines.len() {
            notes.push(format!("{} of {} machines ran the quick form", self.quick, self.machines.len()));
        }
        let machines: Vec<FleetMachine> = self.machines.iter().filter(|m| m.measurements > 0).cloned().collect();
        let answer = said::answer(&fleet, &machines, &factors, &effects, unit);
        FleetAnswer { schema: SCHEMA.into(), answer, fleet, against: None, machines, factors, effects, notes }
    }

    fn effects(&self, factors: &[Factor]) -> Vec<FleetEffect> {
        let keys = distinct(self.comparisons.iter().flatten().filter_map(Key::of));
        // In the order of the first machine, by metric; effects seen only on other machines follow their metric.
        let metrics = distinct(keys.iter().map(|key| key.metric));
        let of = |metric: &Metric| {
            let keys: Vec<&Key> = keys.iter().filter(|k| k.metric == *metric).collect();
            self.of_metric(&keys, factors)
        };
        metrics.iter().flat_map(of).collect()
    }

    /// All effects of one metric share their false-positive rate.
    fn of_metric(&self, keys: &[&Key], factors: &[Factor]) -> Vec<FleetEffect> {
        let mut all: Vec<Part<'_>> = keys.iter().map(|key| self.part(key)).collect();
        let turned = holm::adjusted(&all.iter().flat_map(|p| p.told().filter_map(|c| c.p)).collect::<Vec<_>>());
        let mut turned = turned.into_iter();
        for part in &mut all {
            part.own_p = part.on.iter().map(|c| c.and_then(|c| c.p).and_then(|_| turned.next())).collect();
        }
        let mut means = adjusted(&all, |p| p.across.iter().map(|a| a.p).collect());
        let mut unlike = adjusted(&all, |p| p.across.iter().flat_map(|a| a.unlike.clone()).collect());
        let mut made: Vec<FleetEffect> = all
            .iter()
            .map(|part| {
                let p_adjusted = part.across.as_ref().and_then(|_| means.next());
                let unlike: Vec<f64> =
                    part.counted.iter().filter(|_| part.across.is_some()).map_while(|_| unlike.next()).collect();
                self.effect(part, p_adjusted, &unlike, factors)
            })
            .collect();
        goes_with(&all, &mut made, &self.machines, factors);
        made
    }

    fn part<'a>(&'a self, key: &Key) -> Part<'a> {
        let is_it = |c: &&Comparison| c.metric == key.metric.name() && c.b == key.b && c.a == key.a && c.at == key.at;
        let of = |all: &'a Vec<Comparison>| all.iter().find(is_it);
        let on: Vec<Option<&Comparison>> = self.comparisons.iter().map(of).collect();
        let machine = |(i, c): (usize, &Option<&Comparison>)| {
            // No run's interval covers the difference between two runs of a machine; it shows as heterogeneity between
            // machines.
            let c = c.filter(|c| c.p.is_some() || !c.paired)?;
            // Sides measured separately each have their own mean.
            let pairs = if c.paired { c.pairs } else { (2 * c.pairs).saturating_sub(1) };
            Some((i, Machine::of_ratio(c.ratio?, c.ci95?, pairs)?))
        };
        let counted: Vec<(usize, Machine)> = on.iter().enumerate().filter_map(machine).collect();
        let across = across(&counted.iter().map(|(_, m)| *m).collect::<Vec<_>>());
        Part { key: key.clone(), on, own_p: Vec::new(), counted, across }
    }

    fn effect(&self, part: &Part<'_>, p_adjusted: Option<f64>, unlike: &[f64], factors: &[Factor]) -> FleetEffect {
        let within = self.within.unwrap_or(EQUIVALENT_WITHIN);
        let verdict = part.verdict(p_adjusted, within);
        let claim = if verdict == Verdict::Inconclusive { part.most() } else { verdict };
        let on: Vec<OnMachine> = (0..self.machines.len()).map(|i| self.on_machine(part, i, claim)).collect();
        let is_asked =
            |m: &&OnMachine| !matches!(m.stands, Stands::NotComparable | Stands::CannotTest | Stands::Missing);
        let across = part.across.as_ref();
        let pair = |(lo, hi): (f64, f64)| [lo.exp(), hi.exp()];
        FleetEffect {
            metric: part.key.metric.name().into(),
            at: part.key.at.clone(),
            a: part.key.a.clone(),
            b: part.key.b.clone(),
            machines: part.counted.len(),
            ratio: across.map(|a| a.mean.exp()),
            ci95: across.map(|a| pair(a.interval)),
            p: across.map(|a| a.p),
            p_adjusted,
            spread: across.map(|a| a.spread.exp_m1()),
            spread_ci95: across.map(|a| [a.spread_interval.0.exp_m1(), a.spread_interval.1.exp_m1()]),
            another_ci95: across.and_then(|a| a.another).map(pair),
            verdict,
            claim,
            holds: on.iter().filter(|m| m.stands == Stands::Holds).count(),
            asked: on.iter().filter(is_asked).count(),
            on,
            apart: self.apart(part, unlike, factors),
            goes_with: Vec::new(),
        }
    }

    fn on_machine(&self, part: &Part<'_>, i: usize, claim: Verdict) -> OnMachine {
        let machine = &self.machines[i];
        let Some(c) = part.on[i] else {
            let is_of = |t: &&CannotTest| {
                let arm = t.at.get(ARM).and_then(Value::as_str).unwrap_or_default();
                let at: Map<String, Value> =
                    t.at.iter().filter(|(n, _)| *n != ARM).map(|(n, v)| (n.clone(), v.clone())).collect();
                // When fleets are compared, the arm is part of the situation.
                t.at == part.key.at || ((arm == part.key.a || arm == part.key.b) && at == part.key.at)
            };
            let reason = machine.cannot_test.iter().find(is_of).map(|t| t.reason.clone());
            return OnMachine {
                node: machine.node.clone(),
                ratio: None,
                ci95: None,
                verdict: Verdict::Inconclusive,
                stands: if reason.is_some() { Stands::CannotTest } else { Stands::Missing },
                reason,
            };
        };
        let is_sure = part.own_p[i].is_some_and(|p| p < CHANCE);
        let (stands, reason) = match (claim, c.verdict) {
            (_, Verdict::NotComparable) => (Stands::NotComparable, c.reasons.first().cloned()),
            (claim, Verdict::Inconclusive) if !c.paired && c.ci95.is_some() => {
                let is_so = lies(c, part.key.metric) == claim;
                (if is_so { Stands::Holds } else { Stands::Inconclusive }, c.reasons.last().cloned())
            }
            (_, Verdict::Inconclusive) => (Stands::Inconclusive, None),
            (claim, own) if claim == own => (Stands::Holds, None),
            (Verdict::Faster | Verdict::Slower, Verdict::Equivalent) => (Stands::Equivalent, None),
            (Verdict::Faster | Verdict::Slower, _) if is_sure => (Stands::TurnsAround, None),
            (Verdict::Faster | Verdict::Slower, _) => {
                let reason = "the opposite direction in its own run; among this many machines and situations, one such result may be chance";
                (Stands::Inconclusive, Some(reason.to_owned()))
            }
            (_, _) => (Stands::Differs, None),
        };
        OnMachine { node: machine.node.clone(), ratio: c.ratio, ci95: c.ci95, verdict: c.verdict, stands, reason }
    }

    fn apart(&self, part: &Part<'_>, unlike: &[f64], factors: &[Factor]) -> Vec<Apart> {
        let Some(across) = &part.across else { return Vec::new() };
        let far = |m: &Machine| (m.effect - across.mean).abs();
        let mut found: Vec<usize> = (0..unlike.len()).filter(|i| unlike[*i] < CHANCE).collect();
        found.sort_by(|a, b| far(&part.counted[*b].1).total_cmp(&far(&part.counted[*a].1)));
        let name = |i: usize| self.machines[part.counted[i].0].node.as_str();
        let others: Vec<&str> = (0..unlike.len()).filter(|i| unlike[*i] >= CHANCE).map(name).collect();
        let one = |i: &usize| Apart {
            node: name(*i).into(),
            ratio: part.counted[*i].1.effect.exp(),
            p: across.unlike[*i],
            p_adjusted: unlike[*i],
            with: only_on(factors, &[name(*i)], &others),
        };
        found.iter().map(one).collect()
    }
}

/// One effect, machine by machine.
struct Part<'a> {
    key: Key,
    /// One entry per machine; `None` if it has no such effect.
    on: Vec<Option<&'a Comparison>>,
    /// Adjusted p-value of each machine's difference, over all machines and situations.
    own_p: Vec<Option<f64>>,
    /// The included machines, with their indices.
    counted: Vec<(usize, Machine)>,
    across: Option<Across>,
}

impl Part<'_> {
    fn told(&self) -> impl Iterator<Item = &Comparison> {
        self.on.iter().filter_map(|c| *c).filter(|c| c.p.is_some())
    }

    fn verdict(&self, p_adjusted: Option<f64>, within: f64) -> Verdict {
        let Some(across) = &self.across else { return Verdict::Inconclusive };
        let reach = within.ln_1p();
        match () {
            () if across.interval.0 >= -reach && across.interval.1 <= reach => Verdict::Equivalent,
            () if p_adjusted.is_some_and(|p| p < CHANCE) => {
                match (across.mean > 0.0) == self.key.metric.higher_is_better() {
                    true => Verdict::Faster,
                    false => Verdict::Slower,
                }
            }
            () => Verdict::Inconclusive,
        }
    }

    /// The most frequent verdict among machines with a verdict.
    fn most(&self) -> Verdict {
        let count = |v: &Verdict| self.on.iter().flatten().filter(|c| c.verdict == *v).count();
        let all = [Verdict::Equivalent, Verdict::Slower, Verdict::Faster];
        all.into_iter().filter(|v| count(v) > 0).max_by_key(count).unwrap_or(Verdict::Inconclusive)
    }
}

/// Direction of a ratio, regardless of significance.
fn lies(c: &Comparison, metric: Metric) -> Verdict {
    let within = 1.0 + c.equivalent_within;
    match c.ratio {
        Some(ratio) if ratio <= within && ratio >= 1.0 / within => Verdict::Equivalent,
        Some(ratio) if (ratio > 1.0) == metric.higher_is_better() => Verdict::Faster,
        Some(_) => Verdict::Slower,
        None => Verdict::Inconclusive,
    }
}

/// Adjusts the p-values of all effects of one kind together; keeps their order.
fn adjusted(all: &[Part<'_>], of: impl Fn(&Part<'_>) -> Vec<f64>) -> std::vec::IntoIter<f64> {
    holm::adjusted(&all.iter().flat_map(of).collect::<Vec<_>>()).into_iter()
}

/// Adds the facts that coincide with each effect.
fn goes_with(all: &[Part<'_>], effects: &mut [FleetEffect], machines: &[FleetMachine], factors: &[Factor]) {
    let mut found: Vec<(usize, GoesWith)> = Vec::new();
    for (at, part) in all.iter().enumerate() {
        let node = |(i, _): &(usize, Machine)| machines[*i].node.as_str();
        // An outlier has a line of its own, and would hide the differences between the other machines.
        let is_apart = |m: &&(usize, Machine)| effects[at].apart.iter().any(|a| a.node == node(m));
        let alike: Vec<(usize, Machine)> = part.counted.iter().filter(|m| !is_apart(m)).copied().collect();
        let counted: Vec<Machine> = alike.iter().map(|(_, m)| *m).collect();
        let mut seen: Vec<(Vec<bool>, usize)> = Vec::new();
        for (factor, value) in factors.iter().flat_map(|f| f.values.iter().map(move |v| (f, v))) {
            let has: Vec<bool> = alike.iter().map(|m| value.nodes.iter().any(|n| n == node(m))).collect();
            let with = format!("{} {}", factor.name, value.is);
            if let Some((_, i)) = seen.iter().find(|(is, _)| *is == has) {
                found[*i].1.with.push(with);
                continue;
            }
            // The complementary group carries the same information.
            let others: Vec<bool> = has.iter().map(|h| !h).collect();
            if seen.iter().any(|(is, _)| *is == others) {
                continue;
            }
            let Some(g) = groups(&counted, &has) else { continue };
            seen.push((has, found.len()));
            found.push((
                at,
                GoesWith {
                    with: vec![with],
                    nodes: value.nodes.clone(),
                    ratios: g.means.map(f64::exp),
                    ci95: g.intervals.map(|(lo, hi)| [lo.exp(), hi.exp()]),
                    p: g.p,
                    p_adjusted: 1.0,
                },
            ));
        }
    }
    let p: Vec<f64> = found.iter().map(|(_, g)| g.p).collect();
    for ((at, mut g), p_adjusted) in found.into_iter().zip(holm::adjusted(&p)) {
        g.p_adjusted = p_adjusted;
        if p_adjusted < CHANCE {
            effects[at].goes_with.push(g);
        }
    }
    effects.iter_mut().for_each(|e| e.goes_with.sort_by(|a, b| a.p.total_cmp(&b.p)));
}
