//! `iotrail trace`: traces a program.
//!
//! Exit status: the command's own (128 + signal if a signal killed it; 0 if iotrail stopped it after --duration); 0
//! without a command. The following take precedence: 1 if a finding matches `--fail-on` or a limit of `--expect` is
//! broken, 4 if neither can be evaluated; 2 and 3 as for all commands.

mod expect;
mod stored;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use self::expect::{Budget, ExpectArgs, busy_cpus};
use self::stored::{SLOWEST, Storing};
use crate::cli::duration;
use crate::cli::profile::ProfileArgs;
use crate::cli::stored_trace::PrintedTrace;
use iotrail_answer::budget::{self, JudgedLimit};
use iotrail_answer::diagnose;
use iotrail_answer::explain::{Explained, ExplainedIo, Selection, explain};
use iotrail_answer::summary::measured::of_trace;
use iotrail_base::error::{Error, NOT_EVALUATED, Result};
use iotrail_base::interrupt;
use iotrail_base::output::{self, Existing, Reserved};
use iotrail_base::words;
use iotrail_path::slowest::By;
use iotrail_probe::choice::Choice;
use iotrail_report::terminal::{self, HistogramBy, View};
use iotrail_schema::recorded::Ending;
use iotrail_schema::state::Moment;
use iotrail_schema::trace_record::{EndedBy, Subject, TraceRecord};
use iotrail_scrape::{self as scrape, Server};
use iotrail_store::named;
use iotrail_watch::capture::{Captured, ForReplay};
use iotrail_watch::namespace::Numbers;
use iotrail_watch::recorder::{Flight, Keep};
use iotrail_watch::session::{self, Extra, News, Options, Stop, Traced, Until};
use iotrail_watch::subject::{self, Target};
use iotrail_watch::windows::Windows;

/// Ten seconds are traced exactly; a longer trace should not disturb the program.
const LIGHT_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
#[command(override_usage = "iotrail trace [OPTIONS] <-- CMD [ARGS]... | -p TGID | -a>")]
pub struct TraceArgs {
    /// Trace this process and its descendants, including later ones; may be repeated
    #[arg(short, long = "pid", value_name = "TGID", allow_negative_numbers = true, value_parser = crate::cli::process)]
    processes: Vec<u32>,

    /// Trace every process that uses io_uring, native aio or POSIX AIO
    #[arg(short, long)]
    all: bool,

