use std::collections::HashSet;

use super::schema::{FileKind, VERSION};
use super::write::insert_measurement;
use super::*;
use iotrail_schema::measurement::Measurement;
use iotrail_testing::run::two_by_two;
use iotrail_testing::sample;

fn begun(dir: &tempfile::TempDir) -> (Store, i64) {
    let mut store = Store::create_or_open(&dir.path().join("sub/s.db")).unwrap();
    let run = store.begin(&two_by_two(), "{}").unwrap();
    (store, run)
}

#[test]
fn a_measurement_and_its_histogram_are_read_back_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, run) = begun(&dir);
    let mut m = sample::measurement();
    // A number that needs full precision in decimal notation.
    m.iops = Some(0.1 + 0.2);
    m.latency_ns.mean = Some(1_234_567.890_123_456_7);
    store.save(run, 3, 2, &m, &sample::histogram()).unwrap();
    let path = store.path().to_owned();
    drop(store);

    let store = Store::open(&path).unwrap().unwrap();
    let record = store.load(run).unwrap().unwrap();
    assert_eq!(*record.cells[2].measurements.all(), [m]);
    assert_eq!((record.run, record.seed, record.repeats, record.done(), record.planned()), (run, 7, 3, 1, 12));
    assert_eq!(record.cells[2].params, two_by_two().cells[2].params);
    assert_eq!(store.histogram(run, 3, 2).unwrap().unwrap(), sample::histogram());
    assert_eq!(store.histogram(run, 3, 1).unwrap(), None);
    assert_eq!(store.load(run + 1).unwrap(), None);
    assert_eq!(store.done(run).unwrap(), HashSet::from([(3, 2)]));
}

#[test]
fn losses_are_stored_and_unknown_values_are_null() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, run) = begun(&dir);
    let mut m = sample::measurement();
    m.probe.lost = None;
    m.errors = Some(4);
    store.save(run, 1, 1, &m, &sample::histogram()).unwrap();
    let mut query = store.db.prepare("SELECT name, count FROM losses ORDER BY name").unwrap();
    let rows: Vec<(String, Option<i64>)> =
        query.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).unwrap().map(|r| r.unwrap()).collect();
    let expected = [("errors", Some(4)), ("lost", None), ("unknown", Some(0)), ("untracked", Some(0))];
    assert_eq!(rows, expected.map(|(n, c)| (n.to_owned(), c)));
}

#[test]
fn a_single_measurement_is_stored_as_a_finished_run() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = begun(&dir);
    let m = sample::measurement();
    let run = store.save_single(&m, &sample::histogram()).unwrap();
    let list = store.list().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!((list[0].experiment.as_str(), list[0].done, list[0].planned), ("two-by-two", 0, 12));
    assert!(list[0].kernels.is_empty());
    assert_eq!((list[1].run, list[1].kind.as_str(), list[1].done, list[1].planned), (run, "single", 1, 1));
    assert_eq!(list[1].started, "2026-03-01 12:00:00");
    assert_eq!(list[1].kernels, ["6.18.0"]);
    assert_eq!(*store.load(run).unwrap().unwrap().cells[0].measurements.all(), [m]);
}

#[test]
fn a_store_in_an_inaccessible_directory_is_not_reported_as_missing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert!(Store::open(&dir.path().join("missing/s.db")).unwrap().is_none());
    // The same error path as for a directory without permission, which root does not get.
    let e = Store::open(&dir.path().join("file/s.db")).map(drop).unwrap_err();
    assert!(e.exit_status() == 2 && e.to_string().contains("cannot access store"), "{e}");
}

#[test]
fn a_measurement_is_stored_once_and_only_for_a_planned_cell() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, run) = begun(&dir);
    let (m, h) = (sample::measurement(), sample::histogram());
    store.save(run, 1, 1, &m, &h).unwrap();
    assert!(store.save(run, 1, 1, &m, &h).is_err());
    assert!(store.save(run, 99, 1, &m, &h).is_err());
    assert_eq!(store.done(run).unwrap(), HashSet::from([(1, 1)]));
}

