//! One file per command: arguments → one call → one printer.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, Parser, Subcommand};

use iotrail_experiment::given::OptionValues;

use iotrail_base::error::{self, Error, Result};
use iotrail_base::ourselves;
use iotrail_base::units::Span;
use iotrail_host::limits;
use iotrail_report::terminal::{self, Style};

pub mod advise;
pub mod bench;
pub mod check;
pub mod compare;
pub mod completions;
pub mod explain;
pub mod export;
pub mod fleet;
mod given;
pub mod lab;
pub mod list;
pub mod manual;
pub mod monitor;
pub mod net;
mod page_file;
mod profile;
mod program;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod restore;
pub mod run;
mod slurm;
pub mod stalls;
mod stored_trace;
pub mod top;
pub mod trace;
pub mod track;
pub mod r#try;

/// Printed by `iotrail` without a command.
const BEGIN: &str = "Usage: iotrail <COMMAND>

iotrail traces each asynchronous I/O from submission to the application.
  iotrail check               what iotrail can and cannot see here
  iotrail trace -- COMMAND    where a program's I/O time goes, and what to change
  iotrail run coop --quick    a two-minute experiment, and its answer
  iotrail bench --rw nop      a load that needs no device

All commands: iotrail --help; one command: iotrail COMMAND --help";

/// Traces asynchronous I/O from submission until the application has the result.
#[derive(Debug, Parser)]
#[command(
    name = "iotrail",
    version,
    subcommand_value_name = "COMMAND",
    max_term_width = 100,
    after_help = "First steps:
  iotrail check               what iotrail can and cannot see here
  iotrail bench --rw nop      a load that needs no device
  iotrail run coop --quick    a two-minute experiment, and its answer
  iotrail trace -- COMMAND    how completions reach a program
