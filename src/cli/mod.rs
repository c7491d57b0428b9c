//! One file per command: arguments → one call → one printer.

pub mod check;
pub mod list;
pub mod run;

use std::process::ExitCode;

pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
