//! Events from the kernel's own functions, if fentry or kprobes are available, compared with bpftrace's kprobes on the
//! same functions: equal numbers of queued requests and of kicks. Hardened kernels reject them; the lab's kernels do
//! not.

use std::path::Path;
use std::process::Command;

use iotrail_host::kernel::version;
use iotrail_probe::role::Role;
use iotrail_probe::support::{Facts, plan};
use iotrail_schema::trace_record::TraceRecord;
use libtest_mimic::{Failed, Trial};

use crate::ground::ground;
use crate::trial;

pub fn trials() -> Vec<Trial> {
    let missing = match (Facts::of_this_kernel().way, Command::new("bpftrace").arg("--version").output()) {
        (None, _) => Some("the kernel does not allow probing functions"),
        (_, Err(_)) => Some("there is no bpftrace"),
        _ => None,
    };
    if let Some(reason) = missing {
        eprintln!("functions:: is skipped: {reason}");
    }
    // Before 6.4 (afed6271f5b0, pipe: set FMODE_NOWAIT on pipes), a pipe read is queued 127 times for a retry and then
    // punted to io-wq, so the number of additions is not the number of requests.
    let pipes = version().is_some_and(|v| v >= (6, 4, 0));
    let agrees = |scenario: &'static str| {
        trial::test(format!("functions::{scenario}_agrees_with_bpftrace"), move || agrees(scenario))
            .with_ignored_flag(missing.is_some() || (scenario == "pipes" && !pipes))
    };
    ["resched_ipi", "timer_tick", "enter_slept", "pipes", "sockets"].map(agrees).into()
}

/// bpftrace's counts: calls of the functions that add task work, and IPIs sent from within `task_work_add`.
#[derive(Debug, Default)]
struct Theirs {
    added: u64,
    kicks: u64,
}

/// In each scenario, every request is queued once or completes inline.
fn agrees(scenario: &str) -> Result<(), Failed> {
    let (trace, theirs) = watched_by_both(scenario)?;
    let total = &trace.total;
    assert_eq!(total.followed.with_queued, Some(theirs.added), "{scenario}: {theirs:?} {:?}", total.followed);
    let kicks: u64 = total.ipis.iter().filter(|i| i.site.contains("task_work_add")).map(|i| i.count).sum();
    assert_eq!(kicks, theirs.kicks, "{scenario}: {:?}", total.ipis);
    let inline: u64 = total
        .vehicles
        .iter()
        .filter(|v| v.vehicle == iotrail_schema::delivery_path::DeliveryPath::Inline)
        .map(|v| v.completions)
        .sum();
    assert!(theirs.added + inline >= total.ios && theirs.added > 0, "{scenario}: {theirs:?}, {inline} inline");
    let stages = total.stages.as_ref();
    // The queued requests of the same completions.
    let queued = stages.and_then(|s| s.queued_ns.zip(s.queued_delivery_ns));
    assert!(queued.is_none_or(|(ns, of)| 0.0 < ns && ns <= of), "{stages:?}");
    Ok(())
}

/// The architecture's function that sends a reschedule IPI.
fn sender() -> &'static str {
    match (cfg!(target_arch = "aarch64"), version().is_some_and(|v| v >= (6, 4, 0))) {
        (false, _) => "native_smp_send_reschedule",
        (true, true) => "arch_smp_send_reschedule",
        (true, false) => "smp_send_reschedule",
    }
}

fn watched_by_both(scenario: &str) -> Result<(TraceRecord, Theirs), Failed> {
    let chosen = plan(Facts::of_this_kernel(), &[Role::Follow])?.functions;
    let mut script: String = chosen
        .iter()
        .filter(|f| f.program.starts_with("queue_"))
        .map(|f| format!("kprobe:{} {{ @added = count(); }} ", f.function))
        .collect();
    script += &format!("kprobe:{} {{ @sent[kstack(4)] = count(); }}", sender());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (json, load) = (folder.join("functions.json"), folder.join("functions.sh"));
    let command = format!(
        "exec {} trace --json --one-in 1 -- {} {scenario} >{} 2>/dev/null\n",
        env!("CARGO_BIN_EXE_iotrail"),
        ground().display(),
        json.display()
    );
    std::fs::write(&load, command)?;
    // bpftrace starts programs but not scripts.
    let shell = format!("/bin/sh {}", load.display());
    let out = Command::new("bpftrace").args(["-e", &script, "-c", &shell]).output()?;
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    let trace = serde_json::from_slice(&std::fs::read(&json)?)?;
    std::fs::remove_file(&json)?;
    std::fs::remove_file(&load)?;
    Ok((trace, counted(&said)))
}

/// Parses the maps printed by bpftrace: `@added: 3000`, and a stack per key of the other map.
fn counted(said: &str) -> Theirs {
    let mut theirs = Theirs::default();
    let mut kick = false;
    for line in said.lines() {
        let number = || line.rsplit(": ").next().and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0);
        if line.starts_with("@added: ") {
            theirs.added = number();
        } else if line.starts_with("@sent[") {
            kick = false;
        } else if line.trim_start().starts_with("task_work_add+") {
            kick = true;
        } else if line.starts_with("]: ") && kick {
            theirs.kicks += number();
        }
    }
    theirs
}
