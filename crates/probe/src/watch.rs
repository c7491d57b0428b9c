//! One watched span: load the programs that the subject needs, attach, zero, read.
//!
//! | module | responsible for |
//! |---|---|
//! | `attached` | the parts of a watch |
//! | `layout` | the sizes of `record.h` and of the maps |
//! | `opening` | loading and attaching |
//! | `aio` | programs attached when native or POSIX AIO is used |
//! | `costly`, `windows` | programs attached a part of the time |
//! | `account` | the threads' account, and their system calls |
//! | `span` | counting, from its start to its end |
//! | `counters`, `tables` | the counts in the maps and in the CPUs' slots |
//! | `sweep` | removal of closed rings |
//! | `unfinished` | requests that have not completed at the end |
//! | `handed_over` | records that arrive one by one |
//! | `processes` | the traced processes |
//! | `programs` | the kernel's data about the programs |
//! | `errors` | texts for refusals |

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
