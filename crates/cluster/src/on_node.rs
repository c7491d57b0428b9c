//! `iotrail slurm-node`: what `--slurm` starts on a node. Nobody else does.

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
    /// Run this command of ours; leave what it brings
    Measure(MeasureArgs),
    /// Send what a task leaves in this folder
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
    Error::machine("cannot hand over what was measured", "see the room on the node's /var/tmp, or in --shared DIR")
        .because(e)
}

/// How often the run is looked at: from outside, once a second, and what changed is copied then.
const LOOK: Duration = Duration::from_secs(1);

/// Copying takes this part of the time at most.
const COPYING: u32 = 50;

/// A task is requeued once: whatever took its node twice takes it again.
const RESTARTS: u32 = 1;

/// Slurm notices a lost node within its SlurmdTimeout (five minutes, where nobody has set it).
const NOTICED: Duration = Duration::from_secs(600);

/// As sysexits.h has it (EX_IOERR): it has measured, and cannot hand that over.
pub const NOT_LEFT: u8 = 74;

/// A node that answers again without Slurm having missed it goes on so often.
const AGAIN: u32 = 3;

/// How the command ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct End {
    status: u8,
    /// Why it failed.
    said: Option<String>,
    /// That is an error of iotrail, not that it was stopped or killed.
    has_reason: bool,
    /// The server's node, or its step, is gone.
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
            let why = format!("it has no folder {}, where the program is to run: ", within.display());
            Some(End::failed(3, why + "start it from a folder that every node has"))
        }
        // Whoever collects hears why; this error would be heard by nobody.
        _ => node.run_to_its_end(args).unwrap_or_else(|e| Some(End::failed(e.exit_status(), e.to_string()))),
    };
    // Slurm has lost the node beside this one: it ends this job, and begins it anew.
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
            // Nobody comes for what was stopped before it measured anything.
            if stop.load(Ordering::Relaxed) && folder.exists() && !node.work.exists() {
                remove(folder).map_err(cannot_leave)?;
            }
        }
    }
    Ok(to_slurm(status))
}

/// 2 is what a program of another version says of the words that it is given, and then nothing has been measured.
fn to_slurm(status: u8) -> u8 {
    if status == 2 { 1 } else { status }
}

impl Node<'_> {
    /// Runs the command; where the server's node or its step is lost, the rest when it answers again. `None`: the job is being ended
    /// meanwhile.
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

    /// Waits for the server's node. An error says why it is waited for no longer; `None`: this job is being ended.
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
                // Slurm ends this part too, and begins both anew.
                None | Some(Ending::NodeFailed) if began.elapsed() < NOTICED => std::thread::sleep(LOOK),
                None | Some(Ending::NodeFailed) => {
                    return Some(Err("the server's node was lost, and did not come back".into()));
                }
                Some(ending) => return Some(Err(format!("the job on the server's node: {}", ending.words()))),
            }
        }
    }

    /// Runs the command, or what is left of it; its exit status, and why it failed.
    fn run(&mut self, args: &MeasureArgs) -> Result<End> {
        let begun = Store::open(&self.work)?.and_then(|s| s.list().ok()).and_then(|runs| runs.into_iter().next_back());
        let words: Vec<&String> = match &begun {
            Some(run) if run.finished_unix_s.is_some() => return Ok(End::default()),
            // It has the seed that it began with.
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
                    return Ok(End::failed(3, format!("iotrail cannot be brought to the server's node: {why}")));
                }
            },
            None => false,
        };
        let watched = self.watched(command);
        if brought {
            pair::take_away(job());
        }
        let (status, error) = watched?;
        // As a shell has it, where a signal ended it.
        let code = u8::try_from(status.code().unwrap_or(3)).unwrap_or(3);
        let generic = |said: String| End { status: code, said: Some(said), ..End::default() };
        Ok(match error {
            _ if status.success() => End::default(),
            _ if self.stop.load(Ordering::Relaxed) => generic("it was told to stop".into()),
            // Without the place in the experiment's file, which nobody has written on this node.
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
                    // What cannot be left now is left later.
                    _ = self.leave(false);
                }
            }
            self.stop.load(Ordering::Relaxed).then_some(Signal::TERM)
        })
    }

    /// The last of it is left. What cannot be left stays on the node, beside the folder, which goes.
    fn left(&mut self, end: End, folder: &Path) -> io::Result<End> {
        let Err(e) = self.leave(true) else { return Ok(end) };
        let kept = folder.with_extension("db");
        kept_as(&self.work, &kept)?;
        let why = format!("its results cannot be copied ({e}); they lie there as {}", kept.display());
        Ok(End::failed(NOT_LEFT, end.said.map_or_else(|| why.clone(), |said| format!("{said}; {why}"))))
    }

    /// What has been measured so far, where that is more than before. `last`: in any case.
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
        // SQLite writes on the node's own disk: a folder that others see need not have its locks.
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

