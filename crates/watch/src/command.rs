//! A command that is traced from its first instruction: before exec, its process waits at a gate until the probes are
//! attached and trace it.

use std::ffi::OsString;
use std::fmt::{self, Display};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitOptions, getpid, waitpid};

use super::end::{self, End};
use super::guardian::Guardian;
use super::processes::CpuTime;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::limits;
use iotrail_host::programs;

const REPORTED_WITHIN: Duration = Duration::from_secs(1);

/// Hook that prepares a command before it is started.
#[derive(Clone)]
pub struct Prepare(pub Rc<Preparing>);

/// Returns the guardian between iotrail and the command, if any.
type Preparing = dyn Fn(&mut Command) -> Result<Option<Rc<Guardian>>>;

impl fmt::Debug for Prepare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prepare")
    }
}

/// Process of a command. If it is dropped before the gate is opened, the process never calls exec.
#[derive(Debug)]
pub struct Gated {
    argv: Vec<OsString>,
    tgid: u32,
    /// PID in the initial namespace, which identifies it to the probes.
    kernels_tgid: Option<u32>,
    end: End,
    gate: Option<PipeWriter>,
    spawner: Option<Spawner>,
    /// `None` if the process is a child of iotrail itself.
    guardian: Option<Rc<Guardian>>,
    /// Exit status, or 128 + the signal that killed it.
    ended: Option<i32>,
    killed: bool,
}

/// Thread that waits until exec has succeeded or failed.
#[derive(Debug)]
struct Spawner {
    thread: Option<JoinHandle<()>>,
    spawned: mpsc::Receiver<io::Result<()>>,
}

impl Spawner {
    fn start(mut command: Command) -> io::Result<Self> {
        let (tell, spawned) = mpsc::channel();
        let work = move || {
            let result = command.spawn().map(drop);
            // Closes iotrail's copies of the child's ends, so that a failed fork closes the pipe.
            drop(command);
            tell.send(result).unwrap_or(());
        };
        let thread = std::thread::Builder::new().name("spawn".into()).spawn(work)?;
        Ok(Spawner { thread: Some(thread), spawned })
    }

    /// Success if the program runs, otherwise the reason.
    fn result(&self) -> io::Result<()> {
        self.spawned.recv().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")))
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // The thread's result contains the reason of a failed exec.
            drop(thread.join());
        }
    }
}

/// Checks that the command exists, with the search rules of execvp(3), before anything is loaded.
pub fn find(argv: &[OsString]) -> Result<()> {
    let name = argv.first().filter(|name| !name.is_empty());
    let name = name.or_input("the command name is empty", "specify a program after --")?;
    let shown = Path::new(name).display();
    if name.as_encoded_bytes().contains(&b'/') {
        return match std::fs::metadata(name) {
            Err(e) => Err(Error::input(format!("cannot run {shown}"), "specify an existing program").because(e)),
            Ok(meta) if meta.is_dir() => {
                Err(Error::input(format!("cannot run {shown}: it is a directory"), "specify a program in it"))
            }
            Ok(_) if !programs::may_run(Path::new(name)) => {
                Err(Error::input(format!("cannot run {shown}: it is not executable"), "make it executable: chmod +x"))
            }
            Ok(_) => Ok(()),
        };
    }
    match programs::on_path(name) {
        Some(_) => Ok(()),
        None => Err(Error::input(format!("program {shown} is not in PATH"), "specify its path, or another program")),
    }
}

fn cannot_start(cause: io::Error) -> Error {
    Error::machine("cannot start a process for the command", "check the process and file limits: ulimit -a")
        .because(cause)
}

/// Error for a command that was found but could not be started.
pub fn cannot_run(name: impl Display, cause: io::Error) -> Error {
    match cause.raw_os_error() {
        // The process or memory limit is reached.
        Some(libc::EAGAIN | libc::ENOMEM) => cannot_start(cause),
        _ => Error::input(format!("cannot run {name}"), "specify an executable program").because(cause),
    }
}

