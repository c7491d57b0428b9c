//! The device below a path: driver, queues, scheduler, and the interrupts that complete its I/O.
//!
//! `locate` finds the disks, `queue` reads them, `interrupts` finds their vectors, `traffic` counts the bytes
//! transferred, `usage` finds their current users.

mod interrupts;
mod locate;
mod queue;
mod traffic;
pub mod usage;

use std::path::Path;

pub use locate::Kind;
pub use locate::queue_folders;
pub use queue::Disk;
pub use traffic::{Counters, Moved};

use super::files::ROOT;
use iotrail_base::error::Result;
use iotrail_schema::measurement::Target;

/// The devices below a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    pub path: String,
    pub kind: Kind,
    /// File system type; `None` for a device.
    pub filesystem: Option<String>,
    /// Physical disks; empty if there are none (tmpfs, network, overlay) or they cannot be found.
    pub disks: Vec<Disk>,
    /// Devices that receive the path's requests: the disks, or devices above them with their own queue (loop).
    pub queues: Vec<Disk>,
    /// Block devices between the path and the disks, topmost first: partitions, device-mapper, md, loop.
    pub layers: Vec<String>,
}

/// The target of a file or device in the record's form. With several disks (RAID, LVM), names are joined by `+`, queues
/// are summed and interrupts are listed together.
///
/// Fails with a usage error if the path does not exist or is inaccessible.
pub fn target(path: &Path) -> Result<Target> {
    describe(path).map(|d| d.target())
}

/// Reads the target again after its disks may have been rebound to their driver, with different queues and interrupts.
pub fn again(root: &Path, target: &Target) -> Target {
    let read = |names: Option<&str>| -> Vec<Disk> {
        let names = names.into_iter().flat_map(|names| names.split('+'));
        let found = names.map(|name| locate::WholeDisk { name: name.to_owned(), dirs: queue_folders(root, name) });
        found.map(|disk| queue::read(root, &disk)).collect()
    };
    let (disks, queues) = (read(target.device.as_deref()), read(target.queue_device()));
    of_disks(target.path.clone(), target.filesystem.clone(), &disks, &queues)
}

/// Reads all sysfs data about the devices below `path`. Errors as in [`target`].
pub fn describe(path: &Path) -> Result<Description> {
    let place = locate::place(path)?;
    Ok(describe_in(Path::new(ROOT), &place))
}

fn describe_in(root: &Path, place: &locate::Place) -> Description {
    let found = locate::disks(root, place);
    Description {
        path: place.path.display().to_string(),
        kind: place.kind,
        filesystem: found.filesystem,
        disks: found.disks.iter().map(|d| queue::read(root, d)).collect(),
        queues: found.queues.iter().map(|d| queue::read(root, d)).collect(),
        layers: found.layers,
    }
}

impl Description {
    pub fn target(&self) -> Target {
        of_disks(self.path.clone(), self.filesystem.clone(), &self.disks, &self.queues)
    }
}

fn of_disks(path: String, filesystem: Option<String>, disks: &[Disk], takers: &[Disk]) -> Target {
    let mut interrupts: Vec<_> = disks.iter().flat_map(|d| d.interrupts.iter().cloned()).collect();
    // Two namespaces of a controller share its interrupts.
    interrupts.sort_by_key(|i| i.irq);
    interrupts.dedup();
    let names = |of: &[Disk]| joined(of.iter().map(|d| Some(d.name.clone())), true);
    let device = names(disks);
    Target {
        path,
        filesystem,
        queue_device: names(takers).filter(|queues| Some(queues) != device.as_ref()),
        device,
        driver: joined(disks.iter().map(|d| d.driver.clone()), false),
        model: joined(disks.iter().map(|d| d.model.clone()), false),
        queues: summed(disks.iter().map(|d| d.queues)),
        poll_queues: summed(takers.iter().map(|d| d.poll_queues)),
        scheduler: joined(takers.iter().map(|d| d.scheduler.clone()), false),
        interrupts,
    }
}

/// `None` if any value is missing: a partial sum would look like a measurement.
fn summed(values: impl Iterator<Item = Option<u32>>) -> Option<u32> {
    let values: Vec<u32> = values.collect::<Option<_>>()?;
    if values.is_empty() { None } else { Some(values.iter().sum()) }
}

fn joined(values: impl Iterator<Item = Option<String>>, every: bool) -> Option<String> {
    let mut values: Vec<String> = values.collect::<Option<_>>()?;
    if !every {
        values.dedup();
    }
    if values.is_empty() { None } else { Some(values.join("+")) }
}

#[cfg(test)]
mod tests;
