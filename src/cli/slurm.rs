//! `--slurm` and `--attach`, for the commands that support them: prints the result of all nodes like `report f3`, and
//! their states.

use super::{fleet, report};
use crate::runner::Shown;
use iotrail_base::error::{OrFail, Result};
use iotrail_base::words::{list, plural};
use iotrail_cluster::{Collected, Fleet, Work};
use iotrail_report::terminal::{self, Column, Screen, Style};
use iotrail_schema::fleet_record::{FleetNode, NodeState};
use iotrail_store::{Store, default_path};

const STATES: [NodeState; 6] = [
    NodeState::Done,
    NodeState::Partial,
    NodeState::CannotTest,
    NodeState::Failed,
    NodeState::Lost,
    NodeState::Waiting,
];

/// Exit status: 0 if all nodes measured everything that they can; 1 if some did not.
pub fn run(fleet: &Fleet, work: &Work<'_>, how: Shown<'_>) -> Result<u8> {
    iotrail_cluster::run(fleet, work, how.store)?.map_or(Ok(0), |collected| show(&collected, how))
}

/// Same as [`run`], for a job that was submitted earlier.
pub fn attach(fleet: &Fleet, job: u64, how: Shown<'_>) -> Result<u8> {
    show(&iotrail_cluster::attach(fleet, job, how.store)?, how)
}

fn show(collected: &Collected, how: Shown<'_>) -> Result<u8> {
    let record = &collected.record;
    match how.json {
        true => terminal::print_json(record)?,
        false => show_answer(collected, how)?,
    }
    Ok(u8::from(!record.nodes.iter().all(|n| n.state == NodeState::Done)))
}

fn show_answer(collected: &Collected, how: Shown<'_>) -> Result<()> {
    let record = &collected.record;
    let path = how.store.map_or_else(default_path, |path| Ok(path.to_owned()))?;
    let runs: Vec<i64> = record.runs().map(|(_, run)| run).collect();
    let opened = || {
        Store::open(&path)?
            .or_machine(format_args!("store {} no longer exists", path.display()), "another program removed it")
    };
    match (&runs[..], record.nodes.len()) {
        ([], _) => {}
        // A single node's run is printed as an ordinary run.
        ([run], 1) => report::stored(&opened()?, *run, how)?,
        _ => {
            let shown = fleet::Options { full: how.full, json: false, store: how.store, output: None };
            fleet::show(&opened()?, record.clone(), shown)?;
        }
    }
    terminal::show(&nodes(collected, how.full))
}

/// The nodes' states: a summary line, and a table of the incomplete nodes (with `--full`, of all nodes).
fn nodes(Collected { record, nodes, attach }: &Collected, full: bool) -> Screen {
    let mut out = Screen::new(Style::of_stdout());
    let of = |state| record.nodes.iter().filter(|n| n.state == state).count();
    let counts = STATES.map(|state| (of(state), state.words()));
    let counts: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}")).collect();
    let all = plural(*nodes, "node");
    out.blank();
    out.heading(&format!("{} on {all}, fleet {}: {}", record.experiment, record.id(), list(&counts)));
    let columns = [
        Column::words("node", 14),
        Column::words("state", 12),
        Column::number("run", 6),
        Column::words("what it said", 60),
    ];
    let is_told = |n: &&FleetNode| full || n.state != NodeState::Done || n.said.is_some();
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
        out.sentence(&format!("to measure the missing part: {}", attach));
    }
    out
}
