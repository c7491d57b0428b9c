//! What the machines of a fleet say together: these types *are* the JSON schema `iotrail.fleet_answer/1` (`docs/formats.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::comparison::Verdict;
use crate::fleet_record::FleetRecord;

pub const SCHEMA: &str = "iotrail.fleet_answer/1";

/// The answer of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetAnswer {
    /// `iotrail.fleet_answer/1`.
    pub schema: String,
    /// One sentence with its number.
    pub answer: String,
    /// The fleet as it is stored.
    pub fleet: FleetRecord,
    /// The base fleet of `compare f3 f5`; null: the arms of one fleet are compared.
    #[serde(default)]
    pub against: Option<FleetRecord>,
    /// Machines that measured something, in the fleet's order.
    pub machines: Vec<FleetMachine>,
    /// Facts in which these differ.
    pub factors: Vec<Factor>,
    /// Every arm against the first, or every cell against the base fleet's: over all machines.
    pub effects: Vec<FleetEffect>,
    /// What limits the answer.
    pub notes: Vec<String>,
}

/// A machine that measured something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetMachine {
    /// What it is called in the fleet.
    pub node: String,
    /// Its run, in the same store.
    pub run: i64,
    /// Measurements that it made.
    pub measurements: usize,
    /// Measurements that it could make.
    pub planned: usize,
    /// What was recorded of it with its first measurement.
    pub facts: Vec<Fact>,
    /// Cells that it cannot test, or could not in the run that it is compared with.
    pub cannot_test: Vec<CannotTest>,
}

/// Something that was recorded of a machine.
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
    /// The cell's parameters, its arm among them.
    pub at: Map<String, Value>,
    /// What it lacks.
    pub reason: String,
}

/// A fact that is not the same on all machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Its name, as in `facts`.
    pub name: String,
    /// Its values, the most frequent first.
    pub values: Vec<FactorValue>,
}

/// A value of a fact, and where it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorValue {
    /// The value.
    pub is: String,
    /// Machines that have it.
    pub nodes: Vec<String>,
}

/// One side against another in one situation on one metric, over all machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetEffect {
    /// The metric.
    pub metric: String,
    /// The situation: the parameters that both sides share.
    pub at: Map<String, Value>,
    /// The first arm; of two fleets, the base one.
    pub a: String,
    /// The arm, or the fleet, that is compared with it.
    pub b: String,
    /// Machines whose ratio and interval count in what follows.
    pub machines: usize,
    /// Mean of the machines' ratios, on logarithms; null of fewer than two machines.
    pub ratio: Option<f64>,
    /// 95 % interval of the mean.
    pub ci95: Option<[f64; 2]>,
    /// How often a mean of 1 would seem as far off; null of fewer than two machines.
    pub p: Option<f64>,
    /// `p` with all effects of the metric in mind (Holm's): the verdict is by it.
    pub p_adjusted: Option<f64>,
    /// How far machines differ: standard deviation of their true ratios, as a factor less 1.
    pub spread: Option<f64>,
    /// 95 % interval of `spread`.
    pub spread_ci95: Option<[f64; 2]>,
    /// Where the ratio of another such machine lies, in 95 of 100; null of fewer than three machines.
    pub another_ci95: Option<[f64; 2]>,
    /// Of the mean, in the metric's good direction.
    pub verdict: Verdict,
    /// What `holds` counts: `verdict`, or where that is inconclusive what most machines say by themselves.
    pub claim: Verdict,
    /// Machines of which the claim is true by themselves.
    pub holds: usize,
    /// Machines that have a verdict of their own, or could have had one with more repeats.
    pub asked: usize,
    /// Each machine, in the fleet's order.
    pub on: Vec<OnMachine>,
    /// Machines that are unlike the others, the farthest off first.
    pub apart: Vec<Apart>,
    /// Facts that go with a larger or smaller effect, the surest first.
    pub goes_with: Vec<GoesWith>,
}

/// An effect on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OnMachine {
    /// The machine.
    pub node: String,
    /// Its own ratio; null: there is none.
    pub ratio: Option<f64>,
    /// Its own 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// Its own verdict, with all comparisons of its run in mind.
    pub verdict: Verdict,
    /// How it stands to the claim.
    pub stands: Stands,
    /// Why it says nothing; null where it does.
    pub reason: Option<String>,
}

/// How a machine stands to what is claimed of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stands {
    /// It is so here by itself; of two fleets, its ratio lies that way.
    Holds,
    /// The other way, with all machines and situations in mind (Holm's).
    TurnsAround,
    /// There is a difference here, and the claim is that there is none.
    Differs,
    /// No difference that matters here, and the claim is that there is one.
    Equivalent,
    /// Its own interval is too wide to call.
    Inconclusive,
    /// Its two sides measured different things.
    NotComparable,
    /// It cannot test one of the two arms here.
    CannotTest,
    /// It measured nothing here.
    Missing,
}

/// A machine that is unlike the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Apart {
    /// The machine.
    pub node: String,
    /// Its own ratio.
    pub ratio: f64,
    /// How often a machine like the others would be as far off.
    pub p: f64,
    /// `p` with all machines and situations of the metric in mind (Holm's).
    pub p_adjusted: f64,
    /// Facts that no machine has which is not apart: `kernel 6.1.0`.
    pub with: Vec<String>,
}

/// A fact that goes with a larger or smaller effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoesWith {
    /// The fact, or several that the same machines have: `kernel 6.1.0`.
    pub with: Vec<String>,
    /// Machines that have it.
    pub nodes: Vec<String>,
    /// Mean ratio of these, and of the others.
    pub ratios: [f64; 2],
    /// Their 95 % intervals.
    pub ci95: [[f64; 2]; 2],
    /// How often groups of one mean would seem as far apart.
    pub p: f64,
    /// `p` with all facts and situations of the metric in mind (Holm's).
    pub p_adjusted: f64,
}
