//! Where the store is when none is named.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// `$XDG_STATE_HOME/iotrail/iotrail.db`, else `~/.local/state/iotrail/iotrail.db`.
pub fn default_path() -> Result<PathBuf> {
    under(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
        .ok_or_else(|| Error::input("neither XDG_STATE_HOME nor HOME is set", "name the store with --store PATH"))
}

/// A relative XDG_STATE_HOME is to be ignored, says the XDG base directory specification.
fn under(state_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |p: &PathBuf| p.is_absolute();
    state_home
        .map(PathBuf::from)
        .filter(absolute)
        .or_else(|| home.map(PathBuf::from).filter(absolute).map(|h| h.join(".local/state")))
        .map(|dir| dir.join("iotrail/iotrail.db"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_follows_the_base_directory_specification() {
        let at = |s: Option<&str>, h: Option<&str>| under(s.map(Into::into), h.map(Into::into));
        assert_eq!(at(Some("/s"), Some("/h")), Some("/s/iotrail/iotrail.db".into()));
        assert_eq!(at(Some("s"), Some("/h")), Some("/h/.local/state/iotrail/iotrail.db".into()));
        assert_eq!(at(None, None), None);
    }
}
