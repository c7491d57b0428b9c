//! `iotrail export`: a recording for another program.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::{Error, Result};
use crate::export::perfetto;
use crate::recorded::Ending;
use crate::report::terminal;
use crate::watch::recording::{Existing, Reader, create_file};

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// A recording, made with `iotrail trace --record FILE`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// A trace for Perfetto (ui.perfetto.dev), into this file
    #[arg(long, value_name = "OUT", required = true)]
    perfetto: PathBuf,

    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

pub fn run(args: &ExportArgs) -> Result<u8> {
    // Names of rings and processes are at the recording's end, and wanted at its beginning.
    let ending = Reader::open(&args.file)?.skip_to_ending()?;
    let reader = Reader::open(&args.file)?;
    let place = |p: &Path| p.canonicalize().ok();
    if place(&args.perfetto).is_some_and(|p| Some(p) == place(&args.file)) {
        let what = format!("{} cannot become its own export", args.file.display());
        return Err(Error::input(what, "name another file with --perfetto"));
    }
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    let file = create_file(&args.perfetto, existing)?;
    let header = reader.header().clone();
    let mut out = perfetto::Exporter::new(BufWriter::with_capacity(1 << 20, file), &header, ending.end());
    let refused = |e: std::io::Error| {
        let what = format!("cannot write {}", args.perfetto.display());
        Error::machine(what, "free some room, or name a file on another disk").because(e)
    };
    for entry in reader {
        out.entry(&entry?).map_err(refused)?;
    }
    let written = out.finish().map_err(refused)?;
    match ending {
        Ending::Whole(_) => (),
        Ending::Cut { at_byte } | Ending::Damaged { at_byte } => terminal::say(&format!(
            "iotrail: warning: the recording breaks off at byte {at_byte}; what is before is exported"
        )),
    }
    terminal::say(&format!(
        "{}: {} I/Os as {} slices on {} tracks; open it at https://ui.perfetto.dev, which reads it in the browser",
        args.perfetto.display(),
        written.ios,
        written.slices,
        written.tracks
    ));
    Ok(0)
}
