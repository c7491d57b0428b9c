//! Actions on existing jobs.

use super::command::{Failure, ask};

/// Ends them.
pub fn cancel(jobs: &[u64]) -> Result<(), Failure> {
    scancel(&["--quiet"], jobs)
}

/// Ends those of them that have not started.
pub fn cancel_waiting(jobs: &[u64]) -> Result<(), Failure> {
    scancel(&["--quiet", "--state=PENDING"], jobs)
}

/// Asks the program of a running job to stop: it ends as after Ctrl-C, and keeps its measurements.
pub fn stop(job: u64) -> Result<(), Failure> {
    scancel(&["--quiet", "--signal=TERM", "--batch"], &[job])
}

/// Slurm lets a job that has lost its node wait for two minutes. Where the node is back before, it need not.
pub fn start_now(job: u64) -> Result<(), Failure> {
    ask("scontrol", ["update", &format!("JobId={job}"), "StartTime=now"]).map(drop)
}

/// A job that has ended meanwhile is not an error.
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
