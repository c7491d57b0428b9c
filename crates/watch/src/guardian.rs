//! A process between iotrail and a command: the command's parent and the subreaper of all its descendants
//! (PR_SET_CHILD_SUBREAPER), whatever group, session or user they change to. If iotrail dies, the guardian kills them.
//!
//! The guardian is a fork of iotrail that only makes system calls: it neither allocates nor locks until it exits.

use std::cell::Cell;
use std::ffi::CStr;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, RawDir, openat, readlinkat_raw};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
    set_child_subreaper, set_parent_process_death_signal, setpgid, setsid, waitpid,
};
use rustix::time::{ClockId, clock_gettime};

use iotrail_base::error::{Error, Result};
use iotrail_host::procfs::{self, Stat};

/// Time for the processes to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// Time to wait for killed processes; one in an uninterruptible sleep may take longer.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

const KILL: u8 = b'k';
const LEAVE: u8 = b'l';

/// Handle of a command's guardian. On drop it ends all descendants.
#[derive(Debug)]
pub struct Guardian {
    order: PipeWriter,
    report: PipeReader,
    /// PID of the guardian, and start time of the command.
    began: Cell<Option<(Pid, u64)>>,
    ended: Cell<Option<Ended>>,
    /// The guardian has exited: all descendants have exited, or it released them.
    over: Cell<bool>,
}

/// Exit of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Exit status, or 128 + the signal that killed it.
    pub status: i32,
    /// A signal killed it.
    pub killed: bool,
    pub wall_ns: u64,
    /// User and system time of the command and all its exited descendants; `None` if unknown.
    pub cpu_ns: Option<(u64, u64)>,
}

/// A report of the guardian: its PID, 0, start time; or exit status (KILLED: a signal), 1, time, user and system time.
type Message = [u64; 5];
const KILLED: u64 = 1 << 32;

