//! `iotrail lab`: runs commands in a virtual machine with a chosen kernel.

mod fetch;
mod guest;
mod kernels;
mod run;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use iotrail_base::error::Result;
use iotrail_lab::arch::Arch;
use iotrail_report::terminal;

#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Boot a kernel with NVMe drives, run a command on a copy-on-write view of this machine's files, and copy its results back
    Run(Box<run::RunArgs>),
    /// List installed, fetched and available kernels
    Kernels(kernels::KernelsArgs),
    /// Fetch a Debian kernel
    Fetch(fetch::FetchArgs),
    /// In the guest: run the given command
    #[command(hide = true)]
    Guest,
}

/// The directory of fetched kernels and tools.
#[derive(Debug, Clone, Args)]
pub struct CacheArgs {
    /// Cache fetched files in this directory (default: $XDG_CACHE_HOME/iotrail/lab, otherwise ~/.cache/iotrail/lab)
    #[arg(long = "cache", value_name = "DIR")]
    cache: Option<PathBuf>,
}

/// The processor of guests.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct ArchArgs {
    /// Boot kernels for this architecture (default: this machine's)
    #[arg(long = "arch", value_name = "ARCH")]
    arch: Option<ArchName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArchName {
    /// x86-64
    Amd64,
    /// 64-bit Arm
    Arm64,
}

impl ArchArgs {
    fn arch(self) -> Arch {
        match self.arch {
            None => Arch::host(),
            Some(ArchName::Amd64) => Arch::Amd64,
            Some(ArchName::Arm64) => Arch::Arm64,
        }
    }
}

pub fn run(args: &LabArgs) -> Result<u8> {
    match &args.command {
        LabCommand::Run(args) => run::run(args),
        LabCommand::Kernels(args) => kernels::run(args),
        LabCommand::Fetch(args) => fetch::run(args),
        LabCommand::Guest => guest::run(),
    }
}

/// Prints progress and messages to standard error; standard output is for results.
fn tell(what: &str) {
    terminal::say(&format!("iotrail lab: {what}"));
}
