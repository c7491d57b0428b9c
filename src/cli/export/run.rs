//! Exports a run's measurements in the requested formats.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ::parquet::errors::ParquetError;
use hdrhistogram::Histogram;

use super::ExportArgs;
use crate::cli::given::{LONGEST, packed};
use crate::runner::compared;
use crate::runner::printed;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::input;
use iotrail_base::output::{self, Existing, Folder, Output};
use iotrail_base::plain;
use iotrail_base::words::plural;
use iotrail_report::export::rows::{Order, Run, Source, Take};
use iotrail_report::export::table::{self, HISTOGRAM, Table};
use iotrail_report::export::{csv, fio, folded, hdr, parquet};
use iotrail_report::terminal;
use iotrail_schema::run_record::RunRecord;
use iotrail_store::Store;

/// A run to export.
struct Exported<'a> {
    run: Run<'a>,
    /// Writes the output of `--json` in pieces.
    json: &'a dyn Fn(&mut Piece<'_>) -> Result<()>,
    has_histograms: bool,
    called: String,
}

type Piece<'a> = dyn FnMut(&str) -> Result<()> + 'a;

/// A run's measurements in the store.
struct InStore<'a> {
    store: &'a Store,
    run: i64,
}

impl Source for InStore<'_> {
    fn each(&self, order: Order, take: &mut Take<'_>) -> Result<()> {
        self.store.each(self.run, order, &mut |cell, repeat, measurement| take(cell, repeat, &measurement))
    }

    fn latency(&self, cell: u32, repeat: u32) -> Result<Option<Histogram<u64>>> {
        self.store.histogram(self.run, cell, repeat)
    }

    fn count(&self) -> Result<u64> {
        Ok(self.store.measured_by(self.run)?.0)
    }

    fn hosts(&self) -> Result<Vec<String>> {
        Ok(self.store.measured_by(self.run)?.1)
    }
}

/// `outline`: the run without measurements, which are read from the store.
pub fn stored(args: &ExportArgs, outline: RunRecord, store: &Store) -> Result<u8> {
    let run = outline.run;
    let json = |take: &mut Piece<'_>| {
        let mut record =
            packed(store, run)?.or_machine(format_args!("run {run} no longer exists"), "another program removed it")?;
        record.comparisons = compared(&record, store)?;
        printed::pieces(record, store, take)
    };
    let called = format!("run {run}");
    Exported { run: Run::new(outline, InStore { store, run }), json: &json, has_histograms: true, called }.export(args)
}

/// `run`: the contents of the JSON file at `path`.
pub fn of_file(args: &ExportArgs, run: Run<'_>, path: &Path) -> Result<u8> {
    let json = |take: &mut Piece<'_>| {
        let text = input::text(path, LONGEST)
            .or_input(format_args!("cannot read {}", path.display()), "specify a readable file")?;
        take(text.trim_end())?;
        take("\n")
    };
    Exported { run, json: &json, has_histograms: false, called: path.display().to_string() }.export(args)
}

