//! Transfers results over srun's streams: one thread per node, with a step next to the task, or in a small job after
//! the task has ended.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use iotrail_base::words::last_line;
use iotrail_slurm::outbox::{Item, Outbox};
use iotrail_slurm::pair;
use iotrail_slurm::queue;
use iotrail_slurm::script::{self, Program};
use iotrail_slurm::stream::{self, Place, TAKEN};

/// A running transfer of one node's results.
pub struct ResultTransfer {
    thread: Option<JoinHandle<io::Result<()>>>,
    began: Instant,
}

/// A node's results to transfer, and their destination.
pub struct Transfer {
    pub program: Program,
    /// The directory on the node.
    pub folder: String,
    pub task: u32,
    pub inbox: Outbox,
    /// The job's second node, if any.
    pub second: Option<String>,
    /// Queue options for a job that fetches the results.
    pub queue: Vec<String>,
}

/// After a failure, a step is not started again before `AGAIN`; after `OFTEN` consecutive failures, not before `LATER`:
/// a job that has ended waits for a collector, and must not occupy its node for one that cannot receive anything.
const AGAIN: Duration = Duration::from_secs(3);
const LATER: Duration = Duration::from_secs(60);
pub const OFTEN: u32 = 5;

impl ResultTransfer {
    /// Transfers next to the task with this Slurm job number; first transfers the program, if it has to be shipped.
    pub fn beside(job: u64, freight: Transfer) -> Self {
        let place = Place::Beside { job, paired: freight.second.is_some() };
        Self::start(move || {
            if freight.program == Program::Comes {
                deliver(place, &freight.folder)?;
            }
            receive(place, &freight, false)
        })
    }

    /// Transfers from a task that has ended.
    pub fn after(node: String, freight: Transfer) -> Self {
        Self::start(move || {
            let minutes = queue::minutes(&freight.queue);
            let from = |queue: &[String], minutes| receive(Place::On { node: &node, queue, minutes }, &freight, true);
            let later = queue::without_reservation(&freight.queue);
            let mut fetched = from(&freight.queue, minutes);
            // The reservation may have ended meanwhile.
            if fetched.is_err() && later.len() < freight.queue.len() {
                fetched = from(&later, minutes);
            }
            // The account's limits may also be lower.
            let fetched = match fetched {
                Err(e) if minutes > 1 && is_of_time(&e) => from(&later, 1),
                fetched => fetched,
            };
            if let (Ok(()), Program::Comes, Some(second)) = (&fetched, &freight.program, &freight.second) {
                // If that node is lost too, the copy stays there.
                let place = Place::On { node: second, queue: &later, minutes: 1 };
                _ = stream::step(place, Path::new("/bin/sh"), &["-c", &pair::removed(&freight.folder)]).and_then(ended);
            }
            fetched
        })
    }

