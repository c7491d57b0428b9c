//! Compares `try` with ground truth: programs that wait in every way (tests/ground/tried.rs), with flags that they do
//! not request. Granted flags equal the requested ones, impossible arms are reported before they run, a stalling arm is
//! dropped, and results are correct.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::process::{Command, Output};

use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::ground::ground;
use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("tried::all_arms_are_granted_if_the_program_waits_in_io_uring_enter", every_arm),
        trial::test("tried::the_defer_arm_is_dropped_if_the_program_never_enters_the_kernel", stalls),
        trial::test("tried::the_sqpoll_arm_is_dropped_if_the_program_ignores_need_wakeup", deaf),
        trial::test("tried::single_issuer_is_not_tried_on_a_ring_used_by_three_threads", of_threads),
        trial::test("tried::single_issuer_is_not_tried_on_a_ring_used_by_three_processes", of_processes),
        trial::test("tried::flags_of_disabled_rings_of_child_rings_and_of_200_rings_are_changed", all_rings),
        trial::test("tried::ring_flags_of_a_static_program_with_raw_system_calls_are_changed", without_libraries),
        trial::test("tried::a_program_without_rings_is_rejected", without_rings),
        trial::test("tried::cpu_environment_and_program_arms_are_compared", beside_flags),
        trial::test("tried::failures_of_the_program_are_reported", failures),
        trial::test("tried::each_run_reads_the_same_standard_input_and_a_pipe_is_rejected", input),
        trial::test("tried::an_arm_that_fails_in_any_block_fails_the_gate", gated),
        trial::test("tried::no_process_is_left_when_try_ends", ended),
        trial::test("tried::a_search_among_a_programs_ring_flags_has_an_answer", searched),
        trial::test("tried::ring_flags_are_changed_without_tracing_for_unprivileged_users", unprivileged),
    ]
}

const ARMS: [&str; 4] = ["coop_taskrun", "coop_taskrun,taskrun_flag", "defer_taskrun,single_issuer", "sqpoll"];

fn tried_with(scenario: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    Command::new(env!("CARGO_BIN_EXE_iotrail"))
        .args(["try", "--json", "--repeats", "2", "--store"])
        .arg(folder.path().join("s.db"))
        .args(["--metric", "done=\"done\":([0-9]+)"])
        .args(options)
        .arg("--")
        .arg(ground())
        .arg(scenario)
        .output()
        .expect("iotrail runs")
}

fn tried(scenario: &str, options: &[&str]) -> Value {
    let out = tried_with(scenario, options);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{scenario}: {said}");
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{scenario}: {e}: {said}"))
}

fn with_arms() -> Vec<&'static str> {
    ARMS.iter().flat_map(|arm| ["--ring", arm]).collect()
}

fn arm<'a>(run: &'a Value, name: &str) -> &'a Value {
    let arms = run["arms"].as_array().expect("arms");
    arms.iter().find(|a| a["name"] == name).unwrap_or_else(|| panic!("no arm {name}: {arms:?}"))
}

/// Granted flags of each ring in an arm's timed measurements, according to the kernel's event.
fn granted(run: &Value, name: &str) -> Vec<Vec<String>> {
    flags_of(run, name, &true.into())
}

fn flags_of(run: &Value, name: &str, proven: &Value) -> Vec<Vec<String>> {
    let cells = run["cells"].as_array().expect("cells").iter().filter(|c| c["params"]["arm"] == name);
    let rings = cells.flat_map(|c| c["measurements"].as_array().expect("measurements")).flat_map(|m| {
        let program = &m["program"];
        assert_eq!((&program["exit_status"], &program["watched"]), (&0.into(), &false.into()));
        let rings = program["rings"].as_array().expect("rings");
        assert!(rings.iter().all(|ring| ring["proven"] == *proven), "{name}: {rings:?}");
        rings
    });
    let flags = |ring: &Value| serde_json::from_value::<Vec<String>>(ring["granted"].clone()).expect("flags");
    rings.map(flags).collect()
}

