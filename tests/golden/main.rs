//! Compares delivery paths assembled from recorded events with the expected ones, without root and without a kernel.
//!
//! `NAME.jsonl` contains the events, one per line; `NAME.expected.json` contains the expected counts. Files named
//! `made_…` are hand-written hard cases. The others are real runs, whose expected delivery paths are the counts of the
//! probes at the time (written by tests/kernel/golden.rs). `explain.rs` has recordings of I/Os.

mod explain;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use iotrail_path::assemble::assemble;
use iotrail_path::event::Event;
use iotrail_path::loss::Oddities;
use iotrail_schema::delivery_path::DeliveryPath;
use libtest_mimic::{Arguments, Failed, Trial};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// The command, or the purpose of the case.
    #[serde(rename = "about")]
    _about: String,
    vehicles: Vec<Count>,
    oddities: Oddities,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Count {
    vehicle: DeliveryPath,
    detail: Option<String>,
    completions: u64,
}

fn main() {
    let args = Arguments::from_args();
    let events = names().into_iter().map(|name| Trial::test(name.clone(), move || replay(&name)));
    libtest_mimic::run(&args, events.chain(explain::trials()).collect()).exit();
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Names of all cases; a file without its counterpart is an error.
fn names() -> BTreeSet<String> {
    let names: BTreeSet<String> = fs::read_dir(folder())
        .expect("the folder of this test")
        .filter_map(|entry| {
            let file = entry.expect("a readable folder").file_name().into_string().expect("names are plain");
            let name = file.strip_suffix(".jsonl").or_else(|| file.strip_suffix(".expected.json"))?;
            Some(name.to_owned())
        })
        .collect();
    assert!(!names.is_empty(), "no golden file in {}", folder().display());
    names
}

fn read(file: &str) -> Result<String, Failed> {
    fs::read_to_string(folder().join(file)).map_err(|e| format!("{file}: {e}").into())
}

fn replay(name: &str) -> Result<(), Failed> {
    let expected: Expected = serde_json::from_str(&read(&format!("{name}.expected.json"))?)?;
    let mut events = vec![];
    for (number, line) in read(&format!("{name}.jsonl"))?.lines().enumerate() {
        let event: Event = serde_json::from_str(line).map_err(|e| format!("{name}.jsonl:{}: {e}", number + 1))?;
        assert_eq!(serde_json::to_string(&event)?, line, "{name}.jsonl:{}: written as it was read", number + 1);
        events.push(event);
    }
    let vehicles: BTreeMap<_, _> =
        expected.vehicles.into_iter().map(|c| ((c.vehicle, c.detail), c.completions)).collect();
    let assembled = assemble(&events);
    assert_eq!(assembled.vehicles(), vehicles, "assembled, expected");
    assert_eq!(assembled.oddities, expected.oddities, "assembled, expected");
    Ok(())
}
