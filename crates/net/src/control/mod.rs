//! The control connection: beside the requests, sender and server agree on what is measured, and the server's half of the measurement
//! comes back.
//!
//! | file | responsible for |
//! |---|---|
//! | `message` | what is said, one JSON value a line |
//! | `line` | lines that are bounded in size and time |
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
//!                                       ← second {…}, once a second
//!   (nothing in flight)
//!   end                              →    reads them
//!                                       ← measured {…}
//!   bye                              →
//! ```
//!
//! A server that is stopped in between says `measured` unasked, of what was until then. Whoever finds the other gone goes on with what
//! has come.

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

/// Raised when what is said changes its meaning.
pub const PROTOCOL: u32 = 1;

/// Where the control connection is, as asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Place {
    /// Beside the data: the next port, or `PATH.control`.
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
    /// `None`: there is to be none.
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
                format!("beside {data} there is no port for the control connection"),
                "choose a lower port, name one with --control ADDRESS, or do without: --control none",
            )),
        },
        Address::Unix(path) => {
            let mut path = path.clone().into_os_string();
            path.push(".control");
            Ok(Address::Unix(PathBuf::from(path)))
        }
    }
}