    /// Stop after this time (seconds, or 500ms, 2m); a command is then sent SIGTERM (default: until the command or the processes exit, or
    /// Ctrl-C)
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = duration)]
    duration: Option<Duration>,

    /// Stop when the last background process of the command exits (last), or when the command itself exits (command). iotrail does not signal
    /// the remaining processes
    #[arg(long, value_name = "WHAT", value_enum, default_value = "last", requires = "command")]
    until: UntilArg,

    /// Trace 1 in N requests end to end, for latencies, stages and order (1: all, about 0.3 µs each); counts cover all requests. Default: all
    /// up to 20,000 per second per CPU, then 1 in 100; all with --record, --slowest or --windows
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    one_in: Option<u32>,

    /// Count everything throughout the trace. By default, if counting system calls, device interrupts and block-layer stages costs the program
    /// more than 3 % of its CPU time, they are sampled in 5 ms windows, eight per second; estimates are printed as ~16.2, or as – if their
    /// interval is wide.
    /// --one-in, --record, --slowest, --windows and --metrics imply --exact
    #[arg(long)]
    exact: bool,

    /// Trace everything for this long, then in windows of 10 to 500 ms if the probes cost the program more than 3 % of its CPU time. Window
    /// counts are extrapolated to the time between windows, and estimates are marked (default: 10s; never with --profile, --exact or an option
    /// that implies --exact)
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["exact", "windows", "one_in", "record", "slowest", "metrics", "profile"])]
    light_after: Option<Duration>,

    /// Attach the probes for OPEN in every PERIOD, at a random offset (10ms/1s: 1 % of the time); this reduces the overhead, and counts cover
    /// only these windows
    #[arg(long, value_name = "OPEN/PERIOD", conflicts_with = "profile")]
    windows: Option<Windows>,

    /// Record every traced request to FILE, for `iotrail explain` and `iotrail export`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Record offsets, calls and think times for `iotrail replay` instead of traced requests (with --record); 16 to 48 bytes per request
    #[arg(long, requires = "record", conflicts_with_all = ["all", "slowest", "windows", "one_in"])]
    for_replay: bool,

    /// Replace the paths in the recording with numbers, but keep their extensions (with --for-replay)
    #[arg(long, requires = "for_replay")]
    anonymise: bool,

    /// Overwrite existing --record, --flamegraph and --folded files
    #[arg(long)]
    force: bool,

    /// Keep the K slowest requests in memory and print each as a timeline at the end, as `iotrail explain` does; --record then stores only
    /// these
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    slowest: Option<u32>,

    #[command(flatten)]
    profile: ProfileArgs,

    /// Sample user stacks of submissions, sleeps, system calls and CPU time, so that findings and exceeded --expect limits name call sites.
    /// Implied by --expect
    #[arg(long)]
    call_sites: bool,

    /// Print the cost of each probe as measured by the kernel; measuring it adds about 20 ns per probe run
    #[arg(long)]
    cost: bool,

    /// Serve OpenMetrics or Prometheus text at http://ADDR/metrics while tracing: an address and port, or only a port (on the loopback
    /// address); port 0 selects a free port and prints it
    #[arg(long, value_name = "ADDR", value_parser = scrape::address, conflicts_with = "windows")]
    metrics: Option<scrape::Address>,

    /// Exit 1 if this finding is present; may be repeated. docs/formats.md, "The findings", lists their conditions (errors: a request failed
    /// with any errno, or a read, write or sync call failed other than with EAGAIN or EINTR; short_reads: 5 % of 100
    /// or more reads returned fewer bytes than requested)
    #[arg(long, value_name = "CODE", value_parser = PossibleValuesParser::new(codes()))]
    fail_on: Vec<String>,

    /// Print all sections, not only the answer
    #[arg(long, conflicts_with = "json")]
    full: bool,

    /// Print the result as JSON; the command's standard output is redirected to standard error
    #[arg(long)]
    json: bool,

    /// Print the latencies of the traced requests as histograms
    #[arg(long, conflicts_with = "json")]
    hist: bool,

    /// Group the histograms by opcode or by delivery path
    #[arg(long, value_name = "BY", value_enum, default_value = "opcode", requires = "hist")]
    hist_by: HistogramArg,

    #[command(flatten)]
    budget: ExpectArgs,

    /// Do not store the trace (default: it is stored, and `iotrail report` prints it again)
    #[arg(long)]
    no_store: bool,

    /// Store the trace here (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH", conflicts_with = "no_store")]
    store: Option<PathBuf>,

    /// Store only the command's name, without its arguments (the paths of traced files are stored)
    #[arg(long, conflicts_with = "no_store")]
    redact: bool,

    /// Command to trace from its start, including its children
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HistogramArg {
    Opcode,
    Path,
}

