//! The directory of downloads and generated files (kernels, tools, package lists), all of which can be recreated.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::folders::{self, own};

/// Entries are complete or missing: each is created under another name and renamed.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `named`, or `$XDG_CACHE_HOME/iotrail/lab`, or `~/.cache/iotrail/lab`. Creates nothing yet.
    pub fn at(named: Option<&Path>) -> Result<Self> {
        let root = match named {
            Some(path) => std::path::absolute(path)
                .or_input("cannot determine the cache directory", "specify it with --cache DIR")?,
            None => {
                const REMEDY: &str = "specify the lab's cache with --cache DIR";
                let dir = folders::cache();
                let dir =
                    dir.ok_or_else(|| Error::input("neither XDG_CACHE_HOME nor HOME is set", REMEDY))?.join("lab");
                // Files to boot must not belong to another user.
                own::check(&dir, REMEDY)?;
                dir
            }
        };
        Ok(Cache { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Path of the entry, if it exists.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        let path = self.root.join(name);
        path.exists().then_some(path)
    }

    /// Path of an entry. If missing, `make` creates it in an empty directory, while concurrent processes wait for it.
    pub fn entry(&self, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        if let Some(path) = self.find(name) {
            return Ok(path);
        }
        let _lock = self.lock(name)?;
        let path = self.root.join(name);
        if path.exists() {
            return Ok(path);
        }
        let folder = path.parent().unwrap_or(&self.root);
        std::fs::create_dir_all(folder).map_err(|e| cannot_write(folder, e))?;
        // Removed if `make` fails.
        let unfinished =
            tempfile::Builder::new().prefix(".unfinished-").tempdir_in(folder).map_err(|e| cannot_write(folder, e))?;
        make(unfinished.path())?;
        std::fs::rename(unfinished.path(), &path).map_err(|e| cannot_write(&path, e))?;
        // Renamed, so nothing is left under the temporary name.
        drop(unfinished.keep());
        Ok(path)
    }

    /// Locks a name against other processes until dropped.
    pub fn lock(&self, name: &str) -> Result<File> {
        let folder = self.root.join("locks");
        std::fs::create_dir_all(&folder).map_err(|e| cannot_write(&folder, e))?;
        let path = folder.join(name.replace('/', "-"));
        // Does not truncate an existing file or follow symlinks.
        let mut options = File::options();
        options.write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(&path).map_err(|e| cannot_write(&path, e))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| cannot_write(&path, e.into()))?;
        Ok(file)
    }
}

pub(super) fn cannot_write(path: &Path, cause: std::io::Error) -> Error {
    Error::machine(
        format!("cannot write {}", path.display()),
        "check its permissions and free space, or specify another directory with --cache DIR",
    )
    .because(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_entry_is_created_atomically_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(Some(folder.path())).unwrap();
        let failed = cache.entry("kernels/x", |dir| {
            std::fs::write(dir.join("half"), "").unwrap();
            Err(Error::machine("no", ""))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_dir(folder.path().join("kernels")).unwrap().count(), 0, "nothing of it stays");
        let make = |text: &'static str| {
            move |dir: &Path| std::fs::write(dir.join("f"), text).map_err(|e| cannot_write(dir, e))
        };
        cache.entry("kernels/x", make("first")).unwrap();
        let path = cache.entry("kernels/x", make("second")).unwrap();
        assert_eq!(std::fs::read_to_string(path.join("f")).unwrap(), "first");
        assert_eq!(std::fs::read_dir(folder.path().join("kernels")).unwrap().count(), 1);
    }
}
