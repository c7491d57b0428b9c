//! Finds the physical disks below a path.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::files;
use iotrail_base::error::{Error, Result};

/// The kind of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A regular file or directory on a file system.
    File,
    Block,
    Character,
}

/// A path in the kernel's terms. Everything derived from it is read below a root directory, so that tests can use a
/// small tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Absolute, links resolved.
    pub path: PathBuf,
    pub kind: Kind,
    /// Device number of the file's file system, or of the device itself.
    pub major: u32,
    pub minor: u32,
}

pub(super) fn place(path: &Path) -> Result<Place> {
    let cannot = |e: std::io::Error| {
        Error::input(format!("cannot access {}", path.display()), "specify an existing file, directory or device")
            .because(e)
    };
    let real = fs::canonicalize(path).map_err(cannot)?;
    let meta = fs::metadata(&real).map_err(cannot)?;
    let kind = match meta.file_type() {
        t if t.is_block_device() => Kind::Block,
        t if t.is_char_device() => Kind::Character,
        t if t.is_file() || t.is_dir() => Kind::File,
        _ => {
            return Err(Error::input(
                format!("{} is neither a file nor a device", path.display()),
                "specify a file, a directory or a device",
            ));
        }
    };
    let dev = if kind == Kind::File { meta.dev() } else { meta.rdev() };
    Ok(Place { path: real, kind, major: libc::major(dev), minor: libc::minor(dev) })
}

/// A whole disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WholeDisk {
    /// Name as users know it: `vda`, `nvme0n1`.
    pub name: String,
    /// sysfs directories of its queues: its own, or with NVMe multipath those of each controller's path below the head.
    pub dirs: Vec<PathBuf>,
}

#[derive(Debug, Default)]
pub(super) struct Below {
    pub filesystem: Option<String>,
    pub disks: Vec<WholeDisk>,
    /// Devices whose queues receive the path's requests: the disks, or devices above them with a request queue of their
    /// own (a loop device, request-based device-mapper).
    pub queues: Vec<WholeDisk>,
    pub layers: Vec<String>,
}

/// Maximum depth of stacked loop devices and device-mapper tables. Beyond it, the tree contains a cycle.
const DEEPEST: u32 = 16;

pub(super) fn disks(root: &Path, place: &Place) -> Below {
    let mut below = Below::default();
    follow_place(root, place, &mut below, Depth::default());
    for found in [&mut below.disks, &mut below.queues] {
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.dedup();
    }
    below
}

/// Position in the device stack.
#[derive(Debug, Clone, Copy, Default)]
struct Depth {
    devices: u32,
    /// A queue further up receives the requests; it issues the requests to this device itself.
    is_below_queue: bool,
}

impl Depth {
    fn down(self) -> Self {
        Self { devices: self.devices + 1, ..self }
    }
}

fn follow_place(root: &Path, place: &Place, below: &mut Below, depth: Depth) {
    match place.kind {
        Kind::Character => {
            let found = nvme_generic(root, place);
            below.queues.extend(found.clone());
            below.disks.extend(found);
        }
        Kind::Block => follow_dev(root, place, below, depth),
        Kind::File => {
            let mount = mount_of(root, &place.path);
            if depth.devices == 0 {
                below.filesystem = mount.as_ref().map(|m| m.filesystem.clone());
            }
            if place.major != 0 {
                follow_dev(root, place, below, depth);
            } else if let Some(mount) = mount.filter(|m| m.filesystem == "btrfs") {
                // btrfs assigns an anonymous st_dev per subvolume. The disks are listed in its own sysfs directory.
                for dir in btrfs_devices(root, &mount.source) {
                    follow_block(root, &dir, below, depth.down());
                }
            }
        }
    }
}

fn follow_dev(root: &Path, place: &Place, below: &mut Below, depth: Depth) {
    let link = root.join(format!("sys/dev/block/{}:{}", place.major, place.minor));
    if let Ok(dir) = fs::canonicalize(link) {
        follow_block(root, &dir, below, depth);
    }
}

