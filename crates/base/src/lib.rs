//! The base of all crates, without I/O tracing: errors with their remedies, text that is safe for a terminal, numbers and sizes as
//! text, files written under a temporary name or locked, directories, mapped memory, Ctrl-C.
//!
//! It uses no other crate of the workspace. It reads only its own process, directories and outputs.

pub mod alarm;
pub mod corruption;
pub mod error;
pub mod folders;
pub mod grouped;
pub mod input;
pub mod interrupt;
pub mod locked;
pub mod mapping;
pub mod ourselves;
pub mod output;
pub mod plain;
mod sanitise;
pub mod units;
pub mod words;
