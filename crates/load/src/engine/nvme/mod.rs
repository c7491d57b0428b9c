//! NVMe: what passthrough ([`io_uring::cmd`](super::io_uring::cmd)) and our own driver ([`user`]) both speak.
//!
//! | file | responsible for |
//! |---|---|
//! | `command` | entries of the queues, opcodes, ranges of blocks |
//! | `identify` | namespaces' formats, controllers' limits |
//! | `status` | what a drive says of a failed command, by name |
//! | `user` | a drive without the kernel: our own driver |

pub mod command;
pub mod identify;
pub mod status;
pub mod user;
