//! Block devices: claiming them for writes, and their sizes.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use linux_raw_sys::ioctl::BLKGETSIZE64;
use rustix::fs::ioctl_blksszget;
use rustix::ioctl::{Getter, ioctl};

use iotrail_base::error::{Error, Result};
use iotrail_host::block::usage::user_of;

/// Rejects writes to a file or block device in use by a mount, swap, a loop device, another layer or a running program.
pub fn refuse_used(path: &Path, meta: &Metadata) -> Result<()> {
    // Some kernels reject the open itself with EPERM, so look for a user first.
    user_of(meta).map_or(Ok(()), |by| Err(in_use(path, &by)))
}

fn in_use(path: &Path, by: &str) -> Error {
    Error::input(
        format!("{} is in use ({by}); a write load would overwrite it", path.display()),
        "unmount or release it first, or choose another device or a file",
    )
}

/// Claims a block device for writing until the file is closed. Fails if it is in use.
pub fn claim(path: &Path) -> Result<File> {
    refuse_used(path, &fs::metadata(path).map_err(|e| super::refusal::cannot("access", path, e))?)?;
    match OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL | libc::O_CLOEXEC).open(path) {
        Ok(file) => Ok(file),
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Err(in_use(path, "the kernel does not report the user")),
        Err(e) => Err(super::refusal::cannot("open", path, e)),
    }
}

/// Size of an open device in bytes.
pub fn bytes(device: &File) -> io::Result<u64> {
    // SAFETY: it writes one u64.
    Ok(unsafe { ioctl(device, Getter::<BLKGETSIZE64, u64>::new()) }?)
}

/// Logical block size of an open device in bytes.
pub fn block_bytes(device: &File) -> io::Result<u32> {
    Ok(ioctl_blksszget(device)?)
}
