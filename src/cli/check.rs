//! `iotrail check`: what this machine and these privileges permit, which features are lost otherwise, and the remedies.

mod interfaces;
mod machine;
mod probes;
mod rights;

use std::path::{Path, PathBuf};

use iotrail_base::error::Result;
use iotrail_host::{self, block, clock, cpu, limits, refusal::Circumstances};
use iotrail_probe::support;
use iotrail_report::check::{Cpus, Report, SCHEMA, screen};
use iotrail_report::terminal::{self, Style};

/// Capabilities of this machine and these privileges, and remedies for the missing ones
#[derive(Debug, Clone, clap::Args)]
pub struct CheckArgs {
    /// Check this load target: a file, directory or device (default: the current directory)
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,

    /// Print libbpf messages to standard error while loading the probes, including the verifier log of rejected ones
    #[arg(long)]
    pub verbose: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Prints the report. Exits with status 0 even if items are missing, because `check` only informs.
///
/// Usage error: `--file` does not exist. Machine error: sysfs is unreadable.
pub fn run(args: &CheckArgs) -> Result<u8> {
    if args.verbose {
        support::be_verbose();
    }
    let report = examine(args)?;
    match args.json {
        true => terminal::print_json(&report)?,
        false => terminal::show(&screen(&report, Style::of_stdout()))?,
    }
    Ok(0)
}

fn examine(args: &CheckArgs) -> Result<Report> {
    let target = match &args.file {
        Some(path) => Some(block::describe(path)?),
        // A deleted working directory is not a usage error.
        None => block::describe(Path::new(".")).ok(),
    };
    let online = cpu::online()?;
    let isolation = cpu::isolation();
    let circumstances = Circumstances::read();

    let mut host = iotrail_host::facts(None)?;
    host.target = target.as_ref().map(block::Description::target);
    let taking = host.target.as_ref().filter(|t| !t.interrupts.is_empty()).map(|t| machine::taking(t, &online));
    let cpus = Cpus {
        without_target_interrupts: taking
            .as_ref()
            .map(|t: &Vec<u32>| online.iter().copied().filter(|c| !t.contains(c)).collect()),
        with_target_interrupts: taking,
        isolated: isolation.isolated,
        nohz_full: isolation.nohz_full,
        online,
    };

    let mut items = rights::items(&circumstances.privileges);
    items.push(rights::open_files(limits::open_files(), support::descriptors()));
    items.extend(machine::kernel(&circumstances));
    items.extend(interfaces::items(&circumstances));
    items.extend(probes::items());
    items.extend(machine::clock());
    items.extend(machine::target(target.as_ref()));
    items.extend(machine::cpus(&cpus, host.virtualisation.as_deref()));
    Ok(Report { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), host, cpus, tick_hz: clock::tick_hz(), items })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_an_input_error() {
        let args = CheckArgs { file: Some("/no/such/file".into()), verbose: false, json: false };
        assert_eq!(run(&args).unwrap_err().exit_status(), 2);
    }
}
