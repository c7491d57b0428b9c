//! Text for a terminal, 80 columns wide. Colour is never the only sign of anything.

mod across;
mod bench;
mod cells;
mod compare;
mod cost;
mod delivery;
mod explain;
pub(super) mod layout;
pub(super) mod measured;
mod net;
mod order;
mod run;
mod trace;

use std::io::Write as _;
use std::ops::ControlFlow;

use crate::answer::across::{Beside, KernelRecord};
use crate::answer::explain::Explained;
use crate::comparison::Comparison;
use crate::error::{Error, Result};
use crate::measurement::Measurement;
use crate::net_record::ServedRecord;
use crate::run_record::RunRecord;
use crate::store::RunSummary;
use crate::trace_record::TraceRecord;

pub use self::layout::{Style, WIDTH, field, paragraph, sanitise};
pub use self::net::Seconds;

/// One measurement, as `bench` prints it.
pub fn bench(m: &Measurement) -> String {
    bench::screen(m, Style::of_stdout())
}

/// One measurement of a network load, as `net load` prints it.
pub fn net(m: &Measurement) -> String {
    net::screen(m, Style::of_stdout())
}

/// What a server did, as `net serve` prints it at its end.
pub fn served(record: &ServedRecord) -> String {
    net::served(record, Style::of_stdout())
}

/// A run of an experiment: a table for each group of cells, then what is concluded.
pub fn run(run: &RunRecord) -> String {
    run::screen(run, Style::of_stdout())
}

/// The same plan on several kernels: what differs in each cell, then what is concluded.
pub fn across(run: &RunRecord, kernels: &[KernelRecord], cells: &[Beside], said: &[String]) -> String {
    across::screen(run, kernels, cells, said, Style::of_stdout())
}

/// Comparisons, as `compare` prints them.
pub fn comparisons(list: &[Comparison]) -> String {
    let mut out = compare::tables(list, Style::of_stdout());
    out.push('\n');
    paragraph(&mut out, "", compare::LEGEND);
    out
}

/// A watched program, as `trace` prints it.
pub fn trace(t: &TraceRecord) -> String {
    trace::screen(t, Style::of_stdout())
}

/// The slowest I/Os of a recording, each as a timeline in words; `file` is the recording's name.
pub fn explain(file: &str, e: &Explained) -> String {
    explain::screen(file, e, Style::of_stdout())
}

/// The I/Os that `e` holds, each as a timeline in words, below the screen of the trace that kept them.
pub fn slowest(e: &Explained) -> String {
    explain::ios(e, Style::of_stdout())
}

/// The stored runs, one a line.
pub fn list(runs: &[RunSummary]) -> String {
    run::list(runs, Style::of_stdout())
}

/// Writes to standard output. A reader that has gone away (`| head`) has seen what it wanted; a full disk is an error.
pub fn print(text: &str) -> Result<()> {
    print_on(text).map(drop)
}

/// As [`print`]; breaks off when the reader has gone away.
pub fn print_on(text: &str) -> Result<ControlFlow<()>> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(e) => Err(Error::machine("cannot write to standard output", "check where it leads").because(e)),
    }
}

/// Writes a line to standard error. Where even that fails nobody can be told, and the work goes on.
pub fn say(line: &str) {
    writeln!(std::io::stderr().lock(), "{line}").unwrap_or(());
}

/// Writes one JSON document and a line end to standard output.
pub fn print_json<T: serde::Serialize>(value: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Error::machine("cannot write the result as JSON", "report this with the command").because(e))?;
    print(&format!("{text}\n"))
}

#[cfg(test)]
mod tests;
