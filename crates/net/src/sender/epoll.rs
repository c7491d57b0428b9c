//! An epoll instance that waits to the nanosecond: requests of an open loop have their times.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use socket2::Socket;

use iotrail_base::error::{Error, Result};
use iotrail_load::engine::last_error;

const EVENTS: usize = 512;

pub const READ: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
pub const WRITE: u32 = libc::EPOLLOUT as u32;

pub struct Epoll {
    fd: OwnedFd,
    events: Box<[libc::epoll_event]>,
}

impl Epoll {
    pub fn new() -> Result<Self> {
        // SAFETY: no memory is handed over.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(Error::machine("cannot make an epoll instance", "raise ulimit -n").because(last_error()));
        }
        // SAFETY: the kernel has just given us this descriptor; nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS].into() })
    }

    /// `at` comes back with the socket's events. The socket is forgotten when it is closed.
    pub fn add(&self, socket: &Socket, interest: u32, at: usize) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, interest, at)
    }

    pub fn change(&self, socket: &Socket, interest: u32, at: usize) -> Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, interest, at)
    }

    fn control(&self, op: i32, socket: &Socket, interest: u32, at: usize) -> Result<()> {
        let mut event = libc::epoll_event { events: interest, u64: at as u64 };
        // SAFETY: a live event that the kernel reads.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), op, socket.as_raw_fd(), &mut event) } {
            0 => Ok(()),
            _ => {
                Err(Error::machine("cannot watch a connection", "see fs.epoll.max_user_watches").because(last_error()))
            }
        }
    }

    /// Waits for `span` at most; the number of events, to be had by [`Epoll::event`].
    pub fn wait(&mut self, span: Duration) -> Result<usize> {
        let timeout = libc::timespec { tv_sec: span.as_secs() as libc::time_t, tv_nsec: span.subsec_nanos().into() };
        // SAFETY: a live array of that many events, which the kernel writes, a live timeout, and no signal mask (glibc has had a
        // function for it since 2.35 only).
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS as libc::c_int,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if n >= 0 {
            return Ok(n as usize);
        }
        match last_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            e => Err(Error::machine("cannot wait for events", "the sender needs Linux 5.11").because(e)),
        }
    }

    /// Whose, and what.
    #[inline]
    pub fn event(&self, n: usize) -> (usize, u32) {
        let event = self.events[n];
        (event.u64 as usize, event.events)
    }
}
