//! Results over srun's streams: a thread for each node, with a step beside the task, or in a small job once that is over.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use iotrail_base::words::last_line;
use iotrail_slurm::outbox::{Item, Outbox};
use iotrail_slurm::queue;
use iotrail_slurm::script::{self, Program};
use iotrail_slurm::stream::{self, Place, TAKEN};

/// One node's results on their way.
pub struct Carrier {
    thread: Option<JoinHandle<io::Result<()>>>,
    began: Instant,
}

/// What is carried.
pub struct Freight {
    pub program: Program,
    /// On the node.
    pub folder: String,
    pub task: u32,
    pub inbox: Outbox,
    /// The job has a second node.
    pub paired: bool,
    /// Options that say where a job that fetches it waits.
    pub queue: Vec<String>,
}

/// A step that failed is not started again before this time.
const AGAIN: Duration = Duration::from_secs(3);

impl Carrier {
    /// Beside the task with this number of Slurm's; a program that is to be shipped goes there first.
    pub fn beside(job: u64, freight: Freight) -> Self {
        let place = Place::Beside { job, paired: freight.paired };
        Self::start(move || {
            if freight.program == Program::Comes {
                deliver(place, &freight.folder)?;
            }
            receive(place, &freight, false)
        })
    }

    /// Of a task that is over.
    pub fn after(node: String, freight: Freight) -> Self {
        Self::start(move || {
            let from = |queue: &[String]| receive(Place::On { node: &node, queue }, &freight, true);
            let later = queue::without_reservation(&freight.queue);
            let fetched = from(&freight.queue);
            // A reservation may have ended since.
            if later.len() < freight.queue.len() { fetched.or_else(|_| from(&later)) } else { fetched }
        })
    }

    fn start(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Self {
        Self { thread: Some(std::thread::spawn(work)), began: Instant::now() }
    }

    pub fn is_under_way(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    pub fn may_start_again(&self) -> bool {
        !self.is_under_way() && self.began.elapsed() > AGAIN
    }

    /// Of one that is no longer under way: why it failed.
    pub fn failed(&mut self) -> Option<String> {
        self.thread.take()?.join().ok()?.err().map(|e| e.to_string())
    }
}

fn deliver(place: Place<'_>, folder: &str) -> io::Result<()> {
    let program = File::open(std::env::current_exe()?)?;
    let mut step = stream::step(place, Path::new("/bin/sh"), &["-c", &script::receive(folder)])?;
    if let Some(mut stdin) = step.stdin.take() {
        // A node that has it already does not read it.
        _ = io::copy(&mut &program, &mut stdin);
    }
    ended(step)
}

fn receive(place: Place<'_>, freight: &Freight, once: bool) -> io::Result<()> {
    let sends = script::send(&freight.program, &freight.folder, freight.task, once);
    let mut step = stream::step(place, Path::new("/bin/sh"), &["-c", &sends])?;
    let mut stdin = step.stdin.take();
    let mut from = BufReader::new(step.stdout.take().ok_or_else(|| io::Error::other("srun has no output"))?);
    while let Some((item, bytes)) = stream::read(&mut from)? {
        freight.inbox.put(item, &bytes)?;
        if item == Item::Ended
            && let Some(mut stdin) = stdin.take()
        {
            // Whoever does not read it has left it there, where it does no harm.
            _ = writeln!(stdin, "{TAKEN}");
        }
    }
    drop(stdin);
    ended(step)
}

/// Waits for a step; an error says why it failed.
fn ended(mut step: Child) -> io::Result<()> {
    let mut said = String::new();
    if let Some(stderr) = &mut step.stderr {
        _ = stderr.read_to_string(&mut said);
    }
    let status = step.wait()?;
    if status.success() {
        return Ok(());
    }
    let said = last_line(&said).map_or_else(|| format!("srun ended with {status}"), str::to_owned);
    Err(io::Error::other(said))
}
