//! Pages of stored runs show the store's contents.

use serde_json::{Value, json};

use crate::made::{self, REPEATS};
use crate::page::{Page, iotrail};

/// All checks of a page, on an experiment's page.
pub fn of_experiment(name: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = made::store(&folder.path().join("s.db"), &made::built_in(name), REPEATS);
    let (status, said) = iotrail(folder.path(), &["report", &run.to_string(), "--store", "s.db", "-o", "page.html"]);
    assert_eq!(status, 0, "{said}");
    let Some(mut page) = Page::open(name, &folder.path().join("page.html")) else { return };
    page.answers_first();
    assert_eq!([page.column("forest", "verdict").is_empty(), page.column("delivered", "share").is_empty()], [false; 2]);
    let store = iotrail_store::Store::open(&folder.path().join("s.db")).expect("readable").expect("there");
    let record = store.load(run).expect("readable").expect("there");

    // As many rows as the store has measurements, in the same order, with the same numbers.
    let order = store.order(run).expect("readable");
    let wanted: Vec<Value> = order.iter().map(|(cell, repeat)| json!(made::iops(*cell, *repeat))).collect();
    assert_eq!(page.column("course", "iops"), wanted);
    // Every measured cell except the control's has a level, and every completion has a delivery path.
    let cells = record.cells.iter().filter(|c| !c.measurements.is_empty() && c.arm() != "control").count();
    assert_eq!(page.column("iops", "iops").len(), cells);
    let carried: u64 = page.column("vehicles", "counted").iter().filter_map(Value::as_u64).sum();
    assert_eq!(carried, 1000 * u64::from(REPEATS) * cells as u64);
    // Unknown values are not drawn.
    assert!(page.column("rates", "context_switches").iter().all(Value::is_null));
    page.has_its_marks();

    let text = page.hover("course");
    let (cell, repeat) = order[0];
    let iops = made::iops(cell, repeat);
    let exact = match iops.fract() == 0.0 {
        true => format!("{},{:03}", iops as u64 / 1000, iops as u64 % 1000),
        false => format!("{},{:05.1}", iops as u64 / 1000, iops % 1000.0),
    };
    assert!(text.contains(&format!("iops: {exact}")), "{text:?} has no {exact}");
    assert!(text.contains("iotrail"), "the command is not in {text:?}");

    let lines = page.csv("course", folder.path());
    assert_eq!(lines.len(), 1 + wanted.len());
    let place = lines[0].split(',').position(|c| c == "iops").expect("a column of it");
    for (line, wanted) in lines[1..].iter().zip(&wanted) {
        // Quoted text may contain commas, so count columns from the end.
        let plain = line.split('"').step_by(2).collect::<String>();
        let from_end = lines[0].split(',').count() - place;
        let got = if line.contains('"') { plain.rsplit(',').nth(from_end - 1) } else { line.split(',').nth(place) };
        assert_eq!(got.and_then(|g| g.parse::<f64>().ok()).map(Value::from), Some(wanted.clone()), "{line}");
    }
    page.is_reached_by_tab();
    assert!(page.step_through("course").contains(&format!("iops: {exact}")), "the first mark, by the keyboard");
    // Themes are the same on every page; the tests below check the dark theme.
    page.is_accessible(name, &["light"]);
    page.was_quiet();
}

pub fn of_two() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let db = folder.path().join("s.db");
    let runs = [
        made::store(&db, &made::built_in("getevents"), REPEATS),
        made::store(&db, &made::built_in("getevents"), REPEATS),
    ];
    let [a, b] = runs.map(|r| r.to_string());
    let (status, said) = iotrail(folder.path(), &["report", &a, "last", "--store", "s.db", "-o", "page.html"]);
    assert_eq!(status, 0, "{said}");
    let Some(mut page) = Page::open("two runs", &folder.path().join("page.html")) else { return };
    page.answers_first();
    // The second run compared with the first, by cell, on both of the experiment's metrics.
    let cells = page.column("iops", "run").len() / 2;
    let ratios = page.column("ratios", "ratio");
    assert_eq!(ratios.len(), 2 * cells);
    assert!(ratios.iter().all(|r| r.as_f64().is_some_and(|r| (r - 1.0).abs() < 1e-9)), "they are alike: {ratios:?}");
    assert!(page.column("ratios", "b").iter().all(|name| *name == json!(format!("run {b}"))));
    let titles = page.browser.evaluate("[...document.querySelectorAll('#iops .panel h3')].map((h) => h.textContent)");
    assert_eq!(titles, json!([format!("run {a}"), format!("run {b}")]), "beside each other");
    page.has_its_marks();
    page.is_accessible("two runs", &["light", "dark"]);
    page.was_quiet();
}

/// A measurement of `bench`, from the file that it wrote.
pub fn of_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = made::store(&folder.path().join("s.db"), &made::built_in("getevents"), 1);
    let store = iotrail_store::Store::open(&folder.path().join("s.db")).expect("readable").expect("there");
    let record = store.load(run).expect("readable").expect("there");
    let m = serde_json::to_string(&record.cells[0].measurements.all()[0]).expect("JSON");
    std::fs::write(folder.path().join("m.json"), m).expect("a file of our own");
    let (status, said) = iotrail(folder.path(), &["report", "m.json", "-o", "page.html"]);
    assert_eq!(status, 0, "{said}");
    let Some(mut page) = Page::open("one measurement", &folder.path().join("page.html")) else { return };
    page.answers_first();
    assert_eq!(page.column("course", "iops"), [json!(made::iops(1, 1))]);
    assert!(page.figures().iter().all(|f| f["id"] != "ratios"), "there is nothing to compare");
    page.has_its_marks();
    page.is_accessible("one measurement", &["dark"]);
    page.was_quiet();
}

pub fn of_many() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = made::store(&folder.path().join("s.db"), &made::built_in("irq-placement"), 50);
    let (status, said) = iotrail(folder.path(), &["report", &run.to_string(), "--store", "s.db", "-o", "page.html"]);
    assert_eq!(status, 0, "{said}");
    let bytes = folder.path().join("page.html").metadata().expect("it was written").len();
    assert!(bytes < 10 << 20, "{bytes} bytes");
    let Some(mut page) = Page::open("a thousand", &folder.path().join("page.html")) else { return };
    assert!(page.column("course", "iops").len() >= 1000, "{}", page.column("course", "iops").len());
    page.has_its_marks();
    page.was_quiet();
}

pub fn overwrites_its_own_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("page.html");
    made::store(&folder.path().join("s.db"), &made::built_in("getevents"), 1);
    let report = || iotrail(folder.path(), &["report", "last", "--store", "s.db", "-o", "page.html"]);
    std::fs::write(&path, "<!DOCTYPE html>\n<p>somebody's").expect("a file of our own");
    let (status, said) = report();
    assert_eq!((status, said.contains("is not an iotrail report")), (2, true), "{said}");
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "<!DOCTYPE html>\n<p>somebody's");
    std::fs::remove_file(&path).expect("a file of our own");
    for _ in 0..2 {
        let (status, said) = report();
        assert_eq!((status, said.trim()), (0, "report: page.html"));
    }
    let left = std::fs::read_dir(folder.path()).expect("our folder").count();
    assert_eq!(left, 2, "the store and the page");
    let (status, said) = iotrail(folder.path(), &["report", "last", "--store", "s.db", "-o", "nowhere/page.html"]);
    assert_eq!((status, said.contains("cannot create nowhere/page.html")), (2, true), "{said}");
}
