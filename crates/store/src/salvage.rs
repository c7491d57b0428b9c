//! Copies the readable part of a truncated or damaged store to a new store. Only reads the damaged one.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::Store;
use super::refusal::explain;
use super::schema::{self, FileKind, VERSION};
use iotrail_base::error::{Error, Result};
use iotrail_stats::histogram;

/// Result of a salvage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salvaged {
    pub runs: u64,
    pub measurements: u64,
    /// Listed measurements that could not be copied, because their content, their run or cell, or an earlier repeat
    /// (whose place they would take) is missing.
    pub lost: u64,
    /// Bytes missing from the file, whose contents are unknown and cannot be counted.
    pub missing_bytes: u64,
}

/// Copies every readable row of the store `from` to a new store `to`. Runs that then lack measurements can be resumed.
pub fn salvage(from: &Path, to: &Path) -> Result<Salvaged> {
    if to.symlink_metadata().is_ok() {
        return Err(Error::input(format!("{} already exists", to.display()), "specify a new file with --salvage"));
    }
    let fail = |e| explain(from, e);
    let old = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(fail)?;
    // Otherwise, SQLite rejects a file that has fewer pages than its header states.
    old.pragma_update(None, "writable_schema", true).map_err(fail)?;
    match schema::look(&old).map_err(fail)? {
        // Later versions add tables that triggers on these tables fill.
        FileKind::Ours { version: 1..=VERSION } => {}
        FileKind::Ours { version } => {
            return Err(Error::input(
                format!(
                    "{} is a version {version} store, but this iotrail can salvage versions up to {VERSION}",
                    from.display()
                ),
                "use the iotrail that wrote it",
            ));
        }
        _ => {
            return Err(Error::input(
                format!("{} is not an iotrail store", from.display()),
                "specify another file with --store",
            ));
        }
    }
    let mut new = Store::create_or_open(to)?;
    match copy(&old, &mut new, missing_bytes(from)) {
        Ok(salvaged) => Ok(salvaged),
        Err(e) => {
            let e = new.fail(e);
            new.abandon();
            Err(e)
        }
    }
}

fn copy(old: &Connection, new: &mut Store, missing_bytes: u64) -> rusqlite::Result<Salvaged> {
    // Rows are copied table by table; orphans are removed at the end.
    new.db.pragma_update(None, "foreign_keys", false)?;
    let tx = new.db.transaction()?;
    let count = |table: &str| tx.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get::<_, i64>(0));
    by_id(old, &tx, "runs")?;
    in_order(old, &tx, "cells", "run, cell")?;
    if has_table(old, "corruptions") {
        by_id(old, &tx, "corruptions")?;
    }
    if has_table(old, "fleets") {
        by_id(old, &tx, "fleets")?;
        in_order(old, &tx, "fleet_nodes", "fleet, node")?;
    }
    if has_table(old, "traces") {
        by_id(old, &tx, "traces")?;
    }
    let mut lost = by_id(old, &tx, "measurements")?;
    let read = count("measurements")?;
    by_id(old, &tx, "histograms")?;
    in_order(old, &tx, "losses", "measurement, name")?;
    // A repeat's position in its cell is its block, so after a gap, a repeat would be attributed to a different block.
    // If a stopping rule ended a run, every cell has the same number of repeats.
    tx.execute_batch(
        "DELETE FROM cells WHERE run NOT IN (SELECT run FROM runs);
         DELETE FROM measurements WHERE (run, cell) NOT IN (SELECT run, cell FROM cells);
         DELETE FROM measurements WHERE EXISTS (SELECT 1 FROM runs r WHERE r.run = measurements.run AND r.kind = 'experiment')
           AND repeat > (SELECT count(*) FROM measurements n WHERE n.run = measurements.run AND n.cell = measurements.cell
             AND n.repeat <= measurements.repeat);
         DELETE FROM histograms WHERE measurement NOT IN (SELECT measurement FROM measurements);
         DELETE FROM corruptions WHERE run NOT IN (SELECT run FROM runs);
         DELETE FROM fleet_nodes WHERE fleet NOT IN (SELECT fleet FROM fleets);
         UPDATE fleet_nodes SET run = NULL WHERE run NOT IN (SELECT run FROM runs);
         DELETE FROM losses WHERE measurement NOT IN (SELECT measurement FROM measurements);
         UPDATE runs SET finished_unix_s = NULL WHERE kind = 'experiment' AND run NOT IN (SELECT run FROM corruptions) AND
           (SELECT count(*) FROM measurements m WHERE m.run = runs.run)
             < repeats * (SELECT count(*) FROM cells c WHERE c.run = runs.run AND c.untestable IS NULL)
           AND (json_extract(record, '$.stop') IS NULL
             OR 1 < (SELECT count(DISTINCT (SELECT count(*) FROM measurements m WHERE m.run = c.run AND m.cell = c.cell))
               FROM cells c WHERE c.run = runs.run AND c.untestable IS NULL));",
    )?;
    let (runs, measurements) = (count("runs")? as u64, count("measurements")?);
    lost += (read - measurements) as u64;
    tx.commit()?;
    new.db.pragma_update(None, "foreign_keys", true)?;
    Ok(Salvaged { runs, measurements: measurements as u64, lost, missing_bytes })
}

