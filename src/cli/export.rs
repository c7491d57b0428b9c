//! `iotrail export`: exports a run or a recording for other programs.

mod recording;
mod replay;
mod run;
mod trace;

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args};
use serde_json::Value;

use crate::cli::given::{Document, Stored};
use crate::cli::stored_trace;
use iotrail_base::error::{Error, Result};
use iotrail_base::output::{Existing, Output, STDOUT};
use iotrail_report::export::{stacks, table};
use iotrail_schema::recorded;

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("format").required(true).multiple(true),
    after_help = "SOURCE is\n  12          a stored run; last: the most recent one\n  run.json    output of `run --json` or `bench --json`: \
                  it has no histograms\n  r.iotrail   a recording by `trace --record`: --json, --csv, --iolog, --perfetto\n  t12         a stored trace, or output of `trace --json`: \
                  --folded, --pprof\n\nOUT is a file, or - for \
                  standard output; DIR is a directory, created if missing.\n\
                  Measurements contain only samples by place; for kernel stacks, use\n\
                  `bench` or `trace` with --profile --folded."
)]
pub struct ExportArgs {
    /// Number of a stored run or trace, `last`, a JSON file or a recording
    #[arg(value_name = "SOURCE")]
    source: OsString,

    /// Write a run as `run --json` prints it, a measurement as `bench --json` prints it, or a recording as one JSON value per line
    #[arg(long, value_name = "OUT", group = "format")]
    json: Option<PathBuf>,

    /// Write one row per measurement, or per completion of a recording (for replay: per request), with units in the column names
    #[arg(long, value_name = "OUT", group = "format")]
    csv: Option<PathBuf>,

    /// Write one row per entry of this list in each measurement (with --csv)
    #[arg(long, value_name = "TABLE", default_value = "measurements", requires = "csv",
          value_parser = PossibleValuesParser::new(table::all().map(|t| t.name).collect::<Vec<_>>()))]
    table: String,

    /// Write every table as Parquet, in directories by host and run, so that the files of many hosts form one table
    #[arg(long, value_name = "DIR", group = "format")]
    parquet: Option<PathBuf>,

    /// Write fio JSON (json+), one file per measurement, in directories for fio-plot
    #[arg(long, value_name = "DIR", group = "format")]
    fio: Option<PathBuf>,

    /// Write an HdrHistogram log, one line per measurement, tagged with its cell
    #[arg(long, value_name = "OUT", group = "format")]
    hdr: Option<PathBuf>,

    /// Write folded stacks: for a profiled run, each cell's samples by place; for a trace, its call sites by --value
    #[arg(long, value_name = "OUT", group = "format")]
    folded: Option<PathBuf>,

    /// Weight a trace's folded stacks by this value
    #[arg(long, value_name = "VALUE", default_value = "blocked", requires = "folded",
          value_parser = PossibleValuesParser::new(stacks::VALUES.map(|(name, ..)| name)))]
    value: String,

    /// Write a trace's call sites as a pprof profile, with all values
    #[arg(long, value_name = "OUT", group = "format")]
    pprof: Option<PathBuf>,

    /// Write a recording as a Perfetto trace (ui.perfetto.dev)
    #[arg(long, value_name = "OUT", group = "format")]
    perfetto: Option<PathBuf>,

    /// Write a recording's reads, writes and syncs as a fio I/O log (version 3), for fio --read_iolog; for a replay recording, also write the
    /// job OUT.fio
    #[arg(long, value_name = "OUT", group = "format")]
    iolog: Option<PathBuf>,

    /// Replace existing files
    #[arg(long)]
    force: bool,

    /// Use this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
}

impl ExportArgs {
    fn existing(&self) -> Existing {
        Existing::forced(self.force)
    }

    /// Output files that are written as a single stream, with their options.
    fn streams(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let all = [
            ("--json", &self.json),
            ("--csv", &self.csv),
            ("--hdr", &self.hdr),
            ("--folded", &self.folded),
            ("--pprof", &self.pprof),
            ("--perfetto", &self.perfetto),
            ("--iolog", &self.iolog),
        ];
        all.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)))
    }

    fn folders(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let all = [("--parquet", &self.parquet), ("--fio", &self.fio)];
        all.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)))
    }
}

pub fn run(args: &ExportArgs) -> Result<u8> {
    if let Some((option, _)) = args.folders().find(|(_, path)| *path == Path::new(STDOUT)) {
        return Err(Error::input(
            format!("{option} writes several files, so it cannot write to standard output"),
            "specify a directory",
        ));
    }
    let to_stdout: Vec<&str> = args.streams().filter(|(_, path)| *path == Path::new(STDOUT)).map(|(o, _)| o).collect();
    if let [first, second, ..] = to_stdout[..] {
        let what = format!("{first} and {second} would be mixed on standard output");
        return Err(Error::input(what, "specify a file for one of them"));
    }
    if let Some(text) = args.source.to_str()
        && let Some(trace) = stored_trace::named(text, args.store.as_deref())?
    {
        return trace::export(args, &trace);
    }
    // A run number is not treated as a file name.
    let mut stored = Stored::new(args.store.as_deref());
    if let Some(run) = args.source.to_str().map(|text| stored.number(text)).transpose()?.flatten() {
        let (record, store) = stored.outline(run)?;
        return run::stored(args, record, store);
    }
    let path = Path::new(&args.source);
    if is_recording(path) {
        return recording::export(args, path);
    }
    match Document::read(path)? {
        Document::Run(record) => run::of_file(args, (*record).into(), path),
        Document::Measurement(m) => run::of_file(args, (*m).into(), path),
        Document::Measurements(all) => {
            run::of_file(args, iotrail_schema::run_record::RunRecord::of_measurements(all).into(), path)
        }
    }
}

/// A recording starts with a header line in JSON. An unreadable file is not a recording; opening it reports the reason.
fn is_recording(path: &Path) -> bool {
    const LINE_BYTES: u64 = 1 << 20;
    let mut line = vec![];
    let read = |line: &mut Vec<u8>| BufReader::new(std::fs::File::open(path)?).take(LINE_BYTES).read_until(b'\n', line);
    read(&mut line).is_ok()
        && serde_json::from_slice::<Value>(&line)
            .is_ok_and(|header| header.get("schema").and_then(Value::as_str).is_some_and(recorded::is_known))
}

fn done(file: Output, text: &str) -> Result<String> {
    let shown = if file.is_stdout() { "standard output".to_owned() } else { file.shown() };
    file.finish()?;
    Ok(format!("{shown}: {text}"))
}
