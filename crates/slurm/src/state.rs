//! Job states: from squeue while the controller knows the jobs, afterwards from sacct, if accounting is configured.

use std::collections::BTreeMap;

use super::command::{Failure, ask};

/// A single-node job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub state: State,
    /// The node on which the job runs or ran.
    pub node: Option<String>,
    /// Why it waits or how it ended, as reported by Slurm: `Resources`, `NonZeroExitCode`.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In the queue.
    Waiting,
    Running,
    /// Ended, with remaining processes being killed; no step can start.
    Completing,
    Ended(Ending),
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Completed,
    /// The script exited with a non-zero status.
    Failed,
    Cancelled,
    /// Slurm's time limit was reached.
    TimedOut,
    OutOfMemory,
    Preempted,
    /// The node was lost.
    NodeFailed,
    /// Any other Slurm state.
    Other,
}

impl Ending {
    /// As text for the user.
    pub fn words(self) -> &'static str {
        match self {
            Self::Completed => "it ended",
            Self::Failed => "its batch script failed",
            Self::Cancelled => "it was cancelled",
            Self::TimedOut => "it exceeded Slurm's time limit (--sbatch '--time=…')",
            Self::OutOfMemory => "it ran out of memory",
            Self::Preempted => "a job with more priority took its node",
            Self::NodeFailed => "its node was lost",
            Self::Other => "Slurm ended it",
        }
    }
}

/// Parses a state of squeue or sacct (`JOB STATE CODES` in their manual pages).
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

/// The jobs among these that the controller still knows, by number; `user`: the owner of all of them. The controller
/// forgets a job a few minutes after its end (MinJobAge).
pub fn jobs(numbers: &[u64], user: Option<u32>) -> Result<BTreeMap<u64, Job>, Failure> {
    // Includes hidden partitions.
    let mut args = ["--noheader", "--all", "--states=all", "--format=%A|%T|%N|%r"].map(str::to_owned).to_vec();
    args.push(format!("--jobs={}", list(numbers)));
    // Otherwise, the controller reports all users' jobs, which squeue then filters.
    args.extend(user.map(|user| format!("--users={user}")));
    match ask("squeue", args) {
        Ok(text) => Ok(queued(&text)),
        Err(Failure::NoSuchJob) => Ok(BTreeMap::new()),
        Err(e) => Err(e),
    }
}

/// Accounting data of jobs that the controller has forgotten; empty without accounting, because sacct then fails.
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

/// `6|COMPLETED|n3`. A job that accounting lists as running never reported its end, because the controller does not
/// know it.
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

/// Data about a job that only the controller has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Detail {
    /// Number of restarts.
    pub restarts: u32,
    /// Exit status of its script.
    pub exit: u32,
}

pub fn detail(job: u64) -> Result<Detail, Failure> {
    ask("scontrol", ["--oneliner", "show", "job", &job.to_string()]).map(|text| shown(&text))
}

/// A value in the output of `scontrol -o show`.
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
