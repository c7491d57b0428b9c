//! The kernel's state of rings and sockets, for programs with known problems. Asserts counts and shares within a run.

use std::process::{Command, Stdio};

use iotrail_schema::state::{RingState, StateRecord};
use iotrail_schema::trace_record::TraceRecord;
use libtest_mimic::{Failed, Trial};

use crate::cases::build;
use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 5] = [
        ("deferred_task_work_is_pending_until_the_thread_enters_the_kernel", deferred),
        ("overflowed_completions_are_pending_until_a_thread_enters_the_kernel", overflowed),
        ("closed_files_stay_open_while_requests_use_them", held),
        ("a_short_segment_waits_without_tcp_nodelay", nagle),
        ("a_hung_program_is_explained_at_the_start_of_the_trace", hangs),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("state::{name}"), test)).collect()
}

fn trace(case: &str, args: &[&str]) -> Result<(StateRecord, Vec<String>), Failed> {
    let mut iotrail = Command::new(env!("CARGO_BIN_EXE_iotrail"));
    let out = iotrail.args(["trace", "--json", "--"]).arg(build(case)?).args(args).output()?;
    assert!(out.status.success(), "{case} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    let record: TraceRecord = serde_json::from_slice(&out.stdout)?;
    let codes = record.findings.into_iter().map(|f| f.code).collect();
    Ok((record.state.ok_or("a state")?, codes))
}

fn ring(state: &StateRecord) -> Result<&RingState, Failed> {
    let [ring] = state.rings.as_slice() else { return Err(format!("one ring: {state:?}").into()) };
    Ok(ring)
}

fn deferred() -> Result<(), Failed> {
    let (state, codes) = trace("network/defer_never_entered.c", &[])?;
    let sick = ring(&state)?;
    assert!(sick.unrun * 10 >= sick.samples * 9 && sick.runner == Some(sick.tgid), "{sick:?}");
    assert!(codes.contains(&"pending_work_not_run".into()), "{codes:?}");
    let (state, codes) = trace("network/defer_never_entered.c", &["getevents"])?;
    let healthy = ring(&state)?;
    assert!(healthy.unrun * 2 < healthy.samples, "{healthy:?}");
    assert!(!codes.contains(&"pending_work_not_run".into()), "{codes:?}");
    Ok(())
}

fn overflowed() -> Result<(), Failed> {
    let (state, codes) = trace("network/overflow_without_getevents.c", &[])?;
    let sick = ring(&state)?;
    assert!(sick.overflowed * 10 >= sick.samples * 9 && sick.most_overflowed == Some(136), "{sick:?}");
    assert!(codes.contains(&"overflow_not_flushed".into()), "{codes:?}");
    let (state, codes) = trace("network/overflow_without_getevents.c", &["getevents"])?;
    let healthy = ring(&state)?;
    assert!(healthy.overflowed * 2 < healthy.samples, "{healthy:?}");
    assert!(!codes.contains(&"overflow_not_flushed".into()), "{codes:?}");
    Ok(())
}

fn held() -> Result<(), Failed> {
    let (state, codes) = trace("network/close_pending_recv.c", &[])?;
    let sick = ring(&state)?;
    assert_eq!((sick.most_held, sick.held_opcode.as_deref()), (Some(20), Some("recv")));
    assert!(codes.contains(&"held_by_requests".into()), "{codes:?}");
    let (state, codes) = trace("network/close_pending_recv.c", &["shutdown"])?;
    assert_eq!(ring(&state)?.most_held, Some(0));
    assert!(!codes.contains(&"held_by_requests".into()), "{codes:?}");
    Ok(())
}

fn nagle() -> Result<(), Failed> {
    let (state, codes) = trace("network/nagle_40ms.c", &[])?;
    let sick = state.nagle.ok_or("sockets are read")?;
    assert!(sick.held * 2 > state.samples && sick.fd_held == sick.held, "{state:?}");
    assert_eq!(sick.unsent_bytes, 200);
    assert!(codes.contains(&"nagle".into()), "{codes:?}");
    let (state, codes) = trace("network/nagle_40ms.c", &["nodelay"])?;
    assert_eq!(state.nagle.map(|healthy| healthy.held), Some(0));
    assert!(!codes.contains(&"nagle".into()), "{codes:?}");
    Ok(())
}

/// In the record and on standard error.
fn hangs() -> Result<(), Failed> {
    let mut hanging =
        Command::new(build("network/defer_never_entered.c")?).env("STAY", "60000").stdout(Stdio::null()).spawn()?;
    let pid = hanging.id();
    // The program has submitted only once it sleeps between two system calls.
    let calls = || std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    for _ in 0..1000 {
        if calls().starts_with(&format!("{} ", libc::SYS_clock_nanosleep)) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut iotrail = Command::new(env!("CARGO_BIN_EXE_iotrail"));
    let out = iotrail.args(["trace", "--json", "--duration", "300ms", "-p", &pid.to_string()]).output();
    hanging.kill()?;
    hanging.wait()?;
    let out = out?;
    let told = String::from_utf8_lossy(&out.stderr);
    let record: TraceRecord = serde_json::from_slice(&out.stdout)?;
    let start = record.state.and_then(|state| state.start).ok_or("a state at the start")?;
    let [ring] = start.rings.as_slice() else { return Err(format!("one ring: {start:?}").into()) };
    assert_eq!((ring.unrun, ring.runner), (Some(true), Some(pid)));
    assert!(ring.in_flight.is_none_or(|n| n == 50), "{ring:?}");
    assert_eq!(ring.armed.iter().map(|of| of.requests).sum::<u64>(), 50);
    assert!(start.still_ns.is_some_and(|ns| ns > 0), "{start:?}");
    assert!(told.contains("no ring took a request") && told.contains("IORING_ENTER_GETEVENTS"), "{told}");
    Ok(())
}
