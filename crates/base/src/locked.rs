//! A lock file for one process at a time, which contains the process ID.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Result of locking.
#[derive(Debug)]
pub enum Locked {
    /// Locked by this process for as long as the file is open.
    Ours(File),
    /// Locked by another process, with its PID if the file contains one.
    Others(Option<String>),
}

/// Locks the file, and creates it if missing. Does not follow symlinks, so that no other file is overwritten.
pub fn lock(path: &Path) -> io::Result<Locked> {
    loop {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                let known = file.read_to_string(&mut process).is_ok() && !process.is_empty();
                return Ok(Locked::Others(known.then_some(process)));
            }
            Err(TryLockError::Error(e)) => return Err(e),
        }
        // The previous owner may have removed the file in the meantime.
        if file.metadata()?.nlink() > 0 {
            return Ok(Locked::Ours(file));
        }
    }
}

/// Writes this process's ID to the file.
pub fn sign(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    write!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_processes_read_the_lock_holders_process_id() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let Locked::Ours(held) = lock(&path).unwrap() else { panic!("nobody has it") };
        assert!(matches!(lock(&path).unwrap(), Locked::Others(None)));
        sign(&held).unwrap();
        let own = std::process::id().to_string();
        assert!(matches!(lock(&path).unwrap(), Locked::Others(Some(process)) if process == own));
        drop(held);
        assert!(matches!(lock(&path).unwrap(), Locked::Ours(_)));
        std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
        assert!(lock(&dir.path().join("link")).is_err());
    }
}
