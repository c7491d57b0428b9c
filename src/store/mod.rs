//! One SQLite file: runs, cells, measurements, histograms, losses. A measurement is stored as it ends, in one transaction.
//!
//! The journal is a rollback journal, not a write-ahead log: a store is then one file at all times between two
//! transactions, and can be copied or sent as it is. What a log would buy, readers that never wait and cheaper commits,
//! counts for nothing at one commit a measurement. `synchronous=FULL` makes each commit outlive a kill and a crash.

mod location;
#[cfg(test)]
pub(crate) mod sample;
mod schema;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};

pub use self::location::default_path;
use self::schema::{Found, VERSION};
use crate::error::{Error, Result};
use crate::measurement::Measurement;
use crate::path::vehicle::Vehicle;
use crate::run_record::{CellRecord, RunRecord, SCHEMA, Table};

/// An open store.
pub struct Store {
    db: Connection,
    path: PathBuf,
    /// What opening it made: the file, then its folders, innermost first.
    made: Vec<PathBuf>,
}

/// A line of `list`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RunSummary {
    pub run: i64,
    /// `experiment`, or `single` for one measurement of `bench`.
    pub kind: String,
    pub experiment: String,
    /// UTC, `2026-03-01 12:00:00`.
    pub started: String,
    pub started_unix_s: u64,
    pub finished_unix_s: Option<u64>,
    pub done: u64,
    /// Measurements that the host could make, all in all.
    pub planned: u64,
    /// Hosts and kernels that measured; more than one if the run was resumed elsewhere. Empty while nothing is measured.
    pub hosts: Vec<String>,
    pub kernels: Vec<String>,
}

/// A run that has measurements to come.
#[derive(Debug, Clone, PartialEq)]
pub struct Unfinished {
    pub run: i64,
    pub seed: u32,
    pub plan_key: String,
    /// Kernels that measured so far.
    pub kernels: Vec<String>,
}

