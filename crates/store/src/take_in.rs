//! Copies runs from another store into this one, for machines that disappear when their command ends.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::Store;
use super::fleets;
use super::refusal::explain;
use iotrail_base::error::Result;

impl Store {
    /// Copies every run of the store `from` with all its data, in order; returns the runs' numbers in this store. Each
    /// run is copied completely or not at all; runs before one that could not be copied are kept. Fleets are copied
    /// last, once all runs have been.
    ///
    /// Fails if either store is unusable. A missing store has no runs.
    pub fn take_in(&mut self, from: &Path) -> Result<Vec<i64>> {
        // Opening it as a store rolls back an incomplete transaction, and migrates an older version.
        let Some(other) = Store::open(from)? else { return Ok(Vec::new()) };
        let theirs = other.list()?.into_iter().map(|run| run.run).collect::<Vec<_>>();
        drop(other);
        let (runs, copied) = self.beside(from, |db| {
            let mut runs = Vec::with_capacity(theirs.len());
            let copied = theirs.iter().try_for_each(|run| {
                runs.push(copy(db, *run)?);
                Ok(())
            });
            let copied = copied.and_then(|()| {
                let here = |run| theirs.iter().zip(&runs).find(|(there, _)| **there == run).map(|(_, here)| *here);
                copy_fleets(db, here)
            });
            (runs, copied)
        })?;
        copied.map(|()| runs).map_err(|e| explain(&self.path, e))
    }

    /// Calls `work` while the store `from` is attached as database `other`.
    fn beside<T>(&mut self, from: &Path, work: impl FnOnce(&mut Connection) -> T) -> Result<T> {
        let fail = |e| explain(from, e);
        self.db.execute("ATTACH DATABASE ?1 AS other", [from.display().to_string()]).map_err(fail)?;
        let done = work(&mut self.db);
        self.db.execute("DETACH DATABASE other", []).map_err(fail)?;
        Ok(done)
    }

    /// Copies a run of the store `from` with all its data; returns its number in this store. Does not copy a run again
    /// that this store already has (same plan, start second, seed and hosts).
    ///
    /// Fails if a store is unusable. `None` if the run or the store does not exist.
    pub fn take_in_run(&mut self, from: &Path, run: i64) -> Result<Option<i64>> {
        let Some(other) = Store::open(from)? else { return Ok(None) };
        if other.outline(run)?.is_none() {
            return Ok(None);
        }
        drop(other);
        let taken = self.beside(from, |db| match same(db, run)? {
            Some(here) => Ok(here),
            None => copy(db, run),
        })?;
        taken.map(Some).map_err(|e| explain(&self.path, e))
    }
}

/// The run in this store that equals the other store's `run`.
fn same(db: &Connection, run: i64) -> rusqlite::Result<Option<i64>> {
    let measured = |database: &str, run: &str| {
        format!(
            "(SELECT group_concat(hostname || kernel || measurements) FROM {database}.measured_by WHERE run = {run})"
        )
    };
    let sql = format!(
        "SELECT h.run FROM main.runs h JOIN other.runs o ON h.started_unix_s = o.started_unix_s AND h.seed = o.seed
           AND h.experiment = o.experiment AND h.plan_key = o.plan_key AND h.finished_unix_s IS o.finished_unix_s
         WHERE o.run = ?1 AND {} IS {} ORDER BY h.run LIMIT 1",
        measured("main", "h.run"),
        measured("other", "o.run")
    );
    db.query_row(&sql, [run], |r| r.get(0)).optional()
}

fn copy_fleets(db: &mut Connection, here: impl Fn(i64) -> Option<i64>) -> rusqlite::Result<()> {
    let tx = db.transaction()?;
    fleets::copy(&tx, here)?;
    tx.commit()
}

fn copy(db: &mut Connection, run: i64) -> rusqlite::Result<i64> {
    let tx = db.transaction()?;
    tx.execute(
        "INSERT INTO main.runs (kind, experiment, started_unix_s, finished_unix_s, seed, repeats, plan_key, record)
         SELECT kind, experiment, started_unix_s, finished_unix_s, seed, repeats, plan_key, record FROM other.runs WHERE run = ?1",
        [run],
    )?;
    let here = tx.last_insert_rowid();
    tx.execute(
        "INSERT INTO main.cells (run, cell, params, untestable)
         SELECT ?2, cell, params, untestable FROM other.cells WHERE run = ?1",
        [run, here],
    )?;
    tx.execute(
        "INSERT INTO main.corruptions (run, json) SELECT ?2, json FROM other.corruptions WHERE run = ?1",
        [run, here],
    )?;
    let measurements: Vec<i64> = tx
        .prepare("SELECT measurement FROM other.measurements WHERE run = ?1 ORDER BY measurement")?
        .query_map([run], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for there in measurements {
        tx.execute(
            "INSERT INTO main.measurements (run, cell, repeat, started_unix_s, elapsed_ns, ios, iops, latency_mean_ns,
               latency_p99_ns, hostname, kernel, json)
             SELECT ?2, cell, repeat, started_unix_s, elapsed_ns, ios, iops, latency_mean_ns, latency_p99_ns, hostname, kernel, json
             FROM other.measurements WHERE measurement = ?1",
            params![there, here],
        )?;
        let measurement = tx.last_insert_rowid();
        for (table, column) in [("histograms", "latency"), ("losses", "name, count")] {
            tx.execute(
                &format!(
                    "INSERT INTO main.{table} (measurement, {column}) SELECT ?2, {column} FROM other.{table} WHERE measurement = ?1"
                ),
                [there, measurement],
            )?;
        }
    }
    tx.commit()?;
    Ok(here)
}
