//! Operations on existing jobs.

use super::command::{Failure, ask};

/// Cancels the jobs.
pub fn cancel(jobs: &[u64]) -> Result<(), Failure> {
    scancel(&["--quiet"], jobs)
}

/// Cancels those that have not started.
pub fn cancel_waiting(jobs: &[u64]) -> Result<(), Failure> {
    scancel(&["--quiet", "--state=PENDING"], jobs)
}

/// Asks a running job's program to stop: it exits as after Ctrl-C and keeps its measurements.
pub fn stop(job: u64) -> Result<(), Failure> {
    scancel(&["--quiet", "--signal=TERM", "--batch"], &[job])
}

/// Slurm makes a job that lost its node wait for two minutes; this starts it earlier if the node is back.
pub fn start_now(job: u64) -> Result<(), Failure> {
    ask("scontrol", ["update", &format!("JobId={job}"), "StartTime=now"]).map(drop)
}

/// A job that has already ended is not an error.
fn scancel(options: &[&str], jobs: &[u64]) -> Result<(), Failure> {
    if jobs.is_empty() {
        return Ok(());
    }
    let numbers = jobs.iter().map(u64::to_string);
    match ask("scancel", options.iter().map(|o| (*o).to_owned()).chain(numbers)) {
        Ok(_) | Err(Failure::NoSuchJob) => Ok(()),
        Err(e) => Err(e),
    }
}
