//! `monitor` of a program that stalls from one line on its standard input to the next. Each stall is captured with its cause, and a healthy
//! program has none. The tests assert the order of events, never a time.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use iotrail_schema::stall::{Capture, StallList};
use libtest_mimic::{Failed, Trial};

use crate::cases::build;
use crate::trial;

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

/// Trigger and cause.
const STALLS: [(&str, &str); 7] = [
    ("unreaped", "the program sleeps in read"),
    ("overflow", "CQ overflow"),
    ("task_work_waits", "task work not run"),
    ("unsubmitted", "not submitted"),
    ("sqpoll_asleep", "SQPOLL thread asleep"),
    ("slow_request", "fifo"),
    ("blocked_submission", "handle_userfault"),
];

pub fn trials() -> Vec<Trial> {
    let mut all: Vec<Trial> = STALLS
        .into_iter()
        .map(|(name, cause)| {
            trial::test(format!("monitor::{name}_is_captured_with_its_cause"), move || stall(name, cause))
        })
        .collect();
    all.push(trial::test("monitor::a_healthy_program_has_no_stall", healthy));
    all.push(trial::test("monitor::sigterm_writes_what_is_under_way", terminated));
    all.push(trial::test("monitor::a_stall_is_traced_and_a_metric_is_a_trigger", traced));
    all
}

fn program(name: &str) -> Result<Child, Failed> {
    let mut program = Command::new(build("../kernel/stalls.c")?);
    Ok(program.arg(name).stdin(Stdio::piped()).spawn()?)
}

fn line(program: &mut Child) -> Result<(), Failed> {
    program.stdin.as_mut().ok_or("a pipe")?.write_all(b"\n")?;
    Ok(())
}

struct Monitor {
    process: Child,
    said: BufReader<ChildStderr>,
    dir: tempfile::TempDir,
}

impl Monitor {
    /// The budget is large: the machine may be busy, and the program slow without optimisation.
    fn of(program: &Child, options: &[&str]) -> Result<Self, Failed> {
        let dir = tempfile::Builder::new().prefix("monitor-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let mut process = Command::new(TOOL)
            .args(["monitor", "--cpu-budget", "50%", "--windows", "0", "-p", &program.id().to_string(), "--dir"])
            .arg(dir.path())
            .args(options)
            .stderr(Stdio::piped())
            .spawn()?;
        let said = BufReader::new(process.stderr.take().ok_or("a pipe")?);
        let mut monitor = Monitor { process, said, dir };
        monitor.hear("monitoring; ")?;
        Ok(monitor)
    }

    /// Reads up to the line that begins so.
    fn hear(&mut self, begin: &str) -> Result<String, Failed> {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            if self.said.read_line(&mut line)? == 0 {
                return Err(format!("it ended without a line '{begin}…':\n{all}").into());
            }
            if line.starts_with(begin) {
                return Ok(line);
            }
            all += &line;
        }
    }

    /// Up to its end.
    fn rest(&mut self) -> Result<(ExitStatus, Vec<String>), Failed> {
        let lines = (&mut self.said).lines().collect::<Result<_, _>>()?;
        Ok((self.process.wait()?, lines))
    }
}

