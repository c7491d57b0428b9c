//! A search for the best of several candidates (`iotrail advise`): its objective and its outcome.

use serde::{Deserialize, Serialize};

/// The objective of a search. The run's arms are the candidates; the first one is the current configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// The metric to optimise.
    pub objective: String,
    /// The second metric, if a front of two is searched; otherwise omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<String>,
    /// Candidates that violate one of these are excluded.
    pub constraints: Vec<Constraint>,
    /// Time for trials, search and confirmation, in seconds.
    pub budget_s: f64,
    /// Candidates, in the order of the arms.
    pub candidates: Vec<Candidate>,
    /// Rejected configurations and the reasons; omitted if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// For a confirmation: the search that it confirms; omitted in the search itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<SearchOutcome>,
}

impl SearchRecord {
    /// True for a search; false for a confirmation of another run's result.
    pub fn is_search(&self) -> bool {
        self.found.is_none()
    }

    /// One or two metrics.
    pub fn objectives(&self) -> impl Iterator<Item = &str> {
        [Some(&self.objective), self.second.as_ref()].into_iter().flatten().map(String::as_str)
    }
}

/// `p99 < 2 ms`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Constraint {
    /// The metric.
    pub metric: String,
    /// True if it must be below the limit; false if above.
    pub below: bool,
    /// In the metric's unit: ns, or a number.
    pub limit: f64,
    /// Whether the limit itself is allowed.
    #[serde(default)]
    pub inclusive: bool,
    /// Text from the command line.
    pub text: String,
}

/// One configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its arm.
    pub name: String,
    /// Effort required to adopt it.
    pub effort: Effort,
    /// Changes or commands required to adopt it, one per line.
    pub how: Vec<String>,
}

/// A configuration that is impossible or useless here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The name that the candidate would have.
    pub name: String,
    /// Why it is not a candidate.
    pub reason: String,
}

/// Effort required to adopt a configuration, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// The current configuration.
    None,
    /// How the program is started.
    Setting,
    /// A setting of the host, which also affects other programs.
    HostSetting,
    /// A flag of io_uring_setup(2).
    Flag,
    /// A few lines of the program.
    Lines,
    /// A different I/O method.
    Redesign,
}

impl Effort {
    pub fn words(self) -> &'static str {
        match self {
            Effort::None => "nothing",
            Effort::Setting => "a setting",
            Effort::HostSetting => "a host setting",
            Effort::Flag => "a flag",
            Effort::Lines => "a few lines",
            Effort::Redesign => "a redesign",
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchOutcome {
    /// The search, in the same store.
    pub run: i64,
    /// Candidates indistinguishable from the best, least effort first; for two objectives: the front.
    pub set: Vec<String>,
    /// The candidate with the best mean in the first objective.
    pub leader: String,
    /// Number of measurements of this candidate.
    pub measurements: u64,
    /// Number of candidates compared.
    pub compared: u64,
    /// Why it ended.
    pub ended: Ended,
    /// Number of blocks measured.
    #[serde(default)]
    pub blocks: u64,
    /// Candidates of the set that may still be better than the first by more than 10 %.
    #[serde(default)]
    pub undecided: u64,
    /// Budget in seconds that would be sufficient for a decision; null: not known. It assumes that measurements continue to vary
    /// by the same amount.
    #[serde(default)]
    pub decides_s: Option<f64>,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// One candidate is better than all others.
    OneLeft,
    /// The remaining candidates do not differ by a relevant amount.
    Equivalent,
    /// For two objectives: no remaining candidate can still be dominated by another.
    Settled,
    /// The time or block limit was reached.
    Budget,
    /// The search was stopped.
    Stopped,
}
