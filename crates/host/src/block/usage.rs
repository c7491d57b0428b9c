//! Finds the user of a disk or file: a mount, swap, a loop device, a layer above it, a kernel target, a program.
//!
//! Files and devices are compared by number, not by name: a hard link, symlink or bind mount is the same file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use linux_raw_sys::loop_device::LOOP_GET_STATUS64;

use super::locate::unescape;
use crate::files;

/// A mount, swap, loop device, layer, target or program that uses this file or block device; `None` if none is found.
pub fn user_of(meta: &Metadata) -> Option<String> {
    user_but(Path::new(files::ROOT), meta, "")
}

/// Like [`user_of`], but ignores this loop device.
fn user_but(root: &Path, meta: &Metadata, own_loop: &str) -> Option<String> {
    if is_block(meta) {
        let dir = fs::canonicalize(files::below(root, format!("sys/dev/block/{}", number_of(meta)))).ok()?;
        let numbers = with_partitions(&dir).into_iter().chain(whole_of(&dir)).filter_map(|f| files::text(&f, "dev"));
        let numbers: Vec<String> = numbers.collect();
        return user_in(root, &dir)
            .or_else(|| loop_on(root, meta, own_loop))
            .or_else(|| target_of(root, meta))
            .or_else(|| written_by(root, |file| is_block(file) && numbers.contains(&number_of(file))))
            .or_else(|| user_below(root, &whole_of(&dir).unwrap_or(dir)));
    }
    mount_of(root, meta)
        .or_else(|| loop_on(root, meta, own_loop))
        .or_else(|| swap_on(root, meta))
        .or_else(|| target_of(root, meta))
        .or_else(|| written_by(root, |file| (file.dev(), file.ino()) == (meta.dev(), meta.ino())))
        .or_else(|| mapped_by(root, meta))
}

/// For a loop device: the user of its backing file or device.
fn user_below(root: &Path, dir: &Path) -> Option<String> {
    let path = files::text(dir, "loop/backing_file")?;
    let meta = fs::metadata(files::below(root, &path)).ok()?;
    let user = user_but(root, &meta, &name(dir)?)?;
    Some(format!("its backing file {path}: {user}"))
}

fn is_block(meta: &Metadata) -> bool {
    meta.file_type().is_block_device()
}

fn number_of(device: &Metadata) -> String {
    format!("{}:{}", libc::major(device.rdev()), libc::minor(device.rdev()))
}

/// Whether the path is another name of the same file or device.
fn is_same(root: &Path, path: &str, meta: &Metadata) -> bool {
    let Ok(other) = fs::metadata(files::below(root, path)) else { return false };
    match meta.file_type().is_block_device() {
        true => other.file_type().is_block_device() && other.rdev() == meta.rdev(),
        false => (other.dev(), other.ino()) == (meta.dev(), meta.ino()),
    }
}

/// File systems such as erofs can mount an image file without a loop device (Linux 6.12).
fn mount_of(root: &Path, meta: &Metadata) -> Option<String> {
    let mounts = files::text(root, "proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let source = unescape(right.split(' ').nth(1)?);
        (source.starts_with('/') && is_same(root, &source, meta))
            .then(|| unescape(left.split(' ').nth(4).unwrap_or("?")))
    });
    mounted.map(|at| format!("mounted at {at}"))
}

fn loop_on(root: &Path, meta: &Metadata, but: &str) -> Option<String> {
    let loops = files::entries(root, "sys/block").into_iter().filter(|name| name.starts_with("loop") && name != but);
    let name = loops.into_iter().find(|name| {
        let Some(path) = files::text(root, format!("sys/block/{name}/loop/backing_file")) else { return false };
        match backing_of(&files::below(root, format!("dev/{name}"))) {
            Some([dev, ino, rdev]) => match meta.file_type().is_block_device() {
                true => rdev == meta.rdev(),
                false => (dev, ino) == (meta.dev(), meta.ino()),
            },
            // If the loop device may not be opened, only its file's name is known.
            None => is_same(root, path.trim_end_matches(" (deleted)"), meta),
        }
    })?;
    let user = user_in(root, &files::below(root, format!("sys/block/{name}"))).map(|user| format!(": {user}"));
    Some(format!("it backs {name}{}", user.unwrap_or_default()))
}

