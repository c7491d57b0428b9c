//! The programs that a run needs, and those that this kernel can load: facts first, then a pure decision. `survey`
//! tries each.

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
