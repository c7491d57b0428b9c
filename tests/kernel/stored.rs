//! Traces in the store: printed again, partial, rejected by the store.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::ground::ground;
use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 6] = [
        ("a_stored_trace_is_printed_identically", shown_again),
        ("a_killed_trace_is_stored_as_partial", killed),
        ("a_store_that_cannot_be_written_causes_only_a_warning", refused),
        ("a_redacted_trace_omits_the_arguments_of_its_command", redacted),
        ("a_budget_is_met_broken_or_not_evaluated", budgets),
        ("stored_traces_are_compared_and_have_latency_histograms", compared),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("stored::{name}"), test)).collect()
}

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

fn tool(store: &Path, args: &[&str]) -> Result<Output, Failed> {
    let (command, rest) = args.split_first().ok_or("a command")?;
    Ok(Command::new(TOOL).arg(command).arg("--store").arg(store).args(rest).stdin(Stdio::null()).output()?)
}

fn json(out: &Output) -> Result<Value, Failed> {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

fn place() -> Result<tempfile::TempDir, Failed> {
    Ok(tempfile::Builder::new().prefix("stored-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}

fn program() -> Vec<String> {
    vec![ground().display().to_string(), "enter_ready".into(), "--count".into(), "200".into()]
}

fn trace(store: &Path, options: &[&str]) -> Result<Output, Failed> {
    let program = program();
    let args: Vec<&str> =
        ["trace"].iter().chain(options).copied().chain(["--"]).chain(program.iter().map(String::as_str)).collect();
    tool(store, &args)
}

fn shown_again() -> Result<(), Failed> {
    let place = place()?;
    let store = place.path().join("s.db");
    let printed = json(&trace(&store, &["--json"])?)?;
    assert_eq!(printed["trace"], "t1");
    assert_eq!(json(&tool(&store, &["report", "t1", "--json"])?)?, printed);
    let listed = json(&tool(&store, &["list", "--json"])?)?;
    let one = &listed["traces"][0];
    assert_eq!(
        (&one["trace"], &one["state"], &one["subject"]),
        (&"t1".into(), &"complete".into(), &program().join(" ").into())
    );
    let explained = json(&tool(&store, &["explain", "t1", "--json", "--slowest", "3"])?)?;
    assert_eq!(explained["ios"].as_array().map(Vec::len), Some(3));
    let names: Vec<_> = std::fs::read_dir(place.path())?.map(|e| e.map(|e| e.file_name())).collect::<Result<_, _>>()?;
    assert_eq!(names, ["s.db"]);
    Ok(())
}

fn killed() -> Result<(), Failed> {
    let place = place()?;
    let store = place.path().join("s.db");
    let mut traced = Command::new("sleep").arg("600").spawn()?;
    let pid = traced.id().to_string();
    let mut iotrail = Command::new(TOOL)
        .args(["trace", "--store"])
        .arg(&store)
        .args(["-p", &pid])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let checkpoint = place.path().join("s.db.trace-1.json");
    let began = Instant::now();
    while !checkpoint.exists() && began.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let written = checkpoint.exists();
    iotrail.kill()?;
    iotrail.wait()?;
    traced.kill()?;
    traced.wait()?;
    assert!(written, "no checkpoint");
    let listed = json(&tool(&store, &["list", "--json"])?)?;
    assert_eq!(listed["traces"][0]["state"], "partial");
    let shown = json(&tool(&store, &["report", "t1", "--json"])?)?;
    assert_eq!(shown["total"]["warnings"][0]["code"], "cut_short");
    assert_eq!(shown["subject"]["process"]["tgid"], traced.id());
    assert!(!checkpoint.exists());
    Ok(())
}

fn refused() -> Result<(), Failed> {
    let out = trace(Path::new("/proc/iotrail/s.db"), &[])?;
    assert!(out.status.success());
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    let warnings: Vec<&str> = stderr.lines().filter(|line| line.starts_with("iotrail: warning: ")).collect();
    assert!(
        matches!(warnings[..], [one] if one.starts_with("iotrail: warning: the trace is not stored: ")),
        "{stderr}"
    );
    let place = place()?;
    let store = place.path().join("s.db");
    let program = program();
    let args = ["trace", "--no-store", "--"].into_iter().chain(program.iter().map(String::as_str));
    assert!(Command::new(TOOL).args(args).env("XDG_STATE_HOME", place.path()).output()?.status.success());
    assert!(!store.exists() && std::fs::read_dir(place.path())?.next().is_none());
    Ok(())
}

fn redacted() -> Result<(), Failed> {
    let place = place()?;
    let store = place.path().join("s.db");
    let printed = json(&trace(&store, &["--json", "--redact"])?)?;
    assert_eq!(printed["subject"]["command"]["argv"][1], "enter_ready");
    let kept = [tool(&store, &["report", "t1", "--json"])?, tool(&store, &["explain", "t1", "--json"])?];
    for out in &kept {
        json(out)?;
        assert!(!String::from_utf8_lossy(&out.stdout).contains("enter_ready"));
    }
    let bytes = std::fs::read(&store)?;
    assert!(!bytes.windows(11).any(|part| part == b"enter_ready"));
    Ok(())
}

fn nops(store: &Path, options: &[&str], count: &str) -> Result<Output, Failed> {
    let ground = ground().display().to_string();
    tool(store, &[&["trace"], options, &["--", &ground, "inline_nop", "--count", count]].concat())
}

fn budgets() -> Result<(), Failed> {
    let place = place()?;
    let [store, budget, junit] = ["s.db", "b.toml", "j.xml"].map(|name| place.path().join(name));
    let [budget_arg, junit_arg] = [&budget, &junit].map(|path| path.to_str().expect("a plain name"));
    let saved = nops(&store, &["--expect-save", budget_arg, "--expect-runs", "2"], "320")?;
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    let text = std::fs::read_to_string(&budget)?;
    for line in ["\"requests\" = 320", "\"completions\" = 320", "\"errors\" = 0"] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    let of = |limits: &str, count| -> Result<Output, Failed> {
        std::fs::write(&budget, limits)?;
        nops(&store, &["--expect", budget_arg, "--junit", junit_arg, "--force"], count)
    };
    let limits = "[budget]\nrequests = 320\nerrors = 0\n[opcode.nop]\ncompletions = '>= 320'\n";
    let kept = of(limits, "320")?;
    assert_eq!(kept.status.code(), Some(0), "{}", String::from_utf8_lossy(&kept.stdout));
    let broken = of(limits, "336")?;
    let said = String::from_utf8_lossy(&broken.stdout).into_owned();
    assert_eq!(broken.status.code(), Some(1), "{said}");
    assert!(said.contains("budget  BROKEN: requests: 336, at most 320, off by 5"), "{said}");
    assert!(std::fs::read_to_string(&junit)?.contains("tests=\"3\" failures=\"1\" errors=\"0\""));
    let unknown = of("[budget]\nrequest = 1\n", "320")?;
    assert_eq!(unknown.status.code(), Some(4));
    let wrong = of("[budget]\nrequests = 'few'\n", "320")?;
    assert_eq!(wrong.status.code(), Some(2));
    Ok(())
}

fn compared() -> Result<(), Failed> {
    let place = place()?;
    let store = place.path().join("s.db");
    for count in ["320", "640"] {
        assert!(nops(&store, &["--one-in", "1"], count)?.status.success());
    }
    let compared = json(&tool(&store, &["compare", "t1", "t2", "--json"])?)?;
    let text = compared.to_string();
    assert!(text.contains("\"requests\"") && text.contains("320") && text.contains("640"), "{text}");
    let shown = json(&tool(&store, &["report", "t1", "--json"])?)?;
    let buckets = shown["total"]["latency_histograms"][0]["buckets"].as_array().ok_or("no histogram")?;
    assert_eq!(buckets.iter().filter_map(|b| b["requests"].as_u64()).sum::<u64>(), 320);
    let hist = tool(&store, &["report", "t1", "--hist"])?;
    assert!(String::from_utf8_lossy(&hist.stdout).lines().any(|l| l.starts_with("nop ") && l.contains("distribution")));
    Ok(())
}
