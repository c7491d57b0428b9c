//! `iotrail slurm-node`, which only `--slurm` starts, on a node.

use std::fs::{self, File};
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use rustix::process::Signal;

use super::without_advice;
use iotrail_base::error::{Error, Kind, Result};
use iotrail_base::{interrupt, ourselves};
use iotrail_experiment::net::second::{Second, VARIABLE};
use iotrail_slurm::outbox::{Ended, Item, Outbox, Progress};
use iotrail_slurm::pair;
use iotrail_slurm::state::Ending;
use iotrail_slurm::stream::{self, TAKEN};
use iotrail_store::Store;

#[derive(Debug, Args)]
pub struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// Run this iotrail command, and deliver its results
    Measure(MeasureArgs),
    /// Send the results that a task delivered to this directory
    Send {
        folder: PathBuf,
        task: u32,
        #[arg(long)]
        once: bool,
    },
}

#[derive(Debug, Args)]
struct MeasureArgs {
    folder: PathBuf,
    task: u32,
    #[arg(long)]
    shared: Option<PathBuf>,
    #[arg(long)]
    within: Option<PathBuf>,
    #[arg(long)]
    server: Option<String>,
    #[arg(last = true)]
    command: Vec<String>,
}

pub fn run(args: &NodeArgs) -> Result<u8> {
    match &args.command {
        NodeCommand::Measure(args) => measure(args),
        NodeCommand::Send { folder, task, once } => send(folder, *task, *once).map_err(cannot_leave),
    }
}

fn cannot_leave(e: io::Error) -> Error {
    Error::machine("cannot return the measurements", "check the free space of the node's /var/tmp, or of --shared DIR")
        .because(e)
}

/// Interval at which the run is polled and changes are copied.
const LOOK: Duration = Duration::from_secs(1);

/// At most one part in this many of the time is spent on copying.
const COPYING: u32 = 50;

/// A task is requeued once: a cause that takes its node away twice is likely to persist.
const RESTARTS: u32 = 1;

/// Slurm notices a lost node within SlurmdTimeout (five minutes by default).
const NOTICED: Duration = Duration::from_secs(600);

/// EX_IOERR of sysexits.h: it has measured, but cannot deliver the results.
pub const NOT_LEFT: u8 = 74;

/// Maximum number of times to continue after a node responds again without Slurm having noticed the loss.
const AGAIN: u32 = 3;

/// How the command ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct End {
    status: u8,
    /// Why it failed.
    said: Option<String>,
    /// The reason is an iotrail error, not a stop or a kill.
    has_reason: bool,
    /// The server's node or step was lost.
    is_lost: bool,
}

impl End {
    fn failed(status: u8, said: impl Into<String>) -> Self {
        Self { status, said: Some(said.into()), has_reason: true, is_lost: false }
    }
}

struct Node<'a> {
    outbox: Outbox,
    work: PathBuf,
    progress: Progress,
    next: Instant,
    stop: &'a AtomicBool,
}

fn measure(args: &MeasureArgs) -> Result<u8> {
    let (folder, shared) = (args.folder.as_path(), args.shared.as_deref());
    let stop = interrupt::raise_flag()?;
    let variable = |name: &str| std::env::var(name).ok();
    let restarts = variable("SLURM_RESTART_COUNT").and_then(|n| n.parse().ok()).unwrap_or(0);
    let outbox = Outbox::new(shared.unwrap_or(folder), args.task);
    outbox.begin_again();
    let work = folder.join("work.db");
    let mut node = Node { outbox, work, progress: Progress::default(), next: Instant::now(), stop };
    let ended = match &args.within {
        _ if restarts > RESTARTS => Some(End::failed(3, "its job was requeued twice")),
        Some(within) if !within.is_dir() => {
            let why = format!("it has no directory {}, where the program is to run: ", within.display());
            Some(End::failed(3, why + "start iotrail from a directory that exists on all nodes"))
        }
        // The collector receives the reason; this error would otherwise be invisible.
        _ => node.run_to_its_end(args).unwrap_or_else(|e| Some(End::failed(e.exit_status(), e.to_string()))),
    };
    // Slurm has lost the second node, and will end and restart this job.
    let Some(ended) = ended else { return Ok(3) };
    let End { status, said, has_reason, .. } = node.left(ended, folder).map_err(cannot_leave)?;
    let node_name = variable("SLURMD_NODENAME").unwrap_or_default();
    let ended = Ended { node: node_name, status: status.into(), said, has_reason, restarts };
    let text = serde_json::to_vec(&ended).map_err(Error::internal)?;
    if node.outbox.put(Item::Ended, &text).is_err() {
        return Ok(NOT_LEFT);
    }
    match shared {
        Some(_) => remove(folder).map_err(cannot_leave)?,
        None => {
            wait_for_collector(folder, &node.outbox, stop);
            // A run stopped before its first measurement is not collected.
            if stop.load(Ordering::Relaxed) && folder.exists() && !node.work.exists() {
                remove(folder).map_err(cannot_leave)?;
            }
        }
    }
    Ok(to_slurm(status))
}

