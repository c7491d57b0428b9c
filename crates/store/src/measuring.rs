//! Marks a run as being measured, by one process at a time.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

use super::Store;
use iotrail_base::error::{Error, Result};
use iotrail_base::locked::{Locked, lock, sign};

/// A run that this process is measuring. A file next to the store stays locked while this value exists.
#[derive(Debug)]
pub struct Measuring {
    file: PathBuf,
    _locked: File,
}

impl Store {
    /// Fails if another process is measuring the run. A killed process no longer counts.
    pub fn measuring(&self, run: i64) -> Result<Measuring> {
        let mut name = OsString::from(&self.path);
        name.push(format!(".run-{run}"));
        let file = PathBuf::from(name);
        let fail = |e: std::io::Error| {
            Error::machine(format!("cannot write {}", file.display()), "check the permissions of the store's directory")
                .because(e)
        };
        match lock(&file).map_err(fail)? {
            Locked::Ours(locked) => {
                sign(&locked).map_err(fail)?;
                Ok(Measuring { file, _locked: locked })
            }
            Locked::Others(process) => Err(busy(run, process)),
        }
    }
}

fn busy(run: i64, process: Option<String>) -> Error {
    let by = process.map_or_else(|| "another process".into(), |process| format!("process {process}"));
    Error::input(format!("run {run} is being measured by {by}"), "wait until it exits, or interrupt it")
}

impl Drop for Measuring {
    fn drop(&mut self) {
        // Removed while locked: a process that opened it meanwhile finds it removed and creates a new one. A leftover
        // file is not locked.
        std::fs::remove_file(&self.file).unwrap_or(());
    }
}
