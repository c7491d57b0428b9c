//! Text for a terminal, 80 columns wide. Colour is never the only sign of anything.

mod across;
mod bars;
mod bench;
mod cells;
mod compare;
mod explain;
mod fit;
mod fleet;
mod history;
pub(super) mod layout;
pub(super) mod measured;
mod net;
mod replay;
mod reproduce;
mod run;
pub(super) mod spent;
mod stalls;
mod style;
mod summary;
mod trace;
mod verdict;

use std::io::{IsTerminal as _, Write as _};
use std::ops::ControlFlow;

use iotrail_answer::explain::Explained;
use iotrail_answer::history::History;
use iotrail_answer::summary::measured::{Verdict, of_measurement};
use iotrail_answer::summary::{Head, of_comparisons};
use iotrail_answer::trace_comparison::TraceComparison;
use iotrail_answer::unit::Unit;
use iotrail_base::corruption::Corruption;
use iotrail_base::error::{Error, Result};
use iotrail_base::output;
use iotrail_base::plain::{self, Stream};
use iotrail_schema::comparison::Comparison;
use iotrail_schema::fleet_answer::FleetAnswer;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::net_record::ServedRecord;
use iotrail_schema::replay_record::ReplayRecord;
use iotrail_schema::reproduction::Reproduction;
use iotrail_schema::run_record::RunRecord;
use iotrail_schema::stall::{Capture, Stall};
use iotrail_schema::trace_record::TraceRecord;
use serde::Serialize;

pub(super) mod trace_words {
    //! Text of a trace that its page also uses.
    pub use super::trace::{subject, throughput};
}

pub use self::across::Across;
pub use self::fleet::list as fleets;
pub use self::layout::{Cell, Column, Screen, WIDTH};
pub use self::net::Seconds;
pub use self::reproduce::Reproduced;
pub use self::run::list;
pub use self::style::{Hue, Style};
pub use self::summary::View;
pub use self::trace::histogram::HistogramBy;
pub use self::trace::list as traces;
pub use iotrail_base::plain::{sanitise, say};

/// One measurement, for `bench`.
pub fn bench(m: &Measurement, full: bool) -> Screen {
    bench::screen(m, full, Style::of_stdout())
}

/// Data corruption: always the first line of a result.
pub fn corruption(found: &Corruption) -> Screen {
    let mut out = Screen::new(Style::of_stdout());
    run::corruption(&mut out, found);
    out
}

/// One network load measurement, for `net load` and `net bench`.
pub fn net(m: &Measurement, full: bool) -> Screen {
    net::screen(m, full, Style::of_stdout())
}

/// A server's summary, for `net serve` at exit.
pub fn served(record: &ServedRecord) -> Screen {
    net::served(record, Style::of_stdout())
}

/// A run's answer; with `--full` also one table per group of cells, and the conclusions.
pub fn run(run: &RunRecord, head: &Head, view: View<'_>) -> Screen {
    run::screen(run, head, view, Style::of_stdout())
}

/// The answer for one plan on several kernels; with `--full` also the differences in each cell, and the conclusions.
pub fn across(of: &Across<'_>, head: &Head, full: bool) -> Screen {
    across::screen(of, head, full, Style::of_stdout())
}

/// Comparisons, for `compare`: the answer, and the table if it is short or with `--full`.
pub fn comparisons(list: &[Comparison], unit: Unit, full: bool) -> Screen {
    let mut out = Screen::new(Style::of_stdout());
    let (answer, also) = of_comparisons(list, unit);
    out.heading(&answer);
    for (i, text) in also.iter().enumerate() {
        out.paragraph(if i == 0 { "  also  " } else { "        " }, text);
    }
    out.blank();
    if list.len() > compare::SHORT && !full {
        out.paragraph("", &format!("details of {} comparisons: --full", list.len()));
        return out;
    }
    compare::tables(&mut out, list);
    out.blank();
    out.paragraph("", compare::LEGEND);
    out
}

/// A fleet's answer; with `--full` also all comparisons and all machines.
pub fn fleet(answer: &FleetAnswer, unit: Unit, full: bool, store: &str) -> Screen {
    fleet::screen(answer, unit, full, store, Style::of_stdout())
}

/// A traced program, for `trace`.
pub fn trace(t: &TraceRecord, view: View<'_>) -> Screen {
    trace::stored(t, view, Style::of_stdout())
}

/// A recording's slowest I/Os, each as a timeline in words; `file`: the recording's name.
pub fn explain(file: &str, e: &Explained) -> Screen {
    explain::screen(file, e, Style::of_stdout())
}

/// The I/Os in `e`, each as a timeline in words, below the screen of the trace that kept them.
pub fn slowest(e: &Explained) -> Screen {
    explain::ios(e, Style::of_stdout())
}

/// Changes of an experiment's metrics over its runs; with `--full` all changes.
pub fn history(h: &History, full: bool) -> Screen {
    history::screen(h, full, Style::of_stdout())
}

