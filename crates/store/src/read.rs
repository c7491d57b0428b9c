//! Reads the store: runs with their measurements, histograms, the list of runs, a run's missing measurements.

use std::collections::HashSet;

use hdrhistogram::Histogram;
use rusqlite::{OptionalExtension, params};

use super::Store;
use super::refusal::damaged;
use iotrail_base::corruption::Corruption;
use iotrail_base::error::{OrFail, Result};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{CellRecord, RunRecord};
use iotrail_stats::histogram;

/// A run in `list`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RunSummary {
    /// Its number.
    pub run: i64,
    /// `experiment`, or `single` for one measurement of `bench`.
    pub kind: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Its start, UTC: `2026-03-01 12:00:00`.
    pub started: String,
    /// Its start.
    pub started_unix_s: u64,
    /// Its end; null while measurements are missing.
    pub finished_unix_s: Option<u64>,
    /// Number of stored measurements.
    pub done: u64,
    /// Number of measurements that the host can make.
    pub planned: u64,
    /// Hosts that measured; more than one if the run was resumed elsewhere.
    pub hosts: Vec<String>,
    /// Kernels of its measurements.
    pub kernels: Vec<String>,
    /// Corrupt data that ended it early; omitted if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corruption: Option<Corruption>,
}

/// A run that lacks measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Unfinished {
    pub run: i64,
    pub seed: u32,
    pub plan_key: String,
    /// Kernels on which its measurements were made so far.
    pub kernels: Vec<String>,
}

/// The order in which to read a run's measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By cell, then by repeat.
    Cell,
    /// By start time.
    Start,
}

/// Callback for a measurement, with its cell and repeat.
pub type Take<'a> = dyn FnMut(u32, u32, Measurement) -> Result<()> + 'a;

impl Store {
    /// An experiment's latest run that lacks measurements.
    pub fn last_unfinished(&self, experiment: &str) -> Result<Option<Unfinished>> {
        let sql = "SELECT run, seed, plan_key FROM runs
                   WHERE kind = 'experiment' AND experiment = ?1 AND finished_unix_s IS NULL ORDER BY run DESC LIMIT 1";
        let found = self.db.query_row(sql, [experiment], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).optional();
        let Some((run, seed, plan_key)) = found.map_err(|e| self.fail(e))? else {
            return Ok(None);
        };
        let kernels = self.kernels(run)?;
        Ok(Some(Unfinished { run, seed, plan_key, kernels }))
    }

    /// Pairs of cell and repeat of all stored measurements of a run.
    pub fn done(&self, run: i64) -> Result<HashSet<(u32, u32)>> {
        let mut query =
            self.db.prepare("SELECT cell, repeat FROM measurements WHERE run = ?1").map_err(|e| self.fail(e))?;
        let rows = query.query_map([run], |r| Ok((r.get(0)?, r.get(1)?))).map_err(|e| self.fail(e))?;
        rows.collect::<rusqlite::Result<_>>().map_err(|e| self.fail(e))
    }

    /// The same, in measurement order.
    pub fn order(&self, run: i64) -> Result<Vec<(u32, u32)>> {
        let sql = "SELECT cell, repeat FROM measurements WHERE run = ?1 ORDER BY measurement";
        let mut query = self.db.prepare(sql).map_err(|e| self.fail(e))?;
        let rows = query.query_map([run], |r| Ok((r.get(0)?, r.get(1)?))).map_err(|e| self.fail(e))?;
        rows.collect::<rusqlite::Result<_>>().map_err(|e| self.fail(e))
    }

    /// Number of the run that was started last; `None` if there is none.
    pub fn last(&self) -> Result<Option<i64>> {
        self.db.query_row("SELECT max(run) FROM runs", [], |r| r.get(0)).map_err(|e| self.fail(e))
    }

    /// A run with all its stored data; `None` if it does not exist.
    pub fn load(&self, run: i64) -> Result<Option<RunRecord>> {
        let Some(mut record) = self.outline(run)? else { return Ok(None) };
        for cell in &mut record.cells {
            let all = cell.measurements.open();
            self.each_of(run, cell.cell, &mut |measurement| {
                all.push(measurement);
                Ok(())
            })?;
            all.shrink_to_fit();
        }
        Ok(Some(record))
    }

