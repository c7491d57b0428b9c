//! Fast read-only access to a store of any version, for command-line completion. Unreadable data counts as missing.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value};

use super::schema::{self, FileKind};

pub struct Peek(Connection);

/// A stored run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub number: i64,
    pub experiment: String,
    pub started_unix_s: u64,
}

/// A stored fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    pub number: i64,
    pub name: String,
    pub machines: usize,
}

impl Peek {
    /// `None` if `path` is not a readable store.
    pub fn open(path: &Path) -> Option<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = path.is_file().then(|| Connection::open_with_flags(path, flags).ok())??;
        matches!(schema::look(&db), Ok(FileKind::Ours { .. })).then_some(Self(db))
    }

    /// At most this many runs, newest first.
    pub fn runs(&self, most: usize) -> Option<Vec<Run>> {
        let mut query =
            self.0.prepare("SELECT run, experiment, started_unix_s FROM runs ORDER BY run DESC LIMIT ?1").ok()?;
        let run = |row: &rusqlite::Row<'_>| {
            Ok(Run {
                number: row.get(0)?,
                experiment: row.get(1)?,
                started_unix_s: row.get::<_, i64>(2)?.max(0) as u64,
            })
        };
        query.query_map([most as i64], run).ok()?.collect::<Result<_, _>>().ok()
    }

    /// At most this many fleets, newest first. Stores of older versions have none.
    pub fn fleets(&self, most: usize) -> Option<Vec<Fleet>> {
        let sql = "SELECT fleet, name, (SELECT count(*) FROM fleet_nodes n WHERE n.fleet = f.fleet)
                   FROM fleets f ORDER BY fleet DESC LIMIT ?1";
        let mut query = self.0.prepare(sql).ok()?;
        let fleet = |row: &rusqlite::Row<'_>| {
            Ok(Fleet { number: row.get(0)?, name: row.get(1)?, machines: row.get::<_, i64>(2)?.max(0) as usize })
        };
        query.query_map([most as i64], fleet).ok()?.collect::<Result<_, _>>().ok()
    }

    /// The parameters of each cell of a run.
    pub fn cells(&self, run: i64) -> Option<Vec<Map<String, Value>>> {
        let mut query = self.0.prepare("SELECT params FROM cells WHERE run = ?1 ORDER BY cell").ok()?;
        let texts = query.query_map([run], |row| row.get::<_, String>(0)).ok()?;
        texts.map(|text| serde_json::from_str(&text.ok()?).ok()).collect()
    }
}
