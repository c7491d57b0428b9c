//! A connection's state between two receives, common to all engines. Idle connections have no buffer.

use std::os::fd::AsFd;

use rustix::net::sockopt::set_tcp_nodelay;

use crate::wire::{Garbage, Responder};

/// Maximum bytes of pending responses; at this limit, no more input is consumed.
pub const ROOM: usize = 256 << 10;

#[derive(Debug, Default)]
pub struct Connection {
    responder: Responder,
    /// Responses that the kernel has not accepted; empty and unallocated if there are none.
    pub unsent: Vec<u8>,
    /// Bytes of `unsent` that were accepted.
    pub taken: usize,
    /// Received data, not answered yet because `out` was full.
    held: Vec<u8>,
}

impl Connection {
    /// Answers as much of `held` and `input` as possible. Appends responses to `out`, or to the pending ones in
    /// `unsent`. Returns the number of requests answered.
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

    /// Bytes of pending responses.
    pub fn waiting(&self) -> usize {
        self.unsent.len() - self.taken
    }

    /// Keeps bytes that the kernel did not accept.
    pub fn keep(&mut self, rest: &[u8]) {
        self.unsent.extend_from_slice(rest);
    }

    /// Accounts for this many pending bytes as accepted by the kernel.
    pub fn sent(&mut self, bytes: usize) {
        self.taken += bytes;
        if self.taken == self.unsent.len() {
            // Frees the memory, which most connections never need again.
            (self.unsent, self.taken) = (Vec::new(), 0);
        }
    }

    /// Whether input is unanswered because `out` was full, or a response is incomplete.
    pub fn is_held(&self) -> bool {
        !self.held.is_empty() || (self.responder.is_midway() && self.responder.owes())
    }

    /// Whether a request is incomplete; a peer that disconnects now leaves it incomplete.
    pub fn is_midway(&self) -> bool {
        self.responder.is_midway()
    }
}

/// Sets TCP_NODELAY; UNIX sockets have no such option and do not need one.
pub fn without_delay(socket: impl AsFd) {
    set_tcp_nodelay(socket, true).unwrap_or(());
}