impl Gated {
    /// Forks the process, which waits at the gate. `stdout_apart`: redirects its standard output to iotrail's standard
    /// error.
    pub fn new(argv: &[OsString], stdout_apart: bool, prepare: Option<&Prepare>) -> Result<Self> {
        let (name, args) = argv.split_first().expect("find() has seen a name");
        let (mut told, tell) = io::pipe().map_err(cannot_start)?;
        let (at_gate, gate) = io::pipe().map_err(cannot_start)?;
        let mut command = Command::new(name);
        command.args(args);
        if stdout_apart {
            command.stdout(io::stderr());
        }
        limits::give_back(&mut command);
        let guardian = match prepare {
            Some(Prepare(prepare)) => prepare(&mut command)?,
            None => None,
        };
        let outer_end = gate.as_raw_fd();
        // SAFETY: the closure only makes system calls on descriptors that it owns, and allocates nothing.
        unsafe { command.pre_exec(move || wait_at_gate(&tell, &at_gate, outer_end)) };
        // spawn() returns only after exec, so it needs a thread of its own.
        let spawner = Spawner::start(command).map_err(cannot_start)?;
        let mut tgid = [0; 4];
        if let Err(cause) = told.read_exact(&mut tgid) {
            return Err(cannot_start(spawner.result().err().unwrap_or(cause)));
        }
        let tgid = u32::from_ne_bytes(tgid);
        // Dropping the gate makes the abandoned child exit.
        let end = End::of(tgid).map_err(cannot_start)?;
        Ok(Gated {
            argv: argv.to_vec(),
            tgid,
            kernels_tgid: None,
            end,
            gate: Some(gate),
            spawner: Some(spawner),
            guardian,
            ended: None,
            killed: false,
        })
    }

    pub fn argv(&self) -> Vec<String> {
        self.argv.iter().map(|a| a.to_string_lossy().into_owned()).collect()
    }

    /// PID in iotrail's namespace.
    pub fn tgid(&self) -> u32 {
        self.tgid
    }

    pub fn is_known_as(&mut self, kernels_tgid: u32) {
        self.kernels_tgid = Some(kernels_tgid);
    }

    /// PID in the initial namespace, if known.
    pub fn kernels_tgid(&self) -> Option<u32> {
        self.kernels_tgid
    }

    pub fn end(&self) -> &End {
        &self.end
    }

    /// Opens the gate, so that the process calls exec.
    pub fn release(&mut self) -> Result<()> {
        let (Some(mut gate), Some(spawner)) = (self.gate.take(), self.spawner.as_ref()) else { return Ok(()) };
        gate.write_all(&[1]).map_err(cannot_start)?;
        match spawner.result() {
            Ok(()) => Ok(()),
            Err(cause) => Err(cannot_run(Path::new(&self.argv[0]).display(), cause)),
        }
    }

    /// Exit status, or 128 + the signal that killed it; `None` if still running. Does not wait.
    pub fn ended(&mut self) -> Option<i32> {
        if let Some(guardian) = &self.guardian {
            // The guardian reports shortly after the exit.
            if self.ended.is_none() && self.end.is_there() && guardian.wait(REPORTED_WITHIN) {
                let ended = guardian.ended();
                self.ended = ended.map(|ended| ended.status);
                self.killed = ended.is_some_and(|ended| ended.killed);
            }
        } else if self.ended.is_none()
            && let Ok(pid) = end::pid(self.tgid)
            && let Ok(Some((_, status))) = waitpid(Some(pid), WaitOptions::NOHANG)
        {
            self.killed = status.signaled();
            self.ended = status.exit_status().or_else(|| Some(128 + status.terminating_signal()?));
        }
        self.ended
    }

    /// Whether a signal killed it.
    pub fn was_killed(&self) -> bool {
        self.killed
    }

