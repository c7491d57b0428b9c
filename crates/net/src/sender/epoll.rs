//! An epoll instance with nanosecond timeouts, because requests of an open loop have exact times.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use socket2::Socket;

use iotrail_base::error::{Error, OrFail, Result};
use iotrail_load::engine::last_error;

const EVENTS: usize = 512;

pub const READ: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);
pub const WRITE: EventFlags = EventFlags::OUT;

pub struct Epoll {
    fd: OwnedFd,
    events: Box<[Event]>,
}

impl Epoll {
    pub fn new() -> Result<Self> {
        let fd = epoll::create(CreateFlags::CLOEXEC).map_err(io::Error::from);
        let fd = fd.or_machine("cannot create an epoll instance", "raise ulimit -n")?;
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        Ok(Self { fd, events: vec![none; EVENTS].into() })
    }

    /// `at` is returned with the socket's events. Closing the socket removes it.
    pub fn add(&self, socket: &Socket, interest: EventFlags, at: usize) -> Result<()> {
        epoll::add(&self.fd, socket, EventData::new_u64(at as u64), interest).map_err(cannot_watch)
    }

    pub fn change(&self, socket: &Socket, interest: EventFlags, at: usize) -> Result<()> {
        epoll::modify(&self.fd, socket, EventData::new_u64(at as u64), interest).map_err(cannot_watch)
    }

    /// Waits at most `span`, and returns the number of events for [`Epoll::event`].
    pub fn wait(&mut self, span: Duration) -> Result<usize> {
        let timeout = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
        // rustix would round up to milliseconds, and glibc has a function for this only since 2.35.
        // SAFETY: a live array for that many events, which the kernel writes, a live timeout, and no signal mask.
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

    /// The connection, and its events.
    #[inline]
    pub fn event(&self, n: usize) -> (usize, EventFlags) {
        let event = self.events[n];
        (event.data.u64() as usize, event.flags)
    }
}

fn cannot_watch(cause: Errno) -> Error {
    Error::machine("cannot add a connection to epoll", "check fs.epoll.max_user_watches")
        .because(io::Error::from(cause))
}
