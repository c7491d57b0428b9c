//! Opens a store: creates a missing one, recognises other files, migrates old versions, removes an unused one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::Store;
use super::refusal::explain;
use super::schema::{self, FileKind, VERSION};
use iotrail_base::error::{Error, OrFail, Result};

impl Store {
    /// Opens the store; creates the file and its directory if missing.
    pub fn create_or_open(path: &Path) -> Result<Self> {
        let made: Vec<PathBuf> = path.ancestors().take_while(|p| is_missing(p)).map(Path::to_owned).collect();
        if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
            std::fs::create_dir_all(dir).or_machine(
                format_args!("cannot create the store's directory {}", dir.display()),
                "specify another file with --store",
            )?;
        }
        match Self::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE) {
            Ok(store) => Ok(Self { made, ..store }),
            Err(e) => {
                // An earlier attempt left only an empty file, for example on a full disk.
                if path.metadata().is_ok_and(|m| m.len() == 0) || is_missing(path) {
                    take_back(&made);
                }
                Err(e)
            }
        }
    }

    /// Called if the command failed: removes the file and its directories if this process created the store and nothing
    /// is stored in it. Keeps older stores, and stores to which another process has begun to write.
    pub fn abandon(self) {
        if self.made.is_empty() {
            return;
        }
        // While this holds the write lock, no other process stores. A process that waits for the lock finds the file
        // removed, and SQLite rejects it (SQLITE_READONLY_DBMOVED).
        let empty = self.db.execute_batch("BEGIN IMMEDIATE").is_ok()
            && self
                .db
                .query_row("SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM fleets) + (SELECT count(*) FROM traces)", [], |r| {
                    r.get::<_, i64>(0)
                })
                .is_ok_and(|n| n == 0);
        if empty {
            take_back(&self.made);
        }
    }

    /// Opens an existing store; `None` if it does not exist. Usage error: its directory is inaccessible, so that it may exist.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let exists = path.try_exists().or_input(
            format_args!("cannot access store {}", path.display()),
            "check the permissions of its directory, or specify another file with --store",
        )?;
        if !exists {
            return Ok(None);
        }
        // Writable if the file permits it, because an incomplete transaction of a killed run has to be rolled back
        // before reading.
        Self::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map(Some)
    }

    fn open_with(path: &Path, flags: OpenFlags) -> Result<Self> {
        if path.is_dir() {
            return Err(Error::input(
                format!("{} is a directory, not a store", path.display()),
                "specify a file with --store",
            ));
        }
        if path.exists() && !path.is_file() {
            return Err(Error::input(
                format!("{} is not a regular file, so not a store", path.display()),
                "specify a file with --store",
            ));
        }
        let fail = |e| explain(path, e);
        let mut db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(fail)?;
        // Another iotrail process may be storing; its transactions are short.
        db.busy_timeout(Duration::from_secs(10)).map_err(fail)?;
        match schema::look(&db).map_err(fail)? {
            FileKind::Foreign => {
                return Err(Error::input(
                    format!("{} is another program's database, not an iotrail store", path.display()),
                    "specify another file with --store",
                ));
            }
            FileKind::Ours { version } if version > VERSION => {
                return Err(Error::input(
                    format!(
                        "{} was written by a newer iotrail (store version {version}; this one supports up to {VERSION})",
                        path.display()
                    ),
                    "update iotrail, or specify another file with --store",
                ));
            }
            FileKind::Ours { version } if version == VERSION => {}
            found => {
                // Checked again under the write lock, because another process may have migrated it meanwhile.
                let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
                match (found, schema::look(&tx).map_err(fail)?) {
                    (_, FileKind::Ours { version }) if version >= VERSION => {}
                    (FileKind::Empty, _) => schema::migrate(&tx, 0).map_err(fail)?,
                    (FileKind::Ours { version }, _) => schema::migrate(&tx, version).map_err(fail)?,
                    (FileKind::Foreign, _) => {}
                }
                tx.commit().map_err(fail)?;
            }
        }
        db.pragma_update(None, "foreign_keys", true).map_err(fail)?;
        db.pragma_update(None, "synchronous", "FULL").map_err(fail)?;
        Ok(Self { db, path: path.to_owned(), made: Vec::new() })
    }
}

fn is_missing(path: &Path) -> bool {
    !path.as_os_str().is_empty() && path.symlink_metadata().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

/// Removes a file, then its directories if they are empty. A file or directory that cannot be removed is in use or
/// harmless, and the caller already has an error to report.
fn take_back(made: &[PathBuf]) {
    for path in made {
        let removed = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        if removed.is_err_and(|e| e.kind() != std::io::ErrorKind::NotFound) {
            return;
        }
    }
}