/// A killed process leaves the same files behind as an open connection: the file, and during a transaction its journal.
#[test]
fn a_kill_within_a_transaction_loses_only_that_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, run) = begun(&dir);
    store.save(run, 1, 1, &sample::measurement(), &sample::histogram()).unwrap();
    // A tiny cache makes SQLite write to the file before the commit.
    store.db.execute_batch("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN IMMEDIATE").unwrap();
    for repeat in 2..40 {
        insert_measurement(&store.db, run, 2, repeat, &sample::measurement(), &sample::histogram()).unwrap();
    }
    let journal = dir.path().join("sub/s.db-journal");
    assert!(std::fs::metadata(&journal).unwrap().len() > 0);
    let left = dir.path().join("left");
    std::fs::create_dir(&left).unwrap();
    for name in ["s.db", "s.db-journal"] {
        std::fs::copy(dir.path().join("sub").join(name), left.join(name)).unwrap();
    }
    let store = Store::open(&left.join("s.db")).unwrap().unwrap();
    assert_eq!(store.done(run).unwrap(), HashSet::from([(1, 1)]));
    assert_eq!(store.load(run).unwrap().unwrap().done(), 1);
    let whole: String = store.db.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

#[test]
fn measurements_are_read_one_at_a_time_in_either_order() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, run) = begun(&dir);
    // Repeats are interleaved, so the second repeat of one cell began before the third of the other.
    for (cell, repeat, start) in [(2, 1, 10), (1, 1, 20), (1, 2, 30), (2, 2, 40)] {
        let mut m = sample::measurement();
        m.started_unix_s = start;
        store.save(run, cell, repeat, &m, &sample::histogram()).unwrap();
    }
    let each = |order| {
        let mut all = vec![];
        let mut take = |cell, repeat, m: Measurement| {
            all.push((cell, repeat, m.started_unix_s));
            Ok(())
        };
        store.each(run, order, &mut take).unwrap();
        all
    };
    assert_eq!(each(Order::Start), [(2, 1, 10), (1, 1, 20), (1, 2, 30), (2, 2, 40)]);
    assert_eq!(each(Order::Cell), [(1, 1, 20), (1, 2, 30), (2, 1, 10), (2, 2, 40)]);
    assert_eq!(store.measured_by(run).unwrap(), (4, vec![sample::measurement().host.hostname.clone()]));
    assert!(store.outline(run).unwrap().unwrap().cells.iter().all(|c| c.measurements.is_empty()));
    let stop = store.each(run, Order::Cell, &mut |_, _, _| Err(Error::input("enough", "")));
    assert!(stop.is_err());
}

#[test]
fn a_removed_run_leaves_no_rows_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, run) = begun(&dir);
    store.save(run, 1, 1, &sample::measurement(), &sample::histogram()).unwrap();
    store.forget(run).unwrap();
    for table in ["runs", "cells", "measurements", "histograms", "losses", "measured_by"] {
        let n: i64 = store.db.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0)).unwrap();
        assert_eq!(n, 0, "{table}");
    }
}

fn refused(path: &Path) -> String {
    let before = std::fs::read(path).unwrap();
    let opened = Store::create_or_open(path).err().map(|e| (e.to_string(), e.exit_status()));
    let read = Store::open(path).err().map(|e| (e.to_string(), e.exit_status()));
    assert_eq!(std::fs::read(path).unwrap(), before, "the file was changed");
    assert_eq!(opened, read);
    let (text, status) = opened.expect("the file is refused");
    assert_eq!(status, 2, "{text}");
    assert!(!text.contains('\n'));
    text
}

#[test]
fn files_that_are_not_stores_are_rejected_unmodified() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, "a letter to a friend\n").unwrap();
    assert!(refused(&path).contains("is not an iotrail store"));
    std::fs::write(&path, vec![7; 100_000]).unwrap();
    assert!(refused(&path).contains("is not an iotrail store"));
    std::fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE letters (text)").unwrap();
    assert!(refused(&path).contains("another program"));
    let e = Store::create_or_open(dir.path()).err().unwrap();
    assert!(e.to_string().contains("is a directory"));
}

#[test]
fn a_newer_store_is_rejected_unmodified() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = begun(&dir);
    store.db.pragma_update(None, "user_version", VERSION + 1).unwrap();
    let path = store.path().to_owned();
    drop(store);
    let text = refused(&path);
    assert!(text.contains(&format!("store version {}; this one supports up to {VERSION}", VERSION + 1)), "{text}");
}

