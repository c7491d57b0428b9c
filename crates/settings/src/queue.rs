//! The block queue that receives the load's requests: scheduler, `nr_requests`, `io_poll`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::change::Change;
use super::conditions::Conditions;
use super::roots::{Roots, is_so, not_writable, present};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::block::queue_folders;
use iotrail_host::files;
use iotrail_host::kernel::parse_version;
use iotrail_schema::measurement::Target;

/// The kernel's minimum (BLKDEV_MIN_RQ) and a scheduler's maximum (MAX_SCHED_RQ).
const LEAST_REQUESTS: u32 = 4;
pub const MOST_REQUESTS: u32 = 2048;

/// Since Linux 5.16 (a614dd228035), the driver decides whether a queue is polled, and writes to the file have no
/// effect.
const IO_POLL_FIXED: (u32, u32, u32) = (5, 16, 0);

/// Current settings of a target's block queues, and the available values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Directories such as `/sys/block/vda/queue`; the other fields are those of the first.
    pub folders: Vec<PathBuf>,
    pub scheduler: String,
    /// Available schedulers, including the current one.
    pub schedulers: Vec<String>,
    pub nr_requests: u32,
}

impl Queue {
    /// Fails if the target has no block queue, or its files are unreadable.
    pub fn of(target: Option<&Target>) -> Result<Self> {
        Self::of_in(&Roots::of_this_machine()?, target)
    }

    fn of_in(roots: &Roots, target: Option<&Target>) -> Result<Self> {
        let folders = folders(roots, target)?;
        let first = &folders[0];
        let unread = || Error::machine(format!("cannot read {}", first.display()), "mount /sys");
        Ok(Self {
            scheduler: present(&first.join("scheduler")).map_err(|e| unread().because(e))?,
            schedulers: offered(first),
            nr_requests: files::number(first, "nr_requests").ok_or_else(unread)?,
            folders,
        })
    }
}

/// Available schedulers of a queue; empty if unknown.
fn offered(queue: &Path) -> Vec<String> {
    let text = fs::read_to_string(queue.join("scheduler")).unwrap_or_default();
    text.split_whitespace().map(|w| w.trim_matches(['[', ']']).to_owned()).collect()
}

/// `queue` directories of the devices that receive the load's requests: for a loop device its own, not that of the disk
/// below.
pub fn folders(roots: &Roots, target: Option<&Target>) -> Result<Vec<PathBuf>> {
    let names = target.and_then(Target::queue_device).unwrap_or_default();
    let dirs = names.split('+').filter(|n| !n.is_empty()).flat_map(|n| queue_folders(&roots.system, n));
    let folders: Vec<PathBuf> = dirs.map(|d| short(roots, d).join("queue")).filter(|q| q.is_dir()).collect();
    if folders.is_empty() {
        return Err(Error::machine(
            "the load has no target with a block queue",
            "choose a block device, or a file on one, with --file",
        ));
    }
    Ok(folders)
}

/// Shortens to `/sys/block/vda` if that is the same directory.
fn short(roots: &Roots, dir: PathBuf) -> PathBuf {
    let short = dir.file_name().map(|n| roots.path("sys/block").join(n));
    short.filter(|s| s.exists()).unwrap_or(dir)
}

pub fn scheduler_refusal(roots: &Roots, target: Option<&Target>, wanted: &str) -> Option<Error> {
    each(roots, target, |queue| {
        let file = queue.join("scheduler");
        if is_so(&file, wanted) {
            return None;
        }
        let offered = offered(queue);
        if !offered.iter().any(|name| name == wanted) {
            let offered = if offered.is_empty() { "none at all".to_owned() } else { offered.join(", ") };
            return Some(Error::machine(
                format!("{} offers no scheduler '{wanted}'", file.display()),
                format!("it offers {offered}; others may be modules: modprobe {wanted}-iosched"),
            ));
        }
        not_writable("the scheduler", &file)
    })
}

pub fn scheduler(roots: &Roots, target: Option<&Target>, wanted: &str) -> Result<Vec<Change>> {
    each_value(roots, target, "scheduler", wanted)
}

