//! Poll queues: hardware queues without an interrupt, which a driver creates when it is bound to a device.
//!
//! The module parameter is set, and only this device is unbound from its driver and rebound. `modprobe -r` would affect
//! all devices of the driver, including that of the root file system. Only unused devices are rebound.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::change::{Change, Rebinding, Undone, cause, is_gone};
use super::queue::{along, parameters};
use super::roots::{Roots, not_writable, present, write, write_checked};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::block::{self, queue_folders, usage};
use iotrail_host::cpu::parse_list;
use iotrail_host::files;
use iotrail_schema::measurement::Target;

/// Time for a controller to scan for its disks after the bind.
const APPEARING: Duration = Duration::from_secs(10);

/// Time for the last step of device_add_disk, which is not observable: the kernel sets the new disk's read-ahead.
const SETTLING: Duration = Duration::from_millis(100);

/// A device whose driver supports polling.
#[derive(Debug)]
pub struct Device {
    driver: PathBuf,
    name: String,
    parameter: PathBuf,
    disks: Vec<PathBuf>,
}

/// The device to which all the target's disks belong.
pub fn device_of(roots: &Roots, target: &Target) -> Result<Device> {
    let refuse = |what: String| {
        Error::machine(
            format!("poll-queues cannot be set: {what}"),
            "choose an unused NVMe drive, or an unused virtio disk whose driver can poll",
        )
    };
    let names = target.device.as_deref().unwrap_or_default();
    let dirs: Vec<PathBuf> = names.split('+').flat_map(|n| queue_folders(&roots.system, n)).collect();
    let devices = roots.path("sys/devices");
    let mut found: Vec<PathBuf> = Vec::new();
    for dir in &dirs {
        let mut above = dir.ancestors().take_while(|a| a.starts_with(&devices));
        match above.find(|a| parameter(roots, a).is_some()) {
            Some(device) if !found.iter().any(|f| f == device) => found.push(device.to_owned()),
            Some(_) => {}
            None => return Err(refuse("the target's driver has no poll_queues parameter".into())),
        }
    }
    let device = match found.as_slice() {
        [device] => device,
        [] => return Err(refuse("the load has no target on a disk".into())),
        several => return Err(refuse(format!("the target is on {} devices", several.len()))),
    };
    let unknown = || refuse(format!("{} does not identify its driver", device.display()));
    let driver = fs::canonicalize(device.join("driver")).map_err(|e| unknown().because(e))?;
    let name = device.file_name().and_then(|n| n.to_str()).ok_or_else(unknown)?.to_owned();
    let parameter = parameter(roots, device).ok_or_else(unknown)?;
    let below = |n: &String| fs::canonicalize(roots.path("sys/block").join(n)).is_ok_and(|d| d.starts_with(device));
    // An NVMe multipath head is a separate disk, whose users use the paths.
    let mut disks: Vec<String> = files::entries(&roots.system, "sys/block").into_iter().filter(below).collect();
    disks.extend(names.split('+').filter(|n| !disks.iter().any(|d| d == n)).map(str::to_owned).collect::<Vec<_>>());
    let disks = disks.iter().map(|n| roots.path("sys/block").join(n)).collect();
    Ok(Device { driver, name, parameter, disks })
}

/// `poll_queues` parameter of the module that contains the device's driver.
fn parameter(roots: &Roots, device: &Path) -> Option<PathBuf> {
    let driver = files::link_name(&device.join("driver"))?;
    let module = files::link_name(&device.join("driver/module")).unwrap_or(driver);
    let parameter = roots.path("sys/module").join(module).join("parameters/poll_queues");
    parameter.is_file().then_some(parameter)
}

impl Device {
    /// Current user of the device; `None` if unused.
    pub fn user(&self, roots: &Roots) -> Option<String> {
        user(roots, &self.disks)
    }
}

fn user(roots: &Roots, disks: &[PathBuf]) -> Option<String> {
    // With links resolved, because a disk's partitions are in its own directory.
    let dirs: Vec<PathBuf> = disks.iter().filter_map(|d| fs::canonicalize(d).ok()).collect();
    let used = dirs.iter().find_map(|d| usage::user_in(&roots.system, d));
    used.or_else(|| dirs.iter().find_map(|d| usage::opener_in(&roots.system, d)))
}

