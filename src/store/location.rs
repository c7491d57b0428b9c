//! Where the store is when none is named.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::folders;

/// `$XDG_STATE_HOME/iotrail/iotrail.db`, else `~/.local/state/iotrail/iotrail.db`.
pub fn default_path() -> Result<PathBuf> {
    folders::state()
        .map(|dir| dir.join("iotrail.db"))
        .ok_or_else(|| Error::input("neither XDG_STATE_HOME nor HOME is set", "name the store with --store PATH"))
}
