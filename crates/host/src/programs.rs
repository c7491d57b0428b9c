//! Finds programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The first executable with this name, with the search rules of execvp(3).
pub fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let name = name.as_ref();
    // Default search path of execvp(3).
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file() && may_run(file))
}

pub fn may_run(file: &Path) -> bool {
    access(file, Access::EXEC_OK).is_ok()
}
