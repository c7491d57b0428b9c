//! The thread that answers a program's io_uring_setup calls.

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
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_schema::setup_flag;

/// A ring that a process of the tree attempted to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// PID in iotrail's namespace.
    pub tgid: u32,
    pub tid: u32,
    pub entries: u32,
    pub asked: Params,
    /// The parameters passed to the kernel.
    pub given: Params,
    /// Why the parameters were not modified; `None` if they were.
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

/// Observations of the supervisor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Rings in the order of their calls.
    pub rings: Vec<Ring>,
    /// Calls interrupted by a signal before they were received. They failed with EINTR, or the kernel restarted them.
    pub interrupted: u64,
}

/// Supervisor of a program. After it is dropped, the program's further setup calls fail with ENOSYS.
#[derive(Debug)]
pub struct Supervisor {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<Seen>>,
}

/// Whether programs can be supervised on this machine. The error names the missing feature.
pub fn allowed() -> Result<()> {
    // A filter belongs to a thread, and disappears with it.
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
            "another seccomp supervisor is active (a container's, or another iotrail try): run outside it"
        }
        Some(libc::EINVAL) => "seccomp notification with CONTINUE needs Linux 5.5 or later with CONFIG_SECCOMP_FILTER",
        _ => {
            "a seccomp filter or security module forbids seccomp(2): run outside the container, or allow seccomp in its profile"
        }
    };
    Error::machine("cannot run a program under a seccomp supervisor", remedy).because(cause)
}

/// Whether this process can create a ring; its children have the same limits.
pub fn gets_a_ring() -> io::Result<()> {
    trial::granted(1, &Params::default()).map(drop)
}

/// Makes `command` and all its children run under the filter, supervised from the first call.
pub fn attend(command: &mut Command, change: Change) -> Result<Supervisor> {
    let (from_child, to_us) = UnixDatagram::pair().map_err(no_socket)?;
    // SAFETY: the closure only makes system calls on data that it owns, and does not allocate.
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
    let thread = thread.or_machine("cannot start a thread", "check the process limit: ulimit -u")?;
    Ok(Supervisor { stop: Some(stop), thread: Some(thread) })
}

/// Makes `command` run under a filter with the same cost, but without changes. Until a supervisor has received a call,
/// any signal interrupts it with EINTR; an unchanged program must not get such errors.
pub fn leave_alone(command: &mut Command) {
    // SAFETY: the closure only makes system calls, and does not allocate.
    unsafe { command.pre_exec(filter::install_unasked) };
}

fn no_socket(cause: io::Error) -> Error {
    Error::machine("cannot create a socket for the supervisor", "check the open file limit: ulimit -n").because(cause)
}

fn send(to: &UnixDatagram, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(to, &[io::IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// `None` if the program was not started, or waiting was stopped.
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
    /// Stops supervising.
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
            // SAFETY: the thread was not joined. The signal ends its wait, or arrives just before it.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), WAKES) };
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(thread.join())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // The result is not needed.
        drop(self.join());
    }
}

/// A signal that is ignored by default, also in the programs that are started.
const WAKES: libc::c_int = libc::SIGURG;

/// Answers calls until `stopped` is closed, or no process is left under the filter (Linux 6.11).
fn answer_all(listener: &OwnedFd, stopped: BorrowedFd<'_>, change: Change) -> Seen {
    run_first(listener);
    let mut seen = Seen::default();
    loop {
        match receive_call(listener) {
            Ok(call) => seen.rings.extend(answer(listener, call, change)),
            // Each interrupted call causes one iteration without a call.
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

/// A signal that arrives before a call is received interrupts the call with EINTR, so this thread must receive it
/// quickly. With CAP_SYS_NICE it does not wait for a CPU. Since Linux 6.6 it runs on the caller's CPU, without an IPI.
fn run_first(listener: &OwnedFd) {
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    extern "C" fn nothing(_: libc::c_int) {}
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: live structures, and an empty handler without SA_RESTART. Failures change nothing.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &first);
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        libc::sigaction(WAKES, &action, std::ptr::null_mut());
    }
}

/// Waits for a call. ENOENT: a signal interrupted the call first; EINTR: [`WAKES`] ended the wait.
fn receive_call(listener: &OwnedFd) -> std::result::Result<libc::seccomp_notif, Errno> {
    // SAFETY: the kernel requires an all-zero structure to fill.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: a live structure in the kernel's layout.
    match unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) } {
        0 => Ok(call),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Changes a received call and lets it continue; `None` if its thread has exited.
fn answer(listener: &OwnedFd, call: libc::seccomp_notif, change: Change) -> Option<Ring> {
    let still_there = || {
        // SAFETY: a live integer that the kernel reads.
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0 }
    };
    let ring = changed(call.pid, (call.data.args[0] as u32, call.data.args[1]), change, still_there);
    let go_on = libc::seccomp_notif_resp {
        id: call.id,
        val: 0,
        error: 0,
        flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
    };
    // SAFETY: a live structure in the kernel's layout. The call fails if the thread was killed.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const go_on) };
    ring
}

/// Opens the memory before calling `still_there`: if the thread is still waiting afterwards, the memory belongs to its
/// process.
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
        // The kernel rejects unreadable parameters itself.
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
        return ring(asked, asked, Some(format!("the kernel rejects a ring of {entries} entries with {flags}: {why}")));
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
        Ok(_) => ring(asked, asked, Some("the program changes the parameters during the call".into())),
        Err(e) => ring(asked, asked, Some(format!("its parameters cannot be written: {e}"))),
    }
}

