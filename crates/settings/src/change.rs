//! A change of the host that a reader of the journal can undo, whenever its writer died.
//!
//! A change is added to the journal before it is made, and removed after it is undone. A journalled change may thus be
//! made, partly made or not made. Undoing therefore checks the current state, and can be repeated.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A change with its old and new values. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// A single-value file in sysfs or procfs.
    Value { path: PathBuf, old: String, new: String },
    /// A value that the kernel changes together with `of`, and that is restored after it: each scheduler has its own
    /// `nr_requests`.
    Along { path: PathBuf, old: String, of: PathBuf },
    /// A cgroup that this process created and entered.
    Cgroup(Cgroup),
    /// A controller that a v2 cgroup enables for its children.
    Controller { path: PathBuf, name: String },
    /// A device that was rebound to its driver with a new parameter.
    Driver(Rebinding),
}

/// A cgroup created for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    pub made: PathBuf,
    /// Cgroup of this process before the change and after it is undone.
    pub from: PathBuf,
    /// Files of the new cgroup and their values, in order.
    pub limits: Vec<(String, String)>,
}

/// A device, and the module parameter with which it is rebound to its driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebinding {
    /// Directory of the driver: `/sys/bus/pci/drivers/nvme`.
    pub driver: PathBuf,
    /// Name by which the driver knows the device: `0000:00:04.0`.
    pub device: String,
    pub parameter: PathBuf,
    pub old: String,
    pub new: String,
    /// Directories of its disks; the rebinding is complete when they exist again.
    pub disks: Vec<PathBuf>,
}

/// Outcome of undoing a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Undone {
    PutBack {
        from: String,
        to: String,
    },
    /// iotrail's cgroup was removed.
    Removed,
    /// The change had not been made, or was already undone.
    AsBefore {
        value: String,
    },
    /// It disappeared with its device or process.
    Gone,
    /// Another program has changed the setting since.
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
    /// Whether nothing remains to be done.
    pub fn is_done(&self) -> bool {
        !matches!(self, Undone::ChangedSince { .. } | Undone::Failed { .. })
    }

    /// The outcome as text, for the setting `subject`.
    pub fn text(&self, subject: &Path) -> String {
        let it = subject.display();
        match self {
            Undone::PutBack { from, to } => format!("{it}: restored to {to} (it was {from})"),
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
    /// The changed setting, for display.
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

    /// Whether this change must be undone after `other`, because the kernel changes both together.
    pub(crate) fn hangs_on(&self, other: &Change) -> bool {
        matches!(self, Change::Along { of, .. } if of == other.subject())
    }
}

pub(super) fn is_gone(e: &io::Error) -> bool {
    // ENODEV: the device was removed while the file was open or being looked up.
    e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ENODEV)
}

/// The kernel's error, and the remedy if known.
pub(super) fn cause(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!("{e}; run as root"),
        _ => e.to_string(),
    }
}
