//! The store's path if none is specified.

use std::path::{Path, PathBuf};

use iotrail_base::error::{Error, Result};
use iotrail_base::folders::{self, own};

const REMEDY: &str = "specify the store with --store PATH";

/// `$XDG_STATE_HOME/iotrail/iotrail.db`, otherwise `~/.local/state/iotrail/iotrail.db`.
///
/// Fails if neither variable is set, or if another user could place a symlink there.
pub fn default_path() -> Result<PathBuf> {
    let dir = folders::state().ok_or_else(|| Error::input("neither XDG_STATE_HOME nor HOME is set", REMEDY))?;
    let path = dir.join("iotrail.db");
    if !folders::is_of_a_guest(&dir) {
        own::check(&dir, REMEDY)?;
        own::check_file(&path, REMEDY)?;
    }
    Ok(path)
}

/// The `--store` option to append to a suggested command line.
pub fn named(store: Option<&Path>) -> String {
    store.map(|path| format!(" --store {}", path.display())).unwrap_or_default()
}
