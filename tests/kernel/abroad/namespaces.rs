//! PID namespaces, nested PID namespaces, no /proc: the counts equal those outside.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use iotrail_schema::measurement::Measurement;
use iotrail_schema::trace_record::{Subject, TraceRecord};
use libtest_mimic::Failed;
use serde_json::Value;

use super::Test;
use crate::bench::{exact, file};
use crate::beside::within_a_minute;
use crate::ground::{counts, ground};

pub const TESTS: &[(&str, Test)] = &[
    ("a_load_in_a_pid_namespace_is_counted_like_one_outside", loads),
    ("a_network_load_in_a_pid_namespace_is_counted", network),
    ("a_run_in_a_pid_namespace_is_counted", run),
    ("a_command_in_a_pid_namespace_is_traced_exactly", commands),
    ("a_process_is_identified_by_its_pid_in_the_namespace", by_number),
    ("process_1_is_rejected_on_the_host_and_traced_in_a_container", first_process),
    ("background_processes_of_a_command_are_traced", background),
    ("background_processes_survive_the_end_of_a_trace", stopped),
    ("error_reasons_are_correct_without_proc", no_proc),
];

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

/// Commands that run another command in namespaces. The last one has no /proc.
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
        assert_eq!((nops.ios.unwrap(), nops.per_io.syscalls), (2000, Some(1.0)), "{around:?}");

        // The traced requests come from the same threads.
        let followed = bench(&format!("{on_file} --follow 1"))?;
        exact(&followed);
        let completions = followed.followed.as_ref().map(|f| (f.completions, f.unfinished));
        assert_eq!(completions, Some((2000, 0)), "{around:?}");

        exact(&bench(&format!("{on_file} --engine posix_aio"))?);
        let has_proc = !around.contains(&"-mpf");
        if has_proc {
            // A thread that polls in user mode has to be kicked, except for I/Os that complete before their submission
            // returns.
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
    // Without /proc, the other end cannot be started.
    for around in &SURROUNDINGS[..4] {
        let mut command = within(around);
        command.args(["net", "bench", "--json", "--engine", "io_uring", "--server-threads", "1", "--trace", "on"]);
        command.args(["--connections", "4", "--window", "2", "--warmup", "50ms", "--count", "2000"]);
        let m: Measurement = serde_json::from_slice(&ended(&mut command)?.stdout)?;
        let net = m.net.as_ref().ok_or("a network's measurement")?;
        let total = &net.server.as_ref().ok_or("a server's counts")?.total;
        let sum: u64 = m.vehicles.iter().map(|v| v.completions).sum();
        assert_eq!((m.ios.unwrap(), total.counts.requests), (2000, 2000), "{around:?}");
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

fn traced(out: &Output) -> Result<TraceRecord, Failed> {
    Ok(serde_json::from_slice(&out.stdout).map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&out.stderr)))?)
}

/// The counts equal the program's own, as outside of a namespace.
fn commands() -> Result<(), Failed> {
    for around in SURROUNDINGS {
        // The scenario needs /proc to find the CPU of the disk's interrupts.
        let has_proc = !around.contains(&"-mpf");
        for scenario in ["fork_children", "inline_nop", "sqpoll"].into_iter().filter(|s| has_proc || *s != "sqpoll") {
            let mut command = within(around);
            command.args(["trace", "--json", "--one-in", "1", "--"]).arg(ground()).arg(scenario);
            if scenario == "sqpoll" {
                // /proc is read every 100 ms, and a fast disk completes 4,000 reads in less time.
                command.args(["--count", "20000"]);
            }
            let out = ended(&mut command)?;
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            let truth = said.lines().rev().find(|l| l.starts_with('{')).ok_or_else(|| format!("{scenario}: {said}"))?;
            let truth: Value = serde_json::from_str(truth)?;
            let trace = traced(&out)?;
            counts(&trace, &truth);
            let inside: Vec<Option<u64>> =
                truth["rings"].as_array().ok_or("rings")?.iter().map(|r| r["tgid"].as_u64()).collect();
            for ring in &trace.rings {
                let process = trace.total.processes.iter().find(|p| p.tgid == ring.tgid);
                let process =
                    process.ok_or_else(|| format!("{around:?} {scenario}: process {} has no name", ring.tgid))?;
                assert_eq!((process.comm.as_str(), process.found), ("ground", false), "{around:?} {scenario}");
                // Both PIDs can be read only while the process is alive: a process of a few milliseconds may have been
                // missed.
                if let Some(here) = process.here {
                    assert!(inside.contains(&Some(here.into())), "{around:?} {scenario}: {here} of {inside:?}");
                    assert_ne!(here, process.tgid, "{around:?} {scenario}");
                }
                assert!(has_proc || ring.fds.is_empty(), "{around:?}: {:?}", ring.fds);
                if scenario == "sqpoll" {
                    assert!(process.here.is_some(), "{around:?}: {process:?}");
                    let sqpoll = ring.sqpoll.as_ref().ok_or("it has a thread")?;
                    assert!(sqpoll.cpu_ns > Some(0), "{around:?}: {sqpoll:?}");
                    assert!(!ring.fds.is_empty(), "{around:?}: {ring:?}");
                }
            }
            let codes: Vec<&str> = trace.total.warnings.iter().map(|w| w.code.as_str()).collect();
            assert!(codes.contains(&"pid_namespace"), "{around:?}: {codes:?}");
        }
    }
    Ok(())
}

