//! A private directory for one run. It is removed at the end of the run, or by the next run if this one is killed.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// A directory that is locked while in use, and removed on drop.
#[derive(Debug)]
pub struct Folder {
    // Dropped before the lock is released.
    folder: TempDir,
    _lock: File,
}

impl Folder {
    /// Creates a directory in `place` whose name begins with `prefix`, after removing those left by this user's killed
    /// runs.
    pub fn make(place: &Path, prefix: &str) -> io::Result<Self> {
        clear(place, prefix);
        loop {
            let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(place)?;
            let lock = File::open(folder.path())?;
            // Another run may have removed it before it was locked, because it looked abandoned.
            if try_lock(&lock) && lock.metadata()?.nlink() > 0 {
                return Ok(Folder { folder, _lock: lock });
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes abandoned directories. Failures to do so do not prevent the run.
fn clear(place: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    let us = rustix::process::geteuid().as_raw();
    for entry in entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(prefix)) {
        let ours = entry.metadata().is_ok_and(|m| m.is_dir() && m.uid() == us);
        if ours && File::open(entry.path()).is_ok_and(|folder| try_lock(&folder)) {
            std::fs::remove_dir_all(entry.path()).unwrap_or(());
        }
    }
}

fn try_lock(folder: &File) -> bool {
    flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_directories_of_a_killed_run_are_removed_by_the_next_run() {
        let place = tempfile::tempdir().unwrap();
        let left = place.path().join("iotrail-lab-killed");
        std::fs::create_dir_all(left.join("shared")).unwrap();
        let other = place.path().join("iotrail-other");
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, place.path().join("iotrail-lab-link")).unwrap();
        let first = Folder::make(place.path(), "iotrail-lab-").unwrap();
        assert!(!left.exists() && other.exists(), "no link is followed");
        let second = Folder::make(place.path(), "iotrail-lab-").unwrap();
        assert!(first.path().exists() && second.path().exists(), "one that is used stays");
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }
}
