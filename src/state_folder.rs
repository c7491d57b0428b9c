//! The folder of what iotrail keeps between two commands: the store, and the journal of host settings.

use std::ffi::OsString;
use std::path::PathBuf;

/// `$XDG_STATE_HOME/iotrail`, else `~/.local/state/iotrail`; `None` where neither variable is set.
pub fn state_folder() -> Option<PathBuf> {
    under(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
}

/// A relative XDG_STATE_HOME is to be ignored, says the XDG base directory specification.
fn under(state_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |p: &PathBuf| p.is_absolute();
    state_home
        .map(PathBuf::from)
        .filter(absolute)
        .or_else(|| home.map(PathBuf::from).filter(absolute).map(|h| h.join(".local/state")))
        .map(|dir| dir.join("iotrail"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_follows_the_base_directory_specification() {
        let at = |s: Option<&str>, h: Option<&str>| under(s.map(Into::into), h.map(Into::into));
        assert_eq!(at(Some("/s"), Some("/h")), Some("/s/iotrail".into()));
        assert_eq!(at(Some("s"), Some("/h")), Some("/h/.local/state/iotrail".into()));
        assert_eq!(at(None, None), None);
    }
}
