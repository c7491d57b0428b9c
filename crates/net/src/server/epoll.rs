//! Readiness: epoll_wait, then recv and send for each connection that is ready. What one receive asked is answered with one send.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::seat::Seat;
use crate::options::Trigger;
use iotrail_base::error::{Error, Result};
use iotrail_load::engine::last_error;
use iotrail_schema::net_record::bump;

const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
const EVENTS: usize = 512;
/// No new connection is accepted for so long after one could not be for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

struct Peer {
    fd: OwnedFd,
    connection: Connection,
    /// What epoll was told to wait for.
    interest: u32,
}

struct Server<'a> {
    seat: &'a Seat<'a>,
    epoll: OwnedFd,
    /// Beside what is waited for; 0: by level.
    edge: u32,
    /// In boxes: a peer is taken out and put back for each of its events.
    peers: Vec<Option<Box<Peer>>>,
    free: Vec<usize>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Until then no connection is accepted.
    paused: Option<Instant>,
}

/// Serves until the seat's server is stopped.
pub fn serve(seat: &Seat<'_>) -> Result<()> {
    // SAFETY: no memory is handed over.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if fd < 0 {
        return Err(Error::machine("cannot make an epoll instance", "raise ulimit -n").because(last_error()));
    }
    let spec = &seat.shared.spec;
    let mut server = Server {
        seat,
        // SAFETY: the kernel has just given us this descriptor; nobody else has it.
        epoll: unsafe { OwnedFd::from_raw_fd(fd) },
        edge: if spec.options.trigger == Trigger::Edge { (libc::EPOLLET | libc::EPOLLRDHUP) as u32 } else { 0 },
        peers: vec![],
        free: vec![],
        input: vec![0; spec.buffer_bytes],
        output: Vec::new(),
        paused: None,
    };
    if let Some(napi) = spec.options.napi {
        busy_poll(server.epoll.as_raw_fd(), napi.0.as_micros())?;
    }
    let cannot = |e| Error::machine("cannot watch the listening socket", "").because(e);
    server.control(libc::EPOLL_CTL_ADD, seat.stop_fd(), libc::EPOLLIN as u32, STOP).map_err(cannot)?;
    server.listen(true).map_err(cannot)?;
    seat.serves(vec![]);
    server.run()
}

/// EPIOCSPARAMS (6.9): before the thread sleeps in epoll_wait it polls the network device for so long.
fn busy_poll(epoll: RawFd, us: u128) -> Result<()> {
    /// struct epoll_params of the kernel's include/uapi/linux/eventpoll.h.
    #[repr(C)]
    struct Params {
        busy_poll_usecs: u32,
        busy_poll_budget: u16,
        prefer_busy_poll: u8,
        pad: u8,
    }
    // NAPI_POLL_WEIGHT: more than so many packets at a time need a privilege.
    const BUDGET: u16 = 64;
    let usecs = u32::try_from(us).unwrap_or(u32::MAX);
    let what = Params { busy_poll_usecs: usecs, busy_poll_budget: BUDGET, prefer_busy_poll: 0, pad: 0 };
    // SAFETY: a live structure of the size that the request's number carries, which the kernel reads.
    match unsafe { libc::ioctl(epoll, libc::_IOW::<Params>(0x8a, 1), &raw const what) } {
        0 => Ok(()),
        _ => {
            let what = "this kernel refuses busy polling by epoll: it is there since 6.9";
            Err(Error::machine(what, "leave --napi away").because(last_error()))
        }
    }
}

