//! The submitted jobs, recorded next to the store with the results so far until everything is collected.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::second::Second;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::locked::{Locked, lock, sign};
use iotrail_slurm::outbox::{Item, Outbox};
use iotrail_slurm::script::Program;
use iotrail_store::named;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submitted {
    /// The iotrail command that submitted it.
    #[serde(default = "run")]
    pub command: String,
    /// The first of its jobs, which names the fleet on a command line.
    pub job: u64,
    /// One job per node, in node order; fewer than nodes if the process was killed before all were submitted.
    pub jobs: Vec<u64>,
    /// Its fleet in the store.
    pub fleet: i64,
    /// Task N runs on the Nth node.
    pub nodes: Vec<String>,
    /// The second node, with its server.
    #[serde(default)]
    pub second: Option<Second>,
    /// Where the nodes get the program from.
    pub program: Program,
    /// The shared directory that contains all nodes' outboxes.
    pub shared: Option<PathBuf>,
    /// srun options for later fetches: queue and account.
    #[serde(default)]
    pub queue: Vec<String>,
    /// User ID of the jobs' owner, if known.
    #[serde(default)]
    pub user: Option<u32>,
}

/// Older records have no command, because there was only one.
fn run() -> String {
    "run".into()
}

/// This job's directory next to the store at `path`.
fn folder(path: &Path, job: u64) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!("-slurm-{job}"));
    path.with_file_name(name)
}

const PLAN: &str = "submitted.json";

impl Submitted {
    /// Name of one of its nodes.
    pub fn called(&self, node: &str) -> String {
        self.second.as_ref().map_or_else(|| node.to_owned(), |second| second.called(node))
    }

    /// The command that attaches to it.
    pub fn attach(&self, store: Option<&Path>) -> String {
        format!("iotrail {} --attach {}{}", self.command, self.job, named(store))
    }

    pub fn keep(&self, store: &Path) -> Result<()> {
        let folder = folder(store, self.job);
        let kept = fs::create_dir_all(&folder).and_then(|()| {
            let text = serde_json::to_vec(self).map_err(std::io::Error::other)?;
            // Written once per job and then renamed, so that it is complete even if this process is killed.
            let part = folder.join(format!("{PLAN}.part"));
            fs::write(&part, text).and_then(|()| fs::rename(&part, folder.join(PLAN)))
        });
        kept.or_machine(
            format_args!("cannot record the submitted jobs in {}", folder.display()),
            "specify another --store",
        )
    }

    /// `None` if the job does not exist or has been collected.
    pub fn read(store: &Path, job: u64) -> Result<Option<Self>> {
        let path = folder(store, job).join(PLAN);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => {
                return Err(
                    Error::machine(format!("cannot read {}", path.display()), "check its permissions").because(e)
                );
            }
        };
        serde_json::from_slice(&text).map(Some).or_input(
            format_args!("{} was written by another version of iotrail", path.display()),
            "collect the job with the iotrail that submitted it",
        )
    }

    /// Directory of its results next to the store.
    pub fn beside(&self, store: &Path) -> PathBuf {
        folder(store, self.job)
    }

    /// Directory of the nodes' outboxes, or of their copies.
    pub fn inbox(&self, store: &Path) -> PathBuf {
        self.shared.clone().unwrap_or_else(|| folder(store, self.job))
    }

    /// A task's store at a path where SQLite can open it, because a shared directory may not support locks.
    pub fn at_hand(&self, store: &Path, inbox: &Outbox, task: u32) -> Result<PathBuf> {
        let from = inbox.path(Item::Store);
        let folder = folder(store, self.job);
        if self.shared.is_none() || from.parent() == Some(&folder) {
            return Ok(from);
        }
        let here = Outbox::new(&folder, task).path(Item::Store);
        let copied = fs::create_dir_all(&folder).and_then(|()| fs::copy(&from, &here));
        copied
            .map(|_| here)
            .or_machine(format_args!("cannot copy {} to {}", from.display(), folder.display()), "check its free space")
    }

    /// Called when no more results are expected.
    pub fn forget(&self, store: &Path) {
        _ = fs::remove_dir_all(folder(store, self.job));
        if let Some(shared) = &self.shared {
            _ = fs::remove_dir_all(shared);
        }
    }
}

/// Held while this process watches a job, so that no other process stores its results.
pub struct Watching(#[expect(dead_code, reason = "its lock ends with it")] Option<fs::File>);

/// Fails while another process watches this job.
pub fn watch(store: &Path, job: u64) -> Result<Watching> {
    let path = folder(store, job).join("watched");
    // A missing job is not created, and a file system may not support locks.
    let Ok(locked) = lock(&path) else { return Ok(Watching(None)) };
    match locked {
        Locked::Ours(file) => {
            // The PID is only for the other process's message; the lock works without it.
            sign(&file).unwrap_or(());
            Ok(Watching(Some(file)))
        }
        Locked::Others(process) => {
            let who = process.map_or_else(String::new, |process| format!(" (process {process})"));
            let what = format!("another iotrail process{who} is watching job {job}, and collects it");
            Err(Error::disturbed(what, "stop that process first, or wait; `iotrail list` shows the fleet"))
        }
    }
}

/// Creates a directory for this job in the shared directory.
pub fn make_shared(dir: &Path) -> Result<PathBuf> {
    let made = tempfile::Builder::new().prefix("iotrail-slurm-").tempdir_in(dir);
    let made = made.or_machine(
        format_args!("cannot create a directory in {}", dir.display()),
        "check its free space and permissions",
    )?;
    Ok(made.keep())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_process_may_monitor_a_job() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("s.db");
        assert!(watch(&store, 7).is_ok() && fs::read_dir(dir.path()).unwrap().next().is_none(), "there is no such job");
        fs::create_dir(folder(&store, 7)).unwrap();
        let held = watch(&store, 7).unwrap();
        let refused = watch(&store, 7).map(drop).unwrap_err().to_string();
        let said =
            format!("another iotrail process (process {}) is watching job 7, and collects it; ", std::process::id());
        assert!(refused.starts_with(&said), "{refused}");
        drop(held);
        assert!(watch(&store, 7).is_ok());
    }
}
