//! Opens, writes to, reads from and closes a thread's connections.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::Socket;

use super::epoll::{READ, WRITE};
use super::link::State;
use super::thread::{RETRY, Thread};
use iotrail_base::error::{Error, Result};
use iotrail_load::gate::Stage;

/// Connections that a thread opens concurrently, so that the server can keep up with accepting them.
const OPENING: usize = 64;

impl Thread<'_, '_> {
    /// Starts to open closed connections, a few at a time.
    pub fn open_closed(&mut self, now: u64) -> Result<()> {
        if self.ending {
            return Ok(());
        }
        let mut next = 0;
        while self.connecting < OPENING && next < self.closed.len() {
            let at = self.closed[next];
            let State::Closed { since, again_at } = self.links[at].state else {
                self.closed.swap_remove(next);
                continue;
            };
            if again_at > now {
                next += 1;
                continue;
            }
            self.closed.swap_remove(next);
            match self.shared.address.begin_connect() {
                Ok(socket) => {
                    self.epoll.add(&socket, WRITE, at)?;
                    self.links[at].socket = Some(socket);
                    self.links[at].state = State::Connecting { since };
                    self.connecting += 1;
                }
                Err(e) => {
                    self.failed_to_open(at, since, now, e)?;
                    next = self.closed.len().min(next + 1);
                }
            }
        }
        Ok(())
    }

    /// Handles the result of a connection attempt.
    pub fn connected(&mut self, at: usize, since: u64, now: u64) -> Result<()> {
        self.connecting -= 1;
        let Some(socket) = &self.links[at].socket else { return Ok(()) };
        let failed = match socket.take_error() {
            Ok(None) => is_own_end(socket).then(|| io::ErrorKind::ConnectionRefused.into()),
            Ok(Some(e)) | Err(e) => Some(e),
        };
        if let Some(e) = failed {
            self.links[at].socket = None;
            return self.failed_to_open(at, since, now, e);
        }
        self.epoll.change(socket, READ, at)?;
        let link = &mut self.links[at];
        link.state = State::Open;
        (link.blocked, link.error, link.has_turn) = (false, None, false);
        if at < self.speaking {
            link.talk.begin(self.shared.serial.fetch_add(1, Ordering::Relaxed));
        }
        self.tally.sums.opened += 1;
        self.go_on(at)
    }

    /// Retries if that may help, until it is time to give up.
    fn failed_to_open(&mut self, at: usize, since: u64, now: u64, e: io::Error) -> Result<()> {
        let passing = match e.raw_os_error() {
            // The UNIX socket's queue is full, or all ports are in TIME_WAIT.
            Some(libc::EAGAIN | libc::EADDRNOTAVAIL | libc::EINTR) => true,
            Some(libc::EMFILE | libc::ENFILE) => {
                return Err(Error::machine("cannot open a connection", "raise ulimit -n").because(e));
            }
            _ => self.shared.spec.reconnect && self.stage.is_some(),
        };
        let clock = &self.shared.clock;
        if passing && now.saturating_sub(since) <= clock.ticks(self.shared.spec.give_up) {
            self.links[at].state = State::Closed { since, again_at: now + clock.ticks(RETRY) };
            self.closed.push(at);
            return Ok(());
        }
        self.links[at].state = State::Lost;
        self.end(cannot_connect(self.shared.address, e))
    }

    /// Replaces a connection whose requests were all answered by a new one.
    pub fn renew(&mut self, at: usize, now: u64) {
        // Immediately: `now` may be later than the iteration that opens it.
        self.close(at, State::Closed { since: now, again_at: 0 });
        self.closed.push(at);
    }

    fn close(&mut self, at: usize, state: State) {
        let link = &mut self.links[at];
        (link.socket, link.state) = (None, state);
        if link.has_turn {
            link.has_turn = false;
            self.turns.retain(|&other| other != at);
        }
    }

    /// The server closed the connection, or it broke for this reason.
    pub fn broke(&mut self, at: usize, now: u64, cause: Option<io::Error>) -> Result<()> {
        if at >= self.speaking {
            self.tally.sums.broken += 1;
            self.idle_lost += 1;
            self.close(at, State::Lost);
            return Ok(());
        }
        let cause = self.links[at].error.take().or(cause);
        let talk = &self.links[at].talk;
        let ended = if cause.is_some() { "broke" } else { "was closed by the server" };
        let midway = talk.midway(self.terms.shape).map_or(String::new(), |text| format!(" when {text}"));
        let why = Error::machine(
            format!("connection {} {ended}{midway} (requests in flight: {})", talk.serial() + 1, talk.unanswered()),
            "check the server's messages; --reconnect continues with another connection",
        );
        let why = match cause {
            Some(cause) => why.because(cause),
            None => why,
        };
        self.give_up(at, now, why)
    }

    /// Gives up an unusable connection; its in-flight requests remain unanswered.
    fn give_up(&mut self, at: usize, now: u64, why: Error) -> Result<()> {
        let talk = &self.links[at].talk;
        self.tally.sums.broken += 1;
        self.tally.sums.unanswered += talk.unanswered();
        if self.quota != u64::MAX {
            self.quota += talk.unsent();
        }
        if self.shared.spec.reconnect && self.stage.is_some() {
            self.renew(at, now);
            return Ok(());
        }
        self.close(at, State::Lost);
        self.end(why)
    }

    /// Ends the load; keeps the measurement so far, if any.
    fn end(&self, why: Error) -> Result<()> {
        if self.stage != Some(Stage::Measured) {
            return Err(why);
        }
        self.shared.break_off(why);
        Ok(())
    }

    /// Gives up connections that have been silent for too long.
    pub fn look_for_silent_ones(&mut self, now: u64) -> Result<()> {
        let give_up = self.shared.spec.give_up;
        let then = now.saturating_sub(self.shared.clock.ticks(give_up));
        for at in 0..self.links.len() {
            match self.links[at].state {
                State::Connecting { since } if since < then => {
                    self.connecting -= 1;
                    self.close(at, State::Lost);
                    self.end(cannot_connect(self.shared.address, no_answer(give_up)))?;
                }
                State::Open if self.links[at].talk.is_silent(then) => {
                    let why = self.silent(at, give_up);
                    self.give_up(at, now, why)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn silent(&self, at: usize, give_up: Duration) -> Error {
        let talk = &self.links[at].talk;
        let midway = talk.midway(self.terms.shape).map_or(String::new(), |text| format!("{text}; "));
        Error::machine(
            format!(
                "connection {} was given up after {give_up:?} without a response (requests in flight: {})",
                talk.serial() + 1,
                talk.unanswered(),
            ),
            format!(
                "{midway}{} requests had been answered; check what delays the server, or use a longer --give-up",
                self.answered()
            ),
        )
    }
}

fn no_answer(span: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no response for {span:?}"))
}

fn cannot_connect(address: &crate::address::Address, e: io::Error) -> Error {
    let remedy = match e.raw_os_error() {
        Some(libc::EADDRNOTAVAIL) => {
            "too many connections were closed recently: use a larger --reconnect-after, or set net.ipv4.ip_local_port_range".into()
        }
        _ => format!("check that a server is running there: iotrail net serve {address}"),
    };
    Error::machine(format!("cannot connect to {address}"), remedy).because(e)
}

/// Whether a socket connected to itself: without a listener, it may be assigned the port to which it connects.
fn is_own_end(socket: &Socket) -> bool {
    match (socket.local_addr(), socket.peer_addr()) {
        (Ok(here), Ok(there)) => here.as_socket().is_some() && here.as_socket() == there.as_socket(),
        _ => false,
    }
}
