//! One disk's driver, queues and scheduler.

use std::path::{Path, PathBuf};

use super::interrupts;
use super::locate::WholeDisk;
use crate::files;
use iotrail_schema::measurement::TargetInterrupt;

/// A physical disk (or a virtual machine's disk) that takes requests from the block layer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disk {
    /// `vda`, `nvme0n1`, `sda`.
    pub name: String,
    /// Its device number, as probes see it; `None` for a controller's character device.
    pub dev: Option<(u32, u32)>,
    /// The driver that completes its requests: `virtio_blk`, `nvme`, `ahci` (for SCSI the host's, not `sd`).
    pub driver: Option<String>,
    /// Its model; `None`: not reported, as for disks of a virtual machine.
    pub model: Option<String>,
    /// Hardware queues, polled ones included; with NVMe multipath those of all paths.
    pub queues: Option<u32>,
    /// Hardware queues without an interrupt; `Some(0)`: IOPOLL has nothing to poll.
    pub poll_queues: Option<u32>,
    /// The I/O scheduler: `none`, `mq-deadline`, …
    pub scheduler: Option<String>,
    pub logical_block_bytes: Option<u32>,
    /// Maximum requests held by the scheduler (or by the queue without one).
    pub nr_requests: Option<u32>,
    /// Where completions are steered: 0 nowhere, 1 to the submitter's cache, 2 to the submitter's CPU.
    pub rq_affinity: Option<u32>,
    pub interrupts: Vec<TargetInterrupt>,
}

pub(super) fn read(root: &Path, found: &WholeDisk) -> Disk {
    // The head of an NVMe multipath has the name; its paths have queues, scheduler and interrupts.
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

/// The nearest device above the disk that has a driver, but for SCSI's own (`sd` makes requests into commands; the
/// host's driver completes them). Disks without a device (zram, brd) have the name of their major number.
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

/// Number of hardware queues that a CPU is mapped to.
fn hardware_queues(dir: &Path) -> Option<u32> {
    if !dir.join("mq").exists() {
        return None;
    }
    u32::try_from(files::entries(dir, "mq").len()).ok()
}

/// Number of polled hardware queues. `queue/io_poll` reports whether there are any. The module's parameter is only the request,
/// which the device may not have granted. So the queues with an interrupt are counted, by the drivers' names
/// for them, and the others are polled.
fn poll_queues(dir: &Path, queues: Option<u32>, irqs: &[TargetInterrupt]) -> Option<u32> {
    if files::text(dir, "queue/io_poll")? == "0" {
        return Some(0);
    }
    let with_interrupt =
        irqs.iter().flat_map(|i| i.name.split(", ")).filter(|action| interrupts::is_queue(action)).count();
    let with_interrupt = u32::try_from(with_interrupt).ok().filter(|&n| n > 0)?;
    queues?.checked_sub(with_interrupt)
}

/// The bracketed one of `none [mq-deadline] kyber`; a queue that has only one may show it without brackets.
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
    fn the_scheduler_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber bfq").as_deref(), Some("mq-deadline"));
        assert_eq!(chosen("[none] mq-deadline").as_deref(), Some("none"));
        assert_eq!(chosen("none").as_deref(), Some("none"));
        assert_eq!(chosen("none mq-deadline"), None);
    }
}
