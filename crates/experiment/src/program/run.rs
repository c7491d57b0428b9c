//! Runs a program once under its supervisor, with or without probes, until all its processes have exited.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::client::Client;
use super::figure::KEPT_OUTPUT;
use super::guard::{Guard, Patience};
use super::input;
use super::options::ProgramOptions;
use super::proof::Proof;
use crate::schedule::padding;
use iotrail_base::error::{self, Error, OrFail, Result};
use iotrail_base::input::bytes;
use iotrail_base::words::{count, last_line, span};
use iotrail_host::limits;
use iotrail_load::cpus;
use iotrail_probe::choice::Choice;
use iotrail_schema::program_record::ProgramRing;
use iotrail_schema::trace_record::{Subject, TraceRecord};
use iotrail_supervise::supervisor::{self, Ring, Seen, Supervisor};
use iotrail_watch::command::{Prepare, cannot_run};
use iotrail_watch::guardian::Guardian;
use iotrail_watch::namespace::Numbers;
use iotrail_watch::session::{self, Extra, News, Options, Stop, Until};
use iotrail_watch::subject;

/// Interval at which the stop flag is checked.
const LOOK: Duration = Duration::from_millis(100);

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    pub wall_ns: u64,
    /// User and system time of the command and its children; `None` if unknown.
    pub cpu_ns: Option<(u64, u64)>,
    /// 128 + signal if a signal killed it.
    pub exit_status: i32,
    /// Standard output and standard error, interleaved.
    pub output: String,
    pub rings: Vec<Ring>,
    /// Number of ring set-ups that a signal interrupted before the supervisor received them.
    pub interrupted: u64,
    /// For each ring, whether the kernel's event confirmed its flags; `None` or empty if unknown.
    pub proven: Vec<Option<bool>>,
    /// Trace; `None` if not traced.
    pub trace: Option<Box<TraceRecord>>,
    pub end: Ended,
    /// PID and name of processes that outlived the command and were killed.
    pub background: Vec<(u32, String)>,
    /// Processes that have not exited after SIGKILL.
    pub remaining: Vec<String>,
}

impl Run {
    /// A stopped run, with all values unknown.
    fn stopped() -> Self {
        Run {
            wall_ns: 0,
            cpu_ns: None,
            exit_status: 0,
            output: String::new(),
            rings: Vec::new(),
            interrupted: 0,
            proven: Vec::new(),
            trace: None,
            end: Ended::Stopped,
            background: Vec::new(),
            remaining: Vec::new(),
        }
    }
}

/// Why a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    ByItself,
    /// Stopped on request.
    Stopped,
    /// The run made no progress or took too long; contains what was observed.
    Stuck(String),
}

/// Runs the program as specified by `options`. `seed`: the block's seed.
pub fn run(options: &ProgramOptions, seed: u32, watched: bool, patience: Patience, stop: &AtomicBool) -> Result<Run> {
    // A server that this command leaves in the background belongs to the run and is killed with it.
    let prepared = shell(options, options.prepare.as_deref(), "--prepare", "", stop)?;
    if stop.load(Ordering::Relaxed) {
        cleanup(options)?;
        return Ok(Run::stopped());
    }
    options.server.as_ref().map_or(Ok(()), |server| server.ready.is_not_there_yet())?;
    let before = options.metric_file.as_deref().and_then(aged);
    let output = tempfile::tempfile().or_machine("cannot create a file for the output", "check TMPDIR")?;
    let proof = (options.supervised && options.known_flags.is_none()).then(Proof::open);
    let run = match watched {
        true => run_watched(options, seed, patience, stop, &output),
        false => run_alone(options, seed, patience, stop, &output),
    };
    let mut run = run?;
    let output = match (run.end == Ended::ByItself, &options.metric_file) {
        (true, Some(path)) => figures(path, before).map_err(|e| with_status(e, run.exit_status)),
        // The program did not reach the code that prints them.
        (false, Some(_)) => Ok(String::new()),
        (_, None) => tail(output),
    };
    run.proven = proof.map_or(Ok(Vec::new()), |proof| proof.end(&run.rings))?;
    cleanup(options)?;
    run.output = output?;
    if let (Ended::Stuck(why), [_, ..]) = (&mut run.end, &run.remaining[..]) {
        *why += &format!("; killed, and still not exited: {}", run.remaining.join(", "));
    }
    if run.end == Ended::ByItself {
        shell(options, options.check.as_deref(), "--check", &run.output, stop)?;
        if stop.load(Ordering::Relaxed) {
            run.end = Ended::Stopped;
        }
    }
    if let Some(prepared) = prepared.filter(|_| run.end == Ended::Stopped && options.leave_running) {
        prepared.leave();
    }
    Ok(run)
}

