//! Why an output failed, and the remedy: distinguishes a full disk, missing permission and a missing directory.

use std::error::Error as Cause;
use std::io;
use std::path::Path;

use super::{Existing, STDOUT, shown};
use crate::error::{Error, errno_in};

/// The errno in `e`, however it is wrapped.
fn os_error(e: &(dyn Cause + 'static)) -> Option<i32> {
    e.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error).or_else(|| errno_in(&e.to_string()))
}

/// The output was created but rejected data.
pub fn refused(path: &Path, option: &str, e: impl Into<Box<dyn Cause + Send + Sync>>) -> Error {
    let e = e.into();
    if path == Path::new(STDOUT) {
        return stdout_refused(e);
    }
    let what = format!("cannot write {}", shown(path));
    let number = os_error(&*e);
    let error = Error::machine(what, remedy(path, option, number));
    match number.map(io::Error::from_raw_os_error) {
        // Without its wrapper.
        Some(bare) => error.because(bare),
        None => error.because(e),
    }
}

pub fn stdout_refused(e: impl Into<Box<dyn Cause + Send + Sync>>) -> Error {
    Error::machine("cannot write to standard output", "check where it is redirected").because(e)
}

/// The output could not be created.
pub fn cannot_make(path: &Path, option: &str, e: io::Error) -> Error {
    let what = format!("cannot create {}", shown(path));
    let number = os_error(&e);
    let remedy = remedy(path, option, number);
    // Without the temporary name of the incomplete file.
    let e = number.map_or(e, io::Error::from_raw_os_error);
    match number {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EIO | libc::EMFILE | libc::ENFILE | libc::ENOMEM) => {
            Error::machine(what, remedy).because(e)
        }
        _ => Error::input(what, remedy).because(e),
    }
}

pub fn exists(path: &Path, existing: Existing) -> Error {
    let remedy = match existing {
        Existing::Refuse => "specify a new file",
        _ => "specify another file, or replace it with --force",
    };
    Error::input(format!("{} already exists", shown(path)), remedy)
}

fn remedy(path: &Path, option: &str, errno: Option<i32>) -> String {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).display();
    match errno {
        Some(libc::ENOSPC) => {
            format!("free space on the disk of {folder}, or specify a path on another disk with {option}")
        }
        Some(libc::EDQUOT) => {
            format!("your quota there is used up: free space in {folder}, or specify another path with {option}")
        }
        Some(libc::EACCES | libc::EPERM) => {
            format!("specify a writable path with {option}, or change the permissions of {folder}")
        }
        Some(libc::EROFS) => format!("{folder} is mounted read-only: specify another path with {option}"),
        Some(libc::ENOENT | libc::ENOTDIR) => {
            format!("create the directory {folder}, or specify a writable path with {option}")
        }
        Some(libc::EFBIG) => format!("raise the file size limit (ulimit -f), or specify another path with {option}"),
        Some(libc::EMFILE) => "raise the open file limit (ulimit -n)".into(),
        _ => format!("specify a writable path with {option}"),
    }
}
