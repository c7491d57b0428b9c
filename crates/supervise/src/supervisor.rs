//! The thread that answers the program's io_uring_setup calls.

use std::io::{self, PipeWriter};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::os::unix::thread::JoinHandleExt;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use crate::change::{Change, Params};
use crate::memory::Memory;
use crate::{filter, trial};
use iotrail_base::error::{Error, Result};
use iotrail_schema::setup_flag;

/// A ring that a process of the tree set out to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// In iotrail's PID namespace.
    pub tgid: u32,
    pub tid: u32,
    pub entries: u32,
    pub asked: Params,
    /// The parameters passed to the kernel.
    pub given: Params,
    /// Why the parameters were not modified; `None`: they were.
    pub left_as_asked: Option<String>,
}

impl Ring {
    pub fn asked_flags(&self) -> Vec<String> {
        setup_flag::names(self.asked.flags, Some(self.asked.cq_entries))
    }

    pub fn given_flags(&self) -> Vec<String> {
        setup_flag::names(self.given.flags, Some(self.given.cq_entries))
    }
}

/// The supervisor's observations of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// In order.
    pub rings: Vec<Ring>,
    /// Calls that a signal ended before they were received: they failed with EINTR, or the kernel restarted them.
    pub interrupted: u64,
}

/// A program's supervisor. When dropped, it no longer answers: the program's next setup fails with ENOSYS.
#[derive(Debug)]
pub struct Supervisor {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<Seen>>,
}

/// Whether a program can be supervised here; the error names the missing capability.
pub fn allowed() -> Result<()> {
    // A filter is its thread's: this one ends with it.
    let tried = std::thread::spawn(|| filter::install().map(drop)).join();
    match tried {
        Ok(Ok(())) => Ok(()),
        Ok(Err(cause)) => Err(refused(cause)),
        Err(payload) => Err(Error::of_panic("the trial of a seccomp filter", payload.as_ref())),
    }
}

fn refused(cause: io::Error) -> Error {
    let remedy = match cause.raw_os_error() {
        Some(libc::EBUSY) => {
            "a seccomp supervisor is there already (a container's, or another iotrail try): run outside of it"
        }
        Some(libc::EINVAL) => "seccomp notification with CONTINUE needs Linux 5.5 or later with CONFIG_SECCOMP_FILTER",
        _ => {
            "a seccomp filter or security module forbids seccomp(2): run outside the container, or allow seccomp in its profile"
        }
    };
    Error::machine("cannot put a program under a seccomp supervisor", remedy).because(cause)
}

/// Whether this process can create a ring; its children have the same limits.
pub fn gets_a_ring() -> io::Result<()> {
    trial::granted(1, &Params::default()).map(drop)
}

/// Makes `command` run under the filter with all its children, supervised from its first call.
pub fn attend(command: &mut Command, change: Change) -> Result<Supervisor> {
    let (from_child, to_us) = UnixDatagram::pair().map_err(no_socket)?;
    // SAFETY: the closure makes only system calls, on data that it owns, and does not allocate.
    unsafe {
        command.pre_exec(move || {
            let listener = filter::install()?;
            send(&to_us, listener.as_fd())
        })
    };
    let (stopped, stop) = io::pipe().map_err(no_socket)?;
    let thread = std::thread::Builder::new().name("supervisor".into()).spawn(move || {
        match receive(&from_child, stopped.as_fd()) {
            Some(listener) => answer_all(&listener, stopped.as_fd(), change),
            None => Seen::default(),
        }
    });
    let thread = thread.map_err(|e| Error::machine("cannot start a thread", "see ulimit -u").because(e))?;
    Ok(Supervisor { stop: Some(stop), thread: Some(thread) })
}

/// `command` will run under a filter that costs as much as the supervisor's, but its calls are not changed. Until the
/// supervisor has received a call, any signal ends it with EINTR: a program that is not changed gets no such error.
pub fn leave_alone(command: &mut Command) {
    // SAFETY: the closure makes system calls only, and allocates nothing.
    unsafe { command.pre_exec(filter::install_unasked) };
}

fn no_socket(cause: io::Error) -> Error {
    Error::machine("cannot create a socket for the supervisor", "see the limit of open files: ulimit -n").because(cause)
}

