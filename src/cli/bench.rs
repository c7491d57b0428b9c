//! `iotrail bench`: runs one load through one I/O interface.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::Signal;
use serde_json::json;

use crate::cli::profile::ProfileArgs;
use iotrail_answer::unit::Unit;
use iotrail_base::error::{Error, Result};
use iotrail_base::output::{self, Existing};
use iotrail_base::words::{count, list};
use iotrail_base::{interrupt, ourselves};
use iotrail_experiment::cell::{self, Measured, Watching};
use iotrail_experiment::schedule::{fresh_seed, padding};
use iotrail_load::options::LoadOptions;
use iotrail_load::{Doing, Progress};
use iotrail_report::terminal;
use iotrail_schema::measurement::Measurement;
use iotrail_store::Store;

#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    load: LoadOptions,

    #[command(flatten)]
    profile: ProfileArgs,

    /// Overwrite existing --flamegraph and --folded files
    #[arg(long)]
    force: bool,

    /// Trace 1 in N io_uring requests end to end, chosen at random (1: all): delivery delays, latency stages, completion order
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    follow: Option<u32>,

    /// Measure N times, each in a new process; print the measurement with the median IOPS, or with --json a list of all
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000),
          conflicts_with_all = ["flamegraph", "folded"])]
    repeats: u32,

    /// Print all sections, not only the answer
    #[arg(long, conflicts_with = "json")]
    full: bool,

    /// Print the measurement as JSON
    #[arg(long)]
    json: bool,

    /// Store the measurement in this file
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
}

pub fn run(args: &BenchArgs) -> Result<u8> {
    // Report an unwritable output or store before running the load.
    output::stdout_accepts()?;
    if args.repeats > 1 {
        return repeated(args);
    }
    let mut store = args.store.as_deref().map(Store::create_or_open).transpose()?;
    let measured = measure(args, store.as_mut());
    if let (Err(_), Some(store)) = (&measured, store) {
        store.abandon();
    }
    let measurement = match measured {
        Err(e) if e.as_corruption().is_some() => return corrupted(e, args.json),
        measured => measured?,
    };
    match args.json {
        true => terminal::print_measurement(&measurement)?,
        false => terminal::show(&terminal::bench(&measurement, args.full))?,
    }
    Ok(u8::from(measurement.interrupted()))
}

/// Uses a process per repeat, so that differences between processes (mainly memory placement) are included in the
/// spread.
fn repeated(args: &BenchArgs) -> Result<u8> {
    let stop = interrupt::raise_flag()?;
    let bar = ProgressBar::with_draw_target(Some(args.repeats.into()), terminal::progress_target());
    bar.set_style(ProgressStyle::with_template("measurement {pos} of {len} is done").expect("a fixed template"));
    let mut all: Vec<Measurement> = Vec::new();
    for _ in 0..args.repeats {
        let (name, value) = padding(fresh_seed());
        let mut again = ourselves::command(Signal::TERM, || Ok(()));
        again.args(once(std::env::args_os().skip(1))).env(name, value);
        let out = again.output().map_err(ourselves::cannot_start)?;
        let one = serde_json::from_slice::<Measurement>(&out.stdout);
        let interrupted = one.as_ref().is_ok_and(Measurement::interrupted);
        if !out.status.success() && !interrupted {
            let _ = std::io::stderr().write_all(&out.stderr);
            if args.json {
                // Corrupt data is a result.
                let _ = std::io::stdout().write_all(&out.stdout);
            }
            return Ok(out.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
        if all.is_empty() {
            // The warnings of the first process apply to every measurement.
            let _ = std::io::stderr().write_all(&out.stderr);
        }
        all.push(one.map_err(|e| Error::internal("the measurement of another process cannot be read").because(e))?);
        bar.inc(1);
        if interrupted || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    bar.finish_and_clear();
    let partial = all.len() < args.repeats as usize || all.iter().any(Measurement::interrupted);
    if args.json {
        terminal::print_measurements(&all)?;
        return Ok(u8::from(partial));
    }
    let each: Vec<String> = all.iter().filter_map(|m| m.iops.map(count)).collect();
    all.sort_by(|a, b| a.iops.unwrap_or(0.0).total_cmp(&b.iops.unwrap_or(0.0)));
    let middle = &all[all.len() / 2];
    terminal::show(&terminal::bench(middle, args.full))?;
    terminal::say(&format!("{}: {}; the median one is above", Unit::of(middle).per_second(), list(&each)));
    Ok(u8::from(partial))
}

/// The arguments with `--json` and without `--repeats`.
fn once(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut skip = false;
    for argument in arguments.filter(|argument| argument != "--full") {
        let is_value = std::mem::take(&mut skip);
        skip = !is_value && argument == "--repeats";
        let is_option = argument.to_str().is_some_and(|a| a.starts_with("--repeats="));
        if !is_value && !skip && !is_option {
            kept.push(argument);
        }
    }
    if !kept.iter().any(|argument| argument == "--json") {
        kept.push("--json".into());
    }
    kept
}

/// Reports only the corruption, because earlier measurements are useless.
fn corrupted(e: Error, json: bool) -> Result<u8> {
    if let Some(corruption) = e.as_corruption() {
        match json {
            true => terminal::print_json(&json!({"schema": "iotrail.corruption/1", "corruption": corruption}))?,
            false => terminal::show(&terminal::corruption(corruption))?,
        }
    }
    Err(e)
}

/// Runs the load, stores the measurement, and writes the sample files.
fn measure(args: &BenchArgs, store: Option<&mut Store>) -> Result<Measurement> {
    let files = args.profile.files(Existing::forced(args.force))?;
    let stop = interrupt::raise_flag()?;
    let bar = ProgressBar::with_draw_target(None, terminal::progress_target());
    bar.set_style(ProgressStyle::with_template("{msg}").expect("a fixed template"));
    let watching = Watching { sampling: args.profile.sampling(), follow: args.follow };
    let measured = cell::run(&args.load, watching, &mut |p: Progress| bar.set_message(words(p)), stop);
    bar.finish_and_clear();
    let Measured { measurement, histogram, samples, interrupted } = measured?;
    if measurement.ios == Some(0) {
        return Err(match interrupted {
            true => Error::machine("stopped before an I/O was measured", "let it run longer"),
            false => Error::machine("no I/O was measured", "use a longer --runtime"),
        });
    }
    if let Some(store) = store {
        store.save_single(&measurement, &histogram)?;
    }
    if let Some(how) = &measurement.cpu_samples {
        files.write(&samples, how)?;
    }
    Ok(measurement)
}

/// The load's progress, for a single terminal line.
fn words(p: Progress) -> String {
    let done = |unit: u64, name: &str| match p.total {
        Some(total) => format!("{} of {} {name}", p.done / unit, total / unit),
        None => format!("{} {name}", p.done / unit),
    };
    let seconds = p.elapsed.as_secs_f64();
    match p.doing {
        Doing::LayingOut => format!("laying out the file: {}", done(1 << 20, "MiB")),
        Doing::WarmingUp => format!("warming up: {seconds:.1} s"),
        Doing::Measuring => format!("measuring: {seconds:.1} s, {}", done(1, "I/Os")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_measurements_run_as_single_ones_without_repeats() {
        let of = |text: &str| {
            let all = once(text.split_whitespace().map(OsString::from));
            all.iter().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("bench --repeats 3 --depth 4"), "bench --depth 4 --json");
        assert_eq!(of("bench --json --repeats=3 --file x"), "bench --json --file x");
        assert_eq!(of("bench --depth 4 --json --repeats 10"), "bench --depth 4 --json");
    }
}
