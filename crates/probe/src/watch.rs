//! One watched span: load the programs that the subject needs, attach, zero, read.
//!
//! | module | responsible for |
//! |---|---|
//! | `attached` | what a watch consists of |
//! | `layout` | the sizes of `record.h` and of the maps |
//! | `opening` | loading and attaching |
//! | `aio` | what is attached when native or POSIX AIO is used |
//! | `costly`, `windows` | what is attached a part of the time |
//! | `account` | the threads' account, and their system calls |
//! | `span` | counting, from its beginning to its end |
//! | `counters`, `tables` | the counts in the maps and in the CPUs' slots |
//! | `sweep` | rings that are no more |
//! | `unfinished` | requests that are not done at the end |
//! | `handed_over` | what crosses one by one |
//! | `processes` | who is watched |
//! | `programs` | what the kernel says of the programs |
//! | `errors` | what it refuses |

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
