//! One experiment on several machines: the run of each machine, and the state of machines without a run. These types
//! *are* the JSON schema `iotrail.fleet/1` (`docs/formats.md`).

use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "iotrail.fleet/1";

/// A stored fleet: its machines, each with its run in the same store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetRecord {
    /// `iotrail.fleet/1`.
    pub schema: String,
    /// Its number in the store, without the `f` of the command line.
    pub fleet: i64,
    /// Its name.
    pub name: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Part of the plan that is equal for all runs of the fleet (JSON, as `plan_key` of the runs).
    /// `{}`: the fleet was assembled from stored runs.
    pub plan: String,
    /// The command that created it; null: it was assembled from stored runs.
    pub command: Option<String>,
    /// Wall-clock start.
    pub started_unix_s: u64,
    /// Wall-clock end; null while machines are still expected.
    pub finished_unix_s: Option<u64>,
    /// Its machines, in the order in which they were added.
    pub nodes: Vec<FleetNode>,
}

/// One machine of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetNode {
    /// Its name, unique in the fleet: its Slurm node name, or its host name.
    pub node: String,
    /// Its state.
    pub state: NodeState,
    /// Its run in the same store; null: it has none, or that run was removed.
    pub run: Option<i64>,
    /// Its message: why it failed, or what it could not do. Null: it has no message.
    pub said: Option<String>,
}

/// The state of a machine of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Nothing has arrived from it yet.
    Waiting,
    /// It made all measurements that it can make.
    Done,
    /// Some of its measurements are missing.
    Partial,
    /// It cannot make any measurement of the plan.
    CannotTest,
    /// It ended with an error and without a run.
    Failed,
    /// The machine was lost and has no run.
    Lost,
}

impl NodeState {
    /// The name in the JSON, with spaces.
    pub fn words(self) -> &'static str {
        match self {
            NodeState::Waiting => "waiting",
            NodeState::Done => "done",
            NodeState::Partial => "partial",
            NodeState::CannotTest => "cannot test",
            NodeState::Failed => "failed",
            NodeState::Lost => "lost",
        }
    }

    /// Nothing more will arrive from it.
    pub fn has_ended(self) -> bool {
        self != NodeState::Waiting
    }
}

impl FleetRecord {
    /// Its name on a command line.
    pub fn id(&self) -> String {
        id(self.fleet)
    }

    /// Machines that have a run, each with its run.
    pub fn runs(&self) -> impl Iterator<Item = (&FleetNode, i64)> {
        self.nodes.iter().filter_map(|n| Some((n, n.run?)))
    }
}

/// `f3`: name of the third fleet of a store on a command line.
pub fn id(fleet: i64) -> String {
    format!("f{fleet}")
}

/// Number of the fleet that `text` names; `None`: `text` does not name a fleet.
pub fn number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('f')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_id_is_the_letter_f_and_a_number() {
        assert_eq!(number(&id(3)), Some(3));
        for other in ["3", "f", "f+3", "f-3", "f3.json", "F3", "f99999999999999999999"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
