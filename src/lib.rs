//! iotrail follows asynchronous I/O on Linux from submission to the moment the application has its result.
//!
//! This is the program itself, on top of the libraries below `crates/` (`docs/architecture.md`): what a command does,
//! and how a scrape is answered.
//!
//! | module | responsible for |
//! |---|---|
//! | [`cli`] | one file per command: arguments → one call → one printer |
//! | [`scrape`] | an HTTP server that answers scrapes, and nothing else |

pub mod cli;
pub mod scrape;