/// A load that starts when its standard input is closed.
fn waiting_load(count: u32) -> String {
    format!("read go; exec {TOOL} bench --rw nop --warmup 0 --trace off --count {count} >/dev/null")
}

fn by_number() -> Result<(), Failed> {
    for around in &SURROUNDINGS[1..4] {
        // The load starts after the message about its child, which shows that the child is traced.
        let script = format!(
            "f=$(mktemp -u); mkfifo $f; sh -c 'sleep 600 & {load}; kill $!' <$f & one=$!; exec 3>$f; \
             {TOOL} trace --json -p $one 2>$f.said & t=$!; \
             for i in $(seq 600); do grep -q watching $f.said && break; sleep 0.05; done; \
             echo >&3; wait $t; rm -f $f $f.said; echo $one >&2",
            load = waiting_load(3000).replace("exec ", "")
        );
        let mut command = Command::new(around[0]);
        command.args(&around[1..]).args(["sh", "-c", &script]).stdin(Stdio::null());
        let out = command.output()?;
        let trace = traced(&out)?;
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let here: u32 = said.trim().lines().last().ok_or("its number")?.parse().map_err(|e| format!("{e}: {said}"))?;
        let Subject::Process { tgid, comm, descendants } = &trace.subject else { panic!("{:?}", trace.subject) };
        assert_eq!((comm.as_str(), *descendants), ("sh", 1), "{around:?}");
        assert_ne!(*tgid, here);
        let named = trace.total.processes.iter().find(|p| p.tgid == *tgid).and_then(|p| p.here);
        assert_eq!((named, trace.total.ios), (Some(here), 3000), "{around:?}: {:?}", trace.total.processes);
    }
    Ok(())
}

fn first_process() -> Result<(), Failed> {
    for verb in ["trace", "top"] {
        let out = Command::new(TOOL).args([verb, "-p", "1"]).output()?;
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(
            said.contains("is the ancestor of all processes on this machine; trace all processes with -a"),
            "{said}"
        );
    }
    // sh does not exec its first command, because a second one follows.
    let script = format!("{TOOL} trace --json -d 300ms -p 1; true");
    let mut command = Command::new("unshare");
    command.args(["-pf", "--mount-proc", "sh", "-c", &script]);
    let trace = traced(&ended(&mut command)?)?;
    let Subject::Process { tgid, comm, descendants } = &trace.subject else { panic!("{:?}", trace.subject) };
    // Its only child is iotrail, which does not trace itself.
    assert_eq!((comm.as_str(), *descendants), ("sh", 0));
    assert_ne!(*tgid, 1);
    Ok(())
}