/// `dir`: sysfs directory of a block device, with links resolved.
fn follow_block(root: &Path, dir: &Path, below: &mut Below, mut depth: Depth) {
    let Some(name) = dir.file_name().and_then(|n| n.to_str()).map(str::to_owned) else { return };
    if depth.devices > DEEPEST {
        return;
    }
    if dir.join("partition").exists() {
        below.layers.push(name);
        if let Some(disk) = dir.parent() {
            follow_block(root, disk, below, depth.down());
        }
        return;
    }
    let slaves: Vec<PathBuf> = files::entries(dir, "slaves")
        .into_iter()
        .filter_map(|s| fs::canonicalize(dir.join("slaves").join(s)).ok())
        .collect();
    if !slaves.is_empty() {
        // Most device-mapper and md devices forward bios. One with hardware queues creates requests itself.
        if !files::entries(dir, "mq").is_empty() {
            below.take_requests(dir, &name, &mut depth);
        }
        below.layers.push(name);
        for slave in slaves {
            follow_block(root, &slave, below, depth.down());
        }
        return;
    }
    if let Some(file) = files::text(dir, "loop/backing_file") {
        below.take_requests(dir, &name, &mut depth);
        below.layers.push(name);
        if let Ok(backing) = self::place(&files::below(root, file)) {
            follow_place(root, &backing, below, depth.down());
        }
        return;
    }
    let paths = multipath(dir, &name);
    let disk = WholeDisk { name, dirs: if paths.is_empty() { vec![dir.to_owned()] } else { paths } };
    if !depth.is_below_queue {
        below.queues.push(disk.clone());
    }
    below.disks.push(disk);
}

impl Below {
    fn take_requests(&mut self, dir: &Path, name: &str, depth: &mut Depth) {
        if !depth.is_below_queue {
            self.queues.push(WholeDisk { name: name.to_owned(), dirs: vec![dir.to_owned()] });
            depth.is_below_queue = true;
        }
    }
}

/// Paths of an NVMe multipath head. The head is below its subsystem, and each controller of the subsystem has a hidden
/// disk for the same namespace (`nvme0n1` → `nvme0c0n1`, `nvme0c1n1`).
fn multipath(dir: &Path, name: &str) -> Vec<PathBuf> {
    let Some(subsystem) = dir.parent() else { return Vec::new() };
    if !subsystem.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("nvme-subsys")) {
        return Vec::new();
    }
    let Some((instance, namespace)) = name.strip_prefix("nvme").and_then(|n| n.split_once('n')) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for entry in files::entries(subsystem, "") {
        let Some(number) =
            entry.strip_prefix("nvme").filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        else {
            continue;
        };
        let Ok(controller) = fs::canonicalize(subsystem.join(&entry)) else { continue };
        let path = controller.join(format!("nvme{instance}c{number}n{namespace}"));
        if path.exists() {
            paths.push(path);
        }
    }
    paths
}

/// sysfs directories with the queues of disk `name`; empty if the disk does not exist.
pub fn queue_folders(root: &Path, name: &str) -> Vec<PathBuf> {
    let Ok(dir) = fs::canonicalize(root.join("sys/block").join(name)) else { return Vec::new() };
    let paths = multipath(&dir, name);
    if paths.is_empty() { vec![dir] } else { paths }
}

/// Disk of an NVMe character device: `/dev/ng0n1` (a namespace) or `/dev/nvme0` (a controller).
fn nvme_generic(root: &Path, place: &Place) -> Option<WholeDisk> {
    let dir = fs::canonicalize(root.join(format!("sys/dev/char/{}:{}", place.major, place.minor))).ok()?;
    let name = dir.file_name()?.to_str()?.to_owned();
    let numbered =
        |prefix: &str| name.strip_prefix(prefix).is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
    if numbered("ng") {
        let disk = name.replacen("ng", "nvme", 1);
        let block = dir.parent()?.join(&disk);
        // A namespace whose command set the block layer does not support has only a character device.
        if !block.exists() {
            return Some(WholeDisk { name, dirs: vec![dir] });
        }
        let paths = multipath(&block, &disk);
        return Some(WholeDisk { name: disk, dirs: if paths.is_empty() { vec![block] } else { paths } });
    }
    if numbered("nvme") { Some(WholeDisk { name, dirs: vec![dir] }) } else { None }
}

