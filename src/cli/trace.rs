//! `iotrail trace`: watch a program of others'.
//!
//! Exit status: 0 watched; 1 a finding that `--fail-on` names is there; 2 and 3 as everywhere. The command's own status is in
//! the result.

use std::ffi::OsString;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::answer::diagnose;
use crate::error::Result;
use crate::experiment::interrupt;
use crate::load::options::Span;
use crate::report::terminal;
use crate::trace_record::TraceRecord;
use crate::watch::namespace::Namespace;
use crate::watch::session::{self, How, Progress, Stop};
use crate::watch::subject::{self, Asked};

#[derive(Debug, Args)]
#[command(override_usage = "iotrail trace [OPTIONS] <-- CMD [ARGS]... | -p TGID | -a>")]
pub struct TraceArgs {
    /// A process, with the children that it has and makes; may be given several times
    #[arg(short, long = "pid", value_name = "TGID", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    processes: Vec<u32>,

    /// Every process that uses io_uring
    #[arg(short, long)]
    all: bool,

    /// Watch for so long (seconds, or 500ms, 2m); a command is then asked to end (SIGTERM). Default: until the command or the
    /// processes have ended, or Ctrl-C
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    duration: Option<Duration>,

    /// Follow one request in N whole, for latencies, stages and order; 1: all, which costs about 0.3 µs each. Counts are of all
    /// requests whatever N is
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    one_in: u32,

    /// Exit with status 1 if the finding of this code is there; may be given several times
    #[arg(long, value_name = "CODE")]
    fail_on: Vec<String>,

    /// The result as JSON on standard output; the command's own standard output goes to standard error
    #[arg(long)]
    json: bool,

    /// The command to watch from its start, its children included
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// A number of seconds, or a span with its unit.
fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let span = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| format!("'{text}' is no span of time"))?,
        Err(_) => text.parse::<Span>()?.0,
    };
    if span.is_zero() { Err("nothing can be watched in no time".into()) } else { Ok(span) }
}

pub fn run(args: &TraceArgs) -> Result<u8> {
    let namespace = Namespace::of_this_process();
    let asked = subject::resolve(&args.command, &args.processes, args.all, namespace)?;
    let how = How { duration: args.duration, one_in: args.one_in, stdout_apart: args.json, namespace };
    let mut record = watch(asked, &how)?;
    record.findings = diagnose::findings(&record);
    match args.json {
        true => terminal::print_json(&record)?,
        false => terminal::print(&terminal::trace(&record))?,
    }
    Ok(u8::from(record.findings.iter().any(|f| args.fail_on.contains(&f.code))))
}

fn watch(asked: Asked, how: &How) -> Result<TraceRecord> {
    let stop = interrupt::raise_flag()?;
    // A command writes to the same terminal: a line that is drawn again and again would be in its way.
    let drawn = !matches!(asked, Asked::Command(_));
    let target = if drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    bar.set_style(ProgressStyle::with_template("{msg}").expect("a fixed template"));
    let stop = Stop { asked: &|| stop.load(Ordering::Relaxed), to_pass_on: &interrupt::sent_to_us_alone };
    let mut progress = |p: Progress| {
        let seconds = p.elapsed.as_secs_f64();
        bar.set_message(format!("watching: {seconds:.1} s, {} completions followed (Ctrl-C ends it)", p.followed));
    };
    let record = session::watch(asked, how, &mut progress, &stop);
    bar.finish_and_clear();
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_with_and_without_a_unit() {
        assert_eq!(seconds("5"), Ok(Duration::from_secs(5)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["0", "0s", "-1", "soon", "inf", "nan", "1e300"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
