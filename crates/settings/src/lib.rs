//! Host conditions of an experiment: rejected in advance if impossible, set, and restored even if the process that set
//! them is killed.
//!
//! | file | responsible for |
//! |---|---|
//! | `conditions` | the requested values, and their order |
//! | `interrupts`, `queue`, `driver`, `governor`, `cgroup` | one kind of setting each: why it is impossible; its changes |
//! | `change` | one change: made, and undone wherever its process died |
//! | `journal`, `owner` | current changes and their owner, on disk before a change is made |
//! | `left` | changes of a killed run: reported, and restored |
//! | `roots` | the machine's files; reading and writing one value |
//!
//! Changes form a stack. For the next cell of a run, changes are undone down to the first difference, and the cell's
//! own changes are made on top.
//!
//! Uses `iotrail-base`, `iotrail-schema` and `iotrail-host`.

mod apply;
mod cgroup;
mod change;
mod conditions;
mod driver;
mod governor;
mod interrupts;
mod journal;
mod left;
mod owner;
mod queue;
mod roots;
#[cfg(test)]
mod test;

pub use change::{Change, Undone};
pub use conditions::{Conditions, CpuList, Quota};
pub use left::{Item, Restored, notice, restore};
pub use queue::{MOST_REQUESTS, Queue};

use conditions::Setting;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::block;
use iotrail_schema::measurement::Target;
use journal::Journal;
use owner::Owner;
use roots::Roots;

impl Conditions {
    /// Why these conditions are impossible on this machine, with this target and these privileges, as far as this is
    /// known without changing anything. Errors include the remedy.
    pub fn refusal(&self, target: Option<&Target>) -> Option<Error> {
        match Roots::of_this_machine() {
            _ if self.is_empty() => None,
            Ok(roots) => self.refusal_in(&roots, target),
            Err(e) => Some(e),
        }
    }

    fn refusal_in(&self, roots: &Roots, target: Option<&Target>) -> Option<Error> {
        self.settings().iter().find_map(|setting| match setting {
            Setting::PollQueues(n) => driver::refusal(roots, target, *n),
            Setting::Governor(name) => governor::refusal(roots, name),
            Setting::IrqAffinity(cpus) => interrupts::refusal(roots, target, cpus),
            Setting::Scheduler(name) => queue::scheduler_refusal(roots, target, name),
            Setting::NrRequests(n) => queue::nr_requests_refusal(roots, target, *n, self),
            Setting::IoPoll(on) => queue::io_poll_refusal(roots, target, *on, self),
            Setting::CpuQuota(quota) => cgroup::refusal(roots, *quota),
        })
    }
}

/// Host settings of a run. [`Settings::restore`] or dropping restores them.
#[derive(Debug)]
pub struct Settings {
    roots: Roots,
    owner: Owner,
    journal: Journal,
    made: Vec<Applied>,
    /// A device was rebound to its driver, so facts that a caller read earlier are outdated.
    rebound: bool,
}

/// A setting of a target's disks and its changes; no changes if the setting already had the value.
#[derive(Debug)]
struct Applied {
    setting: Setting,
    of: Option<Devices>,
    changes: Vec<Change>,
}

/// Devices with a target's settings: its disks, and the queues that receive its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Devices {
    disks: Option<String>,
    queues: Option<String>,
}

impl Devices {
    fn of(target: &Target) -> Self {
        Self { disks: target.device.clone(), queues: target.queue_device().map(str::to_owned) }
    }
}

impl Settings {
    /// Opens the journal for a run with changes; only one run at a time.
    ///
    /// Fails if another process has changed settings, or if a killed one left changes, which must be restored first.
    pub fn open() -> Result<Self> {
        Self::open_in(Roots::of_this_machine()?)
    }

    fn open_in(roots: Roots) -> Result<Self> {
        let owner = Owner::this(&roots)
            .or_machine("cannot distinguish this process from a later one with the same PID", "mount /proc")?;
        let journal = Journal::lock(&roots)?;
        match journal.read()? {
            Some(left) if left.owner.is_elsewhere(&roots) => return Err(left::elsewhere(&journal, &left.owner)),
            Some(left) if left.owner.is_of_this_start(&roots) && !left.changes.is_empty() => {
                return Err(Error::machine(
                    format!("settings changed by a killed run (process {}) are still in place", left.owner.tgid),
                    "run `iotrail restore` first",
                ));
            }
            // All changes undone, or reset by a restart, or killed while writing the first line.
            _ => journal.keep(&owner, &[])?,
        }
        Ok(Self { roots, owner, journal, made: Vec::new(), rebound: false })
    }

