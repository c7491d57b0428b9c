//! Writes to the store: runs at their start and end, and measurements when they complete.

use hdrhistogram::Histogram;
use rusqlite::{Connection, params};

use super::Store;
use super::refusal::explain;
use iotrail_base::corruption::Corruption;
use iotrail_base::error::Result;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::program_record::TriedArm;
use iotrail_schema::run_record::RunRecord;
use iotrail_stats::histogram;

impl Store {
    /// Stores a run before its first measurement; returns its number. Ignores `record.run`.
    pub fn begin(&mut self, record: &RunRecord, plan_key: &str) -> Result<i64> {
        insert_run(&mut self.db, "experiment", record, plan_key, None).map_err(|e| explain(&self.path, e))
    }

    /// Stores a measurement with its histogram and losses, atomically. `repeat` is 1-based.
    pub fn save(&mut self, run: i64, cell: u32, repeat: u32, m: &Measurement, latency: &Histogram<u64>) -> Result<()> {
        let path = self.path.clone();
        let fail = |e| explain(&path, e);
        let tx = self.db.transaction().map_err(fail)?;
        insert_measurement(&tx, run, cell, repeat, m, latency).map_err(fail)?;
        tx.commit().map_err(fail)
    }

    /// The same, but replaces an existing measurement.
    pub fn replace(
        &mut self,
        run: i64,
        cell: u32,
        repeat: u32,
        m: &Measurement,
        latency: &Histogram<u64>,
    ) -> Result<()> {
        let path = self.path.clone();
        let fail = |e| explain(&path, e);
        let tx = self.db.transaction().map_err(fail)?;
        let sql = "DELETE FROM measurements WHERE run = ?1 AND cell = ?2 AND repeat = ?3";
        tx.execute(sql, params![run, cell, repeat]).map_err(fail)?;
        insert_measurement(&tx, run, cell, repeat, m, latency).map_err(fail)?;
        tx.commit().map_err(fail)
    }

    /// Stores a measurement outside of experiments as a finished run of its own; returns the run's number.
    pub fn save_single(&mut self, m: &Measurement, latency: &Histogram<u64>) -> Result<i64> {
        let record = RunRecord::single(m);
        insert_run(&mut self.db, "single", &record, "", Some((m, latency))).map_err(|e| explain(&self.path, e))
    }

    /// Records why this host cannot test a cell.
    pub fn mark_untestable(&mut self, run: i64, cell: u32, reason: &str) -> Result<()> {
        self.set_untestable(run, cell, Some(reason))
    }

    /// Records that the cell can be tested after all.
    pub fn mark_testable(&mut self, run: i64, cell: u32) -> Result<()> {
        self.set_untestable(run, cell, None)
    }

    fn set_untestable(&mut self, run: i64, cell: u32, reason: Option<&str>) -> Result<()> {
        let sql = "UPDATE cells SET untestable = ?3 WHERE run = ?1 AND cell = ?2";
        self.db.execute(sql, params![run, cell, reason]).map(|_| ()).map_err(|e| self.fail(e))
    }

    /// Records the trial results of a program's arms.
    pub fn set_tried(&mut self, run: i64, tried: &[TriedArm]) -> Result<()> {
        let stored = (|| {
            let sql = "UPDATE runs SET record = json_set(record, '$.tried', json(?2)) WHERE run = ?1";
            self.db.execute(sql, params![run, to_json(&tried)?])
        })();
        stored.map(|_| ()).map_err(|e| self.fail(e))
    }

    /// Records that the run is complete.
    pub fn finish(&mut self, run: i64, finished_unix_s: u64) -> Result<()> {
        let sql = "UPDATE runs SET finished_unix_s = ?2 WHERE run = ?1";
        self.db.execute(sql, params![run, finished_unix_s as i64]).map(|_| ()).map_err(|e| self.fail(e))
    }

    /// Ends a run because corrupt data was read back.
    pub fn end_corrupted(&mut self, run: i64, found: &Corruption, finished_unix_s: u64) -> Result<()> {
        let stored = (|| {
            let tx = self.db.transaction()?;
            tx.execute("INSERT INTO corruptions (run, json) VALUES (?1, ?2)", params![run, to_json(found)?])?;
            tx.execute("UPDATE runs SET finished_unix_s = ?2 WHERE run = ?1", params![run, finished_unix_s as i64])?;
            tx.commit()
        })();
        stored.map_err(|e| self.fail(e))
    }

    /// Removes a run with all its data.
    pub fn forget(&mut self, run: i64) -> Result<()> {
        self.db.execute("DELETE FROM runs WHERE run = ?1", [run]).map(|_| ()).map_err(|e| self.fail(e))
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
    // Cells are stored in rows of their own.
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

pub(super) fn insert_measurement(
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
            m.ios.map(|n| n as i64),
            m.iops,
            m.latency_ns.mean,
            m.latency_ns.p99.map(|n| n as i64),
            m.host.hostname,
            m.host.kernel,
            to_json(m)?
        ],
    )?;
    let id = db.last_insert_rowid();
    let bytes =
        histogram::to_bytes(latency).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.to_string().into()))?;
    db.execute("INSERT INTO histograms (measurement, latency) VALUES (?1, ?2)", params![id, bytes])?;
    for (name, count) in losses(m) {
        db.execute(
            "INSERT INTO losses (measurement, name, count) VALUES (?1, ?2, ?3)",
            params![id, name, count.map(|n| n as i64)],
        )?;
    }
    Ok(())
}

/// A measurement's losses by name; `None` if unknown.
fn losses(m: &Measurement) -> [(&'static str, Option<u64>); 4] {
    let unknown: u64 = m.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::Unknown).map(|v| v.completions).sum();
    [
        ("lost", m.probe.lost),
        ("untracked", m.probe.untracked),
        ("unknown", m.probe.completions_seen.map(|_| unknown)),
        ("errors", m.errors),
    ]
}

fn to_json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}
