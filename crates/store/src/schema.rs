//! The tables, their versions, and the markers of a store. `docs/formats.md` describes the columns.

use rusqlite::{Connection, Transaction};

/// `PRAGMA application_id` of every store: "iotr".
pub const APPLICATION_ID: i32 = 0x696f_7472;

/// Step `i` migrates a store from version `i` to `i + 1`. Released steps must never change.
pub const MIGRATIONS: &[&str] = &["
    CREATE TABLE runs (
        run              INTEGER PRIMARY KEY AUTOINCREMENT,
        kind             TEXT NOT NULL CHECK (kind IN ('experiment', 'single')),
        experiment       TEXT NOT NULL,
        started_unix_s   INTEGER NOT NULL,
        finished_unix_s  INTEGER,
        seed             INTEGER NOT NULL,
        repeats          INTEGER NOT NULL,
        plan_key         TEXT NOT NULL,
        record           TEXT NOT NULL
    );
    CREATE TABLE cells (
        run              INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        cell             INTEGER NOT NULL,
        params           TEXT NOT NULL,
        untestable       TEXT,
        PRIMARY KEY (run, cell)
    ) WITHOUT ROWID;
    CREATE TABLE measurements (
        measurement      INTEGER PRIMARY KEY,
        run              INTEGER NOT NULL,
        cell             INTEGER NOT NULL,
        repeat           INTEGER NOT NULL,
        started_unix_s   INTEGER NOT NULL,
        elapsed_ns       INTEGER NOT NULL,
        ios              INTEGER NOT NULL,
        iops             REAL NOT NULL,
        latency_mean_ns  REAL,
        latency_p99_ns   INTEGER,
        hostname         TEXT NOT NULL,
        kernel           TEXT NOT NULL,
        json             TEXT NOT NULL,
        UNIQUE (run, cell, repeat),
        FOREIGN KEY (run, cell) REFERENCES cells ON DELETE CASCADE
    );
    CREATE TABLE histograms (
        measurement      INTEGER PRIMARY KEY REFERENCES measurements ON DELETE CASCADE,
        latency          BLOB NOT NULL
    );
    CREATE TABLE losses (
        measurement      INTEGER NOT NULL REFERENCES measurements ON DELETE CASCADE,
        name             TEXT NOT NULL,
        count            INTEGER,
        PRIMARY KEY (measurement, name)
    ) WITHOUT ROWID;
", "
    -- What the list of runs reads, apart from the records and measurements, which are a thousand times as large: the list then takes
    -- as long as it has lines.
    CREATE INDEX runs_listed ON runs (run, kind, experiment, started_unix_s, finished_unix_s, repeats);
    CREATE INDEX cells_testable ON cells (run) WHERE untestable IS NULL;
    CREATE TABLE measured_by (
        run              INTEGER NOT NULL,
        hostname         TEXT NOT NULL,
        kernel           TEXT NOT NULL,
        first            INTEGER NOT NULL,
        measurements     INTEGER NOT NULL,
        PRIMARY KEY (run, hostname, kernel)
    ) WITHOUT ROWID;
    INSERT INTO measured_by
        SELECT run, hostname, kernel, min(measurement), count(*) FROM measurements GROUP BY run, hostname, kernel;
    CREATE TRIGGER measurement_added AFTER INSERT ON measurements BEGIN
        INSERT OR IGNORE INTO measured_by VALUES (new.run, new.hostname, new.kernel, new.measurement, 0);
        UPDATE measured_by SET measurements = measurements + 1
            WHERE run = new.run AND hostname = new.hostname AND kernel = new.kernel;
    END;
    CREATE TRIGGER measurement_removed AFTER DELETE ON measurements BEGIN
        UPDATE measured_by SET measurements = measurements - 1
            WHERE run = old.run AND hostname = old.hostname AND kernel = old.kernel;
        DELETE FROM measured_by WHERE run = old.run AND measurements = 0;
    END;
", "
    CREATE TABLE corruptions (
        run              INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
        json             TEXT NOT NULL
    );
", "
    CREATE TABLE fleets (
        fleet            INTEGER PRIMARY KEY AUTOINCREMENT,
        name             TEXT NOT NULL,
        experiment       TEXT NOT NULL,
        started_unix_s   INTEGER NOT NULL,
        finished_unix_s  INTEGER,
        command          TEXT,
        plan             TEXT NOT NULL
    );
    CREATE TABLE fleet_nodes (
        fleet            INTEGER NOT NULL REFERENCES fleets ON DELETE CASCADE,
        node             TEXT NOT NULL,
        place            INTEGER NOT NULL,
        run              INTEGER REFERENCES runs ON DELETE SET NULL,
        state            TEXT NOT NULL,
        said             TEXT,
        PRIMARY KEY (fleet, node)
    ) WITHOUT ROWID;
    CREATE INDEX fleet_runs ON fleet_nodes (run);
", "
    -- `ios` and `iops` of a measurement that does not know them were 0. Only the declaration changes, so the rows stay where they are
    -- (sqlite.org/lang_altertable.html, 7): a new table would be a copy of all measurements.
    PRAGMA writable_schema = ON;
    UPDATE sqlite_schema SET sql = replace(replace(sql, 'INTEGER NOT NULL,\n        iops', 'INTEGER,\n        iops'),
        'REAL NOT NULL', 'REAL') WHERE type = 'table' AND name = 'measurements';
    PRAGMA writable_schema = RESET;
    UPDATE measurements SET ios = json_extract(json, '$.ios'), iops = json_extract(json, '$.iops')
        WHERE ios = 0 AND json_valid(json);
", "
    -- The last columns are the large ones: a list reads none of them.
    CREATE TABLE traces (
        trace            INTEGER PRIMARY KEY AUTOINCREMENT,
        state            TEXT NOT NULL CHECK (state IN ('running', 'complete', 'partial')),
        started_unix_s   INTEGER NOT NULL,
        subject          TEXT NOT NULL,
        hostname         TEXT NOT NULL,
        kernel           TEXT NOT NULL,
        bytes            INTEGER NOT NULL,
        answer           TEXT,
        recording        TEXT,
        slowest          BLOB,
        record           TEXT
    );
"];

/// The version that this program reads and writes.
pub const VERSION: i32 = MIGRATIONS.len() as i32;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// The file is empty.
    Empty,
    /// A store, version 1 or later; the marker is written together with the tables.
    Ours {
        version: i32,
    },
    Foreign,
}

/// Reads the markers that distinguish a store from another program's database.
pub fn look(db: &Connection) -> rusqlite::Result<FileKind> {
    // A single statement, because another process may be creating the store.
    let sql = "SELECT (SELECT count(*) FROM sqlite_schema), application_id, user_version FROM pragma_application_id, pragma_user_version";
    let (tables, id, version): (i64, i32, i32) = db.query_row(sql, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
    Ok(match (id, version, tables) {
        (APPLICATION_ID, version @ 1.., _) => FileKind::Ours { version },
        (0, 0, 0) => FileKind::Empty,
        _ => FileKind::Foreign,
    })
}

/// Migrates the store from `version` to [`VERSION`] atomically: the markers change in the same transaction as the
/// tables.
pub fn migrate(tx: &Transaction<'_>, version: i32) -> rusqlite::Result<()> {
    for (_, step) in (0..).zip(MIGRATIONS).filter(|(from, _)| *from >= version) {
        tx.execute_batch(step)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", VERSION)
}
