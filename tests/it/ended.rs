//! The result of a test's command. Also included by `tests/fleet`.

use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::Value;

/// The result of a command.
#[derive(Debug)]
pub struct Ended {
    /// The exit status, or 128 + signal if a signal killed it.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON ({e}): {}{}", self.stdout, self.stderr))
    }
}

/// Waits for a command to exit, and for its child processes, which keep its standard output open.
#[track_caller]
pub fn end_within(patience: Duration, child: Child) -> Ended {
    let id = child.id();
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let Ok(output) = told.recv_timeout(patience) else {
        kill(id, libc::SIGKILL);
        panic!("process {id} or a child of it did not end within {patience:?}");
    };
    let output = output.expect("our own child can be waited for");
    Ended {
        status: match (output.status.code(), output.status.signal()) {
            (Some(code), _) => code,
            (None, signal) => 128 + signal.expect("it has not exited, so a signal has ended it"),
        },
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Sends a signal to an unreaped child.
pub fn kill(id: u32, signal: libc::c_int) {
    // SAFETY: this process's child; at worst, it has exited and is a zombie.
    unsafe { libc::kill(id as libc::pid_t, signal) };
}
