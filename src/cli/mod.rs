//! One file per command: arguments → one call → one printer.

pub mod check;

use std::process::ExitCode;

pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