/// Also runs after a stop, because the next run depends on it.
fn cleanup(options: &ProgramOptions) -> Result<()> {
    shell(options, options.cleanup.as_deref(), "--cleanup", "", &AtomicBool::new(false)).map(drop)
}

/// Runs a user's command before or after the program, and waits for its shell. On a stop, kills the shell and its
/// children.
fn shell(
    options: &ProgramOptions,
    line: Option<&str>,
    name: &str,
    input: &str,
    stop: &AtomicBool,
) -> Result<Option<Guardian>> {
    let Some(line) = line else { return Ok(None) };
    let failed = |why: String| Error::machine(format!("{name} failed: {why}: {line}"), "run it by hand");
    let mut file = tempfile::tempfile().map_err(|e| failed(e.to_string()))?;
    std::io::Write::write_all(&mut file, input.as_bytes()).map_err(|e| failed(e.to_string()))?;
    file.seek(SeekFrom::Start(0)).map_err(|e| failed(e.to_string()))?;
    let said = tempfile::tempfile().map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new("/bin/sh");
    // Not a pipe, which the shell's background processes would keep open.
    let errors = said.try_clone().map_err(|e| failed(e.to_string()))?;
    command.arg("-c").arg(line).stdin(file).stdout(Stdio::null()).stderr(errors);
    let guardian = Guardian::over(&mut command, options.leave_running)?;
    limits::give_back(&mut command);
    command.spawn().map_err(|e| failed(e.to_string()))?;
    drop(command);
    while !guardian.wait(LOOK) {
        if stop.load(Ordering::Relaxed) {
            guardian.end();
            return Ok(None);
        }
    }
    match guardian.ended().map_or(0, |ended| ended.status) {
        0 => Ok(Some(guardian)),
        status => {
            let text = tail(said)?;
            let said = last_line(&text).map(|line| format!(": {line}")).unwrap_or_default();
            Err(failed(format!("exit status: {status}{said}")))
        }
    }
}

fn unreadable(what: &str, cause: std::io::Error) -> Error {
    Error::machine(format!("cannot read {what}"), "check whether the program writes it").because(cause)
}

/// A file's modification time, size and inode number.
type Written = (SystemTime, u64, u64);

/// File timestamp granularity: two writes within one tick get the same timestamp.
const TICK: Duration = Duration::from_millis(20);

/// `None` if the file does not exist.
fn written(path: &Path) -> Option<Written> {
    let of = std::fs::metadata(path).ok()?;
    let since = Duration::new(u64::try_from(of.ctime()).ok()?, u32::try_from(of.ctime_nsec()).ok()?);
    Some((UNIX_EPOCH + since, of.size(), of.ino()))
}

/// The same, but waits if the file was just written, so that a later write gets a different timestamp.
fn aged(path: &Path) -> Option<Written> {
    let now = written(path)?;
    if now.0.elapsed().is_ok_and(|age| age < TICK) {
        std::thread::sleep(TICK);
    }
    Some(now)
}

