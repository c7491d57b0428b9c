//! One run of a program: under its supervisor, alone or watched, from its start to the end of all that it started.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::client::Client;
use super::group::end_group;
use super::guard::{Guard, Patience};
use super::input;
use super::options::ProgramOptions;
use super::proof::Proof;
use crate::experiment::schedule::padding;
use iotrail_base::error::{Error, Result};
use iotrail_base::input::bytes;
use iotrail_base::words::{last_line, span};
use iotrail_host::limits;
use iotrail_load::cpus;
use iotrail_probe::choice::Choice;
use iotrail_schema::program_record::ProgramRing;
use iotrail_schema::trace_record::{Subject, TraceRecord};
use iotrail_supervise::supervisor::{self, Ring, Supervisor};
use iotrail_watch::command::Prepare;
use iotrail_watch::end::{self, End};
use iotrail_watch::namespace::Numbers;
use iotrail_watch::session::{self, Extra, How, News, Stop, Until};
use iotrail_watch::subject;

/// What of its output is kept, from the end.
const OUTPUT: u64 = 16 << 20;
/// Between two looks whether it is to be stopped.
const LOOK: Duration = Duration::from_millis(100);

/// What a run yields.
#[derive(Debug)]
pub struct Run {
    pub wall_ns: u64,
    /// Of the command and all that it started and waited for; `None`: not known.
    pub cpu_ns: Option<(u64, u64)>,
    /// 128 + the signal where one killed it.
    pub exit_status: i32,
    /// Both its outputs, as they came.
    pub output: String,
    pub rings: Vec<Ring>,
    /// Of each ring whether the kernel's own event showed it with its flags; `None`, or none: nobody can tell.
    pub proven: Vec<Option<bool>>,
    /// What the probes saw; `None`: it was not watched.
    pub trace: Option<Box<TraceRecord>>,
    pub end: Ended,
}

/// Why a run was over.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    ByItself,
    /// Somebody asked for it.
    Stopped,
    /// It got nothing done, or took too long: what was seen.
    Stuck(String),
}

/// Runs it as `options` say. `seed` is the block's.
pub fn run(options: &ProgramOptions, seed: u32, watched: bool, patience: Patience, stop: &AtomicBool) -> Result<Run> {
    shell(options.prepare.as_deref(), "--prepare", "")?;
    options.server.as_ref().map_or(Ok(()), |server| server.ready.is_not_there_yet())?;
    let before = options.metric_file.as_deref().and_then(aged);
    let output = tempfile::tempfile()
        .map_err(|e| Error::machine("cannot make a file for the output", "see TMPDIR").because(e))?;
    let proof = options.supervised.then(Proof::open);
    let run = match watched {
        true => run_watched(options, seed, patience, stop, &output),
        false => run_alone(options, seed, patience, stop, &output),
    };
    let mut run = run?;
    let output = match (run.end == Ended::ByItself, &options.metric_file) {
        (true, Some(path)) => figures(path, before).map_err(|e| with_status(e, run.exit_status)),
        // It did not come to the place where it writes them.
        (false, Some(_)) => Ok(String::new()),
        (_, None) => tail(output),
    };
    run.proven = proof.map_or(Ok(Vec::new()), |proof| proof.end(&run.rings))?;
    shell(options.cleanup.as_deref(), "--cleanup", "")?;
    run.output = output?;
    if run.end == Ended::ByItself {
        shell(options.check.as_deref(), "--check", &run.output)?;
    }
    Ok(run)
}

/// A command of the user's beside the program.
fn shell(line: Option<&str>, name: &str, input: &str) -> Result<()> {
    let Some(line) = line else { return Ok(()) };
    let failed = |why: String| Error::machine(format!("{name} failed: {why}: {line}"), "run it by hand");
    let mut file = tempfile::tempfile().map_err(|e| failed(e.to_string()))?;
    std::io::Write::write_all(&mut file, input.as_bytes()).map_err(|e| failed(e.to_string()))?;
    file.seek(SeekFrom::Start(0)).map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).stdin(file);
    limits::give_back(&mut command);
    let out = command.output().map_err(|e| failed(e.to_string()))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let said = last_line(&said).map(|line| format!(": {line}")).unwrap_or_default();
    Err(failed(format!("{}{said}", out.status)))
}

