//! A search for the best of several candidates (`iotrail advise`): what it looks for, and what became of it.

use serde::{Deserialize, Serialize};

/// What a run searches for. Its arms are the candidates, the first of them what there is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// The metric that is to be best.
    pub objective: String,
    /// The other one, where the front of two is searched for; left out elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<String>,
    /// Candidates that break one of these are out.
    pub constraints: Vec<Constraint>,
    /// Seconds for trials, search and confirmation.
    pub budget_s: f64,
    /// In the order of the arms.
    pub candidates: Vec<Candidate>,
    /// What was no candidate, and why; left out where it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Of a confirmation: the search that it confirms; left out of the search's own run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<SearchOutcome>,
}

impl SearchRecord {
    /// Whether the run searches; otherwise it confirms what another one found.
    pub fn is_search(&self) -> bool {
        self.found.is_none()
    }

    /// One metric, or two.
    pub fn objectives(&self) -> impl Iterator<Item = &str> {
        [Some(&self.objective), self.second.as_ref()].into_iter().flatten().map(String::as_str)
    }
}

/// `p99 < 2 ms`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Constraint {
    /// The metric.
    pub metric: String,
    /// It must be below the limit; otherwise above.
    pub below: bool,
    /// In the metric's unit: ns, or a number.
    pub limit: f64,
    /// As it was given.
    pub text: String,
}

/// One configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its arm.
    pub name: String,
    /// What adopting it takes.
    pub effort: Effort,
    /// What to write or to run to have it, a line each.
    pub how: Vec<String>,
}

/// A configuration that is not possible here, or of no use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// As its candidate would be called.
    pub name: String,
    /// Why it is none.
    pub reason: String,
}

/// What adopting a configuration takes, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// It is what there is.
    None,
    /// How it is started.
    Setting,
    /// A setting of the host, which others on it have too.
    HostSetting,
    /// A flag of io_uring_setup.
    Flag,
    /// Some lines of the program.
    Lines,
    /// Another way of doing I/O.
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

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchOutcome {
    /// The search, in the same store.
    pub run: i64,
    /// The set that cannot be told from the best, least effort first; of two objectives, the front.
    pub set: Vec<String>,
    /// The best by its mean, in the first objective.
    pub leader: String,
    /// Measurements that it made.
    pub measurements: u64,
    /// Candidates that it compared.
    pub compared: u64,
    /// Why it ended.
    pub ended: Ended,
    /// Blocks that it measured.
    #[serde(default)]
    pub blocks: u64,
    /// Candidates of the set that may still be better than the first by more than 10 %.
    #[serde(default)]
    pub undecided: u64,
    /// A budget that would decide, in seconds; null: not known. It assumes that measurements vary as they did.
    #[serde(default)]
    pub decides_s: Option<f64>,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// One candidate is better than all others.
    OneLeft,
    /// Those that are left do not differ by more than matters.
    Equivalent,
    /// Of two objectives: none of those that are left can turn out to be dominated by another.
    Settled,
    /// The time or the blocks were used up.
    Budget,
    /// It was stopped.
    Stopped,
}