/// A different version exits with 2 because of unknown arguments, and nothing has been measured.
fn to_slurm(status: u8) -> u8 {
    if status == 2 { 1 } else { status }
}

impl Node<'_> {
    /// Runs the command; if the server's node or step is lost, runs the rest once it responds again. `None` if the job
    /// is being ended.
    fn run_to_its_end(&mut self, args: &MeasureArgs) -> Result<Option<End>> {
        let mut ended = self.run(args)?;
        for _ in 0..AGAIN {
            if ended.status == 0 || args.server.is_none() || (!ended.is_lost && pair::answers()) {
                break;
            }
            // Slurm may end this job before the node is back.
            _ = self.leave(true);
            match self.second_is_back() {
                None => return Ok(None),
                Some(Ok(())) => ended = self.run(args)?,
                Some(Err(why)) => {
                    ended = End::failed(1, why);
                    break;
                }
            }
        }
        Ok(Some(ended))
    }

    /// Waits for the server's node. Contains an error with the reason if waiting is pointless; `None` if this job is
    /// being ended.
    fn second_is_back(&self) -> Option<std::result::Result<(), String>> {
        let began = Instant::now();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if pair::answers() {
                return Some(Ok(()));
            }
            match pair::ended() {
                // Slurm will end this component as well, and restart both.
                None | Some(Ending::NodeFailed) if began.elapsed() < NOTICED => std::thread::sleep(LOOK),
                None | Some(Ending::NodeFailed) => {
                    return Some(Err("the server's node was lost, and did not come back".into()));
                }
                Some(ending) => return Some(Err(format!("the job on the server's node: {}", ending.words()))),
            }
        }
    }

    /// Runs the command or its remaining part; returns its exit status, and why it failed.
    fn run(&mut self, args: &MeasureArgs) -> Result<End> {
        let begun = Store::open(&self.work)?.and_then(|s| s.list().ok()).and_then(|runs| runs.into_iter().next_back());
        let words: Vec<&String> = match &begun {
            Some(run) if run.finished_unix_s.is_some() => return Ok(End::default()),
            // The run keeps its original seed.
            Some(_) => args.command.iter().filter(|word| !word.starts_with("--seed=")).collect(),
            None => args.command.iter().collect(),
        };
        let mut command = ourselves::command(Signal::TERM, || Ok(()));
        command
            .arg(ourselves::OPTION)
            .args(words)
            .arg("--store")
            .arg(&self.work)
            .args(begun.is_some().then_some("--resume"));
        if let Some(within) = &args.within {
            command.current_dir(within);
        }
        let brought = match &args.server {
            Some(address) => match second(address, &args.folder, &mut command) {
                Ok(brought) => brought,
                Err(why) => {
                    return Ok(End::failed(3, format!("cannot copy iotrail to the server's node: {why}")));
                }
            },
            None => false,
        };
        let watched = self.watched(command);
        if brought {
            pair::take_away(job());
        }
        let (status, error) = watched?;
        // Like a shell's status after a fatal signal.
        let code = u8::try_from(status.code().unwrap_or(3)).unwrap_or(3);
        let generic = |said: String| End { status: code, said: Some(said), ..End::default() };
        Ok(match error {
            _ if status.success() => End::default(),
            _ if self.stop.load(Ordering::Relaxed) => generic("it was told to stop".into()),
            // Drops the position in the experiment file, which was generated on this node.
            Some(e) => {
                let is_lost = e.kind == Kind::Lost;
                End { is_lost, ..End::failed(code, Error { place: None, ..e }.to_string()) }
            }
            None => generic(format!("it ended with {status}")),
        })
    }

    fn watched(&mut self, command: Command) -> Result<(ExitStatus, Option<Error>)> {
        let mut looked = Instant::now();
        ourselves::run(command, |_| {}, &mut || {
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if looked >= self.next {
                    // A result that cannot be stored now is stored later.
                    _ = self.leave(false);
                }
            }
            self.stop.load(Ordering::Relaxed).then_some(Signal::TERM)
        })
    }

    /// Delivers the last results. If that fails, they stay on the node, next to the directory, which is removed.
    fn left(&mut self, end: End, folder: &Path) -> io::Result<End> {
        let Err(e) = self.leave(true) else { return Ok(end) };
        let kept = folder.with_extension("db");
        kept_as(&self.work, &kept)?;
        let why = format!("its results cannot be copied ({e}); they stay there as {}", kept.display());
        Ok(End::failed(NOT_LEFT, end.said.map_or_else(|| why.clone(), |said| format!("{said}; {why}"))))
    }

    /// Delivers the measurements so far, if there are new ones. `last`: in any case.
    fn leave(&mut self, last: bool) -> io::Result<()> {
        let Some(store) = Store::open(&self.work).map_err(why)? else { return Ok(()) };
        let Some(run) = store.list().map_err(why)?.into_iter().next_back() else { return Ok(()) };
        let progress = Progress { done: run.done, planned: run.planned };
        if !last && progress == self.progress {
            return Ok(());
        }
        let began = Instant::now();
        let put = self.put(&store, progress);
        self.next = Instant::now() + began.elapsed() * COPYING;
        put
    }

    fn put(&mut self, store: &Store, progress: Progress) -> io::Result<()> {
        // SQLite writes to the node's own disk, because a shared directory may not support locks.
        let copy = self.work.with_extension("copy");
        _ = fs::remove_file(&copy);
        let copied = store.copy_to(&copy).map_err(why);
        let put = copied.and_then(|()| self.outbox.put_with(Item::Store, |part| moved(&copy, part)));
        _ = fs::remove_file(&copy);
        put?;
        self.outbox.put(Item::Progress, &serde_json::to_vec(&progress)?)?;
        self.progress = progress;
        Ok(())
    }
}

