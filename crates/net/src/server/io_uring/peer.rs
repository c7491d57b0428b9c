//! A connection's requests in flight. An idle connection has one pending receive (or poll), and no other memory.

use super::output::Piece;
use crate::server::connection::Connection;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiving {
    No,
    /// Waits for the socket to become readable, without a buffer.
    Polling,
    Armed,
    /// Cancelled; its last completion has not arrived.
    Cancelled,
}

#[derive(Debug, Clone, Copy)]
pub enum Sending {
    /// Sends as much as the socket accepts during submission; contains its submission entry's number.
    AtOnce(Piece, u64),
    /// Waits until everything is sent.
    Waiting { piece: Piece, zero_copy: bool },
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The peer sends no more; its requests are still answered.
    NoMore,
    Reset,
    Garbage,
}

#[derive(Debug)]
pub struct Peer {
    /// A descriptor, or an index of the direct descriptor table.
    pub fd: i32,
    pub connection: Connection,
    pub receiving: Receiving,
    pub sending: Option<Sending>,
    /// A waiting send was cancelled.
    pub send_cancelled: bool,
    pub end: Option<End>,
    /// The connection continues once its immediate send is settled.
    pub follows: bool,
    /// Data was received since the last sweep.
    pub spoke: bool,
    /// For `single`: the connection's own buffer.
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

    /// Whether there are answers, or requests to answer, besides the data being sent.
    pub fn has_more(&self) -> bool {
        self.connection.waiting() > 0 || self.connection.is_held()
    }
}
