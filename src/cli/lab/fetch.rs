//! `iotrail lab fetch`: downloads a Debian kernel into the cache.

use super::{ArchArgs, CacheArgs, tell};
use iotrail_base::error::Result;
use iotrail_lab::{Cache, kernel};
use iotrail_report::terminal;

#[derive(Debug, Clone, clap::Args)]
pub struct FetchArgs {
    /// A release (6.1.0-50-amd64), a release prefix (6.1), or newest
    #[arg(value_name = "VERSION")]
    version: String,

    #[command(flatten)]
    arch: ArchArgs,

    #[command(flatten)]
    cache: CacheArgs,
}

/// Prints the release that was downloaded.
pub fn run(args: &FetchArgs) -> Result<u8> {
    let cache = Cache::at(args.cache.cache.as_deref())?;
    let kernel = kernel::fetch_asked(&args.version, args.arch.arch(), &cache, &tell)?;
    terminal::print(&format!("{}\n", kernel.release.unwrap_or_default()))?;
    Ok(0)
}