\nExit status: 0 success (trace -- COMMAND: the command's own), 1 a --fail-on condition is met,
  or a run was interrupted,
  2 usage error or invalid input, 3 the machine does not allow it,
  4 a gate (--fail-on) could not be evaluated,
  5 data corruption, 70 a bug in iotrail."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what this machine and your privileges allow, what is missing, and how to enable it
    Check(check::CheckArgs),
    /// Measure one load: throughput, latency, and how completions were delivered
    Bench(Box<bench::BenchArgs>),
    /// Run an experiment (built-in or from a TOML file), store it, and print its answer
    Run(run::RunArgs),
    /// Compare runs, cells, traces, JSON files or fleets: ratio, interval, verdict
    Compare(compare::CompareArgs),
    /// Find level shifts in metrics across an experiment's stored runs, and what changed with them
    Track(track::TrackArgs),
    /// Run a published study's experiments on this machine, and compare the results with its figures
    Reproduce(reproduce::ReproduceArgs),
    /// Group runs from several machines into a fleet, and report what holds on all of them
    Fleet(fleet::FleetArgs),
    /// Show a stored run or trace: the answer, all sections (--full), or an HTML page (-o)
    Report(report::ReportArgs),
    /// Trace any program: where its I/O time goes, how completions are delivered, what to change
    Trace(trace::TraceArgs),
    /// Run an unmodified program with different ring flags and settings, in interleaved blocks
    Try(Box<r#try::TryArgs>),
    /// Replay a recorded program's I/O with a different engine, ring setup, batch size or depth
    Replay(Box<replay::ReplayArgs>),
    /// Find the best legal configuration for a program or a load, and confirm it
    Advise(Box<advise::AdviseArgs>),
    /// Show the activity of each process and ring, every second
    Top(top::TopArgs),
    /// Monitor programs continuously within a budget: metrics, and stalls with their causes
    Monitor(Box<monitor::MonitorArgs>),
    /// List the stalls captured by the monitor, or show one
    Stalls(stalls::StallsArgs),
    /// Measure a network load: a server, and a sender that verifies every response
    Net(net::NetArgs),
    /// Run a command in a virtual machine: another kernel, NVMe drives, chosen queue counts
    Lab(lab::LabArgs),
    /// List experiments, stored runs and stored traces
    List(list::ListArgs),
    /// Restore host settings left changed by a killed run
    Restore(restore::RestoreArgs),
    /// Show where the slowest I/Os of a recording or trace waited, as timelines
    Explain(explain::ExplainArgs),
    /// Export a run or recording: JSON, CSV, Parquet, fio's JSON, HdrHistogram, Perfetto
    Export(export::ExportArgs),
    /// Print a shell completion script
    Completions(completions::CompletionsArgs),
    /// Write the manual pages to a directory
    Man(manual::ManArgs),
    /// On a Slurm node: run the submitted measurement, and send its result
    #[command(hide = true)]
    SlurmNode(iotrail_cluster::on_node::NodeArgs),
}

/// Exit status: 0 done; 1 a finding or comparison matches --fail-on; 2 usage error; 3 the machine does not permit it; 4
/// a gate could not be evaluated; 5 data corruption; 70 an error in iotrail.
pub fn main() -> ExitCode {
    if let Some(found) = completions::candidates::asked(std::env::args_os()) {
        // A shell is completing a command line, so an error would have no reader.
        return terminal::print_ours(&found).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    std::panic::set_hook(Box::new(|panic| {
        // The first line asks for a bug report; the location follows, and with RUST_BACKTRACE the stack.
        let at = panic.location().map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
        let said = error::panic_text(panic.payload());
        terminal::say(&format!("iotrail: {}", Error::internal(format!("panic{at}: {said}"))));
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|v| v != "0") {
            terminal::say(&std::backtrace::Backtrace::force_capture().to_string());
        }
    }));
    limits::raise();
    // Another iotrail process reads the result.
    let is_asked = ourselves::is_asked();
    let mut args: Vec<OsString> = std::env::args_os().collect();
    if is_asked {
        args.remove(1);
    }
    let result = match Cli::try_parse_from(&args) {
        Ok(cli) => {
            if !matches!(cli.command, Command::Restore(_))
                && let Some(notice) = iotrail_settings::notice()
            {
                terminal::say(&format!("iotrail: {notice}"));
            }
            catch_unwind(AssertUnwindSafe(|| dispatch(&cli.command)))
                .unwrap_or_else(|payload| Err(Error::of_panic("the main thread", payload.as_ref())))
        }
        Err(e) => told_by_parser(&e, args.get(1..).unwrap_or_default()),
    };
    let status = result.as_ref().map_or_else(Error::exit_status, |status| *status);
    match result {
        error if is_asked => ourselves::report(Some(status), error.err()),
        Ok(_) => {}
        Err(e) => terminal::say(&format!("iotrail: {e}")),
    }
    ExitCode::from(status)
}

fn dispatch(command: &Command) -> Result<u8> {
    match command {
        Command::Check(args) => check::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Run(args) => run::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Track(args) => track::run(args),
        Command::Reproduce(args) => reproduce::run(args),
        Command::Fleet(args) => fleet::run(args),
        Command::Report(args) => report::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Top(args) => top::run(args),
        Command::Monitor(args) => monitor::run(args),
        Command::Stalls(args) => stalls::run(args),
        Command::Try(args) => r#try::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Net(args) => net::run(args),
        Command::Lab(args) => lab::run(args),
        Command::List(args) => list::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Export(args) => export::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => manual::run(args),
        Command::SlurmNode(args) => iotrail_cluster::on_node::run(args),
    }
}

/// Parses one of these names to its value.
fn one_of<T: Copy + Send + Sync + 'static>(names: &'static [(&'static str, T)]) -> impl TypedValueParser<Value = T> {
    let value = move |name: String| names.iter().find(|(known, _)| *known == name).expect("a possible value").1;
    PossibleValuesParser::new(names.iter().map(|(name, _)| *name)).map(value)
}

/// Parses a process ID.
fn process(text: &str) -> std::result::Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("'{text}' is not a process ID (`pgrep NAME` prints the IDs of a program)")),
        Ok(number) => Ok(number),
    }
}

/// Parses a number of seconds, or a time with a unit.
fn seconds(text: &str) -> std::result::Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| format!("'{text}' is not a time")),
        Err(_) => Ok(text.parse::<Span>()?.0),
    }
}

/// The same, above 0.
fn duration(text: &str) -> std::result::Result<Duration, String> {
    let span = seconds(text)?;
    if span.is_zero() { Err("the time must be above 0".into()) } else { Ok(span) }
}

