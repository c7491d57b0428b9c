//! Runs an unmodified program and gives its rings other setup flags. A seccomp filter stops each io_uring_setup(2) call
//! before it starts; a supervisor thread rewrites the parameters in the program's memory; the call then continues.
//!
//! | module | responsible for |
//! |---|---|
//! | [`change`] | the changes, as text and as flags; pure |
//! | [`rules`] | combinations of flags that the kernel always rejects; pure |
//! | `filter` | the seccomp filter and its listener |
//! | `memory` | reading and writing the parameters in the program's memory |
//! | `trial` | whether this kernel grants a ring with these parameters |
//! | [`supervisor`] | the thread that answers the calls, and its records |
//!
//! Data flow: a `Command` gets the filter for its child ([`supervisor::attend`]). Each ring that a process of the tree
//! sets up becomes one [`supervisor::Ring`].
//!
//! If the supervisor dies, the program continues with its existing rings, and its next io_uring_setup call fails with
//! ENOSYS.
//!
//! Uses `iotrail-base` and `iotrail-schema`.

pub mod change;
mod filter;
mod memory;
pub mod rules;
pub mod supervisor;
mod trial;
