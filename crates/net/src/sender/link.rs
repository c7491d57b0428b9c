//! A connection's socket: opened, reopened, lost.

use std::io;

use socket2::Socket;

use super::connection::Connection;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// To be opened: time of the first attempt, and of the next one.
    Closed {
        since: u64,
        again_at: u64,
    },
    Connecting {
        since: u64,
    },
    Open,
    /// Closed permanently.
    Lost,
}

pub struct Link {
    pub socket: Option<Socket>,
    pub state: State,
    /// The kernel accepted only part of the data: send again only after the socket becomes writable.
    pub blocked: bool,
    /// A send error; earlier responses can still be received.
    pub error: Option<io::Error>,
    /// Open loop: whether it is in the queue of connections with free slots.
    pub has_turn: bool,
    pub talk: Connection,
}

impl Link {
    pub fn new(window: u32) -> Self {
        let state = State::Lost;
        Self { socket: None, state, blocked: false, error: None, has_turn: false, talk: Connection::new(window) }
    }

    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub fn is_quiet(&self) -> bool {
        match self.state {
            State::Open => self.talk.is_quiet(),
            State::Connecting { .. } => false,
            State::Closed { .. } | State::Lost => true,
        }
    }
}