    fn start(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Self {
        Self { thread: Some(std::thread::spawn(work)), began: Instant::now() }
    }

    pub fn is_under_way(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// `failures`: number of consecutive failures.
    pub fn may_start_again(&self, failures: u32) -> bool {
        let after = if failures < OFTEN { AGAIN } else { LATER };
        !self.is_under_way() && self.began.elapsed() > after
    }

    /// Why a transfer that has ended failed, if it did.
    pub fn failed(&mut self) -> Option<String> {
        self.thread.take()?.join().ok()?.err().map(|e| e.to_string())
    }
}

fn deliver(place: Place<'_>, folder: &str) -> io::Result<()> {
    let program = File::open(std::env::current_exe()?)?;
    let mut step = stream::step(place, Path::new("/bin/sh"), &["-c", &script::receive(folder)])?;
    if let Some(mut stdin) = step.stdin.take() {
        // A node that already has the program does not read it.
        _ = io::copy(&mut &program, &mut stdin);
    }
    ended(step)
}

/// Whether Slurm's reason is a time limit: `PartitionTimeLimit`, `QOSMaxWallDurationPerJobLimit`, `Requested time limit
/// is invalid`.
fn is_of_time(e: &io::Error) -> bool {
    let said = e.to_string();
    ["TimeLimit", "MaxWall", "time limit"].iter().any(|words| said.contains(words))
}

fn receive(place: Place<'_>, freight: &Transfer, once: bool) -> io::Result<()> {
    let sends = script::send(&freight.program, &freight.folder, freight.task, once);
    let mut step = stream::step(place, Path::new("/bin/sh"), &["-c", &sends])?;
    let mut stdin = step.stdin.take();
    let mut from = BufReader::new(step.stdout.take().ok_or_else(|| io::Error::other("srun has no output"))?);
    let watch = match place {
        Place::On { node, .. } => Some(Watch::over(&step, node)),
        Place::Beside { .. } => None,
    };
    let mut take = || -> io::Result<()> {
        while let Some((item, bytes)) = stream::read(&mut from)? {
            watch.iter().for_each(Watch::has_begun);
            if item != Item::Whole {
                freight.inbox.put(item, &bytes)?;
            }
            if [Item::Ended, Item::Whole].contains(&item)
                && let Some(mut stdin) = stdin.take()
            {
                // A step that does not read this leaves the data on the node, which is harmless.
                _ = writeln!(stdin, "{TAKEN}");
            }
        }
        Ok(())
    };
    let taken = take();
    // The step's PID cannot be reused until the step has been reaped.
    let why_not = watch.and_then(Watch::end);
    drop((stdin, from));
    if taken.is_err() {
        // The step's data would have no receiver.
        _ = kill_process(Pid::from_child(&step), Signal::TERM);
    }
    let ended = ended(step);
    taken?;
    why_not.map_or(ended, |why| {
        Err(io::Error::other(format!("Slurm does not start the job that fetches the results: {why}")))
    })
}

/// Watches a fetching job, which would otherwise wait forever if Slurm leaves it in the queue.
struct Watch {
    state: Arc<(Mutex<Watched>, Condvar)>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Watched {
    has_begun: bool,
    why_not: Option<String>,
}

/// If the node is busy, srun gives up after a minute without a reason, so this is shorter.
const PATIENCE: Duration = Duration::from_secs(55);

impl Watch {
    fn over(step: &Child, node: &str) -> Self {
        let (id, node) = (Pid::from_child(step), node.to_owned());
        let state = Arc::new((Mutex::new(Watched::default()), Condvar::new()));
        let theirs = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let (watched, changed) = &*theirs;
            let mut watched = lock(watched);
            while !watched.has_begun && watched.why_not.is_none() {
                let waited = changed.wait_timeout_while(watched, PATIENCE, |watched| !watched.has_begun);
                watched = waited.unwrap_or_else(PoisonError::into_inner).0;
                if !watched.has_begun {
                    watched.why_not = queue::why_not(stream::FETCH, &node);
                }
            }
            if watched.why_not.is_some() {
                // The step's job ends with it.
                _ = kill_process(id, Signal::TERM);
            }
        });
        Self { state, thread }
    }

    fn has_begun(&self) {
        lock(&self.state.0).has_begun = true;
        self.state.1.notify_all();
    }

    /// Why the job was cancelled before it started.
    fn end(self) -> Option<String> {
        self.has_begun();
        _ = self.thread.join();
        lock(&self.state.0).why_not.take()
    }
}

fn lock(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a step to end. On failure, the error contains the reason.
fn ended(mut step: Child) -> io::Result<()> {
    let mut said = String::new();
    if let Some(stderr) = &mut step.stderr {
        _ = stderr.read_to_string(&mut said);
    }
    let status = step.wait()?;
    if status.success() {
        return Ok(());
    }
    let said = last_line(&said).unwrap_or_else(|| format!("srun ended with {status}"));
    Err(io::Error::other(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_time_limits_are_distinguished_from_other_failures() {
        let is = |said: &str| is_of_time(&io::Error::other(said.to_owned()));
        assert!(is("Slurm does not start the job that fetches the results: PartitionTimeLimit"));
        assert!(is(
            "srun: error: Unable to allocate resources: Requested time limit is invalid (missing or exceeds some limit)"
        ));
        assert!(is("Slurm does not start the job that fetches the results: QOSMaxWallDurationPerJobLimit"));
        assert!(!is("srun: error: Unable to allocate resources: Requested nodes are busy"));
    }

    #[test]
    fn repeated_failures_are_retried_less_often() {
        let failed = |ago| ResultTransfer { thread: None, began: Instant::now() - Duration::from_secs(ago) };
        assert!(!failed(2).may_start_again(0) && failed(4).may_start_again(OFTEN - 1));
        assert!(!failed(30).may_start_again(OFTEN) && failed(61).may_start_again(OFTEN));
    }
}
