//! Base of all crates, without I/O tracing: errors with remedies, terminal-safe text, numbers and sizes as text,
//! atomically written and locked files, directories, mapped memory, Ctrl-C.
//!
//! Uses no other crate of the workspace, and reads only its own process, directories and outputs.

pub mod alarm;
pub mod corruption;
pub mod distinct;
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