fn done(run: &Value, name: &str) -> Vec<f64> {
    let cells = run["cells"].as_array().expect("cells").iter().filter(|c| c["params"]["arm"] == name);
    let all = cells.flat_map(|c| c["measurements"].as_array().expect("measurements"));
    all.map(|m| m["program"]["figures"][0]["value"].as_f64().expect("a number")).collect()
}

fn every_arm() -> Result<(), Failed> {
    let run = tried("tried_enter", &with_arms());
    for name in ARMS {
        let a = arm(&run, name);
        assert_eq!(a["dropped"], Value::Null, "{a}");
        assert_eq!(a["legal"], if name == "sqpoll" { "risky" } else { "yes" }, "{a}");
        assert_eq!(a["rings"].as_array().expect("rings").len(), 1, "{a}");
        assert_eq!(a["rings"][0]["asked"], serde_json::json!([]), "{a}");
        assert_eq!(granted(&run, name), vec![name.split(',').map(str::to_owned).collect::<Vec<_>>(); 2]);
        assert_eq!(done(&run, name), [200.0, 200.0], "{name}");
    }
    // No supervisor observes the timed runs of the arm that changes no flags.
    assert_eq!(granted(&run, "as-is"), Vec::<Vec<String>>::new());
    let metrics: Vec<&str> =
        run["comparisons"].as_array().expect("comparisons").iter().filter_map(|c| c["metric"].as_str()).collect();
    assert!(["done", "elapsed", "cpu_per_unit:done"].iter().all(|m| metrics.contains(m)), "{metrics:?}");
    Ok(())
}

fn stalls() -> Result<(), Failed> {
    for scenario in ["tried_peek", "tried_poll", "tried_eventfd"] {
        let run = tried(scenario, &[&with_arms()[..], &["--stall", "1500ms"]].concat());
        let defer = arm(&run, "defer_taskrun,single_issuer");
        assert_eq!(defer["legal"], "risky", "{scenario}: {defer}");
        let why = defer["dropped"].as_str().unwrap_or_else(|| panic!("{scenario}: {defer}"));
        assert!(why.contains("it stalled: ") && why.contains("in flight, and none was delivered for "), "{why}");
        assert!(done(&run, "defer_taskrun,single_issuer").is_empty());
        assert_eq!(done(&run, "as-is"), [200.0, 200.0], "{scenario}");
        assert_eq!(done(&run, "coop_taskrun"), [200.0, 200.0], "{scenario}");
        assert_eq!(done(&run, "sqpoll"), [200.0, 200.0], "{scenario}");
    }
    Ok(())
}

fn deaf() -> Result<(), Failed> {
    let run = tried_counted("tried_deaf", "20", &["--ring", "sqpoll", "--sq-idle", "1", "--stall", "1500ms"]);
    let sqpoll = arm(&run, "sqpoll");
    assert_eq!(sqpoll["legal"], "risky", "{sqpoll}");
    assert!(sqpoll["dropped"].as_str().is_some_and(|why| why.contains("it ")), "{sqpoll}");
    Ok(())
}

fn of_processes() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let out = Command::new(env!("CARGO_BIN_EXE_iotrail"))
        .args(["try", "--json", "--repeats", "2", "--ring", "single_issuer", "--store"])
        .arg(folder.path().join("s.db"))
        .arg("--")
        .arg(ground())
        .args(["one_ring_of_processes", "--count", "30"])
        .output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    let run: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    let single = arm(&run, "single_issuer");
    assert_eq!((&single["legal"], &single["rings"]), (&"no".into(), &serde_json::json!([])), "{single}");
    let why = "single_issuer: 3 threads of 3 processes (ground) submit to one ring, which the kernel rejects (EEXIST)";
    assert_eq!(single["reason"], why);
    Ok(())
}