/// `all`: all conditions; the scheduler and the poll queues are set first.
pub fn nr_requests_refusal(roots: &Roots, target: Option<&Target>, wanted: u32, all: &Conditions) -> Option<Error> {
    each(roots, target, |queue| {
        let file = queue.join("nr_requests");
        if !file.exists() {
            return Some(Error::machine(format!("{} does not exist", file.display()), "omit nr-requests"));
        }
        let refuse = |why: String, remedy: &str| {
            Some(Error::machine(format!("{} cannot be {wanted}: {why}", file.display()), remedy))
        };
        if !(LEAST_REQUESTS..=MOST_REQUESTS).contains(&wanted) {
            let why = format!("the kernel accepts {LEAST_REQUESTS} to {MOST_REQUESTS}");
            return refuse(why, "choose one of these numbers");
        }
        let scheduler = all.scheduler.clone().or_else(|| present(&queue.join("scheduler")).ok());
        // A new scheduler or a rebound device has its own value.
        let stays =
            scheduler.as_deref().is_none_or(|s| is_so(&queue.join("scheduler"), s)) && all.poll_queues.is_none();
        if stays && is_so(&file, &wanted.to_string()) {
            return None;
        }
        let tags: Option<u32> = files::number(queue, "../mq/0/nr_tags");
        if let (Some("none"), Some(tags)) = (scheduler.as_deref(), tags.filter(|t| wanted > *t)) {
            let why = format!("the device accepts {tags} at a time, and only a scheduler can queue more");
            return refuse(why, "choose a scheduler as well, or fewer requests");
        }
        not_writable("nr_requests", &file)
    })
}

pub fn nr_requests(roots: &Roots, target: Option<&Target>, wanted: u32) -> Result<Vec<Change>> {
    each_value(roots, target, "nr_requests", &wanted.to_string())
}

pub fn io_poll_refusal(roots: &Roots, target: Option<&Target>, wanted: bool, all: &Conditions) -> Option<Error> {
    // If the conditions include poll queues, these determine the file.
    if all.poll_queues.is_some_and(|n| (n > 0) == wanted) {
        return None;
    }
    let fixed =
        roots.text("proc/sys/kernel/osrelease").and_then(|r| parse_version(&r)).is_none_or(|v| v >= IO_POLL_FIXED);
    each(roots, target, |queue| {
        let file = queue.join("io_poll");
        match present(&file).ok().as_deref() {
            Some(now) if now == digit(wanted) => None,
            None => Some(Error::machine(format!("{} does not exist", file.display()), "omit io-poll")),
            Some(_) if wanted && all.poll_queues != Some(0) => Some(Error::machine(
                format!("cannot set io_poll: {} shows that the device has no poll queues", file.display()),
                "add some with poll-queues, if its driver supports them (nvme, virtio_blk) and the device is not in use",
            )),
            Some(_) if fixed || all.poll_queues.is_some() => Some(Error::machine(
                format!(
                    "{} cannot be {}: this kernel always polls if there are poll queues",
                    file.display(),
                    digit(wanted)
                ),
                "set poll-queues instead",
            )),
            Some(_) => not_writable("io_poll", &file),
        }
    })
}

pub fn io_poll(roots: &Roots, target: Option<&Target>, wanted: bool) -> Result<Vec<Change>> {
    each_value(roots, target, "io_poll", digit(wanted))
}

fn digit(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}

fn each(roots: &Roots, target: Option<&Target>, refusal: impl Fn(&Path) -> Option<Error>) -> Option<Error> {
    match folders(roots, target) {
        Ok(folders) => folders.iter().find_map(|f| refusal(f)),
        Err(e) => Some(e),
    }
}

/// Changes to set one file per queue where it differs. Includes values that the kernel changes along with it.
fn each_value(roots: &Roots, target: Option<&Target>, name: &str, wanted: &str) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for queue in folders(roots, target)? {
        let path = queue.join(name);
        let old = present(&path).or_machine(format_args!("cannot read {}", path.display()), "omit this condition")?;
        if old != wanted {
            // Undone in reverse order: the scheduler, its nr_requests, its own parameters.
            let along = parameters(&queue).into_iter().chain(["wbt_lat_usec", "nr_requests"].map(|n| queue.join(n)));
            changes.extend(along.filter(|p| *p != path).filter_map(|p| self::along(p, &path)));
            changes.push(Change::Value { path, old, new: wanted.to_owned() });
        }
    }
    Ok(changes)
}

/// The current value of a file that may change together with `of`; `None` if the file does not exist or is not
/// writable.
pub(super) fn along(path: PathBuf, of: &Path) -> Option<Change> {
    let writable = fs::metadata(&path).ok()?.permissions().mode() & 0o200 != 0;
    let old = present(&path).ok().filter(|_| writable)?;
    Some(Change::Along { path, old, of: of.to_owned() })
}

