//! Programs of this machine.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The first program of that name that may be run, as execvp(3) looks for it.
pub fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let name = name.as_ref();
    // What execvp searches where PATH is not set.
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file() && may_run(file))
}

pub fn may_run(file: &Path) -> bool {
    let Ok(file) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: a live string that ends with a zero byte.
    unsafe { libc::access(file.as_ptr(), libc::X_OK) == 0 }
}