impl Store {
    /// Opens the store, making it and its folder where there is none.
    pub fn create_or_open(path: &Path) -> Result<Self> {
        let made: Vec<PathBuf> = path.ancestors().take_while(|p| is_missing(p)).map(Path::to_owned).collect();
        if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
            std::fs::create_dir_all(dir).map_err(|e| {
                Error::machine(
                    format!("cannot make the store's folder {}", dir.display()),
                    "name another file with --store",
                )
                .because(e)
            })?;
        }
        match Self::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE) {
            Ok(store) => Ok(Self { made, ..store }),
            Err(e) => {
                // It got no further than an empty file (a disk without room, say).
                if path.metadata().is_ok_and(|m| m.len() == 0) || is_missing(path) {
                    take_back(&made);
                }
                Err(e)
            }
        }
    }

    /// For a command that failed: if this opening made the store and nothing is stored in it, the file and its folders are
    /// removed again. A store that was there before, or that another process has begun to fill, stays.
    pub fn abandon(self) {
        if self.made.is_empty() {
            return;
        }
        // Under the write lock nobody else stores; whoever waits for it finds the file gone and is refused by SQLite
        // (SQLITE_READONLY_DBMOVED).
        let empty = self.db.execute_batch("BEGIN IMMEDIATE").is_ok()
            && self.db.query_row("SELECT count(*) FROM runs", [], |r| r.get::<_, i64>(0)).is_ok_and(|n| n == 0);
        if empty {
            take_back(&self.made);
        }
    }

    /// Opens a store that is there; `None` if it isn't.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        // Writable where the file allows it: what a killed run left half-written has to be rolled back to be read.
        Self::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map(Some)
    }

    fn open_with(path: &Path, flags: OpenFlags) -> Result<Self> {
        if path.is_dir() {
            return Err(Error::input(
                format!("{} is a folder, not a store", path.display()),
                "name a file with --store",
            ));
        }
        if path.exists() && !path.is_file() {
            return Err(Error::input(
                format!("{} is no file, so no store", path.display()),
                "name a file with --store",
            ));
        }
        let fail = |e| explain(path, e);
        let mut db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(fail)?;
        // Another iotrail may be storing; its transactions are short.
        db.busy_timeout(Duration::from_secs(10)).map_err(fail)?;
        match schema::look(&db).map_err(fail)? {
            Found::Foreign => {
                return Err(Error::input(
                    format!("{} is a database of another program, not a store of iotrail", path.display()),
                    "name another file with --store",
                ));
            }
            Found::Ours { version } if version > VERSION => {
                return Err(Error::input(
                    format!(
                        "{} was written by a newer iotrail (store version {version}; this one knows {VERSION})",
                        path.display()
                    ),
                    "update iotrail, or name another file with --store",
                ));
            }
            Found::Ours { version } if version == VERSION => {}
            found => {
                // Looked at again under the write lock: another process may have done it in the meantime.
                let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
                match (found, schema::look(&tx).map_err(fail)?) {
                    (_, Found::Ours { version }) if version >= VERSION => {}
                    (Found::Empty, _) => schema::migrate(&tx, 0).map_err(fail)?,
                    (Found::Ours { version }, _) => schema::migrate(&tx, version).map_err(fail)?,
                    (Found::Foreign, _) => {}
                }
                tx.commit().map_err(fail)?;
            }
        }
        db.pragma_update(None, "foreign_keys", true).map_err(fail)?;
        db.pragma_update(None, "synchronous", "FULL").map_err(fail)?;
        Ok(Self { db, path: path.to_owned(), made: Vec::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn fail(&self, e: rusqlite::Error) -> Error {
        explain(&self.path, e)
    }

    /// Stores a run before its first measurement; returns its number. `record.run` is not looked at.
    pub fn begin(&mut self, record: &RunRecord, plan_key: &str) -> Result<i64> {
        insert_run(&mut self.db, "experiment", record, plan_key, None).map_err(|e| explain(&self.path, e))
    }

    /// Stores one measurement with its histogram and its losses, all or nothing. `repeat` counts from 1.
    pub fn save(&mut self, run: i64, cell: u32, repeat: u32, m: &Measurement, latency: &Histogram<u64>) -> Result<()> {
        let path = self.path.clone();
        let fail = |e| explain(&path, e);
        let tx = self.db.transaction().map_err(fail)?;
        insert_measurement(&tx, run, cell, repeat, m, latency).map_err(fail)?;
        tx.commit().map_err(fail)
    }

    /// Stores one measurement that belongs to no experiment, as a finished run of its own; returns the run's number.
    pub fn save_single(&mut self, m: &Measurement, latency: &Histogram<u64>) -> Result<i64> {
        let record = RunRecord {
            schema: SCHEMA.into(),
            run: 0,
            experiment: "bench".into(),
            title: "a single measurement".into(),
            question: String::new(),
            expect: String::new(),
            table: Table::Delivery,
            quick: false,
            seed: 0,
            repeats: 1,
            axes: Vec::new(),
            arms: Vec::new(),
            started_unix_s: m.started_unix_s,
            finished_unix_s: Some(m.started_unix_s + m.elapsed_ns / 1_000_000_000),
            cells: vec![CellRecord {
                cell: 1,
                params: serde_json::Map::new(),
                untestable: None,
                measurements: Vec::new(),
            }],
            comparisons: Vec::new(),
        };
        insert_run(&mut self.db, "single", &record, "", Some((m, latency))).map_err(|e| explain(&self.path, e))
    }

    /// Notes what a cell turned out not to be able to do on this host.
    pub fn mark_untestable(&mut self, run: i64, cell: u32, reason: &str) -> Result<()> {
        let sql = "UPDATE cells SET untestable = ?3 WHERE run = ?1 AND cell = ?2";
        self.db.execute(sql, params![run, cell, reason]).map(|_| ()).map_err(|e| self.fail(e))
    }

    /// Notes that nothing is missing any more.
    pub fn finish(&mut self, run: i64, finished_unix_s: u64) -> Result<()> {
        let sql = "UPDATE runs SET finished_unix_s = ?2 WHERE run = ?1";
        self.db.execute(sql, params![run, finished_unix_s as i64]).map(|_| ()).map_err(|e| self.fail(e))
    }

    /// Removes a run and all that is stored of it.
    pub fn forget(&mut self, run: i64) -> Result<()> {
        self.db.execute("DELETE FROM runs WHERE run = ?1", [run]).map(|_| ()).map_err(|e| self.fail(e))
    }

    /// The latest run of an experiment that has measurements to come.
    pub fn last_unfinished(&self, experiment: &str) -> Result<Option<Unfinished>> {
        let sql = "SELECT run, seed, plan_key FROM runs
                   WHERE kind = 'experiment' AND experiment = ?1 AND finished_unix_s IS NULL ORDER BY run DESC LIMIT 1";
        let found = self.db.query_row(sql, [experiment], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).optional();
        let Some((run, seed, plan_key)) = found.map_err(|e| self.fail(e))? else {
            return Ok(None);
        };
        let kernels = self.distinct("kernel", run)?;
        Ok(Some(Unfinished { run, seed, plan_key, kernels }))
    }

    /// (cell, repeat) of everything that a run has stored.
    pub fn done(&self, run: i64) -> Result<HashSet<(u32, u32)>> {
        let mut query =
            self.db.prepare("SELECT cell, repeat FROM measurements WHERE run = ?1").map_err(|e| self.fail(e))?;
        let rows = query.query_map([run], |r| Ok((r.get(0)?, r.get(1)?))).map_err(|e| self.fail(e))?;
        rows.collect::<rusqlite::Result<_>>().map_err(|e| self.fail(e))
    }

    /// A run with all that is stored of it; `None` if there is no such run.
    pub fn load(&self, run: i64) -> Result<Option<RunRecord>> {
        let sql = "SELECT record, finished_unix_s FROM runs WHERE run = ?1";
        let row = self.db.query_row(sql, [run], |r| Ok((r.get::<_, String>(0)?, r.get::<_, Option<i64>>(1)?)));
        let Some((text, finished)) = row.optional().map_err(|e| self.fail(e))? else {
            return Ok(None);
        };
        let mut record: RunRecord = self.read_json(&text, run)?;
        record.run = run;
        record.finished_unix_s = finished.map(|s| s as u64);
        record.cells = self.cells(run)?;
        Ok(Some(record))
    }

    fn cells(&self, run: i64) -> Result<Vec<CellRecord>> {
        let fail = |e| self.fail(e);
        let mut cells = Vec::new();
        let mut query =
            self.db.prepare("SELECT cell, params, untestable FROM cells WHERE run = ?1 ORDER BY cell").map_err(fail)?;
        let rows = query.query_map([run], |r| Ok((r.get(0)?, r.get::<_, String>(1)?, r.get(2)?))).map_err(fail)?;
        for row in rows {
            let (cell, params, untestable) = row.map_err(fail)?;
            cells.push(CellRecord {
                cell,
                params: self.read_json(&params, run)?,
                untestable,
                measurements: Vec::new(),
            });
        }
        let sql = "SELECT cell, json FROM measurements WHERE run = ?1 ORDER BY cell, repeat";
        let mut query = self.db.prepare(sql).map_err(fail)?;
        let rows = query.query_map([run], |r| Ok((r.get::<_, u32>(0)?, r.get::<_, String>(1)?))).map_err(fail)?;
        for row in rows {
            let (number, text) = row.map_err(fail)?;
            let measurement = self.read_json(&text, run)?;
            if let Some(cell) = cells.iter_mut().find(|c: &&mut CellRecord| c.cell == number) {
                cell.measurements.push(measurement);
            }
        }
        Ok(cells)
    }

    /// The latencies of one measurement, in nanoseconds; `None` if there is no such measurement.
    pub fn histogram(&self, run: i64, cell: u32, repeat: u32) -> Result<Option<Histogram<u64>>> {
        let sql = "SELECT latency FROM histograms JOIN measurements USING (measurement)
                   WHERE run = ?1 AND cell = ?2 AND repeat = ?3";
        let found = self.db.query_row(sql, params![run, cell, repeat], |r| r.get::<_, Vec<u8>>(0)).optional();
        let Some(bytes) = found.map_err(|e| self.fail(e))? else {
            return Ok(None);
        };
        let read = Deserializer::new().deserialize(&mut bytes.as_slice());
        read.map(Some).map_err(|e| damaged(&self.path).because(e.to_string()))
    }

    /// Every run, the latest last.
    pub fn list(&self) -> Result<Vec<RunSummary>> {
        let fail = |e| self.fail(e);
        let sql =
            "SELECT run, kind, experiment, datetime(started_unix_s, 'unixepoch'), started_unix_s, finished_unix_s,
                     (SELECT count(*) FROM measurements m WHERE m.run = r.run),
                     repeats * (SELECT count(*) FROM cells c WHERE c.run = r.run AND c.untestable IS NULL)
                   FROM runs r ORDER BY run";
        let mut query = self.db.prepare(sql).map_err(fail)?;
        let rows = query
            .query_map([], |r| {
                Ok(RunSummary {
                    run: r.get(0)?,
                    kind: r.get(1)?,
                    experiment: r.get(2)?,
                    started: r.get(3)?,
                    started_unix_s: r.get::<_, i64>(4)? as u64,
                    finished_unix_s: r.get::<_, Option<i64>>(5)?.map(|s| s as u64),
                    done: r.get::<_, i64>(6)? as u64,
                    planned: r.get::<_, i64>(7)? as u64,
                    hosts: Vec::new(),
                    kernels: Vec::new(),
                })
            })
            .map_err(fail)?;
        let mut list = rows.collect::<rusqlite::Result<Vec<_>>>().map_err(fail)?;
        for run in &mut list {
            run.hosts = self.distinct("hostname", run.run)?;
            run.kernels = self.distinct("kernel", run.run)?;
        }
        Ok(list)
    }

    /// Different values of a column of a run's measurements. `column` is never text from outside.
    fn distinct(&self, column: &'static str, run: i64) -> Result<Vec<String>> {
        let sql = format!("SELECT DISTINCT {column} FROM measurements WHERE run = ?1 ORDER BY measurement");
        let mut query = self.db.prepare(&sql).map_err(|e| self.fail(e))?;
        let rows = query.query_map([run], |r| r.get(0)).map_err(|e| self.fail(e))?;
        rows.collect::<rusqlite::Result<_>>().map_err(|e| self.fail(e))
    }

    fn read_json<T: serde::de::DeserializeOwned>(&self, text: &str, run: i64) -> Result<T> {
        serde_json::from_str(text).map_err(|e| {
            Error::input(
                format!("run {run} in {} cannot be read", self.path.display()),
                "it was written by another version of iotrail: use that one, or name another file with --store",
            )
            .because(e)
        })
    }
}

fn is_missing(path: &Path) -> bool {
    !path.as_os_str().is_empty() && path.symlink_metadata().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

/// Removes a file, then its folders as far as they are empty. What cannot be removed is in use by somebody else or harmless,
/// and the caller already has an error to tell.
fn take_back(made: &[PathBuf]) {
    for path in made {
        let removed = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        if removed.is_err_and(|e| e.kind() != std::io::ErrorKind::NotFound) {
            return;
        }
    }
}

fn insert_run(
    db: &mut Connection,
    kind: &str,
    record: &RunRecord,
    plan_key: &str,
    single: Option<(&Measurement, &Histogram<u64>)>,
) -> rusqlite::Result<i64> {
    let tx = db.transaction()?;
    // The cells have rows of their own.
    let head = RunRecord { cells: Vec::new(), ..record.clone() };
    tx.execute(
        "INSERT INTO runs (kind, experiment, started_unix_s, finished_unix_s, seed, repeats, plan_key, record)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            kind,
            record.experiment,
            record.started_unix_s as i64,
            record.finished_unix_s.map(|s| s as i64),
            record.seed,
            record.repeats,
            plan_key,
            to_json(&head)?
        ],
    )?;
    let run = tx.last_insert_rowid();
    for cell in &record.cells {
        tx.execute(
            "INSERT INTO cells (run, cell, params, untestable) VALUES (?1, ?2, ?3, ?4)",
            params![run, cell.cell, to_json(&cell.params)?, cell.untestable],
        )?;
    }
    if let Some((m, latency)) = single {
        insert_measurement(&tx, run, 1, 1, m, latency)?;
    }
    tx.commit()?;
    Ok(run)
}

fn insert_measurement(
    db: &Connection,
    run: i64,
    cell: u32,
    repeat: u32,
    m: &Measurement,
    latency: &Histogram<u64>,
) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO measurements (run, cell, repeat, started_unix_s, elapsed_ns, ios, iops, latency_mean_ns,
           latency_p99_ns, hostname, kernel, json) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            run,
            cell,
            repeat,
            m.started_unix_s as i64,
            m.elapsed_ns as i64,
            m.ios as i64,
            m.iops,
            m.latency_ns.mean,
            m.latency_ns.p99.map(|n| n as i64),
            m.host.hostname,
            m.host.kernel,
            to_json(m)?
        ],
    )?;
    let id = db.last_insert_rowid();
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(latency, &mut bytes)
        .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.to_string().into()))?;
    db.execute("INSERT INTO histograms (measurement, latency) VALUES (?1, ?2)", params![id, bytes])?;
    for (name, count) in losses(m) {
        db.execute(
            "INSERT INTO losses (measurement, name, count) VALUES (?1, ?2, ?3)",
            params![id, name, count.map(|n| n as i64)],
        )?;
    }
    Ok(())
}

