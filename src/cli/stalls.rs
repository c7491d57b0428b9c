//! `iotrail stalls`: shows the monitor's captures.

use std::path::Path;

use clap::Args;

use super::monitor::CaptureDir;
use iotrail_base::error::{OrFail, Result};
use iotrail_base::words::plural;
use iotrail_host::clock;
use iotrail_report::terminal;
use iotrail_schema::stall::{SCHEMA, StallList};
use iotrail_watch::monitor::capture;

#[derive(Debug, Args)]
pub struct StallsArgs {
    /// Show this stall from the list (1: the newest), with threads, stacks and what was running
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    number: Option<u32>,

    /// Print all sections, not only the answer
    #[arg(long, conflicts_with = "json")]
    full: bool,

    /// Print the list or the stall as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: CaptureDir,
}

pub fn run(args: &StallsArgs) -> Result<u8> {
    let dir = args.place.path()?;
    let (stalls, unread) = capture::list(&dir, args.place.is_named())?;
    if unread > 0 {
        eprintln!("iotrail: {} in {} cannot be read as a stall", plural(unread, "file"), dir.display());
    }
    let Some(number) = args.number else {
        match args.json {
            true => terminal::print_json(&StallList { schema: SCHEMA.into(), stalls })?,
            false => terminal::show(&terminal::stalls(&stalls, clock::unix_s(), args.full))?,
        }
        return Ok(0);
    };
    let stall = stalls.get(number as usize - 1).or_input(
        format_args!("no stall {number} of {} in {}", stalls.len(), dir.display()),
        "`iotrail stalls` lists them",
    )?;
    let capture = capture::read(Path::new(&stall.capture))?;
    match args.json {
        true => terminal::print_json(&capture)?,
        false => terminal::show(&terminal::capture(&capture, clock::unix_s(), args.full))?,
    }
    Ok(0)
}
