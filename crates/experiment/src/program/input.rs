//! Gives all runs of a program the same standard input.

use std::fs::File;
use std::io::{self, IsTerminal as _, Seek as _, SeekFrom};
use std::process::Stdio;

use iotrail_base::error::{Error, OrFail, Result};
use rustix::fs::{FileType, fstat, tell};
use rustix::io::ioctl_fionread;

fn kind() -> Option<FileType> {
    Some(FileType::from_raw_mode(fstat(io::stdin()).ok()?.st_mode))
}

/// A redirected file from its current offset; empty input if only one run could read it.
pub fn again() -> Result<Stdio> {
    let stdin = io::stdin();
    match kind() {
        None | Some(FileType::Fifo | FileType::Socket | FileType::Directory) => return Ok(Stdio::null()),
        Some(_) if stdin.is_terminal() => return Ok(Stdio::null()),
        Some(_) => {}
    }
    let again = File::open("/proc/self/fd/0").and_then(|mut file| {
        // Devices have no offset.
        tell(&stdin).map_or(Ok(0), |at| file.seek(SeekFrom::Start(at)))?;
        Ok(file)
    });
    let again = again.or_machine("cannot open standard input again for each run", "redirect it from a readable file");
    again.map(Stdio::from)
}

/// Rejects a pipe with data, which no run would read. ssh and services leave an empty pipe.
pub fn no_pipe() -> Result<()> {
    let waits = ioctl_fionread(io::stdin()).is_ok_and(|bytes| bytes > 0);
    if !waits || !matches!(kind(), Some(FileType::Fifo | FileType::Socket)) {
        return Ok(());
    }
    let what = "standard input is a pipe, but all runs need the same input";
    Err(Error::input(what, "redirect it from a file (iotrail try … < FILE), or use < /dev/null"))
}
