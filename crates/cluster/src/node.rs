//! The lifecycle of a node: in the queue, running, lost and back, ended.

use std::collections::BTreeMap;
use std::iter;
use std::path::Path;
use std::time::{Duration, Instant};

use iotrail_base::words::plural;
use iotrail_slurm::control;
use iotrail_slurm::nodes;
use iotrail_slurm::outbox::{Ended, Item, Outbox, Progress};
use iotrail_slurm::script::{Program, folder};
use iotrail_slurm::state::{Detail, Ending, Job, State, detail};

use super::carry::{OFTEN, ResultTransfer, Transfer};
use super::on_node::NOT_LEFT;
use super::submitted::Submitted;

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePlace {
    Waiting,
    Running,
    /// It was lost and may return, or a higher-priority job has preempted it.
    Requeued,
    /// Its job has ended; results may still be in transfer.
    Ended(Ending),
    Over(Ending),
}

pub struct Node {
    pub task: u32,
    /// Slurm's job number.
    pub job: u64,
    pub name: String,
    /// Name, including that of the second node if there is one.
    pub called: String,
    pub at: NodePlace,
    pub inbox: Outbox,
    /// Why it has not measured everything.
    pub said: Option<String>,
    /// Its measurements may still be on the node.
    pub left_behind: bool,
    /// It succeeded, but none of its results arrived.
    pub is_missing: bool,
    /// It was asked to stop.
    pub stopped: bool,
    /// Number of times that its job was requeued.
    requeued: u32,
    /// The last reported reason for waiting.
    reason: String,
    since: Instant,
    /// Why it is no longer waited for.
    because: Option<String>,
    /// Set if all results had already arrived when fetching the remaining files failed; the reason of the failure.
    pub whole_without: Option<String>,
    carrier: Option<ResultTransfer>,
    /// Number of consecutive transfer failures.
    failures: u32,
    fetched: bool,
    /// Why its results could not be fetched.
    unfetched: Option<String>,
}

/// Data shared by all nodes.
pub struct Context<'a> {
    pub submitted: &'a Submitted,
    /// The command that attaches to all nodes again.
    pub attach: &'a str,
    pub lost_after: Duration,
    /// How long to wait for results of an unusable node; `None` to leave them for later.
    pub give_up: Option<Duration>,
    /// Directory next to the store for fetched files, even if there is a shared directory.
    pub beside: &'a Path,
    /// Node states, if they could be read.
    pub nodes: BTreeMap<String, nodes::Node>,
}

/// Maximum delay until another machine's new files appear in a shared directory.
const SHARED: Duration = Duration::from_secs(10);

/// A job is requeued, and therefore restarted, at most once.
const REQUEUES: u32 = 1;

impl Node {
    pub fn new(task: u32, job: u64, name: &str, called: String, inbox: Outbox) -> Self {
        Self {
            task,
            job,
            name: name.to_owned(),
            called,
            at: NodePlace::Waiting,
            inbox,
            said: None,
            left_behind: false,
            is_missing: false,
            stopped: false,
            requeued: 0,
            reason: String::new(),
            since: Instant::now(),
            because: None,
            whole_without: None,
            carrier: None,
            failures: 0,
            fetched: false,
            unfetched: None,
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.at, NodePlace::Over(_))
    }

    /// Whether the node's state is needed to decide; not if the job continues.
    pub fn needs_state(&self, job: Option<&Job>) -> bool {
        let works = self.at == NodePlace::Running && job.is_some_and(|job| job.state == State::Running);
        !works && !self.is_over()
    }

    pub fn progress(&self) -> Progress {
        self.inbox.progress().unwrap_or_default()
    }

    /// Evaluates Slurm's report on its job; returns messages for the user.
    pub fn step(&mut self, job: Option<&Job>, context: &Context<'_>) -> Option<String> {
        if self.is_over() {
            return None;
        }
        match job.map_or(State::Ended(Ending::Other), |job| job.state) {
            State::Waiting => self.waits(job.and_then(|j| j.reason.as_deref()).unwrap_or_default(), context),
            State::Running => self.runs(context),
            // No step can start on it any more; its end will be known soon.
            State::Completing => None,
            // A job that Slurm has forgotten may have run.
            State::Ended(ending) => {
                let has_run = self.requeued > 0 || job.is_none_or(|j| j.node.is_some());
                self.has_ended(ending, has_run, context)
            }
        }
    }

