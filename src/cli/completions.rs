//! `iotrail completions`: what a shell reads to complete commands, options and their values.

use clap::builder::PossibleValuesParser;
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::experiment::builtin;
use iotrail_base::error::Result;
use iotrail_report::terminal;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(args: &CompletionsArgs) -> Result<u8> {
    let mut script = Vec::new();
    generate(args.shell, &mut command(args.shell), "iotrail", &mut script);
    terminal::print_ours(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// With the names of the built-in experiments, where the shell completes files beside them: an experiment may be a file.
fn command(shell: Shell) -> clap::Command {
    let command = super::Cli::command();
    match shell {
        Shell::Bash => command.mut_subcommand("run", |run| {
            run.mut_arg("experiment", |a| a.value_parser(PossibleValuesParser::new(builtin::ALL.map(|(name, _)| name))))
        }),
        _ => command,
    }
}