#[test]
fn an_unknown_version_is_not_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = begun(&dir);
    store.db.pragma_update(None, "user_version", -1).unwrap();
    let path = store.path().to_owned();
    drop(store);
    let text = refused(&path);
    assert!(text.contains("not an iotrail store"), "{text}");
}

/// A store with 19 measurements, the number of their run, and the file's bytes.
fn nineteen(dir: &tempfile::TempDir) -> (PathBuf, i64, Vec<u8>) {
    let (mut store, run) = begun(dir);
    for repeat in 1..20 {
        store.save(run, 1, repeat, &sample::measurement(), &sample::histogram()).unwrap();
    }
    let path = store.path().to_owned();
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    (path, run, whole)
}

#[test]
fn a_truncated_store_is_rejected_unmodified() {
    let dir = tempfile::tempdir().unwrap();
    let (path, run, whole) = nineteen(&dir);
    for length in [whole.len() - 4096, whole.len() / 2, 4096, 1000, 50] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(refused(&path).contains("damaged or truncated"), "{length}: {}", refused(&path));
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(Store::open(&path).unwrap().unwrap().done(run).unwrap().len(), 19);
}

#[test]
fn a_truncated_store_loses_only_the_last_writes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, run, whole) = nineteen(&dir);
    // Cutting within the last measurement's pages loses at most that measurement.
    for (n, (cut, left)) in [(100, 18), (4096, 18), (whole.len() / 4, 9)].into_iter().enumerate() {
        let (from, to) = (dir.path().join("cut.db"), dir.path().join(format!("new{n}.db")));
        std::fs::write(&from, &whole[..whole.len() - cut]).unwrap();
        let salvaged = salvage::salvage(&from, &to).unwrap();
        assert!(salvaged.runs == 1 && salvaged.measurements >= left, "{cut}: {salvaged:?}");
        let record = Store::open(&to).unwrap().unwrap().load(run).unwrap().unwrap();
        assert_eq!(record.cells[0].measurements.len() as u64, salvaged.measurements);
        assert!(record.cells[0].measurements.all().iter().all(|m| *m == sample::measurement()));
        assert_eq!(std::fs::read(&from).unwrap().len(), whole.len() - cut, "it is only read");
    }
    let e = salvage::salvage(&path, &dir.path().join("new0.db")).unwrap_err();
    assert!(e.to_string().contains("already exists"), "{e}");
    std::fs::write(&path, &whole[..50]).unwrap();
    assert_eq!(salvage::salvage(&path, &dir.path().join("none.db")).unwrap_err().exit_status(), 2);
    assert!(!dir.path().join("none.db").exists());
}

#[test]
fn a_missing_store_is_empty_for_a_reader_and_is_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none.db");
    assert!(Store::open(&path).unwrap().is_none());
    assert!(!path.exists());
}

#[test]
fn migrations_create_the_current_schema_in_an_empty_database() {
    let mut db = Connection::open_in_memory().unwrap();
    assert_eq!(schema::look(&db).unwrap(), FileKind::Empty);
    let tx = db.transaction().unwrap();
    schema::migrate(&tx, 0).unwrap();
    tx.commit().unwrap();
    assert_eq!(schema::look(&db).unwrap(), FileKind::Ours { version: VERSION });
}

#[test]
fn a_store_of_the_first_version_is_migrated_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(schema::MIGRATIONS[0]).unwrap();
    db.pragma_update(None, "application_id", schema::APPLICATION_ID).unwrap();
    db.pragma_update(None, "user_version", 1).unwrap();
    let row = "INSERT INTO runs VALUES (?1, 'experiment', 'e', 0, ?2, 1, 2, '', '')";
    let cell = "INSERT INTO cells VALUES (?1, ?2, '{}', ?3)";
    let one = "INSERT INTO measurements VALUES (NULL, ?1, 1, ?2, 0, 0, 0, 0, NULL, NULL, ?3, ?4, '{}')";
    for (run, finished) in [(1, Some(9)), (2, None)] {
        db.execute(row, (run, finished)).unwrap();
        for (number, untestable) in [(1, None), (2, Some("no such queue")), (3, None)] {
            db.execute(cell, (run, number, untestable)).unwrap();
        }
    }
    for (repeat, host, kernel) in [(1, "b", "6.18.0"), (2, "a", "6.1.0"), (3, "b", "6.1.0")] {
        db.execute(one, (2, repeat, host, kernel)).unwrap();
    }
    drop(db);
    let list = Store::open(&path).unwrap().unwrap().list().unwrap();
    let of = |r: &RunSummary| (r.run, r.done, r.planned, r.hosts.join(" "), r.kernels.join(" "));
    let expected = [(1, 0, 0, String::new(), String::new()), (2, 3, 4, "b a".into(), "6.18.0 6.1.0".into())];
    assert_eq!(list.iter().map(of).collect::<Vec<_>>(), expected);
}

