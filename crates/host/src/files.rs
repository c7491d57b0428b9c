//! Reads the single-value files of sysfs and procfs below a root.
//!
//! Every reader in `host` takes that root, so that its tests read small trees with known values instead of the
//! machine on which they run. A missing or refused file is `None`: the caller knows the meaning of its absence.

use std::fs;
use std::path::{Path, PathBuf};

/// The machine itself.
pub const ROOT: &str = "/";

/// The complete file without surrounding white space. `path` may start with a slash.
pub fn text(root: &Path, path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(below(root, path)).ok().map(|s| s.trim().to_owned())
}

/// The file as a number.
pub fn number<T: std::str::FromStr>(root: &Path, path: impl AsRef<Path>) -> Option<T> {
    text(root, path)?.parse().ok()
}

/// Sorted names of a directory's entries; empty if there is no such directory.
pub fn entries(root: &Path, path: impl AsRef<Path>) -> Vec<String> {
    let Ok(dir) = fs::read_dir(below(root, path)) else { return Vec::new() };
    let mut names: Vec<String> = dir.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The last component of where a symbolic link points: sysfs names drivers and subsystems that way.
pub fn link_name(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.file_name()?.to_str()?.to_owned())
}

/// `path`, absolute or not, as found under `root`.
pub fn below(root: &Path, path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    root.join(path.strip_prefix("/").unwrap_or(path))
}
