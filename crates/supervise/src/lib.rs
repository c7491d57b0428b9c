//! A program of others', unchanged, whose rings are set up with other flags than it asks for: a seccomp filter stops each
//! io_uring_setup(2) before it begins, a supervisor thread changes the parameters in the program's memory, and the call goes on.
//!
//! | module | responsible for |
//! |---|---|
//! | [`change`] | what is changed, as text and as flags; pure |
//! | [`rules`] | which flags the kernel never takes together; pure |
//! | `filter` | the seccomp filter, and its listener |
//! | `memory` | reading and writing the parameters in the program's memory |
//! | `trial` | whether this kernel grants a ring with these parameters |
//! | [`supervisor`] | the thread that answers, and what it saw |
//!
//! Data flow: a `Command` gets the filter for its child ([`supervisor::attend`]); each ring that any
//! process of the tree sets up becomes one [`supervisor::Ring`].
//!
//! Where the supervisor dies, the program goes on with the rings that it has, and its next io_uring_setup fails with ENOSYS.
//!
//! It uses `iotrail-base` and `iotrail-schema`.

pub mod change;
mod filter;
mod memory;
pub mod rules;
pub mod supervisor;
mod trial;
