//! Commands of these tests, with an end to their patience.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::sync::mpsc::channel;

use serde_json::Value;

use crate::cluster::PATIENCE;

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit status; 128 + the signal if one killed it.
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

/// Waits for its end.
#[track_caller]
pub fn end(child: Child) -> Ended {
    let id = child.id();
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let Ok(output) = told.recv_timeout(PATIENCE) else {
        signal(id, libc::SIGKILL);
        panic!("process {id} or a child of it did not end within {PATIENCE:?}");
    };
    let output = output.expect("our own child can be waited for");
    Ended {
        status: output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or_default()),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[track_caller]
pub fn run(command: &mut Command) -> Ended {
    end(command.spawn().expect("the command starts"))
}

/// Sends a signal to one process that we have started and not waited for.
pub fn signal(id: u32, signal: libc::c_int) {
    // SAFETY: a child of ours; at worst it has ended and is a zombie.
    unsafe { libc::kill(id as libc::pid_t, signal) };
}
