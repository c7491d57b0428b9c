//! One node: in the queue, at work, lost and back, over.

use std::collections::BTreeMap;
use std::iter;
use std::time::{Duration, Instant};

use iotrail_base::words::plural;
use iotrail_slurm::control;
use iotrail_slurm::nodes;
use iotrail_slurm::outbox::{Item, Outbox, Progress};
use iotrail_slurm::script::{Program, folder};
use iotrail_slurm::state::{Detail, Ending, Job, State, detail};

use super::carry::{Carrier, Freight};
use super::on_node::NOT_LEFT;
use super::submitted::Submitted;

/// Where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    Waiting,
    Running,
    /// It was lost, and may come back; or a job with more priority has its node.
    Requeued,
    /// Its job has ended; something may be on its way.
    Ended(Ending),
    Over(Ending),
}

pub struct Node {
    pub task: u32,
    /// Slurm's number.
    pub job: u64,
    pub name: String,
    /// With the node beside it, if there is one.
    pub called: String,
    pub at: At,
    pub inbox: Outbox,
    /// Why it has not measured everything.
    pub said: Option<String>,
    /// What it measured may still lie on it.
    pub left_behind: bool,
    /// It was asked to stop.
    pub stopped: bool,
    /// How often its job went back into the queue.
    requeued: u32,
    /// Why it waits, as that was last told.
    reason: String,
    since: Instant,
    carrier: Option<Carrier>,
    fetched: bool,
    told_carrier: bool,
}

/// What all have in common.
pub struct Context<'a> {
    pub submitted: &'a Submitted,
    /// The command line that watches all of them again.
    pub attach: &'a str,
    pub lost_after: Duration,
    /// How the nodes are, as far as that could be read.
    pub nodes: BTreeMap<String, nodes::Node>,
}

/// A shared folder of another machine's shows what was left there after this time at the latest.
const SHARED: Duration = Duration::from_secs(10);

/// The job begins anew as often as it is requeued: once.
const REQUEUES: u32 = 1;

impl Node {
    pub fn new(task: u32, job: u64, name: &str, called: String, inbox: Outbox) -> Self {
        Self {
            task,
            job,
            name: name.to_owned(),
            called,
            at: At::Waiting,
            inbox,
            said: None,
            left_behind: false,
            stopped: false,
            requeued: 0,
            reason: String::new(),
            since: Instant::now(),
            carrier: None,
            fetched: false,
            told_carrier: false,
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.at, At::Over(_))
    }

    /// How the node is decides what becomes of it, unless it goes on at work.
    pub fn needs_state(&self, job: Option<&Job>) -> bool {
        let works = self.at == At::Running && job.is_some_and(|job| job.state == State::Running);
        !works && !self.is_over()
    }

    pub fn progress(&self) -> Progress {
        self.inbox.progress().unwrap_or_default()
    }

    /// Looks at what Slurm tells of its job; what is to be said of it.
    pub fn step(&mut self, job: Option<&Job>, context: &Context<'_>) -> Option<String> {
        if self.is_over() {
            return None;
        }
        match job.map_or(State::Ended(Ending::Other), |job| job.state) {
            State::Waiting => self.waits(job.and_then(|j| j.reason.as_deref()).unwrap_or_default(), context),
            State::Running => self.runs(context),
            // No step can be started there any more; what it has ended with is about to be known.
            State::Completing => None,
            // What Slurm has forgotten may have run.
            State::Ended(ending) => self.has_ended(ending, job.is_none_or(|j| j.node.is_some()), context),
        }
    }

    fn go(&mut self, at: At) {
        self.at = at;
        self.since = Instant::now();
    }

