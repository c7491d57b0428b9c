//! All records that are stored or printed as JSON, and the types of their fields. `measurements`, `packed` and `shared`
//! keep many measurements in little memory.
//!
//! `iotrail-base` is the only workspace crate that it uses.

pub mod account;
pub mod comparison;
pub mod delivery_path;
pub mod detail;
pub mod file;
pub mod finding;
pub mod fleet_answer;
pub mod fleet_record;
mod host;
mod latency;
mod load_options;
pub mod measurement;
pub mod measurements;
pub mod metric_family;
pub mod metrics_record;
pub mod name;
pub mod net_record;
pub mod opcode;
pub mod packed;
pub mod place;
pub mod program_record;
pub mod recorded;
pub mod replay_log;
pub mod replay_record;
pub mod reproduction;
pub mod run_record;
pub mod runnable;
pub mod search_record;
pub mod setup_flag;
pub mod shared;
pub mod stacks;
pub mod stage;
pub mod stall;
pub mod state;
pub mod stored_trace;
pub mod syscall;
pub mod timeline;
pub mod top_record;
pub mod trace_record;
pub mod trail;
pub mod uring;
pub mod waker;
mod warning;

/// Input for tests.
#[doc(hidden)]
pub mod trail_example;

/// For fields that are omitted if 0.
pub(crate) fn is_zero(n: &u64) -> bool {
    *n == 0
}
