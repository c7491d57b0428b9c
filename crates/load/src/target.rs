//! What the load runs against: opened once for each job, checked, and where it is missing made (`layout.rs`).
//!
//! A file that we made stays after a load that ran, so that the next one reuses it. An existing file is only read, unless writing is allowed; a device that is mounted or held is never written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use iotrail_base::error::{Error, Result};
use iotrail_schema::measurement::Warning;

use super::Progress;
use super::buffers::PAGE;
use super::device;
use super::drive;
use super::extents;
use super::layout::{self, Identity};
use super::options::{EngineKind, Rw};
use super::spec::LoadSpec;

/// A target that is ready to be used by every job.
pub struct Target {
    /// One descriptor per job; empty for a load without a target.
    fds: Vec<OwnedFd>,
    /// Keeps a block device from being mounted while we write to it.
    _claim: Option<File>,
    /// Of a target that is not reached through files.
    pub passage: Option<drive::Passage>,
    /// The part that is used.
    pub bytes: u64,
    pub warnings: Vec<Warning>,
}

impl Target {
    /// Opens the target of `spec`, and makes it if it is missing and a size is given.
    ///
    /// Errors (input): missing without a size, a directory, smaller than a block or than the size asked for, writing
    /// without leave, a mounted device, a block size that the device cannot do. Errors (machine): no permission, no
    /// room, no O_DIRECT.
    pub fn open(spec: &LoadSpec, progress: &mut dyn FnMut(Progress), stop: &AtomicBool) -> Result<Self> {
        let Some(path) = &spec.file else {
            return Ok(Self { fds: Vec::new(), _claim: None, passage: None, bytes: 0, warnings: Vec::new() });
        };
        match spec.engine {
            EngineKind::IoUringCmd => return drive::generic(spec, path),
            EngineKind::NvmeUser => return drive::own(spec, path),
            _ => {}
        }
        let mut warnings = Vec::new();
        let made = match std::fs::metadata(path) {
            Ok(_) => None,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Some(layout::make(spec, path, progress, stop)?),
            Err(e) => return Err(cannot("look at", path, e)),
        };
        let opened = Self::open_existing(spec, path, made, &mut warnings);
        if opened.is_err() && made.is_some() {
            // It cannot be used after all (too few file descriptors for the jobs, say).
            layout::remove(path);
        }
        opened
    }

    fn open_existing(
        spec: &LoadSpec,
        path: &Path,
        made: Option<Identity>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self> {
        let name = path.display();
        let kind = std::fs::metadata(path).map_err(|e| cannot("look at", path, e))?.file_type();
        if kind.is_dir() {
            return Err(Error::input(
                format!("{name} is a directory"),
                "name a file in it, with --size to have it made",
            ));
        }
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Error::input(
                format!("{name} is neither a file nor a block device"),
                match drive::is_generic(path) {
                    true => "use --engine io_uring_cmd, or name one with --file",
                    false => "name one with --file",
                },
            ));
        }
        if made.is_none() {
            check_leave(spec, path)?;
        }
        let claim = if kind.is_block_device() && spec.writes() { Some(device::claim(path)?) } else { None };
        // What was made is written without leave: nothing that somebody has put in its place meanwhile.
        let open = || {
            let file = open_file(spec, path)?;
            match made {
                Some(made) if layout::identity(&file).map_err(|e| cannot("look at", path, e))? != made => Err(
                    Error::disturbed(format!("{name} was replaced while it was opened"), "use a folder of your own"),
                ),
                _ => Ok(file),
            }
        };
        let first = open()?;
        let has = size(&first, kind.is_block_device()).map_err(|e| cannot("tell the size of", path, e))?;
        let bytes = usable(spec, path, has)?;
        if spec.direct {
            check_alignment(spec, path, &first, kind.is_block_device())?;
        }
        if kind.is_file() && matches!(spec.rw, Rw::Read | Rw::RandRead | Rw::RandRw) {
            warnings.extend(extents::warn_of_holes(&first, bytes));
        }
        if spec.direct && spec.allow_write && kind.is_file() {
            settle(spec, &first).map_err(|e| cannot("write back", path, e))?;
        }
        let mut fds = vec![OwnedFd::from(first)];
        while fds.len() < spec.jobs as usize {
            fds.push(open()?.into());
        }
        Ok(Self { fds, _claim: claim, passage: None, bytes, warnings: std::mem::take(warnings) })
    }

    /// A target that is not reached through files; `fds`: one per job, or none.
    pub(super) fn past_files(passage: drive::Passage, fds: Vec<OwnedFd>, claim: Option<File>, bytes: u64) -> Self {
        Self { fds, _claim: claim, passage: Some(passage), bytes, warnings: Vec::new() }
    }

    /// The descriptor of a job.
    pub fn fd(&self, job: u32) -> Option<RawFd> {
        self.fds.get(job as usize).map(AsRawFd::as_raw_fd)
    }
}

/// What exists is written with leave alone.
pub fn check_leave(spec: &LoadSpec, path: &Path) -> Result<()> {
    if !spec.writes() || spec.allow_write {
        return Ok(());
    }
    Err(Error::input(
        format!("--rw {} would overwrite {}, which exists", spec.rw, path.display()),
        match spec.engine.is_past_files() {
            true => "add --allow-write to destroy its contents",
            false => "add --allow-write to destroy its contents, or name a file that does not exist, with --size",
        },
    ))
}

