//! One change of the host, made so that whoever reads the journal afterwards can undo it, at whatever moment its maker died.
//!
//! A change is in the journal before it is made, and is taken out after it is undone. So what is found there may have been
//! made, half made or not at all: undoing looks at what is there, and may be done twice.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What is changed, what it was, and what it becomes. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// A file of sysfs or procfs that holds one value.
    Value { path: PathBuf, old: String, new: String },
    /// A value that the kernel sets anew of its own when `of` is changed: a scheduler brings its own `nr_requests`.
    /// It is put back after `of`.
    Along { path: PathBuf, old: String, of: PathBuf },
    /// A cgroup of ours that this process moves into.
    Cgroup(Cgroup),
    /// A controller that a cgroup v2 gives to those below it.
    Controller { path: PathBuf, name: String },
    /// A device that its driver is given anew, with another parameter.
    Driver(Rebinding),
}

/// A cgroup that is made for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    pub made: PathBuf,
    /// Where this process was, and goes back to.
    pub from: PathBuf,
    /// Files of the new one and their values, in order.
    pub limits: Vec<(String, String)>,
}

/// A device, and the module's parameter that it is given to its driver with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebinding {
    /// The driver's folder: `/sys/bus/pci/drivers/nvme`.
    pub driver: PathBuf,
    /// The name that the driver knows it by: `0000:00:04.0`.
    pub device: String,
    pub parameter: PathBuf,
    pub old: String,
    pub new: String,
    /// The folders of its disks, which are there again when it is done.
    pub disks: Vec<PathBuf>,
}

/// What came of undoing one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Undone {
    PutBack {
        from: String,
        to: String,
    },
    /// A cgroup of ours.
    Removed,
    /// It had not been made, or was put back before.
    AsBefore {
        value: String,
    },
    /// It went with its device, or with the process.
    Gone,
    /// Somebody else has changed it since.
    ChangedSince {
        present: String,
        set: String,
        before: String,
    },
    Failed {
        before: String,
        cause: String,
    },
}

impl Undone {
    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        !matches!(self, Undone::ChangedSince { .. } | Undone::Failed { .. })
    }

    /// The outcome in words, of what is named `subject`.
    pub fn text(&self, subject: &Path) -> String {
        let it = subject.display();
        match self {
            Undone::PutBack { from, to } => format!("{it}: put back to {to} (it was set to {from})"),
            Undone::AsBefore { value } => format!("{it}: is {value}, as before"),
            Undone::Gone => format!("{it}: is there no more; nothing to put back"),
            Undone::ChangedSince { present, set, before } => format!(
                "{it}: is {present} now, changed by somebody else since it was set to {set}; it is left alone; \
                 `iotrail restore --force` puts back {before}"
            ),
            Undone::Removed => format!("{it}: removed"),
            Undone::Failed { before, cause } => format!("{it}: cannot be put back (before: {before}): {cause}"),
        }
    }
}

impl Change {
    /// What it is about, as it is shown.
    pub fn subject(&self) -> &Path {
        match self {
            Change::Value { path, .. } | Change::Along { path, .. } | Change::Controller { path, .. } => path,
            Change::Cgroup(group) => &group.made,
            Change::Driver(rebinding) => &rebinding.parameter,
        }
    }

    /// What is to be done, in words: `/sys/… to none`.
    pub fn text(&self) -> String {
        let it = self.subject().display();
        match self {
            Change::Value { new, .. } => format!("{it} to {new}"),
            Change::Along { .. } => it.to_string(),
            Change::Cgroup(group) => {
                let limits = group.limits.iter().map(|(file, value)| format!("{file} {value}"));
                format!("{it} to {}", limits.collect::<Vec<_>>().join(", "))
            }
            Change::Controller { name, .. } => format!("{it} to +{name}"),
            Change::Driver(r) => format!("{it} to {} for {}", r.new, r.device),
        }
    }

    /// Whether it has to wait for `other`: it was changed along with it, and would be changed again.
    pub(crate) fn hangs_on(&self, other: &Change) -> bool {
        matches!(self, Change::Along { of, .. } if of == other.subject())
    }
}

pub(super) fn is_gone(e: &io::Error) -> bool {
    // ENODEV: the file was open, or looked up, when its device went.
    e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ENODEV)
}

/// What the kernel said, and what helps where that is known.
pub(super) fn cause(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!("{e}; run as root"),
        _ => e.to_string(),
    }
}