    /// Sets `conditions`, and undoes earlier changes that these conditions do not include.
    ///
    /// Fails if the kernel rejects a value, or if another program has changed a setting
    /// ([`Kind::Disturbed`](iotrail_base::error::Kind)). Conditions set so far stay in effect until the next call or
    /// the end.
    pub fn set(&mut self, conditions: &Conditions, target: Option<&Target>) -> Result<()> {
        let wanted = conditions.settings();
        let of = target.map(Devices::of);
        let kept = self.made.iter().zip(&wanted).take_while(|(made, w)| made.setting == **w && made.of == of);
        let kept = kept.count();
        self.undo_down_to(kept)?;
        self.check()?;
        for setting in wanted.into_iter().skip(kept) {
            let now = target.filter(|_| self.rebound).map(|t| block::again(&self.roots.system, t));
            self.make(setting, of.clone(), now.as_ref().or(target))?;
        }
        Ok(())
    }

    fn make(&mut self, setting: Setting, of: Option<Devices>, target: Option<&Target>) -> Result<()> {
        let roots = &self.roots;
        let changes = match &setting {
            Setting::PollQueues(n) => driver::changes(roots, target, *n)?,
            Setting::Governor(name) => governor::changes(roots, name)?,
            Setting::IrqAffinity(cpus) => interrupts::changes(roots, target, cpus)?,
            Setting::Scheduler(name) => queue::scheduler(roots, target, name)?,
            Setting::NrRequests(n) => queue::nr_requests(roots, target, *n)?,
            Setting::IoPoll(on) => queue::io_poll(roots, target, *on)?,
            Setting::CpuQuota(quota) => cgroup::changes(roots, *quota, &self.cgroup_name())?,
        };
        if !changes.is_empty() {
            self.journal.begin(&self.owner, &changes)?;
        }
        self.rebound |= changes.iter().any(|change| matches!(change, Change::Driver(_)));
        let made = changes.iter().try_for_each(|change| {
            change.make(&self.roots).or_machine(
                format_args!("cannot set {}", change.text()),
                "choose another value, or omit this condition",
            )
        });
        let made = made.and_then(|()| match (&setting, target) {
            (Setting::PollQueues(n), Some(target)) => driver::granted(roots, target, *n),
            _ => Ok(()),
        });
        self.made.push(Applied { setting, of, changes });
        if made.is_err() {
            // A partial setting is undone. If this fails, it is retried at the end.
            self.undo_down_to(self.made.len() - 1).unwrap_or(());
        }
        made
    }

    /// A name distinct from cgroups left by an earlier process with the same ID.
    fn cgroup_name(&self) -> String {
        format!("iotrail-{}-{}", self.owner.tgid, self.owner.started_ticks)
    }

    /// Checks that all settings still have their values; the error names the one that does not.
    pub fn check(&self) -> Result<()> {
        for change in self.made.iter().flat_map(|m| &m.changes) {
            if let Change::Value { path, new, .. } = change
                && let Some(now) = roots::present(path).ok().filter(|now| now != new)
            {
                return Err(Error::disturbed(
                    format!("{} is now {now} instead of {new}: another program changed it", path.display()),
                    "stop the program that changes it, then continue with --resume",
                ));
            }
        }
        Ok(())
    }

    fn undo_down_to(&mut self, kept: usize) -> Result<()> {
        while self.made.len() > kept {
            let Some(top) = self.made.last() else { break };
            for change in top.changes.iter().rev() {
                let undone = change.undo(&self.roots, false);
                if !undone.is_done() {
                    let remedy = "find the program that changes it, then continue with --resume";
                    return Err(Error::disturbed(undone.text(change.subject()), remedy));
                }
            }
            let n = top.changes.len();
            self.made.pop();
            let left = self.made.iter().any(|m| !m.changes.is_empty());
            match n {
                0 => {}
                n if left => self.journal.undone(n)?,
                _ => self.journal.keep(&self.owner, &[])?,
            }
        }
        Ok(())
    }