/// A published study compared with measurements on this machine; with `--full` all figures.
pub fn reproduction(r: &Reproduction, how: Reproduced<'_>) -> Screen {
    reproduce::screen(r, how, Style::of_stdout())
}

/// Two traces compared; `again`: the command that prints the full comparison.
pub fn traces_compared(c: &TraceComparison, full: bool, again: &str) -> Screen {
    trace::compared::screen(c, full, again, Style::of_stdout())
}

/// A trace's latencies as text histograms.
pub fn trace_histogram(t: &TraceRecord, by: HistogramBy) -> Screen {
    trace::histogram::screen(t, by, Style::of_stdout())
}

/// A replayed recording.
pub fn replay(r: &ReplayRecord, full: bool) -> Screen {
    replay::screen(r, full, Style::of_stdout())
}

/// Stalls captured by the monitor, newest first.
pub fn stalls(all: &[Stall], now_unix_s: u64, full: bool) -> Screen {
    stalls::list(all, now_unix_s, full, Style::of_stdout())
}

/// One capture.
pub fn capture(c: &Capture, now_unix_s: u64, full: bool) -> Screen {
    stalls::one(c, now_unix_s, full, Style::of_stdout())
}

/// Draws progress on standard error if it is a terminal with cursor control.
pub fn progress_target() -> indicatif::ProgressDrawTarget {
    match Style::moves_cursor() {
        true => indicatif::ProgressDrawTarget::stderr(),
        false => indicatif::ProgressDrawTarget::hidden(),
    }
}

/// Writes a screen to standard output. EPIPE (`| head`) is not an error; a full disk is.
pub fn show(screen: &Screen) -> Result<()> {
    show_on(screen).map(drop)
}

/// Same as [`show`], but breaks on EPIPE.
pub fn show_on(screen: &Screen) -> Result<ControlFlow<()>> {
    write(&plain::for_locale(screen.as_str(), Stream::Stdout))
}

/// Writes machine-readable output to standard output, unmodified.
pub fn print(text: &str) -> Result<()> {
    print_on(text).map(drop)
}

/// Same as [`print`], but breaks on EPIPE. On a terminal, control characters are escaped.
pub fn print_on(text: &str) -> Result<ControlFlow<()>> {
    match std::io::stdout().is_terminal() {
        true => {
            write(&plain::for_locale(&text.split('\n').map(sanitise).collect::<Vec<_>>().join("\n"), Stream::Stdout))
        }
        false => write(text),
    }
}

/// Writes trusted text: coloured help and shell completions.
pub fn print_ours(text: &str) -> Result<()> {
    write(&plain::for_locale(text, Stream::Stdout)).map(drop)
}

fn write(text: &str) -> Result<ControlFlow<()>> {
    plain::stdout_is_open()?;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(e) => Err(output::stdout_refused(e)),
    }
}

/// Writes one JSON document and a newline to standard output.
pub fn print_json<T: Serialize>(value: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(no_json)?;
    print(&(plain::json_shown(text) + "\n"))
}

/// Writes a measurement as JSON, including the first lines of its screen.
pub fn print_measurement(m: &Measurement) -> Result<()> {
    print_with_head(m, m)
}

/// Writes a value as JSON, including the first lines of this measurement's screen.
pub fn print_with_head<T: Serialize>(value: &T, m: &Measurement) -> Result<()> {
    print_json(&with_head(value, m))
}

/// Writes several measurements as one JSON list.
pub fn print_measurements(all: &[Measurement]) -> Result<()> {
    print_json(&all.iter().map(|m| with_head(m, m)).collect::<Vec<_>>())
}

#[derive(Serialize)]
struct WithHead<'a, T> {
    #[serde(flatten)]
    value: &'a T,
    head: FirstLines,
}

/// The first lines of a measurement's screen.
#[derive(Serialize)]
struct FirstLines {
    /// The answer in one sentence, with its number.
    answer: String,
    /// The remedy; null: there is none.
    #[serde(rename = "do")]
    advice: Option<String>,
    /// Further findings.
    also: Vec<String>,
}

fn with_head<'a, T>(value: &'a T, m: &Measurement) -> WithHead<'a, T> {
    let Verdict { answer, advice, others, .. } = of_measurement(m);
    let also = others.into_iter().map(|finding| finding.text).collect();
    WithHead { value, head: FirstLines { answer, advice, also } }
}

/// Same as [`print_json`] on a single line, but breaks on EPIPE.
pub fn print_json_line<T: Serialize>(value: &T) -> Result<ControlFlow<()>> {
    let text = serde_json::to_string(value).map_err(no_json)?;
    print_on(&(plain::json_shown(text) + "\n"))
}

fn no_json(e: serde_json::Error) -> Error {
    Error::machine("cannot write the result as JSON", "report this with the command").because(e)
}

#[cfg(test)]
mod tests;