impl Exported<'_> {
    fn export(&self, args: &ExportArgs) -> Result<u8> {
        let of_requests = [("--perfetto", &args.perfetto), ("--iolog", &args.iolog)];
        if let Some((option, _)) = of_requests.iter().find(|(_, path)| path.is_some()) {
            return Err(Error::input(
                format!("{} has no individual I/Os for {option}", self.called),
                "record them: iotrail trace --record FILE -- CMD",
            ));
        }
        if self.run.count()? == 0 {
            return Err(Error::input(format!("{} contains no measurement", self.called), "see `iotrail list`"));
        }
        // The argument parser rejects other names.
        let table = table::all().find(|t| t.name == args.table).unwrap_or(table::MEASUREMENTS);
        let needs_histograms = match &args.hdr {
            Some(_) => Some("--hdr"),
            None => (args.csv.is_some() && table.name == HISTOGRAM.name).then_some("--table histogram"),
        };
        if let (Some(option), false) = (needs_histograms, self.has_histograms) {
            return Err(Error::input(
                format!("{} has no histograms for {option}", self.called),
                "histograms are only in the store: specify a stored run's number; `bench --store PATH` stores a single measurement",
            ));
        }
        let samples = if args.folded.is_some() { folded::places(&self.run)? } else { vec![] };
        if args.folded.is_some() && samples.is_empty() {
            return Err(Error::input(
                format!("{} has no samples for --folded", self.called),
                "measure with --profile (in an experiment file: profile = true); `bench --profile --folded FILE` keeps the kernel's stacks",
            ));
        }
        // Report errors before writing the first file.
        let existing = args.existing();
        let open =
            |path: &Option<PathBuf>, option| path.as_deref().map(|p| Output::open(p, existing, option)).transpose();
        let json = open(&args.json, "--json")?;
        let (csv, hdr) = (open(&args.csv, "--csv")?, open(&args.hdr, "--hdr")?);
        let stacks = open(&args.folded, "--folded")?;
        if let Some(folder) = &args.parquet {
            self.are_free(folder, parquet::places(&self.run)?.into_iter(), existing)?;
        }
        if let Some(folder) = &args.fio {
            let (mut places, mut told) = (vec![], false);
            self.run.rows(Order::Cell, &mut |row| {
                told |= fio::is_told(row);
                places.push(fio::place(row).into());
                Ok(())
            })?;
            if !told {
                return Err(Error::input(
                    format!("{} has no load that fio's JSON can represent", self.called),
                    "fio's JSON needs only reads or only writes; --json, --csv and --parquet support all loads",
                ));
            }
            self.are_free(folder, places.into_iter(), existing)?;
        }

        if let Some(mut out) = json {
            let refused = out.refusal();
            (self.json)(&mut |piece| out.write_all(piece.as_bytes()).map_err(&refused))?;
            self.done(out, plural(self.run.count()? as usize, "measurement"))?;
        }
        if let Some(out) = csv {
            self.csv(out, table)?;
        }
        if let Some(mut out) = hdr {
            let refused = out.refusal();
            let lines = hdr::write(&self.run, &mut out, &refused)?;
            self.done(out, plural(lines as usize, "histogram"))?;
        }
        if let Some(mut out) = stacks {
            let refused = out.refusal();
            samples.iter().try_for_each(|line| writeln!(out, "{line}")).map_err(refused)?;
            self.done(out, plural(samples.len(), "stack"))?;
        }
        if let Some(folder) = &args.parquet {
            self.parquet(folder, existing)?;
        }
        if let Some(folder) = &args.fio {
            self.fio(folder, existing)?;
        }
        Ok(0)
    }

    fn are_free(&self, folder: &Path, mut places: impl Iterator<Item = PathBuf>, existing: Existing) -> Result<()> {
        if folder.exists() && !folder.is_dir() {
            return Err(Error::input(format!("{} is not a directory", folder.display()), "specify a directory"));
        }
        places.try_for_each(|place| output::free(&folder.join(place), existing))
    }

    fn csv(&self, mut out: Output, table: &Table) -> Result<()> {
        let refused = out.refusal();
        let rows = csv::write(&self.run, table, &mut out, &refused)?;
        self.done(out, format!("{} of {}", plural(rows as usize, "row"), table.name))
    }

    fn parquet(&self, folder: &Path, existing: Existing) -> Result<()> {
        let mut out = Folder::open(folder, existing, "--parquet")?;
        let refused = |place: &Path, e: ParquetError| output::refused(&folder.join(place), "--parquet", e);
        let parts = parquet::write(&self.run, out.under_way(), &refused)?;
        let mut told: Vec<String> = vec![];
        for table in table::all() {
            let of_table = || parts.iter().filter(|p| p.table == table.name);
            let rows: u64 = of_table().map(|p| p.rows).sum();
            // An empty table would suggest that no I/O was measured.
            if table.name == HISTOGRAM.name && !self.has_histograms {
                continue;
            }
            for part in of_table() {
                out.put(&part.made, &part.place)?;
            }
            if rows > 0 {
                told.push(format!("{} {rows}", table.name));
            }
        }
        out.finish();
        self.say(&output::shown(folder), &format!("rows of {}", told.join(", ")));
        if !self.has_histograms {
            terminal::say("iotrail: note: a JSON file has no histograms: their table is omitted");
        }
        Ok(())
    }

    fn fio(&self, folder: &Path, existing: Existing) -> Result<()> {
        let mut out = Folder::open(folder, existing, "--fio")?;
        let mut files = vec![];
        let mut without = 0;
        self.run.rows(Order::Cell, &mut |row| {
            let latency = self.run.latency(row)?;
            let Some(file) = fio::file(row, latency.as_ref()) else {
                without += 1;
                return Ok(());
            };
            let made = out.under_way().join(files.len().to_string());
            let place = PathBuf::from(fio::place(row));
            let refused = |e: std::io::Error| output::refused(&folder.join(&place), "--fio", e);
            let text = serde_json::to_string_pretty(&file).map_err(|e| refused(e.into()))?;
            std::fs::write(&made, plain::json(text)).map_err(refused)?;
            files.push((made, place));
            Ok(())
        })?;
        for (made, place) in &files {
            out.put(made, place)?;
        }
        out.finish();
        self.say(&output::shown(folder), &format!("{} in directories by cell and repeat", plural(files.len(), "file")));
        if without > 0 {
            let n = plural(without, "measurement");
            terminal::say(&format!(
                "iotrail: note: {n} omitted: fio's JSON separates reads from writes, and cannot represent other loads"
            ));
        }
        Ok(())
    }

    fn done(&self, out: Output, what: String) -> Result<()> {
        let (shown, is_stdout) = (out.shown(), out.is_stdout());
        out.finish()?;
        if !is_stdout {
            self.say(&shown, &what);
        }
        Ok(())
    }

    fn say(&self, place: &str, what: &str) {
        terminal::say(&format!("{place}: {what}"));
    }
}