impl Guardian {
    /// Inserts a guardian between iotrail and `command`, which gets a process group of its own. With `outlives`, the
    /// guardian releases the processes if iotrail dies. Drop the command after starting it, because it holds the
    /// guardian's ends of the pipes.
    pub fn over(command: &mut Command, outlives: bool) -> Result<Self> {
        let cannot =
            |e| Error::machine("cannot create a pipe for a program", "check the open file limit: ulimit -n").because(e);
        let (orders, order) = io::pipe().map_err(cannot)?;
        let (report, reports) = io::pipe().map_err(cannot)?;
        let outer_end = order.as_raw_fd();
        let split = move || {
            // Before the first child is created, since a child may leave orphans immediately.
            set_child_subreaper(Some(getpid()))?;
            let before = block_signals();
            let began_ns = now_ns();
            // SAFETY: like fork, in a single-threaded process.
            match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD as libc::c_long, 0, 0, 0, 0) } {
                -1 => Err(io::Error::last_os_error()),
                0 => {
                    // SAFETY: a live mask.
                    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
                    // SAFETY: closes this process's copy of iotrail's end; otherwise iotrail's death would go
                    // unnoticed.
                    unsafe { rustix::io::close(outer_end) };
                    setpgid(None, None)?;
                    if !outlives {
                        set_parent_process_death_signal(Some(Signal::KILL))?;
                    }
                    Ok(())
                }
                leader => guard(leader as i32, (orders.as_fd(), reports.as_fd()), began_ns, outlives),
            }
        };
        // SAFETY: the closure only makes system calls on data that it owns, and allocates nothing.
        unsafe { command.pre_exec(split) };
        let (began, ended, over) = (Cell::new(None), Cell::new(None), Cell::new(false));
        Ok(Guardian { order, report, began, ended, over })
    }

    /// Whether the command has exited; waits at most `patience`.
    pub fn wait(&self, patience: Duration) -> bool {
        self.wait_for(|| self.ended.get().is_some() || self.over.get(), patience)
    }

    /// The same for the command and all its descendants.
    pub fn wait_for_all(&self, patience: Duration) -> bool {
        self.wait_for(|| self.over.get(), patience)
    }

    fn wait_for(&self, is_there: impl Fn() -> bool, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            self.look();
            let rest = until.saturating_duration_since(Instant::now());
            if is_there() || rest.is_zero() {
                return is_there();
            }
            is_readable(&self.report, rest);
        }
    }

    /// Reads pending reports from the guardian.
    fn look(&self) {
        while !self.over.get() && is_readable(&self.report, Duration::ZERO) {
            let mut bytes = [0; size_of::<Message>()];
            match (&self.report).read(&mut bytes) {
                Ok(0) => {
                    self.over.set(true);
                    if let Some((guardian, _)) = self.began.get() {
                        // If exec failed, it was already reaped.
                        let _ = waitpid(Some(guardian), WaitOptions::empty());
                    }
                }
                Ok(_) => self.take(bytes),
                Err(_) => {}
            }
        }
    }

    fn take(&self, bytes: [u8; size_of::<Message>()]) {
        let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
        let mut next = || words.next().unwrap_or_default();
        let [first, is_end, at, user_ns, system_ns] = [next(), next(), next(), next(), next()];
        if is_end == 0 {
            self.began.set(Pid::from_raw(first as i32).map(|pid| (pid, at)));
        } else if let Some((_, began)) = self.began.get() {
            // After the first report, later ones cover the exits of all descendants.
            let wall_ns = self.ended.get().map_or(at.saturating_sub(began), |ended| ended.wall_ns);
            let (status, killed) = (first as i32, first & KILLED != 0);
            self.ended.set(Some(Ended { status, killed, wall_ns, cpu_ns: Some((user_ns, system_ns)) }));
        }
    }

    /// Exit of the command; `None` while it runs.
    pub fn ended(&self) -> Option<Ended> {
        self.look();
        let killed = || {
            let wall_ns = self.began.get().map_or(0, |(_, began)| now_ns().saturating_sub(began));
            Ended { status: 128 + libc::SIGKILL, killed: true, wall_ns, cpu_ns: None }
        };
        self.ended.get().or_else(|| self.over.get().then(killed))
    }

    /// Running descendants by PID and name.
    pub fn living(&self) -> Vec<(u32, String)> {
        self.look();
        let Some((guardian, _)) = self.began.get().filter(|_| !self.over.get()) else { return Vec::new() };
        let below = procfs::descendants(guardian.as_raw_pid() as u32).into_iter();
        below.filter_map(|pid| Stat::of(pid).filter(|s| s.state != 'Z').map(|stat| (pid, stat.comm))).collect()
    }

    /// Ends all descendants with SIGTERM, then SIGKILL. Returns those that still run.
    pub fn end(&self) -> Vec<(u32, String)> {
        self.look();
        if self.began.get().is_none() || self.over.get() {
            return Vec::new();
        }
        self.ask_to_end();
        if !self.wait_for_all(GRACE) {
            (&self.order).write_all(&[KILL]).unwrap_or(());
            self.wait_for_all(KILLED_WITHIN);
        }
        self.living()
    }

    fn ask_to_end(&self) {
        let open = |(pid, _): &(u32, String)| {
            let number = i32::try_from(*pid).ok().and_then(Pid::from_raw)?;
            Some((*pid, pidfd_open(number, PidfdFlags::empty()).ok()?))
        };
        let opened: Vec<(u32, OwnedFd)> = self.living().iter().filter_map(open).collect();
        // A process that is still listed after its pidfd was opened is the same process or has exited.
        let still = self.living();
        for (pid, fd) in opened {
            if still.iter().any(|(other, _)| *other == pid) {
                pidfd_send_signal(fd, Signal::TERM).unwrap_or(());
            }
        }
    }

    /// Releases all descendants, if they may outlive iotrail.
    pub fn leave(&self) {
        (&self.order).write_all(&[LEAVE]).unwrap_or(());
        self.wait_for_all(KILLED_WITHIN);
        self.over.set(true);
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.end();
    }
}

/// Time without a time namespace's offset, whose lookup allocates. Only differences are used.
fn now_ns() -> u64 {
    let at = clock_gettime(ClockId::Monotonic);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

fn is_readable(fd: impl AsFd, patience: Duration) -> bool {
    let fd = fd.as_fd();
    // A timeout too large for the type means infinity.
    let patience = Timespec::try_from(patience).ok();
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], patience.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Blocks all signals and returns the previous mask.
fn block_signals() -> libc::sigset_t {
    // SAFETY: system calls on live structures, for which all zeros is valid.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
        before
    }
}

