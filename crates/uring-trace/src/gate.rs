//! A command that waits between fork and exec until it is traced.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::thread::{self, JoinHandle};

/// The process of a command. If it is dropped before it is released, the process never calls exec.
pub(crate) struct Gate {
    pid: u32,
    opener: Option<PipeWriter>,
    /// Returns from [`Command::spawn`], and thus after exec.
    spawner: Option<JoinHandle<io::Result<Child>>>,
}

impl Gate {
    /// Forks the process, which waits.
    pub fn fork(mut command: Command) -> io::Result<Self> {
        let (mut told, tell) = io::pipe()?;
        let (at_gate, opener) = io::pipe()?;
        let outer_end = opener.as_raw_fd();
        // SAFETY: the closure only makes system calls on descriptors that it owns, and allocates nothing.
        unsafe { command.pre_exec(move || wait(&tell, &at_gate, outer_end)) };
        let spawner = thread::Builder::new().name("spawn".into()).spawn(move || command.spawn())?;
        let mut pid = [0; 4];
        match told.read_exact(&mut pid) {
            Ok(()) => Ok(Gate { pid: u32::from_ne_bytes(pid), opener: Some(opener), spawner: Some(spawner) }),
            // The process failed before the gate; its thread has the reason.
            Err(e) => Err(result(spawner).err().unwrap_or(e)),
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the process call exec. Fails if exec does.
    pub fn release(mut self) -> io::Result<Child> {
        if let Some(mut opener) = self.opener.take() {
            opener.write_all(&[1])?;
        }
        self.spawner.take().map_or_else(|| Err(io::Error::other("released before")), result)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        drop(self.opener.take());
        if let Some(spawner) = self.spawner.take() {
            // The error of a process that was never released.
            drop(result(spawner));
        }
    }
}

fn result(spawner: JoinHandle<io::Result<Child>>) -> io::Result<Child> {
    spawner.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts the command panicked")))
}

/// Runs in the child before exec.
fn wait(mut tell: &PipeWriter, mut at_gate: &PipeReader, outer_end: RawFd) -> io::Result<()> {
    // SAFETY: the child does not use its copy of the parent's end. While this copy is open, the child would not notice
    // that the parent closes the gate.
    unsafe { rustix::io::close(outer_end) };
    tell.write_all(&std::process::id().to_ne_bytes())?;
    match at_gate.read(&mut [0])? {
        1 => Ok(()),
        _ => Err(io::ErrorKind::Interrupted.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_command_runs_when_it_is_released() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 7"]);
        let gate = Gate::fork(command).unwrap();
        let exe = std::fs::read_link(format!("/proc/{}/exe", gate.pid())).unwrap();
        assert_eq!(exe, std::env::current_exe().unwrap(), "it is not the program yet");
        let pid = gate.pid();
        let mut child = gate.release().unwrap();
        assert_eq!((child.id(), child.wait().unwrap().code()), (pid, Some(7)));
    }

    #[test]
    fn a_command_never_runs_if_it_is_not_released() {
        let gate = Gate::fork(Command::new("sleep")).unwrap();
        let pid = gate.pid();
        drop(gate);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn the_reason_of_a_failed_start_is_returned() {
        let release = Gate::fork(Command::new("/no/such/program")).unwrap().release();
        assert_eq!(release.unwrap_err().kind(), io::ErrorKind::NotFound);
        let mut command = Command::new("true");
        command.current_dir("/no/such/directory");
        assert_eq!(Gate::fork(command).err().unwrap().kind(), io::ErrorKind::NotFound);
    }
}
