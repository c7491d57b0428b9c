//! The control connection, separate from the requests: sender and server negotiate the measurement, and the server
//! returns its half.
//!
//! | file | responsible for |
//! |---|---|
//! | `message` | the messages, one JSON value per line |
//! | `line` | lines that are limited in size and time |
//! | `host` | the server's end: one sender at a time |
//! | `guest` | the sender's end |
//!
//! ```text
//! sender                                server
//!   hello {protocol, version, asked} →
//!                                       ← welcome {protocol, version, …}, or refused {why}
//!   (warm-up, then nothing in flight)
//!   begin                            →    resets its counters and probes
//!                                       ← begun
//!                                       ← second {…}, once per second
//!   (nothing in flight)
//!   end                              →    reads them
//!                                       ← measured {…}
//!   bye                              →
//! ```
//!
//! A server that is stopped meanwhile sends `measured` without a request, for the span so far. If one end disappears,
//! the other continues with the data received.

pub mod guest;
pub mod host;
mod line;
pub mod message;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::address::Address;
use iotrail_base::error::{Error, Result};

/// Incremented when the meaning of a message changes.
pub const PROTOCOL: u32 = 1;

/// Where to place the control connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Place {
    /// Next to the data address: the next port, or `PATH.control`.
    #[default]
    Beside,
    At(Address),
    None,
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "none" => Ok(Place::None),
            address => address.parse().map(Place::At),
        }
    }
}

impl Place {
    /// `None` if there should be no control connection.
    pub fn of(&self, data: &Address) -> Result<Option<Address>> {
        match self {
            Place::Beside => beside(data).map(Some),
            Place::At(address) => Ok(Some(address.clone())),
            Place::None => Ok(None),
        }
    }
}

fn beside(data: &Address) -> Result<Address> {
    match data {
        Address::Tcp(at) => match at.port().checked_add(1) {
            Some(port) => Ok(Address::Tcp(SocketAddr::new(at.ip(), port))),
            None => Err(Error::input(
                format!("there is no port after {data} for the control connection"),
                "choose a lower port, specify one with --control ADDRESS, or use --control none",
            )),
        },
        Address::Unix(path) => {
            let mut path = path.clone().into_os_string();
            path.push(".control");
            Ok(Address::Unix(PathBuf::from(path)))
        }
    }
}
