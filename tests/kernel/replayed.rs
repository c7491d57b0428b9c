//! `replay` of a recorded load with known requests and batches.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::trial;

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("replayed::replay_counts_are_exact_and_a_recorded_replay_matches_the_program", exact),
        trial::test("replayed::a_truncated_recording_is_rejected_with_one_line", cut),
    ]
}

const REQUESTS: u64 = 400;

/// Random writes in batches of 4 on an existing file. Returns the file and the recording.
fn recorded(name: &str) -> (PathBuf, PathBuf) {
    let of = |extension: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{extension}"));
    let (data, recording) = (of("dat"), of("iotrail"));
    std::fs::write(&data, vec![7u8; 4 << 20]).expect("a file can be written");
    let out = Command::new(TOOL)
        .args(["trace", "--for-replay", "--force", "--no-store", "--record"])
        .arg(&recording)
        .args(["--", TOOL, "bench", "--json", "--trace", "off", "--warmup", "0", "--rw", "randwrite", "--buffered"])
        .args(["--depth", "8", "--batch", "4", "--count", &REQUESTS.to_string(), "--allow-write", "--file"])
        .arg(&data)
        .output()
        .expect("iotrail starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    (data, recording)
}

fn replay(recording: &Path, options: &[&str]) -> Output {
    Command::new(TOOL).arg("replay").arg(recording).args(options).output().expect("iotrail starts")
}

fn exact() -> Result<(), Failed> {
    let (data, recording) = recorded("replayed");
    let written = std::fs::read(&data)?;
    let out = replay(&recording, &["--json", "--repeats", "2", "--trace", "on", "--batch", "8"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout)?;
    assert_eq!((&json["ios"], &json["threads"]), (&REQUESTS.into(), &1.into()), "{json}");
    for (arm, batch) in [(0, 4.0), (1, 8.0)] {
        let counts = &json["arms"][arm]["counts"];
        assert_eq!((&counts["ios"], &counts["errors"]), (&REQUESTS.into(), &0.into()), "{json}");
        assert_eq!(counts["batch"], batch, "{json}");
    }
    for figure in ["iops", "in_flight", "calls_per_io"] {
        let figure = &json["fidelity"][figure];
        assert!(figure["recorded"].is_number() && figure["replayed"].is_number(), "{json}");
        assert!(figure["error"].is_number() && figure["ci95"].is_array(), "{json}");
    }
    // Each batch is one call, both in the recording and in the replay.
    let calls = |side: &str| json["fidelity"]["calls_per_io"][side].as_f64().expect("a number");
    assert!(calls("recorded") >= 0.25 && calls("replayed") >= 0.25, "{json}");
    assert!(json["capture_slowdown"].as_f64().is_some_and(|slowdown| slowdown > 0.0), "{json}");
    assert!(std::fs::read(&data)? == written, "the recorded file is only read");

    let once = replay(&recording, &["--once"]);
    let text = String::from_utf8_lossy(&once.stdout).into_owned();
    assert!(once.status.success() && text.starts_with("400 requests replayed in "), "{text}");
    assert!(std::fs::read(&data)? == written, "the recorded file is only read");
    [data, recording].iter().try_for_each(std::fs::remove_file)?;
    Ok(())
}

fn cut() -> Result<(), Failed> {
    let (data, recording) = recorded("cut");
    let bytes = std::fs::read(&recording)?;
    std::fs::write(&recording, &bytes[..bytes.len() - 10])?;
    let out = replay(&recording, &[]);
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((out.status.code(), text.lines().count()), (Some(2), 1), "{text}");
    assert!(text.contains("is truncated at byte "), "{text}");
    [data, recording].iter().try_for_each(std::fs::remove_file)?;
    Ok(())
}
