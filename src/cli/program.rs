//! Options of `try` and `advise` that describe a program: its metrics, checks and server.

use std::ffi::OsString;

use clap::Args;
use toml::{Table, Value};

use iotrail_base::error::{Error, OrFail, Result};
use iotrail_experiment::load::Kind;
use iotrail_experiment::program::ready::Ready;

#[derive(Debug, Args)]
pub struct ProgramOptions {
    /// Compare a metric that the program prints: NAME=REGEX (the first group of the last match), or NAME=$.json.path (in the last JSON value
    /// that contains it). Higher is better unless the name suggests a time (p99, latency, _ms …); override with :less or :more. May be repeated
    #[arg(long = "metric", value_name = "NAME=REGEX[:less|:more]", requires = "command")]
    pub metrics: Vec<String>,

    /// Check the results of each run with this shell command, which reads the program's output on standard input; a non-zero exit status drops
    /// the arm
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub check: Option<String>,

    /// Run this shell command before each run of the program; its background processes are terminated at the end of the run
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub prepare: Option<String>,

    /// Run this shell command after each run of the program
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub cleanup: Option<String>,

    /// Start this server under supervision for each run, and stop it afterwards; CMD is its client, whose time and metrics are compared
    #[arg(long, value_name = "COMMAND", requires = "ready")]
    pub server: Option<String>,

    /// Wait until the server is ready: port:N (on the loopback address), file:PATH, or log:REGEX in its output
    #[arg(long, value_name = "WHAT", requires = "server", value_parser = ready)]
    pub ready: Option<String>,
}

fn ready(text: &str) -> std::result::Result<String, String> {
    text.parse::<Ready>().map(|_| text.to_owned())
}

/// Removes the error's position in the experiment generated from a command's options, which the user did not write.
pub fn without_place(command: &str, e: Error) -> Error {
    if e.place.as_ref().is_none_or(|place| !place.starts_with(command)) {
        return e;
    }
    let is_of_files = [Kind::Storage, Kind::Net, Kind::Program].iter().any(|kind| e.remedy == kind.remedy());
    let remedy = if is_of_files { format!("see {command} --help") } else { e.remedy };
    Error { place: None, remedy, ..e }
}

impl ProgramOptions {
    /// An experiment's `[load]` with this program.
    pub fn load(&self, command: &[OsString]) -> Result<Table> {
        let words = command.iter().map(|word| {
            word.to_str().map(Value::from).or_input(
                format_args!("{} is not UTF-8", word.to_string_lossy()),
                "start it from a script with a UTF-8 name",
            )
        });
        let mut load = Table::new();
        load.insert("program".into(), Value::Array(words.collect::<Result<_>>()?));
        if !self.metrics.is_empty() {
            load.insert("metric".into(), Value::from(self.metrics.clone()));
        }
        let texts = [
            ("check", &self.check),
            ("prepare", &self.prepare),
            ("cleanup", &self.cleanup),
            ("server", &self.server),
            ("ready", &self.ready),
        ];
        load.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), Value::from(text.clone()?)))));
        Ok(load)
    }
}