impl Server<'_> {
    fn run(&mut self) -> Result<()> {
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let counts = self.seat.counts();
        while !self.seat.is_stopping() {
            let timeout = self.paused.map_or(-1, |_| PAUSE.as_millis() as i32);
            // SAFETY: a live array of that many events, which the kernel writes.
            let n = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS as i32, timeout) };
            bump(&counts.syscalls, 1);
            bump(&counts.loops, 1);
            if n < 0 {
                match last_error() {
                    e if e.kind() == io::ErrorKind::Interrupted => continue,
                    e => return Err(Error::machine("cannot wait for events", "report this").because(e)),
                }
            }
            if self.paused.is_some_and(|until| Instant::now() >= until) {
                self.paused = None;
                self.listen(true).map_err(|e| Error::machine("cannot accept again", "").because(e))?;
            }
            bump(&counts.completions, n as u64);
            for event in &events[..n as usize] {
                match event.u64 {
                    STOP => return Ok(()),
                    LISTENER => self.accept(),
                    at => self.ready(at as usize, event.events),
                }
            }
        }
        Ok(())
    }

    fn control(&self, op: i32, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: data };
        bump(&self.seat.counts().syscalls, 1);
        // SAFETY: a live event that the kernel reads.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), op, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }

    fn listen(&self, on: bool) -> io::Result<()> {
        let fd = self.seat.listener.as_raw_fd();
        match on {
            // One thread of those that share a listening socket is woken, not all.
            true => self.control(libc::EPOLL_CTL_ADD, fd, (libc::EPOLLIN | libc::EPOLLEXCLUSIVE) as u32, LISTENER),
            false => self.control(libc::EPOLL_CTL_DEL, fd, 0, LISTENER),
        }
    }

    fn accept(&mut self) {
        let counts = self.seat.counts();
        loop {
            bump(&counts.syscalls, 1);
            // SAFETY: the peer's address is not asked for.
            let fd = unsafe {
                libc::accept4(
                    self.seat.listener.as_raw_fd(),
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                    libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
                )
            };
            if fd < 0 {
                match last_error().raw_os_error() {
                    Some(libc::EAGAIN) => {}
                    Some(libc::EINTR | libc::ECONNABORTED) => continue,
                    // Out of descriptors or memory: those who wait are accepted when others have gone.
                    _ => {
                        bump(&counts.accept_failures, 1);
                        if self.paused.is_none() && self.listen(false).is_ok() {
                            self.paused = Some(Instant::now() + PAUSE);
                        }
                    }
                }
                return;
            }
            bump(&counts.accepted, 1);
            // SAFETY: the kernel has just given us this descriptor; nobody else has it.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            super::connection::without_delay(fd.as_raw_fd());
            let at = self.free.pop().unwrap_or_else(|| {
                self.peers.push(None);
                self.peers.len() - 1
            });
            let interest = libc::EPOLLIN as u32 | self.edge;
            if self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), interest, at as u64).is_err() {
                bump(&counts.accept_failures, 1);
                self.free.push(at);
                continue;
            }
            self.peers[at] = Some(Box::new(Peer { fd, connection: Connection::default(), interest }));
        }
    }

    fn ready(&mut self, at: usize, events: u32) {
        // Closed earlier in the same round.
        let Some(mut peer) = self.peers[at].take() else { return };
        if self.serve_one(&mut peer, events) && self.await_more(&mut peer, at) {
            self.peers[at] = Some(peer);
        } else {
            self.free.push(at);
        }
    }

    /// False: the connection has ended, and was counted.
    fn serve_one(&mut self, peer: &mut Peer, events: u32) -> bool {
        let counts = self.seat.counts();
        if peer.connection.waiting() > 0 {
            if events & (libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP) as u32 == 0 {
                return true;
            }
            if !self.send_waiting(peer) {
                return false;
            }
        }
        loop {
            // Before more is taken, what was held for want of room is answered.
            while peer.connection.is_held() && peer.connection.waiting() == 0 {
                if !self.answer(peer, 0) {
                    return false;
                }
            }
            if peer.connection.waiting() > 0 {
                return true;
            }
            bump(&counts.syscalls, 1);
            // SAFETY: a live buffer of that length, which the kernel writes.
            let n = unsafe { libc::recv(peer.fd.as_raw_fd(), self.input.as_mut_ptr().cast(), self.input.len(), 0) };
            match n {
                0 => {
                    let how = if peer.connection.is_midway() { &counts.cut_off } else { &counts.closed };
                    bump(how, 1);
                    return false;
                }
                n if n > 0 => {
                    bump(&counts.receives, 1);
                    bump(&counts.bytes_in, n as u64);
                    if !self.answer(peer, n as usize) {
                        return false;
                    }
                    // By level, what is left is told again. By edge, a buffer that was not filled has emptied the socket, but for
                    // an end that had come already.
                    let ended = events & (libc::EPOLLRDHUP | libc::EPOLLHUP) as u32 != 0;
                    let emptied = self.edge == 0 || ((n as usize) < self.input.len() && !ended);
                    if emptied && !peer.connection.is_held() {
                        return true;
                    }
                }
                _ => match last_error().raw_os_error() {
                    Some(libc::EAGAIN) => return true,
                    Some(libc::EINTR) => {}
                    _ => {
                        bump(&counts.reset, 1);
                        return false;
                    }
                },
            }
        }
    }

    /// Answers the first `n` bytes of the input, and what was held before them.
    fn answer(&mut self, peer: &mut Peer, n: usize) -> bool {
        let counts = self.seat.counts();
        self.output.clear();
        match peer.connection.answer(&self.input[..n], &mut self.output) {
            Ok(requests) => bump(&counts.requests, u64::from(requests)),
            Err(_) => {
                bump(&counts.garbage, 1);
                return false;
            }
        }
        if peer.connection.waiting() > 0 {
            return self.send_waiting(peer);
        }
        if self.output.is_empty() {
            return true;
        }
        match self.send(peer.fd.as_raw_fd(), &self.output) {
            Some(sent) => {
                peer.connection.keep(&self.output[sent..]);
                true
            }
            None => false,
        }
    }

    fn send_waiting(&mut self, peer: &mut Peer) -> bool {
        let waiting = &peer.connection.unsent[peer.connection.taken..];
        match self.send(peer.fd.as_raw_fd(), waiting) {
            Some(sent) => {
                peer.connection.sent(sent);
                true
            }
            None => false,
        }
    }

    /// Bytes that the kernel took; `None`: the connection is broken.
    fn send(&self, fd: RawFd, bytes: &[u8]) -> Option<usize> {
        let counts = self.seat.counts();
        bump(&counts.syscalls, 1);
        // SAFETY: live bytes that the kernel reads.
        let n = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        if n < 0 {
            return match last_error().raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Some(0),
                _ => {
                    bump(&counts.reset, 1);
                    None
                }
            };
        }
        bump(&counts.sends, 1);
        bump(&counts.bytes_out, n as u64);
        bump(&counts.short_sends, u64::from((n as usize) < bytes.len()));
        Some(n as usize)
    }

    /// Waits for room to send where something waits, else for input.
    fn await_more(&mut self, peer: &mut Peer, at: usize) -> bool {
        let what = if peer.connection.waiting() > 0 { libc::EPOLLOUT } else { libc::EPOLLIN } as u32;
        let interest = what | self.edge;
        if interest == peer.interest {
            return true;
        }
        peer.interest = interest;
        self.control(libc::EPOLL_CTL_MOD, peer.fd.as_raw_fd(), interest, at as u64).is_ok()
    }
}
