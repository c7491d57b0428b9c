//! Makes and undoes a change.

use std::io;
use std::path::Path;

use super::change::{Change, Undone, cause, is_gone};
use super::roots::{Roots, present, write, write_checked};
use super::{cgroup, driver};

impl Change {
    /// Makes the change. Returns the kernel's error.
    pub fn make(&self, roots: &Roots) -> io::Result<()> {
        match self {
            Change::Value { path, old, new } => write_checked(path, new).inspect_err(|_| {
                // A value that the kernel adjusted would later look like another program's change.
                write(path, old).unwrap_or(());
            }),
            Change::Along { .. } => Ok(()),
            Change::Cgroup(group) => cgroup::enter(group),
            Change::Controller { path, name } => write(path, &format!("+{name}")),
            Change::Driver(rebinding) => driver::rebind(roots, rebinding, &rebinding.new),
        }
    }

    /// Undoes the change if it was made. `force`: overwrite even a value that another program set since.
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
}

/// `set`: the value that was set; `None`: a value that the kernel chose.
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

/// `false`: it was not enabled.
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
    use iotrail_testing::fixture::Tree;

    fn roots(t: &Tree) -> Roots {
        Roots { system: t.root().into(), state: t.root().join("state") }
    }

    fn value(t: &Tree) -> Change {
        Change::Value { path: t.root().join("sys/x"), old: "256".into(), new: "64".into() }
    }

    #[test]
    fn a_value_is_restored_wherever_the_setting_process_was_killed() {
        let t = Tree::new().file("sys/x", "256\n");
        let (change, path) = (value(&t), t.root().join("sys/x"));
        // In the journal, but not made.
        assert_eq!(change.undo(&roots(&t), false), Undone::AsBefore { value: "256".into() });
        change.make(&roots(&t)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "64");
        assert_eq!(change.undo(&roots(&t), false), Undone::PutBack { from: "64".into(), to: "256".into() });
        // Undone, but still in the journal.
        assert_eq!(change.undo(&roots(&t), false), Undone::AsBefore { value: "256".into() });
        fs::remove_file(&path).unwrap();
        assert_eq!(change.undo(&roots(&t), false), Undone::Gone);
    }

    #[test]
    fn a_value_set_by_another_program_is_kept_unless_forced() {
        let t = Tree::new().file("sys/x", "128\n");
        let left = value(&t).undo(&roots(&t), false);
        assert_eq!(left, Undone::ChangedSince { present: "128".into(), set: "64".into(), before: "256".into() });
        assert!(!left.is_done());
        assert_eq!(value(&t).undo(&roots(&t), true), Undone::PutBack { from: "128".into(), to: "256".into() });
        assert_eq!(fs::read_to_string(t.root().join("sys/x")).unwrap(), "256");
    }

    #[test]
    fn a_dependent_value_is_restored_from_any_value() {
        let t = Tree::new().file("sys/x", "128\n");
        let of = t.root().join("sys/scheduler");
        let along = Change::Along { path: t.root().join("sys/x"), old: "256".into(), of: of.clone() };
        assert!(along.hangs_on(&Change::Value { path: of, old: "a".into(), new: "b".into() }));
        along.make(&roots(&t)).unwrap();
        assert_eq!(along.undo(&roots(&t), false), Undone::PutBack { from: "128".into(), to: "256".into() });
    }

    #[test]
    fn an_enabled_cgroup_controller_is_disabled_again() {
        let t = Tree::new().file("c", "cpu memory\n").file("none", "memory\n");
        let at = |name: &str| Change::Controller { path: t.root().join(name), name: "cpu".into() };
        assert_eq!(at("none").undo(&roots(&t), false), Undone::AsBefore { value: "-cpu".into() });
        assert!(matches!(at("c").undo(&roots(&t), false), Undone::PutBack { .. }));
        assert_eq!(fs::read_to_string(t.root().join("c")).unwrap(), "-cpu");
    }

    #[test]
    fn a_change_round_trips_through_json() {
        let change = Change::Value { path: "/sys/x".into(), old: "a".into(), new: "b".into() };
        let json = serde_json::to_string(&change).unwrap();
        assert_eq!(json, r#"{"kind":"value","path":"/sys/x","old":"a","new":"b"}"#);
        assert_eq!(serde_json::from_str::<Change>(&json).unwrap(), change);
    }
}
