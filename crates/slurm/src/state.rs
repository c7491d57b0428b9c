//! How jobs are: from squeue while the controller knows them, then from sacct, where accounting runs.

use std::collections::BTreeMap;

use super::command::{Failure, ask};

/// A job of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub state: State,
    /// The node on which it runs or ran.
    pub node: Option<String>,
    /// Why it waits, or how it ended, in Slurm's word: `Resources`, `NonZeroExitCode`.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In the queue.
    Waiting,
    Running,
    /// Ended, and its remaining processes are being killed: no step can start.
    Completing,
    Ended(Ending),
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Completed,
    /// Its script exited with a status other than 0.
    Failed,
    Cancelled,
    /// Slurm's limit of its time.
    TimedOut,
    OutOfMemory,
    Preempted,
    /// Its node was lost.
    NodeFailed,
    /// A state that Slurm may have.
    Other,
}

impl Ending {
    /// As the user reads it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Completed => "it ended",
            Self::Failed => "its batch script failed",
            Self::Cancelled => "it was cancelled",
            Self::TimedOut => "Slurm's time limit ended it (--sbatch '--time=…')",
            Self::OutOfMemory => "it ran out of memory",
            Self::Preempted => "a job with more priority took its node",
            Self::NodeFailed => "its node was lost",
            Self::Other => "Slurm ended it",
        }
    }
}

/// As squeue and sacct name it (`JOB STATE CODES` of their manual pages).
fn state(name: &str) -> State {
    // `CANCELLED by 1000`, `CANCELLED+`.
    let word = name.split([' ', '+']).next().unwrap_or_default();
    State::Ended(match word {
        "PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
            return State::Waiting;
        }
        "COMPLETING" => return State::Completing,
        "RUNNING" | "CONFIGURING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "STAGE_OUT" | "RESIZING" => {
            return State::Running;
        }
        "COMPLETED" => Ending::Completed,
        "FAILED" => Ending::Failed,
        "CANCELLED" | "DEADLINE" | "REVOKED" => Ending::Cancelled,
        "TIMEOUT" => Ending::TimedOut,
        "OUT_OF_MEMORY" => Ending::OutOfMemory,
        "PREEMPTED" => Ending::Preempted,
        "NODE_FAIL" | "BOOT_FAIL" => Ending::NodeFailed,
        _ => Ending::Other,
    })
}

/// Those of these jobs that the controller still knows, by number; `user`: the owner of all of them. It forgets a job some minutes
/// after its end (MinJobAge).
pub fn jobs(numbers: &[u64], user: Option<u32>) -> Result<BTreeMap<u64, Job>, Failure> {
    // Also in partitions that are hidden.
    let mut args = ["--noheader", "--all", "--states=all", "--format=%A|%T|%N|%r"].map(str::to_owned).to_vec();
    args.push(format!("--jobs={}", list(numbers)));
    // Otherwise the controller reports the jobs of all users, and squeue filters them.
    args.extend(user.map(|user| format!("--users={user}")));
    match ask("squeue", args) {
        Ok(text) => Ok(queued(&text)),
        Err(Failure::NoSuchJob) => Ok(BTreeMap::new()),
        Err(e) => Err(e),
    }
}

/// Accounting data of jobs that the controller has forgotten; empty without accounting, for which sacct fails.
pub fn forgotten(numbers: &[u64]) -> BTreeMap<u64, Job> {
    let args = ["--noheader", "--parsable2", "--allocations", "--format=JobIDRaw,State,NodeList", "--jobs"];
    accounted(&ask("sacct", args.map(str::to_owned).into_iter().chain([list(numbers)])).unwrap_or_default())
}

fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

fn queued(text: &str) -> BTreeMap<u64, Job> {
    let job = |line: &str| {
        let [number, name, node, reason] = fields(line)?;
        let reason = known(reason).filter(|r| r != "None");
        Some((number.parse().ok()?, Job { state: state(name), node: known(node), reason }))
    };
    text.lines().filter_map(job).collect()
}

/// `6|COMPLETED|n3`. A job that accounting lists as running did not report its end: the controller does not know it.
fn accounted(text: &str) -> BTreeMap<u64, Job> {
    let job = |line: &str| {
        let [number, word, node] = fields(line)?;
        let node = known(node).filter(|n| n != "None assigned");
        let state = match state(word) {
            ended @ State::Ended(_) => ended,
            State::Waiting | State::Running | State::Completing => State::Ended(Ending::Other),
        };
        Some((number.parse().ok()?, Job { state, node, reason: None }))
    };
    text.lines().filter_map(job).collect()
}

fn fields<const N: usize>(line: &str) -> Option<[&str; N]> {
    line.splitn(N, '|').map(str::trim).collect::<Vec<_>>().try_into().ok()
}

fn known(field: &str) -> Option<String> {
    (!field.is_empty() && field != "(null)").then(|| field.to_owned())
}

/// Data of a job that only the controller has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Detail {
    /// Number of restarts.
    pub restarts: u32,
    /// The status of its script.
    pub exit: u32,
}

pub fn detail(job: u64) -> Result<Detail, Failure> {
    ask("scontrol", ["--oneliner", "show", "job", &job.to_string()]).map(|text| shown(&text))
}

/// A value of `scontrol -o show`.
pub(super) fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.split_whitespace().find_map(|pair| pair.split_once('=').filter(|(k, _)| *k == key).map(|(_, value)| value))
}

/// `JobId=6 … Restarts=1 … ExitCode=127:0 …`.
fn shown(text: &str) -> Detail {
    let exit = value(text, "ExitCode").and_then(|pair| pair.split(':').next());
    Detail {
        restarts: value(text, "Restarts").and_then(|n| n.parse().ok()).unwrap_or(0),
        exit: exit.and_then(|n| n.parse().ok()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