/// The file written by the run; `before`: its state before the run.
fn figures(path: &Path, before: Option<Written>) -> Result<String> {
    let name = path.display();
    let bytes = bytes(path, KEPT_OUTPUT).map_err(|e| unreadable(&name.to_string(), e))?;
    if before.is_some() && before == written(path) {
        return Err(Error::machine(
            format!("this run did not write {name} (--metric-file): its metrics are from an earlier run"),
            format!("check whether the program writes it; --prepare 'rm -f {name}' removes it before each run"),
        ));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Adds the exit status, because a failed program may write nothing.
fn with_status(e: Error, exit_status: i32) -> Error {
    let status = if exit_status == 0 { String::new() } else { format!(" (it exited with status {exit_status})") };
    Error { what: e.what + &status, ..e }
}

/// The end of the program's output.
fn tail(mut output: File) -> Result<String> {
    let cannot = |e| unreadable("the output", e);
    let mut bytes = Vec::new();
    let length = output.seek(SeekFrom::End(0)).map_err(cannot)?;
    // On a full file system the output is truncated, which programs rarely report.
    output.write_all(&[0; 4096]).and_then(|()| output.set_len(length)).or_machine(
        "the output may be truncated: cannot write to its temporary file",
        "set TMPDIR to a directory with free space",
    )?;
    output.seek(SeekFrom::Start(length.saturating_sub(KEPT_OUTPUT))).map_err(cannot)?;
    output.read_to_end(&mut bytes).map_err(cannot)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Sets up the run's process before execve.
fn configure(
    command: &mut Command,
    options: &ProgramOptions,
    seed: u32,
    output: &File,
) -> Result<(Guardian, Option<Supervisor>)> {
    let to_file =
        || output.try_clone().or_machine("cannot duplicate a file descriptor", "check the open file limit: ulimit -n");
    command.stdin(input::again()?).stdout(to_file()?).stderr(to_file()?);
    // Must be first, because the following calls affect the program's process.
    let guardian = Guardian::over(command, options.leave_running)?;
    let (name, value) = padding(seed);
    command.env(name, value).envs(options.env.iter().map(|(name, value)| (name, value)));
    let cpus = options.cpus.as_deref().map(cpus_named).transpose()?;
    if let Some(cpus) = cpus {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu as usize));
        // SAFETY: one system call, without locks or allocation.
        unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &set)?)) };
    }
    let supervisor = match &options.known_flags {
        _ if !options.supervised => None,
        Some(_) => {
            supervisor::leave_alone(command);
            None
        }
        None => Some(supervisor::attend(command, options.change)?),
    };
    Ok((guardian, supervisor))
}

/// `irq` and `non-irq` refer to the working directory's disk.
pub fn cpus_named(text: &str) -> Result<Vec<u32>> {
    let target = iotrail_host::block::target(Path::new(".")).ok();
    cpus::resolve(text, target.as_ref(), &iotrail_host::cpu::online()?)
}

fn run_alone(options: &ProgramOptions, seed: u32, patience: Patience, stop: &AtomicBool, output: &File) -> Result<Run> {
    let (program, args) = options.subject().split_first().expect("a program has been named");
    let log = log_of(options, output)?;
    let mut command = Command::new(program);
    command.args(args);
    limits::give_back(&mut command);
    let (guardian, supervisor) = configure(&mut command, options, seed, &log)?;
    let began = Instant::now();
    command.spawn().map_err(|e| cannot_run(program, e))?;
    drop(command);
    let client = match &options.server {
        Some(server) => Some(Client::start(options, server.ready.clone(), &log, output)?),
        None => None,
    };
    let mut end = Ended::ByItself;
    // A daemon has exited when none of its processes is left.
    let is_over = |patience| match &client {
        Some(client) => guardian.wait_for_all(patience) || client.is_over(),
        None => guardian.wait(patience),
    };
    while !is_over(if client.is_some() { CLIENTS_LOOK } else { LOOK }) {
        let spent = began.elapsed();
        if stop.load(Ordering::Relaxed) {
            end = Ended::Stopped;
        } else if patience.in_all.is_some_and(|most| spent > most) {
            end = Ended::Stuck(format!("it was still running after {}", span(spent.as_nanos() as f64)));
        } else {
            continue;
        }
        break;
    }
    let done = client.map(Client::end);
    let (background, remaining) = close(&guardian, options, &end);
    let Seen { rings, interrupted } = supervisor.map_or(Ok(Seen::default()), Supervisor::end)?;
    let ended = guardian.ended();
    let (mut exit_status, mut wall_ns) =
        ended.map_or((0, began.elapsed().as_nanos() as u64), |ended| (ended.status, ended.wall_ns));
    if let (Some(done), Ended::ByItself) = (done, &end) {
        let done = done?;
        (exit_status, wall_ns) = (done.status, done.wall_ns);
    }
    Ok(Run {
        wall_ns,
        cpu_ns: ended.and_then(|ended| ended.cpu_ns),
        exit_status,
        rings,
        interrupted,
        end,
        background,
        remaining,
        ..Run::stopped()
    })
}