pub fn refusal(roots: &Roots, target: Option<&Target>, wanted: u32) -> Option<Error> {
    let Some(target) = target else {
        return Some(Error::machine("poll-queues cannot be set: the load has no target", "choose one with --file"));
    };
    if target.poll_queues == Some(wanted) {
        return None;
    }
    if let Some(above) = &target.queue_device {
        return Some(Error::machine(
            format!("poll-queues cannot be set: the load's requests go to {above}, which does not complete by polling"),
            "omit poll-queues, or choose a disk without a stacked device",
        ));
    }
    let device = match device_of(roots, target) {
        Ok(device) => device,
        Err(e) => return Some(e),
    };
    let name = target.device.as_deref().unwrap_or_default();
    if let Some(user) = device.user(roots) {
        return Some(Error::machine(
            format!("poll-queues cannot be set: {name} must be unbound from its driver but is in use ({user})"),
            "release it first, or choose an unused device: --file /dev/nvme1n1",
        ));
    }
    let possible = roots.text("sys/devices/system/cpu/possible").and_then(|t| parse_list(&t).ok());
    if let Some(cpus) = possible.map(|c| c.len()).filter(|n| wanted as usize > *n) {
        return Some(Error::machine(
            format!("poll-queues cannot be {wanted}: there are {cpus} CPUs"),
            "more queues than CPUs are useless: choose fewer",
        ));
    }
    let files = [device.parameter, device.driver.join("unbind"), device.driver.join("bind")];
    files.iter().find_map(|file| not_writable("the number of poll queues", file))
}

/// No changes if the device already has this number.
pub fn changes(roots: &Roots, target: Option<&Target>, wanted: u32) -> Result<Vec<Change>> {
    let Some(target) = target.filter(|t| t.poll_queues != Some(wanted)) else { return Ok(Vec::new()) };
    let device = device_of(roots, target)?;
    let old = present(&device.parameter)
        .or_machine(format_args!("cannot read {}", device.parameter.display()), "omit poll-queues")?;
    // The bind resets the queue settings of all disks on the device to the driver's defaults, including disks that are
    // not the target's.
    let mut changes = Vec::new();
    for disk in &device.disks {
        let queue = disk.join("queue");
        let last = ["nr_requests", "scheduler"];
        // Only the number of poll queues may change.
        let others =
            files::entries(&queue, "").into_iter().filter(|n| !last.contains(&n.as_str()) && !n.starts_with("io_poll"));
        let all = others.map(|n| queue.join(n)).filter(|p| p.is_file()).chain(parameters(&queue));
        changes.extend(all.chain(last.map(|n| queue.join(n))).filter_map(|p| along(p, &device.parameter)));
    }
    changes.push(Change::Driver(Rebinding {
        driver: device.driver,
        device: device.name,
        parameter: device.parameter,
        old,
        new: wanted.to_string(),
        disks: device.disks,
    }));
    Ok(changes)
}

/// Fails if the device granted fewer queues than requested.
pub fn granted(roots: &Roots, target: &Target, wanted: u32) -> Result<()> {
    match block::again(&roots.system, target).poll_queues {
        Some(n) if n != wanted => Err(Error::machine(
            format!("the device has {n} poll queues instead of the requested {wanted}"),
            "request fewer poll queues: the other queues need some of them",
        )),
        _ => Ok(()),
    }
}

/// Unbinds the device from its driver if bound, and binds it with the parameter set to `value`.
pub fn rebind(roots: &Roots, r: &Rebinding, value: &str) -> io::Result<()> {
    if is_bound(r) {
        if let Some(user) = user(roots, &r.disks) {
            return Err(io::Error::other(format!("the device is in use ({user})")));
        }
        write(&r.driver.join("unbind"), &r.device)?;
    }
    write_checked(&r.parameter, value)?;
    write(&r.driver.join("bind"), &r.device)?;
    wait_for_disks(roots, r)
}

