//! A published study beside what this machine measured: these types *are* the JSON schema `iotrail.reproduction/1` (`docs/formats.md`).

use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "iotrail.reproduction/1";

/// A published study beside what this machine measured.
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
    /// Where the published figures are kept; null: in the publication alone.
    pub repository: Option<String>,
    /// The version that was read.
    pub commit: Option<String>,
    /// What the study measured on.
    pub machine: String,
    /// It was run with `--quick`.
    pub quick: bool,
    /// What was run for it here.
    pub parts: Vec<StudyPart>,
    /// The published figures, each beside what was measured.
    pub lines: Vec<StudyLine>,
    /// How the lines came out.
    pub tally: Tally,
}

/// A part of a study: one experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StudyPart {
    /// Its name, for `--only`.
    pub part: String,
    /// What it measures.
    pub title: String,
    /// Name of the experiment, in `iotrail list`.
    pub experiment: String,
    /// Number of its run in the store; null: there is none.
    pub run: Option<i64>,
    /// Why there is none; null: there is one.
    pub reason: Option<String>,
}

/// One published figure, and what became of it here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyLine {
    /// What the study says.
    pub says: String,
    /// The part that tests it; null: none can.
    pub part: Option<String>,
    /// File and columns of the published figures.
    pub source: String,
    /// What was compared: a ratio, a count, a knee, an order. Null where nothing can be.
    pub shape: Option<String>,
    /// The published figure, in words.
    pub published: String,
    /// The same as a number: a ratio, a count, the value at the knee. Null of an order.
    pub published_value: Option<f64>,
    /// What agrees with it; null of an order.
    pub band: Option<Band>,
    /// What was measured, in words; null: nothing was.
    pub measured: Option<String>,
    /// The same as a number.
    pub measured_value: Option<f64>,
    /// 95 % interval of it; null where there is none.
    pub ci95: Option<[f64; 2]>,
    /// What became of it.
    pub outcome: LineOutcome,
    /// Why it cannot be tested here, or is inconclusive; null where there is nothing to say.
    pub reason: Option<String>,
    /// What the figure depends on, where machines differ.
    pub depends: Option<String>,
}

/// What agrees with a published figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all(deserialize = "kebab-case"))]
pub struct Band {
    /// From here on; null: from anything on.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Up to here; null: up to anything.
    #[serde(default)]
    pub at_most: Option<f64>,
}

/// What became of a published figure here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineOutcome {
    /// The interval lies within the band.
    Agrees,
    /// It lies outside.
    Disagrees,
    /// It lies across an edge of the band.
    Inconclusive,
    /// This machine cannot test it.
    CannotBeTested,
}

/// How the lines came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Lines that agree.
    pub agree: usize,
    /// Lines that disagree.
    pub disagree: usize,
    /// Lines whose interval is too wide to call.
    pub inconclusive: usize,
    /// Lines that cannot be tested here.
    pub cannot_be_tested: usize,
}

impl LineOutcome {
    /// As in the JSON, with spaces.
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

    /// Whether all of an interval lies on one side of it.
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
