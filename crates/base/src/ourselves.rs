//! iotrail started by iotrail. With [`OPTION`] as the first argument it prints its outcome as a line of JSON to
//! standard output, and leaves printing the error to its parent.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, parent_id};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

pub const OPTION: &str = "--outcome";

/// The outcome, as a line of standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcome {
    /// Exit status; null while it continues.
    status: Option<u8>,
    error: Option<Error>,
}

/// Whether the parent process reads the outcome.
pub fn is_asked() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == OPTION)
}

/// Prints the outcome. If the parent has exited, this process is about to exit too.
pub fn report(status: Option<u8>, error: Option<Error>) {
    let line = serde_json::to_string(&Outcome { status, error }).unwrap_or_default();
    _ = writeln!(std::io::stdout(), "{line}");
}

/// The running program, even if its file was replaced. It receives `at_end` when this process exits. `before_exec` runs
/// in the child, and must neither lock nor allocate.
pub fn command(
    at_end: Signal,
    mut before_exec: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static,
) -> Command {
    let mut command = Command::new("/proc/self/exe");
    let parent = std::process::id();
    let between_fork_and_exec = move || {
        set_parent_process_death_signal(Some(at_end))?;
        // The parent may have died before prctl was called.
        if parent_id() != parent {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        before_exec()
    };
    // SAFETY: two system calls, which neither lock nor allocate, and `before_exec`, which does neither.
    unsafe { command.arg0("iotrail").stdin(Stdio::null()).pre_exec(between_fork_and_exec) };
    command
}

pub fn cannot_start(e: std::io::Error) -> Error {
    Error::machine("cannot re-execute iotrail", "check the process limit: ulimit -u").because(e)
}

/// The last error among the outcomes in this output.
pub fn error_in(printed: &[u8]) -> Option<Error> {
    let outcomes = printed.split(|byte| *byte == b'\n').rev();
    outcomes.filter_map(|line| serde_json::from_slice::<Outcome>(line).ok()).find_map(|outcome| outcome.error)
}

/// Interval between calls of `look`.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the command to its end. Returns its status and the error that it reports. `line` receives each line of its
/// standard error. A signal that `look` returns is forwarded once.
pub fn run(
    mut command: Command,
    line: impl Fn(&str) + Send + 'static,
    look: &mut dyn FnMut() -> Option<Signal>,
) -> Result<(ExitStatus, Option<Error>)> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(cannot_start)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let printed = thread::spawn(move || {
        let mut printed = Vec::new();
        // The output so far may contain the outcome.
        stdout.map(|mut out| out.read_to_end(&mut printed).unwrap_or(0));
        error_in(&printed)
    });
    let lines = thread::spawn(move || {
        let lines = stderr.into_iter().flat_map(|err| BufReader::new(err).lines());
        lines.map_while(std::io::Result::ok).for_each(|text| line(&text));
    });
    let mut sent = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(cannot_start)? {
            break status;
        }
        if let Some(signal) = look().filter(|_| !sent) {
            // The process was not waited for, so its PID was not reused.
            sent = kill_process(Pid::from_child(&child), signal).is_ok();
        }
        thread::sleep(LOOK);
    };
    _ = lines.join();
    Ok((status, printed.join().unwrap_or(None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn an_error_survives_serialization_unchanged() {
        let source = std::io::Error::from_raw_os_error(libc::EADDRNOTAVAIL);
        let error = Error::disturbed("cannot listen at x", "use another").because(source).at("a.toml:8:1");
        let text = error.to_string();
        let line = |status, error| serde_json::to_string(&Outcome { status, error }).unwrap();
        let printed = format!("a report\n{}\n{}\n", line(Some(3), Some(error)), line(Some(3), None));
        let back = error_in(printed.as_bytes()).unwrap();
        assert_eq!((back.to_string(), back.kind, back.errno), (text, Kind::Disturbed, Some(libc::EADDRNOTAVAIL)));
        assert_eq!(back.place.as_deref(), Some("a.toml:8:1"));
        assert!(error_in(b"iotrail: no outcome\n{\"status\":3,\"else\":1}\n").is_none());
    }
}
