//! iotrail's directories: state kept between commands (the store, the journal of host settings), and the cache of
//! downloads.

pub mod own;
pub mod temporary;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Environment variable that names a file or device for read-only experiments to use in place of a scratch file. The
/// lab sets it to its first drive.
pub const TARGET_VARIABLE: &str = "IOTRAIL_TARGET";

/// In a lab guest: the directory shared with the host, which also receives the guest's results.
pub const OF_A_GUEST: &str = "/run/iotrail-lab";

/// `$XDG_STATE_HOME/iotrail`, by default `~/.local/state/iotrail`; `None` if neither variable is set.
pub fn state() -> Option<PathBuf> {
    under(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"), ".local/state")
}

/// `$XDG_CACHE_HOME/iotrail`, by default `~/.cache/iotrail`; `None` if neither variable is set.
pub fn cache() -> Option<PathBuf> {
    under(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"), ".cache")
}

/// Whether this is a lab guest's state directory. It belongs to the host user, with an arbitrary user ID, below a
/// directory that only root can write to.
pub fn is_of_a_guest(dir: &Path) -> bool {
    dir.starts_with(OF_A_GUEST)
}

/// The XDG base directory specification requires that relative paths are ignored.
fn under(named: Option<OsString>, home: Option<OsString>, below_home: &str) -> Option<PathBuf> {
    let absolute = |p: &PathBuf| p.is_absolute();
    named
        .map(PathBuf::from)
        .filter(absolute)
        .or_else(|| home.map(PathBuf::from).filter(absolute).map(|h| h.join(below_home)))
        .map(|dir| dir.join("iotrail"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_follow_the_xdg_base_directory_specification() {
        for below_home in [".local/state", ".cache"] {
            let at = |n: Option<&str>, h: Option<&str>| under(n.map(Into::into), h.map(Into::into), below_home);
            assert_eq!(at(Some("/s"), Some("/h")), Some("/s/iotrail".into()));
            assert_eq!(at(Some("s"), Some("/h")), Some(format!("/h/{below_home}/iotrail").into()));
            assert_eq!(at(None, None), None);
        }
    }
}