fn why(e: Error) -> io::Error {
    io::Error::other(without_advice(&e))
}

/// Renames a file, even across file systems.
fn moved(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to).or_else(|_| {
        let mut copy = File::create(to)?;
        io::copy(&mut File::open(from)?, &mut copy)?;
        // An exceeded quota may only be reported now.
        copy.sync_all()
    })
}

/// Copies a store, including the incomplete transaction of a killed process.
fn kept_as(store: &Path, name: &Path) -> io::Result<()> {
    let with = |path: &Path, end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    for end in ["-journal", "-wal", "-shm"] {
        _ = fs::rename(with(store, end), with(name, end));
    }
    fs::rename(store, name)
}

/// The Slurm job number.
fn job() -> u64 {
    std::env::var("SLURM_JOB_ID").ok().and_then(|n| n.parse().ok()).unwrap_or_default()
}

/// Passes the server's node to the command. Returns true if this program was copied there.
fn second(address: &str, folder: &Path, command: &mut Command) -> io::Result<bool> {
    let ours = std::env::current_exe()?;
    let came = ours.starts_with(folder);
    let program = if came { pair::bring(&ours, job())? } else { ours };
    let said = Second { address: address.to_owned(), program };
    command.env(VARIABLE, serde_json::to_string(&said)?);
    Ok(came)
}

/// Removes the directory, and its parent unless that contains another task or a scratch file.
fn remove(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder)?;
    _ = folder.parent().map(fs::remove_dir);
    Ok(())
}

/// A file that the sender touches.
fn sign_of_sender(folder: &Path) -> PathBuf {
    folder.join("sender")
}

/// Without a sign of the sender, the task exits after this time; its results can be fetched later.
const PATIENCE: Duration = Duration::from_secs(15);

/// Waits until the outbox has been collected, as long as a collector is active.
fn wait_for_collector(folder: &Path, outbox: &Outbox, stop: &AtomicBool) {
    let ended = Instant::now();
    let is_sent = || {
        let signed = sign_of_sender(folder).metadata().and_then(|m| m.modified()).ok();
        signed.and_then(|at| at.elapsed().ok()).is_some_and(|ago| ago < PATIENCE)
    };
    while outbox.path(Item::Ended).exists() && (ended.elapsed() < PATIENCE || is_sent()) {
        // The first stop ended the run; if cancelled again, Slurm kills the task.
        if stop.load(Ordering::Relaxed) && ended.elapsed() > PATIENCE {
            return;
        }
        std::thread::sleep(LOOK / 10);
    }
}

/// `once`: for a task that has ended. Sends all its files, even if it was killed before it could report its final
/// state.
fn send(folder: &Path, task: u32, once: bool) -> io::Result<u8> {
    let outbox = Outbox::new(folder, task);
    let kept = folder.with_extension("db");
    if once {
        gather(folder, &kept, &outbox);
    }
    let mut out = io::stdout().lock();
    let has_ended = stream::send(&outbox, &mut out, &mut || {
        // Ignore the error: a task without its directory has no results yet.
        _ = File::create(sign_of_sender(folder));
        !once
    })?;
    if once && !has_ended {
        stream::write(&mut out, Item::Whole, b"")?;
    }
    out.flush()?;
    if !has_ended && !once {
        return Ok(0);
    }
    // The receiver answers when it has everything; unsent results stay.
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if answer.trim() == TAKEN {
        _ = fs::remove_file(&kept);
        if folder.exists() {
            remove(folder)?;
        }
    }
    Ok(0)
}