impl HistogramArg {
    pub fn show(self, record: &TraceRecord) -> Result<()> {
        let by = match self {
            HistogramArg::Opcode => HistogramBy::Opcode,
            HistogramArg::Path => HistogramBy::Path,
        };
        terminal::show(&terminal::trace_histogram(record, by))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UntilArg {
    Last,
    Command,
}

fn codes() -> impl Iterator<Item = &'static str> {
    diagnose::RULES.iter().filter(|rule| rule.is_of_traces()).map(|rule| rule.code)
}

pub fn run(args: &TraceArgs) -> Result<u8> {
    let existing = Existing::forced(args.force);
    if let Some(path) = &args.budget.expect_save {
        return save_budget(args, path, existing);
    }
    let numbers = Rc::new(Numbers::of_this_process()?);
    let asked = subject::resolve(&args.command, &args.processes, args.all, &numbers)?;
    let budget = Budget::read(&args.budget, existing)?;
    let files = args.profile.files(existing)?;
    let mut keep = Keep {
        file: args.record.clone().map(|path| (path, existing)),
        slowest: args.slowest.map(|k| k as usize),
        for_replay: args.for_replay.then_some(ForReplay { anonymise: args.anonymise }),
    };
    let choice = match args.one_in {
        Some(one_in) => Choice::fixed(one_in),
        None if !args.for_replay && (keep.any() || args.windows.is_some()) => Choice::fixed(1),
        None => Choice::adaptive(100),
    };
    // Before loading or storing anything, so that an address in use is reported first.
    let server = args.metrics.clone().map(Server::start).transpose()?;
    let begin = || Storing::begin(args.store.as_deref(), &subject_of(&asked), args.redact, args.record.as_deref());
    let (mut storing, not_stored) = match (!args.no_store).then(begin).transpose() {
        Ok(storing) => (storing, None),
        Err(e) => (None, Some(e)),
    };
    if storing.is_some() && !keep.any() {
        keep.slowest = Some(SLOWEST);
    }
    let is_exact = args.exact || budget.is_some();
    let spare = choice.adaptive && !is_exact && args.metrics.is_none();
    let sampling = args.profile.sampling();
    let light_after = Some(args.light_after.unwrap_or(LIGHT_AFTER)).filter(|_| spare && sampling.is_none());
    let checkpoints = storing.is_some();
    let how = Options { spare, light_after, checkpoints, ..every_event(args, choice, numbers) };
    if let Some(server) = &server {
        terminal::say(&format!("metrics: http://{}/metrics", server.at()));
    }
    let metrics = server.as_ref().map(|server| Arc::clone(server.desk()));
    let extra = Extra { keep, sampling, cost: args.cost, metrics };
    let traced = watch(asked, &how, &extra, storing.as_mut());
    let Traced { mut record, mut kept, samples } = match traced {
        Ok(traced) => traced,
        Err(e) => {
            storing.into_iter().for_each(Storing::forget);
            return Err(e);
        }
    };
    // If the trace fails, its error is the only line.
    not_stored.iter().for_each(stored::warn);
    record.findings = diagnose::findings(&record);
    let captured = kept.as_mut().and_then(|kept| Some((kept.captured.take()?, kept.file.take()?)));
    let (file, slowest) = kept.map_or((None, None), |kept| (kept.file.map(|f| (f, kept.completions)), kept.slowest));
    let id = storing.and_then(|storing| storing.end(&record, &of_trace(&record).answer, slowest.as_ref()));
    let slowest = slowest.filter(|_| args.slowest.is_some()).map(told).transpose()?;
    let judged = budget.as_ref().map(|budget| budget.judge(&record));
    match args.json {
        true => {
            let slowest = slowest.as_ref().map(|e| &e.ios[..]);
            let trace = PrintedTrace { trace: id.as_deref(), record: &record };
            terminal::print_json(&Printed { trace, slowest, budget: judged.as_deref() })?;
        }
        false => {
            let again = id.as_ref().map(|id| format!("iotrail report {id}{}", named(args.store.as_deref())));
            // Separates the answer from the command's own output.
            if std::io::stdout().is_terminal() && matches!(record.subject, Subject::Command { .. }) {
                terminal::print("\n")?;
            }
            terminal::show(&terminal::trace(
                &record,
                View { full: args.full, again: again.as_deref().unwrap_or_default() },
            ))?;
            if args.hist {
                args.hist_by.show(&record)?;
            }
            slowest.as_ref().map_or(Ok(()), |e| terminal::show(&terminal::slowest(e)))?;
        }
    }
    if let Some(judged) = judged.as_ref().filter(|_| !args.json) {
        terminal::print(&(expect::lines(judged).join("\n") + "\n"))?;
    }
    // Report a file that could not be written after all other output.
    if let Some(how) = &record.total.cpu_samples {
        files.write(&samples, how)?;
    }
    if let Some((file, completions)) = file {
        let (path, length) = file?;
        let what = words::plural(completions as usize, "completion");
        terminal::say(&format!("{}: {what} recorded, {}", path.display(), words::bytes(length)));
        if completions == 0 && record.total.ios > 0 {
            terminal::say(
                "iotrail: warning: completions were counted, but none was recorded: only io_uring requests can be recorded",
            );
        }
    }
    if let Some((captured, file)) = captured {
        let (path, length) = file?;
        captured_lines(&captured, &path, length).iter().for_each(|line| terminal::say(line));
    }
    if let (Some(budget), Some(judged)) = (budget, &judged) {
        budget.write(judged)?;
    }
    let status = judged.as_deref().and_then(budget::status);
    if status == Some(1) {
        return Ok(1);
    }
    if args.fail_on.iter().any(|code| diagnose::is_present(&record, code)) {
        return Ok(1);
    }
    if let Some(status) = status {
        return Ok(status);
    }
    if !args.fail_on.is_empty() && record.total.probe.completions_seen.unwrap_or(0) == 0 {
        terminal::say(
            "iotrail: cannot gate on findings: no completion was traced; let the program do asynchronous I/O during the trace",
        );
        return Ok(NOT_EVALUATED);
    }
    if let Some((code, why)) = args.fail_on.iter().find_map(|code| Some((code, diagnose::unjudged(&record, code)?))) {
        terminal::say(&format!("iotrail: cannot gate on {code}: {why}"));
        return Ok(NOT_EVALUATED);
    }
    let by_us = record.ended_by == Some(EndedBy::Duration);
    Ok(if by_us { 0 } else { commands_own(&record.subject) })
}

/// Describes a recording for replay: its counts and losses.
fn captured_lines(captured: &Captured, path: &Path, length: u64) -> Vec<String> {
    let Captured { requests, calls, syncs, uncaptured } = *captured;
    let of = |n: u64, what: &str| words::plural(n as usize, what);
    let all = [of(requests, "request"), of(calls, "call"), of(syncs, "synchronous call")].join(", ");
    let mut lines = vec![format!("{}: {all} recorded, {}", path.display(), words::bytes(length))];
    let doubts = [
        (uncaptured.lost, "event", "lost: the ring buffer was full"),
        (uncaptured.narrow_calls, "call", "not captured: a 32-bit program made them"),
    ];
    lines.extend(
        doubts.into_iter().filter(|(n, ..)| *n > 0).map(|(n, what, why)| {
            format!("iotrail: warning: {} {why}; counts of a replay are lower bounds", of(n, what))
        }),
    );
    if requests + syncs == 0 {
        lines.push(
            "iotrail: warning: no request and no read, write or sync of a file was observed: there is nothing to replay"
                .into(),
        );
    }
    lines
}

/// Traces every event, with exact counts.
fn every_event(args: &TraceArgs, choice: Choice, numbers: Rc<Numbers>) -> Options {
    Options {
        duration: args.duration,
        choice,
        windows: args.windows,
        stdout_apart: args.json,
        prepare: None,
        tell_counts: false,
        until: match args.until {
            UntilArg::Last => Until::Last,
            UntilArg::Command => Until::Command,
        },
        spare: false,
        light_after: None,
        checkpoints: false,
        stacks: args.call_sites || args.budget.expect.is_some(),
        numbers,
    }
}

/// `--expect-save`: every second run shares its CPUs with busy processes.
fn save_budget(args: &TraceArgs, path: &Path, existing: Existing) -> Result<u8> {
    let file = Reserved::new(path, existing, "--expect-save")?.apart()?;
    let mut records = Vec::new();
    for run in 1..=args.budget.expect_runs {
        let numbers = Rc::new(Numbers::of_this_process()?);
        let asked = subject::resolve(&args.command, &[], false, &numbers)?;
        let how = every_event(args, Choice::adaptive(100), numbers);
        let busy = run.is_multiple_of(2).then(busy_cpus).transpose()?;
        let with = if busy.is_some() { ", alongside busy processes" } else { "" };
        terminal::say(&format!("run {run} of {}{with}", args.budget.expect_runs));
        let traced = watch(asked, &how, &Extra::default(), None)?;
        drop(busy);
        if interrupt::raise_flag()?.load(Ordering::Relaxed) {
            terminal::say(&format!("interrupted in run {run} of {}; no budget was saved", args.budget.expect_runs));
            return Ok(1);
        }
        let status = commands_own(&traced.record.subject);
        let by_us = traced.record.ended_by == Some(EndedBy::Duration);
        if by_us || status != 0 {
            let why = if by_us { "was stopped".to_owned() } else { format!("exited with status {status}") };
            return Err(Error::machine(
                format!("cannot save a budget: run {run} {why}"),
                "let CMD exit by itself with status 0",
            ));
        }
        records.push(traced.record);
    }
    let command: Vec<_> = args.command.iter().map(|arg| arg.to_string_lossy()).collect();
    output::write(file, budget::saved(&records, &command.join(" ")).as_bytes())?;
    terminal::say(&format!("{}: use it with iotrail trace --expect", output::shown(path)));
    Ok(0)
}

/// The command's own exit status, as with `env` and `strace`.
fn commands_own(subject: &Subject) -> u8 {
    let Subject::Command { exit_status: Some(status), .. } = subject else { return 0 };
    u8::try_from(*status).unwrap_or(u8::MAX)
}

/// The subject before tracing starts.
fn subject_of(target: &Target) -> Subject {
    match target {
        Target::Command(argv) => {
            let argv = argv.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
            Subject::Command { argv, exit_status: None }
        }
        Target::Processes(processes) => match processes.as_slice() {
            [one] => Subject::Process { tgid: one.tgid, comm: one.comm.clone(), descendants: 0 },
            several => Subject::Processes { tgids: several.iter().map(|p| p.tgid).collect(), descendants: 0 },
        },
        Target::Everyone => Subject::All,
    }
}

/// The record, and the requested additions.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    trace: PrintedTrace<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slowest: Option<&'a [ExplainedIo]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<&'a [JudgedLimit]>,
}

