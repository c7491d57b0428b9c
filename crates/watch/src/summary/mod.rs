//! Counts and traced requests → the record. Pure.
//!
//! Counts are the probes' and exact; times and CPUs come from the traced requests. A request's latency ends at its first completion.
//! Waits are separated from the other requests at the end, ring by ring (`path::waits`). Later completions (of a multishot request, or the notification of a zero-copy send) have no
//! latency; nor has a multishot request's completion that announces more. Their delivery delays count.
//!
//! | module | responsible for |
//! |---|---|
//! | `followed` | traced requests as they arrive |
//! | `part` | traced requests of one ring |
//! | `cpu_pairs` | CPUs where completions were ready, and where they were posted |
//! | `seen` | data about the span that does not come from the probes |
//! | `record` | all of these, and the counts → the record |
//! | `total`, `losses` | its totals, and their limits |
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
