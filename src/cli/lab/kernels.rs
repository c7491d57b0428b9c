//! `iotrail lab kernels`: what can be booted, and with how much effort.

use serde::Serialize;

use super::{CacheArgs, tell};
use crate::error::Result;
use crate::lab::kernel::{self, Listed, Place};
use crate::lab::{Cache, refresh};
use crate::report::terminal;

#[derive(Debug, Clone, clap::Args)]
pub struct KernelsArgs {
    /// JSON on standard output
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    cache: CacheArgs,
}

#[derive(Serialize)]
struct Printed {
    schema: &'static str,
    cache: String,
    kernels: Vec<Listed>,
}

/// Without a network, those that are here.
pub fn run(args: &KernelsArgs) -> Result<u8> {
    let cache = Cache::at(args.cache.cache.as_deref())?;
    if let Err(e) = refresh(&cache, &tell) {
        tell(&format!("the registry cannot be asked: {e}"));
    }
    let kernels = kernel::list(&cache)?;
    if args.json {
        let cache = cache.root().display().to_string();
        terminal::print_json(&Printed { schema: "iotrail.lab-kernels/1", cache, kernels })?;
        return Ok(0);
    }
    let mut out = String::new();
    for k in &kernels {
        let place = match k.place {
            Place::Installed => "installed",
            Place::Fetched => "fetched",
            Place::Registry => "to be had",
        };
        out.push_str(&format!("{:<32} {place}\n", k.release));
    }
    if kernels.is_empty() {
        out.push_str("no kernel is here, and the registry cannot be asked\n");
    }
    terminal::print(&out)?;
    Ok(0)
}
