//! Interrupts that complete a disk's I/O.

use std::path::{Path, PathBuf};

use crate::{files, irq};
use iotrail_schema::measurement::TargetInterrupt;

/// `dir`: the disk's sysfs directory, with links resolved. Empty if the interrupts are unreadable, or the device has
/// none of its own (network or virtual disk).
pub(super) fn of(root: &Path, dir: &Path) -> Vec<TargetInterrupt> {
    let Ok(table) = irq::snapshot_in(root) else { return Vec::new() };
    // An allocated vector may have no handler; then it receives no interrupts.
    let rows = table.rows.iter().filter_map(|row| Some((row.irq()?, row.name.as_str()))).filter(|(_, n)| !n.is_empty());
    let own: Vec<(u32, &str)> = match pci_function(root, dir) {
        Some(function) => {
            let vectors = vectors(&function);
            rows.filter(|(irq, _)| vectors.contains(irq)).collect()
        }
        // Without PCI (virtio over MMIO, Xen disks), handlers are named after the device.
        None => {
            let above = dir.ancestors().skip(1).take_while(|a| a.starts_with(root.join("sys/devices")));
            let names: Vec<&str> = above.filter_map(|a| a.file_name()?.to_str()).collect();
            rows.filter(|(_, name)| name.split(", ").any(|action| names.contains(&action))).collect()
        }
    };
    completing(&own)
        .into_iter()
        .filter_map(|(irq, name)| {
            Some(TargetInterrupt { irq, name: name.to_owned(), cpus: irq::affinity_in(root, irq).effective? })
        })
        .collect()
}

/// The nearest PCI function above the disk. Functions further up are bridges with their own interrupts.
fn pci_function(root: &Path, dir: &Path) -> Option<PathBuf> {
    let devices = root.join("sys/devices");
    let mut above = dir.ancestors().take_while(|a| a.starts_with(&devices));
    above.find(|a| files::link_name(&a.join("subsystem")).as_deref() == Some("pci")).map(Path::to_owned)
}

/// MSI vectors, or the legacy interrupt of a function without MSI.
fn vectors(function: &Path) -> Vec<u32> {
    let msi: Vec<u32> = files::entries(function, "msi_irqs").iter().filter_map(|n| n.parse().ok()).collect();
    if msi.is_empty() { files::number(function, "irq").into_iter().filter(|&n| n != 0).collect() } else { msi }
}

/// Selects the device's interrupts that complete I/O. Known exceptions: NVMe's `nvme0q0` is the admin queue; virtio has
/// configuration, control and event vectors. If none remains, because one vector serves everything, all are kept.
fn completing<'a>(own: &[(u32, &'a str)]) -> Vec<(u32, &'a str)> {
    let kept: Vec<_> =
        own.iter().filter(|(_, name)| name.split(", ").any(|action| !is_housekeeping(action))).copied().collect();
    if kept.is_empty() { own.to_vec() } else { kept }
}

fn is_housekeeping(action: &str) -> bool {
    if nvme_queue(action) == Some(0) {
        return true;
    }
    action.starts_with("virtio")
        && action.split_once('-').is_some_and(|(_, of)| matches!(of, "config" | "control" | "event"))
}

/// Whether a handler belongs to a single I/O queue: NVMe's `nvme0q3`, virtio_blk's `virtio1-req.0`.
pub(super) fn is_queue(action: &str) -> bool {
    nvme_queue(action).is_some_and(|q| q > 0)
        || action.starts_with("virtio") && action.split_once("-req.").is_some_and(|(_, n)| n.parse::<u32>().is_ok())
}

fn nvme_queue(action: &str) -> Option<u32> {
    let (instance, queue) = action.strip_prefix("nvme")?.split_once('q')?;
    instance.parse::<u32>().ok()?;
    queue.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(names: &[&'static str]) -> Vec<&'static str> {
        let own: Vec<(u32, &str)> = names.iter().enumerate().map(|(i, n)| (i as u32, *n)).collect();
        completing(&own).into_iter().map(|(_, n)| n).collect()
    }

    #[test]
    fn only_interrupts_that_complete_io_are_selected() {
        assert_eq!(kept(&["virtio1-config", "virtio1-req.0"]), ["virtio1-req.0"]);
        assert_eq!(kept(&["virtio1-config", "virtio1-virtqueues"]), ["virtio1-virtqueues"]);
        assert_eq!(
            kept(&["virtio0-config", "virtio0-control", "virtio0-event", "virtio0-request"]),
            ["virtio0-request"]
        );
        assert_eq!(kept(&["nvme0q0", "nvme0q1", "nvme0q2"]), ["nvme0q1", "nvme0q2"]);
        assert_eq!(kept(&["nvme0q0, nvme0q1"]), ["nvme0q0, nvme0q1"]);
        assert_eq!(kept(&["nvme0q0"]), ["nvme0q0"]);
        assert_eq!(kept(&["mpt3sas0-msix0", "mpt3sas0-msix1"]), ["mpt3sas0-msix0", "mpt3sas0-msix1"]);
    }

    #[test]
    fn single_queue_interrupt_names_are_recognized() {
        for yes in ["nvme0q1", "nvme12q130", "virtio1-req.0"] {
            assert!(is_queue(yes), "{yes}");
        }
        for no in ["nvme0q0", "virtio1-virtqueues", "virtio1-config", "ahci[0000:00:1f.2]", "nvmeq1"] {
            assert!(!is_queue(no), "{no}");
        }
    }
}
