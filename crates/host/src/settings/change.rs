//! One change of the host, made so that whoever reads the journal afterwards can undo it, at whatever moment its maker died.
//!
//! A change is in the journal before it is made, and is taken out after it is undone. So what is found there may have been
//! made, half made or not at all: undoing looks at what is there, and may be done twice.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cgroup::{self, Cgroup};
use super::driver::{self, Rebinding};
use super::roots::{Roots, present, write, write_checked};

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

    /// Makes the change. The error says what the kernel refused.
    pub fn make(&self, roots: &Roots) -> io::Result<()> {
        match self {
            Change::Value { path, old, new } => write_checked(path, new).inspect_err(|_| {
                // What it has made of it would look like somebody else's.
                write(path, old).unwrap_or(());
            }),
            Change::Along { .. } => Ok(()),
            Change::Cgroup(group) => cgroup::enter(group),
            Change::Controller { path, name } => write(path, &format!("+{name}")),
            Change::Driver(rebinding) => driver::rebind(roots, rebinding, &rebinding.new),
        }
    }

    /// Undoes it, if it was made. With `force` what somebody else has set since is overwritten.
    pub fn undo(&self, roots: &Roots, force: bool) -> Undone {
        match self {
            Change::Value { path, old, new } => undo_value(path, old, Some(new), force),
            Change::Along { path, old, .. } => undo_value(path, old, None, force),
            Change::Cgroup(group) => match cgroup::leave(group) {
                Ok(true) => Undone::Removed,
                Ok(false) => Undone::Gone,
                Err(e) => Undone::Failed { before: "not there".into(), cause: cause(&e) },
            },
            Change::Controller { path, name } => {
                let before = format!("-{name}");
                match give_no_more(path, name) {
                    Ok(true) => Undone::PutBack { from: format!("+{name}"), to: before },
                    Ok(false) => Undone::AsBefore { value: before },
                    Err(e) => Undone::Failed { before, cause: cause(&e) },
                }
            }
            Change::Driver(rebinding) => driver::undo(roots, rebinding, force),
        }
    }

    /// Whether it has to wait for `other`: it was changed along with it, and would be changed again.
    pub fn hangs_on(&self, other: &Change) -> bool {
        matches!(self, Change::Along { of, .. } if of == other.subject())
    }
}

/// `set`: what it was set to; `None`: to something that the kernel chose.
fn undo_value(path: &Path, old: &str, set: Option<&str>, force: bool) -> Undone {
    let failed = |e: io::Error| Undone::Failed { before: old.to_owned(), cause: cause(&e) };
    let now = match present(path) {
        Ok(now) => now,
        Err(e) if is_gone(&e) => return Undone::Gone,
        Err(e) => return failed(e),
    };
    if now == old {
        return Undone::AsBefore { value: now };
    }
    if let Some(set) = set.filter(|set| *set != now && !force) {
        return Undone::ChangedSince { present: now, set: set.to_owned(), before: old.to_owned() };
    }
    match write_checked(path, old) {
        Ok(()) => Undone::PutBack { from: now, to: old.to_owned() },
        Err(e) => failed(e),
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

/// `false`: it was not given.
fn give_no_more(path: &Path, name: &str) -> io::Result<bool> {
    match present(path) {
        Ok(given) if given.split(' ').any(|n| n == name) => write(path, &format!("-{name}")).map(|()| true),
        Ok(_) => Ok(false),
        Err(e) if is_gone(&e) => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fixture::Tree;

    fn roots(t: &Tree) -> Roots {
        Roots { system: t.root().into(), state: t.root().join("state") }
    }

    fn value(t: &Tree) -> Change {
        Change::Value { path: t.root().join("sys/x"), old: "256".into(), new: "64".into() }
    }

    #[test]
    fn a_value_is_undone_wherever_its_maker_died() {
        let t = Tree::new().file("sys/x", "256\n");
        let (change, path) = (value(&t), t.root().join("sys/x"));
        // In the journal, and not made.
        assert_eq!(change.undo(&roots(&t), false), Undone::AsBefore { value: "256".into() });
        change.make(&roots(&t)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "64");
        assert_eq!(change.undo(&roots(&t), false), Undone::PutBack { from: "64".into(), to: "256".into() });
        // Undone, and still in the journal.
        assert_eq!(change.undo(&roots(&t), false), Undone::AsBefore { value: "256".into() });
        fs::remove_file(&path).unwrap();
        assert_eq!(change.undo(&roots(&t), false), Undone::Gone);
    }

    #[test]
    fn what_somebody_else_has_set_is_left_alone_unless_forced() {
        let t = Tree::new().file("sys/x", "128\n");
        let left = value(&t).undo(&roots(&t), false);
        assert_eq!(left, Undone::ChangedSince { present: "128".into(), set: "64".into(), before: "256".into() });
        assert!(!left.is_done());
        assert_eq!(value(&t).undo(&roots(&t), true), Undone::PutBack { from: "128".into(), to: "256".into() });
        assert_eq!(fs::read_to_string(t.root().join("sys/x")).unwrap(), "256");
    }

    #[test]
    fn what_came_along_is_put_back_whatever_it_is_now() {
        let t = Tree::new().file("sys/x", "128\n");
        let of = t.root().join("sys/scheduler");
        let along = Change::Along { path: t.root().join("sys/x"), old: "256".into(), of: of.clone() };
        assert!(along.hangs_on(&Change::Value { path: of, old: "a".into(), new: "b".into() }));
        along.make(&roots(&t)).unwrap();
        assert_eq!(along.undo(&roots(&t), false), Undone::PutBack { from: "128".into(), to: "256".into() });
    }

    #[test]
    fn a_controller_that_is_given_is_taken_back() {
        let t = Tree::new().file("c", "cpu memory\n").file("none", "memory\n");
        let at = |name: &str| Change::Controller { path: t.root().join(name), name: "cpu".into() };
        assert_eq!(at("none").undo(&roots(&t), false), Undone::AsBefore { value: "-cpu".into() });
        assert!(matches!(at("c").undo(&roots(&t), false), Undone::PutBack { .. }));
        assert_eq!(fs::read_to_string(t.root().join("c")).unwrap(), "-cpu");
    }

    #[test]
    fn its_json_can_be_read_by_whoever_finds_it() {
        let change = Change::Value { path: "/sys/x".into(), old: "a".into(), new: "b".into() };
        let json = serde_json::to_string(&change).unwrap();
        assert_eq!(json, r#"{"kind":"value","path":"/sys/x","old":"a","new":"b"}"#);
        assert_eq!(serde_json::from_str::<Change>(&json).unwrap(), change);
    }
}
