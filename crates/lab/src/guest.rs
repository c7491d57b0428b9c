//! Init process of the guest: runs the command with pipes, as a shell does, and forwards them over the machine's ports.
//!
//! The ports are not used as standard streams, because each can be opened only once, so that `/dev/stderr` would fail.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::line::{FromGuest, FromHost};
use super::order::Order;
use iotrail_base::error::{Error, Result};
use iotrail_host::limits;

/// Port names, as configured in the machine and listed by the kernel.
pub const PORTS: [&str; 4] = ["iotrail.stdin", "iotrail.stdout", "iotrail.stderr", "iotrail.control"];

/// Time for the kernel to announce the ports, which it does one by one.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time for which processes that outlive the command may still write.
const GRACE: Duration = Duration::from_secs(2);

const BUFFER: usize = 64 << 10;

/// The opened ports, of type `P`.
#[derive(Debug)]
pub struct Ports<P> {
    pub stdin: P,
    pub stdout: P,
    pub stderr: P,
    pub control: P,
}

impl Ports<File> {
    /// Opens this machine's ports.
    pub fn open() -> Result<Self> {
        let [stdin, stdout, stderr, control] = PORTS.map(|name| {
            let path = find(name)?;
            File::options().read(true).write(true).open(&path).map_err(|e| no_port(name).because(e))
        });
        Ok(Ports { stdin: stdin?, stdout: stdout?, stderr: stderr?, control: control? })
    }
}

fn no_port(name: &str) -> Error {
    Error::machine(
        format!("no port named {name} on this machine"),
        "this command is for the lab's guest: use `iotrail lab run`",
    )
}

