//! What a thread sends and receives on its connections.

use std::io;
use std::os::fd::AsRawFd;

use super::epoll::{READ, WRITE};
use super::link::State;
use super::thread::Thread;
use iotrail_base::error::{Error, Result};
use iotrail_load::engine::last_error;

impl Thread<'_, '_> {
    /// What epoll has said of a connection.
    pub fn ready(&mut self, at: usize, events: u32, now: u64) -> Result<()> {
        match self.links[at].state {
            State::Connecting { since } => return self.connected(at, since, now),
            State::Open => {}
            // Closed earlier in the same round.
            State::Closed { .. } | State::Lost => return Ok(()),
        }
        if events & !WRITE != 0 {
            self.receive(at)?;
        }
        let link = &mut self.links[at];
        if events & WRITE != 0 && link.blocked && link.is_open() {
            link.blocked = false;
            if let Some(socket) = &link.socket {
                self.epoll.change(socket, READ, at)?;
            }
            self.flush(at)?;
        }
        Ok(())
    }

    /// Takes what has come, checks it, and goes on with what there is room for then.
    fn receive(&mut self, at: usize) -> Result<()> {
        loop {
            let link = &mut self.links[at];
            let Some(socket) = &link.socket else { return Ok(()) };
            // SAFETY: a live buffer of that length, which the kernel writes.
            let n = unsafe { libc::recv(socket.as_raw_fd(), self.input.as_mut_ptr().cast(), self.input.len(), 0) };
            let now = self.shared.clock.now();
            if n <= 0 {
                let how = if n == 0 { None } else { Some(last_error()) };
                return match how.as_ref().map(io::Error::kind) {
                    Some(io::ErrorKind::WouldBlock) => self.went_on(at, now),
                    Some(io::ErrorKind::Interrupted) => continue,
                    _ => self.broke(at, now, how),
                };
            }
            let n = n as usize;
            if at >= self.speaking {
                // Nobody has asked it anything.
                return self.broke(at, now, None);
            }
            let input = &self.input[..n];
            link.talk.receive(input, &self.terms, now, &mut self.checker, &mut self.tally).map_err(|wrong| {
                let right = self.answered();
                Error::machine(
                    format!("{wrong}, after {right} right ones"),
                    "see what the server does; one that answers with bytes of its own needs --check size",
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

    /// Sends what there is to be sent, as far as the kernel takes it.
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
            // SAFETY: live bytes that the kernel reads.
            let sent = unsafe { libc::send(socket.as_raw_fd(), self.output.as_ptr().cast(), n, libc::MSG_NOSIGNAL) };
            let sent = match sent {
                0.. => sent as usize,
                _ => match last_error() {
                    e if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
                    e if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                        // epoll tells it too, and then the rest is received.
                        (link.blocked, link.error) = (true, Some(e));
                        return Ok(());
                    }
                    e => return self.broke(at, now, Some(e)),
                },
            };
            link.talk.taken(sent, &self.terms, now, &mut self.tally);
            if sent < n {
                link.blocked = true;
                return self.epoll.change(socket, READ | WRITE, at);
            }
        }
    }
}