    fn go(&mut self, at: NodePlace) {
        self.at = at;
        self.since = Instant::now();
    }

    fn waits(&mut self, reason: &str, context: &Context<'_>) -> Option<String> {
        if self.because.is_some() {
            // It was just cancelled.
            return None;
        }
        // A job submitted by another process may have lost a node earlier; in that case Slurm reports when it may
        // start.
        let is_back_in_queue = self.at == NodePlace::Running
            || (self.at == NodePlace::Waiting
                && reason == "BeginTime"
                && detail(self.job).is_ok_and(|d| d.restarts > 0));
        let said = if is_back_in_queue { Some(self.is_requeued(context)) } else { self.why(reason) };
        if self.at == NodePlace::Requeued && self.are_idle(context) && reason == "BeginTime" {
            // If Slurm rejects this, the job starts when Slurm schedules it.
            _ = control::start_now(self.job);
        }
        if let Some(why) = self.given_up(context)
            && control::cancel(&[self.job]).is_ok()
        {
            self.because = Some(why.clone());
            if self.requeued > 0 && self.unusable(context).is_none() && context.nodes.contains_key(&self.name) {
                // Its own node is available, so the results are fetched and removed.
                self.go(NodePlace::Ended(Ending::NodeFailed));
                return None;
            }
            self.said = Some(why);
            self.go(NodePlace::Over(Ending::NodeFailed));
            return self.said.clone();
        }
        said
    }

    /// Why the job waits, if not just for its turn; reported whenever it changes.
    fn why(&mut self, reason: &str) -> Option<String> {
        if ["", "None", "Priority", "Resources", "BeginTime"].contains(&reason) || self.reason == reason {
            return None;
        }
        reason.clone_into(&mut self.reason);
        Some(format!("waits: {reason}"))
    }

    /// Its node was lost, or a higher-priority job has preempted it.
    fn is_requeued(&mut self, context: &Context<'_>) -> String {
        self.requeued += 1;
        self.carrier = None;
        // Its earlier final state is no longer valid.
        self.inbox.begin_again();
        self.go(NodePlace::Requeued);
        let after = after(self.progress());
        match self.is_out(context) {
            true => format!("lost{after}; waiting up to {} s for it to return", context.lost_after.as_secs()),
            false => format!("back in the queue{after}"),
        }
    }

