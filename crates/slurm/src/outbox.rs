//! A node's files for the collector: its progress, its store between two measurements, and its final state. They are in
//! a shared directory, or in a local one from which srun's streams transfer them; either way the collector gets the
//! same files.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A node's progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub done: u64,
    pub planned: u64,
}

/// How a node's run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The node's name in Slurm.
    pub node: String,
    /// Exit status of `iotrail run`.
    pub status: i32,
    /// Why it failed.
    pub said: Option<String>,
    /// Whether `said` is iotrail's own error; otherwise, it only states that the run was stopped or killed.
    #[serde(default)]
    pub has_reason: bool,
    /// Number of restarts of its task.
    pub restarts: u32,
}

/// One of a node's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    Progress,
    Store,
    Ended,
    /// Only used in streams, from a task that has ended: the last frame.
    Whole,
}

impl Item {
    /// In the order in which they are written and sent, so that the progress never refers to a measurement missing from
    /// the store.
    pub const ALL: [Self; 3] = [Self::Store, Self::Progress, Self::Ended];

    /// Suffix of the file's name, and the name in a stream.
    pub fn name(self) -> &'static str {
        match self {
            Self::Progress => "progress",
            Self::Store => "db",
            Self::Ended => "ended",
            Self::Whole => "whole",
        }
    }
}

/// A task's files.
#[derive(Debug, Clone)]
pub struct Outbox {
    folder: PathBuf,
    task: u32,
}

impl Outbox {
    pub fn new(folder: impl Into<PathBuf>, task: u32) -> Self {
        Self { folder: folder.into(), task }
    }

    pub fn path(&self, item: Item) -> PathBuf {
        self.folder.join(format!("task-{}.{}", self.task, item.name()))
    }

    /// Replaces the file atomically: a concurrent reader gets the previous version.
    pub fn put(&self, item: Item, bytes: &[u8]) -> io::Result<()> {
        self.put_with(item, |part| {
            let mut file = fs::File::create(part)?;
            file.write_all(bytes)?;
            // The measurements are over. On a network file system, an exceeded quota may only be reported now.
            if item == Item::Ended { file.sync_all() } else { Ok(()) }
        })
    }

    /// The same with a file written by `make`.
    pub fn put_with(&self, item: Item, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let place = self.path(item);
        let part = place.with_extension(format!("{}.part", item.name()));
        make(&part).and_then(|()| fs::rename(&part, place)).inspect_err(|_| _ = fs::remove_file(&part))
    }

    pub fn progress(&self) -> Option<Progress> {
        self.read(Item::Progress)
    }

    pub fn ended(&self) -> Option<Ended> {
        self.read(Item::Ended)
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, item: Item) -> Option<T> {
        serde_json::from_slice(&fs::read(self.path(item)).ok()?).ok()
    }

    /// For a task that restarts: removes its final state.
    pub fn begin_again(&self) {
        _ = fs::remove_file(self.path(Item::Ended));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_in_the_outbox_are_found_and_cleared_for_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = Outbox::new(folder.path(), 3);
        assert_eq!((outbox.progress(), outbox.ended()), (None, None));
        let ended = Ended { node: "n3".into(), status: 3, said: Some("no".into()), has_reason: true, restarts: 1 };
        outbox.put(Item::Progress, br#"{"done":2,"planned":8}"#).unwrap();
        outbox.put(Item::Ended, &serde_json::to_vec(&ended).unwrap()).unwrap();
        assert_eq!((outbox.progress(), outbox.ended()), (Some(Progress { done: 2, planned: 8 }), Some(ended)));
        assert!(outbox.put_with(Item::Store, |_| Err(io::Error::other("no"))).is_err());
        outbox.begin_again();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-made is left");
    }
}