fn unreadable(what: &str, cause: std::io::Error) -> Error {
    Error::machine(format!("cannot read {what}"), "see whether it is written").because(cause)
}

/// When a file was last changed, its size and its number.
type Written = (SystemTime, u64, u64);

/// The clock of files goes on by ticks: what is written within one leaves the same time.
const TICK: Duration = Duration::from_millis(20);

/// `None`: there is no such file.
fn written(path: &Path) -> Option<Written> {
    let of = std::fs::metadata(path).ok()?;
    let since = Duration::new(u64::try_from(of.ctime()).ok()?, u32::try_from(of.ctime_nsec()).ok()?);
    Some((UNIX_EPOCH + since, of.size(), of.ino()))
}

/// The same; what was written just now is left to grow older, so that a write after this one shows.
fn aged(path: &Path) -> Option<Written> {
    let now = written(path)?;
    if now.0.elapsed().is_ok_and(|age| age < TICK) {
        std::thread::sleep(TICK);
    }
    Some(now)
}

/// What the run has written; `before`: what was there before it.
fn figures(path: &Path, before: Option<Written>) -> Result<String> {
    let name = path.display();
    let bytes = bytes(path, OUTPUT).map_err(|e| unreadable(&name.to_string(), e))?;
    if before.is_some() && before == written(path) {
        return Err(Error::machine(
            format!("this run did not write {name}, the file of --metric-file: its figures are of an earlier run"),
            format!("see whether the program writes there; --prepare 'rm -f {name}' takes it away before each run"),
        ));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A program that failed writes nothing.
fn with_status(e: Error, exit_status: i32) -> Error {
    let status = if exit_status == 0 { String::new() } else { format!(" (it ended with status {exit_status})") };
    Error { what: e.what + &status, ..e }
}

/// The end of what it printed.
fn tail(mut output: File) -> Result<String> {
    let cannot = |e| unreadable("the output", e);
    let mut bytes = Vec::new();
    let length = output.seek(SeekFrom::End(0)).map_err(cannot)?;
    output.seek(SeekFrom::Start(length.saturating_sub(OUTPUT))).map_err(cannot)?;
    output.read_to_end(&mut bytes).map_err(cannot)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Everything that a run's process is before it becomes the program.
fn configure(command: &mut Command, options: &ProgramOptions, seed: u32, output: &File) -> Result<Option<Supervisor>> {
    let to_file =
        || output.try_clone().map_err(|e| Error::machine("cannot use a file twice", "see ulimit -n").because(e));
    // A group of its own: Ctrl-C is for us, and we end it with all that it started.
    command.stdin(input::again()?).stdout(to_file()?).stderr(to_file()?).process_group(0);
    let (name, value) = padding(seed);
    command.env(name, value).envs(options.env.iter().map(|(name, value)| (name, value)));
    if !options.leave_running {
        // SAFETY: one system call, which takes no lock and allocates nothing. The thread that starts it lives as long as it does.
        unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
    }
    let cpus = options.cpus.as_deref().map(cpus_named).transpose()?;
    if let Some(cpus) = cpus {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu as usize));
        // SAFETY: one system call, which takes no lock and allocates nothing.
        unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &set)?)) };
    }
    options.supervised.then(|| supervisor::attend(command, options.change)).transpose()
}

