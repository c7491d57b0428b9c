//! One I/O's timeline in words: its events, the longest stage, and its cause if known.

mod delivery;
mod headline;
mod moments;
mod nature;
mod waited;

use iotrail_base::error::errno_name;
use iotrail_base::words::bytes;
use iotrail_schema::trail::RequestTrace;

pub use headline::headline;
pub use moments::{Moment, moments};
pub use waited::{sentence, waited};

/// Request and result: `read_fixed 4 KiB`, `recv: ECONNRESET`, `write 4 KiB: only 512 B`.
pub fn request(t: &RequestTrace) -> String {
    let asked = t.asked_bytes.map_or_else(|| t.opcode.clone(), |n| format!("{} {}", t.opcode, bytes(n)));
    let asked = match t.offset {
        Some(offset) if t.result < 0 => format!("{asked} at offset {offset}"),
        _ => asked,
    };
    match t.result {
        e if e < 0 => format!("{asked}: {}", errno_name(e.saturating_neg())),
        n if t.is_short() => format!("{asked}: only {}", bytes(n.unsigned_abs().into())),
        _ => asked,
    }
}

#[cfg(test)]
mod tests;
