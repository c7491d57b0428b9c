//! `iotrail report`: shows a run or trace, from the store or a JSON file, as an HTML page or on the terminal.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use clap::Args;

use super::compare::of_sides;
use super::fleet;
use super::given::{Document, Stored, packed, unknown_run};
use super::page_file;
use super::stored_trace::{self, NamedTrace};
use super::trace::HistogramArg;
use crate::runner::printed;
use crate::runner::{Shown, again, compared, show};
use iotrail_answer::command;
use iotrail_answer::compare::{Metric, metrics};
use iotrail_base::error::Result;
use iotrail_base::output::Reserved;
use iotrail_base::plain;
use iotrail_experiment::builtin;
use iotrail_report::html::{self, Against, Source};
use iotrail_report::terminal::{self, View};
use iotrail_schema::comparison::EQUIVALENT_WITHIN;
use iotrail_schema::fleet_record;
use iotrail_schema::run_record::RunRecord;
use iotrail_store::Store;

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "RUN is\n  12          a stored run (`iotrail list`)\n  last        the most recently started run\n  \
                        f3          a stored fleet\n  t12         a stored trace\n  a.json      output of `run --json`, `bench --json` or `trace --json`"
)]
pub struct ReportArgs {
    /// Run or trace to show (see below)
    #[arg(default_value = "last")]
    pub run: String,

    /// Second run, to be compared with the first on one page
    #[arg(value_name = "RUN2", requires = "output")]
    pub against: Option<String>,

    /// Write one self-contained HTML page (default: print on the terminal)
    #[arg(short, long, value_name = "PAGE.html")]
    pub output: Option<PathBuf>,

    /// Overwrite an existing file that is not an iotrail report
    #[arg(long, requires = "output")]
    pub force: bool,

    /// Use this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,

    /// Print all sections, not only the answer
    #[arg(long, conflicts_with_all = ["output", "json"])]
    pub full: bool,

    /// Print the latencies of a trace as histograms
    #[arg(long, conflicts_with_all = ["output", "json"])]
    pub hist: bool,

    /// Group the histograms by opcode or by delivery path
    #[arg(long, value_name = "BY", value_enum, default_value = "opcode", requires = "hist")]
    pub hist_by: HistogramArg,

    /// Print the run as JSON, as `run --json` does
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
}

/// A run with its name.
struct Named {
    name: String,
    record: RunRecord,
    /// The run is in the store.
    is_stored: bool,
}

pub fn run(args: &ReportArgs) -> Result<u8> {
    // Report an unwritable page before creating it.
    let output = args.output.as_deref().map(|path| page_file::reserve(path, args.force)).transpose()?;
    let mut stored = Stored::new(args.store.as_deref());
    if let (Some(number), None) = (fleet_record::number(&args.run), &args.against) {
        let store = stored.all()?;
        let record = fleet::stored(&store, number)?;
        let how = fleet::Options { full: args.full, json: args.json, store: args.store.as_deref(), output };
        return fleet::show(&store, record, how);
    }
    if args.against.is_none()
        && let Some(trace) = stored_trace::named(&args.run, args.store.as_deref())?
    {
        return of_trace(&trace, args, output);
    }
    let names = std::iter::once(&args.run).chain(&args.against);
    let mut runs = names.map(|name| read(name, &mut stored)).collect::<Result<Vec<_>>>()?;
    if let (None, Some(store)) = (&args.against, stored.opened()) {
        // If there are two runs, the second is compared with the first.
        runs.iter_mut().try_for_each(|run| {
            run.record.comparisons = compared(&run.record, store)?;
            Ok(())
        })?;
    }
    let Some(output) = output else {
        return screen(runs.swap_remove(0), stored.opened(), args);
    };
    let against = match (&args.against, &runs[..]) {
        (Some(b), [first, second]) => {
            let names: Vec<String> = metrics(&first.record).iter().map(Metric::to_string).collect();
            let sides = of_sides(&args.run, b, &mut stored, &names, EQUIVALENT_WITHIN)?;
            let (mut all, left_over) = (sides.all, sides.left_over);
            all.iter_mut().for_each(|c| (c.a, c.b) = (first.name.clone(), second.name.clone()));
            Some((all, left_over))
        }
        _ => None,
    };
    let page = page(&runs, against.as_ref(), stored.opened())?;
    page_file::write(output, &page)?;
    Ok(0)
}