    fn waits(&mut self, reason: &str, context: &Context<'_>) -> Option<String> {
        // A job that others have submitted may have lost a node before we came; Slurm says then when it may begin.
        let is_back_in_queue = self.at == At::Running
            || (self.at == At::Waiting && reason == "BeginTime" && detail(self.job).is_ok_and(|d| d.restarts > 0));
        let said = if is_back_in_queue { Some(self.is_requeued(context)) } else { self.why(reason) };
        if self.at == At::Requeued && self.are_idle(context) && reason == "BeginTime" {
            // Refused, it begins when Slurm wants it to.
            _ = control::start_now(self.job);
        }
        if let Some(why) = self.given_up(context)
            && control::cancel(&[self.job]).is_ok()
        {
            self.said = Some(why);
            self.go(At::Over(Ending::NodeFailed));
            return self.said.clone();
        }
        said
    }

    /// Why it waits, where that is more than its turn, and each time that it is another.
    fn why(&mut self, reason: &str) -> Option<String> {
        if ["", "None", "Priority", "Resources", "BeginTime"].contains(&reason) || self.reason == reason {
            return None;
        }
        reason.clone_into(&mut self.reason);
        Some(format!("waits: {reason}"))
    }

    /// Its node was lost, or a job with more priority has taken it.
    fn is_requeued(&mut self, context: &Context<'_>) -> String {
        self.requeued += 1;
        self.carrier = None;
        // What it said of an end is not true any more.
        self.inbox.begin_again();
        self.go(At::Requeued);
        let after = after(self.progress());
        match self.is_out(context) {
            true => format!("lost{after}; it may come back for {} s", context.lost_after.as_secs()),
            false => format!("back in the queue{after}"),
        }
    }

