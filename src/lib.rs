//! iotrail follows asynchronous I/O on Linux from submission to the moment the application has its result.
//!
//! This is the program itself, on top of the libraries below `crates/` (`docs/architecture.md`): what a command does, what an experiment is,
//! and how a scrape is answered.
//!
//! | module | responsible for |
//! |---|---|
//! | [`cli`] | one file per command: arguments → one call → one printer |
//! | [`experiment`] | a TOML file or a built-in name → plan of cells → schedule; one watched cell |
//! | [`scrape`] | an HTTP server that answers scrapes, and nothing else |

pub mod cli;
pub mod experiment;
pub mod scrape;