/// Main function of the guardian. All signals are blocked.
fn guard(leader: i32, (orders, reports): (BorrowedFd<'_>, BorrowedFd<'_>), began_ns: u64, outlives: bool) -> ! {
    // Reported first: the caller's spawn() returns once all other copies of the pipe are closed, and must then know
    // its guardian.
    Herd { leader, status: None, reports }.report(getpid().as_raw_pid() as u64, 0, began_ns, (0, 0));
    // A failure has no one to be reported to.
    let _ = (setsid(), rustix::thread::set_name(c"iotrail-guard"));
    // SAFETY: system calls on live structures. The pipes become the standard descriptors; all others are closed,
    // including the program's outputs.
    let ends = unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::dup2(orders.as_raw_fd(), 0);
        libc::dup2(reports.as_raw_fd(), 1);
        if libc::syscall(libc::SYS_close_range, 2, libc::c_uint::MAX, 0) != 0 {
            // Before Linux 5.9. Open descriptors may exceed the soft limit.
            (2..1 << 16).for_each(|fd| _ = libc::close(fd));
        }
        let mut children: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut children);
        libc::sigaddset(&mut children, libc::SIGCHLD);
        libc::signalfd(-1, &children, 0)
    };
    // SAFETY: the three descriptors stay open as long as this process lives.
    let (orders, reports, ends) =
        unsafe { (BorrowedFd::borrow_raw(0), BorrowedFd::borrow_raw(1), BorrowedFd::borrow_raw(ends)) };
    let mut herd = Herd { leader, status: None, reports };
    loop {
        while herd.reap(libc::WNOHANG) {}
        let mut fds = [PollFd::from_borrowed_fd(orders, PollFlags::IN), PollFd::from_borrowed_fd(ends, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        if fds[1].revents().contains(PollFlags::IN) {
            let mut which = [0u8; size_of::<libc::signalfd_siginfo>()];
            let _ = rustix::io::read(ends, &mut which);
        }
        if !fds[0].revents().is_empty() {
            let mut order = [0];
            match rustix::io::read(orders, &mut order) {
                Ok(1) if order == [LEAVE] => herd.exit(),
                Ok(0) if outlives => herd.exit(),
                _ => break,
            }
        }
    }
    loop {
        herd.kill();
        // Orphans of an exited process are children now.
        herd.reap(0);
    }
}

struct Herd<'a> {
    leader: i32,
    /// Exit status of the leader once reaped, as in a [`Message`].
    status: Option<u64>,
    reports: BorrowedFd<'a>,
}

