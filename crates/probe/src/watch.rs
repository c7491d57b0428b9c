//! A trace: loads the programs that the subject needs, attaches them, resets the counters, and reads them.
//!
//! | module | responsible for |
//! |---|---|
//! | `attached` | the parts of a watch |
//! | `layout` | sizes of the structures in `record.h` and of the maps |
//! | `opening` | loading and attaching |
//! | `aio` | programs attached when native or POSIX AIO is used |
//! | `costly`, `windows` | programs attached part of the time |
//! | `account` | the threads' account and their system calls |
//! | `span` | counting from start to end |
//! | `counters`, `tables` | the counts in the maps and in the CPUs' slots |
//! | `sweep` | removal of closed rings |
//! | `unfinished` | requests in flight at the end |
//! | `handed_over` | records that the programs send one by one |
//! | `processes` | the traced processes |
//! | `programs` | the kernel's statistics about the programs |
//! | `errors` | error texts for loads that the kernel refuses |

mod account;
mod aio;
mod attached;
mod costly;
mod counters;
mod errors;
mod handed_over;
mod layout;
mod opening;
mod processes;
mod programs;
mod span;
mod sweep;
mod tables;
mod unfinished;
mod windows;

pub use attached::{ObjectSlot, Watch};
pub use handed_over::BATCHES;
