//! Lines over a stream socket, with limits on length and time: neither end waits longer than its own limit, whatever
//! the other end does.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{self, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use serde::Serialize;
use socket2::{Socket, TcpKeepalive};

/// Why the connection is no longer usable.
#[derive(Debug)]
pub enum Broken {
    /// The peer closed the connection.
    Gone,
    /// A line is longer than any valid message.
    TooLong,
    /// A line is not text.
    Garbage,
    /// Nothing arrived, or nothing was accepted, within the time limit.
    Silent,
    Failed(io::Error),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Gone => f.write_str("the peer closed the control connection"),
            Broken::TooLong | Broken::Garbage => f.write_str("the data on the control connection is not a message"),
            Broken::Silent => f.write_str("the peer of the control connection does not respond"),
            Broken::Failed(e) => write!(f, "the control connection failed: {e}"),
        }
    }
}

impl std::error::Error for Broken {}

pub struct Lines {
    socket: Socket,
    read: Vec<u8>,
    /// Length of the prefix of `read` that is known to have no line end.
    searched: usize,
    most: usize,
}

impl Lines {
    /// `most`: maximum line length in bytes.
    pub fn new(socket: Socket, most: usize) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        if socket.local_addr()?.is_ipv4() || socket.local_addr()?.is_ipv6() {
            socket.set_tcp_nodelay(true)?;
            // Detects a peer machine that vanished within 15 s.
            let often = TcpKeepalive::new().with_time(Duration::from_secs(5)).with_interval(Duration::from_secs(2));
            socket.set_tcp_keepalive(&often.with_retries(5))?;
        }
        Ok(Self { socket, read: Vec::new(), searched: 0, most })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// A line that has already arrived, without its line end; `None` if it is incomplete.
    pub fn take(&mut self) -> Result<Option<String>, Broken> {
        loop {
            if let Some(at) = self.read[self.searched..].iter().position(|b| *b == b'\n') {
                let rest = self.read.split_off(self.searched + at + 1);
                let mut line = std::mem::replace(&mut self.read, rest);
                self.searched = 0;
                line.pop();
                return String::from_utf8(line).map(Some).map_err(|_| Broken::Garbage);
            }
            self.searched = self.read.len();
            if self.read.len() > self.most {
                return Err(Broken::TooLong);
            }
            let mut piece = [0; 16 << 10];
            match self.socket.read(&mut piece) {
                Ok(0) => return Err(Broken::Gone),
                Ok(n) => self.read.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(of_peer(e)),
            }
        }
    }

    /// The next line, if it arrives before the deadline.
    pub fn read_by(&mut self, deadline: Instant) -> Result<String, Broken> {
        loop {
            if let Some(line) = self.take()? {
                return Ok(line);
            }
            self.await_it(PollFlags::IN, deadline)?;
        }
    }

    /// Sends a complete message, if the peer accepts it before the deadline.
    pub fn write_by(&mut self, message: &impl Serialize, deadline: Instant) -> Result<(), Broken> {
        let mut line = serde_json::to_vec(message).map_err(|e| Broken::Failed(e.into()))?;
        line.push(b'\n');
        let mut rest = &line[..];
        while !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.await_it(PollFlags::OUT, deadline)?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(of_peer(e)),
            }
        }
        Ok(())
    }

    fn await_it(&self, what: PollFlags, deadline: Instant) -> Result<(), Broken> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Broken::Silent);
        }
        poll(&mut [PollFd::new(&self.socket, what)], left).map_err(Broken::Failed)
    }
}

fn of_peer(e: io::Error) -> Broken {
    match e.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Broken::Gone,
        _ => Broken::Failed(e),
    }
}

/// Waits for one of these, at most this long; a signal also ends the wait.
pub fn poll(fds: &mut [PollFd<'_>], patience: Duration) -> io::Result<()> {
    // A time that poll cannot express means no limit.
    match event::poll(fds, Timespec::try_from(patience).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
