//! Who measures a run, for as long as it does: one process at a time.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::Store;
use iotrail_base::error::{Error, Result};

/// A run that this process measures. The file beside the store that says so is locked, and gone with this.
#[derive(Debug)]
pub struct Measuring {
    file: PathBuf,
    _locked: File,
}

impl Store {
    /// Refuses where another process measures it. One that was killed does not.
    pub fn measuring(&self, run: i64) -> Result<Measuring> {
        let mut name = OsString::from(&self.path);
        name.push(format!(".run-{run}"));
        let file = PathBuf::from(name);
        let fail = |e: std::io::Error| {
            Error::machine(format!("cannot write {}", file.display()), "check the permissions of the store's folder")
                .because(e)
        };
        loop {
            let mut locked = open(&file).map_err(fail)?;
            match locked.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(busy(run, &mut locked)),
                Err(TryLockError::Error(e)) => return Err(fail(e)),
            }
            // Who had it may have removed it in between.
            if locked.metadata().map_err(fail)?.nlink() == 0 {
                continue;
            }
            let said = locked.set_len(0).and_then(|()| locked.seek(SeekFrom::Start(0)));
            said.and_then(|_| write!(locked, "{}", std::process::id())).map_err(fail)?;
            return Ok(Measuring { file, _locked: locked });
        }
    }
}

/// No link is followed: what is written would be in another file.
fn open(file: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
    options.open(file)
}

fn busy(run: i64, locked: &mut File) -> Error {
    let mut process = String::new();
    let known = locked.read_to_string(&mut process).is_ok() && !process.is_empty();
    let by = if known { format!("process {process}") } else { "another process".into() };
    Error::input(format!("run {run} is being measured by {by}"), "wait until that has ended, or interrupt it")
}

impl Drop for Measuring {
    fn drop(&mut self) {
        // While it is locked: whoever opened it meanwhile finds it removed, and makes a new one. One that stays is nobody's.
        std::fs::remove_file(&self.file).unwrap_or(());
    }
}
