//! The joint result of the machines of a fleet. These types *are* the JSON schema `iotrail.fleet_answer/1`
//! (`docs/formats.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::comparison::Verdict;
use crate::fleet_record::FleetRecord;

pub const SCHEMA: &str = "iotrail.fleet_answer/1";

/// The result of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetAnswer {
    /// `iotrail.fleet_answer/1`.
    pub schema: String,
    /// The answer in one sentence, with its number.
    pub answer: String,
    /// The stored fleet.
    pub fleet: FleetRecord,
    /// The base fleet of `compare f3 f5`; null: arms of one fleet are compared.
    #[serde(default)]
    pub against: Option<FleetRecord>,
    /// Machines with at least one measurement, in the fleet's order.
    pub machines: Vec<FleetMachine>,
    /// Facts that differ between these machines.
    pub factors: Vec<Factor>,
    /// Every arm against the first, or every cell against the base fleet's cell, over all machines.
    pub effects: Vec<FleetEffect>,
    /// Limits of the result.
    pub notes: Vec<String>,
}

/// A machine with at least one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetMachine {
    /// Its name in the fleet.
    pub node: String,
    /// Its run, in the same store.
    pub run: i64,
    /// Number of its measurements.
    pub measurements: usize,
    /// Number of measurements that it could make.
    pub planned: usize,
    /// Facts recorded with its first measurement.
    pub facts: Vec<Fact>,
    /// Cells that the machine cannot test, or could not test in the base run.
    pub cannot_test: Vec<CannotTest>,
}

/// One recorded fact of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Its name.
    pub name: String,
    /// Its value, in words.
    pub is: String,
}

/// A cell that a machine cannot test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CannotTest {
    /// Parameters of the cell, including its arm.
    pub at: Map<String, Value>,
    /// The missing capability.
    pub reason: String,
}

/// A fact that differs between machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Its name, as in `facts`.
    pub name: String,
    /// Its values, most frequent first.
    pub values: Vec<FactorValue>,
}

/// A value of a fact, and the machines with that value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorValue {
    /// The value.
    pub is: String,
    /// Machines with this value.
    pub nodes: Vec<String>,
}

/// One side compared with another in one situation on one metric, over all machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetEffect {
    /// The metric.
    pub metric: String,
    /// The situation: the parameters that both sides share.
    pub at: Map<String, Value>,
    /// The first arm; when two fleets are compared: the base fleet.
    pub a: String,
    /// The arm or fleet that is compared with `a`.
    pub b: String,
    /// Machines whose ratio and interval count below.
    pub machines: usize,
    /// Geometric mean of the machines' ratios; null: fewer than two machines.
    pub ratio: Option<f64>,
    /// 95 % interval of the mean.
    pub ci95: Option<[f64; 2]>,
    /// Probability of a mean this far from 1 if the true mean is 1; null: fewer than two machines.
    pub p: Option<f64>,
    /// `p` adjusted for all effects of the metric (Holm); the verdict uses it.
    pub p_adjusted: Option<f64>,
    /// Spread between machines: standard deviation of their true ratios, as a factor minus 1.
    pub spread: Option<f64>,
    /// 95 % interval of `spread`.
    pub spread_ci95: Option<[f64; 2]>,
    /// 95 % prediction interval for the ratio of another machine; null: fewer than three machines.
    pub another_ci95: Option<[f64; 2]>,
    /// Verdict on the mean, in the metric's good direction.
    pub verdict: Verdict,
    /// Claim that `holds` counts: `verdict`, or if it is inconclusive, the machines' most frequent verdict.
    pub claim: Verdict,
    /// Machines on which the claim is true by their own measurements.
    pub holds: usize,
    /// Machines that have their own verdict, or would have with more repeats.
    pub asked: usize,
    /// Each machine, in the fleet's order.
    pub on: Vec<OnMachine>,
    /// Outlier machines, farthest first.
    pub apart: Vec<Apart>,
    /// Facts that are associated with a larger or smaller effect, most certain first.
    pub goes_with: Vec<GoesWith>,
}

/// An effect on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OnMachine {
    /// The machine.
    pub node: String,
    /// Its own ratio; null: it has none.
    pub ratio: Option<f64>,
    /// Its own 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// Its own verdict, adjusted for all comparisons of its run.
    pub verdict: Verdict,
    /// Its relation to the claim.
    pub stands: Stands,
    /// Why the machine has no verdict; null: it has one.
    pub reason: Option<String>,
}

/// Relation of a machine to the claim about all machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stands {
    /// The claim is true here by its own measurements; for two fleets: its ratio has the same direction.
    Holds,
    /// The opposite direction, adjusted for all machines and situations (Holm).
    TurnsAround,
    /// The sides differ here, and the claim is that they do not.
    Differs,
    /// The sides do not differ here by a relevant amount, and the claim is that they do.
    Equivalent,
    /// Its own interval is too wide for a verdict.
    Inconclusive,
    /// Its two sides measured different things.
    NotComparable,
    /// It cannot test one of the two arms here.
    CannotTest,
    /// It has no measurement here.
    Missing,
}

/// An outlier machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Apart {
    /// The machine.
    pub node: String,
    /// Its own ratio.
    pub ratio: f64,
    /// Probability that a machine like the others is this far off.
    pub p: f64,
    /// `p` adjusted for all machines and situations of the metric (Holm).
    pub p_adjusted: f64,
    /// Facts that only outlier machines have: `kernel 6.1.0`.
    pub with: Vec<String>,
}

/// A fact that is associated with a larger or smaller effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoesWith {
    /// The fact, or several facts that the same machines have: `kernel 6.1.0`.
    pub with: Vec<String>,
    /// Machines that have it.
    pub nodes: Vec<String>,
    /// Mean ratio of these machines and of the other machines.
    pub ratios: [f64; 2],
    /// Their 95 % intervals.
    pub ci95: [[f64; 2]; 2],
    /// Probability of groups this far apart if their means are equal.
    pub p: f64,
    /// `p` adjusted for all facts and situations of the metric (Holm).
    pub p_adjusted: f64,
}
