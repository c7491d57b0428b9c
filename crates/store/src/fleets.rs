//! Fleets: runs of several machines that form one run of an experiment.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Store;
use super::refusal::explain;
use iotrail_base::error::Result;
use iotrail_schema::fleet_record::{FleetNode, FleetRecord, SCHEMA};

const FLEETS: &str = "SELECT fleet, name, experiment, started_unix_s, finished_unix_s, command, plan FROM fleets";

impl Store {
    /// Stores a fleet with its current machines; returns its number. Ignores `record.fleet`.
    pub fn begin_fleet(&mut self, record: &FleetRecord) -> Result<i64> {
        let stored = (|| {
            let tx = self.db.transaction()?;
            let fleet = insert(&tx, record)?;
            tx.commit()?;
            Ok(fleet)
        })();
        stored.map_err(|e| explain(&self.path, e))
    }

    /// Replaces a machine's stored state; appends a machine that is not yet in the fleet.
    pub fn set_node(&mut self, fleet: i64, node: &FleetNode) -> Result<()> {
        insert_node(&self.db, fleet, node).map_err(|e| self.fail(e))
    }

    /// Records that no further machine is expected.
    pub fn finish_fleet(&mut self, fleet: i64, finished_unix_s: u64) -> Result<()> {
        let sql = "UPDATE fleets SET finished_unix_s = ?2 WHERE fleet = ?1";
        self.db.execute(sql, params![fleet, finished_unix_s as i64]).map(drop).map_err(|e| self.fail(e))
    }

    /// Removes a fleet, but keeps its machines' runs.
    pub fn forget_fleet(&mut self, fleet: i64) -> Result<()> {
        self.db.execute("DELETE FROM fleets WHERE fleet = ?1", [fleet]).map(drop).map_err(|e| self.fail(e))
    }

    /// A fleet with its machines; `None` if there is no such fleet.
    pub fn fleet(&self, fleet: i64) -> Result<Option<FleetRecord>> {
        let found = self.db.query_row(&format!("{FLEETS} WHERE fleet = ?1"), [fleet], head).optional();
        found.map_err(|e| self.fail(e))?.map(|record| self.with_nodes(record)).transpose()
    }

    /// All fleets with their machines, oldest first.
    pub fn fleets(&self) -> Result<Vec<FleetRecord>> {
        let mut query = self.db.prepare(&format!("{FLEETS} ORDER BY fleet")).map_err(|e| self.fail(e))?;
        let rows = query.query_map([], head).map_err(|e| self.fail(e))?;
        rows.map(|record| self.with_nodes(record.map_err(|e| self.fail(e))?)).collect()
    }

    fn with_nodes(&self, mut record: FleetRecord) -> Result<FleetRecord> {
        record.nodes = nodes(&self.db, "main", record.fleet).map_err(|e| self.fail(e))?;
        Ok(record)
    }
}

fn head(row: &Row<'_>) -> rusqlite::Result<FleetRecord> {
    Ok(FleetRecord {
        schema: SCHEMA.into(),
        fleet: row.get(0)?,
        name: row.get(1)?,
        experiment: row.get(2)?,
        started_unix_s: row.get::<_, i64>(3)? as u64,
        finished_unix_s: row.get::<_, Option<i64>>(4)?.map(|s| s as u64),
        command: row.get(5)?,
        plan: row.get(6)?,
        nodes: Vec::new(),
    })
}

/// `database` must not be untrusted text.
fn nodes(db: &Connection, database: &str, fleet: i64) -> rusqlite::Result<Vec<FleetNode>> {
    let sql = format!("SELECT node, state, run, said FROM {database}.fleet_nodes WHERE fleet = ?1 ORDER BY place");
    let mut query = db.prepare(&sql)?;
    let node = |row: &Row<'_>| {
        Ok(FleetNode { node: row.get(0)?, state: from_word(row.get(1)?, 1)?, run: row.get(2)?, said: row.get(3)? })
    };
    query.query_map([fleet], node)?.collect()
}

fn insert(tx: &Transaction<'_>, record: &FleetRecord) -> rusqlite::Result<i64> {
    tx.execute(
        "INSERT INTO main.fleets (name, experiment, started_unix_s, finished_unix_s, command, plan) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            record.name,
            record.experiment,
            record.started_unix_s as i64,
            record.finished_unix_s.map(|s| s as i64),
            record.command,
            record.plan
        ],
    )?;
    let fleet = tx.last_insert_rowid();
    record.nodes.iter().try_for_each(|node| insert_node(tx, fleet, node))?;
    Ok(fleet)
}

fn insert_node(db: &Connection, fleet: i64, node: &FleetNode) -> rusqlite::Result<()> {
    let sql = "INSERT INTO main.fleet_nodes (fleet, node, place, run, state, said)
               SELECT ?1, ?2, coalesce(max(place), 0) + 1, ?3, ?4, ?5 FROM main.fleet_nodes WHERE fleet = ?1
               ON CONFLICT (fleet, node) DO UPDATE SET run = excluded.run, state = excluded.state, said = excluded.said";
    db.execute(sql, params![fleet, node.node, node.run, to_word(&node.state)?, node.said]).map(drop)
}

/// Copies fleets from the attached store `other` whose machines' runs were copied; `here` maps their run numbers.
pub(super) fn copy(tx: &Transaction<'_>, here: impl Fn(i64) -> Option<i64>) -> rusqlite::Result<()> {
    let theirs: Vec<FleetRecord> = {
        let mut query = tx.prepare(&FLEETS.replace("FROM fleets", "FROM other.fleets ORDER BY fleet"))?;
        query.query_map([], head)?.collect::<rusqlite::Result<_>>()?
    };
    for mut record in theirs {
        record.nodes = nodes(tx, "other", record.fleet)?;
        record.nodes.iter_mut().for_each(|node| node.run = node.run.and_then(&here));
        insert(tx, &record)?;
    }
    Ok(())
}

/// Serialises a value that is a single JSON string.
fn to_word<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => Ok(word),
        Ok(other) => Err(rusqlite::Error::ToSqlConversionFailure(format!("{other} is no word").into())),
        Err(e) => Err(rusqlite::Error::ToSqlConversionFailure(e.into())),
    }
}

fn from_word<T: DeserializeOwned>(word: String, column: usize) -> rusqlite::Result<T> {
    let fail =
        |e: serde_json::Error| rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, e.into());
    serde_json::from_value(Value::String(word)).map_err(fail)
}

#[cfg(test)]
#[path = "fleets_tests.rs"]
mod tests;
