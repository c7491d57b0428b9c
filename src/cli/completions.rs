//! `iotrail completions`: shell scripts that complete commands, options and values. To complete experiments, stored
//! runs and cells, they call iotrail itself (`candidates`).

pub mod candidates;

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use iotrail_base::error::Result;
use iotrail_report::terminal;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to print the script for
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(args: &CompletionsArgs) -> Result<u8> {
    let mut script = Vec::new();
    generate(args.shell, &mut super::Cli::command(), "iotrail", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    // Before this line, at which zsh would start a completion by executing the script.
    if let (Shell::Zsh, Some(at)) = (args.shell, script.rfind("if [ \"$funcstack[1]\" = ")) {
        script.truncate(at);
    }
    script += match args.shell {
        Shell::Bash => include_str!("completions/bash.sh"),
        Shell::Zsh => include_str!("completions/zsh.sh"),
        Shell::Fish => include_str!("completions/fish.fish"),
        _ => "",
    };
    terminal::print_ours(&script)?;
    Ok(0)
}
