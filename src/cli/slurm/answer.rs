//! The end of it on a terminal: what the nodes say together, as `report f3` has it, and what became of them.

use super::How;
use super::submitted::Submitted;
use crate::cli::{fleet, report};
use iotrail_base::error::Result;
use iotrail_base::words::{list, plural};
use iotrail_report::terminal::{self, Column, Screen, Style};
use iotrail_schema::fleet_record::{FleetNode, FleetRecord, NodeState};
use iotrail_store::Store;

const STATES: [NodeState; 6] = [
    NodeState::Done,
    NodeState::Partial,
    NodeState::CannotTest,
    NodeState::Failed,
    NodeState::Lost,
    NodeState::Waiting,
];

pub fn show(record: &FleetRecord, submitted: &Submitted, store: &Store, how: How<'_>) -> Result<()> {
    let runs: Vec<i64> = record.runs().map(|(_, run)| run).collect();
    match (&runs[..], record.nodes.len()) {
        ([], _) => {}
        // One node alone is a run like any other.
        ([run], 1) => report::stored(store, *run, how)?,
        _ => {
            let shown = fleet::How { full: how.full, json: false, store: how.store, output: None };
            fleet::show(store, record.clone(), shown)?;
        }
    }
    terminal::show(&nodes(record, submitted, how))
}

/// What became of the nodes: a line, and a table of those that have not done it all (`--full`: of all).
fn nodes(record: &FleetRecord, submitted: &Submitted, how: How<'_>) -> Screen {
    let mut out = Screen::new(Style::of_stdout());
    let of = |state| record.nodes.iter().filter(|n| n.state == state).count();
    let counts = STATES.map(|state| (of(state), state.words()));
    let counts: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}")).collect();
    let all = plural(record.nodes.len() * (1 + usize::from(submitted.second.is_some())), "node");
    out.blank();
    out.heading(&format!("{} on {all}, fleet {}: {}", record.experiment, record.id(), list(&counts)));
    let columns = [
        Column::words("node", 14),
        Column::words("state", 12),
        Column::number("run", 6),
        Column::words("what it said", 60),
    ];
    let is_told = |n: &&FleetNode| how.full || n.state != NodeState::Done || n.said.is_some();
    let row = |n: &FleetNode| {
        let run = n.run.map_or_else(String::new, |run| run.to_string());
        vec![n.node.clone(), n.state.words().to_owned(), run, n.said.clone().unwrap_or_default()]
    };
    let rows: Vec<Vec<String>> = record.nodes.iter().filter(is_told).map(row).collect();
    if !rows.is_empty() {
        out.table(&columns, rows);
    }
    if record.finished_unix_s.is_none() {
        out.blank();
        out.sentence(&format!("what is missing: {}", submitted.attach(how.store)));
    }
    out
}
