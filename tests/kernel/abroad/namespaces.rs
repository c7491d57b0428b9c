//! PID namespaces, nested ones, no /proc at all: counts are those of outside.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use iotrail::measurement::Measurement;
use libtest_mimic::Failed;
use serde_json::Value;

use super::Test;
use crate::bench::{exact, file};

pub const TESTS: &[(&str, Test)] = &[
    ("a_load_in_a_pid_namespace_is_counted_as_outside", loads),
    ("a_network_load_in_a_pid_namespace_is_counted", network),
    ("a_run_in_a_pid_namespace_is_counted", run),
];

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

/// Around a command. The last: no /proc of any namespace.
const SURROUNDINGS: [&[&str]; 5] = [
    &["unshare", "-pf"],
    &["unshare", "-pf", "--mount-proc"],
    &["unshare", "-pf", "--mount-proc", "unshare", "-pf"],
    &["unshare", "-pf", "unshare", "-pf", "--mount-proc"],
    &["unshare", "-mpf", "sh", "-c", "umount -l /proc && exec \"$@\"", "sh"],
];

fn within(around: &[&str]) -> Command {
    let mut command = Command::new(around[0]);
    command.args(&around[1..]).arg(TOOL).stdin(Stdio::null());
    command
}

fn ended(command: &mut Command) -> Result<Output, Failed> {
    let out = command.output()?;
    assert!(out.status.success(), "{command:?}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    Ok(out)
}

fn codes(m: &Measurement) -> Vec<&str> {
    m.warnings.iter().map(|w| w.code.as_str()).collect()
}

fn loads() -> Result<(), Failed> {
    for around in SURROUNDINGS {
        let bench = |options: &str| -> Result<Measurement, Failed> {
            let mut command = within(around);
            command
                .args(["bench", "--json", "--trace", "on", "--count", "2000", "--warmup", "20ms"])
                .args(options.split_whitespace());
            Ok(serde_json::from_slice(&ended(&mut command)?.stdout)?)
        };
        let on_file = format!("--file {} --depth 4", file().display());

        let nops = bench("--rw nop")?;
        exact(&nops);
        assert_eq!((nops.ios, nops.per_io.syscalls), (2000, Some(1.0)), "{around:?}");

        // Followed requests come from the same threads.
        let followed = bench(&format!("{on_file} --follow 1"))?;
        exact(&followed);
        let completions = followed.followed.as_ref().map(|f| (f.completions, f.unfinished));
        assert_eq!(completions, Some((2000, 0)), "{around:?}");

        exact(&bench(&format!("{on_file} --engine posix_aio"))?);
        let has_proc = !around.contains(&"-mpf");
        if has_proc {
            // A thread that looks from user mode has to be kicked; a disk may be done before a submission returns, but not each time.
            let peeking = bench(&format!("{on_file} --wait peek --cpus non-irq"))?;
            exact(&peeking);
            assert!(peeking.per_io.kicks > Some(0.01), "{around:?}: {:?}", peeking.per_io);
            assert!(peeking.per_io.task_work_runs > Some(0.01), "{around:?}: {:?}", peeking.per_io);
            assert!(!codes(&peeking).contains(&"not_watched"), "{around:?}");
        } else {
            assert_eq!(nops.per_io.kicks, None, "call sites have no names without /proc/kallsyms");
        }
        let polled = bench("--rw nop --ring sqpoll --jobs 2")?;
        exact(&polled);
        assert_eq!(polled.cpu.sqpoll_ns > Some(0), has_proc, "{around:?}: {:?}", polled.cpu);
    }
    Ok(())
}

fn network() -> Result<(), Failed> {
    // Without /proc there is no way to start the other end.
    for around in &SURROUNDINGS[..4] {
        let mut command = within(around);
        command.args(["net", "bench", "--json", "--engine", "io_uring", "--server-threads", "1", "--trace", "on"]);
        command.args(["--connections", "4", "--window", "2", "--warmup", "50ms", "--count", "2000"]);
        let m: Measurement = serde_json::from_slice(&ended(&mut command)?.stdout)?;
        let net = m.net.as_ref().ok_or("a network's measurement")?;
        let total = &net.server.as_ref().ok_or("a server's counts")?.total;
        let sum: u64 = m.vehicles.iter().map(|v| v.completions).sum();
        assert_eq!((m.ios, total.counts.requests), (2000, 2000), "{around:?}");
        assert_eq!((Some(sum), m.probe.untracked), (m.probe.completions_seen, Some(0)), "{around:?}");
        assert_eq!(sum, total.counts.completions, "{around:?}");
        assert!(sum > 0 && m.per_io.task_work_runs > Some(0.0), "{around:?}: {:?}", m.per_io);
        assert!(total.user_ns.is_some() && !codes(&m).contains(&"cpu_unknown"), "{around:?}: {:?}", codes(&m));
    }
    Ok(())
}

const EXPERIMENT: &str = r#"
name = "inside"
title = "t"
question = "q"
expect = "e"
repeats = 2
[load]
rw = "randread"
wait = "peek"
cpus = "non-irq"
count = 1000
warmup = "0"
[[arm]]
name = "default"
[[arm]]
name = "coop"
ring = "coop_taskrun"
"#;

fn run() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (experiment, store) = (folder.path().join("inside.toml"), folder.path().join("store.db"));
    std::fs::write(&experiment, EXPERIMENT)?;
    for around in &SURROUNDINGS[..2] {
        let mut command = within(around);
        command.arg("run").arg(&experiment).args(["--json", "--store"]).arg(&store).arg("--file").arg(file());
        let record: Value = serde_json::from_slice(&ended(&mut command)?.stdout)?;
        let mut kicks = vec![];
        for cell in record["cells"].as_array().ok_or("cells")? {
            for m in cell["measurements"].as_array().ok_or("measurements")? {
                assert_eq!((&m["ios"], &m["probe"]["completions_seen"]), (&1000.into(), &1000.into()), "{around:?}");
                kicks.push((cell["params"]["arm"].clone(), m["per_io"]["kicks"].as_f64().ok_or("counted")?));
            }
        }
        assert_eq!(kicks.len(), 6, "each arm and the control, twice: {kicks:?}");
        assert!(kicks.iter().filter(|(arm, _)| arm == "default").all(|(_, n)| *n > 0.01), "{around:?}: {kicks:?}");
    }
    assert!(Path::new(&store).exists());
    Ok(())
}