/// Number of bytes by which the file is shorter than its header states (https://www.sqlite.org/fileformat.html: page
/// size, where 1 means 65,536; number of pages).
fn missing_bytes(store: &Path) -> u64 {
    let header = || -> std::io::Result<([u8; 32], u64)> {
        let mut file = std::fs::File::open(store)?;
        let mut header = [0; 32];
        file.read_exact(&mut header)?;
        Ok((header, file.metadata()?.len()))
    };
    let Ok((header, bytes)) = header() else { return 0 };
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 1 << 16,
        bytes => u64::from(bytes),
    };
    let pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    (page * u64::from(pages)).saturating_sub(bytes)
}

/// Corruptions have a table since version 3, fleets since version 4, traces since version 6.
fn has_table(db: &Connection, name: &str) -> bool {
    db.query_row("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1", [name], |_| Ok(())).is_ok()
}

/// Copies row by row, so that an unreadable row does not affect others. Returns the number of unreadable rows.
fn by_id(old: &Connection, new: &Connection, table: &str) -> rusqlite::Result<u64> {
    let mut ids = BTreeSet::new();
    // Walks from both ends, because each walk stops at a missing page.
    for order in ["ASC", "DESC"] {
        let Ok(mut query) = old.prepare(&format!("SELECT rowid FROM {table} NOT INDEXED ORDER BY rowid {order}"))
        else {
            continue;
        };
        let mut rows = query.query([])?;
        while let Ok(Some(row)) = rows.next() {
            ids.insert(row.get::<_, i64>(0)?);
        }
    }
    let mut unreadable = 0;
    for id in ids {
        let sql = format!("SELECT * FROM {table} NOT INDEXED WHERE rowid = {id}");
        let read = old.prepare(&sql).and_then(|mut q| {
            let columns = q.column_count();
            q.query_row([], |row| (0..columns).map(|i| row.get(i)).collect::<rusqlite::Result<Vec<Value>>>())
        });
        match read {
            Ok(row) if is_whole(row.last()) => insert(new, table, row)?,
            Ok(_) | Err(_) => unreadable += 1,
        }
    }
    Ok(unreadable)
}

/// Whether the last column (JSON or a histogram) is complete. Bytes missing from the last page read as zeros.
fn is_whole(content: Option<&Value>) -> bool {
    match content {
        Some(Value::Text(json)) => serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok(),
        Some(Value::Blob(bytes)) => histogram::from_bytes(bytes).is_ok(),
        _ => false,
    }
}

/// For tables whose rows are stored in key order.
fn in_order(old: &Connection, new: &Connection, table: &str, key: &str) -> rusqlite::Result<()> {
    for order in ["ASC", "DESC"] {
        let keys: Vec<String> = key.split(", ").map(|k| format!("{k} {order}")).collect();
        let Ok(mut query) = old.prepare(&format!("SELECT * FROM {table} ORDER BY {}", keys.join(", "))) else {
            continue;
        };
        let columns = query.column_count();
        let mut rows = query.query([])?;
        while let Ok(Some(row)) = rows.next() {
            let row = (0..columns).map(|i| row.get(i)).collect::<rusqlite::Result<Vec<Value>>>()?;
            insert(new, table, row)?;
        }
    }
    Ok(())
}

/// `table` must not be untrusted text. A row that both walks read is inserted once.
fn insert(new: &Connection, table: &str, row: Vec<Value>) -> rusqlite::Result<()> {
    let places = vec!["?"; row.len()].join(", ");
    new.execute(&format!("INSERT OR IGNORE INTO {table} VALUES ({places})"), params_from_iter(row)).map(drop)
}
