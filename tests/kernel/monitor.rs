//! `monitor` on a program that stalls between two lines on its standard input. Each stall is captured with its cause,
//! and a healthy program causes none. Asserts the order of events, never times.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use iotrail_host::clock::of_process_ns;
use iotrail_schema::stall::{Capture, StallList};
use libtest_mimic::{Failed, Trial};

use crate::cases::build;
use crate::metrics::scrape;
use crate::trial;

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

/// The program's stall, its trigger, and its cause. The last four are bug reports about io_uring programs: a wait
/// although the CQ has work, a hang with an unread timeout, a wait longer than its time limit, and a second from
/// submission to completion.
const STALLS: [(&str, &str, &str); 11] = [
    ("unreaped", "unreaped", "the program sleeps in read"),
    ("overflow", "overflow", "CQ overflow"),
    ("task_work_waits", "task_work_waits", "task work not run"),
    ("unsubmitted", "unsubmitted", "not submitted"),
    ("sqpoll_asleep", "sqpoll_asleep", "SQPOLL thread asleep"),
    ("slow_request", "slow_request", "fifo"),
    ("blocked_submission", "blocked_submission", "handle_userfault"),
    ("waits_for_more", "waits_for_more", "more completions awaited"),
    ("timeout_unread", "waits_for_more", "completions that cannot arrive"),
    ("late_wait", "late_timer", "stopped"),
    ("slow_worker", "slow_request", "shmem_fallocate"),
];

pub fn trials() -> Vec<Trial> {
    let mut all: Vec<Trial> = STALLS
        .into_iter()
        .map(|(name, trigger, cause)| {
            trial::test(format!("monitor::{name}_is_captured_with_its_cause"), move || stall(name, trigger, cause))
        })
        .collect();
    all.push(trial::test("monitor::a_healthy_program_has_no_stall", healthy));
    all.push(trial::test("monitor::sigterm_saves_the_capture_in_progress", terminated));
    all.push(trial::test("monitor::no_probe_stays_loaded_after_sigkill", killed));
    all.push(trial::test("monitor::a_full_disk_and_a_missing_directory_are_reported", full_disk));
    all.push(trial::test("monitor::the_service_manager_is_notified", notified));
    all.push(trial::test("monitor::stalls_and_metric_conditions_start_a_trace", traced));
    all.push(trial::test("monitor::the_running_time_of_threads_that_come_and_go_is_exact", running_time));
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
    /// Address of the metrics; empty without.
    metrics: String,
}

