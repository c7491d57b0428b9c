//! Messages between host and guest on the control port, one line each.

use std::fmt;
use std::str::FromStr;

/// Message from the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromGuest {
    /// The guest has booted, and the command starts.
    Hello,
    /// The command exited with this status, after writing this many bytes.
    End { status: u8, stdout_bytes: u64, stderr_bytes: u64 },
}

/// Message from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromHost {
    /// Signal for the command and its children.
    Signal(i32),
    /// Standard input ends after this many bytes.
    InputEnds(u64),
}

impl fmt::Display for FromGuest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FromGuest::Hello => writeln!(f, "hello"),
            FromGuest::End { status, stdout_bytes, stderr_bytes } => {
                writeln!(f, "end {status} {stdout_bytes} {stderr_bytes}")
            }
        }
    }
}

impl fmt::Display for FromHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FromHost::Signal(signal) => writeln!(f, "signal {signal}"),
            FromHost::InputEnds(bytes) => writeln!(f, "input {bytes}"),
        }
    }
}

impl FromStr for FromGuest {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["hello"] => Ok(FromGuest::Hello),
            ["end", status, stdout, stderr] => Ok(FromGuest::End {
                status: status.parse().map_err(drop)?,
                stdout_bytes: stdout.parse().map_err(drop)?,
                stderr_bytes: stderr.parse().map_err(drop)?,
            }),
            _ => Err(()),
        }
    }
}

impl FromStr for FromHost {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["signal", signal] => signal.parse().map(FromHost::Signal).map_err(drop),
            ["input", bytes] => bytes.parse().map(FromHost::InputEnds).map_err(drop),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_round_trip_between_host_and_guest() {
        for said in [FromGuest::Hello, FromGuest::End { status: 137, stdout_bytes: 1 << 40, stderr_bytes: 0 }] {
            assert_eq!(said.to_string().parse(), Ok(said));
        }
        for said in [FromHost::Signal(2), FromHost::InputEnds(7)] {
            assert_eq!(said.to_string().parse(), Ok(said));
        }
        assert_eq!("end 1".parse::<FromGuest>(), Err(()));
        assert_eq!("".parse::<FromHost>(), Err(()));
    }
}