/// For a task that has ended: collects the results that it could not deliver itself.
fn gather(folder: &Path, kept: &Path, outbox: &Outbox) {
    let own = folder.join("work.db");
    let work = match (kept.exists(), outbox.path(Item::Ended).exists()) {
        (true, _) => kept.to_owned(),
        (false, false) if own.exists() => own,
        (false, _) => return,
    };
    // Otherwise the outbox would report that these results cannot be sent.
    outbox.begin_again();
    _ = fs::create_dir(folder);
    let stop = &AtomicBool::new(false);
    let mut node = Node { outbox: outbox.clone(), work, progress: Progress::default(), next: Instant::now(), stop };
    // An unreadable store stays in place, and the earlier results are sent.
    _ = node.leave(true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::run::two_by_two;
    use iotrail_testing::sample;

    static STOP: AtomicBool = AtomicBool::new(false);

    /// A node in a task's directory with one measurement, which it delivers to `shared`.
    fn node(folder: &Path, shared: &Path) -> Node<'static> {
        fs::create_dir(folder).unwrap();
        let work = folder.join("work.db");
        let mut store = Store::create_or_open(&work).unwrap();
        let run = store.begin(&two_by_two(), "{}").unwrap();
        store.save(run, 1, 1, &sample::measurement(), &sample::histogram()).unwrap();
        let outbox = Outbox::new(shared, 1);
        Node { outbox, work, progress: Progress::default(), next: Instant::now(), stop: &STOP }
    }

    #[test]
    fn final_results_are_published_even_without_new_measurements() {
        let dir = tempfile::tempdir().unwrap();
        let mut node = node(&dir.path().join("7"), dir.path());
        node.leave(false).unwrap();
        let store = node.outbox.path(Item::Store);
        fs::remove_file(&store).unwrap();
        node.leave(false).unwrap();
        assert!(!store.exists(), "there was nothing new");
        let end = || End { status: 1, ..End::default() };
        assert_eq!(node.left(end(), &dir.path().join("7")).unwrap(), end());
        assert_eq!(Store::open(&store).unwrap().unwrap().list().unwrap()[0].done, 1);
        assert_eq!(node.outbox.progress().map(|p| p.done), Some(1));
        assert_eq!(fs::read_dir(dir.path().join("7")).unwrap().count(), 1, "no copy is left");
    }

    #[test]
    fn results_that_cannot_be_copied_stay_on_the_node() {
        for is_damaged in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (folder, kept) = (dir.path().join("7"), dir.path().join("7.db"));
            let mut node = node(&folder, &dir.path().join("no room"));
            if is_damaged {
                fs::write(&node.work, "no store at all, and long enough to be read as one").unwrap();
            }
            let End { status, said, .. } = node.left(End::default(), &folder).unwrap();
            let said = said.unwrap();
            assert_eq!(status, NOT_LEFT);
            assert!(said.starts_with("its results cannot be copied ("), "{said}");
            assert!(said.ends_with(&format!("; they stay there as {}", kept.display())), "{said}");
            remove(&folder).unwrap();
            assert!(kept.exists());
        }
    }

    #[test]
    fn all_results_of_a_killed_task_are_collected() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("7");
        let mut node = node(&folder, &folder);
        let kept = folder.with_extension("db");
        gather(&folder, &kept, &node.outbox);
        let measured =
            |node: &Node<'_>| Store::open(&node.outbox.path(Item::Store)).unwrap().unwrap().list().unwrap()[0].done;
        assert_eq!(measured(&node), 1);
        // The store that could not be copied is next to the directory, and contains more.
        let mut store = Store::open(&node.work).unwrap().unwrap();
        store.save(1, 1, 2, &sample::measurement(), &sample::histogram()).unwrap();
        drop(store);
        node.outbox = Outbox::new(dir.path().join("no room"), 1);
        assert_eq!(node.left(End::default(), &folder).unwrap().status, NOT_LEFT);
        remove(&folder).unwrap();
        node.outbox = Outbox::new(&folder, 1);
        gather(&folder, &kept, &node.outbox);
        assert_eq!(measured(&node), 2);
        assert!(kept.exists(), "until it is taken");
    }

    #[test]
    fn usage_errors_are_not_passed_to_slurm_as_status_2() {
        assert_eq!([0, 1, 2, 3, NOT_LEFT].map(to_slurm), [0, 1, 1, 3, NOT_LEFT]);
    }
}
