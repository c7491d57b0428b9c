//! Readiness-based engine: epoll_wait, then recv and send for each ready connection. All requests in one receive are
//! answered with one send.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::ioctl::{self, Setter};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

use super::connection::Connection;
use super::seat::Seat;
use crate::options::Trigger;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_schema::net_record::bump;

const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
const EVENTS: usize = 512;
/// Pause after an accept that failed for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

struct Peer {
    fd: OwnedFd,
    connection: Connection,
    /// Events registered with epoll.
    interest: EventFlags,
}

struct Server<'a> {
    seat: &'a Seat<'a>,
    epoll: OwnedFd,
    /// Additional flags; empty for level-triggered.
    edge: EventFlags,
    /// Boxed because each event moves the peer out and back.
    peers: Vec<Option<Box<Peer>>>,
    free: Vec<usize>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// No connections are accepted until then.
    paused: Option<Instant>,
}

/// Serves until the seat's server is stopped.
pub fn serve(seat: &Seat<'_>) -> Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(io::Error::from);
    let epoll = epoll.or_machine("cannot create an epoll instance", "raise ulimit -n")?;
    let spec = &seat.shared.spec;
    let by_edge = spec.options.trigger == Trigger::Edge;
    let mut server = Server {
        seat,
        epoll,
        edge: if by_edge { EventFlags::ET | EventFlags::RDHUP } else { EventFlags::empty() },
        peers: vec![],
        free: vec![],
        input: vec![0; spec.buffer_bytes],
        output: Vec::new(),
        paused: None,
    };
    if let Some(napi) = spec.options.napi {
        busy_poll(server.epoll.as_fd(), napi.0.as_micros())?;
    }
    let cannot = |e| Error::machine("cannot add the listening socket to epoll", "").because(io::Error::from(e));
    server.add(seat.stop_fd(), EventFlags::IN, STOP).map_err(cannot)?;
    server.listen(true).map_err(cannot)?;
    seat.serves(vec![]);
    server.run()
}

/// EPIOCSPARAMS (6.9): epoll_wait polls the network device for this long before the thread sleeps.
fn busy_poll(epoll: BorrowedFd<'_>, us: u128) -> Result<()> {
    /// struct epoll_params in the kernel's include/uapi/linux/eventpoll.h.
    #[repr(C)]
    struct Params {
        busy_poll_usecs: u32,
        busy_poll_budget: u16,
        prefer_busy_poll: u8,
        pad: u8,
    }
    // NAPI_POLL_WEIGHT; a larger budget requires a capability.
    const BUDGET: u16 = 64;
    let usecs = u32::try_from(us).unwrap_or(u32::MAX);
    let what = Params { busy_poll_usecs: usecs, busy_poll_budget: BUDGET, prefer_busy_poll: 0, pad: 0 };
    // SAFETY: the structure that the request reads.
    let done = unsafe { ioctl::ioctl(epoll, Setter::<{ ioctl::opcode::write::<Params>(0x8a, 1) }, Params>::new(what)) };
    done.map_err(|e| {
        let what = "this kernel does not support busy polling with epoll, which requires Linux 6.9 or later";
        Error::machine(what, "omit --napi").because(io::Error::from(e))
    })
}