/// Kills or releases all processes of a run, with the supervisor serving them until then. Returns the processes that
/// were running in the background, and those that have not exited.
fn close(guardian: &Guardian, options: &ProgramOptions, end: &Ended) -> (Vec<(u32, String)>, Vec<String>) {
    if *end == Ended::Stopped && options.leave_running {
        guardian.leave();
        return (Vec::new(), Vec::new());
    }
    let runs_on = *end == Ended::ByItself && options.server.is_none();
    let background = if runs_on { guardian.living() } else { Vec::new() };
    (background, guardian.end().iter().map(numbered).collect())
}

/// `4711 (fio)`
pub fn numbered((pid, name): &(u32, String)) -> String {
    format!("{pid} ({name})")
}

/// Allows the client's thread to record the time.
const CLIENTS_LOOK: Duration = Duration::from_millis(50);

/// Server and client write to separate files.
fn log_of(options: &ProgramOptions, output: &File) -> Result<File> {
    let file = match options.server {
        Some(_) => tempfile::tempfile(),
        None => output.try_clone(),
    };
    file.or_machine("cannot create a file for the program's output", "check TMPDIR")
}

/// Falls back to no probes, which flag changes do not need.
fn or_unwatched(e: Error) -> Error {
    match e.kind {
        error::Kind::Machine => {
            Error { remedy: format!("{}; or without the reasons: iotrail try --watch none", e.remedy), ..e }
        }
        _ => e,
    }
}

fn run_watched(
    options: &ProgramOptions,
    seed: u32,
    patience: Patience,
    stop: &AtomicBool,
    output: &File,
) -> Result<Run> {
    let argv: Vec<OsString> = options.subject().iter().map(OsString::from).collect();
    let numbers = Rc::new(Numbers::of_this_process().map_err(or_unwatched)?);
    let asked = subject::resolve(&argv, &[], false, &numbers)?;
    let supervisor: Rc<RefCell<Option<Supervisor>>> = Rc::default();
    let guardian: Rc<RefCell<Option<Rc<Guardian>>>> = Rc::default();
    let log = log_of(options, output)?;
    let prepare = {
        let (supervisor, guardian, options) = (Rc::clone(&supervisor), Rc::clone(&guardian), options.clone());
        let log =
            log.try_clone().or_machine("cannot duplicate a file descriptor", "check the open file limit: ulimit -n")?;
        Prepare(Rc::new(move |command| {
            let (of_program, attends) = configure(command, &options, seed, &log)?;
            let of_program = Rc::new(of_program);
            *supervisor.borrow_mut() = attends;
            *guardian.borrow_mut() = Some(Rc::clone(&of_program));
            Ok(Some(of_program))
        }))
    };
    let client = match &options.server {
        Some(server) => Some(Client::start(options, server.ready.clone(), &log, output)?),
        None => None,
    };
    let how = Options {
        duration: None,
        choice: Choice::adaptive(100),
        windows: None,
        stdout_apart: false,
        prepare: Some(prepare),
        tell_counts: true,
        // A server may daemonise.
        until: if options.server.is_some() { Until::Last } else { Until::Command },
        spare: true,
        light_after: None,
        checkpoints: false,
        stacks: false,
        numbers,
    };
    let guard = RefCell::new(Guard { patience, last: None, stuck: None });
    let mut tell = |news: News<'_>| {
        if let News::Goes(p) = news {
            guard.borrow_mut().look(p.elapsed, p.counts);
        }
    };
    let served = || client.as_ref().is_some_and(Client::is_over);
    let asks = || served() || stop.load(Ordering::Relaxed) || guard.borrow().stuck.is_some();
    let ended_it = std::cell::Cell::new(false);
    let leaves = || options.leave_running && stop.load(Ordering::Relaxed);
    let to_pass_on = || {
        if !ended_it.replace(true)
            && !leaves()
            && let Some(guardian) = guardian.borrow().as_ref()
        {
            guardian.end();
        }
        None
    };
    let traced =
        session::watch(asked, &how, &Extra::default(), &mut tell, &Stop { asked: &asks, to_pass_on: &to_pass_on });
    drop(how);
    let was_served = served();
    let done = client.map(Client::end);
    let end = match guard.into_inner().stuck {
        Some(why) => Ended::Stuck(why),
        None if ended_it.get() && !was_served => Ended::Stopped,
        None => Ended::ByItself,
    };
    let guardian = guardian.borrow_mut().take();
    let (background, remaining) = guardian.map(|guardian| close(&guardian, options, &end)).unwrap_or_default();
    let Seen { rings, interrupted } = supervisor.borrow_mut().take().map_or(Ok(Seen::default()), Supervisor::end)?;
    let record = traced.map_err(or_unwatched)?.record;
    let mut exit_status = match &record.subject {
        Subject::Command { exit_status, .. } => exit_status.unwrap_or(128 + Signal::KILL.as_raw()),
        _ => 0,
    };
    let mut wall_ns = record.total.elapsed_ns;
    if let (Some(done), Ended::ByItself) = (done, &end) {
        let done = done?;
        (exit_status, wall_ns) = (done.status, done.wall_ns);
    }
    let cpu_ns = record.total.cpu.user_ns.zip(record.total.cpu.system_ns);
    Ok(Run {
        wall_ns,
        cpu_ns,
        exit_status,
        rings,
        interrupted,
        trace: Some(Box::new(record)),
        end,
        background,
        remaining,
        ..Run::stopped()
    })
}