fn stalls(dir: &Path) -> Result<StallList, Failed> {
    let out = Command::new(TOOL).args(["stalls", "--json", "--dir"]).arg(dir).output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// Kernels that do not count requests in flight do not have this trigger.
fn counts_requests() -> bool {
    let btf = std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let name = b"nr_req_allocated";
    btf.windows(name.len()).any(|bytes| bytes == name)
}

fn stall(name: &str, cause: &str) -> Result<(), Failed> {
    if name == "slow_request" && !counts_requests() {
        return Ok(());
    }
    let mut program = program(name)?;
    let mut monitor = Monitor::of(&program, &["--trace", "0"])?;
    line(&mut program)?;
    let said = monitor.hear(&format!("stall {name} pid={}", program.id()))?;
    line(&mut program)?;
    monitor.hear(&format!("stall ended {name} pid={}", program.id()))?;
    drop(program.stdin.take());
    assert!(program.wait()?.success());
    let (status, rest) = monitor.rest()?;
    assert!(status.success(), "it ends with the program: {status} {rest:?}");
    let list = stalls(monitor.dir.path())?;
    // On a busy machine the program may also wait for a CPU with completions in its CQ.
    let found: Vec<_> = list.stalls.iter().filter(|stall| stall.trigger.name() == name).collect();
    let [stall] = found.as_slice() else { return Err(format!("one stall: {list:?}\n{said}").into()) };
    assert_eq!((stall.cause.as_str(), stall.is_over), (cause, true), "{stall:?}");
    assert_eq!((stall.process.tgid, stall.ring), (program.id(), Some(3)), "{stall:?}");
    assert!(stall.lasted_ns >= if name == "slow_request" { 1_000_000_000 } else { 200_000_000 }, "{stall:?}");
    let capture: Capture = serde_json::from_slice(&std::fs::read(&stall.capture)?)?;
    let before = capture.rings.iter().filter(|s| s.at_ns < 0).count();
    let (moment, stacks) = (capture.moment.is_some(), capture.stacks.len());
    assert!(before >= 2 && moment && stacks > 0, "{before} samples, moment: {moment}, {stacks} stacks");
    Ok(())
}

fn healthy() -> Result<(), Failed> {
    let mut program = program("healthy")?;
    // On a busy machine it may wait for a CPU with completions in its CQ.
    let mut monitor = Monitor::of(&program, &["--trace", "0", "--threshold", "unreaped=10s"])?;
    line(&mut program)?;
    drop(program.stdin.take());
    assert!(program.wait()?.success());
    let (status, rest) = monitor.rest()?;
    assert!(status.success() && rest.iter().all(|line| !line.contains("stall")), "{status} {rest:?}");
    assert_eq!(stalls(monitor.dir.path())?.stalls, []);
    Ok(())
}

fn terminated() -> Result<(), Failed> {
    let mut program = program("unreaped")?;
    let mut monitor = Monitor::of(&program, &["--trace", "0"])?;
    line(&mut program)?;
    monitor.hear("stall unreaped")?;
    Command::new("kill").args(["-TERM", &monitor.process.id().to_string()]).status()?;
    let (status, rest) = monitor.rest()?;
    assert!(status.success(), "{status} {rest:?}");
    let list = stalls(monitor.dir.path())?;
    assert_eq!(list.stalls.iter().map(|s| (s.trigger.name(), s.is_over)).collect::<Vec<_>>(), [("unreaped", false)]);
    drop(program.stdin.take());
    program.wait()?;
    Ok(())
}

fn traced() -> Result<(), Failed> {
    let mut program = program("unreaped")?;
    let mut monitor = Monitor::of(&program, &["--trace", "200ms", "--when", "unreaped >= 1"])?;
    line(&mut program)?;
    let stalled = |dir: &Path, trigger: &str| -> Result<Option<Capture>, Failed> {
        let list = stalls(dir)?;
        let Some(stall) = list.stalls.iter().find(|s| s.trigger.name() == trigger) else { return Ok(None) };
        Ok(Some(serde_json::from_slice(&std::fs::read(&stall.capture)?)?))
    };
    monitor.hear("stall ")?;
    let mut looks = 0;
    let of_when = loop {
        let of_ring = stalled(monitor.dir.path(), "unreaped")?;
        if let Some(why) = of_ring.as_ref().and_then(|c| c.not_traced.clone()) {
            return Err(format!("no trace: {why}").into());
        }
        let of_when = stalled(monitor.dir.path(), "when")?;
        match (of_ring.filter(|c| c.trace.is_some()), of_when) {
            (Some(_), Some(capture)) => break capture,
            _ if looks == 600 => return Err("waited in vain for the captures".into()),
            _ => std::thread::sleep(std::time::Duration::from_millis(100)),
        }
        looks += 1;
    };
    assert_eq!((of_when.stall.cause.as_str(), of_when.stall.process.tgid), ("unreaped >= 1", 0));
    assert!(of_when.not_traced.is_some());
    drop(program.stdin.take());
    program.wait()?;
    assert!(monitor.rest()?.0.success());
    Ok(())
}