fn background() -> Result<(), Failed> {
    // A shell in a session of its own, and one whose parent has exited: no process waits for either.
    let daemon = format!("sleep 0.3; {TOOL} bench --rw nop --warmup 0 --trace off --count 3000");
    let script = format!("(setsid sh -c '{daemon}' >/dev/null 2>&1 &); (sh -c '{daemon}' >/dev/null 2>&1 &); exit 5");
    let trace = |options: &[&str], script: &str, status: i32| -> Result<(TraceRecord, String), Failed> {
        let mut command = Command::new(TOOL);
        command.args(["trace", "--json"]).args(options).args(["--", "sh", "-c", script]);
        let out = command.output()?;
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(status), "the command's own: {said}");
        Ok((traced(&out)?, said))
    };
    let (whole, said) = trace(&[], &script, 5)?;
    assert_eq!(whole.total.ios, 6000, "{said}");
    let Subject::Command { exit_status, .. } = whole.subject else { panic!("{:?}", whole.subject) };
    assert_eq!(exit_status, Some(5), "the command's own");
    assert_eq!(said.matches("sh has ended (status 5); still tracing ").count(), 1, "{said}");
    assert!(said.contains("--until command stops here"), "{said}");
    assert!(!whole.total.warnings.iter().any(|w| w.code == "left_running"), "{:?}", whole.total.warnings);

    let (command, said) = trace(&["--until", "command"], &script, 5)?;
    assert!(!said.contains("still watching"), "{said}");
    assert_eq!(command.total.ios, 0, "they begin after it has ended");
    let left = command.total.warnings.iter().find(|w| w.code == "left_running").ok_or("it is said")?;
    assert!(left.text.contains("it left: "), "{}", left.text);

    // No process is left: the trace ends with the command, without a message.
    let (quiet, said) = trace(&[], "sleep 0.1 & wait; exit 0", 0)?;
    assert!(!said.contains("still watching"), "{said}");
    assert!(quiet.total.warnings.iter().all(|w| w.code != "left_running"));
    Ok(())
}

/// A background process does not belong to iotrail: neither Ctrl-C nor the end of the duration kills it.
fn stopped() -> Result<(), Failed> {
    let script = "(setsid sleep 600 >/dev/null 2>&1 &); exit 0";
    for options in [&[] as &[&str], &["--duration", "1s"]] {
        let mut command = Command::new(TOOL);
        command.args(["trace", "--json"]).args(options).args(["--", "sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let list = format!("/proc/{0}/task/{0}/children", child.id());
        if options.is_empty() {
            let mut stderr = child.stderr.take().ok_or("piped")?;
            let mut said = Vec::new();
            let mut byte = [0];
            while !said.ends_with(b"stops now") {
                assert_eq!(stderr.read(&mut byte)?, 1, "{}", String::from_utf8_lossy(&said));
                said.push(byte[0]);
            }
            within_a_minute("the end of the command", || {
                std::fs::read_to_string(&list).is_ok_and(|l| l.trim().is_empty())
            });
            // SAFETY: an unreaped child.
            unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
        }
        let trace = traced(&child.wait_with_output()?)?;
        let left = trace.total.warnings.iter().find(|w| w.code == "left_running").ok_or("it is said")?;
        let number = left.text.split("it left: ").nth(1).and_then(|l| l.split(' ').next()).ok_or("a number")?;
        let number: libc::pid_t = number.parse().map_err(|e| format!("{e}: {}", left.text))?;
        let name = std::fs::read_to_string(format!("/proc/{number}/comm"))?;
        assert_eq!(name, "sleep\n", "it goes on");
        // SAFETY: the process that this test started, which only process 1 reaps.
        unsafe { libc::kill(number, libc::SIGKILL) };
    }
    Ok(())
}

fn no_proc() -> Result<(), Failed> {
    let said = |args: &[&str]| -> Result<String, Failed> {
        let out = within(SURROUNDINGS[4]).args(args).output()?;
        let text = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let file = file().to_str().ok_or("a path")?;
    let refused = said(&["bench", "--file", file, "--cpus", "irq", "--count", "10"])?;
    assert!(refused.contains("--cpus irq: /proc is not mounted here, so"), "{refused}");
    let refused = said(&["bench", "--rw", "nop", "--count", "10", "--profile"])?;
    assert!(refused.contains("/proc is not mounted here"), "{refused}");
    let trace = said(&["trace", "--json", "--", "true"])?;
    assert!(trace.contains("/proc is not mounted here; lost: POSIX AIO requests"), "{trace}");
    assert!(!trace.contains("this kernel has no posix_aio"), "{trace}");
    let check = said(&["check"])?;
    assert!(
        check.contains("kernel symbols /proc is not mounted here") && !check.contains("CONFIG_KALLSYMS"),
        "{check}"
    );
    Ok(())
}
