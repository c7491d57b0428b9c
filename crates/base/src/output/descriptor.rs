//! Names of this process's descriptors: `/dev/stdout`, `/dev/fd/63`, and symlinks to them.

use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// The kernel's limit for symlinks.
const LINKS: usize = 40;

/// The descriptor that `path` names, also through symlinks. Such a path must not be opened or replaced: opening it
/// would open the file again, at its start.
pub fn own(path: &Path) -> Option<RawFd> {
    let ours = std::fs::canonicalize("/proc/self/fd").ok()?;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let folder = match path.parent() {
            Some(p) if !p.as_os_str().is_empty() => p.to_owned(),
            _ => PathBuf::from("."),
        };
        let folder = folder.canonicalize().ok()?;
        let name = path.file_name()?;
        let is_ours = folder == ours || (folder.ends_with("fd") && folder.starts_with(ours.parent()?.join("task")));
        if is_ours {
            return name.to_str()?.parse().ok();
        }
        path = folder.join(std::fs::read_link(folder.join(name)).ok()?);
    }
    None
}
