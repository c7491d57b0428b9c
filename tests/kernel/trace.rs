//! `trace` on programs with known activity, beyond the scenarios of `ground`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use iotrail_schema::trace_record::{RingRecord, Total, TraceRecord};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::bench::{file, until};
use crate::beside::Beside;
use crate::ground::ground;
use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 10] = [
        ("a_short_lived_command_is_reported_by_its_own_name", name),
        ("the_cpu_time_of_a_command_excludes_the_time_before_exec", cpu_time),
        ("the_cpu_time_of_a_process_is_exact", cpu_time_of_process),
        ("concurrent_programs_are_counted_separately", everyone),
        ("a_command_in_its_own_pid_namespace_is_traced", nested),
        ("direct_writes_are_delayed_by_the_file_system_worker", file_system),
        ("native_aio_is_traced_if_it_starts_during_the_trace", begins_aio),
        ("a_ring_first_seen_in_its_sqpoll_thread_has_its_process_name", polled),
        ("each_linked_request_has_its_own_stages", linked),
        ("trace_exits_with_the_status_of_its_command", status),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("trace::{name}"), test)).collect()
}

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

/// Runs `trace --json` with these arguments.
fn traced(args: &[&str]) -> Result<TraceRecord, Failed> {
    let out = Command::new(TOOL).args(["trace", "--json"]).args(args).output()?;
    assert!(out.status.success(), "trace {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// The program exits before /proc is read; while its process waited at the gate, it was a different program.
fn name() -> Result<(), Failed> {
    let processes = traced(&["--", "true"])?.total.processes;
    assert_eq!(processes.iter().map(|p| (p.comm.as_str(), p.found)).collect::<Vec<_>>(), [("true", false)]);
    Ok(())
}

fn cpu_ns(total: &Total) -> Option<u64> {
    total.cpu.user_ns.zip(total.cpu.system_ns).map(|(user, system)| user + system)
}

/// A thread's CPU time is at most the elapsed time, and excludes its process's time before exec.
fn cpu_time() -> Result<(), Failed> {
    let total = traced(&["--", "true"])?.total;
    let cpu = cpu_ns(&total).ok_or("it has ended")?;
    assert!(cpu > 0 && cpu <= total.elapsed_ns, "{cpu} ns of CPU time in {} ns", total.elapsed_ns);
    Ok(())
}

/// A process that exists before and after the trace but rarely runs: a count of ticks would be 0 or too large.
fn cpu_time_of_process() -> Result<(), Failed> {
    let beside = Beside::bench(file(), "--rate 500")?;
    let ran_ns = || -> Result<u64, Failed> {
        let mut sum = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", beside.id()))? {
            let told = std::fs::read_to_string(task?.path().join("schedstat"))?;
            sum += told.split(' ').next().ok_or("three numbers")?.parse::<u64>()?;
        }
        Ok(sum)
    };
    let before = ran_ns()?;
    let total = traced(&["-p", &beside.id().to_string(), "--duration", "2s"])?.total;
    let most = ran_ns()? - before;
    let cpu = cpu_ns(&total).ok_or("it is there")?;
    assert!(
        total.ios > 500 && (most / 4..=most).contains(&cpu),
        "{cpu} ns of CPU time of at most {most}, {} I/Os",
        total.ios
    );
    Ok(())
}

/// Each chain's reads have a device stage, its no-ops have none. The probes may miss the end of a few reads.
fn linked() -> Result<(), Failed> {
    let ground = ground();
    let t =
        traced(&["--one-in", "1", "--", ground.to_str().ok_or("a plain path")?, "linked_direct", "--count", "600"])?;
    let of = |opcode: &str| {
        let o = t.total.opcodes.iter().find(|o| o.opcode == opcode)?;
        Some((o.completions, o.stages.as_ref().map_or(0, |s| s.completions)))
    };
    let (reads, staged) = of("read").ok_or("it reads")?;
    assert!(reads == 400 && (360..=400).contains(&staged), "{staged} of {reads} reads have stages");
    assert_eq!(of("nop"), Some((200, 0)));
    Ok(())
}

/// By opcode: requests, completions, bytes, errors and short requests.
type Counts = BTreeMap<String, [u64; 5]>;

fn counted<'a>(rings: impl Iterator<Item = &'a RingRecord>) -> Counts {
    let mut sums = Counts::new();
    for o in rings.flat_map(|r| &r.opcodes) {
        let sum = sums.entry(o.opcode.clone()).or_default();
        for (sum, n) in sum.iter_mut().zip([o.requests, o.completions, o.bytes, o.errors, o.short.unwrap_or(0)]) {
            *sum += n;
        }
    }
    sums
}

