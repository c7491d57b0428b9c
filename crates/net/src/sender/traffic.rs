//! A thread's sends and receives on its connections.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::epoll::{READ, WRITE};
use super::link::State;
use super::thread::Thread;
use iotrail_base::error::{Error, Result};

impl Thread<'_, '_> {
    /// Handles a connection's epoll events.
    pub fn ready(&mut self, at: usize, events: EventFlags, now: u64) -> Result<()> {
        match self.links[at].state {
            State::Connecting { since } => return self.connected(at, since, now),
            State::Open => {}
            // The connection was closed earlier in this iteration.
            State::Closed { .. } | State::Lost => return Ok(()),
        }
        if !(events - WRITE).is_empty() {
            self.receive(at)?;
        }
        let link = &mut self.links[at];
        if events.contains(WRITE) && link.blocked && link.is_open() {
            link.blocked = false;
            if let Some(socket) = &link.socket {
                self.epoll.change(socket, READ, at)?;
            }
            self.flush(at)?;
        }
        Ok(())
    }

    /// Receives and checks data, then sends as many requests as fit.
    fn receive(&mut self, at: usize) -> Result<()> {
        loop {
            let link = &mut self.links[at];
            let Some(socket) = &link.socket else { return Ok(()) };
            let received = recv(socket, &mut self.input[..], RecvFlags::empty());
            let now = self.shared.clock.now();
            let n = match received {
                Ok((0, _)) => return self.broke(at, now, None),
                Ok((n, _)) => n,
                Err(Errno::WOULDBLOCK) => return self.went_on(at, now),
                Err(Errno::INTR) => continue,
                Err(e) => return self.broke(at, now, Some(e.into())),
            };
            if at >= self.speaking {
                // Data that belongs to no request.
                return self.broke(at, now, None);
            }
            let input = &self.input[..n];
            link.talk.receive(input, &self.terms, now, &mut self.checker, &mut self.tally).map_err(|wrong| {
                let right = self.answered();
                Error::machine(
                    format!("{wrong}, after {right} right ones"),
                    "check what the server does; a server that sends its own bytes needs --check size",
                )
            })?;
            if n < self.input.len() {
                return self.went_on(at, now);
            }
        }
    }

    fn went_on(&mut self, at: usize, now: u64) -> Result<()> {
        if self.links[at].talk.is_spent(&self.terms) {
            self.renew(at, now);
            return Ok(());
        }
        self.go_on(at)
    }

    /// Sends as much pending data as the kernel accepts.
    pub fn flush(&mut self, at: usize) -> Result<()> {
        loop {
            let link = &mut self.links[at];
            let Some(socket) = &link.socket else { return Ok(()) };
            if link.blocked {
                return Ok(());
            }
            let now = self.shared.clock.now();
            let n = link.talk.compose(&self.terms, now, &mut self.output, &mut self.tally);
            if n == 0 {
                return Ok(());
            }
            let sent = match send(socket, &self.output[..n], SendFlags::NOSIGNAL) {
                Ok(sent) => sent,
                Err(Errno::WOULDBLOCK | Errno::INTR) => 0,
                Err(e @ (Errno::PIPE | Errno::CONNRESET)) => {
                    // epoll also reports the error; the remaining data is received first.
                    (link.blocked, link.error) = (true, Some(e.into()));
                    return Ok(());
                }
                Err(e) => return self.broke(at, now, Some(e.into())),
            };
            link.talk.taken(sent, &self.terms, now, &mut self.tally);
            if sent < n {
                link.blocked = true;
                return self.epoll.change(socket, READ | WRITE, at);
            }
        }
    }
}