impl Monitor {
    /// The budget is large, because the machine may be busy and the program slow without optimisation.
    fn of(program: &Child, options: &[&str]) -> Result<Self, Failed> {
        let dir = tempfile::Builder::new().prefix("monitor-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        Monitor::by(&mut Command::new(TOOL), program, options, dir)
    }

    fn by(command: &mut Command, program: &Child, options: &[&str], dir: tempfile::TempDir) -> Result<Self, Failed> {
        let mut process = command
            .args(["monitor", "--cpu-budget", "50%", "--windows", "0", "-p", &program.id().to_string(), "--dir"])
            .arg(dir.path())
            .args(options)
            .stderr(Stdio::piped())
            .spawn()?;
        let said = BufReader::new(process.stderr.take().ok_or("a pipe")?);
        let mut monitor = Monitor { process, said, dir, metrics: String::new() };
        if options.contains(&"--metrics") {
            let line = monitor.hear("metrics: http://")?;
            monitor.metrics = line.trim().trim_start_matches("metrics: http://").trim_end_matches("/metrics").into();
        }
        monitor.hear("monitoring; ")?;
        Ok(monitor)
    }

    /// Reads up to the line with this prefix.
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

    fn signal(&self, name: &str) -> Result<(), Failed> {
        signal(name, self.process.id())
    }

    /// Reads to the end of the output.
    fn rest(&mut self) -> Result<(ExitStatus, Vec<String>), Failed> {
        let lines = (&mut self.said).lines().collect::<Result<_, _>>()?;
        Ok((self.process.wait()?, lines))
    }
}

fn signal(name: &str, pid: u32) -> Result<(), Failed> {
    Command::new("kill").args([format!("-{name}"), pid.to_string()]).status()?;
    Ok(())
}

fn stalls(dir: &Path) -> Result<StallList, Failed> {
    let out = Command::new(TOOL).args(["stalls", "--json", "--dir"]).arg(dir).output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// Kernels that do not count requests in flight lack this trigger.
fn counts_requests() -> bool {
    let btf = std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let name = b"nr_req_allocated";
    btf.windows(name.len()).any(|bytes| bytes == name)
}

fn stall(name: &str, trigger: &str, cause: &str) -> Result<(), Failed> {
    if ["slow_request", "timeout_unread"].contains(&name) && !counts_requests() {
        return Ok(());
    }
    let mut program = program(name)?;
    let mut monitor = Monitor::of(&program, &["--trace", "0"])?;
    line(&mut program)?;
    let said = monitor.hear(&format!("stall {trigger} pid={}", program.id()))?;
    if name == "late_wait" {
        signal("CONT", program.id())?;
    }
    line(&mut program)?;
    monitor.hear(&format!("stall ended {trigger} pid={}", program.id()))?;
    drop(program.stdin.take());
    assert!(program.wait()?.success());
    let (status, rest) = monitor.rest()?;
    assert!(status.success(), "it ends with the program: {status} {rest:?}");
    let list = stalls(monitor.dir.path())?;
    // On a busy machine, the program may also wait for a CPU with completions in its CQ.
    let found: Vec<_> = list.stalls.iter().filter(|stall| stall.trigger.name() == trigger).collect();
    let [stall] = found.as_slice() else { return Err(format!("one stall: {list:?}\n{said}").into()) };
    assert_eq!((stall.cause.as_str(), stall.is_over), (cause, true), "{stall:?}");
    // A worker's request belongs to one of the process's rings.
    let ring = (name != "slow_worker").then_some(3);
    assert_eq!((stall.process.tgid, stall.ring), (program.id(), ring), "{stall:?}");
    assert!(
        stall.lasted_ns
            >= if ["slow_request", "waits_for_more"].contains(&trigger) { 1_000_000_000 } else { 200_000_000 },
        "{stall:?}"
    );
    let capture: Capture = serde_json::from_slice(&std::fs::read(&stall.capture)?)?;
    let before = capture.rings.iter().filter(|s| s.at_ns < 0).count();
    let (moment, stacks) = (capture.moment.is_some(), capture.stacks.len());
    assert!(before >= 2 && moment && stacks > 0, "{before} samples, moment: {moment}, {stacks} stacks");
    Ok(())
}

fn healthy() -> Result<(), Failed> {
    let mut program = program("healthy")?;
    // On a busy machine, the program may wait for a CPU with completions in its CQ.
    let mut monitor = Monitor::of(&program, &["--trace", "0", "--threshold", "waits_for_cpu=60s"])?;
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
    monitor.signal("TERM")?;
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

/// A process's BPF programs, maps and links, with the command that opens each by its ID.
fn loaded(pid: u32) -> Result<Vec<(i32, u32)>, Failed> {
    const GET_BY_ID: [(&str, i32); 3] = [("prog_id:", 13), ("map_id:", 14), ("link_id:", 30)];
    let mut all = vec![];
    for file in std::fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // The descriptor may have been closed.
        let text = std::fs::read_to_string(file?.path()).unwrap_or_default();
        for (key, command) in GET_BY_ID {
            let id = text.lines().find_map(|l| l.strip_prefix(key)?.trim().parse().ok());
            all.extend(id.map(|id| (command, id)));
        }
    }
    Ok(all)
}

fn exists((command, id): (i32, u32)) -> bool {
    let attributes = [id, 0, 0];
    // SAFETY: bpf(2) reads the ID, the next one and the flags.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(&attributes)) } as i32;
    // SAFETY: a new descriptor without another owner.
    drop((fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) }));
    fd >= 0
}

