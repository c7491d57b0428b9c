//! A published study next to the measurements of this machine. These types *are* the JSON schema `iotrail.reproduction/1`
//! (`docs/formats.md`).

use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "iotrail.reproduction/1";

/// A published study next to the measurements of this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduction {
    /// `iotrail.reproduction/1`.
    pub schema: String,
    /// Name of the study, as `iotrail reproduce` lists it.
    pub study: String,
    /// Title of the publication.
    pub title: String,
    /// Where it was published.
    pub citation: String,
    /// Repository of the published values; null: they are only in the publication.
    pub repository: Option<String>,
    /// Commit of that repository.
    pub commit: Option<String>,
    /// The machine of the study.
    pub machine: String,
    /// The study was run with `--quick`.
    pub quick: bool,
    /// Experiments that were run here for the study.
    pub parts: Vec<StudyPart>,
    /// The published values, each next to the measured one.
    pub lines: Vec<StudyLine>,
    /// Number of lines per outcome.
    pub tally: Tally,
}

/// A part of a study: one experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StudyPart {
    /// Its name, for `--only`.
    pub part: String,
    /// Its subject.
    pub title: String,
    /// Name of the experiment, in `iotrail list`.
    pub experiment: String,
    /// Number of its run in the store; null: it has no run.
    pub run: Option<i64>,
    /// Why it has no run; null: it has one.
    pub reason: Option<String>,
}

/// One published value, and its outcome here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyLine {
    /// The statement of the study.
    pub says: String,
    /// The part that tests it; null: no part can.
    pub part: Option<String>,
    /// File and columns of the published values.
    pub source: String,
    /// The compared quantity: a ratio, a count, a knee, an order. Null: a comparison is not possible.
    pub shape: Option<String>,
    /// The published value as text.
    pub published: String,
    /// The published value: a ratio, a count, the value at the knee. Null for an order.
    pub published_value: Option<f64>,
    /// Values that agree with it; null for an order.
    pub band: Option<Band>,
    /// The measured value as text; null: not measured.
    pub measured: Option<String>,
    /// The measured value.
    pub measured_value: Option<f64>,
    /// Its 95 % interval; null: it has none.
    pub ci95: Option<[f64; 2]>,
    /// Its outcome.
    pub outcome: LineOutcome,
    /// Why it cannot be tested here, or is inconclusive; null otherwise.
    pub reason: Option<String>,
    /// Property of the machine on which the value depends.
    pub depends: Option<String>,
}

/// Values that agree with a published value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all(deserialize = "kebab-case"))]
pub struct Band {
    /// Lower bound; null: no lower bound.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Upper bound; null: no upper bound.
    #[serde(default)]
    pub at_most: Option<f64>,
}

/// Outcome of a published value here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineOutcome {
    /// The interval is within the band.
    Agrees,
    /// The interval is outside the band.
    Disagrees,
    /// The interval includes an edge of the band.
    Inconclusive,
    /// This machine cannot test it.
    CannotBeTested,
}

/// Number of lines per outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Lines that agree.
    pub agree: usize,
    /// Lines that disagree.
    pub disagree: usize,
    /// Lines whose interval is too wide for a verdict.
    pub inconclusive: usize,
    /// Lines that cannot be tested here.
    pub cannot_be_tested: usize,
}

impl LineOutcome {
    /// The name in the JSON, with spaces.
    pub fn words(self) -> &'static str {
        match self {
            LineOutcome::Agrees => "agrees",
            LineOutcome::Disagrees => "disagrees",
            LineOutcome::Inconclusive => "inconclusive",
            LineOutcome::CannotBeTested => "cannot be tested here",
        }
    }
}

impl Band {
    pub fn holds(&self, x: f64) -> bool {
        self.at_least.is_none_or(|lo| x >= lo) && self.at_most.is_none_or(|hi| x <= hi)
    }

    /// The interval is completely on one side of the band.
    pub fn is_apart_from(&self, [lo, hi]: [f64; 2]) -> bool {
        self.at_least.is_some_and(|least| hi < least) || self.at_most.is_some_and(|most| lo > most)
    }
}

impl Tally {
    pub fn of(lines: &[StudyLine]) -> Self {
        let count = |outcome| lines.iter().filter(|l| l.outcome == outcome).count();
        Tally {
            agree: count(LineOutcome::Agrees),
            disagree: count(LineOutcome::Disagrees),
            inconclusive: count(LineOutcome::Inconclusive),
            cannot_be_tested: count(LineOutcome::CannotBeTested),
        }
    }

    pub fn tested(self) -> usize {
        self.agree + self.disagree + self.inconclusive
    }
}
