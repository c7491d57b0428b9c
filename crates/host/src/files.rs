//! Reads single-value files of sysfs and procfs below a root directory.
//!
//! All readers in `host` take this root, so that tests can read small trees with known values. A missing or
//! inaccessible file yields `None`; its meaning depends on the caller.

use std::fs;
use std::path::{Path, PathBuf};

/// The machine itself.
pub const ROOT: &str = "/";

/// Contents of a file without surrounding white space. `path` may begin with a slash.
pub fn text(root: &Path, path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(below(root, path)).ok().map(|s| s.trim().to_owned())
}

/// Contents of a file as a number.
pub fn number<T: std::str::FromStr>(root: &Path, path: impl AsRef<Path>) -> Option<T> {
    text(root, path)?.parse().ok()
}

/// Sorted names of a directory's entries; empty if the directory does not exist.
pub fn entries(root: &Path, path: impl AsRef<Path>) -> Vec<String> {
    let Ok(dir) = fs::read_dir(below(root, path)) else { return Vec::new() };
    let mut names: Vec<String> = dir.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Last component of a symlink's target, which names drivers and subsystems in sysfs.
pub fn link_name(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.file_name()?.to_str()?.to_owned())
}

/// `path`, absolute or relative, below `root`.
pub fn below(root: &Path, path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    root.join(path.strip_prefix("/").unwrap_or(path))
}
