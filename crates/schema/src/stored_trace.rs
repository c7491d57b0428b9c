//! Traces in the store.

use serde::{Deserialize, Serialize};

use crate::measurement::Warning;
use crate::trace_record::Subject;

/// A trace as `list` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredTrace {
    /// Its name on a command line: `t12`.
    pub trace: String,
    /// Whether it reached its end.
    pub state: TraceState,
    /// Its start, UTC: `2026-03-01 12:00:00`.
    pub started: String,
    /// Its start.
    pub started_unix_s: u64,
    /// The command line, or the traced processes.
    pub subject: String,
    /// The machine.
    pub hostname: String,
    /// Its kernel.
    pub kernel: String,
    /// Bytes of the record and of the stored requests.
    pub bytes: u64,
    /// The first line of its report; null: it has no record yet.
    pub answer: Option<String>,
    /// File of `--record`; null: it has none.
    pub recording: Option<String>,
}

crate::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TraceState {
        /// iotrail is still tracing.
        Running = "running",
        /// The trace ended normally.
        Complete = "complete",
        /// A signal killed iotrail. The record is its last checkpoint.
        Partial = "partial",
    }
}

/// `t12`: the name of the twelfth trace of a store on a command line.
pub fn id(trace: i64) -> String {
    format!("t{trace}")
}

/// Number of the trace that `text` names; `None`: `text` does not name a trace.
pub fn number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('t')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// The command line, or the traced processes, in one line.
pub fn words(subject: &Subject) -> String {
    match subject {
        Subject::Command { argv, .. } => argv.join(" "),
        Subject::Process { tgid, comm, .. } => format!("{comm} ({tgid})"),
        Subject::Processes { tgids, .. } => {
            let all: Vec<String> = tgids.iter().map(u32::to_string).collect();
            format!("processes {}", all.join(", "))
        }
        Subject::All => "all programs".into(),
    }
}

/// The subject without the arguments of its command.
pub fn redacted(subject: &Subject) -> Subject {
    match subject {
        Subject::Command { argv, exit_status } => {
            let name = argv.iter().take(1).cloned();
            let argv = name.chain((argv.len() > 1).then(|| "…".to_owned())).collect();
            Subject::Command { argv, exit_status: *exit_status }
        }
        other => other.clone(),
    }
}

/// The warning of a trace whose iotrail process was killed.
pub const CUT_SHORT: &str = "cut_short";

pub fn cut_short(elapsed_ns: u64) -> Warning {
    let text = format!(
        "iotrail was killed: this is its last checkpoint, after {:.1} s; counts are lower bounds",
        elapsed_ns as f64 / 1e9
    );
    Warning::new(CUT_SHORT, text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_id_parses_back_to_its_number() {
        assert_eq!(number(&id(12)), Some(12));
        assert_eq!(["12", "t", "t1x", "f3", "t-1"].map(number), [None; 5]);
    }

    #[test]
    fn a_redacted_command_keeps_its_program_and_exit_status() {
        let argv = |all: &[&str]| Subject::Command {
            argv: all.iter().map(|a| (*a).to_owned()).collect(),
            exit_status: Some(3),
        };
        assert_eq!(redacted(&argv(&["mysql", "-psecret"])), argv(&["mysql", "…"]));
        assert_eq!(redacted(&argv(&["fio"])), argv(&["fio"]));
        assert_eq!(words(&argv(&["fio", "job.fio"])), "fio job.fio");
    }
}
