//! State of one connection between two of its receives, common to all engines. An idle one has no buffer.

use std::os::fd::AsFd;

use rustix::net::sockopt::set_tcp_nodelay;

use crate::wire::{Garbage, Responder};

/// Responses that a connection may have waiting: then nothing more is taken of its input.
pub const ROOM: usize = 256 << 10;

#[derive(Debug, Default)]
pub struct Connection {
    responder: Responder,
    /// Responses that the kernel has not taken yet; empty and without memory when there are none.
    pub unsent: Vec<u8>,
    /// Bytes of `unsent` that were accepted.
    pub taken: usize,
    /// Received, not yet answered because `out` was full.
    held: Vec<u8>,
}

impl Connection {
    /// Answers as much of `held` and `input` as possible; the responses are appended to `out`, or wait after `unsent`. Returns the
    /// number of requests answered.
    pub fn answer(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<u32, Garbage> {
        let mut requests = 0;
        if !self.held.is_empty() || self.waiting() > 0 {
            self.held.extend_from_slice(input);
            let held = std::mem::take(&mut self.held);
            let room = ROOM.saturating_sub(self.waiting());
            let p = self.responder.respond(&held, &mut self.unsent, room)?;
            requests += p.requests;
            if p.consumed < held.len() {
                self.held = held;
                self.held.drain(..p.consumed);
            }
            return Ok(requests);
        }
        let p = self.responder.respond(input, out, ROOM)?;
        requests += p.requests;
        self.held.extend_from_slice(&input[p.consumed..]);
        Ok(requests)
    }

    /// Bytes of responses that wait.
    pub fn waiting(&self) -> usize {
        self.unsent.len() - self.taken
    }

    /// Keeps the bytes that the kernel did not accept.
    pub fn keep(&mut self, rest: &[u8]) {
        self.unsent.extend_from_slice(rest);
    }

    /// The kernel has accepted this many of the waiting bytes.
    pub fn sent(&mut self, bytes: usize) {
        self.taken += bytes;
        if self.taken == self.unsent.len() {
            // The memory is freed too: most connections never need it.
            (self.unsent, self.taken) = (Vec::new(), 0);
        }
    }

    /// There is unanswered input because `out` was full, or an incomplete response.
    pub fn is_held(&self) -> bool {
        !self.held.is_empty() || (self.responder.is_midway() && self.responder.owes())
    }

    /// Within a request: a peer that disconnects now leaves an incomplete one.
    pub fn is_midway(&self) -> bool {
        self.responder.is_midway()
    }
}

/// TCP_NODELAY; a UNIX socket has none, and needs none.
pub fn without_delay(socket: impl AsFd) {
    set_tcp_nodelay(socket, true).unwrap_or(());
}