#[test]
fn unknown_values_become_null_when_older_stores_are_migrated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let unknown = Measurement { ios: None, iops: None, ..sample::measurement() };
    let known = Measurement { ios: Some(0), iops: Some(0.0), ..sample::measurement() };
    let measured = [&unknown, &known, &sample::measurement()].map(|m| serde_json::to_string(m).unwrap());
    let db = Connection::open(&path).unwrap();
    schema::MIGRATIONS[..4].iter().for_each(|step| db.execute_batch(step).unwrap());
    db.pragma_update(None, "application_id", schema::APPLICATION_ID).unwrap();
    db.pragma_update(None, "user_version", 4).unwrap();
    db.execute_batch("INSERT INTO runs VALUES (1, 'experiment', 'e', 0, 9, 1, 4, '', '')").unwrap();
    db.execute_batch("INSERT INTO cells VALUES (1, 1, '{}', NULL)").unwrap();
    for (repeat, (ios, json)) in (1..).zip([0, 0, 500].iter().zip(&measured)) {
        let one = "INSERT INTO measurements VALUES (NULL, 1, 1, ?1, 0, 0, ?2, ?2 / 2, NULL, NULL, 'h', 'k', ?3)";
        db.execute(one, (repeat, ios, json)).unwrap();
    }
    drop(db);
    let mut store = Store::create_or_open(&path).unwrap();
    store.save(1, 1, 4, &unknown, &sample::histogram()).unwrap();
    let mut query = store.db.prepare("SELECT ios, iops FROM measurements ORDER BY repeat").unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Vec<(Option<i64>, Option<f64>)> = rows.map(Result::unwrap).collect();
    assert_eq!(rows, [(None, None), (Some(0), Some(0.0)), (Some(500), Some(250.0)), (None, None)]);
    let whole: String = store.db.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
    assert_eq!((whole.as_str(), store.list().unwrap()[0].done), ("ok", 4));
}

/// A store with `runs` runs of `measurements` measurements each, of realistic size.
fn filled(path: &Path, runs: u32, measurements: u32) -> Store {
    let mut store = Store::create_or_open(path).unwrap();
    store.db.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let mut planned = two_by_two();
    planned.repeats = measurements.div_ceil(4);
    for _ in 0..runs {
        let run = store.begin(&planned, "{}").unwrap();
        let tx = store.db.transaction().unwrap();
        for n in 0..measurements {
            insert_measurement(&tx, run, 1 + n % 4, 1 + n / 4, &sample::measurement(), &sample::histogram()).unwrap();
        }
        tx.commit().unwrap();
        store.finish(run, 1_772_366_500).unwrap();
    }
    store
}

/// File pages that listing the runs reads.
fn pages_read(path: &Path, runs: usize) -> i32 {
    let store = Store::open(path).unwrap().unwrap();
    let list = store.list().unwrap();
    assert!(list.len() == runs && list.iter().all(|r| r.done == r.planned && r.kernels == ["6.18.0"]));
    let (mut pages, mut most) = (0, 0);
    // SAFETY: an open connection, and two numbers that outlive the call.
    let status = unsafe {
        let asked = rusqlite::ffi::SQLITE_DBSTATUS_CACHE_MISS;
        rusqlite::ffi::sqlite3_db_status(store.db.handle(), asked, &mut pages, &mut most, 0)
    };
    assert_eq!(status, rusqlite::ffi::SQLITE_OK);
    pages
}

