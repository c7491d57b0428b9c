//! `iotrail list`: what is stored.

use std::path::PathBuf;

use serde::Serialize;

use crate::error::Result;
use crate::report::terminal;
use crate::store::{RunSummary, Store, default_path};

#[derive(Debug, Clone, clap::Args)]
pub struct ListArgs {
    /// The store (default: $XDG_STATE_HOME/iotrail/iotrail.db, else ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,

    /// JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Listing {
    schema: &'static str,
    store: String,
    runs: Vec<RunSummary>,
}

/// Prints every run of the store; a store that is not there yet holds none.
pub fn run(args: &ListArgs) -> Result<u8> {
    let path = args.store.clone().map_or_else(default_path, Ok)?;
    let runs = Store::open(&path)?.map(|s| s.list()).transpose()?.unwrap_or_default();
    let shown = path.display().to_string();
    if args.json {
        terminal::print_json(&Listing { schema: "iotrail.list/1", store: shown, runs })?;
    } else if runs.is_empty() {
        terminal::print(&format!("nothing is stored in {} yet\n", terminal::sanitise(&shown)))?;
    } else {
        terminal::print(&terminal::list(&runs))?;
    }
    Ok(0)
}