    /// Restores everything. Returns a message per change that could not be restored; it stays in the journal for
    /// `iotrail restore`.
    pub fn restore(&mut self) -> Result<Vec<String>> {
        let changes: Vec<Change> = self.made.drain(..).flat_map(|m| m.changes).collect();
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let items = left::undo(&self.roots, &self.journal, &self.owner, &changes, false)?;
        Ok(items.iter().filter(|i| !i.is_done() && i.undone.is_some()).map(Item::text).collect())
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // A change that fails to be restored stays in the journal, and the next command reports it.
        self.restore().map(drop).unwrap_or(());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::test::{conditions, disk_values, roots, target, vda};
    use super::*;
    use iotrail_base::error::Kind;

    fn open(t: &iotrail_testing::fixture::Tree) -> Settings {
        Settings::open_in(roots(t)).unwrap()
    }

    #[test]
    fn settings_are_restored_at_the_end_of_a_run() {
        let t = vda();
        let before = disk_values(&t);
        let mut settings = open(&t);
        settings
            .set(&conditions("scheduler = 'none'\nnr-requests = 64\nirq-affinity = 1"), Some(&target("vda")))
            .unwrap();
        let set = disk_values(&t);
        assert_eq!(
            (set["scheduler"].as_str(), set["nr_requests"].as_str(), set["affinity"].as_str()),
            ("none", "64", "1")
        );
        assert!(journal::file(&roots(&t)).exists());
        settings.check().unwrap();
        assert_eq!(settings.restore().unwrap(), [""; 0]);
        assert_eq!(disk_values(&t), before);
        assert!(!journal::file(&roots(&t)).exists());
    }

    #[test]
    fn interrupts_are_read_again_after_a_device_is_rebound() {
        let t = vda()
            .file("sys/bus/virtio/drivers/virtio_blk/bind", "")
            .link("sys/bus/virtio/devices/virtio1", "sys/devices/pci0000:00/0000:00:02.0/virtio1")
            .file("sys/block/vda/queue/io_poll", "1\n")
            .file("dev/vda", "")
            .file("proc/interrupts", "      CPU0  CPU1\n 40:  0  5  PCI-MSIX-0000:00:02.0   1-edge      virtio1\n")
            .file("proc/irq/40/smp_affinity_list", "0\n")
            .file("proc/irq/40/effective_affinity_list", "0\n");
        let mut settings = open(&t);
        let known = target("vda");
        let goes = |irq: u32| fs::read_to_string(t.root().join(format!("proc/irq/{irq}/smp_affinity_list"))).unwrap();
        settings.set(&conditions("poll-queues = 1"), Some(&known)).unwrap();
        // Already rebound, but the caller's facts are still from before.
        settings.set(&conditions("irq-affinity = 1"), Some(&known)).unwrap();
        assert_eq!((goes(36).as_str(), goes(40).as_str()), ("0-1\n", "1"));
        assert_eq!(settings.restore().unwrap(), [""; 0]);
    }

    #[test]
    fn settings_not_used_by_the_next_cell_are_undone() {
        let t = vda();
        let before = disk_values(&t);
        let mut settings = open(&t);
        let mut set = |c: &str| {
            settings.set(&conditions(c), Some(&target("vda"))).unwrap();
            let now = disk_values(&t);
            (now["scheduler"].clone(), now["nr_requests"].clone(), journal::file(&roots(&t)).exists())
        };
        let of = |s: &str, n: &str, journal| (s.to_owned(), n.to_owned(), journal);
        assert_eq!(set("scheduler = 'none'\nnr-requests = 64"), of("none", "64", true));
        assert_eq!(set("scheduler = 'none'\nnr-requests = 32"), of("none", "32", true));
        assert_eq!(set("scheduler = 'none'"), of("none", "256", true));
        assert_eq!(set(""), of("mq-deadline", "256", false));
        assert_eq!(set("scheduler = 'mq-deadline'"), of("mq-deadline", "256", false));
        assert_eq!(set("nr-requests = 8"), of("mq-deadline", "8", true));
        drop(settings);
        assert_eq!(disk_values(&t), before);
    }

    #[test]
    fn each_cell_changes_its_own_device_and_restores_the_previous_one() {
        let queue = |n: u32| format!("sys/devices/virtual/block/loop{n}/queue/scheduler");
        let t = (0..2).fold(vda(), |t, n| {
            t.file(&queue(n), "[none] mq-deadline kyber\n")
                .link(&format!("sys/block/loop{n}"), &format!("sys/devices/virtual/block/loop{n}"))
        });
        let before = disk_values(&t);
        let on = |name: &str| Target { queue_device: Some(name.into()), ..target("vda") };
        let now = || [0, 1].map(|n| roots::present(&t.root().join(queue(n))).unwrap());
        let mut settings = open(&t);
        let kyber = conditions("scheduler = 'kyber'");
        settings.set(&kyber, Some(&on("loop0"))).unwrap();
        assert_eq!(now(), ["kyber", "none"]);
        // The same disk is below both devices.
        settings.set(&kyber, Some(&on("loop1"))).unwrap();
        assert_eq!(now(), ["none", "kyber"]);
        assert_eq!(disk_values(&t), before);
        assert_eq!(settings.restore().unwrap(), [""; 0]);
        assert_eq!((now(), disk_values(&t)), (["none", "none"].map(String::from), before));
    }

    #[test]
    fn changes_of_another_program_are_reported_and_kept() {
        let t = vda();
        let mut settings = open(&t);
        let none = conditions("scheduler = 'none'");
        settings.set(&none, Some(&target("vda"))).unwrap();
        let file = t.root().join("sys/block/vda/queue/scheduler");
        fs::write(&file, "kyber").unwrap();
        let e = settings.set(&none, Some(&target("vda"))).unwrap_err();
        assert!(e.to_string().contains("scheduler is now kyber instead of none: another program changed it"), "{e}");
        assert_eq!((e.kind, settings.check().unwrap_err().kind), (Kind::Disturbed, Kind::Disturbed));
        // The next cell cannot be set either.
        let e = settings.set(&conditions(""), Some(&target("vda"))).unwrap_err();
        assert!(e.to_string().contains("changed by another program since it was set to none"), "{e}");
        assert_eq!(e.kind, Kind::Disturbed);
        let left = settings.restore().unwrap();
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(left[0].contains("is kyber now, changed by another program since it was set to none"), "{left:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "kyber");
        drop(settings);
        let e = Settings::open_in(roots(&t)).unwrap_err().to_string();
        assert!(e.ends_with("are still in place; run `iotrail restore` first"), "{e}");
    }

    #[test]
    fn a_rejected_setting_leaves_all_values_unchanged() {
        let t = vda();
        let before = disk_values(&t);
        // The second disk's file truncates the written value, as the file of a thread name does.
        let t = t.dir("sys/block/vdb/queue");
        let file = t.root().join("sys/block/vdb/queue/scheduler");
        std::os::unix::fs::symlink("/proc/thread-self/comm", &file).unwrap();
        let name = fs::read_to_string(&file).unwrap();
        let two = Target { device: Some("vda+vdb".into()), ..target("vda") };
        let mut settings = open(&t);
        for _ in 0..2 {
            let e = settings.set(&conditions("scheduler = 'longer-than-its-15-bytes'"), Some(&two)).unwrap_err();
            assert!(
                e.to_string()
                    .contains("the kernel accepted the request, but the value is longer-than-its; choose another"),
                "{e}"
            );
            assert_eq!(disk_values(&t), before);
            assert_eq!(fs::read_to_string(&file).unwrap(), name);
            assert!(!journal::file(&roots(&t)).exists());
        }
    }

    #[test]
    fn a_journal_from_before_a_reboot_is_cleared() {
        let t = vda();
        let mut settings = open(&t);
        settings.set(&conditions("scheduler = 'none'"), Some(&target("vda"))).unwrap();
        settings.made.clear(); // as if it were killed
        drop(settings);
        assert!(Settings::open_in(roots(&t)).is_err());
        let t = t.file("proc/sys/kernel/random/boot_id", "another\n");
        drop(open(&t));
        assert!(!journal::file(&roots(&t)).exists());
    }
}