fn of_threads() -> Result<(), Failed> {
    let run = tried("tried_threads", &["--ring", "defer_taskrun,single_issuer", "--ring", "coop_taskrun"]);
    let defer = arm(&run, "defer_taskrun,single_issuer");
    assert_eq!((&defer["legal"], &defer["rings"]), (&"no".into(), &serde_json::json!([])), "{defer}");
    let why = defer["reason"].as_str().expect("a reason");
    assert_eq!(why, "single_issuer: 3 threads of ground submit to one ring, which the kernel rejects (EEXIST)");
    assert_eq!(done(&run, "coop_taskrun"), [150.0, 150.0]);
    // By the kernel's own rules, without examining the program.
    let run =
        tried("tried_enter", &["--ring", "taskrun_flag", "--ring", "defer_taskrun", "--ring", "sqpoll,coop_taskrun"]);
    for name in ["taskrun_flag", "defer_taskrun", "sqpoll,coop_taskrun"] {
        assert_eq!(arm(&run, name)["legal"], "no", "{run}");
    }
    Ok(())
}

fn all_rings() -> Result<(), Failed> {
    for (scenario, count, rings, number) in
        [("tried_disabled", "200", 1, 200.0), ("tried_children", "60", 3, 60.0), ("tried_many", "200", 200, 800.0)]
    {
        let name = "defer_taskrun,single_issuer";
        let run = tried_counted(scenario, count, &["--ring", name]);
        let expected: Vec<String> = name.split(',').map(str::to_owned).collect();
        let a = arm(&run, name);
        assert_eq!(a["dropped"], Value::Null, "{scenario}: {a}");
        let mut flags = granted(&run, name);
        flags.iter_mut().for_each(|f| f.retain(|f| f != "r_disabled"));
        assert_eq!(flags, vec![expected; 2 * rings], "{scenario}");
        assert_eq!(done(&run, name), [number, number], "{scenario}");
    }
    Ok(())
}

fn tried_counted(scenario: &str, count: &str, options: &[&str]) -> Value {
    let ground = ground();
    tried_command(options, &[ground.to_str().expect("UTF-8"), scenario, "--count", count])
}

fn tried_command(options: &[&str], command: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let out = Command::new(env!("CARGO_BIN_EXE_iotrail"))
        .args(["try", "--json", "--repeats", "2", "--metric", "done=\"done\":([0-9]+)", "--store"])
        .arg(folder.path().join("s.db"))
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .expect("iotrail runs");
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// A program without dynamic loader and liburing, whose ring is created by a thread, as in Go.
fn without_libraries() -> Result<(), Failed> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("static");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/static.c");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Werror", "-static", "-pthread", "-o"]).arg(&program).arg(source);
    assert!(cc.status().expect("cc is installed").success());
    let name = "defer_taskrun,single_issuer";
    let arms = ["--ring", "coop_taskrun", "--ring", name, "--ring", "sqpoll"];
    let run = tried_command(&arms, &[program.to_str().expect("UTF-8"), "500"]);
    for name in ["coop_taskrun", name, "sqpoll"] {
        assert_eq!(arm(&run, name)["dropped"], Value::Null, "{run}");
        assert_eq!(granted(&run, name), vec![name.split(',').map(str::to_owned).collect::<Vec<_>>(); 2]);
        assert_eq!(done(&run, name), [500.0, 500.0], "{name}");
    }
    // No supervisor observes the timed runs of the arm that changes no flags.
    assert_eq!(granted(&run, "as-is"), Vec::<Vec<String>>::new());
    Ok(())
}

