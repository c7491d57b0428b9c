//! The requests in flight of a connection. An idle one has one receive (or poll) pending, and no other memory.

use super::output::Piece;
use crate::server::connection::Connection;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiving {
    No,
    /// Waits until the socket is readable, without a buffer.
    Polling,
    Armed,
    /// Cancelled; its last completion is still to come.
    Cancelled,
}

#[derive(Debug, Clone, Copy)]
pub enum Sending {
    /// Sends as much as the socket accepts during the submission; the number of its submission entry.
    AtOnce(Piece, u64),
    /// Waits until all is sent.
    Waiting { piece: Piece, zero_copy: bool },
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The peer does not send any more; its requests are still answered.
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
    /// A waiting send was cancelled.
    pub send_cancelled: bool,
    pub end: Option<End>,
    /// The connection continues as soon as its immediate send is settled.
    pub follows: bool,
    /// Has received data since the last sweep.
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

    /// There are answers, or requests to answer, in addition to the data being sent.
    pub fn has_more(&self) -> bool {
        self.connection.waiting() > 0 || self.connection.is_held()
    }
}
