//! NVMe definitions for passthrough ([`io_uring::cmd`](super::io_uring::cmd)) and iotrail's own driver ([`user`]).
//!
//! | file | responsible for |
//! |---|---|
//! | `command` | entries of the queues, opcodes, ranges of blocks |
//! | `identify` | namespaces' formats, controllers' limits |
//! | `status` | status of a failed command, by name |
//! | `user` | a drive without the kernel: iotrail's own driver |

pub mod command;
pub mod identify;
pub mod status;
pub mod user;