/// Killed while sampling, while a trace loads its probes, and while the probes are attached.
fn killed() -> Result<(), Failed> {
    for (moment, least) in [("samples", 1), ("loads", 1), ("traces", 40)] {
        let mut program = program("unreaped")?;
        let mut monitor = Monitor::of(&program, &["--trace", "30s"])?;
        line(&mut program)?;
        if moment != "samples" {
            monitor.hear("stall unreaped")?;
        }
        let mut before = vec![];
        for _ in 0..6000 {
            before.extend(loaded(monitor.process.id())?);
            before.sort_unstable();
            before.dedup();
            if before.len() >= least {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(before.len() >= least, "{moment}: {before:?}");
        monitor.signal("KILL")?;
        assert!(!monitor.rest()?.0.success());
        // The kernel frees them after a grace period.
        let mut checks = 0;
        while before.iter().any(|of| exists(*of)) {
            assert!(checks < 1000, "{moment}: some of {before:?} stay");
            std::thread::sleep(std::time::Duration::from_millis(10));
            checks += 1;
        }
        line(&mut program)?;
        drop(program.stdin.take());
        assert!(program.wait()?.success(), "{moment}: the program continues");
    }
    Ok(())
}

/// The program's running time by the monitor's metric and by its CPU clock, in ns, in a span in which it does not run.
fn at_rest(monitor: &Monitor, program: &Child) -> Result<(u64, u64), Failed> {
    let read = || -> Result<(u64, u64), Failed> {
        let text = scrape(&monitor.metrics)?;
        let of = |family: &str, state: &str| -> f64 {
            let lines = text.lines().filter(|line| line.starts_with(family) && line.contains(state));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        let running = of("iotrail_thread_seconds_total{", "state=\"running\"");
        Ok((of("iotrail_samples_total", "") as u64, (running * 1e9).round() as u64))
    };
    loop {
        let ran = of_process_ns(program.id()).ok_or("its clock")?;
        let (first, _) = read()?;
        let running = loop {
            let (samples, running) = read()?;
            if samples >= first + 2 {
                break running;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        if of_process_ns(program.id()) == Some(ran) {
            return Ok((running, ran));
        }
    }
}

fn running_time() -> Result<(), Failed> {
    let mut program = program("threads")?;
    let mut monitor = Monitor::of(&program, &["--trace", "0", "--metrics", "0"])?;
    let (running, ran) = at_rest(&monitor, &program)?;
    line(&mut program)?;
    // Until its threads have run.
    while of_process_ns(program.id()).is_some_and(|ns| ns < ran + 250_000_000) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (running_after, ran_after) = at_rest(&monitor, &program)?;
    assert_eq!(running_after - running, ran_after - ran);
    drop(program.stdin.take());
    assert!(program.wait()?.success());
    monitor.rest()?;
    Ok(())
}

/// Unmounts when the test ends.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().map(drop).unwrap_or(());
    }
}

fn full_disk() -> Result<(), Failed> {
    let dir = tempfile::Builder::new().prefix("monitor-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let at = dir.path().to_owned();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4k,mode=700", "none"]).arg(&at).status()?;
    assert!(mount.success());
    let mounted = Mounted(at.clone());
    let mut program = program("unreaped")?;
    let mut monitor = Monitor::by(&mut Command::new(TOOL), &program, &["--trace", "0"], dir)?;
    line(&mut program)?;
    monitor.hear("stall unreaped")?;
    let said = monitor.hear("cannot write ")?;
    assert!(said.contains("No space left on device"), "{said}");
    line(&mut program)?;
    monitor.hear("stall ended unreaped")?;
    // The directory's path is now a file.
    drop(mounted);
    std::fs::remove_dir(&at)?;
    std::fs::write(&at, "")?;
    monitor.signal("HUP")?;
    monitor.hear("reloaded; processes: 1")?;
    drop(program.stdin.take());
    assert!(program.wait()?.success());
    let (status, rest) = monitor.rest()?;
    assert!(status.success(), "{status} {rest:?}");
    std::fs::remove_file(&at)?;
    std::fs::create_dir(&at)?;
    Ok(())
}

/// sd_notify(3): ready, then alive each second, then stopping.
fn notified() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path)?;
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60)))?;
    let receive = || -> Result<String, Failed> {
        let mut bytes = [0; 256];
        let n = socket.recv(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..n]).into_owned())
    };
    let mut program = program("healthy")?;
    let captures = tempfile::tempdir()?;
    let mut monitor =
        Monitor::by(Command::new(TOOL).env("NOTIFY_SOCKET", &path), &program, &["--trace", "0"], captures)?;
    assert_eq!([receive()?, receive()?, receive()?], ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    monitor.signal("TERM")?;
    loop {
        match receive()?.as_str() {
            "WATCHDOG=1" => {}
            last => break assert_eq!(last, "STOPPING=1"),
        }
    }
    assert!(monitor.rest()?.0.success());
    drop(program.stdin.take());
    program.wait()?;
    Ok(())
}