/// What a measurement has not seen, by name. `None`: not even that is known.
fn losses(m: &Measurement) -> [(&'static str, Option<u64>); 4] {
    let unknown: u64 = m.vehicles.iter().filter(|v| v.vehicle == Vehicle::Unknown).map(|v| v.completions).sum();
    [
        ("lost", m.probe.lost),
        ("untracked", m.probe.untracked),
        ("unknown", m.probe.completions_seen.map(|_| unknown)),
        ("errors", Some(m.errors)),
    ]
}

fn to_json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

fn damaged(path: &Path) -> Error {
    Error::input(
        format!("the store {} is damaged or cut short", path.display()),
        "put back a copy, or move it away and start a new one; it was left as it is",
    )
}

/// What SQLite says, as people need it.
fn explain(path: &Path, e: rusqlite::Error) -> Error {
    let shown = path.display();
    match e.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Error::input(
            format!("{shown} is no store of iotrail"),
            "name another file with --store; it was left as it is",
        ),
        Some(ErrorCode::DatabaseCorrupt) => damaged(path),
        Some(ErrorCode::DiskFull) => Error::machine(
            format!("no room to store in {shown}"),
            "free space there, or name another file with --store",
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Error::machine(
            format!("cannot write the store {shown}"),
            "check the permissions of the file and of its folder, or name another file with --store",
        )
        .because(e),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::machine(
            format!("the store {shown} is in use by another program"),
            "try again when it has ended, or name another file with --store",
        ),
        _ => Error::machine(format!("cannot use the store {shown}"), "name another file with --store").because(e),
    }
}

#[cfg(test)]
mod tests;
