//! The binary: parses and dispatches, and turns an error into one line and an exit status.

use std::process::ExitCode;

/// The standard library opens /dev/null for closed standard descriptors before `main` runs, so only earlier code can
/// detect that one was closed. The loader calls functions listed in this section (ELF, System V ABI).
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn look() {
        iotrail_base::plain::note_closed_stdout();
    }
    look
};

fn main() -> ExitCode {
    iotrail::cli::main()
}