impl Server<'_> {
    fn run(&mut self) -> Result<()> {
        let mut events = vec![Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
        let counts = self.seat.counts();
        while !self.seat.is_stopping() {
            let found = epoll::wait(&self.epoll, &mut events[..], self.paused.map(|_| &LOOK));
            bump(&counts.syscalls, 1);
            bump(&counts.loops, 1);
            let n = match found {
                Ok(n) => n,
                Err(Errno::INTR) => continue,
                Err(e) => {
                    let cause = io::Error::from(e);
                    return Err(Error::machine("cannot wait for events", "report this").because(cause));
                }
            };
            if self.paused.is_some_and(|until| Instant::now() >= until) {
                self.paused = None;
                self.listen(true).map_err(|e| Error::machine("cannot accept again", "").because(io::Error::from(e)))?;
            }
            bump(&counts.completions, n as u64);
            for event in &events[..n] {
                match event.data.u64() {
                    STOP => return Ok(()),
                    LISTENER => self.accept(),
                    at => self.ready(at as usize, event.flags),
                }
            }
        }
        Ok(())
    }

    fn add(&self, what: impl AsFd, events: EventFlags, data: u64) -> rustix::io::Result<()> {
        bump(&self.seat.counts().syscalls, 1);
        epoll::add(&self.epoll, what, EventData::new_u64(data), events)
    }

    fn listen(&self, on: bool) -> rustix::io::Result<()> {
        let listener = &self.seat.listener;
        if on {
            // Wakes only one of the threads that share a listening socket.
            return self.add(listener, EventFlags::IN | EventFlags::EXCLUSIVE, LISTENER);
        }
        bump(&self.seat.counts().syscalls, 1);
        epoll::delete(&self.epoll, listener)
    }

    fn accept(&mut self) {
        let counts = self.seat.counts();
        loop {
            bump(&counts.syscalls, 1);
            let fd = match accept_with(&self.seat.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(fd) => fd,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                // Out of descriptors or memory: waiting connections are accepted after others have closed.
                Err(_) => {
                    bump(&counts.accept_failures, 1);
                    if self.paused.is_none() && self.listen(false).is_ok() {
                        self.paused = Some(Instant::now() + PAUSE);
                    }
                    return;
                }
            };
            bump(&counts.accepted, 1);
            super::connection::without_delay(&fd);
            let at = self.free.pop().unwrap_or_else(|| {
                self.peers.push(None);
                self.peers.len() - 1
            });
            let interest = EventFlags::IN | self.edge;
            if self.add(&fd, interest, at as u64).is_err() {
                bump(&counts.accept_failures, 1);
                self.free.push(at);
                continue;
            }
            self.peers[at] = Some(Box::new(Peer { fd, connection: Connection::default(), interest }));
        }
    }

    fn ready(&mut self, at: usize, events: EventFlags) {
        // The connection was closed earlier in this iteration.
        let Some(mut peer) = self.peers[at].take() else { return };
        if self.serve_one(&mut peer, events) && self.await_more(&mut peer, at) {
            self.peers[at] = Some(peer);
        } else {
            self.free.push(at);
        }
    }

    /// Returns false if the connection has ended, which has been counted.
    fn serve_one(&mut self, peer: &mut Peer, events: EventFlags) -> bool {
        let counts = self.seat.counts();
        if peer.connection.waiting() > 0 {
            if !events.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
                return true;
            }
            if !self.send_waiting(peer) {
                return false;
            }
        }
        loop {
            // Answers held input before receiving more.
            while peer.connection.is_held() && peer.connection.waiting() == 0 {
                if !self.answer(peer, 0) {
                    return false;
                }
            }
            if peer.connection.waiting() > 0 {
                return true;
            }
            bump(&counts.syscalls, 1);
            match recv(&peer.fd, &mut self.input[..], RecvFlags::empty()) {
                Ok((0, _)) => {
                    let how = if peer.connection.is_midway() { &counts.cut_off } else { &counts.closed };
                    bump(how, 1);
                    return false;
                }
                Ok((n, _)) => {
                    bump(&counts.receives, 1);
                    bump(&counts.bytes_in, n as u64);
                    if !self.answer(peer, n) {
                        return false;
                    }
                    // Level-triggered: remaining data is reported again. Edge-triggered: a receive that did not fill
                    // the buffer has emptied the socket, unless the peer had already closed the connection.
                    let ended = events.intersects(EventFlags::RDHUP | EventFlags::HUP);
                    let emptied = self.edge.is_empty() || (n < self.input.len() && !ended);
                    if emptied && !peer.connection.is_held() {
                        return true;
                    }
                }
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => {
                    bump(&counts.reset, 1);
                    return false;
                }
            }
        }
    }

    /// Answers the first `n` bytes of the input, after the held input.
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
        match self.send(&peer.fd, &self.output) {
            Some(sent) => {
                peer.connection.keep(&self.output[sent..]);
                true
            }
            None => false,
        }
    }

    fn send_waiting(&mut self, peer: &mut Peer) -> bool {
        let waiting = &peer.connection.unsent[peer.connection.taken..];
        match self.send(&peer.fd, waiting) {
            Some(sent) => {
                peer.connection.sent(sent);
                true
            }
            None => false,
        }
    }

    /// Returns the number of accepted bytes; `None` if the connection is broken.
    fn send(&self, fd: &OwnedFd, bytes: &[u8]) -> Option<usize> {
        let counts = self.seat.counts();
        bump(&counts.syscalls, 1);
        match send(fd, bytes, SendFlags::NOSIGNAL) {
            Ok(n) => {
                bump(&counts.sends, 1);
                bump(&counts.bytes_out, n as u64);
                bump(&counts.short_sends, u64::from(n < bytes.len()));
                Some(n)
            }
            Err(Errno::AGAIN | Errno::INTR) => Some(0),
            Err(_) => {
                bump(&counts.reset, 1);
                None
            }
        }
    }

    /// Waits for the socket to become writable if data is pending, otherwise for input.
    fn await_more(&mut self, peer: &mut Peer, at: usize) -> bool {
        let what = if peer.connection.waiting() > 0 { EventFlags::OUT } else { EventFlags::IN };
        let interest = what | self.edge;
        if interest == peer.interest {
            return true;
        }
        peer.interest = interest;
        bump(&self.seat.counts().syscalls, 1);
        epoll::modify(&self.epoll, &peer.fd, EventData::new_u64(at as u64), interest).is_ok()
    }
}
