//! The thin binary: parse, dispatch, turn an error into one line and an exit status.

use std::process::ExitCode;

fn main() -> ExitCode {
    iotrail::cli::main()
}