/// Explains the requests kept in memory, in the form of a recording.
fn told(flight: Flight) -> Result<Explained> {
    let all = Selection { slowest: flight.entries.len(), by: By::Latency, ring: None, opcode: None, failed: false };
    let end = Ending::Whole(Box::new(flight.end));
    explain(flight.header, flight.entries.into_iter().map(Ok), |_| end, &all)
}

fn watch(asked: Target, how: &Options, extra: &Extra, storing: Option<&mut Storing>) -> Result<Traced> {
    let mut storing = storing;
    let stop = interrupt::raise_flag()?;
    // A command writes to the same terminal, so a redrawn line would disturb its output.
    let drawn = !matches!(asked, Target::Command(_));
    let target = if drawn { terminal::progress_target() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    bar.set_style(ProgressStyle::with_template("{msg}").expect("a fixed template"));
    let stop = Stop { asked: &|| stop.load(Ordering::Relaxed), to_pass_on: &interrupt::sent_to_us_alone };
    let name = match &asked {
        Target::Command(argv) => argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        Target::Processes(processes) => match processes.as_slice() {
            [one] => format!("{} ({})", one.comm, one.tgid),
            several => format!("{} processes", several.len()),
        },
        Target::Everyone => "all programs".into(),
    };
    let mut tell = |news: News<'_>| match news {
        News::Now(moment) => bar.suspend(|| now(moment)),
        News::Goes(p) => {
            let seconds = p.elapsed.as_secs_f64();
            bar.set_message(format!("tracing: {seconds:.1} s, {} completions traced (Ctrl-C ends it)", p.followed));
        }
        News::Begins { descendants } => {
            bar.suspend(|| terminal::say(&format!("watching {name}{}", words::and_descendants(descendants))));
        }
        News::Left { status, left } => terminal::say(&format!(
            "{name} has ended (status {status}); still tracing {}; --until command stops here, Ctrl-C stops now",
            left.words()
        )),
        News::Checkpoint(record) => {
            if let Some(storing) = &mut storing {
                storing.checkpoint(*record);
            }
        }
    };
    let record = session::watch(asked, how, extra, &mut tell, &stop);
    bar.finish_and_clear();
    record
}

/// Prints the state of the specified processes before tracing, if their rings make no progress.
fn now(moment: &Moment) {
    let lines = diagnose::state::now(moment);
    let Some(still_ns) = moment.still_ns.filter(|ns| *ns > 0 && !lines.is_empty()) else { return };
    terminal::say(&format!("no ring took a request or posted a completion for {}:", words::span(still_ns as f64)));
    lines.iter().for_each(|line| terminal::say(&format!("  {line}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_and_without_a_unit() {
        assert_eq!(duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["0", "0s", "-1", "soon", "inf", "nan", "1e300"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
