//! The server's end of the control connection, for one sender at a time. A second sender, or an invalid message, is
//! rejected with a line and counted. A silent connection does not occupy the slot.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use socket2::Socket;

use super::line::{self, Broken, Lines};
use super::message::{FromSender, FromServer, Hello, other_protocol};
use crate::address::Address;
use iotrail_base::error::{OrFail, Result};

/// Maximum length of a sender's line in bytes.
const LONGEST: usize = 64 << 10;
/// Time allowed for a sender's hello, or for accepting a message.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum connections without a hello; further ones are closed immediately.
const ARRIVING: usize = 16;
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// An event of the control socket.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// A sender has taken the slot.
    Hello(Box<Hello>),
    Begin,
    End,
    /// The sender has left, cleanly or not, and the slot is free.
    Left,
}

struct Arriving {
    lines: Lines,
    until: Instant,
}

pub struct Host {
    listener: Socket,
    address: Address,
    arriving: Vec<Arriving>,
    seated: Option<Lines>,
    happened: VecDeque<Event>,
    deaf_until: Option<Instant>,
    refused: u64,
}

impl Host {
    pub fn listen(address: &Address) -> Result<Self> {
        let (listener, address) = address.listen(false)?;
        Ok(Self {
            listener,
            address,
            arriving: Vec::new(),
            seated: None,
            happened: VecDeque::new(),
            deaf_until: None,
            refused: 0,
        })
    }

    /// The address, including a port chosen by the kernel.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Number of rejected connections so far.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The next event; `None` if there was none until then, or after a signal.
    pub fn next(&mut self, until: Instant) -> Result<Option<Event>> {
        if let Some(event) = self.happened.pop_front() {
            return Ok(Some(event));
        }
        let now = Instant::now();
        self.deaf_until = self.deaf_until.filter(|until| *until > now);
        let wakes = self.arriving.iter().map(|a| a.until).chain(self.deaf_until).chain([until]);
        let patience = wakes.min().unwrap_or(until).saturating_duration_since(now);
        let listener = self.deaf_until.is_none().then(|| self.listener.as_fd());
        let seated = self.seated.as_ref().map(Lines::fd);
        let arriving = self.arriving.iter().map(|a| a.lines.fd());
        let wanted = listener.into_iter().chain(seated).chain(arriving);
        let mut fds: Vec<_> = wanted.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        line::poll(&mut fds, patience).or_machine("cannot wait for the control connection", "report this")?;
        let mut told = fds.iter().map(|fd| !fd.revents().is_empty());
        let is_called = listener.is_some() && told.next() == Some(true);
        let is_spoken_to = seated.is_some() && told.next() == Some(true);
        if is_spoken_to {
            self.hear_the_seated();
        }
        self.hear_the_arriving();
        if is_called {
            self.accept();
        }
        Ok(self.happened.pop_front())
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept().map(|(socket, _)| socket).and_then(|socket| Lines::new(socket, LONGEST)) {
                Ok(_) if self.arriving.len() == ARRIVING => self.refused += 1,
                Ok(lines) => self.arriving.push(Arriving { lines, until: Instant::now() + PATIENCE }),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::ECONNABORTED)) => {}
                // Out of descriptors or memory: waiting connections are accepted after others have closed.
                Err(_) => {
                    self.deaf_until = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
    }

    fn hear_the_arriving(&mut self) {
        for mut one in std::mem::take(&mut self.arriving) {
            match one.lines.take() {
                Ok(None) if Instant::now() < one.until => self.arriving.push(one),
                Ok(None) => self.refuse(one.lines, "no message was received"),
                Ok(Some(line)) => self.admit(one.lines, &line),
                Err(Broken::Gone | Broken::Failed(_)) => self.refused += 1,
                Err(e @ (Broken::TooLong | Broken::Garbage | Broken::Silent)) => {
                    self.refuse(one.lines, &e.to_string());
                }
            }
        }
    }

    fn admit(&mut self, lines: Lines, line: &str) {
        if let Some(why) = other_protocol(line) {
            return self.refuse(lines, &why);
        }
        match serde_json::from_str(line) {
            Ok(FromSender::Hello(hello)) if self.seated.is_none() => {
                self.seated = Some(lines);
                self.happened.push_back(Event::Hello(Box::new(hello)));
            }
            Ok(FromSender::Hello(_)) => {
                self.refuse(lines, "another sender is connected; the server accepts one at a time")
            }
            _ => self.refuse(lines, "the first message is not an iotrail hello"),
        }
    }

    fn refuse(&mut self, mut lines: Lines, why: &str) {
        self.refused += 1;
        // A peer that does not read this has no use for the reason.
        let _ = lines.write_by(&FromServer::Refused { why: why.into() }, Instant::now());
    }

    fn hear_the_seated(&mut self) {
        while let Some(lines) = &mut self.seated {
            let event = match lines.take() {
                Ok(None) => return,
                Ok(Some(line)) => match serde_json::from_str(&line) {
                    Ok(FromSender::Begin) => Event::Begin,
                    Ok(FromSender::End) => Event::End,
                    Ok(FromSender::Bye) => return self.free(),
                    _ => return self.send_away("the message is not an iotrail message"),
                },
                Err(Broken::Gone | Broken::Failed(_)) => return self.free(),
                Err(e) => return self.send_away(&e.to_string()),
            };
            self.happened.push_back(event);
        }
    }

    fn free(&mut self) {
        self.seated = None;
        self.happened.push_back(Event::Left);
    }

    /// Ends the current sender's connection, with the reason.
    pub fn send_away(&mut self, why: &str) {
        if let Some(lines) = self.seated.take() {
            self.refuse(lines, why);
            self.happened.push_back(Event::Left);
        }
    }

    /// Sends a message to the current sender. If that fails, the sender counts as having left.
    pub fn say(&mut self, message: &FromServer) {
        if let Some(lines) = &mut self.seated
            && lines.write_by(message, Instant::now() + PATIENCE).is_err()
        {
            self.free();
        }
    }

    /// Sends the last message and waits until the sender has left: closing a socket with unread data discards unsent
    /// data.
    pub fn hand_over(&mut self, message: &FromServer) {
        self.say(message);
        let until = Instant::now() + PATIENCE;
        while let Some(lines) = &mut self.seated
            && lines.read_by(until).is_ok()
        {}
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            // The file may already be gone.
            let _ = std::fs::remove_file(path);
        }
    }
}
