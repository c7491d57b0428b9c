//! Runs an unmodified program whose rings get other setup flags: a seccomp filter stops each
//! io_uring_setup(2) before it starts, a supervisor thread rewrites the parameters in the program's memory, and the call continues.
//!
//! | module | responsible for |
//! |---|---|
//! | [`change`] | the changes, as text and as flags; pure |
//! | [`rules`] | combinations of flags that the kernel never accepts; pure |
//! | `filter` | the seccomp filter, and its listener |
//! | `memory` | reading and writing the parameters in the program's memory |
//! | `trial` | whether this kernel grants a ring with these parameters |
//! | [`supervisor`] | the thread that answers, and its records |
//!
//! Data flow: a `Command` gets the filter for its child ([`supervisor::attend`]); each ring that any
//! process of the tree sets up becomes one [`supervisor::Ring`].
//!
//! If the supervisor dies, the program continues with its existing rings, and its next io_uring_setup fails with ENOSYS.
//!
//! It uses `iotrail-base` and `iotrail-schema`.

pub mod change;
mod filter;
mod memory;
pub mod rules;
pub mod supervisor;
mod trial;
