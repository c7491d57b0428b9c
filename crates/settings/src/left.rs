//! Settings left by a killed run. The next command reports them, and `iotrail restore` restores them.

use serde::Serialize;

use super::change::{Change, Undone};
use super::journal::{self, Journal};
use super::owner::Owner;
use super::roots::Roots;
use iotrail_base::error::{Error, Result};

/// Outcome of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub change: Change,
    /// `None` if it waits for a change that could not be undone, together with which the kernel changed it.
    pub undone: Option<Undone>,
}

impl Item {
    pub fn is_done(&self) -> bool {
        self.undone.as_ref().is_some_and(Undone::is_done)
    }

    /// Outcome as text.
    pub fn text(&self) -> String {
        let subject = self.change.subject();
        self.undone.as_ref().map_or_else(
            || {
                format!(
                    "{}: not restored yet: a setting that the kernel changed together with it cannot be restored",
                    subject.display()
                )
            },
            |undone| undone.text(subject),
        )
    }
}

/// Result of `restore`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Path of the journal.
    pub journal: std::path::PathBuf,
    /// The process that left changes; `None` if there are none.
    pub tgid: Option<u32>,
    /// The machine was restarted since, which reset the changes.
    pub restarted: bool,
    pub items: Vec<Item>,
}

impl Serialize for Item {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Printed<'a> {
            setting: &'a std::path::Path,
            #[serde(flatten)]
            undone: Option<&'a Undone>,
            text: String,
        }
        Printed { setting: self.change.subject(), undone: self.undone.as_ref(), text: self.text() }
            .serialize(serializer)
    }
}

/// Message of every command while settings are left by a process that no longer exists; `None` if none are left.
pub fn notice() -> Option<String> {
    notice_in(&Roots::of_this_machine().ok()?)
}

fn notice_in(roots: &Roots) -> Option<String> {
    let left = journal::peek(roots)?;
    let is_left = !left.changes.is_empty() && left.owner.is_of_this_start(roots) && !left.owner.lives(roots);
    is_left.then(|| {
        format!(
            "settings changed by a killed run (process {}) are still in place: run iotrail restore",
            left.owner.tgid
        )
    })
}

/// Restores the changes of a killed run; `force`: also settings that another program has changed since.
///
/// Fails if the run is still active, or if the journal is damaged or belongs to another machine.
pub fn restore(force: bool) -> Result<Restored> {
    restore_in(&Roots::of_this_machine()?, force)
}

fn restore_in(roots: &Roots, force: bool) -> Result<Restored> {
    let nothing = Restored { journal: journal::file(roots), tgid: None, restarted: false, items: Vec::new() };
    // Without a journal, nothing is created.
    if !nothing.journal.exists() {
        return Ok(nothing);
    }
    let journal = Journal::lock(roots)?;
    let Some(left) = journal.read()? else {
        // Killed while writing the first line.
        if let Some(this) = Owner::this(roots) {
            journal.keep(&this, &[])?;
        }
        return Ok(nothing);
    };
    if left.owner.is_elsewhere(roots) {
        return Err(elsewhere(&journal, &left.owner));
    }
    let tgid = Some(left.owner.tgid);
    if !left.owner.is_of_this_start(roots) {
        journal.keep(&left.owner, &[])?;
        return Ok(Restored { tgid, restarted: true, ..nothing });
    }
    let items = undo(roots, &journal, &left.owner, &left.changes, force)?;
    Ok(Restored { tgid, items, ..nothing })
}

pub(super) fn elsewhere(journal: &Journal, owner: &Owner) -> Error {
    Error::machine(
        format!("{} records settings that were changed on {}", journal.path().display(), owner.hostname),
        "run `iotrail restore` there, or remove the file if that machine has rebooted since",
    )
}