/// Parameter files of the current scheduler.
pub(super) fn parameters(queue: &Path) -> Vec<PathBuf> {
    files::entries(queue, "iosched").into_iter().map(|n| queue.join("iosched").join(n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::{roots, target, vda};

    fn conditions(toml: &str) -> Conditions {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn a_queue_reports_its_settings_and_choices() {
        let t = vda();
        let queue = Queue::of_in(&roots(&t), Some(&target("vda"))).unwrap();
        assert_eq!(queue.folders, [t.root().join("sys/block/vda/queue")]);
        assert_eq!((queue.scheduler.as_str(), queue.nr_requests), ("mq-deadline", 256));
        assert_eq!(queue.schedulers, ["none", "mq-deadline"]);
        assert!(Queue::of_in(&roots(&t), None).is_err());
    }

    #[test]
    fn an_unavailable_scheduler_is_rejected_with_a_list_of_available_ones() {
        let t = vda();
        let refusal = |name| scheduler_refusal(&roots(&t), Some(&target("vda")), name).map(|e| e.to_string());
        assert_eq!(refusal("none"), None);
        let e = refusal("bfq").unwrap();
        assert!(
            e.ends_with(
                "offers no scheduler 'bfq'; it offers none, mq-deadline; others may be modules: modprobe bfq-iosched"
            ),
            "{e}"
        );
    }

    #[test]
    fn a_scheduler_is_rejected_for_a_load_without_a_disk() {
        let t = vda();
        let none = Target { device: None, ..target("vda") };
        for of in [None, Some(&none), Some(&target("vdz"))] {
            let e = scheduler_refusal(&roots(&t), of, "none").unwrap();
            assert!(e.to_string().starts_with("the load has no target with a block queue"), "{e}");
            assert_eq!(e.exit_status(), 3);
        }
    }

    #[test]
    fn nr_requests_without_a_scheduler_are_limited_by_the_device_tags() {
        let t = vda();
        let refusal = |n, c: &str| {
            nr_requests_refusal(&roots(&t), Some(&target("vda")), n, &conditions(c)).map(|e| e.to_string())
        };
        assert_eq!(refusal(1024, ""), None);
        assert_eq!(refusal(256, "scheduler = 'none'"), None);
        assert!(refusal(257, "scheduler = 'none'").unwrap().contains("the device accepts 256 at a time"));
        assert!(refusal(2, "").unwrap().contains("the kernel accepts 4 to 2048"));
        assert!(refusal(4096, "").is_some());
    }

    #[test]
    fn an_unchanged_setting_needs_no_privilege() {
        let t = vda();
        for name in ["scheduler", "nr_requests"] {
            let file = t.root().join("sys/block/vda/queue").join(name);
            fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        }
        let target = target("vda");
        let scheduler = |name| scheduler_refusal(&roots(&t), Some(&target), name).is_some();
        assert_eq!((scheduler("mq-deadline"), scheduler("none")), (false, true));
        let requests = |n, c: &str| nr_requests_refusal(&roots(&t), Some(&target), n, &conditions(c)).is_some();
        assert_eq!(
            (requests(256, ""), requests(256, "scheduler = 'mq-deadline'"), requests(255, "")),
            (false, false, true)
        );
        assert!(requests(256, "scheduler = 'none'") && requests(256, "poll-queues = 1"));
    }

    #[test]
    fn io_poll_depends_on_the_poll_queues() {
        let t = vda();
        let refusal =
            |on, c: &str| io_poll_refusal(&roots(&t), Some(&target("vda")), on, &conditions(c)).map(|e| e.to_string());
        assert_eq!(refusal(false, ""), None);
        assert_eq!(refusal(true, "poll-queues = 2"), None);
        assert!(
            refusal(true, "").unwrap().contains("shows that the device has no poll queues; add some with poll-queues")
        );
        assert!(refusal(true, "poll-queues = 0").unwrap().ends_with("set poll-queues instead"));
        let polled = t.file("sys/block/vda/queue/io_poll", "1\n");
        let e = |t: &iotrail_testing::fixture::Tree| {
            io_poll_refusal(&roots(t), Some(&target("vda")), false, &conditions(""))
        };
        assert!(e(&polled).unwrap().to_string().contains("this kernel always polls if there are poll queues"));
        assert!(e(&polled.file("proc/sys/kernel/osrelease", "5.15.3\n")).is_none());
    }

    #[test]
    fn dependent_values_are_recorded_before_a_scheduler_change() {
        let t = vda();
        let queue = t.root().join("sys/block/vda/queue");
        let changes = scheduler(&roots(&t), Some(&target("vda")), "none").unwrap();
        let subjects: Vec<&Path> = changes.iter().map(|c| c.subject().strip_prefix(&queue).unwrap()).collect();
        assert_eq!(
            subjects.iter().map(|p| p.to_str().unwrap()).collect::<Vec<_>>(),
            ["iosched/fifo_batch", "wbt_lat_usec", "nr_requests", "scheduler"]
        );
        assert_eq!(
            changes[3],
            Change::Value { path: queue.join("scheduler"), old: "mq-deadline".into(), new: "none".into() }
        );
        assert!(changes[..3].iter().all(|c| c.hangs_on(&changes[3])));
        assert_eq!(scheduler(&roots(&t), Some(&target("vda")), "mq-deadline").unwrap(), []);
        assert_eq!(io_poll(&roots(&t), Some(&target("vda")), false).unwrap(), []);
    }
}