    /// Sends a signal unless the process has exited.
    pub fn signal(&mut self, signal: libc::c_int) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            self.end.signal(signal);
        }
    }

    /// Waits for the exit, for at most `patience`.
    pub fn wait(&mut self, patience: Duration) -> Option<i32> {
        let until = Instant::now() + patience;
        while self.ended().is_none() && Instant::now() < until {
            end::wait([&self.end].into_iter(), until.saturating_duration_since(Instant::now()));
        }
        self.ended
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        // A process at the gate notices that the gate is closed; spawn() then returns its error.
        drop(self.gate.take());
        drop(self.spawner.take());
    }
}

/// CPU time of all threads of this process.
pub(super) fn own_cpu() -> CpuTime {
    // SAFETY: a plain C structure for which all zeros is valid; the call fills it and cannot fail for the calling
    // process.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    CpuTime { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
}

/// Runs in the child before exec, and reports its PID.
fn wait_at_gate(mut tell: &PipeWriter, mut at_gate: &PipeReader, outer_end: RawFd) -> io::Result<()> {
    // SAFETY: closes the child's copy of iotrail's end, which the child does not use. As long as this copy is open,
    // the child would not notice that iotrail closes the gate.
    unsafe { rustix::io::close(outer_end) };
    tell.write_all(&getpid().as_raw_pid().to_ne_bytes())?;
    let mut opened = [0];
    match at_gate.read(&mut opened)? {
        1 => Ok(()),
        _ => Err(io::ErrorKind::Interrupted.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_gated_command_runs_when_released_and_keeps_its_exit_status() {
        let mut command = Gated::new(&argv(&["sh", "-c", "exit 7"]), false, None).unwrap();
        let exe = || std::fs::read_link(format!("/proc/{}/exe", command.tgid())).unwrap();
        assert_eq!(exe(), std::env::current_exe().unwrap(), "it is not the program yet");
        assert_eq!(command.ended(), None);
        command.release().unwrap();
        assert_eq!(command.wait(Duration::from_secs(30)).unwrap(), 7);
        assert_eq!((command.ended().unwrap(), command.was_killed()), (7, false), "asked again");
    }

    #[test]
    fn a_signal_ends_a_gated_command() {
        let mut command = Gated::new(&argv(&["sleep", "600"]), false, None).unwrap();
        command.release().unwrap();
        command.signal(libc::SIGTERM);
        assert_eq!(command.wait(Duration::from_secs(30)).unwrap(), 128 + libc::SIGTERM);
        assert!(command.was_killed());
    }

    #[test]
    fn a_command_never_runs_if_its_gate_is_dropped() {
        let command = Gated::new(&argv(&["sleep", "600"]), false, None).unwrap();
        let tgid = command.tgid();
        drop(command);
        assert!(!Path::new(&format!("/proc/{tgid}")).exists());
    }

    #[test]
    fn a_process_limit_is_not_reported_as_an_error_of_the_command() {
        let said = |errno| cannot_run("x", io::Error::from_raw_os_error(errno));
        assert_eq!((said(libc::ENOEXEC).exit_status(), said(libc::EAGAIN).exit_status()), (2, 3));
        assert!(said(libc::EAGAIN).to_string().ends_with("check the process and file limits: ulimit -a"));
    }

    #[test]
    fn a_command_that_cannot_run_is_an_input_error() {
        let said = |words: &[&str]| {
            let e = find(&argv(words)).unwrap_err();
            assert_eq!(e.exit_status(), 2);
            e.to_string()
        };
        assert_eq!(
            said(&["no-such-program"]),
            "program no-such-program is not in PATH; specify its path, or another program"
        );
        assert_eq!(
            said(&["/no/such"]),
            "cannot run /no/such: No such file or directory (os error 2); specify an existing program"
        );
        assert_eq!(said(&["/"]), "cannot run /: it is a directory; specify a program in it");
        assert_eq!(
            said(&["/proc/self/status"]),
            "cannot run /proc/self/status: it is not executable; make it executable: chmod +x"
        );
        find(&argv(&["sh"])).unwrap();
        // Only the kernel can report this error.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script");
        std::fs::write(&file, "#!/no/such/interpreter\n").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = Gated::new(&[file.into_os_string()], false, None).unwrap();
        assert_eq!(command.release().unwrap_err().exit_status(), 2);
    }
}
