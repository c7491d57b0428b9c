//! iotrail follows asynchronous I/O on Linux from submission to the moment the application has its result.
//!
//! The program itself, on top of the libraries in `crates/` (`docs/architecture.md`): the work of each command.
//!
//! | module | responsible for |
//! |---|---|
//! | [`cli`] | one file per command: arguments → one call → one printer |
//! | [`runner`] | a plan, measured, stored, printed: for all commands that measure |

pub mod cli;
pub mod runner;