impl Run {
    /// Effects of signals on the rings that only the supervisor causes; `None` if there are none.
    pub fn interrupted_setups(&self) -> Option<String> {
        let all = self.interrupted + self.rings.len() as u64;
        (self.interrupted > 0).then(|| {
            format!(
                "signals interrupted {} of {} io_uring_setup calls before iotrail received them; unless the kernel restarts such a call \
                 (SA_RESTART), the call fails with EINTR, which happens only under iotrail",
                count(self.interrupted as f64),
                count(all as f64)
            )
        })
    }
}

/// The rings in the form of the record.
pub fn ring_records(run: &Run) -> Vec<ProgramRing> {
    let record = |(i, ring): (usize, &Ring)| ProgramRing {
        pid: ring.tgid,
        asked: ring.asked_flags(),
        granted: ring.given_flags(),
        proven: run.proven.get(i).copied().flatten(),
        left_as_asked: ring.left_as_asked.clone(),
    };
    run.rings.iter().enumerate().map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::options::from_table;

    fn alone(text: &str, in_all: Option<Duration>) -> Result<Run> {
        let options = from_table(toml::from_str(text).unwrap()).unwrap();
        let patience = Patience { stall: Duration::from_secs(1), idle: None, in_all };
        run(&options, 7, false, patience, &AtomicBool::new(false))
    }

    #[test]
    fn a_failed_prepare_command_is_not_attributed_to_the_probes() {
        let options = from_table(toml::from_str("program = 'true'\nprepare = 'exit 3'").unwrap()).unwrap();
        let patience = Patience { stall: Duration::from_secs(1), idle: None, in_all: None };
        let e = run(&options, 7, true, patience, &AtomicBool::new(false)).unwrap_err();
        assert_eq!(e.to_string(), "--prepare failed: exit status: 3: exit 3; run it by hand");
    }

    #[test]
    fn a_run_has_an_exit_status_output_and_times() {
        let r = alone("program = 'echo out; echo err >&2; sleep 0.2; exit 3'\nenv = ['A=1']", None).unwrap();
        assert_eq!((r.exit_status, r.output.as_str(), &r.end), (3, "out\nerr\n", &Ended::ByItself));
        assert!(r.wall_ns >= 200_000_000 && r.rings.is_empty());
        // Includes a child's CPU time.
        let r = alone("program = 'timeout 0.5 sh -c \"while :; do :; done\"; echo $A'\nenv = ['A=1']", None).unwrap();
        let (user, system) = r.cpu_ns.unwrap();
        assert!(user + system > 10_000_000 && r.output == "1\n", "{r:?}");
    }

    #[test]
    fn interrupted_ring_setups_are_reported_with_their_count() {
        let r = Run { interrupted: 12, ..Run::stopped() };
        assert!(r.interrupted_setups().unwrap().starts_with("signals interrupted 12 of 12 io_uring_setup calls"));
        assert_eq!(Run::stopped().interrupted_setups(), None);
    }

    #[test]
    fn output_on_a_full_file_system_is_an_error() {
        let full = File::options().read(true).write(true).open("/dev/full").unwrap();
        let why = tail(full).unwrap_err();
        assert!(why.to_string().starts_with("the output may be truncated"), "{why}");
    }

    #[test]
    fn a_run_that_exceeds_its_time_limit_is_killed_with_its_children() {
        let r = alone("program = 'sleep 600 & sleep 600'", Some(Duration::from_millis(300))).unwrap();
        assert!(matches!(&r.end, Ended::Stuck(why) if why.starts_with("it was still running after 3")), "{:?}", r.end);
        assert_eq!(r.exit_status, 128 + libc::SIGTERM);
        assert!(r.wall_ns < 2_000_000_000, "SIGTERM was sufficient");
    }

    #[test]
    fn an_unsupervised_program_that_exceeds_its_time_limit_is_killed() {
        let r = alone("program = 'setsid sleep 600 & sleep 600'\nsupervised = false", Some(Duration::from_millis(300)));
        let r = r.unwrap();
        assert!(matches!(&r.end, Ended::Stuck(_)) && r.exit_status == 128 + libc::SIGTERM, "{r:?}");
        assert_eq!((r.background, r.remaining), (vec![], vec![]));
    }

    #[test]
    fn remaining_background_processes_are_reported_and_killed() {
        let r = alone("program = '(setsid sleep 600 &)'\nprepare = 'sleep 600 &'", None).unwrap();
        let [(pid, left)] = &r.background[..] else { panic!("{r:?}") };
        assert!(!Path::new("/proc").join(pid.to_string()).exists() && r.remaining.is_empty(), "{left}");
    }

    #[test]
    fn an_interrupt_ends_a_running_prepare_command() {
        let options = from_table(toml::from_str("program = 'true'\nprepare = 'sleep 600'").unwrap()).unwrap();
        let patience = Patience { stall: Duration::from_secs(1), idle: None, in_all: None };
        let r = run(&options, 7, false, patience, &AtomicBool::new(true)).unwrap();
        assert_eq!(r.end, Ended::Stopped);
    }

    #[test]
    fn a_metric_file_that_the_run_did_not_write_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("figures");
        let of = |program: &str, more: &str| {
            let at = at.display();
            alone(&format!("program = '{program} {at}'\nmetric-file = '{at}'\n{more}"), None)
        };
        assert_eq!(of("echo 7 >", "").unwrap().output, "7\n");
        // Rewriting the same content counts as a write.
        assert_eq!(of("echo 7 >", "").unwrap().output, "7\n");
        let e = of("true", "").unwrap_err().to_string();
        assert!(e.starts_with("this run did not write ") && e.contains("--prepare 'rm -f "), "{e}");
        let without = format!("prepare = 'rm -f {}'", at.display());
        assert!(of("true", &without).unwrap_err().to_string().starts_with("cannot read "));
        assert_eq!(of("echo 8 >", &without).unwrap().output, "8\n");
    }

    #[test]
    fn prepare_cleanup_and_check_commands_run_and_failures_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        let text =
            format!("program = 'cat {at}/a'\nprepare = 'echo 7 >{at}/a'\ncleanup = 'rm {at}/a'\ncheck = 'grep -q 7'");
        let r = alone(&text, None).unwrap();
        assert_eq!(r.output, "7\n");
        assert!(!folder.path().join("a").exists());
        let e = alone("program = 'echo 8'\ncheck = 'grep -q 7'", None).unwrap_err().to_string();
        assert!(e.starts_with("--check failed: exit status: 1: grep -q 7"), "{e}");
    }
}
