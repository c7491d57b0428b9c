//! `iotrail list`: lists built-in experiments, and stored runs, traces and fleets.

use std::path::PathBuf;

use serde::Serialize;

use iotrail_base::error::Result;
use iotrail_base::words::{bytes, plural};
use iotrail_experiment::builtin;
use iotrail_report::terminal::{self, Screen, Style};
use iotrail_schema::fleet_record::FleetRecord;
use iotrail_schema::stored_trace::StoredTrace;
use iotrail_store::salvage::salvage;
use iotrail_store::{RunSummary, Store, default_path};

#[derive(Debug, Clone, clap::Args)]
pub struct ListArgs {
    /// Use this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,

    /// Copy the readable part of a damaged store to a new one; incomplete runs can be resumed there
    #[arg(long, value_name = "NEW", conflicts_with = "json")]
    pub salvage: Option<PathBuf>,

    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Listing {
    /// `iotrail.list/1`.
    schema: &'static str,
    /// The built-in experiments.
    experiments: Vec<BuiltIn>,
    /// Path of the store.
    store: String,
    /// The stored runs.
    runs: Vec<RunSummary>,
    /// The stored fleets.
    fleets: Vec<FleetRecord>,
    /// The stored traces.
    traces: Vec<StoredTrace>,
}

#[derive(Serialize)]
struct BuiltIn {
    /// Its name, for `iotrail run`.
    name: String,
    /// Its title.
    title: String,
}

/// Prints the built-in experiments and all stored runs; a missing store counts as empty.
pub fn run(args: &ListArgs) -> Result<u8> {
    let path = args.store.clone().map_or_else(default_path, Ok)?;
    if let Some(new) = &args.salvage {
        let s = salvage(&path, new)?;
        let mut lost = if s.lost > 0 { format!(", {} could not be", s.lost) } else { String::new() };
        if s.missing_bytes > 0 {
            let by = bytes(s.missing_bytes);
            lost += &format!("; the file is truncated by {by}, and the number of lost measurements is unknown");
        }
        let (runs, measurements) = (plural(s.runs as usize, "run"), plural(s.measurements as usize, "measurement"));
        let mut out = Screen::new(Style::of_stdout());
        out.sentence(&format!("{runs} with {measurements} copied to {}{lost}", new.display()));
        terminal::show(&out)?;
        return Ok(0);
    }
    let mut store = Store::open(&path)?;
    let traces = store.as_mut().map(Store::traces).transpose()?.unwrap_or_default();
    let runs = store.as_ref().map(Store::list).transpose()?.unwrap_or_default();
    let fleets = store.as_ref().map(Store::fleets).transpose()?.unwrap_or_default();
    let built_in = |(name, _): &(&str, &str)| builtin::find(name).map(|e| BuiltIn { name: e.name, title: e.title });
    let experiments = builtin::ALL.iter().map(built_in).collect::<Result<Vec<_>>>()?;
    let shown = path.display().to_string();
    if args.json {
        terminal::print_json(&Listing { schema: "iotrail.list/1", experiments, store: shown, runs, fleets, traces })?;
        return Ok(0);
    }
    let mut out = Screen::new(Style::of_stdout());
    let width = experiments.iter().map(|e| e.name.len()).max().unwrap_or(0);
    for e in &experiments {
        out.paragraph(&format!("iotrail run {:width$}  ", e.name), &e.title);
    }
    out.blank();
    match runs.as_slice() {
        [] if !traces.is_empty() => {}
        [] => out.sentence(&format!("{shown} contains nothing yet")),
        runs => {
            terminal::list(&mut out, runs);
            if !traces.is_empty() {
                out.blank();
            }
        }
    }
    if !traces.is_empty() {
        terminal::traces(&mut out, &traces);
    }
    if !fleets.is_empty() {
        out.blank();
        terminal::fleets(&mut out, &fleets);
    }
    terminal::show(&out)?;
    Ok(0)
}
