//! What every part of iotrail stands on and that says nothing of I/O: errors with their remedies, text as a terminal may show it, numbers and sizes as
//! people read and write them, files that are written beside and renamed or held locked, folders, mapped memory, Ctrl-C.
//!
//! It uses no other crate of the workspace, and reads nothing of the machine but its own process, folders and outputs.

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
