//! The standard input of a program's runs: each of them has the same.

use std::fs::File;
use std::io::{self, IsTerminal as _, Seek as _, SeekFrom};
use std::process::Stdio;

use iotrail_base::error::{Error, Result};
use rustix::fs::{FileType, fstat, tell};
use rustix::io::ioctl_fionread;

fn kind() -> Option<FileType> {
    Some(FileType::from_raw_mode(fstat(io::stdin()).ok()?.st_mode))
}

/// A redirected file, from where it is at; nothing in place of what only one run could read.
pub fn again() -> Result<Stdio> {
    let stdin = io::stdin();
    match kind() {
        None | Some(FileType::Fifo | FileType::Socket | FileType::Directory) => return Ok(Stdio::null()),
        Some(_) if stdin.is_terminal() => return Ok(Stdio::null()),
        Some(_) => {}
    }
    let again = File::open("/proc/self/fd/0").and_then(|mut file| {
        // A device has no place in it.
        tell(&stdin).map_or(Ok(0), |at| file.seek(SeekFrom::Start(at)))?;
        Ok(file)
    });
    let again = again.map_err(|e| {
        Error::machine("cannot open standard input again for each run", "let it be a file that can be read").because(e)
    });
    again.map(Stdio::from)
}

/// Errors: somebody writes to a pipe what no run would get. An empty pipe is what ssh and services leave there.
pub fn no_pipe() -> Result<()> {
    let waits = ioctl_fionread(io::stdin()).is_ok_and(|bytes| bytes > 0);
    if !waits || !matches!(kind(), Some(FileType::Fifo | FileType::Socket)) {
        return Ok(());
    }
    let what = "standard input is a pipe, and each run would need the same input";
    Err(Error::input(what, "write it to a file and redirect that: iotrail try … < FILE; or leave it out: < /dev/null"))
}
