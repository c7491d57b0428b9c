//! Counts and followed requests → the record. Pure.
//!
//! Counts are the probes' and exact; times and places are of the followed requests. A request's first completion is its
//! latency. Waits are told apart at the end, ring by ring (`path::waits`). What comes after it (a multishot request's later completions, a zero-copy send's notification) is no latency of
//! anything, and a multishot request's completions that announce more are none either; how late each was delivered counts.
//!
//! | module | responsible for |
//! |---|---|
//! | `followed` | followed requests as they come |
//! | `part` | what was followed of one ring |
//! | `cpu_pairs` | on which CPU completions were ready, and on which posted |
//! | `seen` | what is known of the span beside the probes |
//! | `record` | all of these, and the counts → the record |
//! | `total`, `losses` | its totals, and what they lack |
//! | `rings`, `contexts`, `open` | its rings, contexts, and requests in flight at the end |
//! | `opcodes`, `batches` | counts by opcode; calls of io_uring_enter |

mod batches;
mod contexts;
mod cpu_pairs;
mod followed;
mod losses;
mod opcodes;
mod open;
mod part;
mod record;
mod rings;
mod seen;
mod total;

pub use followed::Summary;
pub(super) use part::Part;
pub(super) use rings::sq_tids;
pub use seen::{ProcView, Span};
pub(super) use total::mode_switches;

#[cfg(test)]
mod tests;
