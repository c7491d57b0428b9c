//! Few descriptors, little memory, few privileges.

use std::process::{Command, Output};

use libtest_mimic::Failed;
use serde_json::Value;

use super::Test;

pub const TESTS: &[(&str, Test)] = &[
    ("a_low_soft_limit_of_open_files_is_raised_and_restored", soft),
    ("a_low_hard_limit_of_open_files_is_reported_with_the_required_value", hard),
    ("missing_capabilities_of_root_are_reported", capabilities),
    ("check_shows_libbpfs_messages", verbose),
];

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

const LOAD: &str = "bench --rw nop --count 2000 --warmup 0 --trace on --json";

/// Runs in a shell, after `before`.
fn after(before: &str, options: &str) -> Result<Output, Failed> {
    Ok(Command::new("sh").args(["-c", &format!("{before} exec {TOOL} {options}")]).output()?)
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn soft() -> Result<(), Failed> {
    let out = after("ulimit -Sn 64;", LOAD)?;
    assert!(out.status.success(), "{}", said(&out));
    let m: Value = serde_json::from_slice(&out.stdout)?;
    assert_eq!((&m["ios"], &m["probe"]["completions_seen"]), (&2000.into(), &2000.into()));
    // A traced command has the original limits.
    let out = after("ulimit -Sn 64;", "trace --json -- sh -c 'ulimit -Sn >&2'")?;
    assert!(out.status.success(), "{}", said(&out));
    assert!(said(&out).lines().any(|line| line == "64"), "{}", said(&out));
    Ok(())
}

fn items(out: &Output) -> Result<Vec<Value>, Failed> {
    let report: Value = serde_json::from_slice(&out.stdout)?;
    Ok(report["items"].as_array().ok_or("a list")?.clone())
}

fn hard() -> Result<(), Failed> {
    let limit = "this process has reached its open file limit, and each probe needs one file";
    let out = after("ulimit -n 48;", LOAD)?;
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).contains(limit) && said(&out).contains("ulimit -Hn"), "{}", said(&out));
    assert_eq!(said(&out).lines().count(), 1, "{}", said(&out));
    let out = after("ulimit -n 48;", "check --json")?;
    assert!(out.status.success(), "{}", said(&out));
    let items = items(&out)?;
    let item = items.iter().find(|i| i["id"] == "privileges.open_files").ok_or("open files are looked at")?;
    assert_eq!(item["state"], "missing", "{item}");
    let restore = item["restore"].as_str().ok_or("what restores it")?;
    let needed: u64 =
        restore.split_once("ulimit -Hn ").and_then(|(_, r)| r.split(',').next()?.parse().ok()).ok_or("a number")?;
    // The remedy works.
    let out = after(&format!("ulimit -n {needed};"), LOAD)?;
    assert!(out.status.success(), "{needed}: {}", said(&out));
    let refused = items.iter().filter(|i| i["text"].as_str().is_some_and(|t| t.contains("rejected the program")));
    assert_eq!(refused.count(), 0, "{items:?}");
    Ok(())
}

fn capabilities() -> Result<(), Failed> {
    let script = format!("setpriv --bounding-set -sys_admin,-bpf,-perfmon {TOOL} {LOAD}");
    let out = Command::new("sh").args(["-c", &script]).output()?;
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).contains("the process is root without CAP_BPF and CAP_PERFMON"), "{}", said(&out));
    Ok(())
}

fn verbose() -> Result<(), Failed> {
    let check = |options: &str| {
        let script = format!("setpriv --bounding-set -sys_admin,-bpf,-perfmon {TOOL} check --json {options}");
        Command::new("sh").args(["-c", &script]).output()
    };
    let quiet = check("")?;
    assert_eq!(said(&quiet), "");
    let loud = check("--verbose")?;
    assert!(said(&loud).contains("libbpf: "), "{}", said(&loud));
    // The report is the same.
    assert_eq!(items(&quiet)?.len(), items(&loud)?.len());
    Ok(())
}