    /// The same, without measurements.
    pub fn outline(&self, run: i64) -> Result<Option<RunRecord>> {
        let sql = "SELECT record, finished_unix_s FROM runs WHERE run = ?1";
        let row = self.db.query_row(sql, [run], |r| Ok((r.get::<_, String>(0)?, r.get::<_, Option<i64>>(1)?)));
        let Some((text, finished)) = row.optional().map_err(|e| self.fail(e))? else {
            return Ok(None);
        };
        let mut record: RunRecord = self.read_json(&text, run)?;
        record.run = run;
        record.finished_unix_s = finished.map(|s| s as u64);
        record.cells = self.cells(run)?;
        record.corruption = self.corruption(run)?;
        Ok(Some(record))
    }

    fn corruption(&self, run: i64) -> Result<Option<Corruption>> {
        let found = self.db.query_row("SELECT json FROM corruptions WHERE run = ?1", [run], |r| r.get::<_, String>(0));
        let text = found.optional().map_err(|e| self.fail(e))?;
        text.map(|text| self.read_json(&text, run)).transpose()
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
                measurements: Vec::new().into(),
            });
        }
        Ok(cells)
    }

    /// Passes a run's measurements to `take`, one at a time, with cell and repeat. An error of `take` ends the
    /// iteration.
    pub fn each(&self, run: i64, order: Order, take: &mut Take<'_>) -> Result<()> {
        let fail = |e| self.fail(e);
        // Only the numbers are sorted and held in memory.
        let sql = match order {
            Order::Cell => "SELECT measurement FROM measurements WHERE run = ?1 ORDER BY cell, repeat",
            Order::Start => "SELECT measurement FROM measurements WHERE run = ?1 ORDER BY started_unix_s, cell, repeat",
        };
        let mut query = self.db.prepare(sql).map_err(fail)?;
        let numbers = query.query_map([run], |r| r.get::<_, i64>(0)).map_err(fail)?;
        let numbers = numbers.collect::<rusqlite::Result<Vec<_>>>().map_err(fail)?;
        let sql = "SELECT cell, repeat, json FROM measurements WHERE measurement = ?1";
        let mut query = self.db.prepare(sql).map_err(fail)?;
        for number in numbers {
            let one = query.query_row([number], |r| Ok((r.get(0)?, r.get(1)?, r.get::<_, String>(2)?)));
            let (cell, repeat, text) = one.map_err(fail)?;
            take(cell, repeat, self.read_json(&text, run)?)?;
        }
        Ok(())
    }

    /// Passes a cell's measurements to `take`, one at a time, by repeat.
    pub fn each_of(&self, run: i64, cell: u32, take: &mut dyn FnMut(Measurement) -> Result<()>) -> Result<()> {
        let fail = |e| self.fail(e);
        let sql = "SELECT json FROM measurements WHERE run = ?1 AND cell = ?2 ORDER BY repeat";
        let mut query = self.db.prepare_cached(sql).map_err(fail)?;
        let mut rows = query.query(params![run, cell]).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            let text: String = row.get(0).map_err(fail)?;
            take(self.read_json(&text, run)?)?;
        }
        Ok(())
    }

    /// A run's number of measurements, and the hosts that made them.
    pub fn measured_by(&self, run: i64) -> Result<(u64, Vec<String>)> {
        let sql =
            "SELECT hostname, sum(measurements) FROM measured_by WHERE run = ?1 GROUP BY hostname ORDER BY hostname";
        let mut query = self.db.prepare(sql).map_err(|e| self.fail(e))?;
        let rows = query.query_map([run], |r| Ok((r.get(0)?, r.get::<_, i64>(1)?))).map_err(|e| self.fail(e))?;
        let all = rows.collect::<rusqlite::Result<Vec<(String, i64)>>>().map_err(|e| self.fail(e))?;
        Ok((all.iter().map(|(_, n)| *n as u64).sum(), all.into_iter().map(|(host, _)| host).collect()))
    }

    /// A measurement's latencies in nanoseconds; `None` if the measurement does not exist.
    pub fn histogram(&self, run: i64, cell: u32, repeat: u32) -> Result<Option<Histogram<u64>>> {
        let sql = "SELECT latency FROM histograms JOIN measurements USING (measurement)
                   WHERE run = ?1 AND cell = ?2 AND repeat = ?3";
        let mut query = self.db.prepare_cached(sql).map_err(|e| self.fail(e))?;
        let found = query.query_row(params![run, cell, repeat], |r| r.get::<_, Vec<u8>>(0)).optional();
        let Some(bytes) = found.map_err(|e| self.fail(e))? else {
            return Ok(None);
        };
        histogram::from_bytes(&bytes).map(Some).map_err(|e| damaged(&self.path).because(e.to_string()))
    }

    /// All runs, oldest first. Reads neither records nor measurements, so its cost depends only on the number of runs.
    pub fn list(&self) -> Result<Vec<RunSummary>> {
        let fail = |e| self.fail(e);
        let sql =
            "SELECT run, kind, experiment, datetime(started_unix_s, 'unixepoch'), started_unix_s, finished_unix_s,
                     repeats * (SELECT count(*) FROM cells c WHERE c.run = r.run AND c.untestable IS NULL),
                     CASE WHEN finished_unix_s IS NULL OR run IN (SELECT run FROM corruptions) THEN
                       (SELECT count(*) FROM measurements m JOIN cells c USING (run, cell) WHERE m.run = r.run AND c.untestable IS NOT NULL)
                     ELSE 0 END
                   FROM runs r INDEXED BY runs_listed ORDER BY run";
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
                    done: 0,
                    planned: (r.get::<_, i64>(6)? + r.get::<_, i64>(7)?) as u64,
                    hosts: Vec::new(),
                    kernels: Vec::new(),
                    corruption: None,
                })
            })
            .map_err(fail)?;
        let mut list = rows.collect::<rusqlite::Result<Vec<_>>>().map_err(fail)?;
        let sql = "SELECT run, hostname, kernel, measurements FROM measured_by ORDER BY run, first";
        let mut query = self.db.prepare(sql).map_err(fail)?;
        let mut rows = query.query([]).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            let (run, host, kernel, n) =
                (|| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get::<_, i64>(3)?)))().map_err(fail)?;
            // Both lists are sorted by run number.
            let Ok(at) = list.binary_search_by_key(&run, |r: &RunSummary| r.run) else { continue };
            let summary = &mut list[at];
            summary.done += n as u64;
            for (all, one) in [(&mut summary.hosts, host), (&mut summary.kernels, kernel)] {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
        let mut query = self.db.prepare("SELECT run, json FROM corruptions").map_err(fail)?;
        let rows = query.query_map([], |r| Ok((r.get::<_, i64>(0)?, r.get::<_, String>(1)?))).map_err(fail)?;
        for row in rows {
            let (run, text) = row.map_err(fail)?;
            let Ok(at) = list.binary_search_by_key(&run, |r: &RunSummary| r.run) else { continue };
            list[at].corruption = Some(self.read_json(&text, run)?);
        }
        for run in &mut list {
            // A stopping rule may have ended the run before its last block, or blocks were added.
            let is_whole = run.finished_unix_s.is_some() && run.corruption.is_none();
            run.planned = if is_whole { run.done } else { run.planned.max(run.done) };
        }
        Ok(list)
    }

    /// Kernels of a run's measurements, in order of first use.
    fn kernels(&self, run: i64) -> Result<Vec<String>> {
        let sql = "SELECT kernel FROM measured_by WHERE run = ?1 GROUP BY kernel ORDER BY min(first)";
        let mut query = self.db.prepare(sql).map_err(|e| self.fail(e))?;
        let rows = query.query_map([run], |r| r.get(0)).map_err(|e| self.fail(e))?;
        rows.collect::<rusqlite::Result<_>>().map_err(|e| self.fail(e))
    }

    fn read_json<T: serde::de::DeserializeOwned>(&self, text: &str, run: i64) -> Result<T> {
        serde_json::from_str(text).or_input(
            format_args!("run {run} in {} cannot be read", self.path.display()),
            "it was written by another version of iotrail: use that one, or specify another file with --store",
        )
    }
}
