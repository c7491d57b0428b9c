//! The load's target: opened once per job, checked, and created if missing (`layout.rs`).
//!
//! A file created by this process stays after a load that ran, so that the next load reuses it. An existing file is
//! only read, unless writes are allowed. A file or device in use (by a mount, swap, a loop device, a running program)
//! is never written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::engine::Passage;
use crate::engine::capabilities::TargetKind;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_schema::measurement::Warning;

use super::Progress;
use super::alignment::check_alignment;
use super::device;
use super::drive;
use super::extents;
use super::layout::{self, Identity};
use super::options::Rw;
use super::refusal::{cannot, check_leave, no_direct, usable};
use super::spec::LoadSpec;

/// A target that is ready for use by every job.
#[derive(Default)]
pub struct Target {
    /// One descriptor per job; empty for a load without a target.
    fds: Vec<OwnedFd>,
    /// Files that are appended to; removed at the end.
    appended: Vec<PathBuf>,
    /// Prevents mounts of a block device while the load writes.
    _claim: Option<File>,
    /// For a target without files.
    pub passage: Option<Passage>,
    /// Size of the used part.
    pub bytes: u64,
    pub warnings: Vec<Warning>,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.appended.iter().for_each(|path| layout::remove(path));
    }
}

impl Target {
    /// Opens the target of `spec`, and creates it if it is missing and a size is specified.
    ///
    /// Usage errors: missing without a size, a directory, smaller than a block or than the requested size, writes
    /// without `--allow-write`, a target in use, an unsupported block size. Machine errors: no permission, a full disk,
    /// no O_DIRECT.
    pub fn open(spec: &LoadSpec, progress: &mut dyn FnMut(Progress), stop: &AtomicBool) -> Result<Self> {
        let Some(path) = &spec.file else {
            return Ok(Self::default());
        };
        match spec.engine.engine().target {
            TargetKind::Generic => return drive::generic(spec, path).map(Self::past_files),
            TargetKind::Drive => return drive::own(spec, path).map(Self::past_files),
            TargetKind::Nothing | TargetKind::File => {}
        }
        if spec.rw == Rw::Append {
            return Self::of_appended(spec, path);
        }
        let mut warnings = Vec::new();
        let made = match std::fs::metadata(path) {
            Ok(_) => None,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Some(layout::make(spec, path, progress, stop)?),
            Err(e) => return Err(cannot("access", path, e)),
        };
        let opened = Self::open_existing(spec, path, made, &mut warnings);
        if opened.is_err() && made.is_some() {
            // The new file turned out to be unusable (for example, too few file descriptors for the jobs).
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
        let meta = std::fs::metadata(path).map_err(|e| cannot("access", path, e))?;
        let kind = meta.file_type();
        if kind.is_dir() {
            return Err(Error::input(
                format!("{name} is a directory"),
                "specify a file in it, with --size to create it",
            ));
        }
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Error::input(
                format!("{name} is neither a file nor a block device"),
                match drive::is_generic(path) {
                    true => "use --engine io_uring_cmd, or specify one with --file",
                    false => "specify one with --file",
                },
            ));
        }
        if made.is_none() {
            if !layout::is_ours(path) {
                check_leave(spec, path)?;
            }
            if spec.writes() {
                device::refuse_used(path, &meta)?;
            }
        }
        let claim = if kind.is_block_device() && spec.writes() { Some(device::claim(path)?) } else { None };
        // Another process may have replaced the created or checked file.
        let checked = made.unwrap_or((meta.dev(), meta.ino()));
        let open = || {
            let file = open_file(spec, path)?;
            match layout::identity(&file).map_err(|e| cannot("access", path, e))? {
                opened if opened == checked => Ok(file),
                _ => Err(Error::disturbed(
                    format!("{name} was replaced while being opened"),
                    "use a directory that other users cannot write to",
                )),
            }
        };
        let first = open()?;
        let has = size(&first, kind.is_block_device()).map_err(|e| cannot("read the size of", path, e))?;
        let bytes = usable(spec, path, has)?;
        if spec.direct {
            check_alignment(spec, path, &first, kind.is_block_device())?;
        }
        if kind.is_file() && matches!(spec.rw, Rw::Read | Rw::RandRead | Rw::RandRw) {
            warnings.extend(extents::warn_of_holes(&first, bytes));
        }
        if spec.direct && kind.is_file() && (spec.allow_write || layout::is_ours(path)) {
            settle(spec, &first).map_err(|e| cannot("write back", path, e))?;
        }
        let mut fds = vec![OwnedFd::from(first)];
        while fds.len() < spec.jobs as usize {
            fds.push(open()?.into());
        }
        let warnings = std::mem::take(warnings);
        Ok(Self { fds, appended: Vec::new(), _claim: claim, passage: None, bytes, warnings })
    }

    /// A new file per job, `PATH.append-JOB`, removed when the load ends.
    fn of_appended(spec: &LoadSpec, path: &Path) -> Result<Self> {
        let (block, jobs) = (u64::from(spec.block_bytes), u64::from(spec.jobs));
        let bytes = spec.size.or_input("--rw append needs a --size", "add --size, which limits the appended data")?;
        // The warm-up uses half of it.
        let most = bytes / block / jobs / 2;
        let wanted = spec.end.ios().map_or(1, |n| n.div_ceil(jobs));
        if wanted > most {
            return Err(Error::input(
                format!(
                    "--size {bytes} has space for {most} measured appends of {block} bytes per job, but {wanted} are needed"
                ),
                "use a larger --size, which limits the appended data",
            ));
        }
        let mut target =
            Self { fds: Vec::new(), appended: Vec::new(), _claim: None, passage: None, bytes, warnings: Vec::new() };
        for job in 0..spec.jobs {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".append-{job}"));
            let name = PathBuf::from(name);
            let flags = libc::O_CLOEXEC | if spec.direct { libc::O_DIRECT } else { 0 };
            let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(flags).open(&name);
            let file = opened.map_err(|e| match e.raw_os_error() {
                Some(libc::EEXIST) => Error::input(
                    format!("{} exists: another load is appending to it, or was killed", name.display()),
                    "remove it, or specify another --file",
                ),
                Some(libc::EINVAL) if spec.direct => no_direct(&name),
                _ => cannot("create", &name, e),
            })?;
            target.appended.push(name);
            if spec.direct {
                check_alignment(spec, path, &file, false)?;
            }
            target.fds.push(file.into());
        }
        Ok(target)
    }

    fn past_files(drive: drive::Opened) -> Self {
        let drive::Opened { passage, fds, claim, bytes } = drive;
        Self { fds, appended: Vec::new(), _claim: claim, passage: Some(passage), bytes, warnings: Vec::new() }
    }

    /// A job's descriptor.
    pub fn fd(&self, job: u32) -> Option<RawFd> {
        self.fds.get(job as usize).map(AsRawFd::as_raw_fd)
    }
}

/// Drops data of earlier loads from the page cache: direct I/O would have to wait for writeback of dirty pages, and
/// direct writes would have to invalidate cached pages, so the first I/Os would include the cost of earlier loads.
fn settle(spec: &LoadSpec, file: &File) -> io::Result<()> {
    file.sync_data()?;
    if spec.writes() {
        // SAFETY: a live descriptor; the call does not modify memory.
        let error = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    Ok(())
}

fn open_file(spec: &LoadSpec, path: &Path) -> Result<File> {
    let flags = libc::O_CLOEXEC | if spec.direct { libc::O_DIRECT } else { 0 };
    let reads = !spec.rw.only_writes();
    let open = |flags| OpenOptions::new().read(reads).write(spec.writes()).custom_flags(flags).open(path);
    // Reads must not update access times. Only the owner and root may request this; for others, the only effect is a
    // check that costs 1 to 2 % of a cached read.
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

fn size(file: &File, device: bool) -> io::Result<u64> {
    if device { device::bytes(file) } else { Ok(file.metadata()?.len()) }
}
