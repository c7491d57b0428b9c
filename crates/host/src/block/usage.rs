//! Whose a disk is at present: mounted, swapped to, held by a layer above it, or open.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::locate::unescape;
use crate::files;

/// What the kernel itself has on the block device `path` or a partition of it; `None` where nothing is found.
pub fn user_of(path: &Path) -> Option<String> {
    let rdev = fs::metadata(path).ok()?.rdev();
    let folder = fs::canonicalize(format!("/sys/dev/block/{}:{}", libc::major(rdev), libc::minor(rdev))).ok()?;
    user_in(Path::new(files::ROOT), &folder)
}

/// As [`user_of`], of the device whose folder in sysfs is `dir`.
pub(crate) fn user_in(root: &Path, dir: &Path) -> Option<String> {
    let mounts = files::text(root, "proc/self/mountinfo").unwrap_or_default();
    let swaps = files::text(root, "proc/swaps").unwrap_or_default();
    for folder in with_partitions(dir) {
        let (Some(number), Some(name)) = (files::text(&folder, "dev"), name(&folder)) else { continue };
        if let Some(at) = mounted_at(&mounts, &number, &name) {
            return Some(format!("mounted at {at}"));
        }
        if swaps.lines().skip(1).any(|l| l.split_whitespace().next().is_some_and(|p| names(p, &name))) {
            return Some(format!("{name} is swap"));
        }
        if let Some(holder) = files::entries(&folder, "holders").first() {
            return Some(format!("held by {holder}"));
        }
    }
    None
}

/// Who has the device open: another file system's namespace (the kernel refuses to claim it), or a process.
pub(crate) fn opener_in(root: &Path, dir: &Path) -> Option<String> {
    let nodes: Vec<PathBuf> =
        with_partitions(dir).iter().filter_map(|f| Some(Path::new("/dev").join(name(f)?))).collect();
    for node in &nodes {
        let claimed = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(files::below(root, node));
        if claimed.is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) {
            return Some(format!("{} is claimed by something that this process cannot see", node.display()));
        }
    }
    for process in files::entries(root, "proc").into_iter().filter(|p| p.bytes().all(|b| b.is_ascii_digit())) {
        let fds = format!("proc/{process}/fd");
        for fd in files::entries(root, &fds) {
            let Ok(open) = fs::read_link(root.join(&fds).join(fd)) else { continue };
            if nodes.contains(&open) {
                let comm = files::text(root, format!("proc/{process}/comm")).unwrap_or_default();
                return Some(format!("{} is open in process {process} ({comm})", open.display()));
            }
        }
    }
    None
}

/// The device's own folder, then those of its partitions: folders of it that have a `dev`.
fn with_partitions(dir: &Path) -> Vec<PathBuf> {
    let partitions = files::entries(dir, "").into_iter().map(|e| dir.join(e)).filter(|p| p.join("dev").is_file());
    std::iter::once(dir.to_owned()).chain(partitions).collect()
}

fn name(folder: &Path) -> Option<String> {
    Some(folder.file_name()?.to_str()?.to_owned())
}

/// Whether a path of a device stands for the one that sysfs calls `name`.
fn names(path: &str, name: &str) -> bool {
    path.strip_prefix("/dev/").is_some_and(|n| n == name)
}

/// Where mountinfo (proc_pid_mountinfo(5)) says that the device is mounted: by its number, or by its name, since btrfs
/// shows numbers of its own.
fn mounted_at(mountinfo: &str, number: &str, name: &str) -> Option<String> {
    mountinfo.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(2);
        let same = left.next()? == number;
        let at = left.nth(1)?;
        (same || names(right.split(' ').nth(1)?, name)).then(|| unescape(at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    fn disk() -> Tree {
        Tree::new()
            .file("sys/block/vdb/dev", "254:16")
            .file("sys/block/vdb/vdb1/dev", "254:17")
            .dir("sys/block/vdb/queue")
    }

    fn user(t: &Tree) -> Option<String> {
        user_in(t.root(), &t.root().join("sys/block/vdb"))
    }

    #[test]
    fn mounted_swapped_and_held() {
        assert_eq!(user(&disk()), None);
        let t = disk().file("proc/self/mountinfo", "21 1 254:17 / /mnt/my\\040disk rw,relatime - ext4 /dev/root rw\n");
        assert_eq!(user(&t).as_deref(), Some("mounted at /mnt/my disk"));
        let t = disk().file(
            "proc/self/mountinfo",
            "21 1 0:33 / /data rw - btrfs /dev/vdb1 rw\n22 1 0:5 / /dev rw - devtmpfs d rw\n",
        );
        assert_eq!(user(&t).as_deref(), Some("mounted at /data"));
        let t = disk().file("proc/swaps", "Filename Type Size Used Priority\n/dev/vdb1 partition 100 0 -2\n");
        assert_eq!(user(&t).as_deref(), Some("vdb1 is swap"));
        let t = disk().dir("sys/block/vdb/vdb1/holders/dm-0");
        assert_eq!(user(&t).as_deref(), Some("held by dm-0"));
    }

    #[test]
    fn open_in_a_process() {
        let t = disk().file("proc/77/comm", "postgres\n").dir("proc/77/fd");
        let dir = t.root().join("sys/block/vdb");
        assert_eq!(opener_in(t.root(), &dir), None);
        std::os::unix::fs::symlink("/dev/vdb1", t.root().join("proc/77/fd/3")).unwrap();
        assert_eq!(opener_in(t.root(), &dir).as_deref(), Some("/dev/vdb1 is open in process 77 (postgres)"));
    }

    #[test]
    fn what_carries_the_root_file_system_is_in_use() {
        let place = super::super::locate::place(Path::new("/")).unwrap();
        let root = Path::new(files::ROOT);
        for disk in super::super::locate::disks(root, &place).disks {
            assert!(disk.dirs.iter().any(|d| user_in(root, d).is_some()), "{disk:?}");
        }
    }
}
