//! `iotrail bench`: one load through one I/O interface.

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::cli::profile::ProfileArgs;
use crate::error::{Error, Result};
use crate::experiment::cell::{self, Measured, Watching};
use crate::experiment::interrupt;
use crate::load::options::LoadOptions;
use crate::load::{Doing, Progress};
use crate::measurement::Measurement;
use crate::output::Existing;
use crate::report::terminal;
use crate::store::Store;

#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    load: LoadOptions,

    #[command(flatten)]
    profile: ProfileArgs,

    /// Replace the files of --flamegraph and --folded if they are there
    #[arg(long)]
    force: bool,

    /// Follow one of io_uring's requests in so many whole, chosen at random (1: all): how late each vehicle delivered, the
    /// stages of the latency, the order of completions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    follow: Option<u32>,

    /// One measurement as JSON on standard output
    #[arg(long)]
    json: bool,

    /// Store the measurement in this file
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
}

pub fn run(args: &BenchArgs) -> Result<u8> {
    // A store that can't be written is found out before the load, not after it.
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
        true => terminal::print_json(&measurement)?,
        false => terminal::show(&terminal::bench(&measurement))?,
    }
    Ok(0)
}

/// The result is the corruption, and nothing else: what was measured on the way there is of no use to anybody.
fn corrupted(e: Error, json: bool) -> Result<u8> {
    if let Some(corruption) = e.as_corruption() {
        match json {
            true => terminal::print_json(&json!({"schema": "iotrail.corruption/1", "corruption": corruption}))?,
            false => terminal::show(&terminal::corruption(corruption))?,
        }
    }
    Err(e)
}

/// Runs the load, stores what it yields, and writes the samples' files.
fn measure(args: &BenchArgs, store: Option<&mut Store>) -> Result<Measurement> {
    let files = args.profile.files(Existing::forced(args.force))?;
    let stop = interrupt::raise_flag()?;
    let bar = ProgressBar::with_draw_target(None, terminal::progress_target());
    bar.set_style(ProgressStyle::with_template("{msg}").expect("a fixed template"));
    let watching = Watching { sampling: args.profile.sampling(), follow: args.follow };
    let measured = cell::run(&args.load, watching, &mut |p: Progress| bar.set_message(words(p)), stop);
    bar.finish_and_clear();
    let Measured { measurement, histogram, samples, interrupted } = measured?;
    if measurement.ios == 0 {
        return Err(match interrupted {
            true => Error::machine("stopped before an I/O was measured", "let it run longer"),
            false => Error::machine("not one I/O was measured", "give it more time with --runtime"),
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

/// What the load is at, for a terminal's one line.
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