/// Device, inode and device number of a loop device's backing file, as the kernel stores them.
fn backing_of(device: &Path) -> Option<[u64; 3]> {
    let device = File::open(device).ok()?;
    // struct loop_info64 (linux/loop.h) is 232 bytes and begins with these three fields.
    let mut info = [0u64; 29];
    // SAFETY: the call fills one loop_info64; the array has its size and alignment.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as libc::Ioctl, info.as_mut_ptr()) } == 0;
    done.then(|| [info[0], info[1], info[2]])
}

fn swap_on(root: &Path, meta: &Metadata) -> Option<String> {
    let swaps = files::text(root, "proc/swaps").unwrap_or_default();
    let mut paths = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(unescape);
    paths.any(|path| is_same(root, &path, meta)).then(|| "it is swap".into())
}

/// Kernel targets (LIO, nvmet) name the file or device that they export, which no process has open.
const TARGETS: [(&str, &str); 2] = [
    ("sys/kernel/config/target/core/*/*", "udev_path"),
    ("sys/kernel/config/nvmet/subsystems/*/namespaces/*", "device_path"),
];

fn target_of(root: &Path, meta: &Metadata) -> Option<String> {
    let below = |folders: Vec<PathBuf>, step: &str| -> Vec<PathBuf> {
        let each = |folder: PathBuf| match step {
            "*" => files::entries(root, &folder).into_iter().map(|name| folder.join(name)).collect(),
            name => vec![folder.join(name)],
        };
        folders.into_iter().flat_map(each).collect()
    };
    let targets = TARGETS.iter().flat_map(|(folders, file)| {
        let folders = folders.split('/').fold(vec![PathBuf::new()], below);
        folders.into_iter().filter_map(move |f| Some((files::text(root, f.join(file))?, f)))
    });
    let (_, folder) = targets.into_iter().find(|(path, _)| path.starts_with('/') && is_same(root, path, meta))?;
    Some(format!("exported by the target /{}", folder.display()))
}

/// Another process that has a file open for writing, as far as this process may see. Ignored are children that have not
/// called exec yet and so still have this process's descriptors; and an ancestor running the same program, which
/// started this process on its own files.
fn written_by(root: &Path, is_it: impl Fn(&Metadata) -> bool) -> Option<String> {
    let own = std::process::id().to_string();
    let exe = |process: &str| fs::read_link(files::below(root, format!("proc/{process}/exe"))).ok();
    let parent = |process: &String| {
        let status = files::text(root, format!("proc/{process}/status")).unwrap_or_default();
        status.lines().find_map(|line| line.strip_prefix("PPid:").map(|parent| parent.trim().to_owned()))
    };
    let ancestors: Vec<String> = std::iter::successors(Some(own.clone()), parent).skip(1).take(64).collect();
    let is_relative = |process: &String| {
        (ancestors.contains(process) || parent(process).as_ref() == Some(&own)) && exe(process) == exe(&own)
    };
    processes(root).filter(|process| *process != own).find_map(|process| {
        let is_open = |fd: &String| {
            let meta = fs::metadata(files::below(root, format!("proc/{process}/fd/{fd}")));
            meta.is_ok_and(|meta| is_it(&meta)) && may_write(root, &process, fd)
        };
        let is_writer = files::entries(root, format!("proc/{process}/fd")).iter().any(is_open);
        (is_writer && !is_relative(&process)).then(|| {
            let comm = files::text(root, format!("proc/{process}/comm")).unwrap_or_default();
            format!("process {process} ({comm}) has it open for writing")
        })
    })
}

