//! `iotrail net load`: runs the sender.

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use iotrail_base::error::{Error, Result};
use iotrail_base::{interrupt, output};
use iotrail_experiment::net::loaded::{self, Loaded};
use iotrail_load::{Doing, Progress};
use iotrail_net::address::Address;
use iotrail_net::control::Place;
use iotrail_net::options::SenderOptions;
use iotrail_net::sender::spec::SenderSpec;
use iotrail_report::terminal;
use iotrail_store::Store;

#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Address of the server: 127.0.0.1:7000, [::1]:7000, name:7000, unix:PATH
    #[arg(value_name = "ADDRESS")]
    address: Address,

    #[command(flatten)]
    sender: SenderOptions,

    /// Seed the sent data: the same seed sends the same bytes (default: random; printed and stored)
    #[arg(long, value_name = "N")]
    seed: Option<u32>,

    /// Control address, where the server agrees on the measurement and returns its side, or none (default: the next port, or PATH.control, if
    /// an iotrail server listens there)
    #[arg(long, value_name = "ADDRESS")]
    control: Option<Place>,

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

pub fn run(args: &LoadArgs) -> Result<u8> {
    let sender = SenderOptions { seed: args.seed, ..args.sender.clone() };
    let spec = SenderSpec::resolve(&sender, &iotrail_host::cpu::online()?)?;
    // Report an unwritable output or store before running the load.
    output::stdout_accepts()?;
    let mut store = args.store.as_deref().map(Store::create_or_open).transpose()?;
    let loaded = load(args, &spec, store.as_mut());
    let kept = loaded.as_ref().is_ok_and(|loaded| loaded.broken_off.is_none());
    if let Some(store) = store.filter(|_| !kept) {
        store.abandon();
    }
    let Loaded { measurement, broken_off, .. } = loaded?;
    match args.json {
        true => terminal::print_measurement(&measurement)?,
        false => terminal::show(&terminal::net(&measurement, args.full))?,
    }
    match broken_off {
        Some(e) => Err(e),
        None => Ok(u8::from(measurement.interrupted())),
    }
}

fn load(args: &LoadArgs, spec: &SenderSpec, store: Option<&mut Store>) -> Result<Loaded> {
    let stop = interrupt::raise_flag()?;
    let bar = ProgressBar::with_draw_target(None, terminal::progress_target());
    bar.set_style(ProgressStyle::with_template("{msg}").expect("a fixed template"));
    let control = args.control.clone().unwrap_or_default();
    let mut progress = |p: Progress| bar.set_message(words(p));
    let loaded = loaded::run(spec, &args.address, &control, &mut progress, stop);
    bar.finish_and_clear();
    let loaded = loaded?;
    if loaded.measurement.ios == Some(0) {
        return Err(match loaded {
            Loaded { broken_off: Some(e), .. } => e,
            Loaded { interrupted: true, .. } => {
                Error::machine("stopped before a response was measured", "let it run longer")
            }
            _ => Error::machine("no response was measured", "use a longer --runtime"),
        });
    }
    // An aborted measurement must not be compared with others, so it is not stored.
    if let Some(store) = store
        && loaded.broken_off.is_none()
    {
        store.save_single(&loaded.measurement, &loaded.histogram)?;
    }
    Ok(loaded)
}

/// The load's progress, for a single terminal line.
fn words(p: Progress) -> String {
    let seconds = p.elapsed.as_secs_f64();
    match p.doing {
        // A sender has no target to lay out.
        Doing::LayingOut | Doing::WarmingUp => format!("warming up: {seconds:.1} s"),
        Doing::Measuring => format!("measuring: {seconds:.1} s, {} answers", p.done),
    }
}