#[test]
fn listing_runs_reads_no_measurements() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    drop((filled(&at("few"), 40, 4), filled(&at("large"), 40, 20), filled(&at("many"), 160, 4)));
    let (few, large, many) = (pages_read(&at("few"), 40), pages_read(&at("large"), 40), pages_read(&at("many"), 160));
    assert!(large <= few + 2, "{few} pages, with five times the measurements {large}");
    assert!(many <= few * 4, "{few} pages, of four times the runs {many}");
    let all: i32 = {
        let store = Store::open(&at("few")).unwrap().unwrap();
        store.db.query_row("PRAGMA page_count", [], |r| r.get(0)).unwrap()
    };
    assert!(few * 10 < all, "{few} of {all} pages");
}

/// For `benches/list.sh`: IOTRAIL_FILL is the store's path, IOTRAIL_FILL_RUNS its number of runs with 60 measurements
/// each.
#[test]
#[ignore = "makes a store for benches/list.sh"]
fn fill_a_store_for_the_list_benchmark() {
    let of = |name| std::env::var(name).unwrap();
    filled(Path::new(&of("IOTRAIL_FILL")), of("IOTRAIL_FILL_RUNS").parse().unwrap(), 60);
}

#[test]
fn imported_runs_get_new_numbers() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut other, _) = begun(&there);
    let single = other.save_single(&sample::measurement(), &sample::histogram()).unwrap();
    let begun_there = other.list().unwrap()[0].run;
    other.save(begun_there, 3, 2, &sample::measurement(), &sample::histogram()).unwrap();
    other.mark_untestable(begun_there, 1, "no such queue").unwrap();
    let theirs: Vec<_> = [begun_there, single].map(|run| other.load(run).unwrap().unwrap()).into();
    let from = other.path().to_owned();
    drop(other);

    let (mut store, first) = begun(&here);
    let runs = store.take_in(&from).unwrap();
    assert_eq!(runs, [first + 1, first + 2]);
    for (run, mut theirs) in runs.iter().zip(theirs) {
        theirs.run = *run;
        assert_eq!(store.load(*run).unwrap().unwrap(), theirs);
    }
    assert_eq!(store.histogram(runs[0], 3, 2).unwrap(), Some(sample::histogram()));
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        store.db.query_row(&sql, [], |r| r.get::<_, i64>(0)).unwrap()
    };
    assert_eq!((count("measurements"), count("histograms"), count("losses")), (2, 2, 8));
    // Copied again, they become separate runs; a missing store has none.
    assert_eq!(store.take_in(&from).unwrap(), [first + 3, first + 4]);
    // A single measurement is recognised as already copied.
    assert_eq!(store.take_in_run(&from, begun_there).unwrap(), Some(first + 1));
    assert_eq!(store.take_in_run(&from, 99).unwrap(), None);
    let mut empty = Store::create_or_open(&here.path().join("empty.db")).unwrap();
    let taken = empty.take_in_run(&from, single).unwrap().unwrap();
    assert_eq!((taken, empty.list().unwrap().len()), (1, 1));
    assert_eq!(empty.take_in_run(&here.path().join("none.db"), 1).unwrap(), None);
    assert_eq!(store.take_in(&here.path().join("none.db")).unwrap(), Vec::<i64>::new());
    let foreign = there.path().join("foreign.db");
    std::fs::write(&foreign, "no database at all, but longer than a header").unwrap();
    assert_eq!(store.take_in(&foreign).unwrap_err().exit_status(), 2);
}

#[test]
fn only_one_process_at_a_time_may_measure_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let (store, run) = begun(&dir);
    let measuring = store.measuring(run).unwrap();
    let said = store.measuring(run).unwrap_err().to_string();
    assert_eq!(
        said,
        format!("run {run} is being measured by process {}; wait until it exits, or interrupt it", std::process::id())
    );
    store.measuring(run + 1).unwrap();
    drop(measuring);
    store.measuring(run).unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("sub")).unwrap().count(), 1, "the store alone is left");
    let other = dir.path().join("other");
    std::fs::write(&other, "kept").unwrap();
    std::os::unix::fs::symlink(&other, dir.path().join(format!("sub/s.db.run-{run}"))).unwrap();
    assert!(store.measuring(run).is_err());
    assert_eq!(std::fs::read_to_string(other).unwrap(), "kept");
}