fn find(name: &str) -> Result<PathBuf> {
    let began = Instant::now();
    loop {
        for entry in std::fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten() {
            let named = std::fs::read_to_string(entry.path().join("name")).is_ok_and(|n| n.trim() == name);
            let node = Path::new("/dev").join(entry.file_name());
            if named && node.exists() {
                return Ok(node);
            }
        }
        if began.elapsed() > PATIENCE {
            return Err(no_port(name));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port that several threads can use.
pub trait Port: Read + Write + Send + Sized + 'static {
    fn another(&self) -> io::Result<Self>;
}

impl Port for File {
    fn another(&self) -> io::Result<Self> {
        self.try_clone()
    }
}

/// Runs the command and reports its exit. `end_others` kills all other processes in the machine.
pub fn keep<P: Port>(order: &Order, ports: Ports<P>, end_others: fn()) -> io::Result<()> {
    let Ports { stdin, stdout, stderr, mut control } = ports;
    control.write_all(FromGuest::Hello.to_string().as_bytes())?;
    let mut child = match spawn(order) {
        Ok(child) => child,
        Err(e) => {
            let name = order.command.first().map(|n| Path::new(n).display().to_string()).unwrap_or_default();
            let text = format!("iotrail: cannot run {name} in the lab: {e}; specify a program that exists there\n");
            let mut stderr = stderr;
            stderr.write_all(text.as_bytes())?;
            // As in a shell.
            let status = if e.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
            return end(&mut control, status, 0, text.len() as u64);
        }
    };
    let group = Pid::from_child(&child);
    let input = child.stdin.take();
    let fed = sync_channel(4);
    listen(control.another()?, group, fed.0.clone());
    feed(stdin, input, fed);
    let (done, finished) = channel();
    let out = carry(child.stdout.take(), stdout, done.clone());
    let err = carry(child.stderr.take(), stderr, done);
    let status = status_of(child.wait()?);
    let until = Instant::now() + GRACE;
    for _ in 0..2 {
        // A process that still has an output open may continue for some time, and is then killed.
        if finished.recv_timeout(until.saturating_duration_since(Instant::now())).is_err() {
            end_others();
            break;
        }
    }
    let carried =
        |thread: JoinHandle<u64>| thread.join().map_err(|_| io::Error::other("a stream was not copied completely"));
    let (stdout_bytes, stderr_bytes) = (carried(out)?, carried(err)?);
    end(&mut control, status, stdout_bytes, stderr_bytes)
}

fn end(control: &mut impl Write, status: u8, stdout_bytes: u64, stderr_bytes: u64) -> io::Result<()> {
    control.write_all(FromGuest::End { status, stdout_bytes, stderr_bytes }.to_string().as_bytes())
}

fn spawn(order: &Order) -> io::Result<Child> {
    let (name, args) = order.command.split_first().ok_or_else(|| io::Error::other("no command is specified"))?;
    let mut command = Command::new(name);
    command.args(args).current_dir(&order.working_folder).env_clear().envs(order.environment.iter().cloned());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    limits::give_back(&mut command);
    // A process group of its own, for signals.
    command.process_group(0).spawn()
}

/// Exit status, or 128 + the signal that killed it.
fn status_of(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(u8::MAX)
}

/// Message to the thread that feeds the command's input.
enum Input {
    Bytes(Vec<u8>),
    /// The input ends after this many bytes.
    EndsAt(u64),
}

/// Handles messages from the host. Signals go to the command and its children, the end of input to the feeding thread.
fn listen<P: Port>(control: P, group: Pid, input: SyncSender<Input>) {
    std::thread::spawn(move || {
        for line in BufReader::new(control).lines().map_while(io::Result::ok) {
            match line.parse() {
                Ok(FromHost::Signal(signal)) => {
                    // It may have exited.
                    Signal::from_named_raw(signal).map(|signal| kill_process_group(group, signal));
                }
                Ok(FromHost::InputEnds(bytes)) => {
                    let input = input.clone();
                    // The channel may stay full while the command does not read; signals must not wait for that. Its
                    // other end is gone if the command closed its input.
                    std::thread::spawn(move || input.send(Input::EndsAt(bytes)).unwrap_or(()));
                }
                Err(()) => {}
            }
        }
    });
}

/// Forwards standard input up to the end reported by the host. Does not wake up without input.
fn feed<P: Port>(
    mut port: P,
    to: Option<impl Write + Send + 'static>,
    (tell, told): (SyncSender<Input>, Receiver<Input>),
) {
    let Some(mut to) = to else { return };
    std::thread::spawn(move || {
        let mut buffer = vec![0; BUFFER];
        loop {
            match port.read(&mut buffer) {
                Ok(n) if n > 0 && tell.send(Input::Bytes(buffer[..n].to_vec())).is_ok() => {}
                _ => return,
            }
        }
    });
    std::thread::spawn(move || {
        let (mut fed, mut end) = (0, None);
        while end.is_none_or(|end| fed < end) {
            match told.recv() {
                Ok(Input::Bytes(bytes)) => {
                    fed += bytes.len() as u64;
                    // The command closed its input or exited.
                    if to.write_all(&bytes).is_err() {
                        return;
                    }
                }
                Ok(Input::EndsAt(bytes)) => end = Some(bytes),
                Err(_) => return,
            }
        }
    });
}

/// Forwards an output to its end, and returns the number of bytes.
fn carry<P: Port>(from: Option<impl Read + Send + 'static>, mut port: P, done: Sender<()>) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut carried = 0;
        let mut buffer = vec![0; BUFFER];
        if let Some(mut from) = from {
            while let Ok(n @ 1..) = from.read(&mut buffer) {
                if port.write_all(&buffer[..n]).is_err() {
                    break;
                }
                carried += n as u64;
            }
        }
        // After the grace period the receiver no longer waits.
        done.send(()).unwrap_or(());
        carried
    })
}

/// Kills all processes except this one and the machine's init.
pub fn end_all_others() {
    // SAFETY: only sends a signal; all processes in the guest belong to the command. rustix cannot address all
    // processes.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

#[cfg(test)]
mod tests;