/// Undoes changes in reverse order. After each, the journal contains the remaining ones.
pub(super) fn undo(
    roots: &Roots,
    journal: &Journal,
    owner: &Owner,
    changes: &[Change],
    force: bool,
) -> Result<Vec<Item>> {
    let mut items: Vec<Item> = Vec::new();
    // In the order of making.
    let mut left: Vec<Change> = changes.to_vec();
    // Even on a full disk the host is restored. Only the final journal must be correct.
    let mut noted = Ok(());
    for (at, change) in changes.iter().enumerate().rev() {
        let waits = items.iter().any(|i| !i.is_done() && change.hangs_on(&i.change));
        let undone = (!waits).then(|| change.undo(roots, force));
        let item = Item { change: change.clone(), undone };
        if item.is_done() {
            left.remove(at);
            noted = journal.keep(owner, &left);
        }
        items.push(item);
    }
    if changes.is_empty() {
        noted = journal.keep(owner, &[]);
    }
    noted.map(|()| items)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Settings;
    use super::super::test::{conditions, disk_values, roots, target, vda};
    use super::*;
    use iotrail_testing::fixture::Tree;

    /// Simulates a killed process: keeps the journal, with another process ID.
    fn kill(t: &Tree, settings: Settings) {
        let file = journal::file(&roots(t));
        let text = fs::read_to_string(&file).unwrap();
        let values = disk_values(t);
        drop(settings);
        for (name, value) in values {
            fs::write(t.root().join(super::super::test::file_of(&name)), value).unwrap();
        }
        fs::write(file, text.replace(&format!("\"tgid\":{}", std::process::id()), "\"tgid\":77")).unwrap();
    }

    fn killed(conditions_toml: &str) -> (Tree, std::collections::BTreeMap<String, String>) {
        let t = vda();
        let before = disk_values(&t);
        let mut settings = Settings::open_in(roots(&t)).unwrap();
        settings.set(&conditions(conditions_toml), Some(&target("vda"))).unwrap();
        kill(&t, settings);
        (t, before)
    }

    #[test]
    fn restore_without_changes_creates_no_files() {
        let t = vda();
        let restored = restore_in(&roots(&t), false).unwrap();
        assert_eq!((restored.tgid, restored.items.len()), (None, 0));
        assert!(!roots(&t).state.exists());
        assert_eq!(notice_in(&roots(&t)), None);
    }

    #[test]
    fn changes_of_a_killed_run_are_reported_and_restored() {
        let (t, before) = killed("scheduler = 'none'\nnr-requests = 64\nirq-affinity = 1");
        let roots = roots(&t);
        assert_eq!(
            notice_in(&roots).as_deref(),
            Some("settings changed by a killed run (process 77) are still in place: run iotrail restore")
        );
        let restored = restore_in(&roots, false).unwrap();
        assert_eq!((restored.tgid, restored.restarted), (Some(77), false));
        assert!(restored.items.iter().all(Item::is_done));
        assert_eq!(disk_values(&t), before);
        assert_eq!(notice_in(&roots), None);
        assert_eq!(restore_in(&roots, false).unwrap().tgid, None);
    }

    #[test]
    fn an_interrupted_restore_is_completed_by_the_next_one() {
        let (t, before) = killed("scheduler = 'none'\nnr-requests = 64\nirq-affinity = 1");
        let (roots, set) = (roots(&t), disk_values(&t));
        let file = journal::file(&roots);
        let whole = fs::read_to_string(&file).unwrap();
        let changes = journal::peek(&roots).unwrap().changes;
        for undone in 0..=changes.len() {
            for (name, value) in &set {
                fs::write(t.root().join(super::super::test::file_of(name)), value).unwrap();
            }
            fs::write(&file, &whole).unwrap();
            // The last `undone` changes are undone, and the journal has recorded all of these except the newest.
            for change in changes.iter().rev().take(undone) {
                assert!(change.undo(&roots, false).is_done());
            }
            let known = changes.len() - undone.saturating_sub(1);
            let owner = journal::peek(&roots).unwrap().owner;
            Journal::lock(&roots).unwrap().keep(&owner, &changes[..known]).unwrap();
            assert!(restore_in(&roots, false).unwrap().items.iter().all(Item::is_done), "after {undone}");
            assert_eq!(disk_values(&t), before, "after {undone}");
        }
    }

    #[test]
    fn values_changed_by_another_program_are_restored_only_with_force() {
        let (t, before) = killed("scheduler = 'none'\nirq-affinity = 1");
        let scheduler = t.root().join("sys/block/vda/queue/scheduler");
        fs::write(&scheduler, "kyber").unwrap();
        let restored = restore_in(&roots(&t), false).unwrap();
        let left: Vec<_> = restored.items.iter().filter(|i| !i.is_done()).collect();
        assert_eq!(left.len(), 4, "the scheduler and what came along");
        assert_eq!(left.iter().filter(|i| i.undone.is_none()).count(), 3);
        assert_eq!(disk_values(&t)["affinity"], before["affinity"]);
        assert_eq!(fs::read_to_string(&scheduler).unwrap(), "kyber");
        assert!(notice_in(&roots(&t)).is_some());
        let json = serde_json::to_value(left[0]).unwrap();
        assert_eq!((json["outcome"].as_str(), json["present"].as_str()), (Some("changed_since"), Some("kyber")));
        assert!(restore_in(&roots(&t), true).unwrap().items.iter().all(Item::is_done));
        assert_eq!(disk_values(&t), before);
    }

    #[test]
    fn changes_before_a_reboot_are_dropped_and_other_machines_rejected() {
        let (t, _) = killed("scheduler = 'none'");
        let t = t.file("proc/sys/kernel/random/boot_id", "another\n");
        assert_eq!(notice_in(&roots(&t)), None);
        let elsewhere = t.file("proc/sys/kernel/hostname", "there\n");
        let e = restore_in(&roots(&elsewhere), false).unwrap_err().to_string();
        assert!(e.contains("records settings that were changed on here; run `iotrail restore` there"), "{e}");
        let t = elsewhere.file("proc/sys/kernel/hostname", "here\n");
        let restored = restore_in(&roots(&t), false).unwrap();
        assert!(restored.restarted && restored.items.is_empty());
        assert!(!restored.journal.exists());
    }

    #[test]
    fn a_journal_truncated_in_its_first_line_is_removed() {
        let (t, _) = killed("scheduler = 'none'");
        let file = journal::file(&roots(&t));
        fs::write(&file, "{\"schema\":\"iotra").unwrap();
        assert_eq!(notice_in(&roots(&t)), None);
        assert_eq!(restore_in(&roots(&t), false).unwrap().tgid, None);
        assert!(!file.exists());
    }
}