    /// Its nodes: its own, and that of its server.
    fn names<'n>(&'n self, context: &'n Context<'_>) -> impl Iterator<Item = &'n String> {
        iter::once(&self.name).chain(context.submitted.second.as_ref().map(|second| &second.node))
    }

    fn are_idle(&self, context: &Context<'_>) -> bool {
        self.names(context).all(|name| context.nodes.get(name).is_some_and(nodes::Node::is_idle))
    }

    /// Nothing starts there before somebody has seen to it. Of one that was lost, also: nobody knows it.
    fn is_out(&self, context: &Context<'_>) -> bool {
        self.names(context).any(|name| match context.nodes.get(name) {
            Some(node) => node.unusable().is_some(),
            None => self.at == At::Requeued,
        })
    }

    /// Why it is waited for no longer. A node that others use is waited for, whatever it was before.
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
                format!("Slurm has it {}", state.unwrap_or_default())
            }
            1 => format!("it was lost{}, and did not come back", after(self.progress())),
            _ => "its job was requeued twice".to_owned(),
        })
    }

    fn runs(&mut self, context: &Context<'_>) -> Option<String> {
        let mut said = None;
        if self.at != At::Running {
            said = Some(if self.requeued > 0 { "is back, and goes on" } else { "runs" }.to_owned());
            self.go(At::Running);
        }
        if context.submitted.shared.is_some() {
            return said;
        }
        match &mut self.carrier {
            None => self.carrier = Some(Carrier::beside(self.job, self.freight(context))),
            // It has said how it ended, and the job is about to.
            Some(_) if self.inbox.ended().is_some() => {}
            Some(carrier) if carrier.may_start_again() => {
                if let Some(why) = carrier.failed().filter(|_| !std::mem::replace(&mut self.told_carrier, true)) {
                    said = Some(format!("its results cannot be carried now: {why}"));
                }
                self.carrier = Some(Carrier::beside(self.job, self.freight(context)));
            }
            Some(_) => {}
        }
        said
    }

    fn freight(&self, context: &Context<'_>) -> Freight {
        Freight {
            program: context.submitted.program.clone(),
            folder: folder(rustix::process::geteuid().as_raw(), self.job),
            task: self.task,
            inbox: self.inbox.clone(),
            paired: context.submitted.second.is_some(),
            queue: context.submitted.queue.clone(),
        }
    }

    fn has_ended(&mut self, ending: Ending, has_run: bool, context: &Context<'_>) -> Option<String> {
        if !matches!(self.at, At::Ended(_)) {
            self.go(At::Ended(ending));
        }
        if self.inbox.ended().is_none() && self.is_expected(ending, has_run, context) {
            return None;
        }
        let ended = self.inbox.ended();
        self.said = match &ended {
            Some(ended) => ended.said.clone(),
            None if ending == Ending::Failed => Some(self.why_failed(&context.submitted.program)),
            None => Some(ending.words().to_owned()),
        };
        if self.left_behind {
            let why = self.unusable(context).map_or_else(String::new, |why| format!(": Slurm has it {why}"));
            self.said = Some(format!("{}; what it measured may lie there still{why}", ending.words()));
        }
        self.go(At::Over(ending));
        let Progress { done, planned } = self.progress();
        let why = self.said.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        Some(format!("has ended, {done} of {}{why}", plural(planned as usize, "measurement")))
    }

    /// Whether something is still to come from a job that has ended without saying how.
    fn is_expected(&mut self, ending: Ending, has_run: bool, context: &Context<'_>) -> bool {
        if !has_run {
            return false;
        }
        if context.submitted.shared.is_some() {
            return self.since.elapsed() < SHARED;
        }
        let Some(carrier) = &mut self.carrier else {
            return self.fetch(ending, context);
        };
        if carrier.is_under_way() {
            return true;
        }
        let failed = carrier.failed();
        if self.fetched {
            self.left_behind = failed.is_some();
            return false;
        }
        self.inbox.ended().is_none() && self.fetch(ending, context)
    }

    /// Starts fetching what a job has left on its node, if that makes sense and can be done now.
    fn fetch(&mut self, ending: Ending, context: &Context<'_>) -> bool {
        let never_began =
            || detail(self.job).is_ok_and(|d| why_it_did_not_begin(d.exit, &context.submitted.program).is_some());
        if self.fetched || (ending == Ending::Failed && never_began()) {
            return false;
        }
        if self.unusable(context).is_some() {
            // What was on a node that is lost may be gone with it; on one that is drained it lies until that is in use again.
            self.left_behind = ending != Ending::NodeFailed;
            return false;
        }
        self.fetched = true;
        self.carrier = Some(Carrier::after(self.name.clone(), self.freight(context)));
        true
    }

    /// Why nothing starts on its node now, as far as that is known.
    fn unusable(&self, context: &Context<'_>) -> Option<String> {
        context.nodes.get(&self.name)?.unusable()
    }

    fn why_failed(&self, program: &Program) -> String {
        let Ok(Detail { exit, .. }) = detail(self.job) else { return Ending::Failed.words().to_owned() };
        why_it_did_not_begin(exit, program).unwrap_or_else(|| match exit {
            e if e == u32::from(NOT_LEFT) => {
                let folder = folder(rustix::process::geteuid().as_raw(), self.job);
                format!("its results cannot be copied; they lie there, in {folder} or as {folder}.db")
            }
            _ => Ending::Failed.words().to_owned(),
        })
    }

    /// What came back.
    pub fn has_store(&self) -> bool {
        self.inbox.path(Item::Store).exists()
    }
}

/// By the script's exit status.
fn why_it_did_not_begin(exit: u32, program: &Program) -> Option<String> {
    let why = match (exit, program) {
        (127, Program::Installed(_)) => "iotrail is not installed there (--ship brings it)",
        (127, Program::At(_)) => "it does not see the folder of --shared, or may run no program in it",
        (127, Program::Comes) => {
            "nobody brought iotrail there within 10 minutes of its start (--shared DIR keeps it where it is found)"
        }
        (126, _) => "its iotrail cannot be executed there: see its architecture and libraries, and noexec",
        (73, _) => "it has no folder of ours in /var/tmp: see its room and owners",
        (2, _) => "its iotrail is another version (--ship brings this one)",
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