fn without_rings() -> Result<(), Failed> {
    let out = tried_with("tried_none", &[]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("tried_none did not set up an io_uring, so flags have no effect"), "{said}");
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_iotrail"));
    let arms = ["try", "--watch", "none", "--ring", "coop_taskrun"];
    // Its metric is missing for the same reason, which is reported first.
    daemon.args(arms).args(["--metric", "tps=/tps = ([0-9]+)/", "--", "sh", "-c", "(setsid sleep 600 &)"]);
    let out = daemon.output().expect("iotrail runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("exited without setting up an io_uring, and left background processes: "), "{said}");
    // Neither does a ring that a background process has set up by then belong to the command.
    let line = format!(
        "setsid {} tried_enter --count 2000000000 & until ls -l /proc/$!/fd | grep -q io_uring; do :; done",
        ground().display()
    );
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_iotrail"));
    daemon.args(["try", "--watch", "none", "--ring", "coop_taskrun", "--", "sh", "-c", &line]);
    let out = daemon.output().expect("iotrail runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(
        said.contains("without setting up an io_uring, and left background processes: ") && said.contains(" (ground)"),
        "{said}"
    );
    // If no arm changes rings, the program needs none.
    let run = tried("tried_none", &["--env-arm", "A=1"]);
    assert_eq!(done(&run, "A=1"), [200.0, 200.0]);
    Ok(())
}

fn beside_flags() -> Result<(), Failed> {
    let program = format!("short: {} tried_enter --count 100", ground().display());
    let run = tried("tried_enter", &["--cpus-arm", "0", "--env-arm", "A=1", "--ring", "none", "--arm", &program]);
    assert_eq!(arm(&run, "none")["dropped"], "no change: the program already requests these settings");
    assert_eq!((done(&run, "as-is"), done(&run, "short")), (vec![200.0, 200.0], vec![100.0, 100.0]));
    assert_eq!((done(&run, "cpus 0"), done(&run, "A=1")), (vec![200.0, 200.0], vec![200.0, 200.0]));
    // An environment variable may determine whether a program uses io_uring.
    let program = format!("exec {} $HOW", ground().display());
    let run = tried_command(&["--env", "HOW=tried_enter", "--env-arm", "HOW=tried_none"], &["sh", "-c", &program]);
    let without = "HOW=tried_none";
    assert_eq!((&arm(&run, without)["dropped"], &arm(&run, without)["rings"]), (&Value::Null, &serde_json::json!([])));
    assert_eq!((done(&run, "as-is"), done(&run, without)), (vec![200.0, 200.0], vec![200.0, 200.0]));
    Ok(())
}

fn failures() -> Result<(), Failed> {
    let said = |options: &[&str]| {
        let out = tried_with("tried_enter", options);
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (status, text) = said(&["--metric", "tps=/tps = ([0-9.]+)/"]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("--metric tps: nothing in the output matches /tps = ([0-9.]+)/ (its last line: {"), "{text}");
    let (status, text) = said(&["--check", "grep -q nothing-like-that"]);
    assert_eq!(status, Some(3), "{text}");
    assert!(text.contains("--check failed: exit status: 1"), "{text}");
    // A failing program is fast, unless a check proves that it did its work.
    let failing = |options: &[&str]| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut tool = Command::new(env!("CARGO_BIN_EXE_iotrail"));
        tool.args(["try", "--env-arm", "A=1", "--watch", "none", "--repeats", "2", "--store"])
            .arg(folder.path().join("s.db"));
        let out =
            tool.args(options).args(["--", "sh", "-c", "echo no table t; exit 4"]).output().expect("iotrail runs");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (status, text) = failing(&[]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("unmodified, exited with status 4 (its last line: no table t)"), "{text}");
    let (status, text) = failing(&["--check", "grep -q table"]);
    assert_eq!(status, Some(0), "{text}");
    Ok(())
}

/// Every run gets a redirected file at the same position; a pipe is rejected.
fn input() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    let tried = |stdin: std::process::Stdio, options: &[&str]| {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_iotrail"));
        tool.args(["try", "--json", "--env-arm", "A=1", "--repeats", "2", "--metric", "n=/([0-9]+)/", "--store"]);
        tool.arg(at("s.db")).args(options).args(["--", "sh", "-c", "cat | wc -l"]).stdin(stdin).output()
    };
    std::fs::write(at("lines"), "1\n2\n3\n4\n5\n")?;
    for watch in ["none", "one-per-arm"] {
        let mut lines = File::open(at("lines"))?;
        lines.seek(SeekFrom::Start(4))?;
        let out = tried(lines.into(), &["--watch", watch])?;
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let run: Value = serde_json::from_slice(&out.stdout)?;
        let measurements = run["cells"].as_array().into_iter().flatten().flat_map(|c| c["measurements"].as_array());
        let read: Vec<_> = measurements.flatten().map(|m| &m["program"]["figures"][0]["value"]).collect();
        assert!(read.len() >= 4 && read.iter().all(|n| **n == 3.0), "{read:?}");
    }
    let (read, mut write) = std::io::pipe()?;
    write.write_all(b"1\n")?;
    let out = tried(read.into(), &[])?;
    assert_eq!(out.status.code(), Some(2));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        said.contains("standard input is a pipe, but all runs need the same input; redirect it from a file"),
        "{said}"
    );
    // An empty pipe has no data.
    let (read, _write) = std::io::pipe()?;
    let out = tried(read.into(), &["--watch", "none"])?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Ok(())
}