/// What loads before this one left of a file in the page cache: direct I/O would wait for dirty pages to be written, and direct
/// writes have to drop all that lie in their way. The first I/Os would pay for that, in place of the load that made them.
fn settle(spec: &LoadSpec, file: &File) -> io::Result<()> {
    file.sync_data()?;
    if spec.writes() {
        // SAFETY: a live descriptor; the call changes no memory.
        let error = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    Ok(())
}

pub fn cannot(what: &str, path: &Path, e: io::Error) -> Error {
    let what = format!("cannot {what} {}", path.display());
    match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            Error::machine(what, "run as a user who may, or choose another --file").because(e)
        }
        Some(libc::EMFILE) => {
            Error::machine(what, "raise the limit of open files (ulimit -n), or use fewer --jobs").because(e)
        }
        Some(libc::EROFS) => Error::machine(what, "choose a --file on a file system that can be written").because(e),
        Some(libc::ENOSPC | libc::EDQUOT) => {
            Error::machine(what, "make room there, use a smaller --size, or choose another --file").because(e)
        }
        Some(libc::EFBIG) => Error::machine(what, "use a smaller --size, or choose another --file").because(e),
        Some(libc::ENOENT | libc::ENOTDIR) => Error::input(what, "see that its folder exists").because(e),
        Some(libc::ELOOP | libc::ENAMETOOLONG) => Error::input(what, "name a file that can be there").because(e),
        _ => Error::machine(what, "choose another --file").because(e),
    }
}

fn open_file(spec: &LoadSpec, path: &Path) -> Result<File> {
    let flags = libc::O_CLOEXEC | if spec.direct { libc::O_DIRECT } else { 0 };
    let reads = !matches!(spec.rw, Rw::Write | Rw::RandWrite);
    let open = |flags| OpenOptions::new().read(reads).write(spec.writes()).custom_flags(flags).open(path);
    // A read load must not write access times. Only the owner and root may ask for that; for others it makes no
    // difference to what is measured but a check of 1 to 2 % of a cached read.
    let opened = match open(flags | libc::O_NOATIME) {
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => open(flags),
        other => other,
    };
    match opened {
        Ok(file) => Ok(file),
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) && spec.direct => Err(no_direct(path)),
        Err(e) => Err(cannot("open", path, e)),
    }
}

pub fn no_direct(path: &Path) -> Error {
    Error::machine(
        format!("the file system of {} has no direct I/O (O_DIRECT)", path.display()),
        "add --buffered, or choose a --file on another file system",
    )
}

fn size(file: &File, device: bool) -> io::Result<u64> {
    if device { device::bytes(file) } else { Ok(file.metadata()?.len()) }
}

/// The bytes to be used, checked against what there is.
pub fn usable(spec: &LoadSpec, path: &Path, has: u64) -> Result<u64> {
    let name = path.display();
    let block = u64::from(spec.block_bytes);
    let bytes = match spec.size {
        Some(asked) if asked > has => {
            return Err(Error::input(
                format!("{name} has {has} bytes, not the {asked} of --size"),
                "use a smaller --size, or remove the file to have it made",
            ));
        }
        Some(asked) => asked,
        None => has,
    };
    if bytes < block {
        return Err(Error::input(
            format!("{name} has {bytes} bytes to use, less than one block of {block}"),
            "use a smaller --bs, or a larger file",
        ));
    }
    let blocks = bytes / block;
    let apart = spec.verify || matches!(spec.rw, Rw::Read | Rw::Write);
    // A verified job never has two I/Os on one block, so it needs more blocks than it has I/Os in flight.
    let needed = u64::from(spec.jobs) * if spec.verify { u64::from(spec.depth) + 1 } else { 1 };
    if apart && blocks < needed {
        return Err(Error::input(
            format!("{name} has {blocks} blocks, and this load needs {needed}: each job works on its own share"),
            "use a larger file, a smaller --bs, or fewer --jobs or a smaller --depth",
        ));
    }
    Ok(bytes)
}

/// O_DIRECT needs whole logical blocks, and memory aligned to what the device asks for.
pub fn check_alignment(spec: &LoadSpec, path: &Path, file: &File, device: bool) -> Result<()> {
    let (memory, offset) = match direct_alignment(file) {
        Some(a) => a,
        None if device => {
            let bytes = device::block_bytes(file).map_err(|e| cannot("tell the block size of", path, e))?;
            (bytes, bytes)
        }
        None => return Ok(()), // a kernel before 6.1: the first I/O will tell
    };
    if offset == 0 {
        return Err(no_direct(path));
    }
    if !spec.block_bytes.is_multiple_of(offset) {
        return Err(Error::input(
            format!(
                "--bs {} is not a multiple of the {offset}-byte logical blocks of {}, as direct I/O needs",
                spec.block_bytes,
                path.display()
            ),
            format!("use --bs {}, or --buffered", spec.block_bytes.next_multiple_of(offset)),
        ));
    }
    if memory as usize > PAGE {
        return Err(Error::machine(
            format!("{} wants direct I/O from memory aligned to {memory} bytes", path.display()),
            "use --buffered",
        ));
    }
    Ok(())
}

/// Alignment of memory and of offsets and lengths for O_DIRECT (statx STATX_DIOALIGN, Linux 6.1); 0: no direct I/O;
/// `None`: the kernel or the file system does not tell.
fn direct_alignment(file: &File) -> Option<(u32, u32)> {
    // SAFETY: a plain C structure, valid when all zero.
    let mut s: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: a live descriptor, an empty name (which means that descriptor) and a live structure.
    let done =
        unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &mut s) };
    (done == 0 && s.stx_mask & libc::STATX_DIOALIGN != 0).then_some((s.stx_dio_mem_align, s.stx_dio_offset_align))
}