/// `irq` and `non-irq` are of the disk below the working directory.
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
    let supervisor = configure(&mut command, options, seed, &log)?;
    let began = Instant::now();
    let child = command
        .spawn()
        .map_err(|e| Error::input(format!("cannot run {program}"), "name a program that can be run").because(e))?;
    drop(command);
    let pid = child.id();
    let end = End::of(pid)
        .map_err(|e| Error::machine("cannot follow the program to its end", "pidfd_open needs Linux 5.3").because(e))?;
    let client = match &options.server {
        Some(server) => Some(Client::start(options, server.ready.clone(), &log, output)?),
        None => None,
    };
    let mut ended = Ended::ByItself;
    while !end.is_there() && !client.as_ref().is_some_and(Client::is_over) {
        end::wait([&end].into_iter(), if client.is_some() { CLIENTS_LOOK } else { LOOK });
        let spent = began.elapsed();
        if end.is_there() {
            break;
        }
        if stop.load(Ordering::Relaxed) {
            ended = Ended::Stopped;
        } else if patience.in_all.is_some_and(|most| spent > most) {
            ended = Ended::Stuck(format!("it had not ended after {}", span(spent.as_nanos() as f64)));
        } else {
            continue;
        }
        break;
    }
    let mut wall_ns = began.elapsed().as_nanos() as u64;
    let done = client.map(Client::end);
    let (mut exit_status, cpu_ns) = if ended == Ended::Stopped && options.leave_running {
        (0, None)
    } else {
        // Its number is still its own: it was not waited for.
        end_group(pid);
        wait_for(pid).map(|(status, cpu_ns)| (status, Some(cpu_ns)))?
    };
    let rings = supervisor.map_or(Ok(Vec::new()), Supervisor::end)?;
    if let (Some(done), Ended::ByItself) = (done, &ended) {
        let done = done?;
        (exit_status, wall_ns) = (status_of(done.status), done.wall_ns);
    }
    Ok(Run { wall_ns, cpu_ns, exit_status, output: String::new(), rings, proven: Vec::new(), trace: None, end: ended })
}

/// Its client's thread has taken the time by then.
const CLIENTS_LOOK: Duration = Duration::from_millis(50);

/// What a server prints is not what its client prints.
fn log_of(options: &ProgramOptions, output: &File) -> Result<File> {
    let file = match options.server {
        Some(_) => tempfile::tempfile(),
        None => output.try_clone(),
    };
    file.map_err(|e| Error::machine("cannot make a file for what the program prints", "see TMPDIR").because(e))
}

fn status_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(255)
}

/// Its exit status, and the CPU time of it and of what it waited for.
fn wait_for(pid: u32) -> Result<(i32, (u64, u64))> {
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: two live places that the call fills.
    while unsafe { libc::wait4(pid as libc::pid_t, &mut status, 0, usage.as_mut_ptr()) } < 0 {
        let cause = std::io::Error::last_os_error();
        if cause.kind() != std::io::ErrorKind::Interrupted {
            return Err(Error::machine("cannot wait for the program", "report this").because(cause));
        }
    }
    // SAFETY: the call has filled it.
    let usage = unsafe { usage.assume_init() };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    let status = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
    Ok((status, (ns(usage.ru_utime), ns(usage.ru_stime))))
}

