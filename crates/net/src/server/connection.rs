//! One connection's state, the same for every engine: what is between two of its receives. An idle one has no buffer.

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
    /// Of `unsent`: taken already.
    pub taken: usize,
    /// Received, and not answered for want of room.
    held: Vec<u8>,
}

impl Connection {
    /// Answers what can be answered of `held` and `input`; the responses go to the end of `out`, or wait behind `unsent`. The number of
    /// requests answered.
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

    /// Keeps what the kernel did not take.
    pub fn keep(&mut self, rest: &[u8]) {
        self.unsent.extend_from_slice(rest);
    }

    /// The kernel has taken so many of the bytes that waited.
    pub fn sent(&mut self, bytes: usize) {
        self.taken += bytes;
        if self.taken == self.unsent.len() {
            // Its memory goes too: most connections never have any.
            (self.unsent, self.taken) = (Vec::new(), 0);
        }
    }

    /// There is input that was not answered for want of room, or a response that is not whole.
    pub fn is_held(&self) -> bool {
        !self.held.is_empty() || (self.responder.is_midway() && self.responder.owes())
    }

    /// In the middle of a request: a peer that goes now leaves half a one.
    pub fn is_midway(&self) -> bool {
        self.responder.is_midway()
    }
}

/// TCP_NODELAY; a UNIX socket has none, and needs none.
pub fn without_delay(socket: impl AsFd) {
    set_tcp_nodelay(socket, true).unwrap_or(());
}
