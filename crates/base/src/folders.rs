//! The folders of iotrail's own: of what it keeps between two commands (the store, the journal of host settings), and of what it has
//! fetched and can have again.

pub mod own;
pub mod temporary;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names a file or device that experiments which only read use in place of a scratch file. The lab sets it to its first drive.
pub const TARGET_VARIABLE: &str = "IOTRAIL_TARGET";

/// In the guest of a lab, what comes from outside: shared by the host, which also keeps what the guest leaves there.
pub const OF_A_GUEST: &str = "/run/iotrail-lab";

/// `$XDG_STATE_HOME/iotrail`, else `~/.local/state/iotrail`; `None` where neither variable is set.
pub fn state() -> Option<PathBuf> {
    under(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"), ".local/state")
}

/// `$XDG_CACHE_HOME/iotrail`, else `~/.cache/iotrail`; `None` where neither variable is set.
pub fn cache() -> Option<PathBuf> {
    under(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"), ".cache")
}

/// In the guest of a lab the state's folder is the host user's, whatever number that user has, and below one that root alone
/// writes to.
pub fn is_of_a_guest(dir: &Path) -> bool {
    dir.starts_with(OF_A_GUEST)
}

/// A relative variable is to be ignored, says the XDG base directory specification.
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
    fn the_place_follows_the_base_directory_specification() {
        for below_home in [".local/state", ".cache"] {
            let at = |n: Option<&str>, h: Option<&str>| under(n.map(Into::into), h.map(Into::into), below_home);
            assert_eq!(at(Some("/s"), Some("/h")), Some("/s/iotrail".into()));
            assert_eq!(at(Some("s"), Some("/h")), Some(format!("/h/{below_home}/iotrail").into()));
            assert_eq!(at(None, None), None);
        }
    }
}
