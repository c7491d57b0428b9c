//! Call sites of programs with known proportions. Asserts counts and names, but no times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use iotrail_schema::account::ThreadState;
use iotrail_schema::stacks::{SiteAction, SiteUse, StackGapCode, Stacks};
use iotrail_schema::trace_record::TraceRecord;
use libtest_mimic::{Failed, Trial};

use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 9] = [
        ("call_sites_are_reported_with_names_and_shares", with_frame_pointers),
        ("call_sites_are_named_and_missing_frame_pointers_reported", without_frame_pointers),
        ("inlined_call_sites_of_cpp_are_reported_with_names_and_shares", cpp),
        ("call_sites_of_rust_are_reported_with_names_and_shares", rust),
        ("call_sites_of_go_are_reported_with_names_and_shares", go),
        ("a_stripped_program_is_reported_as_having_no_symbols", stripped),
        ("call_sites_are_reported_with_their_share_of_the_cpu_time", on_cpu),
        ("a_broken_budget_is_reported_with_the_call_site", budget),
        ("a_stored_trace_is_exported_as_folded_stacks_and_a_profile", exported),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("stacks::{name}"), test)).collect()
}

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");
const TURNS: &str = "400";

fn place() -> Result<tempfile::TempDir, Failed> {
    Ok(tempfile::Builder::new().prefix("stacks-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}

fn built(place: &Path, options: &[&str]) -> Result<PathBuf, Failed> {
    built_by("cc", place, options, "callsites.c")
}

fn built_by(compiler: &str, place: &Path, options: &[&str], source: &str) -> Result<PathBuf, Failed> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel").join(source);
    let program = place.join("sites");
    let mut command = Command::new(compiler);
    command.args(options).arg("-o").arg(&program).arg(source);
    let out = command.output().map_err(|e| format!("{compiler}: {e}"))?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Ok(program)
}

fn traced(program: &Path) -> Result<Stacks, Failed> {
    traced_with(program, &[TURNS])?.stacks.ok_or_else(|| "stacks".into())
}

fn traced_with(program: &Path, arguments: &[&str]) -> Result<TraceRecord, Failed> {
    let args = ["trace", "--call-sites", "--exact", "--no-store", "--json", "--"];
    let out = Command::new(TOOL).args(args).arg(program).args(arguments).output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// The last part of a C++, Rust or Go name: `store::Log<1>::submits()`, `sites::store::Ring::submits`,
/// `main.(*Ring).submits`.
fn own_name(function: &str) -> String {
    let name = function.trim_end_matches("()");
    name.rsplit([':', '.']).next().unwrap_or(name).to_owned()
}

/// Counts by call site, for one action with one system call or operation.
fn at_sites(stacks: &Stacks, action: SiteAction, name: &str, of: fn(&SiteUse) -> u64) -> BTreeMap<String, u64> {
    let mut sites = BTreeMap::new();
    for stack in &stacks.stacks {
        let Some(site) = stack.site else { continue };
        let function = own_name(stacks.frames[site as usize].function.as_deref().unwrap_or("?"));
        let meant = stack.uses.iter().filter(|use_| use_.action == action && use_.name == name);
        let n: u64 = meant.map(of).sum();
        if n > 0 {
            *sites.entry(function).or_default() += n;
        }
    }
    sites
}

/// Three no-ops per read, and one sleep at each of two sites. The estimates' standard deviations are below 20 % of the
/// counts.
fn has_shares(stacks: &Stacks) {
    has_shares_with(stacks, "clock_nanosleep");
}

fn has_shares_with(stacks: &Stacks, sleep: &str) {
    let submits = |name| at_sites(stacks, SiteAction::Submits, name, |of| of.count);
    let nops = submits("nop");
    let reads = submits("read");
    assert_eq!((nops.keys().map(String::as_str).collect::<Vec<_>>(), nops.len()), (vec!["submits"], 1), "{nops:?}");
    assert_eq!(reads.keys().map(String::as_str).collect::<Vec<_>>(), ["fails"], "{reads:?}");
    let ratio = nops["submits"] as f64 / reads["fails"] as f64;
    assert!((1.5..6.0).contains(&ratio), "three to one: {nops:?} {reads:?}");
    assert_eq!(submits("nop").values().sum::<u64>(), nops["submits"]);
    let errors = at_sites(stacks, SiteAction::Submits, "read", |of| of.errors);
    assert_eq!(errors, reads, "each of these fails");
    assert!(at_sites(stacks, SiteAction::Submits, "nop", |of| of.errors).is_empty());
    let sleeps = at_sites(stacks, SiteAction::Sleeps, sleep, |of| of.count);
    assert_eq!(sleeps.keys().map(String::as_str).collect::<Vec<_>>(), ["blocks", "naps"], "{sleeps:?}");
    let ratio = sleeps["blocks"] as f64 / sleeps["naps"] as f64;
    assert!((0.4..2.5).contains(&ratio), "as often: {sleeps:?}");
}

fn gaps(stacks: &Stacks, module: &Path) -> Vec<StackGapCode> {
    let of = stacks.gaps.iter().filter(|gap| Path::new(&gap.module) == module);
    of.map(|gap| gap.code).collect()
}

fn with_frame_pointers() -> Result<(), Failed> {
    let place = place()?;
    let program = built(place.path(), &["-O1", "-g", "-fno-omit-frame-pointer"])?;
    let stacks = traced(&program)?;
    has_shares(&stacks);
    assert!(gaps(&stacks, &program).is_empty(), "{:?}", stacks.gaps);
    let site = stacks.frames.iter().find(|frame| frame.function.as_deref() == Some("submits")).ok_or("its frame")?;
    assert!(site.file.as_deref().is_some_and(|file| file.ends_with("callsites.c")) && site.line.is_some(), "{site:?}");
    let caller = stacks
        .stacks
        .iter()
        .find(|stack| stack.uses.iter().any(|of| of.action == SiteAction::Submits && of.name == "nop"));
    let functions = caller.ok_or("a stack")?.frames.iter().map(|n| stacks.frames[*n as usize].function.as_deref());
    assert!(functions.collect::<Vec<_>>().contains(&Some("main")), "its caller");
    Ok(())
}

fn without_frame_pointers() -> Result<(), Failed> {
    let place = place()?;
    let program = built(place.path(), &["-O2", "-g", "-fomit-frame-pointer"])?;
    let stacks = traced(&program)?;
    has_shares(&stacks);
    assert!(gaps(&stacks, &program).contains(&StackGapCode::NoFramePointers), "{:?}", stacks.gaps);
    Ok(())
}

fn cpp() -> Result<(), Failed> {
    let place = place()?;
    let program = built_by("c++", place.path(), &["-O2", "-g", "-fno-omit-frame-pointer"], "callsites.cc")?;
    let stacks = traced(&program)?;
    has_shares(&stacks);
    assert!(gaps(&stacks, &program).is_empty(), "{:?}", stacks.gaps);
    let site = stacks.frames.iter().find(|frame| frame.function.as_deref().is_some_and(|f| f.contains("submits")));
    let site = site.ok_or("its frame")?;
    assert!(site.inlined && site.function.as_deref() == Some("store::Log<1>::submits()"), "{site:?}");
    assert!(site.file.as_deref().is_some_and(|file| file.ends_with("callsites.cc")), "{site:?}");
    Ok(())
}

fn rust() -> Result<(), Failed> {
    let place = place()?;
    let options = ["--edition", "2024", "-O", "-g", "-C", "force-frame-pointers=yes"];
    let program = built_by("rustc", place.path(), &options, "callsites.rs")?;
    let stacks = traced(&program)?;
    has_shares(&stacks);
    assert!(gaps(&stacks, &program).is_empty(), "{:?}", stacks.gaps);
    Ok(())
}

/// If Go is installed.
fn go() -> Result<(), Failed> {
    if Command::new("go").arg("version").output().is_err() {
        return Ok(());
    }
    let place = place()?;
    let program = place.path().join("sites");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/callsites.go");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(source).env("GOCACHE", place.path().join("cache"));
    let out = build.output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let stacks = traced(&program)?;
    has_shares_with(&stacks, "nanosleep");
    Ok(())
}

fn stripped() -> Result<(), Failed> {
    let place = place()?;
    let program = built(place.path(), &["-O1", "-fno-omit-frame-pointer", "-s"])?;
    let stacks = traced(&program)?;
    assert!(gaps(&stacks, &program).contains(&StackGapCode::Stripped), "{:?}", stacks.gaps);
    let sites = at_sites(&stacks, SiteAction::Submits, "nop", |of| of.count);
    assert_eq!(sites.keys().map(String::as_str).collect::<Vec<_>>(), ["?"], "{sites:?}");
    Ok(())
}

/// Three quarters of the computing, from a few hundred samples. All samples add up to the CPU time, except for threads'
/// last ticks.
fn on_cpu() -> Result<(), Failed> {
    let place = place()?;
    let program = built(place.path(), &["-O1", "-g", "-fno-omit-frame-pointer"])?;
    let trace = traced_with(&program, &["1", "500"])?;
    let stacks = trace.stacks.ok_or("stacks")?;
    let sites = at_sites(&stacks, SiteAction::Runs, "user", |of| of.ns);
    let of = |name: &str| sites.get(name).copied().unwrap_or(0) as f64;
    let samples: u64 = at_sites(&stacks, SiteAction::Runs, "user", |of| of.samples).values().sum();
    // Seven standard deviations of a 75 % share: next to other programs, samples represent unequal times.
    let (share, within) = (of("computes") / (of("computes") + of("adds")), 3.0 / (samples as f64).sqrt());
    assert!((share - 0.75).abs() < within, "{sites:?}, {samples} samples");
    let threads = trace.account.ok_or("an account")?.threads;
    let rows = threads.iter().flat_map(|thread| &thread.rows).filter(|row| row.state == ThreadState::Running);
    let ran: u64 = rows.map(|row| row.ns).sum();
    let ratio = sites.values().sum::<u64>() as f64 / ran as f64;
    assert!((0.8..1.01).contains(&ratio), "{ratio} of the CPU time is in samples");
    Ok(())
}

fn budget() -> Result<(), Failed> {
    let place = place()?;
    let program = built(place.path(), &["-O1", "-g", "-fno-omit-frame-pointer"])?;
    let limits = place.path().join("budget.toml");
    std::fs::write(&limits, "[budget]\nerrors = 0\n")?;
    let out = Command::new(TOOL)
        .args(["trace", "--no-store", "--expect"])
        .arg(&limits)
        .arg("--")
        .arg(&program)
        .arg(TURNS)
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(1), "{text}");
    let from = text.lines().skip_while(|line| !line.contains("BROKEN")).nth(1).ok_or("its call site")?;
    assert!(from.contains("from: fails (callsites.c:") && from.ends_with("100 %"), "{text}");
    Ok(())
}

fn exported() -> Result<(), Failed> {
    let place = place()?;
    let program = built(place.path(), &["-O1", "-g", "-fno-omit-frame-pointer"])?;
    let store = place.path().join("s.db");
    let tool = |args: &[&str]| Command::new(TOOL).args(args).arg("--store").arg(&store).output();
    let out = Command::new(TOOL)
        .args(["trace", "--call-sites", "--store"])
        .arg(&store)
        .arg("--")
        .arg(&program)
        .arg(TURNS)
        .output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let folded = tool(&["export", "t1", "--folded", "-", "--value", "errors"])?;
    let text = String::from_utf8_lossy(&folded.stdout);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line.starts_with("sites;") && line.contains(";main;fails;")),
        "{text}"
    );
    let profile = place.path().join("p.pb.gz");
    let written = tool(&["export", "t1", "--pprof", &profile.display().to_string()])?;
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let Ok(top) = Command::new("go").args(["tool", "pprof", "-sample_index=errors", "-top"]).arg(&profile).output()
    else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(&top.stdout);
    assert!(top.status.success() && text.contains("fails"), "{text}{}", String::from_utf8_lossy(&top.stderr));
    Ok(())
}
