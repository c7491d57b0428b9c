//! `iotrail reproduce`: runs a published study's experiments, as far as this machine can, and compares the published
//! figures with the measured ones.
//!
//! Exit status: 0 compared, with any result; 1 if stopped early (the stored parts are compared); 2, 3 and 70 as for all
//! commands.

mod list;
mod parts;

use std::cell::RefCell;
use std::path::PathBuf;

use self::parts::{Options, Run};
use iotrail_answer::reproduce::reproduction;
use iotrail_answer::reproduce::study::{Claim, Part, Study};
use iotrail_base::error::{Error, Result};
use iotrail_base::units::Bytes;
use iotrail_experiment::studies;
use iotrail_report::terminal::{self, Reproduced};
use iotrail_store::{Store, default_path};

#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Each line agrees, disagrees, is inconclusive (the measured interval crosses an edge of the band),\n\
                        or cannot be tested here, with the reason. docs/reproduce.md has tables and causes."
)]
pub struct ReproduceArgs {
    /// Study to reproduce (default: list the studies)
    pub study: Option<String>,

    /// Run the short form of each part
    #[arg(long, requires = "study")]
    pub quick: bool,

    /// Run only these parts, and evaluate their figures
    #[arg(long, value_name = "PART", value_delimiter = ',', requires = "study")]
    pub only: Vec<String>,

    /// Measure nothing; evaluate the last finished run of each part in the store
    #[arg(long, requires = "study", conflicts_with_all = ["file", "size"])]
    pub stored: bool,

    /// Measure each cell N times (default: the part's; at most 2 under emulation)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), requires = "study", conflicts_with = "stored")]
    pub repeats: Option<u32>,

    /// Use this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,

    /// Use this file or block device; it is only read (default: $IOTRAIL_TARGET, otherwise a scratch file under $XDG_CACHE_HOME, ~/.cache or
    /// /var/tmp)
    #[arg(long, value_name = "PATH", requires = "study")]
    pub file: Option<PathBuf>,

    /// Use this much of the target; if the file is missing, create it with this size (default: the part's)
    #[arg(long, value_name = "SIZE", requires = "study")]
    pub size: Option<Bytes>,

    /// Print every published figure, not only the answer
    #[arg(long, conflicts_with = "json", requires = "study")]
    pub full: bool,

    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &ReproduceArgs) -> Result<u8> {
    let Some(name) = &args.study else {
        list::show(args.json)?;
        return Ok(0);
    };
    let study = studies::find(name)?;
    let parts = asked_parts(args, &study)?;
    let path = args.store.clone().map_or_else(default_path, Ok)?;
    let cpus = iotrail_host::cpu::online()?.len() as u32;
    let asked = Options { study: &study, parts: &parts, args, cpus };
    let (run, store) = match args.stored {
        true => {
            let none = || {
                let what = format!("store {} does not exist", path.display());
                Error::input(what, format!("measure: iotrail reproduce {name}"))
            };
            let store = Store::open(&path)?.ok_or_else(none)?;
            (asked.stored(&store)?, Some(store))
        }
        false => {
            let mut store = Store::create_or_open(&path)?;
            match asked.measured(&mut store) {
                Ok(run) if run.has_measured() => (run, Some(store)),
                // Removes files that are not needed.
                run => {
                    store.abandon();
                    (run?, None)
                }
            }
        }
    };
    let failed = RefCell::new(None);
    let histogram = |run, cell, repeat| {
        store.as_ref()?.histogram(run, cell, repeat).unwrap_or_else(|e| {
            failed.borrow_mut().get_or_insert(e);
            None
        })
    };
    let Run { ran, is_stopped } = &run;
    let refused = |claim: &Claim| parts::lacking(&claim.needs, cpus);
    let judged = reproduction(&study, args.quick, ran, &refused, &histogram);
    failed.into_inner().map_or(Ok(()), Err)?;
    if args.json {
        terminal::print_json(&judged)?;
    } else {
        let again = parts::again(args, name, run.has_measured());
        terminal::show(&terminal::reproduction(&judged, Reproduced { full: args.full, again: &again }))?;
    }
    Ok(u8::from(*is_stopped))
}

/// All parts of the study, or the specified ones.
fn asked_parts<'s>(args: &ReproduceArgs, study: &'s Study) -> Result<Vec<&'s Part>> {
    let named = |part: &String| {
        study.part.iter().find(|p| p.name == *part).ok_or_else(|| {
            let names: Vec<&str> = study.part.iter().map(|p| p.name.as_str()).collect();
            Error::input(format!("{} has no part '{part}'", study.name), format!("choose among {}", names.join(", ")))
        })
    };
    if args.only.is_empty() {
        return Ok(study.part.iter().collect());
    }
    let found = args.only.iter().map(named).collect::<Result<Vec<_>>>()?;
    // In the study's order, without duplicates.
    Ok(study.part.iter().filter(|p| found.iter().any(|f| f.name == p.name)).collect())
}
