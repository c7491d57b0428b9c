//! One SQLite file: runs, cells, measurements, histograms, losses. A measurement is stored when it ends, in one transaction.
//!
//! The store uses a rollback journal instead of a write-ahead log, so between transactions it is always a single file
//! that can be copied or sent as-is. A write-ahead log's benefits (readers never wait, commits are cheaper) do not
//! matter with one commit per measurement. With `synchronous=FULL`, each commit survives a kill and a crash.
//!
//! | file | responsible for |
//! |---|---|
//! | `location`, `open` | path of the store; open, create, remove again |
//! | `schema` | the tables and their versions |
//! | `peek` | fast reads for completing a command line |
//! | `write`, `read` | runs and measurements: write and read |
//! | `measuring` | one process at a time measures a run |
//! | `refusal` | SQLite's errors as text |
//! | `traces` | traces, stored at their start and end; the oldest are removed |
//! | `fleets` | runs of several machines that belong together |
//! | `salvage` | copies the readable part of a damaged store |
//! | `take_in` | copies runs of another store |
//! | `snapshot` | copies a store that is being written |
//!
//! Depends on `iotrail-base`, `iotrail-schema`, `iotrail-stats`.

mod fleets;
mod location;
mod measuring;
mod open;
pub mod peek;
mod read;
mod refusal;
pub mod salvage;
mod schema;
mod snapshot;
mod take_in;
#[cfg(test)]
mod tests;
pub mod traces;
mod write;

use std::path::{Path, PathBuf};

use rusqlite::Connection;

pub use self::location::{default_path, named};
pub use self::measuring::Measuring;
pub use self::read::{Order, RunSummary, Take, Unfinished};
use iotrail_base::error::Error;

/// An open store.
pub struct Store {
    db: Connection,
    path: PathBuf,
    /// Files and directories created when the store was opened: the file first, then its directories, innermost first.
    made: Vec<PathBuf>,
}

impl Store {
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn fail(&self, e: rusqlite::Error) -> Error {
        refusal::explain(&self.path, e)
    }
}
