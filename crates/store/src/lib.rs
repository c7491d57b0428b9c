//! One SQLite file: runs, cells, measurements, histograms, losses. A measurement is stored as it ends, in one transaction.
//!
//! The journal is a rollback journal, not a write-ahead log: a store is then one file at all times between two
//! transactions, and can be copied or sent as it is. What a log would buy, readers that never wait and cheaper commits,
//! counts for nothing at one commit a measurement. `synchronous=FULL` makes each commit outlive a kill and a crash.
//!
//! | file | responsible for |
//! |---|---|
//! | `location`, `open` | where the store is; opened, made, taken back |
//! | `schema` | the tables and their versions |
//! | `peek` | a glance at one, for completing a command line |
//! | `write`, `read` | runs and measurements stored; and read back |
//! | `measuring` | one process at a time measures a run |
//! | `refusal` | what SQLite says, in words |
//! | `traces` | traces, stored as they begin and end; the oldest are removed |
//! | `fleets` | which runs of which machines are one |
//! | `salvage` | what can be read of a damaged store, copied |
//! | `take_in` | runs of another store, copied |
//! | `snapshot` | a copy of one that is being written |
//!
//! It uses `iotrail-base`, `iotrail-schema`, `iotrail-stats`.

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
    /// What opening it made: the file, then its folders, innermost first.
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