fn of_trace(trace: &NamedTrace, args: &ReportArgs, output: Option<Reserved>) -> Result<u8> {
    match output {
        Some(output) => page_file::write(output, &html::trace(&trace.name, &trace.record, &trace.again)?)?,
        None if args.json => terminal::print_json(&trace.printed())?,
        None => {
            terminal::show(&terminal::trace(&trace.record, View { full: args.full, again: &trace.again }))?;
            if args.hist {
                args.hist_by.show(&trace.record)?;
            }
        }
    }
    Ok(0)
}

fn screen(Named { record, is_stored, .. }: Named, store: Option<&Store>, args: &ReportArgs) -> Result<u8> {
    let again = match is_stored {
        true => again(record.run, args.store.as_deref()),
        false => format!("iotrail report {}", args.run),
    };
    on_screen(record, store.filter(|_| is_stored), args.json, View { full: args.full, again: &again })?;
    Ok(0)
}

/// `store`: the store that contains the run.
fn on_screen(record: RunRecord, store: Option<&Store>, json: bool, view: View<'_>) -> Result<()> {
    match record.as_single() {
        Some(m) if json => terminal::print_measurement(m),
        Some(m) if m.net.is_some() => terminal::show(&terminal::net(m, view.full)),
        Some(m) => terminal::show(&terminal::bench(m, view.full)),
        None => match store.filter(|_| json) {
            Some(store) => {
                printed::pieces(record, store, &mut |piece| terminal::print(&plain::json_shown(piece.into())))
            }
            None => show(&record, json, view).map(drop),
        },
    }
}

/// Prints a stored run, specified by number.
pub(super) fn stored(store: &Store, run: i64, how: Shown<'_>) -> Result<()> {
    let mut record = packed(store, run)?.ok_or_else(|| unknown_run(run, store.path()))?;
    record.comparisons = compared(&record, store)?;
    on_screen(record, Some(store), how.json, View { full: how.full, again: &again(run, how.store) })
}

fn read(text: &str, stored: &mut Stored) -> Result<Named> {
    if let Some(number) = stored.number(text)? {
        return Ok(Named { name: format!("run {number}"), record: stored.run_packed(number)?, is_stored: true });
    }
    let path = Path::new(text);
    let record = match Document::read(path)? {
        Document::Run(record) => *record,
        Document::Measurement(m) => RunRecord::of_measurements(vec![*m]),
        Document::Measurements(all) => RunRecord::of_measurements(all),
    };
    let name = path.file_name().map_or_else(|| text.to_owned(), |n| n.to_string_lossy().into_owned());
    Ok(Named { name, record, is_stored: false })
}

type Compared = (Vec<iotrail_schema::comparison::Comparison>, Vec<String>);

fn page(runs: &[Named], against: Option<&Compared>, store: Option<&Store>) -> Result<String> {
    let failed = RefCell::new(None);
    let reader = |run: &Named| {
        let (store, number, failed) = (store.filter(|_| run.is_stored), run.record.run, &failed);
        move |cell, repeat| {
            store?.histogram(number, cell, repeat).unwrap_or_else(|e| {
                failed.borrow_mut().get_or_insert(e);
                None
            })
        }
    };
    let readers: Vec<_> = runs.iter().map(reader).collect();
    let mut sources = Vec::new();
    for (Named { name, record, is_stored }, histograms) in runs.iter().zip(&readers) {
        let is_built_in = builtin::ALL.iter().any(|(name, _)| *name == record.experiment);
        let order = store.filter(|_| *is_stored).map(|s| s.order(record.run)).transpose()?;
        let command = command::of_run(record, is_built_in);
        sources.push(Source { name: name.clone(), record, histograms, order, command });
    }
    let against = against.map(|(comparisons, left_over)| Against { comparisons, left_over });
    let page = html::page(&sources, against.as_ref());
    failed.into_inner().map_or(page, Err)
}