impl Herd<'_> {
    fn report(&self, first: u64, is_end: u64, at_ns: u64, (user_ns, system_ns): (u64, u64)) {
        let message: Message = [first, is_end, at_ns, user_ns, system_ns];
        // SAFETY: plain integers. A pipe write of this size is atomic.
        let bytes = unsafe { std::mem::transmute::<Message, [u8; size_of::<Message>()]>(message) };
        let _ = rustix::io::write(self.reports, &bytes);
    }

    fn report_end(&self, status: u64) {
        // SAFETY: a plain C structure for which all zeros is valid; the call fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
            usage
        };
        let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
        self.report(status, 1, now_ns(), (ns(usage.ru_utime), ns(usage.ru_stime)));
    }

    /// Reaps a child; `false` if none has exited. Exits the process after the last child.
    fn reap(&mut self, how: libc::c_int) -> bool {
        let mut status = 0;
        // SAFETY: `status` is live; the call fills it.
        let pid = unsafe { libc::waitpid(-1, &mut status, how) };
        if pid < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            self.exit();
        }
        if pid == self.leader {
            let status = match libc::WIFEXITED(status) {
                true => libc::WEXITSTATUS(status) as u64,
                false => KILLED | (128 + libc::WTERMSIG(status)) as u64,
            };
            self.status = Some(status);
            self.report_end(status);
        }
        pid > 0
    }

    fn exit(&self) -> ! {
        if let Some(status) = self.status {
            self.report_end(status);
        }
        // SAFETY: exits without running iotrail's exit handlers.
        unsafe { libc::_exit(0) }
    }

    /// Kills all children. Their PIDs cannot be reused before this process reaps them.
    fn kill(&self) {
        if self.status.is_none()
            && let Some(leader) = Pid::from_raw(self.leader)
        {
            let _ = (kill_process_group(leader, Signal::KILL), kill_process(leader, Signal::KILL));
        }
        // In another PID namespace, /proc shows other PIDs.
        let mut own = [MaybeUninit::uninit(); 16];
        let us = getpid().as_raw_pid();
        if !readlinkat_raw(CWD, c"/proc/self", &mut own).is_ok_and(|(number, _)| number_in(number) == Some(us)) {
            return;
        }
        let folder = OFlags::RDONLY | OFlags::DIRECTORY;
        let Ok(proc) = openat(CWD, c"/proc", folder, Mode::empty()) else { return };
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(&proc, &mut space);
        while let Some(Ok(entry)) = entries.next() {
            let name: &CStr = entry.file_name();
            if let Some(pid) = number_in(name.to_bytes()).and_then(Pid::from_raw)
                && parent(proc.as_fd(), name) == Some(us)
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

fn number_in(bytes: &[u8]) -> Option<i32> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Parent PID, the fourth field of /proc/PID/stat. The second field is the name in parentheses, which may contain any
/// character.
fn parent(proc: BorrowedFd<'_>, name: &CStr) -> Option<i32> {
    let process = openat(proc, name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let stat = openat(&process, c"stat", OFlags::RDONLY, Mode::empty()).ok()?;
    let mut space = [0u8; 256];
    let length = rustix::io::read(&stat, &mut space).ok()?;
    let text = &space[..length];
    let close = text.iter().rposition(|byte| *byte == b')')?;
    number_in(text.get(close + 1..)?.split(|byte| *byte == b' ').nth(2)?)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(line: &str) -> (Guardian, Command) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).stdout(Stdio::null());
        (Guardian::over(&mut command, false).unwrap(), command)
    }

    fn start(line: &str) -> Guardian {
        let (guardian, mut command) = shell(line);
        command.spawn().map(drop).unwrap();
        guardian
    }

    fn names(living: &[(u32, String)]) -> Vec<&str> {
        living.iter().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn a_guarded_command_has_an_exit_status_and_times() {
        let guardian = start("sleep 0.1; exit 3");
        assert_eq!(guardian.ended(), None);
        assert!(guardian.wait(LONG) && guardian.wait_for_all(LONG));
        let ended = guardian.ended().unwrap();
        assert_eq!((ended.status, ended.killed), (3, false));
        assert!(ended.wall_ns >= 100_000_000 && ended.cpu_ns.is_some(), "{ended:?}");
        let guardian = start("kill -9 $$");
        assert!(guardian.wait(LONG));
        assert!(guardian.ended().is_some_and(|ended| (ended.status, ended.killed) == (128 + libc::SIGKILL, true)));
    }

    #[test]
    fn a_command_that_cannot_run_leaves_no_guardian() {
        let mut command = Command::new("/no/such/program");
        let guardian = Guardian::over(&mut command, false).unwrap();
        command.spawn().unwrap_err();
        drop(command);
        assert!(guardian.wait_for_all(LONG) && guardian.end().is_empty());
        // A command that is never started.
        let (guardian, command) = shell("true");
        assert!(guardian.end().is_empty() && guardian.living().is_empty());
        drop((command, guardian));
    }

    #[test]
    fn daemons_and_processes_that_ignore_sigterm_are_killed() {
        let guardian = start("setsid sh -c 'trap \"\" TERM; sleep 600 & sleep 600 & wait' & (setsid sleep 600 &)");
        assert!(guardian.wait(LONG));
        let deadline = Instant::now() + LONG;
        while names(&guardian.living()).iter().filter(|name| **name == "sleep").count() < 3 && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        let living = guardian.living();
        assert_eq!(names(&living).iter().filter(|name| **name == "sleep").count(), 3, "{living:?}");
        assert_eq!(guardian.end(), []);
        assert!(living.iter().all(|(pid, _)| Stat::of(*pid).is_none()), "{living:?}");
    }

    #[test]
    fn released_processes_keep_running() {
        let mut command = Command::new("sleep");
        let guardian = Guardian::over(command.arg("600"), true).unwrap();
        command.spawn().map(drop).unwrap();
        drop(command);
        let living = guardian.living();
        guardian.leave();
        drop(guardian);
        let [(pid, _)] = living[..] else { panic!("{living:?}") };
        assert!(Stat::of(pid).is_some_and(|stat| stat.state != 'Z'));
        kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    }

    const DIES: &str = "IOTRAIL_TEST_DIES";

    /// Not a test: the process that the next test kills.
    #[test]
    fn caller_that_is_killed() {
        let Ok(line) = std::env::var(DIES) else { return };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &line]);
        let guardian = Guardian::over(&mut command, false).unwrap();
        command.spawn().map(drop).unwrap();
        drop(command);
        guardian.wait(Duration::MAX / 4);
        std::thread::park();
    }

    /// Every process keeps the pipe open, so its end of file means that the last process has exited.
    #[test]
    fn all_descendants_are_killed_with_their_caller() {
        let mut line =
            "setsid sh -c 'trap \"\" TERM; echo . ; sleep 600' & (setsid sh -c 'echo .; exec sleep 600' &); "
                .to_owned();
        let mut expected = 3;
        if rustix::process::geteuid().is_root() {
            expected += 1;
            line += "setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'echo .; exec sleep 600' & ";
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "guardian::tests::caller_that_is_killed", "--nocapture"]);
        let mut caller = command.env(DIES, line + "echo .; sleep 600").stdout(Stdio::piped()).spawn().unwrap();
        let mut output = caller.stdout.take().unwrap();
        let (mut byte, mut seen) = ([0], 0);
        while seen < expected {
            output.read_exact(&mut byte).unwrap();
            // The test harness also prints dots, but not at the end of a line.
            if byte == *b"." {
                output.read_exact(&mut byte).unwrap();
                seen += u32::from(byte == *b"\n");
            }
        }
        caller.kill().unwrap();
        caller.wait().unwrap();
        output.read_to_end(&mut Vec::new()).unwrap();
    }
}