fn wait_for_disks(roots: &Roots, r: &Rebinding) -> io::Result<()> {
    let began = Instant::now();
    while let Some(missing) = r.disks.iter().find(|d| !is_there(roots, d)) {
        if began.elapsed() > APPEARING {
            let cause = format!("{} did not reappear within {} s", missing.display(), APPEARING.as_secs());
            return Err(io::Error::other(cause));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(SETTLING);
    Ok(())
}

/// Whether a disk has its queue and a device file that can be opened, which the kernel allows only after the partition
/// scan. (Hidden paths of NVMe multipath have neither number nor file.)
fn is_there(roots: &Roots, disk: &Path) -> bool {
    let node = disk.file_name().map(|n| roots.path("dev").join(n));
    disk.join("queue").is_dir() && (!disk.join("dev").exists() || node.is_some_and(|n| fs::File::open(n).is_ok()))
}

/// The driver's directory contains a link per device.
fn is_bound(r: &Rebinding) -> bool {
    r.driver.join(&r.device).symlink_metadata().is_ok()
}

/// An unplugged device cannot be bound again.
fn is_on_the_bus(r: &Rebinding) -> bool {
    let bus = r.driver.parent().and_then(Path::parent);
    bus.is_some_and(|bus| bus.join("devices").join(&r.device).symlink_metadata().is_ok())
}

/// The parameter is written between unbind and bind. So a device that is bound under the old value was never unbound,
/// or is already restored.
pub fn undo(roots: &Roots, r: &Rebinding, force: bool) -> Undone {
    let failed = |e: io::Error| Undone::Failed { before: r.old.clone(), cause: cause(&e) };
    let now = match present(&r.parameter) {
        Ok(now) => now,
        Err(e) if is_gone(&e) => return Undone::Gone,
        Err(e) => return failed(e),
    };
    if !is_on_the_bus(r) {
        return Undone::Gone;
    }
    if now == r.old && is_bound(r) {
        // It may just have been rebound.
        return wait_for_disks(roots, r).map_or_else(failed, |()| Undone::AsBefore { value: now });
    }
    if now != r.old && now != r.new && !force {
        return Undone::ChangedSince { present: now, set: r.new.clone(), before: r.old.clone() };
    }
    match rebind(roots, r, &r.old) {
        // The parameter was set, and reset before the rebinding.
        Ok(()) if now == r.old => Undone::PutBack { from: r.new.clone(), to: now },
        Ok(()) => Undone::PutBack { from: now, to: r.old.clone() },
        Err(e) => failed(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::{roots, target};
    use iotrail_testing::fixture::Tree;

    const PCI: &str = "sys/devices/pci0000:00/0000:00:04.0";

    /// An NVMe drive with two namespaces, the first with a partition.
    fn nvme() -> Tree {
        let mut t = Tree::new()
            .file("sys/module/nvme/parameters/poll_queues", "0\n")
            .file("sys/devices/system/cpu/possible", "0-3\n")
            .file("sys/bus/pci/drivers/nvme/bind", "")
            .file("sys/bus/pci/drivers/nvme/unbind", "")
            .dir(PCI)
            .link(&format!("{PCI}/driver"), "sys/bus/pci/drivers/nvme")
            .link("sys/bus/pci/drivers/nvme/0000:00:04.0", PCI)
            .link("sys/bus/pci/devices/0000:00:04.0", PCI)
            .link("sys/bus/pci/drivers/nvme/module", "sys/module/nvme");
        for (n, minor) in [(1, 0), (2, 16)] {
            let disk = format!("{PCI}/nvme/nvme0/nvme0n{n}");
            t = t
                .file(&format!("{disk}/dev"), &format!("259:{minor}"))
                .file(&format!("{disk}/queue/io_poll"), "0\n")
                .file(&format!("{disk}/queue/nomerges"), "2\n")
                .file(&format!("{disk}/queue/nr_requests"), "1023\n")
                .file(&format!("{disk}/queue/scheduler"), "[none] mq-deadline\n")
                .file(&format!("dev/nvme0n{n}"), "")
                .link(&format!("sys/block/nvme0n{n}"), &disk);
        }
        t.file(&format!("{PCI}/nvme/nvme0/nvme0n1/nvme0n1p1/dev"), "259:1")
    }

    fn drive() -> Target {
        Target { poll_queues: Some(0), ..target("nvme0n1") }
    }

    fn text(t: &Tree, path: &str) -> String {
        fs::read_to_string(t.root().join(path)).unwrap()
    }

    #[test]
    fn a_device_in_use_is_rejected_with_its_users() {
        let t = nvme();
        assert!(refusal(&roots(&t), Some(&drive()), 2).is_none());
        let says = |t: &Tree| refusal(&roots(t), Some(&drive()), 2).unwrap().to_string();
        let t = t.file("proc/self/mountinfo", "21 1 259:1 / /srv rw - xfs /dev/nvme0n1p1 rw\n");
        assert_eq!(
            says(&t),
            "poll-queues cannot be set: nvme0n1 must be unbound from its driver but is in use (mounted at /srv); \
             release it first, or choose an unused device: --file /dev/nvme1n1"
        );
        // Another namespace of the same drive is rebound together with it.
        let t = t.file("proc/self/mountinfo", "").file("proc/swaps", "Filename\n/dev/nvme0n2 partition 1 0 -2\n");
        assert!(says(&t).contains("in use (nvme0n2 is swap)"));
        let t = nvme().dir(&format!("{PCI}/nvme/nvme0/nvme0n1/nvme0n1p1/holders/md0"));
        assert!(says(&t).contains("in use (held by md0)"));
    }

    #[test]
    fn poll_queues_without_driver_support_are_rejected() {
        let t = nvme();
        let says = |t: &Target, n| refusal(&roots(&nvme()), Some(t), n).unwrap().to_string();
        assert!(says(&drive(), 5).starts_with("poll-queues cannot be 5: there are 4 CPUs"));
        assert!(says(&target("sda"), 1).contains("the load has no target on a disk"));
        fs::remove_file(t.root().join("sys/module/nvme/parameters/poll_queues")).unwrap();
        let e = refusal(&roots(&t), Some(&drive()), 1).unwrap().to_string();
        assert!(e.contains("the target's driver has no poll_queues parameter"), "{e}");
        assert!(refusal(&roots(&t), Some(&drive()), 0).is_none(), "it is so already");
    }

    #[test]
    fn a_device_is_rebound_to_set_and_to_restore_its_poll_queues() {
        let t = nvme();
        let changes = changes(&roots(&t), Some(&drive()), 2).unwrap();
        let (rebinding, along) = changes.split_last().unwrap();
        let names: Vec<_> = along.iter().map(|c| c.subject().file_name().unwrap().to_str().unwrap()).collect();
        // Includes the other namespace, which is rebound together with it.
        assert_eq!(names, ["nomerges", "nr_requests", "scheduler"].repeat(2));
        assert!(along.iter().all(|c| c.hangs_on(rebinding)));
        assert_eq!(rebinding.undo(&roots(&t), false), Undone::AsBefore { value: "0".into() });
        rebinding.make(&roots(&t)).unwrap();
        assert_eq!(text(&t, "sys/module/nvme/parameters/poll_queues"), "2");
        assert_eq!(text(&t, "sys/bus/pci/drivers/nvme/unbind"), "0000:00:04.0");
        assert_eq!(text(&t, "sys/bus/pci/drivers/nvme/bind"), "0000:00:04.0");
        assert_eq!(rebinding.undo(&roots(&t), false), Undone::PutBack { from: "2".into(), to: "0".into() });
        assert_eq!(text(&t, "sys/module/nvme/parameters/poll_queues"), "0");
        // Killed after the unbind: the old value does not mean that the device is restored.
        fs::remove_file(t.root().join("sys/bus/pci/drivers/nvme/0000:00:04.0")).unwrap();
        assert!(matches!(rebinding.undo(&roots(&t), false), Undone::PutBack { .. }));
        let t = t.file("sys/module/nvme/parameters/poll_queues", "7");
        assert!(matches!(rebinding.undo(&roots(&t), false), Undone::ChangedSince { .. }));
        // The overwritten value was set by another program.
        assert_eq!(rebinding.undo(&roots(&t), true), Undone::PutBack { from: "7".into(), to: "0".into() });
        fs::remove_file(t.root().join("sys/bus/pci/devices/0000:00:04.0")).unwrap();
        assert_eq!(rebinding.undo(&roots(&t), false), Undone::Gone);
    }

    #[test]
    fn a_device_that_has_come_into_use_is_not_unbound() {
        let t = nvme();
        let changes = changes(&roots(&t), Some(&drive()), 2).unwrap();
        let rebinding = changes.last().unwrap();
        rebinding.make(&roots(&t)).unwrap();
        let t = t.file("proc/self/mountinfo", "21 1 259:1 / /srv rw - xfs /dev/nvme0n1p1 rw\n");
        let left = rebinding.undo(&roots(&t), true);
        assert_eq!(left, Undone::Failed { before: "0".into(), cause: "the device is in use (mounted at /srv)".into() });
    }
}