/// Under another name, to another file system too.
fn moved(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to).or_else(|_| {
        let mut copy = File::create(to)?;
        io::copy(&mut File::open(from)?, &mut copy)?;
        // A quota may be told only now.
        copy.sync_all()
    })
}

/// A store, with what a process that was killed has left half-written in it.
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

/// Of this job to Slurm.
fn job() -> u64 {
    std::env::var("SLURM_JOB_ID").ok().and_then(|n| n.parse().ok()).unwrap_or_default()
}

/// Tells the command where its server is to be. True: this program was brought there for that.
fn second(address: &str, folder: &Path, command: &mut Command) -> io::Result<bool> {
    let ours = std::env::current_exe()?;
    let came = ours.starts_with(folder);
    let program = if came { pair::bring(&ours, job())? } else { ours };
    let said = Second { address: address.to_owned(), program };
    command.env(VARIABLE, serde_json::to_string(&said)?);
    Ok(came)
}

/// With the folder above it, unless that holds another task's or a scratch file.
fn remove(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder)?;
    _ = folder.parent().map(fs::remove_dir);
    Ok(())
}

/// Touched by whoever sends.
fn sign_of_sender(folder: &Path) -> PathBuf {
    folder.join("sender")
}

/// Without a sign of a sender the task ends after this time; what it leaves can be fetched later.
const PATIENCE: Duration = Duration::from_secs(15);

/// The task lasts until its outbox has been collected, as long as somebody does.
fn wait_for_collector(folder: &Path, outbox: &Outbox, stop: &AtomicBool) {
    let ended = Instant::now();
    let is_sent = || {
        let signed = sign_of_sender(folder).metadata().and_then(|m| m.modified()).ok();
        signed.and_then(|at| at.elapsed().ok()).is_some_and(|ago| ago < PATIENCE)
    };
    while outbox.path(Item::Ended).exists() && (ended.elapsed() < PATIENCE || is_sent()) {
        // It was stopped once to end the run; cancelled again, Slurm kills it.
        if stop.load(Ordering::Relaxed) && ended.elapsed() > PATIENCE {
            return;
        }
        std::thread::sleep(LOOK / 10);
    }
}

/// `once`: of a task that is over. All that it has left is sent, also where it was killed before it could say how it ended.
fn send(folder: &Path, task: u32, once: bool) -> io::Result<u8> {
    let outbox = Outbox::new(folder, task);
    let kept = folder.with_extension("db");
    if once {
        gather(folder, &kept, &outbox);
    }
    let mut out = io::stdout().lock();
    let has_ended = stream::send(&outbox, &mut out, &mut || {
        // Before the folder is there, nothing was left yet.
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
    // Whoever has it all answers; what nobody has taken stays.
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

/// Of a task that is over: what it could not leave itself.
fn gather(folder: &Path, kept: &Path, outbox: &Outbox) {
    let own = folder.join("work.db");
    let work = match (kept.exists(), outbox.path(Item::Ended).exists()) {
        (true, _) => kept.to_owned(),
        (false, false) if own.exists() => own,
        (false, _) => return,
    };
    // It says of what is sent now that it cannot be sent.
    outbox.begin_again();
    _ = fs::create_dir(folder);
    let stop = &AtomicBool::new(false);
    let mut node = Node { outbox: outbox.clone(), work, progress: Progress::default(), next: Instant::now(), stop };
    // What cannot be read stays where it is, and what was left before is sent.
    _ = node.leave(true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::run::two_by_two;
    use iotrail_testing::sample;

    static STOP: AtomicBool = AtomicBool::new(false);

    /// In a task's folder, with one measurement; it leaves that in `shared`.
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
    fn the_last_of_it_is_left_though_no_more_was_measured() {
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
    fn what_cannot_be_left_stays_on_the_node() {
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
            assert!(said.ends_with(&format!("; they lie there as {}", kept.display())), "{said}");
            remove(&folder).unwrap();
            assert!(kept.exists());
        }
    }

    #[test]
    fn of_a_task_that_was_killed_all_is_gathered() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("7");
        let mut node = node(&folder, &folder);
        let kept = folder.with_extension("db");
        gather(&folder, &kept, &node.outbox);
        let measured =
            |node: &Node<'_>| Store::open(&node.outbox.path(Item::Store)).unwrap().unwrap().list().unwrap()[0].done;
        assert_eq!(measured(&node), 1);
        // One that could not be left lies beside the folder, and has more.
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
    fn a_status_of_2_is_of_another_version_alone() {
        assert_eq!([0, 1, 2, 3, NOT_LEFT].map(to_slurm), [0, 1, 1, 3, NOT_LEFT]);
    }
}
