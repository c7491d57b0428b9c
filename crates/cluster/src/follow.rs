//! Polls all nodes of the jobs once per second until the last one ends; Ctrl-C cancels waiting jobs and asks running
//! ones to stop.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iotrail_base::error::{Error, Result};
use iotrail_base::interrupt;
use iotrail_slurm::command::Failure;
use iotrail_slurm::outbox::Outbox;
use iotrail_slurm::state::Job;
use iotrail_slurm::{control, nodes, state};

use super::node::{Context, Node, NodePlace};
use super::shown::Shown;
use super::submitted::Submitted;

const LOOK: Duration = Duration::from_secs(1);

/// A restarted controller responds sooner.
const AWAY: Duration = Duration::from_secs(600);

/// Within this time, a node that was asked to stop has stored its measurements.
const GRACE: Duration = Duration::from_secs(30);

/// How long to wait for nodes.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a lost node.
    pub lost_after: Duration,
    /// For a node that has measured but from which nothing can be fetched; `None` to leave its results for later.
    pub give_up: Option<Duration>,
}

struct Followed<'a> {
    nodes: Vec<Node>,
    shown: Shown,
    context: Context<'a>,
    /// Accounting data of jobs that the controller has forgotten; queried once per job.
    forgotten: BTreeMap<u64, Option<Job>>,
    /// When the controller stopped responding.
    away: Option<Instant>,
    /// When all nodes were asked to stop.
    stopping: Option<Instant>,
    cancelled: bool,
}

/// Returns when no job is left in the queue. `attach`: the command that attaches to the jobs again.
pub fn follow(
    submitted: &Submitted,
    store: &Path,
    patience: Patience,
    attach: &str,
    stop: &AtomicBool,
) -> Result<Vec<Node>> {
    let (inbox, beside) = (&submitted.inbox(store), &submitted.beside(store));
    let node = |(task, (job, name)): (u32, (&u64, &String))| {
        Node::new(task, *job, name, submitted.called(name), Outbox::new(inbox, task))
    };
    interrupt::leave_with(&format!(
        "iotrail: detached; the jobs continue, or stop if requested; collect them: {attach}"
    ))?;
    let nodes: Vec<Node> = (1..).zip(submitted.jobs.iter().zip(&submitted.nodes)).map(node).collect();
    let shown = Shown::new(&nodes);
    let Patience { lost_after, give_up } = patience;
    let context = Context { submitted, attach, lost_after, give_up, beside, nodes: BTreeMap::new() };
    let forgotten = BTreeMap::new();
    let mut followed = Followed { nodes, shown, context, forgotten, away: None, stopping: None, cancelled: false };
    loop {
        if stop.load(Ordering::Relaxed) {
            if let Some(signal) = interrupt::ends_this_process_only() {
                followed.shown.end();
                return Err(followed.killed(signal));
            }
            followed.stop();
        }
        let looked = followed.look();
        followed.shown.draw(&followed.nodes);
        if looked.is_err() || followed.nodes.iter().all(Node::is_over) {
            followed.shown.end();
            looked?;
            return Ok(followed.nodes);
        }
        let slept = Instant::now();
        while slept.elapsed() < LOOK && (followed.stopping.is_some() || !stop.load(Ordering::Relaxed)) {
            std::thread::sleep(LOOK / 10);
        }
    }
}

impl Followed<'_> {
    fn look(&mut self) -> Result<()> {
        let asked: Vec<u64> = self.nodes.iter().filter(|n| !n.is_over()).map(|n| n.job).collect();
        let mut jobs = match state::jobs(&asked, self.context.submitted.user) {
            Ok(jobs) => jobs,
            Err(failure @ Failure::Absent(_)) => return Err(failure.error("cannot watch the job")),
            Err(failure) => return self.without_controller(failure),
        };
        if self.away.take().is_some() {
            self.shown.line("Slurm's controller responds again");
        }
        self.remember(&asked, &mut jobs);
        if self.nodes.iter().any(|n| n.needs_state(jobs.get(&n.job)))
            && let Ok(now) = nodes::all()
        {
            self.context.nodes = now;
        }
        for node in &mut self.nodes {
            if let Some(said) = node.step(jobs.get(&node.job), &self.context) {
                self.shown.line(&format!("{}: {said}", node.called));
            }
        }
        Ok(())
    }

    /// Adds accounting data of jobs that the controller has forgotten.
    fn remember(&mut self, asked: &[u64], jobs: &mut BTreeMap<u64, Job>) {
        let missing = || asked.iter().copied().filter(|job| !jobs.contains_key(job));
        let new: Vec<u64> = missing().filter(|job| !self.forgotten.contains_key(job)).collect();
        if !new.is_empty() {
            let mut told = state::forgotten(&new);
            self.forgotten.extend(new.into_iter().map(|job| (job, told.remove(&job))));
        }
        let known = missing().filter_map(|job| Some((job, self.forgotten.get(&job)?.clone()?)));
        let known: Vec<(u64, Job)> = known.collect();
        jobs.extend(known);
    }

    fn without_controller(&mut self, failure: Failure) -> Result<()> {
        match self.away {
            None => {
                self.shown.line(&format!("Slurm's controller does not respond ({failure}); the nodes continue"));
                self.away = Some(Instant::now());
                Ok(())
            }
            Some(since) if since.elapsed() < AWAY => Ok(()),
            Some(_) => {
                let remedy = format!("when it responds again: {}", self.context.attach);
                Err(Error::disturbed("Slurm's controller is unreachable", remedy).because(failure.to_string()))
            }
        }
    }

    /// A signal that kills only this process does not affect the jobs.
    fn killed(&self, signal: &str) -> Error {
        let what = match self.stopping {
            None => format!("ended by {signal}; the job continues"),
            Some(_) => format!("ended by {signal} while the job was stopping"),
        };
        Error::disturbed(what, format!("collect it: {}", self.context.attach))
    }

    /// A failed request is repeated at the next poll.
    fn stop(&mut self) {
        let jobs = &self.context.submitted.jobs;
        if self.stopping.is_none() {
            self.shown.line("stopping: the measurements are collected; a second Ctrl-C detaches immediately");
            self.stopping = Some(Instant::now());
        }
        if self.nodes.iter().any(|n| matches!(n.at, NodePlace::Waiting | NodePlace::Requeued)) {
            _ = control::cancel_waiting(jobs);
        }
        for node in self.nodes.iter_mut().filter(|n| n.at == NodePlace::Running && !n.stopped) {
            node.stopped = control::stop(node.job).is_ok();
        }
        if !self.cancelled && self.stopping.is_some_and(|since| since.elapsed() > GRACE) {
            self.cancelled = control::cancel(jobs).is_ok();
        }
    }
}
