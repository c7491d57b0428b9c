//! Block devices: claimed for writing, and how large they are.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use linux_raw_sys::ioctl;

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