fn may_write(root: &Path, process: &str, fd: &str) -> bool {
    let info = files::text(root, format!("proc/{process}/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    // Access mode: the lower two bits of the last octal digit. Values 0 (O_RDONLY) and 3 do not write.
    flags
        .and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR))
}

/// A process that has the file mapped executable, or shared and writable; its descriptor may be closed. Reading the
/// maps takes 0.1 ms per process.
fn mapped_by(root: &Path, meta: &Metadata) -> Option<String> {
    let device = format!("{:02x}:{:02x}", libc::major(meta.dev()), libc::minor(meta.dev()));
    let use_in = |line: &str| {
        let mut fields = line.splitn(6, ' ');
        let access = fields.nth(1)?;
        let what = match access.as_bytes() {
            [_, _, b'x', _] => "runs code from it",
            [_, b'w', _, b's'] => "has it mapped for writing",
            _ => return None,
        };
        let [dev, inode] = [fields.nth(1), fields.next()].map(Option::unwrap_or_default);
        // btrfs shows another device number here than in stat(2).
        let path = fields.next().unwrap_or_default().trim_start();
        (inode.parse() == Ok(meta.ino()) && (dev == device || is_same(root, path, meta))).then_some(what)
    };
    processes(root).find_map(|process| {
        let maps = fs::read(files::below(root, format!("proc/{process}/maps"))).unwrap_or_default();
        let what = String::from_utf8_lossy(&maps).lines().find_map(use_in)?;
        let comm = files::text(root, format!("proc/{process}/comm")).unwrap_or_default();
        Some(format!("process {process} ({comm}) {what}"))
    })
}

fn processes(root: &Path) -> impl Iterator<Item = String> {
    files::entries(root, "proc").into_iter().filter(|p| p.bytes().all(|b| b.is_ascii_digit()))
}

/// Like [`user_of`], for the device with sysfs directory `dir`, its partitions, and if it is a partition, its whole
/// disk.
pub fn user_in(root: &Path, dir: &Path) -> Option<String> {
    let mounts = files::text(root, "proc/self/mountinfo").unwrap_or_default();
    let swaps = files::text(root, "proc/swaps").unwrap_or_default();
    for folder in with_partitions(dir).into_iter().chain(whole_of(dir)) {
        let (Some(number), Some(name)) = (files::text(&folder, "dev"), name(&folder)) else { continue };
        if let Some(at) = mounted_at(root, &mounts, &number, &name) {
            return Some(format!("mounted at {at}"));
        }
        let mut swaps = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        if swaps.any(|path| names(root, &unescape(path), &number, &name)) {
            return Some(format!("{name} is swap"));
        }
        if let Some(holder) = files::entries(&folder, "holders").first() {
            return Some(format!("held by {holder}"));
        }
    }
    None
}

