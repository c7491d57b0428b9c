//! Compares the screen of `iotrail explain` for hand-written recordings, without root and without a kernel.
//!
//! `explain/NAME.jsonl` is a recording as lines of JSON: its header, its entries, and an `end` if present. A final line
//! `{"cut_bytes": N}` truncates the file by N bytes. `explain/NAME.txt` is the output with all I/Os.
//! IOTRAIL_WRITE_GOLDEN=1 writes the texts instead of comparing them; review the difference before committing it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use iotrail_answer::explain::{Selection, explain};
use iotrail_base::output::Existing;
use iotrail_path::slowest::By;
use iotrail_report::terminal;
use iotrail_schema::recorded::{End, Entry, Header};
use iotrail_watch::recording::{Reader, Writer};
use libtest_mimic::{Failed, Trial};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    End(End),
    CutBytes(u64),
    #[serde(untagged)]
    Entry(Box<Entry>),
}

pub fn trials() -> Vec<Trial> {
    let names: BTreeSet<String> = fs::read_dir(folder())
        .expect("the folder of this test")
        .map(|f| Path::new(&f.expect("a readable folder").file_name()).with_extension("").display().to_string())
        .collect();
    assert!(!names.is_empty(), "nothing in {}", folder().display());
    names.into_iter().map(|n| Trial::test(format!("explain {n}"), move || replay(&n))).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain")
}

fn replay(name: &str) -> Result<(), Failed> {
    let source = fs::read_to_string(folder().join(format!("{name}.jsonl")))?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("recording");
    write(&source, &path)?;
    let reader = Reader::open(&path)?;
    let wanted = Selection { slowest: 100, by: By::Latency, ring: None, opcode: None, failed: false };
    let header = reader.header().clone();
    let explained = explain(header, reader, |r| r.ending().expect("it was read to its end").clone(), &wanted)?;
    let text = terminal::explain("made.iotrail", &explained).to_string();
    for line in text.lines() {
        let width = line.chars().count();
        assert!(width <= 80, "{width} columns: {line}");
    }
    let golden = folder().join(format!("{name}.txt"));
    if std::env::var_os("IOTRAIL_WRITE_GOLDEN").is_some() {
        fs::write(&golden, &text)?;
    }
    let expected = fs::read_to_string(&golden)?;
    if text != expected {
        return Err(format!("{}: not what is printed now:\n{text}", golden.display()).into());
    }
    Ok(())
}

fn write(source: &str, path: &Path) -> Result<(), Failed> {
    let (header, rest) = source.split_once('\n').ok_or("no header")?;
    let header: Header = serde_json::from_str(header)?;
    let mut writer = Some(Writer::create(path, &header, Existing::Keep)?);
    let mut cut = 0;
    for (number, line) in rest.lines().enumerate() {
        let parsed = serde_json::from_str(line).map_err(|e| format!("line {}: {e}", number + 2))?;
        match (parsed, &mut writer) {
            (Line::Entry(entry), Some(w)) => match *entry {
                Entry::Trail(t) => w.push(&t)?,
                Entry::Later(t) => w.push_later(&t)?,
                Entry::Losses(l) => w.losses(l)?,
            },
            (Line::End(end), w) => {
                w.take().ok_or("a second end")?.finish(&end)?;
            }
            (Line::CutBytes(n), _) => cut = n,
            (Line::Entry(_), None) => return Err(format!("line {}: after the end", number + 2).into()),
        }
    }
    drop(writer);
    let file = fs::OpenOptions::new().write(true).open(path)?;
    file.set_len(file.metadata()?.len() - cut)?;
    Ok(())
}
