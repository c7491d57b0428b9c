//! Selects the programs that a run needs and this kernel can load, by a pure decision from facts. `survey` tries each
//! program.

mod facts;
mod messages;
mod plan;
mod program;
mod refusal;

pub use facts::Facts;
pub use messages::{be_verbose, quiet};
pub use plan::{Plan, plan};
pub(super) use plan::{missing_why, tracepoint};
pub use program::Program;
pub use refusal::{descriptors, refusal, refused};
