//! Block devices: whose they are at present, and how large.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use linux_raw_sys::ioctl;

use crate::error::{Error, Result};

/// Claims a block device for writing, for as long as the file is open. Refused if it or a partition of it is mounted,
/// or held by RAID, a volume group or swap.
pub fn claim(path: &Path) -> Result<File> {
    let in_use = |by: String| {
        Error::input(
            format!("{} is in use ({by}); a write load would destroy it", path.display()),
            "unmount or release it first, or choose another device or a file",
        )
    };
    // Looked up first, since some kernels refuse the open with EPERM and not with what the matter is.
    if let Some(by) = user_of(path) {
        return Err(in_use(by));
    }
    match OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL | libc::O_CLOEXEC).open(path) {
        Ok(file) => Ok(file),
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Err(in_use("the kernel does not say by whom".into())),
        Err(e) => Err(super::target::cannot("open", path, e)),
    }
}

/// What uses the device or a partition of it; `None` where nothing is found.
fn user_of(path: &Path) -> Option<String> {
    let rdev = std::fs::metadata(path).ok()?.rdev();
    let own = format!("{}:{}", libc::major(rdev), libc::minor(rdev));
    let folder = Path::new("/sys/dev/block").join(&own);
    let mut devices = vec![(own, folder.clone())];
    // Partitions are folders of the disk's that have a `dev` of their own.
    for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        if let Ok(dev) = std::fs::read_to_string(entry.path().join("dev")) {
            devices.push((dev.trim().to_string(), entry.path()));
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok();
    for (number, folder) in devices {
        if let Some(at) = mounts.as_deref().and_then(|m| mounted_at(m, &number)) {
            return Some(format!("mounted at {at}"));
        }
        if let Some(holder) = std::fs::read_dir(folder.join("holders")).ok().and_then(|mut d| d.next()?.ok()) {
            return Some(format!("held by {}", holder.file_name().display()));
        }
    }
    None
}

/// Where mountinfo (proc_pid_mountinfo(5)) says that the device `major:minor` is mounted.
fn mounted_at<'a>(mountinfo: &'a str, number: &str) -> Option<&'a str> {
    mountinfo.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        (fields.next()? == number).then(|| fields.nth(1))?
    })
}

/// Bytes of the open device.
pub fn bytes(device: &File) -> io::Result<u64> {
    let mut bytes = 0u64;
    // SAFETY: BLKGETSIZE64 writes one u64.
    match unsafe { libc::ioctl(device.as_raw_fd(), ioctl::BLKGETSIZE64.into(), &mut bytes) } {
        0 => Ok(bytes),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes of a logical block of the open device.
pub fn block_bytes(device: &File) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: BLKSSZGET writes one int.
    match unsafe { libc::ioctl(device.as_raw_fd(), ioctl::BLKSSZGET.into(), &mut bytes) } {
        0 => u32::try_from(bytes).map_err(io::Error::other),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_names_the_mount_point() {
        let info = "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n22 21 0:5 / /dev rw - devtmpfs devtmpfs rw\n";
        assert_eq!(mounted_at(info, "254:0"), Some("/"));
        assert_eq!(mounted_at(info, "0:5"), Some("/dev"));
        assert_eq!(mounted_at(info, "254:1"), None);
    }
}