/// One arm fails in the third block, another before the first.
fn gated() -> Result<(), Failed> {
    let folder = tempfile::tempdir().expect("a folder");
    let count = "[ -z \"$A\" ] || { n=$(cat n || echo 0); echo $((n + 1)) >n; [ $n -lt 3 ]; }";
    let gated = |arm: [&str; 2]| {
        let _ = std::fs::remove_file(folder.path().join("n"));
        let mut tool = Command::new(env!("CARGO_BIN_EXE_iotrail"));
        tool.args(["try", "--json", "--watch", "none", "--repeats", "4", "--fail-on", "slower", "--store", "s.db"])
            .args(arm);
        let out = tool.args(["--", "sh", "-c", count]).current_dir(folder.path()).output().expect("iotrail runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(4), "{said}");
        (serde_json::from_slice::<Value>(&out.stdout).expect("JSON"), said)
    };
    let (run, _) = gated(["--env-arm", "A=1"]);
    let comparisons = run["comparisons"].as_array().expect("comparisons");
    assert!(!comparisons.is_empty() && comparisons.iter().all(|c| c["verdict"] == "not_comparable"), "{run}");
    let why = comparisons[0]["reasons"][0].as_str().expect("a reason");
    assert!(why.starts_with("A=1 failed after ") && why.contains("exited with status 1"), "{why}");
    let (run, said) = gated(["--arm", "new: false"]);
    assert_eq!(run["comparisons"], serde_json::json!([]));
    assert!(said.contains("cannot gate on new: it exited with status 1"), "{said}");
    Ok(())
}

/// Processes of a program with this string in its arguments.
fn running(mark: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
    let texts = lines.map(|l| String::from_utf8_lossy(&l).replace('\0', " "));
    texts.filter(|t| t.contains(mark) && !t.contains("iotrail")).collect()
}

/// Stopped by Ctrl-C and by SIGKILL, during the traced run and during a timed run: the program exits with its children
/// (including one that changed its user and one in a session of its own), or continues if requested.
fn ended() -> Result<(), Failed> {
    let ends = [("INT", "one-per-arm"), ("INT", "none"), ("TERM", "none"), ("KILL", "one-per-arm"), ("KILL", "none")];
    let all = ends.map(|(s, w)| (s, w, false)).into_iter().chain(ends.map(|(s, w)| (s, w, true)));
    for (i, (signal, watch, stays)) in all.enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        // Children of a killed program still exist when the next begins.
        let mark = format!("4.{}", 100_000 * (i as u32 + 1) + std::process::id());
        let mut child = Command::new(env!("CARGO_BIN_EXE_iotrail"))
            .args(["try", "--watch", watch, "--env-arm", "A=1", "--store"])
            .arg(folder.path().join("s.db"))
            .args(stays.then_some("--leave-running"))
            .args(["--", "sh", "-c"])
            .arg(format!("setpriv --reuid=65534 --clear-groups sleep {mark} & setsid sleep {mark} & sleep {mark}"))
            .stderr(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("iotrail runs");
        let began = std::time::Instant::now();
        // The traced run loads the probes first; another run is within a block.
        while running(&mark).iter().filter(|t| t.starts_with("sleep ")).count() < 3 && began.elapsed().as_secs() < 30 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
        let status = child.wait().expect("it ends");
        if stays {
            // All sleep processes, before they exit by themselves.
            let asleep = running(&mark).into_iter().filter(|t| t.starts_with("sleep ")).count();
            assert_eq!((asleep, status.code()), (3, (signal != "KILL").then_some(1)), "{signal} {watch}");
            while !running(&mark).is_empty() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            continue;
        }
        let until = std::time::Instant::now() + std::time::Duration::from_secs(3);
        while !running(&mark).is_empty() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(running(&mark), Vec::<String>::new(), "{signal} {watch}");
        assert_eq!(status.code(), (signal != "KILL").then_some(1), "{signal} {watch}: {status}");
    }
    Ok(())
}

/// For a program that exits immediately: each candidate's flags are proven in each run, and the blocks are complete.
fn searched() -> Result<(), Failed> {
    let folder = tempfile::tempdir().expect("a folder");
    let out = Command::new(env!("CARGO_BIN_EXE_iotrail"))
        .args(["advise", "--json", "--cpus", "0", "--budget", "90s", "--store"])
        .arg(folder.path().join("s.db"))
        .args(["--metric", "done=\"done\":([0-9]+)", "--objective", "elapsed", "--"])
        .arg(ground())
        .args(["tried_enter", "--count", "50"])
        .output()
        .expect("iotrail runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let search = &said["search"];
    let names: Vec<&str> = search["arms"].as_array().expect("arms").iter().filter_map(|a| a["name"].as_str()).collect();
    let rings = ["as-is", "coop_taskrun,taskrun_flag", "single_issuer", "defer_taskrun,single_issuer"];
    assert_eq!(names[..4], rings);
    for name in rings {
        let expected: Vec<&str> = name.split(',').filter(|flag| *flag != "as-is").collect();
        assert_eq!(granted(search, name).is_empty(), name == "as-is", "{name}: {search}");
        assert!(granted(search, name).iter().all(|flags| *flags == expected), "{name}");
        assert!(done(search, name).iter().all(|n| *n == 50.0), "{name}");
    }
    assert!(said["head"]["answer"].as_str().is_some_and(|answer| !answer.starts_with("nothing was")), "{said}");
    Ok(())
}

fn unprivileged() -> Result<(), Failed> {
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("root");
    let unprivileged = |options: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_iotrail"))
            .args(options)
            .arg("--store")
            .arg(folder.path().join("s.db"))
            .args(["--metric", "done=\"done\":([0-9]+)"])
            .arg("--")
            .arg(ground())
            .args(["tried_enter", "--count", "50"])
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir(folder.path())
            .output()
            .expect("iotrail runs")
    };
    let tried = ["try", "--json", "--repeats", "2", "--ring", "coop_taskrun"];
    let run = |options: &[&str]| unprivileged(&[&tried[..], options].concat());
    let out = run(&["--watch", "none"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    // Without the privilege to trace, only the supervisor's report is available.
    assert_eq!(flags_of(&json, "coop_taskrun", &Value::Null), vec![vec!["coop_taskrun".to_owned()]; 2]);
    let out = run(&[]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains("--watch none"), "{said}");
    // A search works without probes: the time is too short, but no privilege is missing.
    let out = unprivileged(&["advise", "--budget", "1ms"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("not traced: ") && said.contains("--budget 1.00 ms "), "{said}");
    Ok(())
}