/// Help and version are answers; everything else from the parser is a usage error, printed on one line like other
/// errors. `words`: the first arguments, which may name a command and a subcommand.
fn told_by_parser(e: &clap::Error, words: &[OsString]) -> Result<u8> {
    match e.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let colour = Style::of_stdout().colour;
            let text = if colour { e.render().ansi().to_string() } else { e.render().to_string() };
            terminal::print_ours(&text)?;
            Ok(0)
        }
        // Without a command, the list of commands is the best answer, but it is not a success.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            match words.first() {
                None => BEGIN.lines().for_each(terminal::say),
                Some(_) => e.render().to_string().trim_end().lines().for_each(terminal::say),
            }
            Ok(2)
        }
        _ => {
            let command = named(words);
            Err(wrong_use(&e.render().to_string(), command.as_deref()))
        }
    }
}

/// The command named by these words: `run`, `net bench`.
fn named(words: &[OsString]) -> Option<String> {
    let all = Cli::command();
    let command = all.find_subcommand(words.first()?)?;
    let within = words.get(1).and_then(|word| command.find_subcommand(word));
    Some(within.map_or_else(|| command.get_name().to_owned(), |c| format!("{} {}", command.get_name(), c.get_name())))
}

/// The parser's message without its layout: the error, followed by its tip or a reference to the help of `command`.
fn wrong_use(text: &str, command: Option<&str>) -> Error {
    let mut what: Vec<&str> = Vec::new();
    let mut tip = None;
    // The usage may have several lines, and only the parser's last line follows it.
    let said = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage: "));
    for line in said.filter(|l| !l.is_empty()) {
        if let Some(rest) = line.strip_prefix("tip: ") {
            // A word after `--` would belong to a program.
            if !rest.starts_with("to pass '") {
                tip.get_or_insert(rest);
            }
        } else if !line.starts_with("For more information") {
            what.push(line.strip_prefix("error: ").unwrap_or(line));
        }
    }
    let what_is_wrong = what.join(" ");
    // A program's name without a preceding `--`.
    let program = what_is_wrong.strip_prefix("unexpected argument '").and_then(|rest| rest.split_once("' found"));
    if let (Some("trace"), Some((program, _))) = (command, program)
        && !program.starts_with('-')
    {
        return Error::input(what_is_wrong.clone(), format!("did you mean `iotrail trace -- {program}`?"));
    }
    let command = command.map_or_else(String::new, |c| format!(" {c}"));
    Error::input(what.join(" "), tip.map_or(format!("see `iotrail{command} --help`"), str::to_owned))
}

/// The options that were specified on the command line, with their values as written.
fn on_the_command_line(options: clap::Command, matches: &ArgMatches) -> Vec<OptionValues> {
    let is_given = |arg: &&clap::Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let given = |arg: &clap::Arg| {
        let values = matches.get_raw(arg.get_id().as_str())?;
        let values = values.map(|v| v.to_string_lossy().into_owned()).collect();
        Some(OptionValues { name: arg.get_long()?.to_owned(), values })
    };
    options.get_arguments().filter(is_given).filter_map(given).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(args: &[&str]) -> String {
        let e = Cli::try_parse_from(args).unwrap_err();
        let words: Vec<OsString> = args.iter().skip(1).map(Into::into).collect();
        told_by_parser(&e, &words).unwrap_err().to_string()
    }

    #[test]
    fn a_usage_error_is_one_line_with_a_pointer_to_the_help() {
        assert_eq!(
            line(&["iotrail", "bench", "--engine", "foo"]),
            "invalid value 'foo' for '--engine <ENGINE>' \
             [possible values: io_uring, libaio, posix_aio, sync, null, io_uring_cmd, nvme_user]; see `iotrail bench --help`"
        );
        assert_eq!(
            line(&["iotrail", "bench", "--dept", "3"]),
            "unexpected argument '--dept' found; a similar argument exists: '--depth'"
        );
        assert_eq!(
            line(&["iotrail", "trace", "firefox"]),
            "unexpected argument 'firefox' found; did you mean `iotrail trace -- firefox`?"
        );
        assert!(line(&["iotrail", "trace", "-p", "abc"]).contains("'abc' is not a process ID"));
        assert_eq!(
            line(&["iotrail", "run"]),
            "the following required arguments were not provided: <EXPERIMENT>; see `iotrail run --help`"
        );
        let of_two = line(&["iotrail", "net", "bench", "--runtime", "5"]);
        assert!(of_two.ends_with("; see `iotrail net bench --help`"), "{of_two}");
        assert_eq!(
            line(&["iotrail", "bench", "--runtime", "5"]),
            "invalid value '5' for '--runtime <TIME>': '5' has no unit of time: write 5s or 5ms; see `iotrail bench --help`"
        );
    }
}
