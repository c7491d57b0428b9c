//! A described load: its options and its candidates.

use toml::Table;

use super::{AdviseArgs, as_given, takes};
use iotrail_base::error::{Error, Result};
use iotrail_experiment::advise::candidates::{Placement, Proposed};
use iotrail_experiment::advise::storage::{HostContext, of_load};
use iotrail_experiment::cell::target_of;
use iotrail_experiment::load::{Kind, Load};
use iotrail_experiment::plan::absolute;
use iotrail_load::options::Rw;
use iotrail_schema::measurement::Target;
use iotrail_schema::search_record::LeftOut;
use iotrail_settings::{Conditions, Queue};

/// A load's default options.
const RUNTIME: &str = "400ms";
const WARMUP: &str = "80ms";

/// `[load]` for a described load.
pub(super) fn load(args: &AdviseArgs) -> Result<Table> {
    if args.load.file.is_none() && args.load.rw != Rw::Nop {
        return Err(Error::input(
            "no program or load is specified",
            "specify a program (-- CMD), a file (--file PATH), or no-ops (--rw nop)",
        ));
    }
    let mut load = as_given(Kind::Storage, &args.given)?;
    if let Some(file) = &args.load.file {
        load.insert("file".into(), absolute(file)?.display().to_string().into());
    }
    takes(&mut load, RUNTIME, WARMUP);
    Ok(load)
}

/// Candidates for a storage load, and excluded ones.
pub(super) fn candidates(
    args: &AdviseArgs,
    load: &Table,
    placements: &[Placement],
) -> Result<(Vec<Proposed>, Vec<LeftOut>)> {
    let (online, target) = (iotrail_host::cpu::online()?, target_of(&args.load));
    let target = target.as_ref();
    // The current configuration must be runnable, because all candidates are compared with it.
    Load::Storage(args.load.clone()).check(target, &online)?;
    let queue = args.own.host_settings.then(|| Queue::of(target));
    let refusal = |host: &Conditions, target: Option<&Target>| host.refusal(target);
    Ok(of_load(&args.load, load, &HostContext { placements, online: &online, target, queue, refusal: &refusal }))
}