    /// The names of its nodes: its own, and its server's.
    fn names<'n>(&'n self, context: &'n Context<'_>) -> impl Iterator<Item = &'n String> {
        iter::once(&self.name).chain(context.submitted.second.as_ref().map(|second| &second.node))
    }

    fn are_idle(&self, context: &Context<'_>) -> bool {
        self.names(context).all(|name| context.nodes.get(name).is_some_and(nodes::Node::is_idle))
    }

    /// Whether no job starts on it until an administrator intervenes. Also true for a lost node, whose state is
    /// unknown.
    fn is_out(&self, context: &Context<'_>) -> bool {
        self.names(context).any(|name| match context.nodes.get(name) {
            Some(node) => node.unusable().is_some(),
            None => self.at == NodePlace::Requeued,
        })
    }

    /// Why it is no longer waited for. A node in use by others is always waited for, whatever its earlier state.
    fn given_up(&mut self, context: &Context<'_>) -> Option<String> {
        if self.requeued <= REQUEUES && !self.is_out(context) {
            self.since = Instant::now();
            return None;
        }
        if self.requeued <= REQUEUES && self.since.elapsed() <= context.lost_after {
            return None;
        }
        Some(match self.requeued {
            0 => {
                let state = self.names(context).find_map(|name| context.nodes.get(name)?.unusable());
                format!("Slurm reports it as {}", state.unwrap_or_default())
            }
            1 => format!("it was lost{}, and did not come back", after(self.progress())),
            _ => "its job was requeued twice".to_owned(),
        })
    }

    fn runs(&mut self, context: &Context<'_>) -> Option<String> {
        let mut said = None;
        if self.at != NodePlace::Running {
            said = Some(if self.requeued > 0 { "is back, and continues" } else { "runs" }.to_owned());
            self.go(NodePlace::Running);
        }
        if context.submitted.shared.is_some() {
            return said;
        }
        match &mut self.carrier {
            None => self.carrier = Some(ResultTransfer::beside(self.job, self.freight(context))),
            // It has reported its final state, and the job will end soon.
            Some(_) if self.inbox.ended().is_some() => {}
            Some(carrier) if carrier.may_start_again(self.failures) => {
                let failed = carrier.failed();
                self.failures = if failed.is_some() { self.failures + 1 } else { 0 };
                said = failed.and_then(|why| said_of_failure(self.failures, &why)).or(said);
                self.carrier = Some(ResultTransfer::beside(self.job, self.freight(context)));
            }
            Some(_) => {}
        }
        said
    }

    fn freight(&self, context: &Context<'_>) -> Transfer {
        Transfer {
            program: context.submitted.program.clone(),
            folder: folder(rustix::process::geteuid().as_raw(), self.job),
            task: self.task,
            // A shared directory may be full or removed.
            inbox: Outbox::new(context.beside, self.task),
            second: context.submitted.second.as_ref().map(|second| second.node.clone()),
            queue: context.submitted.queue.clone(),
        }
    }

    fn has_ended(&mut self, ending: Ending, has_run: bool, context: &Context<'_>) -> Option<String> {
        let ending = match self.at {
            NodePlace::Ended(known) => known,
            _ => {
                self.go(NodePlace::Ended(ending));
                ending
            }
        };
        let has_all = self.inbox.ended().is_some_and(|ended| ended.status != i32::from(NOT_LEFT));
        if !has_all && self.is_expected(ending, has_run, context) {
            return None;
        }
        let beside = Outbox::new(context.beside, self.task);
        if !has_all && beside.path(Item::Store) != self.inbox.path(Item::Store) && beside.path(Item::Store).exists() {
            self.inbox = beside;
        }
        let ended = self.inbox.ended();
        let Progress { done, planned } = self.progress();
        let because = self.because.clone();
        self.said = because.or_else(|| self.why_ended(ending, ended.as_ref(), context));
        if self.left_behind {
            let unusable = self.unusable(context).map(|why| format!("Slurm reports it as {why}"));
            let why = unusable.or(self.unfetched.clone()).map_or_else(String::new, |why| format!(": {why}"));
            // All measurements have arrived, only the end of the run is missing.
            if planned > 0 && done >= planned && self.has_store() {
                self.left_behind = false;
                let folder = folder(rustix::process::geteuid().as_raw(), self.job);
                self.whole_without = Some(format!("all results had arrived before; {folder} remains there{why}"));
                self.said.clone_from(&self.whole_without);
            } else {
                let of_node = ended.and_then(|ended| ended.said).filter(|_| ending == Ending::Failed);
                let words = of_node.unwrap_or_else(|| ending.words().to_owned());
                self.said = Some(format!("{words}; its measurements may still be there{why}"));
            }
        }
        self.go(NodePlace::Over(ending));
        let why = self.said.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        // Without a reported plan, nothing is counted.
        let count = match planned {
            0 => String::new(),
            planned => format!(", {done} of {}", plural(planned as usize, "measurement")),
        };
        Some(format!("has ended{count}{why}"))
    }

    /// Why it ended; Slurm's reason comes first, if any.
    fn why_ended(&mut self, ending: Ending, ended: Option<&Ended>, context: &Context<'_>) -> Option<String> {
        use Ending::{Cancelled, NodeFailed, OutOfMemory, Preempted, TimedOut};
        let of_slurm = [Cancelled, NodeFailed, OutOfMemory, Preempted, TimedOut].contains(&ending) && !self.stopped;
        let own = ended.and_then(|ended| ended.said.clone());
        match ended {
            Some(ended) if ended.status == 0 => own,
            Some(ended) if of_slurm => {
                let more = own.filter(|_| ended.has_reason);
                Some(more.map_or_else(|| ending.words().to_owned(), |own| format!("{}: {own}", ending.words())))
            }
            Some(_) => own,
            // Its results show its progress.
            None if ending == Ending::Failed => self.why_failed(&context.submitted.program),
            None if self.has_store() && ending == Ending::Completed => None,
            None if ending == Ending::Completed => {
                self.is_missing = true;
                let why = context.submitted.shared.as_ref().map_or_else(
                    || "its files are not on the node".to_owned(),
                    |shared| format!("another program has removed them from {}", shared.display()),
                );
                Some(format!("its results are missing: {why}"))
            }
            None => Some(ending.words().to_owned()),
        }
    }

    /// Whether results of a job that ended without a report are still expected.
    fn is_expected(&mut self, ending: Ending, has_run: bool, context: &Context<'_>) -> bool {
        if !has_run {
            return false;
        }
        if context.submitted.shared.is_some() && self.since.elapsed() < SHARED {
            return true;
        }
        let Some(carrier) = &mut self.carrier else {
            return self.fetch(ending, context);
        };
        if carrier.is_under_way() {
            return true;
        }
        let may_start_again = carrier.may_start_again(0);
        let failed = carrier.failed();
        if !self.fetched {
            return self.inbox.ended().is_none() && self.fetch(ending, context);
        }
        if failed.is_some() {
            self.unfetched = failed;
        }
        let Some(why) = self.unfetched.clone() else { return false };
        if context.give_up.is_none() {
            self.left_behind = true;
            return false;
        }
        if self.is_given_up(&why, context) {
            return false;
        }
        if may_start_again {
            (self.fetched, self.unfetched) = (false, None);
            return self.fetch(ending, context);
        }
        true
    }

    /// Whether to stop waiting for its results; `why`: why they are unavailable.
    fn is_given_up(&mut self, why: &str, context: &Context<'_>) -> bool {
        let Some(after) = context.give_up.filter(|after| self.since.elapsed() > *after) else { return false };
        self.because = Some(format!("given up after {} s: {why}", after.as_secs()));
        self.left_behind = false;
        true
    }

    /// Starts to fetch the results that a job left on its node, if useful and currently possible.
    fn fetch(&mut self, ending: Ending, context: &Context<'_>) -> bool {
        let never_began =
            || detail(self.job).is_ok_and(|d| why_it_did_not_begin(d.exit, &context.submitted.program).is_some());
        if self.fetched || (ending == Ending::Failed && never_began()) {
            return false;
        }
        if let Some(why) = self.unusable(context) {
            // Data on a lost node may be lost with it; on a drained node it stays until the node is in use again.
            self.left_behind = ending != Ending::NodeFailed;
            return self.left_behind
                && context.give_up.is_some()
                && !self.is_given_up(&format!("Slurm reports it as {why}"), context);
        }
        self.left_behind = false;
        self.fetched = true;
        self.carrier = Some(ResultTransfer::after(self.name.clone(), self.freight(context)));
        true
    }

    /// Why nothing can start on its node now, if known.
    fn unusable(&self, context: &Context<'_>) -> Option<String> {
        context.nodes.get(&self.name)?.unusable()
    }

    fn why_failed(&self, program: &Program) -> Option<String> {
        let exit = detail(self.job).map_or(0, |Detail { exit, .. }| exit);
        match why_it_did_not_begin(exit, program) {
            // The result that it could not store has been fetched.
            None if exit == u32::from(NOT_LEFT) && self.has_store() => None,
            why => Some(why.unwrap_or_else(|| Ending::Failed.words().to_owned())),
        }
    }

    /// The node that ran it, if it was not the intended one.
    pub fn ran_elsewhere(&self) -> Option<String> {
        self.inbox.ended().map(|ended| ended.node).filter(|node| !node.is_empty() && *node != self.name)
    }

    /// Whether results have returned.
    pub fn has_store(&self) -> bool {
        self.inbox.path(Item::Store).exists()
    }
}

