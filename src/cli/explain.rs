//! `iotrail explain`: the slowest I/Os in a recording or a stored trace.

use std::path::PathBuf;

use clap::Args;

use super::{one_of, stored_trace};
use iotrail_answer::explain::{Selection, explain};
use iotrail_base::error::{Error, Result};
use iotrail_path::slowest::By;
use iotrail_report::terminal;
use iotrail_schema::recorded::Ending;
use iotrail_schema::stored_trace::number;
use iotrail_watch::recording::Reader;

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Recording made with `iotrail trace --record FILE`, or a stored trace (t12; without --record, its 20 slowest requests)
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Use this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,

    /// Print N I/Os, slowest first
    #[arg(long, value_name = "N", default_value_t = 5)]
    slowest: usize,

    /// Rank by latency (submission to posting) or delivery delay (ready to posting)
    #[arg(long, value_parser = one_of(&[("latency", By::Latency), ("delay", By::Delay)]), default_value = "latency")]
    by: By,

    /// Print only I/Os of this ring, by its number in the recording
    #[arg(long, value_name = "R")]
    ring: Option<u32>,

    /// Print only I/Os with this opcode: read_fixed, send_zc …
    #[arg(long, value_name = "OP")]
    opcode: Option<String>,

    /// Print only failed or short requests
    #[arg(long)]
    failed: bool,

    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ExplainArgs) -> Result<u8> {
    let name = args.file.display().to_string();
    let (reader, name) = match number(&name) {
        Some(trace) => stored_trace::requests(trace, args.store.as_deref())?,
        None => (Reader::open(&args.file)?, name),
    };
    let header = reader.header().clone();
    if header.is_for_replay() {
        return Err(Error::input(
            format!("{name} is a recording for replay: it has no request stages to explain"),
            "record again without --for-replay",
        ));
    }
    let wanted = Selection {
        slowest: args.slowest,
        by: args.by,
        ring: args.ring,
        opcode: args.opcode.clone(),
        failed: args.failed,
    };
    // After the last entry, the ending is known.
    let ending = |r: &Reader| r.ending().cloned().unwrap_or(Ending::Cut { at_byte: 0 });
    let explained = explain(header, reader, ending, &wanted)?;
    match args.json {
        true => terminal::print_json(&explained)?,
        false => terminal::show(&terminal::explain(&name, &explained))?,
    }
    Ok(0)
}
