//! Which programs a run wants, and which of them this kernel can take: facts first, then a pure decision. Each is tried in
//! `survey`.

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
pub use refusal::{descriptors, refusal};