/// The rings' counts as reported by `ground`.
fn done<'a>(rings: impl Iterator<Item = &'a Value>) -> Counts {
    let mut sums = Counts::new();
    for (opcode, o) in rings.flat_map(|r| r["opcodes"].as_object().expect("opcodes")) {
        let sum = sums.entry(opcode.clone()).or_default();
        for (sum, key) in sum.iter_mut().zip(["requests", "completions", "bytes", "errors", "short"]) {
            *sum += o[key].as_u64().expect("a count");
        }
    }
    sums
}

/// Asserts what holds for every ring, whatever processes are traced.
fn whole(trace: &TraceRecord) {
    assert_eq!(trace.total.probe.lost, Some(0));
    for r in &trace.rings {
        let carried: u64 = r.vehicles.iter().map(|v| v.completions).sum();
        assert_eq!(carried, r.completions, "ring {} of {}", r.ring, r.comm);
    }
}

/// A ground program that waits for its start command; killed unless the test waits for it.
struct Program(Child, BufReader<ChildStderr>);

impl Program {
    fn ready(scenario: &str, count: u32) -> Result<Self, Failed> {
        let mut child = Command::new(ground())
            .args([scenario, "--start-on-stdin", "--count", &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut says = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        says.read_line(&mut line)?;
        assert_eq!(line, "ready\n", "{scenario}");
        Ok(Program(child, says))
    }

    fn start(&mut self) -> Result<(), Failed> {
        Ok(self.0.stdin.take().expect("it has not started").write_all(b"\n")?)
    }

    /// Waits until the program exits, and returns its facts.
    fn truth(mut self) -> Result<Value, Failed> {
        let (mut said, mut failed) = (String::new(), String::new());
        self.0.stdout.take().expect("it is piped").read_to_string(&mut said)?;
        self.1.read_to_string(&mut failed)?;
        assert!(self.0.wait()?.success(), "{failed}");
        Ok(serde_json::from_str(&said)?)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails only if it has exited and been reaped.
        if let Ok(()) = self.0.kill() {
            self.0.wait().expect("our own child");
        }
    }
}

/// Starts a trace of these processes with a recording; returns once tracing has started.
fn watching(name: &str, whom: &[&str]) -> Result<(Child, PathBuf), Failed> {
    let recording = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.iotrail"));
    if recording.exists() {
        std::fs::remove_file(&recording)?;
    }
    let watch = Command::new(TOOL)
        .args(["trace", "--json", "--one-in", "1", "--force", "--record"])
        .arg(&recording)
        .args(whom)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // The recording starts immediately before the trace.
    let began = Instant::now();
    while !recording.exists() {
        assert!(began.elapsed() < Duration::from_secs(120), "nothing is watched");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(200));
    Ok((watch, recording))
}

/// Programs that all have rings when the trace starts, and exit before it ends: each has its own counts.
fn everyone() -> Result<(), Failed> {
    let scenarios = [("short_reads", 160_000), ("pipes", 40_000), ("sockets", 80_000), ("fork_children", 6_000)];
    let mut programs =
        scenarios.map(|(name, count)| Program::ready(name, count)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let (watch, recording) = watching("everyone", &["-a"])?;
    programs.iter_mut().try_for_each(Program::start)?;
    let truths = programs.into_iter().map(Program::truth).collect::<Result<Vec<_>, _>>()?;
    // SAFETY: a signal to an unreaped child; the call does not access memory.
    assert_eq!(unsafe { libc::kill(watch.id() as libc::pid_t, libc::SIGINT) }, 0);
    let out = watch.wait_with_output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    std::fs::remove_file(&recording)?;
    let trace: TraceRecord = serde_json::from_slice(&out.stdout)?;
    whole(&trace);
    for truth in truths {
        for ring in truth["rings"].as_array().expect("rings") {
            let of = |r: &&RingRecord| Some(u64::from(r.tgid)) == ring["tgid"].as_u64();
            let got: Vec<&RingRecord> = trace.rings.iter().filter(of).collect();
            let [one] = got[..] else { panic!("{} rings of {}: {got:?}", got.len(), ring["tgid"]) };
            assert_eq!(counted([one].into_iter()), done([ring].into_iter()), "{}", truth["scenario"]);
            assert!(one.found && one.comm == "ground", "{one:?}");
            assert!(trace.total.processes.iter().any(|p| p.tgid == one.tgid && p.found), "{:?}", trace.total.processes);
        }
    }
    Ok(())
}

/// Processes in the namespace have their own PIDs; the trace uses those of the initial namespace.
fn nested() -> Result<(), Failed> {
    for scenario in ["short_reads", "fork_children", "punted"] {
        let out = Command::new(TOOL)
            .args(["trace", "--json", "--one-in", "1", "--", "unshare", "--pid", "--fork", "--mount-proc"])
            .arg(ground())
            .arg(scenario)
            .output()?;
        let said = String::from_utf8_lossy(&out.stderr);
        let truth = said.lines().rev().find(|l| l.starts_with('{')).ok_or_else(|| format!("{scenario}: {said}"))?;
        let truth: Value = serde_json::from_str(truth)?;
        let trace: TraceRecord = serde_json::from_slice(&out.stdout)?;
        whole(&trace);
        let rings = truth["rings"].as_array().expect("rings");
        assert_eq!(trace.rings.len(), rings.len(), "{scenario}");
        assert_eq!(counted(trace.rings.iter()), done(rings.iter()), "{scenario}");
        let inside: Vec<u64> = rings.iter().filter_map(|r| r["tgid"].as_u64()).collect();
        assert!(inside.iter().all(|tgid| *tgid < 10), "a namespace of its own: {inside:?}");
        for r in &trace.rings {
            assert!(!inside.contains(&r.tgid.into()), "{scenario}: ring {} has a number from inside", r.ring);
            assert_eq!((r.comm.as_str(), r.found), ("ground", false), "{scenario}");
            let named = trace.total.processes.iter().any(|p| p.tgid == r.tgid && p.comm == "ground");
            assert!(named, "{scenario}: {:?}", trace.total.processes);
        }
    }
    Ok(())
}

/// The first event of this ring comes from its kernel thread, which has a different name.
fn polled() -> Result<(), Failed> {
    let mut program = Program::ready("sqpoll_napping", 20)?;
    let (watch, recording) = watching("polled", &["-p", &program.0.id().to_string()])?;
    program.start()?;
    let truth = program.truth()?;
    let out = watch.wait_with_output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    std::fs::remove_file(&recording)?;
    let trace: TraceRecord = serde_json::from_slice(&out.stdout)?;
    whole(&trace);
    let [ring] = &trace.rings[..] else { panic!("{} rings", trace.rings.len()) };
    assert_eq!((ring.comm.as_str(), ring.found), ("ground", true), "{ring:?}");
    assert_eq!(counted([ring].into_iter()), done(truth["rings"].as_array().expect("rings").iter()));
    assert!(ring.sqpoll.is_some(), "{ring:?}");
    let processes: Vec<_> = trace.total.processes.iter().map(|p| (p.comm.as_str(), p.tgid)).collect();
    assert_eq!(processes, [("ground", ring.tgid)]);
    Ok(())
}

/// The probe on native AIO's submission is attached at the process's first context; earlier submissions are counted.
fn begins_aio() -> Result<(), Failed> {
    const REQUESTS: u64 = 100_000;
    let load = format!(
        "read go; exec {TOOL} bench --engine libaio --buffered --depth 4 --warmup 0 --trace off --count {REQUESTS} --file {}",
        file().display()
    );
    let mut program = Command::new("sh").args(["-c", &load]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let (watch, recording) = watching("begins_aio", &["-p", &program.id().to_string()])?;
    program.stdin.take().ok_or("it is piped")?.write_all(b"go\n")?;
    assert!(program.wait()?.success(), "the load");
    let out = watch.wait_with_output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let total = serde_json::from_slice::<TraceRecord>(&out.stdout)?.total;
    std::fs::remove_file(&recording)?;
    assert_eq!(total.ios, REQUESTS);
    let requests: u64 = total.opcodes.iter().map(|o| o.requests).sum();
    let unseen = total.warnings.iter().find(|w| w.code == "submissions_unseen").map(|w| {
        let number = w.text.split(' ').next().unwrap_or_default();
        number.parse::<u64>().unwrap_or_else(|_| panic!("{}", w.text))
    });
    assert_eq!(requests + unseen.unwrap_or(0), REQUESTS, "{:?}", total.warnings);
    // In the 20 ms between two polls, a fast machine submits thousands of requests, and a slow one none.
    assert!(requests > 0, "{requests} were seen: {:?}", total.warnings);
    Ok(())
}

/// On ext4 and xfs. Reads need no worker, so reads that become ready after a write overtake it.
fn file_system() -> Result<(), Failed> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("order.dat");
    let file = path.to_str().ok_or("a plain name")?;
    let load = ["--rw", "randrw", "--depth", "16", "--batch", "8", "--count", "4000", "--size", "16m", "--allow-write"];
    let watched = || -> Result<TraceRecord, Failed> {
        let bench = ["--one-in", "1", "--", TOOL, "bench", "--trace", "off", "--warmup", "0", "--file", file];
        traced(&[&bench[..], &load].concat())
    };
    // The file is laid out first, because unwritten blocks would be completed differently.
    watched()?;
    let t = until(
        || watched().expect("a load and its watch").total,
        |t| {
            let by = &t.order.as_ref().ok_or("all were followed")?.by;
            let lost = by.file_system.ok_or("the end of direct I/O is seen")?;
            (lost >= 100 && by.task_work * 10 <= lost).then_some(()).ok_or(format!("{by:?}"))
        },
    );
    std::fs::remove_file(&path)?;
    let host = t.host;
    for o in t.opcodes.iter().filter(|o| ["read", "write"].contains(&o.opcode.as_str())) {
        let stages = o.stages.as_ref().ok_or("block I/O has stages")?;
        let worker = stages.file_system_ns;
        assert_eq!(worker.is_some(), o.opcode == "write", "{}: {stages:?} on {host:?}", o.opcode);
        assert!(worker.is_none_or(|ns| 0.0 < ns && ns <= stages.delivery_ns), "{stages:?}");
    }
    Ok(())
}

fn status() -> Result<(), Failed> {
    let of = |args: &[&str]| -> Result<Option<i32>, Failed> {
        Ok(Command::new(TOOL).arg("trace").args(args).output()?.status.code())
    };
    assert_eq!(of(&["--", "sh", "-c", "exit 7"])?, Some(7));
    assert_eq!(of(&["--", "sh", "-c", "kill -KILL $$"])?, Some(128 + libc::SIGKILL));
    // The option --duration ended the trace.
    assert_eq!(of(&["--duration", "0.5", "--", "sleep", "600"])?, Some(0));
    assert_eq!(of(&["--fail-on", "stranded", "--", "true"])?, Some(4));
    assert_eq!(of(&["--", "/no/such/program"])?, Some(2));
    Ok(())
}
