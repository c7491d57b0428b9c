//! Loading the probes, listing them, and their reports of missed events.

use std::process::Command;

use iotrail_probe::support::Facts;
use iotrail_probe::survey::{ProgramCheck, State, survey};
use libtest_mimic::{Failed, Trial};

use crate::bench::{file, watched};
use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("probes::each_bpf_program_loads_without_the_others", every_program_loads),
        trial::test("probes::attached_bpf_programs_are_listed", attached_is_listed),
        trial::test("probes::missed_events_are_reported_once", unseen_is_said_once),
    ]
}

fn every_program_loads() -> Result<(), Failed> {
    let (got, facts) = (survey(), Facts::of_this_kernel());
    // Programs on functions follow those on tracepoints; programs that sample the CPU are in a separate object.
    let names: Vec<&str> = got.iter().map(|p| p.name).collect();
    let on_tracepoints: Vec<&str> = facts.programs().map(|p| p.name).collect();
    assert!(names.starts_with(&on_tracepoints) && names.contains(&"queue_added"), "{names:?}");
    assert!(names.ends_with(&["profile_sample", "profile_idle", "profile_timers"]), "{names:?}");
    // A missing feature is distinguished from a refusal.
    let refused: Vec<_> = got.iter().filter(|p| matches!(p.state, State::Missing { refused: true, .. })).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let tracepoints = facts.tracepoints.as_ref().ok_or("the kernel has BTF")?;
    let there = |name: &str| facts.programs().any(|p| p.name == name && tracepoints.contains(p.tracepoint));
    let loads = |p: &&ProgramCheck| p.state == State::Loads;
    assert_eq!(
        got.iter().filter(loads).filter(|p| there(p.name)).count(),
        on_tracepoints.iter().filter(|n| there(n)).count()
    );
    let added = got.iter().find(|p| p.name == "queue_added").filter(loads);
    assert_eq!(added.is_some(), facts.way.is_some(), "functions that may be probed are");
    Ok(())
}

fn attached_is_listed() -> Result<(), Failed> {
    let m = watched("--depth 4 --count 1000");
    assert_eq!(m.probe.mode, "aggregate");
    assert!(m.probe.programs.iter().any(|p| p == "ring_complete"));
    assert!(!m.probe.programs.iter().any(|p| p == "mode_sys_exit"), "no system-call probe by default");
    Ok(())
}

fn unseen_is_said_once() -> Result<(), Failed> {
    // Buffered native AIO is synchronous and leaves no event.
    let options =
        ["--engine", "libaio", "--buffered", "--count", "200", "--warmup", "0", "--trace", "on", "--full", "--file"];
    let out = Command::new(env!("CARGO_BIN_EXE_iotrail")).arg("bench").args(options).arg(file()).output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout)?;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        words.matches("warning: 200 of 200 completions left no event that the probes can use").count(),
        1,
        "{text}"
    );
    assert_eq!(words.matches("200 untracked").count(), 1, "{text}");
    assert_eq!(words.matches("warning: ").count(), 2, "this one, and what --buffered means for libaio: {text}");
    Ok(())
}