/// sysfs directories of all devices of the btrfs that contains `source`.
fn btrfs_devices(root: &Path, source: &str) -> Vec<PathBuf> {
    // /dev/mapper/x is a symlink to ../dm-0, the name that sysfs uses.
    let Ok(real) = fs::canonicalize(files::below(root, source)) else { return Vec::new() };
    let Some(name) = real.file_name().and_then(|n| n.to_str()) else { return Vec::new() };
    let all = root.join("sys/fs/btrfs");
    let devices = files::entries(&all, "").into_iter().map(|uuid| all.join(uuid).join("devices"));
    let Some(ours) = devices.into_iter().find(|d| d.join(name).exists()) else { return Vec::new() };
    files::entries(&ours, "").into_iter().filter_map(|d| fs::canonicalize(ours.join(d)).ok()).collect()
}

struct Mount {
    filesystem: String,
    source: String,
}

/// The mount that contains `path`: the longest mount point above it. If several mounts share a mount point, the last
/// one hides the others.
fn mount_of(root: &Path, path: &Path) -> Option<Mount> {
    let text = files::text(root, "proc/self/mountinfo")?;
    let mut best: Option<(usize, Mount)> = None;
    for line in text.lines() {
        // 36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/root rw (Documentation/filesystems/proc.rst)
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let Some(point) = left.split(' ').nth(4).map(unescape) else { continue };
        let mut right = right.split(' ');
        let (Some(filesystem), Some(source)) = (right.next(), right.next()) else { continue };
        let length = Path::new(&point).components().count();
        if path.starts_with(&point) && best.as_ref().is_none_or(|(longest, _)| length >= *longest) {
            best = Some((length, Mount { filesystem: filesystem.to_owned(), source: unescape(source) }));
        }
    }
    best.map(|(_, mount)| mount)
}

/// Decodes the kernel's escapes of white space and backslashes in names: `\040`, three octal digits.
pub(super) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal =
            after.get(..3).and_then(|d| std::str::from_utf8(d).ok()).and_then(|d| u8::from_str_radix(d, 8).ok());
        match octal {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    #[test]
    fn the_longest_and_latest_matching_mount_point_is_used() {
        let t = Tree::new().file(
            "proc/self/mountinfo",
            "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
             30 27 0:25 / /data rw,relatime shared:2 - btrfs /dev/sdb rw\n\
             31 27 0:26 / /data rw - tmpfs tmp rw\n\
             32 27 0:27 / /da rw - xfs /dev/sdc rw\n\
             33 27 0:28 / /with\\040space rw - nfs4 host:/x\\134y rw\n",
        );
        let of = |p: &str| mount_of(t.root(), Path::new(p)).map(|m| (m.filesystem, m.source)).unwrap();
        assert_eq!(of("/home/x"), ("ext4".into(), "/dev/vda".into()));
        assert_eq!(of("/data/x/y"), ("tmpfs".into(), "tmp".into()));
        assert_eq!(of("/database"), ("ext4".into(), "/dev/vda".into()));
        assert_eq!(of("/with space/f"), ("nfs4".into(), "host:/x\\y".into()));
    }

    #[test]
    fn a_missing_path_is_an_input_error() {
        let e = place(Path::new("/no/such/file")).unwrap_err();
        assert_eq!(e.exit_status(), 2);
        assert!(e.to_string().starts_with("cannot access /no/such/file: No such file"), "{e}");
    }

    #[test]
    fn a_character_device_without_a_disk_has_no_target() {
        let place = place(Path::new("/dev/null")).unwrap();
        assert_eq!((place.kind, place.major, place.minor), (Kind::Character, 1, 3));
        assert_eq!(disks(Tree::new().root(), &place).disks, []);
    }
}
