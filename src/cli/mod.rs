//! One file per command: arguments → one call → one printer.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod bench;
pub mod check;
pub mod list;
pub mod run;

/// Follows asynchronous I/O from submission to the moment the application has its result.
#[derive(Debug, Parser)]
#[command(name = "iotrail", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What this machine and these privileges allow, what is lost without it, what would restore it
    Check(check::CheckArgs),
    /// One load through one I/O interface: throughput, latency, phases, and how each completion was delivered
    Bench(Box<bench::BenchArgs>),
    /// A built-in experiment by name, or a TOML file: plan, run, store, report
    Run(run::RunArgs),
    /// The experiments there are, and the runs that are stored
    List(list::ListArgs),
}

/// Exit status: 0 done, 1 a finding that the caller asked to fail on, 2 wrong use or input, 3 the machine does not allow it.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Check(args) => check::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Run(args) => run::run(args),
        Command::List(args) => list::run(args),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(e) => {
            eprintln!("iotrail: {e}");
            ExitCode::from(e.exit_status())
        }
    }
}
