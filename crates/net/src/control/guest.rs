//! The sender's end of the control connection.

use std::time::{Duration, Instant};

use super::PROTOCOL;
use super::line::{Broken, Lines};
use super::message::{FromSender, FromServer, Hello, Measured, Welcome, other_protocol};
use crate::address::Address;
use iotrail_base::error::{Error, Result};
use iotrail_schema::net_record::{SenderPlan, ServerCounts};

/// Maximum length of a server's line in bytes: a measurement on a large machine, with one entry per second for a day.
const LONGEST: usize = 64 << 20;
/// A server loads its probes before it sends this line.
const WELCOME: Duration = Duration::from_secs(30);
/// A server resets or reads its probes at the span's ends, after its threads have come to rest.
const ANSWER: Duration = Duration::from_secs(30);

/// Why the other end of a control connection is not a usable server.
pub enum Unmet {
    /// The peer is not iotrail: no connection, or an invalid message.
    NotOurs(String),
    /// The peer is iotrail, but refuses.
    Refused(Error),
}

/// A server that takes part in the measurement.
pub struct Guest {
    lines: Lines,
    address: Address,
    welcome: Welcome,
    seconds: Vec<ServerCounts>,
    /// Stored on arrival, because a server that is stopped sends it without a request.
    measured: Option<Box<Measured>>,
}

impl Guest {
    /// Connects and negotiates the measurement with the server.
    pub fn greet(address: &Address, asked: &SenderPlan) -> std::result::Result<Self, Unmet> {
        let not_ours = |why: &dyn std::fmt::Display| Unmet::NotOurs(why.to_string());
        let socket = address.connect().map_err(|e| not_ours(&e))?;
        let mut lines = Lines::new(socket, LONGEST).map_err(|e| not_ours(&e))?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let hello = FromSender::Hello(Hello { protocol: PROTOCOL, version, asked: asked.clone() });
        let deadline = Instant::now() + WELCOME;
        let said = lines.write_by(&hello, deadline).and_then(|()| lines.read_by(deadline));
        let line = said.map_err(|e| not_ours(&e))?;
        let refused = |why: String| {
            let what = format!("the server at {address} refuses to be measured");
            let remedy = "wait until it is free, or measure without it: --control none";
            Unmet::Refused(Error::machine(what, remedy).because(why))
        };
        if let Some(why) = other_protocol(&line) {
            return Err(refused(why));
        }
        match serde_json::from_str(&line) {
            Ok(FromServer::Welcome(welcome)) => {
                Ok(Self { lines, address: address.clone(), welcome: *welcome, seconds: Vec::new(), measured: None })
            }
            Ok(FromServer::Refused { why }) => Err(refused(why)),
            _ => Err(not_ours(&Broken::Garbage)),
        }
    }

    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The server's counts per second, as received so far.
    pub fn seconds(&self) -> &[ServerCounts] {
        &self.seconds
    }

    /// Starts the server's counts. Call with nothing in flight.
    pub fn begin(&mut self) -> Result<()> {
        let deadline = Instant::now() + ANSWER;
        self.lines.write_by(&FromSender::Begin, deadline).map_err(|e| self.lost(e))?;
        match self.hear(deadline)? {
            FromServer::Begun => Ok(()),
            FromServer::Refused { why } => Err(self.refused(why)),
            _ => Err(self.lost(Broken::Garbage)),
        }
    }

    /// Reads messages that have arrived. Fails if the server is gone.
    pub fn listen(&mut self) -> Result<()> {
        while let Some(line) = self.lines.take().map_err(|e| self.lost(e))? {
            let message = serde_json::from_str(&line).map_err(|_| self.lost(Broken::Garbage))?;
            self.take(message)?;
        }
        Ok(())
    }

    /// The server's measurement since [`begin`](Self::begin). Call with nothing in flight, or when the data connections
    /// are broken.
    pub fn end(&mut self) -> Result<Box<Measured>> {
        // Read first, because a write to a closed connection may discard received data.
        let there = self.listen();
        let deadline = Instant::now() + ANSWER;
        if self.measured.is_none() {
            there?;
            // A stopped server does not read this but has already sent its measurement, so the next read decides.
            let _ = self.lines.write_by(&FromSender::End, deadline);
        }
        loop {
            if let Some(measured) = self.measured.take() {
                return Ok(measured);
            }
            let message = self.hear(deadline)?;
            self.take(message)?;
        }
    }

    fn take(&mut self, message: FromServer) -> Result<()> {
        match message {
            FromServer::Second(counts) => self.seconds.push(*counts),
            FromServer::Measured(measured) => self.measured = Some(measured),
            FromServer::Refused { why } => return Err(self.refused(why)),
            FromServer::Welcome(_) | FromServer::Begun => return Err(self.lost(Broken::Garbage)),
        }
        Ok(())
    }

    fn hear(&mut self, deadline: Instant) -> Result<FromServer> {
        let line = self.lines.read_by(deadline).map_err(|e| self.lost(e))?;
        serde_json::from_str(&line).map_err(|_| self.lost(Broken::Garbage))
    }

    fn lost(&self, why: Broken) -> Error {
        let what = format!("the server at {} was lost", self.address);
        Error::machine(what, "check whether it is still running, and its messages").because(why)
    }

    fn refused(&self, why: String) -> Error {
        Error::machine(format!("the server at {} cannot measure", self.address), "").because(why)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // A server that misses this message notices the closed connection.
        let _ = self.lines.write_by(&FromSender::Bye, Instant::now());
    }
}