/// User of a device that [`user_in`] does not show: a claim that makes the kernel reject an exclusive open, such as a
/// mount in another namespace; or a process that has the device open.
pub fn opener_in(root: &Path, dir: &Path) -> Option<String> {
    let nodes: Vec<PathBuf> =
        with_partitions(dir).iter().filter_map(|f| Some(Path::new("/dev").join(name(f)?))).collect();
    for node in &nodes {
        let claimed = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(files::below(root, node));
        if claimed.is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) {
            return Some(format!("{} is claimed by something that this process cannot see", node.display()));
        }
    }
    for process in processes(root) {
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

/// The device's own directory and those of its partitions: subdirectories with a `dev` file.
fn with_partitions(dir: &Path) -> Vec<PathBuf> {
    let partitions = files::entries(dir, "").into_iter().map(|e| dir.join(e)).filter(|p| p.join("dev").is_file());
    std::iter::once(dir.to_owned()).chain(partitions).collect()
}

/// Directory of the whole disk if `dir` is a partition.
fn whole_of(dir: &Path) -> Option<PathBuf> {
    dir.parent().filter(|_| dir.join("partition").is_file()).map(Path::to_owned)
}

fn name(folder: &Path) -> Option<String> {
    Some(folder.file_name()?.to_str()?.to_owned())
}

/// Whether a path refers to the device with this number and sysfs name: `/dev/mapper/x` is a symlink to `/dev/dm-0`.
fn names(root: &Path, path: &str, number: &str, name: &str) -> bool {
    let is_device = |meta: Metadata| is_block(&meta) && number_of(&meta) == number;
    path.strip_prefix("/dev/").is_some_and(|n| n == name) || fs::metadata(files::below(root, path)).is_ok_and(is_device)
}

/// Mount point of the device in mountinfo (proc_pid_mountinfo(5)), found by number, or by path because btrfs shows
/// other numbers.
fn mounted_at(root: &Path, mountinfo: &str, number: &str, name: &str) -> Option<String> {
    mountinfo.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(2);
        let same = left.next()? == number;
        let at = left.nth(1)?;
        let source = unescape(right.split(' ').nth(1)?);
        (same || source.starts_with("/dev/") && names(root, &source, number, name)).then(|| unescape(at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

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
    fn mounted_swap_and_claimed_devices_are_in_use() {
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
    fn a_partition_is_in_use_if_its_disk_is_but_not_if_a_sibling_is() {
        let of = |t: &Tree| user_in(t.root(), &t.root().join("sys/block/vdb/vdb1"));
        let disk = || disk().file("sys/block/vdb/vdb1/partition", "1").file("sys/block/vdb/vdb2/dev", "254:18");
        let mounts = |number: &str| format!("21 1 {number} / /mnt rw - ext4 /dev/root rw\n");
        assert_eq!(of(&disk().file("proc/self/mountinfo", &mounts("254:18"))), None);
        assert_eq!(of(&disk().file("proc/self/mountinfo", &mounts("254:16"))).as_deref(), Some("mounted at /mnt"));
        assert_eq!(of(&disk().dir("sys/block/vdb/holders/md0")).as_deref(), Some("held by md0"));
    }

    #[test]
    fn the_user_of_a_backing_file_is_found_by_its_inode() {
        let t = Tree::new().file("data/image", "x").file("data/other", "y").dir("proc/77");
        std::fs::hard_link(t.root().join("data/image"), t.root().join("data/link")).unwrap();
        let meta = |name: &str| std::fs::metadata(t.root().join("data").join(name)).unwrap();
        let (image, other) = (meta("link"), meta("other"));
        let t = t.file("sys/block/loop3/loop/backing_file", "/data/image\n").file("sys/block/loop3/dev", "7:3");
        assert_eq!(loop_on(t.root(), &image, "").as_deref(), Some("it backs loop3"));
        assert_eq!(loop_on(t.root(), &other, ""), None);
        let mounts = "21 1 7:3 / /mnt rw - ext4 /dev/loop3 rw\n22 1 0:9 / /ro ro - erofs /data/image ro\n";
        let t = t.file("proc/self/mountinfo", mounts);
        assert_eq!(loop_on(t.root(), &image, "").as_deref(), Some("it backs loop3: mounted at /mnt"));
        assert_eq!(mount_of(t.root(), &image).as_deref(), Some("mounted at /ro"));
        let t = t.file("proc/swaps", "Filename Type Size Used Priority\n/data/image file 100 0 -2\n");
        // A second loop device also endangers the mount, and so does swap below it.
        let below = |t: &Tree, name: &str| user_below(t.root(), &t.root().join("sys/block").join(name));
        let t = t.dir("sys/block/loop4").file("sys/block/loop4/loop/backing_file", "/data/image\n");
        let mounted = "its backing file /data/image: mounted at /ro";
        assert_eq!(below(&t, "loop4").as_deref(), Some(mounted));
        let t = t.file("proc/self/mountinfo", "21 1 7:3 / /mnt rw - ext4 /dev/loop3 rw\n");
        let backs = "its backing file /data/image: it backs loop3: mounted at /mnt";
        assert_eq!(below(&t, "loop4").as_deref(), Some(backs));
        let t = t.file("sys/block/loop3/loop/backing_file", "/data/other\n");
        assert_eq!(below(&t, "loop4").as_deref(), Some("its backing file /data/image: it is swap"));
        let t = t.file("sys/block/loop3/loop/backing_file", "/data/image\n");
        assert_eq!((swap_on(t.root(), &image).as_deref(), swap_on(t.root(), &other)), (Some("it is swap"), None));
        let (dev, inode) = (image.dev(), image.ino());
        let line =
            format!("7f00-7f01 r-xp 00000000 {:02x}:{:02x} {inode}   /gone\n", libc::major(dev), libc::minor(dev));
        let t = t.file("proc/77/maps", &line).file("proc/77/comm", "db\n");
        assert_eq!(mapped_by(t.root(), &image).as_deref(), Some("process 77 (db) runs code from it"));
        assert_eq!(mapped_by(t.root(), &other), None);
        // The descriptor is closed.
        let t = t.file("proc/77/maps", &line.replace("r-xp", "rw-s"));
        assert_eq!(mapped_by(t.root(), &image).as_deref(), Some("process 77 (db) has it mapped for writing"));
        let t = t.file("proc/77/maps", &line.replace("r-xp", "rw-p"));
        assert_eq!(mapped_by(t.root(), &image), None, "a private mapping writes nothing");
        let target = "sys/kernel/config/target/core";
        let t = t.file(&format!("{target}/iblock_1/other/udev_path"), "/data/nothing\n");
        let t =
            t.file(&format!("{target}/fileio_0/disk/udev_path"), "/data/image\n").file(&format!("{target}/alua/x"), "");
        let exported = target_of(t.root(), &image);
        assert_eq!(exported.as_deref(), Some("exported by the target /sys/kernel/config/target/core/fileio_0/disk"));
        assert_eq!(target_of(t.root(), &other), None);
    }

    #[test]
    fn a_file_that_another_process_may_write_to_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        fs::write(&path, "x").unwrap();
        let meta = fs::metadata(&path).unwrap();
        let holder = |access: &str| {
            let line = format!("exec sleep 60 {access}{}", path.display());
            let mut child = std::process::Command::new("sh").args(["-c", &line]).spawn().unwrap();
            let pid = child.id();
            while fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim() != "sleep" {
                std::thread::yield_now();
            }
            let user = user_of(&meta);
            child.kill().unwrap();
            child.wait().unwrap();
            (user, format!("process {pid} (sleep) has it open for writing"))
        };
        assert_eq!(holder("<").0, None);
        for access in [">>", "<>"] {
            let (user, expected) = holder(access);
            assert_eq!(user, Some(expected));
        }
    }

    #[test]
    fn a_device_open_in_a_process_is_reported() {
        let t = disk().file("proc/77/comm", "postgres\n").dir("proc/77/fd");
        let dir = t.root().join("sys/block/vdb");
        assert_eq!(opener_in(t.root(), &dir), None);
        std::os::unix::fs::symlink("/dev/vdb1", t.root().join("proc/77/fd/3")).unwrap();
        assert_eq!(opener_in(t.root(), &dir).as_deref(), Some("/dev/vdb1 is open in process 77 (postgres)"));
    }

    #[test]
    fn the_device_of_the_root_file_system_is_in_use() {
        let place = super::super::locate::place(Path::new("/")).unwrap();
        let root = Path::new(files::ROOT);
        for disk in super::super::locate::disks(root, &place).disks {
            assert!(disk.dirs.iter().any(|d| user_in(root, d).is_some()), "{disk:?}");
        }
    }
}