/// A message about repeated transfer failures. A single failure is normal, because Slurm ends the step together with
/// its job.
fn said_of_failure(failures: u32, why: &str) -> Option<String> {
    match failures {
        2 => Some(format!("its results cannot be fetched now: {why}")),
        OFTEN => Some(format!("its results stay on the node until they can be fetched: {why}")),
        _ => None,
    }
}

/// Derived from the script's exit status.
fn why_it_did_not_begin(exit: u32, program: &Program) -> Option<String> {
    let why = match (exit, program) {
        (127, Program::Installed(_)) => "iotrail is not installed there (--ship copies it)",
        (127, Program::At(_)) => "it cannot access the directory of --shared, or cannot execute programs there",
        (127, Program::Comes) => {
            "iotrail did not arrive there within 10 minutes of its start (with --shared DIR nodes find it in a shared directory)"
        }
        (126, _) => "iotrail cannot be executed there: check its architecture and libraries, and noexec mounts",
        (73, _) => "it has no iotrail directory in /var/tmp: check free space and permissions",
        (2, _) => "its iotrail is another version (--ship copies this one)",
        _ => return None,
    };
    Some(why.to_owned())
}

fn after(progress: Progress) -> String {
    match progress.done {
        0 => String::new(),
        done => format!(" after {done} of {}", plural(progress.planned as usize, "measurement")),
    }
}

#[cfg(test)]
mod tests;
