//! Block devices: claimed for writing, and how large they are.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use linux_raw_sys::ioctl::BLKGETSIZE64;
use rustix::fs::ioctl_blksszget;
use rustix::ioctl::{Getter, ioctl};

use iotrail_base::error::{Error, Result};
use iotrail_host::block::usage::user_of;

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
        Err(e) => Err(super::refusal::cannot("open", path, e)),
    }
}

/// Bytes of the open device.
pub fn bytes(device: &File) -> io::Result<u64> {
    // SAFETY: it writes one u64.
    Ok(unsafe { ioctl(device, Getter::<BLKGETSIZE64, u64>::new()) }?)
}

/// Bytes of a logical block of the open device.
pub fn block_bytes(device: &File) -> io::Result<u32> {
    Ok(ioctl_blksszget(device)?)
}
