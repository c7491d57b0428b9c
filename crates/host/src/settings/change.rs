//! One change of the host that a reader of the journal can undo, at whatever moment the writer died.
//!
//! A change is in the journal before it is made, and is removed after it is undone. So a journalled change may have been
//! made, half made or not made: undoing checks the current state, and may be repeated.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A change with its old and new value. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// A file of sysfs or procfs that holds one value.
    Value { path: PathBuf, old: String, new: String },
    /// A value that the kernel changes together with `of`: a scheduler has its own `nr_requests`.
    /// It is restored after `of`.
    Along { path: PathBuf, old: String, of: PathBuf },
    /// A cgroup that this process creates and enters.
    Cgroup(Cgroup),
    /// A controller that a cgroup v2 gives to those below it.
    Controller { path: PathBuf, name: String },
    /// A device that is bound to its driver again, with a new parameter.
    Driver(Rebinding),
}

/// A cgroup that is created for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    pub made: PathBuf,
    /// The cgroup of this process before and afterwards.
    pub from: PathBuf,
    /// Files of the new one and their values, in order.
    pub limits: Vec<(String, String)>,
}

/// A device, and the module parameter with which it is bound to its driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebinding {
    /// The driver's directory: `/sys/bus/pci/drivers/nvme`.
    pub driver: PathBuf,
    /// The name that the driver knows it by: `0000:00:04.0`.
    pub device: String,
    pub parameter: PathBuf,
    pub old: String,
    pub new: String,
    /// The directories of its disks, which exist again when it is done.
    pub disks: Vec<PathBuf>,
}

/// Outcome of undoing one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Undone {
    PutBack {
        from: String,
        to: String,
    },
    /// iotrail's cgroup was removed.
    Removed,
    /// It had not been made, or was already restored.
    AsBefore {
        value: String,
    },
    /// It went with its device, or with the process.
    Gone,
    /// Another program has changed it since.
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

    /// The outcome as text, for the setting `subject`.
    pub fn text(&self, subject: &Path) -> String {
        let it = subject.display();
        match self {
            Undone::PutBack { from, to } => format!("{it}: restored to {to} (it was set to {from})"),
            Undone::AsBefore { value } => format!("{it}: is {value}, as before"),
            Undone::Gone => format!("{it}: no longer exists; nothing to restore"),
            Undone::ChangedSince { present, set, before } => format!(
                "{it}: is {present} now, changed by another program since it was set to {set}; it is not modified; `iotrail restore --force` restores {before}"
            ),
            Undone::Removed => format!("{it}: removed"),
            Undone::Failed { before, cause } => format!("{it}: cannot be restored (before: {before}): {cause}"),
        }
    }
}

impl Change {
    /// Its setting, as shown.
    pub fn subject(&self) -> &Path {
        match self {
            Change::Value { path, .. } | Change::Along { path, .. } | Change::Controller { path, .. } => path,
            Change::Cgroup(group) => &group.made,
            Change::Driver(rebinding) => &rebinding.parameter,
        }
    }

    /// The change as text: `/sys/… to none`.
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

/// The kernel's error, and the remedy if known.
pub(super) fn cause(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!("{e}; run as root"),
        _ => e.to_string(),
    }
}
