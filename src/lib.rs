//! iotrail follows asynchronous I/O on Linux from submission to the moment the application has its result.
//!
//! This is the program itself, on top of the libraries below `crates/` (`docs/architecture.md`): what a command does.
//!
//! | module | responsible for |
//! |---|---|
//! | [`cli`] | one file per command: arguments → one call → one printer |
//! | [`runner`] | a plan, measured, stored, shown: of all commands that measure |

pub mod cli;
pub mod runner;
