//! iotrail traces asynchronous I/O on Linux from submission until the application has the result.
//!
//! The program itself, built on the libraries in `crates/` (`docs/architecture.md`): implements the commands.
//!
//! | module | responsible for |
//! |---|---|
//! | [`cli`] | one file per command: arguments → one call → one printer |
//! | [`runner`] | a plan, measured, stored, printed: for all commands that measure |

pub mod cli;
pub mod runner;
