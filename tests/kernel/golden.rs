//! Writes the golden files in tests/golden: short real runs, with the aggregated counts as expected result.

use std::fs;
use std::path::Path;

use libtest_mimic::Failed;

use crate::replay::{counts, watch};

/// Small enough to read.
const MOST_EVENTS: usize = 200;

pub fn write(name: &str, options: &str, ios: u32) -> Result<(), Failed> {
    let words: Vec<&str> = options.split_whitespace().collect();
    let count = words.iter().position(|w| *w == "--count").ok_or("every configuration has a --count")?;
    let ios = ios.to_string();
    let mut short = words;
    short[count + 1] = &ios;
    let options = short.join(" ");
    let got = watch(&options)?;
    assert_eq!((got.recording.lost, got.recording.beyond_capacity, got.counted.lost), (0, 0, 0), "nothing is lost");
    let mut events = got.recording.events;
    if events.len() > MOST_EVENTS {
        return Err(format!("{} events are more than {MOST_EVENTS}: give {name} fewer I/Os", events.len()).into());
    }
    let first = events.first().map(|e| e.time_ns).ok_or("no event was recorded")?;
    let mut lines = String::new();
    for event in &mut events {
        event.time_ns -= first;
        lines += &serde_json::to_string(event)?;
        lines += "\n";
    }
    let vehicles: Vec<_> = counts(&got.counted)
        .into_iter()
        .map(|((vehicle, detail), n)| serde_json::json!({"vehicle": vehicle, "detail": detail, "completions": n}))
        .collect();
    let oddities = iotrail_path::assemble::assemble(&events).oddities;
    let odd: serde_json::Map<String, serde_json::Value> =
        oddities.named().into_iter().filter(|(_, n)| *n > 0).map(|(class, n)| (class.into(), n.into())).collect();
    let expected =
        serde_json::json!({"about": format!("recorded: bench {options}"), "vehicles": vehicles, "oddities": odd});
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    fs::write(folder.join(format!("{name}.jsonl")), lines)?;
    fs::write(folder.join(format!("{name}.expected.json")), serde_json::to_string_pretty(&expected)? + "\n")?;
    Ok(())
}