fn run_watched(
    options: &ProgramOptions,
    seed: u32,
    patience: Patience,
    stop: &AtomicBool,
    output: &File,
) -> Result<Run> {
    let argv: Vec<OsString> = options.subject().iter().map(OsString::from).collect();
    let numbers = Rc::new(Numbers::of_this_process()?);
    let asked = subject::resolve(&argv, &[], false, &numbers)?;
    let supervisor: Rc<RefCell<Option<Supervisor>>> = Rc::default();
    let log = log_of(options, output)?;
    let prepare = {
        let (supervisor, options) = (Rc::clone(&supervisor), options.clone());
        let log = log.try_clone().map_err(|e| Error::machine("cannot use a file twice", "see ulimit -n").because(e))?;
        Prepare(Rc::new(move |command| {
            *supervisor.borrow_mut() = configure(command, &options, seed, &log)?;
            Ok(())
        }))
    };
    let client = match &options.server {
        Some(server) => Some(Client::start(options, server.ready.clone(), &log, output)?),
        None => None,
    };
    let how = How {
        duration: None,
        choice: Choice::adaptive(100),
        windows: None,
        stdout_apart: false,
        prepare: Some(prepare),
        tell_counts: true,
        until: Until::Command,
        spare: true,
        light_after: None,
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
            && let Some(leader) = supervisor.borrow().as_ref().and_then(Supervisor::leader)
        {
            end_group(leader);
        }
        None
    };
    let traced =
        session::watch(asked, &how, &Extra::default(), &mut tell, &Stop { asked: &asks, to_pass_on: &to_pass_on });
    drop(how);
    let was_served = served();
    let done = client.map(Client::end);
    let supervisor = supervisor.borrow_mut().take();
    let leader = supervisor.as_ref().and_then(Supervisor::leader);
    leader.into_iter().filter(|_| !leaves()).for_each(end_group);
    let rings = supervisor.map_or(Ok(Vec::new()), Supervisor::end)?;
    let record = traced?.record;
    let mut exit_status = match &record.subject {
        Subject::Command { exit_status, .. } => exit_status.unwrap_or(128 + Signal::KILL.as_raw()),
        _ => 0,
    };
    let end = match guard.into_inner().stuck {
        Some(why) => Ended::Stuck(why),
        None if ended_it.get() && !was_served => Ended::Stopped,
        None => Ended::ByItself,
    };
    let mut wall_ns = record.total.elapsed_ns;
    if let (Some(done), Ended::ByItself) = (done, &end) {
        let done = done?;
        (exit_status, wall_ns) = (status_of(done.status), done.wall_ns);
    }
    let cpu_ns = record.total.cpu.user_ns.zip(record.total.cpu.system_ns);
    Ok(Run {
        wall_ns,
        cpu_ns,
        exit_status,
        output: String::new(),
        rings,
        proven: Vec::new(),
        trace: Some(Box::new(record)),
        end,
    })
}

/// As they are recorded.
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
    use crate::experiment::program::options::from_table;

    fn alone(text: &str, in_all: Option<Duration>) -> Result<Run> {
        let options = from_table(toml::from_str(text).unwrap()).unwrap();
        let patience = Patience { stall: Duration::from_secs(1), in_all };
        run(&options, 7, false, patience, &AtomicBool::new(false))
    }

    #[test]
    fn a_run_has_its_status_its_output_and_its_time() {
        let r = alone("program = 'echo out; echo err >&2; sleep 0.2; exit 3'\nenv = ['A=1']", None).unwrap();
        assert_eq!((r.exit_status, r.output.as_str(), &r.end), (3, "out\nerr\n", &Ended::ByItself));
        assert!(r.wall_ns >= 200_000_000 && r.rings.is_empty());
        // Half a second of computing in a child counts.
        let r = alone("program = 'timeout 0.5 sh -c \"while :; do :; done\"; echo $A'\nenv = ['A=1']", None).unwrap();
        let (user, system) = r.cpu_ns.unwrap();
        assert!(user + system > 10_000_000 && r.output == "1\n", "{r:?}");
    }

    #[test]
    fn what_takes_too_long_is_ended_with_all_that_it_started() {
        let r = alone("program = 'sleep 600 & sleep 600'", Some(Duration::from_millis(300))).unwrap();
        assert!(matches!(&r.end, Ended::Stuck(why) if why.starts_with("it had not ended after 3")), "{:?}", r.end);
        assert_eq!(r.exit_status, 128 + libc::SIGTERM);
        assert!(r.wall_ns < 2_000_000_000, "none of them had to be killed");
    }

    #[test]
    fn a_file_of_figures_that_the_run_did_not_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("figures");
        let of = |program: &str, more: &str| {
            let at = at.display();
            alone(&format!("program = '{program} {at}'\nmetric-file = '{at}'\n{more}"), None)
        };
        assert_eq!(of("echo 7 >", "").unwrap().output, "7\n");
        // The same once more is another write of it.
        assert_eq!(of("echo 7 >", "").unwrap().output, "7\n");
        let e = of("true", "").unwrap_err().to_string();
        assert!(e.starts_with("this run did not write ") && e.contains("--prepare 'rm -f "), "{e}");
        let without = format!("prepare = 'rm -f {}'", at.display());
        assert!(of("true", &without).unwrap_err().to_string().starts_with("cannot read "));
        assert_eq!(of("echo 8 >", &without).unwrap().output, "8\n");
    }

    #[test]
    fn commands_beside_it_are_run_and_their_failure_is_said() {
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
