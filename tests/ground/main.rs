//! Ground truth: a program that causes each delivery path and each pathology on demand, and prints its own counts.
//!
//! It shares no code with iotrail, so that iotrail's report can be compared with facts. Each run executes one scenario,
//! and prints one line of JSON (`report.rs`) on standard output at its end. A scenario that this kernel or machine
//! cannot produce reports `unsupported` and exits with status 0.

mod bpf_loop;
mod captured;
mod cores;
mod faults;
mod files;
mod libaio;
mod load;
mod many;
mod memory;
mod neighbours;
mod network;
mod newest;
mod order;
mod pathologies;
mod posix_aio;
mod processes;
mod programs;
mod raw;
mod readiness;
mod reaping;
mod report;
mod results;
mod ring;
mod run;
mod sqpoll;
mod threads;
mod tried;
mod vehicles;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use run::{Run, Scenario};

#[derive(Parser)]
#[command(about = "Makes each vehicle and each pathology of asynchronous I/O on demand, and prints what it did")]
pub struct Args {
    /// A scenario, or `list`; or `beside:NAME`, a neighbour of a traced program
    scenario: String,
    /// I/Os; each scenario has its own default and ends within 3 s with it
    #[arg(long)]
    count: Option<u32>,
    /// The file to read, never written (default: a file of 64 MiB in a temporary directory)
    #[arg(long)]
    file: Option<PathBuf>,
    /// Run on this CPU instead of the scenario's own choice
    #[arg(long)]
    cpu: Option<usize>,
    /// Once the rings exist, print `ready` on standard error and wait for a line on standard input
    #[arg(long)]
    start_on_stdin: bool,
    /// Pause for this long once the rings exist, and again before they are closed
    #[arg(long, default_value_t = 0)]
    pause_ms: u64,
}

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    [
        bpf_loop::SCENARIOS,
        vehicles::SCENARIOS,
        libaio::SCENARIOS,
        posix_aio::SCENARIOS,
        network::SCENARIOS,
        readiness::SCENARIOS,
        order::SCENARIOS,
        processes::SCENARIOS,
        pathologies::SCENARIOS,
        sqpoll::SCENARIOS,
        results::SCENARIOS,
        memory::SCENARIOS,
        reaping::SCENARIOS,
        faults::SCENARIOS,
        threads::SCENARIOS,
        programs::SCENARIOS,
        files::SCENARIOS,
        newest::SCENARIOS,
    ]
    .into_iter()
    .flatten()
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.scenario.strip_prefix("beside:") {
        Some(name) => neighbours::perform(name),
        None => perform(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ground: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(args: Args) -> Result<()> {
    if args.scenario == "list" {
        for scenario in scenarios() {
            println!("{:<24} {}", scenario.name, scenario.about);
        }
        return Ok(());
    }
    let scenario = scenarios()
        .chain(many::SCENARIOS)
        .chain(tried::SCENARIOS)
        .chain(captured::SCENARIOS)
        .chain(threads::ACROSS)
        .find(|scenario| scenario.name == args.scenario)
        .with_context(|| format!("there is no scenario `{}`; `ground list` prints them", args.scenario))?;
    let report = Run::new(scenario, args).perform(scenario)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