/// The CQ has at least as many entries as the SQ, both rounded up to a power of two.
fn refused_by_size(entries: u32, given: &Params) -> Option<String> {
    let sized = given.flags & setup_flag::bit("cqsize") != 0;
    let small = sized && given.cq_entries.checked_next_power_of_two()? < entries.checked_next_power_of_two()?;
    small.then(|| io::Error::from_raw_os_error(libc::EINVAL).to_string())
}

/// Process ID of a thread.
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

    /// Makes the test binary run as a child that creates rings and prints the kernel's result for each.
    const ASKED: &str = "IOTRAIL_TEST_RINGS";

    /// Not a test: the child of [`rings_of`]. Creates one ring per set of flags; those after a `:` with a 32-bit call.
    #[test]
    fn child_that_makes_rings() {
        let Ok(flags) = std::env::var(ASKED) else { return };
        let (make, flags): (fn(u32) -> io::Result<u32>, &str) = match flags.strip_prefix(':') {
            Some(flags) => (setup_by_32_bit_call, flags),
            None => (setup, &flags),
        };
        for flags in flags.split(' ') {
            let flags: u32 = flags.parse().unwrap();
            // In another thread, as a program may do.
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
        // SAFETY: a page below 4 GiB, which the kernel reads and writes; rbx, which cannot be named as an operand, is
        // restored.
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

    /// The flags that the program was granted, and the supervisor's records.
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
        // clamp is the program's own; single_issuer is tunable and was not requested.
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
        assert_eq!(why, "the kernel rejects a ring of 4 entries with taskrun_flag: Invalid argument (os error 22)");
        assert_eq!(rings[1].left_as_asked, None);
    }

    #[test]
    fn as_is_keeps_the_ring_flags() {
        let (got, rings) = rings_of("as-is", "0 2");
        assert_eq!((got, rings.len()), (vec![0, 2], 2));
        assert!(rings.iter().all(|r| r.asked == r.given && r.left_as_asked.is_none()));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn ring_flags_of_32_bit_calls_are_changed() {
        let (got, rings) = rings_of("coop_taskrun", ":0 16");
        assert_eq!(got, [COOP, COOP | 16]);
        let seen: Vec<_> = rings.iter().map(|r| (r.asked.flags, r.given.flags, r.entries)).collect();
        assert_eq!(seen, [(0, COOP, 4), (16, COOP | 16, 4)]);
    }

    /// Not a test: the program started by [`an_unsupervised_program_sees_no_eintr`].
    #[test]
    fn child_that_is_interrupted() {
        extern "C" fn nothing(_: libc::c_int) {}
        if std::env::var_os(INTERRUPTED).is_none() {
            return;
        }
        // SAFETY: live structures, and an empty handler without SA_RESTART.
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
            // SAFETY: the kernel has just created this descriptor.
            drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
            false
        });
        println!("interrupted {}", interrupted.count());
        // The filter exists for as long as a process is under it.
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

    /// Number of the child's calls that failed with EINTR. The child then waits.
    fn interrupted_of(child: &mut std::process::Child) -> u64 {
        let lines = io::BufReader::new(child.stdout.as_mut().unwrap()).lines();
        lines.map_while(io::Result::ok).find_map(|l| l.split("interrupted ").nth(1)?.parse().ok()).unwrap()
    }

    #[test]
    fn an_unsupervised_program_sees_no_eintr() {
        let mut command = interrupted_child();
        leave_alone(&mut command);
        let mut child = command.spawn().unwrap();
        assert_eq!(interrupted_of(&mut child), 0);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    /// Requires Linux 5.19 or later.
    #[test]
    fn each_call_interrupted_by_a_signal_is_counted() {
        let mut command = interrupted_child();
        let supervisor = attend(&mut command, "coop_taskrun".parse().unwrap()).unwrap();
        let mut child = command.spawn().unwrap();
        let got = interrupted_of(&mut child);
        let seen = supervisor.end().unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        // The kernel restarts calls interrupted by its own task work, or by a signal that another thread handles.
        assert!(seen.interrupted >= got && seen.rings.len() as u64 == 2000 - got, "{got}: {}", seen.interrupted);
    }

    /// Requires Linux 5.19 or later.
    #[test]
    fn a_signal_does_not_interrupt_a_received_call() {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: an empty handler without SA_RESTART.
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
        // SAFETY: structures in the kernel's layout, and a waiting thread of this process.
        unsafe {
            let mut call: libc::seccomp_notif = std::mem::zeroed();
            assert_eq!(libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call), 0);
            let (us, it) = (libc::getpid(), thread.as_raw_pid());
            assert_eq!(libc::syscall(libc::SYS_tgkill, us, it, libc::SIGALRM), 0);
            // Time for the signal to interrupt the call, if that is possible.
            std::thread::sleep(std::time::Duration::from_millis(20));
            let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
            let go_on = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
            assert_eq!(libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const go_on), 0);
        }
        asks.join().unwrap().unwrap();
    }
}
