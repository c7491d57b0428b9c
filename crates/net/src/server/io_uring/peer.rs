//! A connection as the ring sees it: what is under way for it. An idle one has one receive (or poll) pending, and no memory but
//! this.

use super::output::Piece;
use crate::server::connection::Connection;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiving {
    No,
    /// Waits for something to read, without a buffer.
    Polling,
    Armed,
    /// Asked to end; its last completion is still to come.
    Cancelled,
}

#[derive(Debug, Clone, Copy)]
pub enum Sending {
    /// Takes what the socket has room for while it is submitted; the number of its submission entry.
    AtOnce(Piece, u64),
    /// Waits for room until all is taken.
    Waiting { piece: Piece, zero_copy: bool },
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The peer sends no more; what it asked is still answered.
    NoMore,
    Reset,
    Garbage,
}

#[derive(Debug)]
pub struct Peer {
    /// A descriptor, or the place of a direct one.
    pub fd: i32,
    pub connection: Connection,
    pub receiving: Receiving,
    pub sending: Option<Sending>,
    /// A send that waits was asked to end.
    pub send_cancelled: bool,
    pub end: Option<End>,
    /// Something follows as soon as its send at once is settled.
    pub follows: bool,
    /// Has received something since the last sweep.
    pub spoke: bool,
    /// `single`: the buffer of its own.
    pub input: Option<Box<[u8]>>,
}

impl Peer {
    pub fn new(fd: i32) -> Self {
        Self {
            fd,
            connection: Connection::default(),
            receiving: Receiving::No,
            sending: None,
            send_cancelled: false,
            end: None,
            follows: false,
            spoke: false,
            input: None,
        }
    }

    /// There are answers, or requests to answer, beside what is being sent.
    pub fn has_more(&self) -> bool {
        self.connection.waiting() > 0 || self.connection.is_held()
    }
}
