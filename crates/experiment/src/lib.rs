//! Experiments: a TOML file or a built-in name → a plan of cells → a schedule → measurements, each stored when it ends.

pub mod advise;
pub mod budget;
pub mod builtin;
pub mod cell;
pub mod emulated;
mod enough;
pub mod execute;
pub mod file;
pub mod fio;
mod follow;
pub mod given;
pub mod load;
pub mod net;
pub mod plan;
pub mod precheck;
pub mod program;
pub mod replay;
pub mod schedule;
pub mod scratch;
pub mod studies;
mod watched;

#[cfg(test)]
mod mutated_tests;