fn send(to: &UnixDatagram, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(to, &[io::IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// `None`: it was not started, or is not to be waited for.
fn receive(from: &UnixDatagram, stopped: BorrowedFd<'_>) -> Option<OwnedFd> {
    loop {
        let mut fds = [PollFd::new(from, PollFlags::IN), PollFd::from_borrowed_fd(stopped, PollFlags::IN)];
        if poll(&mut fds, None).is_ok_and(|_| !fds[0].revents().contains(PollFlags::IN)) {
            return None;
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        match recvmsg(from, &mut [io::IoSliceMut::new(&mut [0])], &mut control, flags) {
            Ok(_) => {
                return control.drain().find_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                    _ => None,
                });
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

impl Supervisor {
    /// Ends it.
    pub fn end(mut self) -> Result<Seen> {
        match self.join() {
            Some(Ok(seen)) => Ok(seen),
            Some(Err(payload)) => Err(Error::of_panic("the supervisor", payload.as_ref())),
            None => Ok(Seen::default()),
        }
    }

    fn join(&mut self) -> Option<std::thread::Result<Seen>> {
        drop(self.stop.take());
        let thread = self.thread.take()?;
        while !thread.is_finished() {
            // SAFETY: a thread that was not joined. The signal ends its wait, or comes just before it.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), WAKES) };
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(thread.join())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Its records are not needed.
        drop(self.join());
    }
}

/// A signal that is ignored by default, also by the programs that are started.
const WAKES: libc::c_int = libc::SIGURG;

/// Answers until `stopped` is closed, or no process is under the filter any more (Linux 6.11).
fn answer_all(listener: &OwnedFd, stopped: BorrowedFd<'_>, change: Change) -> Seen {
    run_first(listener);
    let mut seen = Seen::default();
    loop {
        match receive_call(listener) {
            Ok(call) => seen.rings.extend(answer(listener, call, change)),
            // Each interrupted call leaves one turn without a call.
            Err(Errno::NOENT) if !is_closed(listener.as_fd()) => seen.interrupted += 1,
            Err(Errno::INTR) if !is_closed(stopped) => {}
            Err(_) => return seen,
        }
    }
}

fn is_closed(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// A signal that arrives before a call is received ends it with EINTR, so this thread receives it soon: with CAP_SYS_NICE it does not
/// wait for a CPU; from Linux 6.6 on it runs on the caller's CPU, without an interrupt of another one.
fn run_first(listener: &OwnedFd) {
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    extern "C" fn nothing(_: libc::c_int) {}
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: live structures, and a handler that does nothing, without SA_RESTART. What is refused is left as it is.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &first);
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        libc::sigaction(WAKES, &action, std::ptr::null_mut());
    }
}

/// Waits for a call. ENOENT: a signal ended it before; EINTR: [`WAKES`].
fn receive_call(listener: &OwnedFd) -> std::result::Result<libc::seccomp_notif, Errno> {
    // SAFETY: the kernel requires an all-zero structure to fill.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: a live structure of the kernel's own layout.
    match unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) } {
        0 => Ok(call),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// A received call: changed and continued. `None`: its thread has exited.
fn answer(listener: &OwnedFd, call: libc::seccomp_notif, change: Change) -> Option<Ring> {
    let still_there = || {
        // SAFETY: a live number that the kernel reads.
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0 }
    };
    let ring = changed(call.pid, (call.data.args[0] as u32, call.data.args[1]), change, still_there);
    let go_on = libc::seccomp_notif_resp {
        id: call.id,
        val: 0,
        error: 0,
        flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
    };
    // SAFETY: a live structure of the kernel's own layout. It fails if the thread was killed meanwhile.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const go_on) };
    ring
}

/// The memory is opened before `still_there` is checked: if the thread waits after that, the memory belongs to its process.
fn changed(tid: u32, (entries, at): (u32, u64), change: Change, still_there: impl Fn() -> bool) -> Option<Ring> {
    let memory = Memory::of(tid);
    let asked = memory.as_ref().map_err(|e| e.to_string()).and_then(|m| m.read(at).map_err(|e| e.to_string()));
    let tgid = group_of(tid).unwrap_or(tid);
    if !still_there() {
        return None;
    }
    let ring = |asked, given, left_as_asked| Some(Ring { tgid, tid, entries, asked, given, left_as_asked });
    let (memory, asked) = match (memory, asked) {
        (Ok(memory), Ok(asked)) => (memory, asked),
        // The kernel refuses parameters that it cannot read.
        (_, asked) => {
            let unknown = Params::default();
            let why = asked.err().unwrap_or_default();
            return ring(unknown, unknown, Some(format!("its parameters cannot be read: {why}")));
        }
    };
    let given = change.apply(asked);
    if given == asked {
        return ring(asked, asked, None);
    }
    if let Some(why) = refused_by_size(entries, &given).or_else(|| Some(trial::refusal(&given)?.to_string())) {
        let flags = setup_flag::names(given.flags, Some(given.cq_entries)).join(",");
        return ring(asked, asked, Some(format!("the kernel refuses a ring of {entries} entries with {flags}: {why}")));
    }
    if !still_there() {
        return None;
    }
    let written = memory.write(at, &given).and_then(|()| memory.read(at));
    if !still_there() {
        return None;
    }
    match written {
        Ok(there) if there == given => ring(asked, given, None),
        Ok(_) => ring(asked, asked, Some("the program changes the parameters while it asks".into())),
        Err(e) => ring(asked, asked, Some(format!("its parameters cannot be written: {e}"))),
    }
}

/// A completion queue has as many entries as the submission queue at least, both rounded up to a power of two.
fn refused_by_size(entries: u32, given: &Params) -> Option<String> {
    let sized = given.flags & setup_flag::bit("cqsize") != 0;
    let small = sized && given.cq_entries.checked_next_power_of_two()? < entries.checked_next_power_of_two()?;
    small.then(|| io::Error::from_raw_os_error(libc::EINVAL).to_string())
}

/// The process of a thread.
fn group_of(tid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;
    use std::os::fd::FromRawFd;
    use std::os::unix::process::ExitStatusExt;

    /// The test program itself as a child that creates rings: it prints the kernel's answer for each.
    const ASKED: &str = "IOTRAIL_TEST_RINGS";

    /// Not a test: the child of [`rings_of`]. One ring per set of flags; after a `:` as a 32-bit program creates them.
    #[test]
    fn child_that_makes_rings() {
        let Ok(flags) = std::env::var(ASKED) else { return };
        let (make, flags): (fn(u32) -> io::Result<u32>, &str) = match flags.strip_prefix(':') {
            Some(flags) => (setup_by_32_bit_call, flags),
            None => (setup, &flags),
        };
        for flags in flags.split(' ') {
            let flags: u32 = flags.parse().unwrap();
            // Another thread makes it, as a program's may.
            println!("ring {}", std::thread::spawn(move || make(flags)).join().unwrap().unwrap());
        }
    }

    fn setup(flags: u32) -> io::Result<u32> {
        let mut params = [0u32; 30];
        params[2] = flags;
        // SAFETY: 120 bytes, as the kernel expects.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, params.as_mut_ptr()) };
        if fd >= 0 { Ok(params[2]) } else { Err(io::Error::last_os_error()) }
    }

    fn setup_by_32_bit_call(flags: u32) -> io::Result<u32> {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a page below 4 GiB, which the kernel reads and writes; rbx, which cannot be named, is restored.
        unsafe {
            let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
            let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, how, -1, 0);
            let params = page.cast::<u32>();
            *params.add(2) = flags;
            let mut fd = 425u64;
            std::arch::asm!(
                "xchg {entries}, rbx",
                "int 0x80",
                "xchg {entries}, rbx",
                entries = inout(reg) 4u64 => _,
                inout("rax") fd,
                in("rcx") page,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
            if fd as i32 >= 0 { Ok(*params.add(2)) } else { Err(io::Error::from_raw_os_error(-(fd as i32))) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        setup(flags)
    }

    /// The program's granted flags, and the supervisor's records.
    fn rings_of(change: &str, flags: &str) -> (Vec<u32>, Vec<Ring>) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "supervisor::tests::child_that_makes_rings", "--nocapture"]).env(ASKED, flags);
        command.stdout(std::process::Stdio::piped());
        let supervisor = attend(&mut command, change.parse().unwrap()).unwrap();
        let child = command.spawn().unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success(), "{:?}", out.status.signal());
        let text = String::from_utf8(out.stdout).unwrap();
        let got = text.lines().filter_map(|l| l.split("ring ").nth(1)?.trim().parse().ok());
        let seen = supervisor.end().unwrap();
        assert_eq!(seen.interrupted, 0);
        (got.collect(), seen.rings)
    }

    #[test]
    fn a_wait_for_a_program_that_never_starts_is_bounded() {
        let mut command = Command::new("/no/such/program");
        let supervisor = attend(&mut command, Change::default()).unwrap();
        command.spawn().unwrap_err();
        assert_eq!(supervisor.end().unwrap(), Seen::default());
        let supervisor = attend(&mut command, Change::default()).unwrap();
        assert_eq!(supervisor.end().unwrap(), Seen::default());
    }

    const COOP: u32 = 1 << 8;

    #[test]
    fn rings_of_a_program_have_the_requested_flags() {
        allowed().unwrap();
        let (got, rings) = rings_of("coop_taskrun", "0 16 4096");
        // clamp is the program's own; single_issuer is tunable, and was not requested.
        assert_eq!(got, [COOP, COOP | 16, COOP]);
        let seen: Vec<_> = rings.iter().map(|r| (r.asked.flags, r.given.flags, r.entries)).collect();
        assert_eq!(seen, [(0, COOP, 4), (16, COOP | 16, 4), (4096, COOP, 4)]);
        assert!(rings.iter().all(|r| r.left_as_asked.is_none() && r.tgid != r.tid), "{rings:?}");
    }

    #[test]
    fn a_ring_that_the_kernel_rejects_gets_the_original_flags() {
        let (got, rings) = rings_of("+taskrun_flag", "0 256");
        assert_eq!(got, [0, 256 | 512]);
        let why = rings[0].left_as_asked.as_deref().unwrap();
        assert_eq!(why, "the kernel refuses a ring of 4 entries with taskrun_flag: Invalid argument (os error 22)");
        assert_eq!(rings[1].left_as_asked, None);
    }

    #[test]
    fn as_is_changes_nothing() {
        let (got, rings) = rings_of("as-is", "0 2");
        assert_eq!((got, rings.len()), (vec![0, 2], 2));
        assert!(rings.iter().all(|r| r.asked == r.given && r.left_as_asked.is_none()));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_32_bit_call_is_changed() {
        let (got, rings) = rings_of("coop_taskrun", ":0 16");
        assert_eq!(got, [COOP, COOP | 16]);
        let seen: Vec<_> = rings.iter().map(|r| (r.asked.flags, r.given.flags, r.entries)).collect();
        assert_eq!(seen, [(0, COOP, 4), (16, COOP | 16, 4)]);
    }

    /// Not a test: the program that [`an_unsupervised_program_gets_no_eintr`] starts.
    #[test]
    fn child_that_is_interrupted() {
        extern "C" fn nothing(_: libc::c_int) {}
        if std::env::var_os(INTERRUPTED).is_none() {
            return;
        }
        // SAFETY: a handler that does nothing, without SA_RESTART, and live structures.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as libc::sighandler_t;
            libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
            let each = libc::timeval { tv_sec: 0, tv_usec: 200 };
            let timer = libc::itimerval { it_interval: each, it_value: each };
            libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
        }
        let interrupted = (0..2000).filter(|_| {
            let mut params = [0u32; 30];
            // SAFETY: 120 bytes, as the kernel expects.
            let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, params.as_mut_ptr()) };
            if fd < 0 {
                return io::Error::last_os_error().raw_os_error() == Some(libc::EINTR);
            }
            // SAFETY: a descriptor that the kernel has just created.
            drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
            false
        });
        println!("interrupted {}", interrupted.count());
        // The filter exists as long as a process has it.
        io::stdin().read_line(&mut String::new()).unwrap();
    }

    const INTERRUPTED: &str = "IOTRAIL_TEST_INTERRUPTED";

    fn interrupted_child() -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = "supervisor::tests::child_that_is_interrupted";
        command.args(["--exact", name, "--nocapture"]).env(INTERRUPTED, "1");
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        command
    }

    /// The calls of the child that failed with EINTR; it waits.
    fn interrupted_of(child: &mut std::process::Child) -> u64 {
        let lines = io::BufReader::new(child.stdout.as_mut().unwrap()).lines();
        lines.map_while(io::Result::ok).find_map(|l| l.split("interrupted ").nth(1)?.parse().ok()).unwrap()
    }

    #[test]
    fn an_unsupervised_program_gets_no_eintr() {
        let mut command = interrupted_child();
        leave_alone(&mut command);
        let mut child = command.spawn().unwrap();
        assert_eq!(interrupted_of(&mut child), 0);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    /// Linux 5.19 or later.
    #[test]
    fn each_call_that_a_signal_ends_is_counted() {
        let mut command = interrupted_child();
        let supervisor = attend(&mut command, "coop_taskrun".parse().unwrap()).unwrap();
        let mut child = command.spawn().unwrap();
        let got = interrupted_of(&mut child);
        let seen = supervisor.end().unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        // The kernel restarts those that its own task work interrupted, or a signal that another thread took.
        assert!(seen.interrupted >= got && seen.rings.len() as u64 == 2000 - got, "{got}: {}", seen.interrupted);
    }

    /// Linux 5.19 or later.
    #[test]
    fn a_signal_does_not_end_a_call_that_was_received() {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: a handler that does nothing, without SA_RESTART.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as libc::sighandler_t;
            libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        }
        let (tell, told) = std::sync::mpsc::channel();
        let asks = std::thread::spawn(move || {
            tell.send((filter::install().unwrap(), rustix::thread::gettid())).unwrap();
            setup(0)
        });
        let (listener, thread) = told.recv().unwrap();
        // SAFETY: structures as the kernel defines them, and a thread of this process that waits.
        unsafe {
            let mut call: libc::seccomp_notif = std::mem::zeroed();
            assert_eq!(libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call), 0);
            let (us, it) = (libc::getpid(), thread.as_raw_pid());
            assert_eq!(libc::syscall(libc::SYS_tgkill, us, it, libc::SIGALRM), 0);
            // The signal wakes it, if anything can.
            std::thread::sleep(std::time::Duration::from_millis(20));
            let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
            let go_on = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
            assert_eq!(libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const go_on), 0);
        }
        asks.join().unwrap().unwrap();
    }
}
