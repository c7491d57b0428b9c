//! Driver, queues and scheduler of a disk.

use std::path::{Path, PathBuf};

use super::interrupts;
use super::locate::WholeDisk;
use crate::files;
use iotrail_schema::measurement::TargetInterrupt;

/// A physical disk, or a virtual machine's disk, that receives requests from the block layer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disk {
    /// `vda`, `nvme0n1`, `sda`.
    pub name: String,
    /// Device number as the probes see it; `None` for a controller's character device.
    pub dev: Option<(u32, u32)>,
    /// Driver that completes its requests: `virtio_blk`, `nvme`, `ahci` (for SCSI the host's driver, not `sd`).
    pub driver: Option<String>,
    /// Model; `None` if not reported, as for virtual disks.
    pub model: Option<String>,
    /// Number of hardware queues, including polled ones and, with NVMe multipath, those of all paths.
    pub queues: Option<u32>,
    /// Number of hardware queues without an interrupt; with `Some(0)`, IOPOLL has nothing to poll.
    pub poll_queues: Option<u32>,
    /// The I/O scheduler: `none`, `mq-deadline`, …
    pub scheduler: Option<String>,
    pub logical_block_bytes: Option<u32>,
    /// Maximum number of requests in the scheduler, or in the queue if there is no scheduler.
    pub nr_requests: Option<u32>,
    /// CPU that processes completions: 0 any, 1 one that shares the submitter's cache, 2 the submitter's.
    pub rq_affinity: Option<u32>,
    pub interrupts: Vec<TargetInterrupt>,
}

pub(super) fn read(root: &Path, found: &WholeDisk) -> Disk {
    // With NVMe multipath the head has the name; its paths have queues, scheduler and interrupts.
    let block: Vec<&PathBuf> = found.dirs.iter().filter(|d| d.join("queue").exists()).collect();
    let first = block.first();
    let queue = |name: &str| first.and_then(|d| files::text(d, format!("queue/{name}")));
    let number = |name: &str| queue(name).and_then(|v| v.parse().ok());

    let mut all = Vec::new();
    let mut poll = Vec::new();
    for dir in &block {
        let queues = hardware_queues(dir);
        let irqs = interrupts::of(root, dir);
        poll.push(poll_queues(dir, queues, &irqs));
        all.push(queues);
    }
    let mut irqs: Vec<TargetInterrupt> = found.dirs.iter().flat_map(|d| interrupts::of(root, d)).collect();
    irqs.sort_by_key(|i| i.irq);
    irqs.dedup();

    Disk {
        name: found.name.clone(),
        dev: device_number(root, &found.name),
        driver: found.dirs.first().and_then(|d| driver(root, d)),
        model: found.dirs.first().and_then(|d| files::text(d, "device/model")).filter(|m| !m.is_empty()),
        queues: super::summed(all.into_iter()),
        poll_queues: super::summed(poll.into_iter()),
        scheduler: queue("scheduler").and_then(|s| chosen(&s)),
        logical_block_bytes: number("logical_block_size"),
        nr_requests: number("nr_requests"),
        rq_affinity: number("rq_affinity"),
        interrupts: irqs,
    }
}

fn device_number(root: &Path, name: &str) -> Option<(u32, u32)> {
    let text = files::text(root, format!("sys/class/block/{name}/dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The nearest device with a driver above the disk, except SCSI's own driver (`sd` translates requests to commands,
/// which the host's driver completes). For disks without a device (zram, brd), the name of their major number.
fn driver(root: &Path, dir: &Path) -> Option<String> {
    let above = dir.ancestors().take_while(|a| a.starts_with(root.join("sys/devices")));
    for device in above {
        let Some(driver) = files::link_name(&device.join("driver")) else { continue };
        if files::link_name(&device.join("subsystem")).as_deref() != Some("scsi") {
            return Some(driver);
        }
    }
    let (major, _) = files::text(dir, "dev")?.split_once(':').map(|(a, b)| (a.to_owned(), b.to_owned()))?;
    let devices = files::text(root, "proc/devices")?;
    let (_, block) = devices.split_once("Block devices:")?;
    block.lines().filter_map(|l| l.trim().split_once(' ')).find(|(m, _)| *m == major).map(|(_, n)| n.to_owned())
}

/// Number of hardware queues to which a CPU is mapped.
fn hardware_queues(dir: &Path) -> Option<u32> {
    if !dir.join("mq").exists() {
        return None;
    }
    u32::try_from(files::entries(dir, "mq").len()).ok()
}

/// Number of polled hardware queues. `queue/io_poll` shows whether there are any. The module parameter is only the
/// requested number, which the device may not have granted. So queues with an interrupt are counted by their handler
/// names, and the others are polled.
fn poll_queues(dir: &Path, queues: Option<u32>, irqs: &[TargetInterrupt]) -> Option<u32> {
    if files::text(dir, "queue/io_poll")? == "0" {
        return Some(0);
    }
    let with_interrupt =
        irqs.iter().flat_map(|i| i.name.split(", ")).filter(|action| interrupts::is_queue(action)).count();
    let with_interrupt = u32::try_from(with_interrupt).ok().filter(|&n| n > 0)?;
    queues?.checked_sub(with_interrupt)
}

/// The bracketed choice in `none [mq-deadline] kyber`; the only choice may be without brackets.
fn chosen(text: &str) -> Option<String> {
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((name, _)) => Some(name.to_owned()),
        None if !text.is_empty() && !text.contains(' ') => Some(text.to_owned()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_scheduler_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber bfq").as_deref(), Some("mq-deadline"));
        assert_eq!(chosen("[none] mq-deadline").as_deref(), Some("none"));
        assert_eq!(chosen("none").as_deref(), Some("none"));
        assert_eq!(chosen("none mq-deadline"), None);
    }
}
