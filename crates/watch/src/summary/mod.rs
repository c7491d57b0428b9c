//! Builds the record from counts and traced requests. Pure.
//!
//! Counts come from the probes and are exact; times and CPUs come from the traced requests. A request's latency ends at
//! its first completion. At the end, waits are separated from the other requests of each ring (`path::waits`). Later
//! completions (of a multishot request, or the notification of a zero-copy send) have no latency, nor have completions
//! of multishot requests with IORING_CQE_F_MORE. Their delivery delays count.
//!
//! | module | responsible for |
//! |---|---|
//! | `followed` | traced requests as they arrive |
//! | `part` | traced requests of one ring |
//! | `cpu_pairs` | CPUs on which completions became ready, and on which they were posted |
//! | `seen` | data about the trace that does not come from the probes |
//! | `record` | builds the record from all of these and the counts |
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
