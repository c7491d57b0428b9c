//! One experiment on several machines: which run each of them brought, and what became of those that brought none. These types *are* the
//! JSON schema `iotrail.fleet/1` (`docs/formats.md`).

use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "iotrail.fleet/1";

/// A fleet as it is stored: its machines, each with its run in the same store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetRecord {
    /// `iotrail.fleet/1`.
    pub schema: String,
    /// Its number in the store, without the `f` of the command line.
    pub fleet: i64,
    /// What it is called.
    pub name: String,
    /// Name of the experiment.
    pub experiment: String,
    /// What has to be the same for a machine's run to belong to it (JSON, as `plan_key` of the runs). `{}` where runs were gathered
    /// that had been stored before.
    pub plan: String,
    /// The command that made it; null where runs were gathered that had been stored before.
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
    /// What it is called, once in a fleet: its name to Slurm, or its host name.
    pub node: String,
    /// What became of it.
    pub state: NodeState,
    /// The run it brought, in the same store; null where it brought none, or that run was removed.
    pub run: Option<i64>,
    /// What it said: why it failed, or what it could not do. Null where nothing is to be said.
    pub said: Option<String>,
}

/// What became of a machine of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Nothing has come from it yet.
    Waiting,
    /// It measured all that it can.
    Done,
    /// Some of its measurements are missing.
    Partial,
    /// It can measure nothing of the plan.
    CannotTest,
    /// It ended with an error, and brought nothing.
    Failed,
    /// It is gone, and brought nothing.
    Lost,
}

impl NodeState {
    /// As in the JSON, with spaces.
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

    /// Nothing more is to come from it.
    pub fn has_ended(self) -> bool {
        self != NodeState::Waiting
    }
}

impl FleetRecord {
    /// How a command line names it.
    pub fn id(&self) -> String {
        id(self.fleet)
    }

    /// Machines that brought a run, with that.
    pub fn runs(&self) -> impl Iterator<Item = (&FleetNode, i64)> {
        self.nodes.iter().filter_map(|n| Some((n, n.run?)))
    }
}

/// `f3`: how a command line names the third fleet of a store.
pub fn id(fleet: i64) -> String {
    format!("f{fleet}")
}

/// The number of the fleet that `text` names; `None`: it names none.
pub fn number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('f')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_named_by_its_letter() {
        assert_eq!(number(&id(3)), Some(3));
        for other in ["3", "f", "f+3", "f-3", "f3.json", "F3", "f99999999999999999999"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
