//! `trace` on programs whose doings are known, beside the scenarios of `ground`.

use std::process::Command;

use iotrail::trace_record::TraceRecord;
use libtest_mimic::{Failed, Trial};

pub fn trials() -> Vec<Trial> {
    vec![Trial::test("trace::a_commands_cpu_time_begins_with_it", cpu_time)]
}

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

/// `trace --json` with these arguments.
fn traced(args: &[&str]) -> Result<TraceRecord, Failed> {
    let out = Command::new(TOOL).args(["trace", "--json"]).args(args).output()?;
    assert!(out.status.success(), "trace {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// One thread uses no more CPU time than time goes by; what its process did before it was this command is not its.
fn cpu_time() -> Result<(), Failed> {
    let total = traced(&["--", "true"])?.total;
    let cpu = total.cpu.user_ns.zip(total.cpu.system_ns).map(|(user, system)| user + system).ok_or("it has ended")?;
    assert!(cpu > 0 && cpu <= total.elapsed_ns, "{cpu} ns of CPU time in {} ns", total.elapsed_ns);
    Ok(())
}
