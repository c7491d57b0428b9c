//! `iotrail lab kernels`: lists bootable kernels with their locations.

use serde::Serialize;

use super::{ArchArgs, CacheArgs, tell};
use iotrail_base::error::Result;
use iotrail_lab::kernel::{self, Listed, Place};
use iotrail_lab::{Cache, refresh};
use iotrail_report::terminal::{self, Screen, Style};

#[derive(Debug, Clone, clap::Args)]
pub struct KernelsArgs {
    /// Print JSON on standard output
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    arch: ArchArgs,

    #[command(flatten)]
    cache: CacheArgs,
}

#[derive(Serialize)]
struct Printed {
    /// `iotrail.lab-kernels/1`.
    schema: &'static str,
    /// The directory of fetched kernels.
    cache: String,
    /// The newest first.
    kernels: Vec<Listed>,
}

/// Without network access, lists only local kernels.
pub fn run(args: &KernelsArgs) -> Result<u8> {
    let cache = Cache::at(args.cache.cache.as_deref())?;
    if let Err(e) = refresh(&cache, args.arch.arch(), &tell) {
        tell(&format!("cannot query the registry: {e}"));
    }
    let kernels = kernel::list(&cache, args.arch.arch())?;
    if args.json {
        let cache = cache.root().display().to_string();
        terminal::print_json(&Printed { schema: "iotrail.lab-kernels/1", cache, kernels })?;
        return Ok(0);
    }
    let mut out = Screen::new(Style::of_stdout());
    for k in &kernels {
        let place = match k.place {
            Place::Installed => "installed",
            Place::Fetched => "fetched",
            Place::Registry => "available",
        };
        out.sentence(&format!("{:<32} {place}", k.release));
    }
    if kernels.is_empty() {
        out.sentence("no local kernel, and the registry cannot be queried");
    }
    terminal::show(&out)?;
    Ok(0)
}
