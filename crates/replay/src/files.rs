//! A program's files: checked, copied if they are written, opened.
//!
//! Recorded files are only opened for reading. Writes go to a copy in the scratch directory, or to the file specified
//! by `--map`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, statvfs};

use crate::program::{Program, ProgramFile};
use iotrail_base::error::{Error, Result};
use iotrail_base::words::{bytes, list};
use iotrail_load::device;
use iotrail_stats::random::SplitMix64;

/// Locations of files, and permissions to write to them.
pub struct Places<'a> {
    /// The user's OLD=NEW pairs: a file, or a directory including everything below it.
    pub maps: &'a [(PathBuf, PathBuf)],
    /// Whether an existing NEW may be overwritten.
    pub allow_write: bool,
    /// Returns a directory for a copy of this many bytes; called only if a copy is needed.
    pub scratch: &'a dyn Fn(u64) -> Result<PathBuf>,
}

/// The open files. Copies are removed on drop.
pub struct Files {
    /// Indexed by the program's file numbers; `None` if nothing uses the file.
    open: Vec<Option<File>>,
    /// The recorded path, and the path that is used.
    targets: Vec<(PathBuf, PathBuf)>,
    copies: Vec<Copied>,
    _claims: Vec<File>,
    /// Recorded files that no longer exist and were replaced; only possible if they are not read.
    pub replaced: Vec<PathBuf>,
}

struct Copied {
    path: PathBuf,
    file: File,
    size: u64,
}

/// How a path's file is used, over all file numbers with that path.
#[derive(Default)]
struct Use {
    size: u64,
    read_to: u64,
    written_to: Option<u64>,
    direct: bool,
}

impl Use {
    fn end(&self) -> u64 {
        self.size.max(self.read_to).max(self.written_to.unwrap_or(0))
    }
}

impl Files {
    /// Checks all files before copying any. Usage errors: files are missing or too short, or a file must not be
    /// overwritten. Machine error: not enough space.
    pub fn prepare(program: &Program, places: &Places<'_>, stop: &AtomicBool) -> Result<Self> {
        let mut uses: BTreeMap<&Path, Use> = BTreeMap::new();
        for file in program.files.iter().filter(|f| f.uses > 0) {
            let all = uses.entry(&file.path).or_default();
            all.size = all.size.max(file.size);
            all.read_to = all.read_to.max(file.read_to);
            all.written_to = all.written_to.max(file.written_to);
            all.direct |= file.open_flags & libc::O_DIRECT != 0;
        }
        if let Some((old, _)) = places.maps.iter().find(|(old, _)| !uses.keys().any(|path| path.starts_with(old))) {
            let names: Vec<String> = uses.keys().take(MOST_NAMED).map(|path| path.display().to_string()).collect();
            return Err(Error::input(
                format!("--map {}=…: the recording does not use this file", old.display()),
                format!("specify one of these: {}", list(&names)),
            ));
        }
        let recorded: BTreeSet<(u64, u64)> =
            uses.keys().filter_map(|path| std::fs::metadata(path).ok()).map(|m| (m.dev(), m.ino())).collect();
        let mut targets: BTreeMap<&Path, PathBuf> = BTreeMap::new();
        let mut to_copy: Vec<(&Path, &Use)> = Vec::new();
        let (mut faults, mut claims) = (Vec::new(), Vec::new());
        for (path, all) in &uses {
            let target = mapped(path, places.maps);
            match (&target, all.written_to) {
                (Some(new), Some(_)) if new.exists() => claims.extend(may_be_written(new, places, &recorded)?),
                (_, Some(_)) => {
                    // A missing file is replaced; its contents are not in the recording anyway.
                    match std::fs::metadata(path) {
                        Ok(m) if m.file_type().is_block_device() => {
                            faults.push(format!("{} is a block device that the recording writes", path.display()));
                        }
                        Ok(_) => faults.extend(unreadable(path, all)),
                        Err(_) => {}
                    }
                    to_copy.push((path, all));
                }
                (_, None) => faults.extend(unreadable(target.as_deref().unwrap_or(path), all)),
            }
            targets.insert(path, target.unwrap_or_else(|| path.to_path_buf()));
        }
        if !faults.is_empty() {
            let more = faults.len().saturating_sub(MOST_NAMED);
            faults.truncate(MOST_NAMED);
            if more > 0 {
                faults.push(format!("{more} more"));
            }
            return Err(Error::input(
                format!("cannot replay on these files: {}", list(&faults)),
                "restore them, or specify others with --map OLD=NEW",
            ));
        }
        let mut files =
            Self { open: Vec::new(), targets: Vec::new(), copies: Vec::new(), _claims: claims, replaced: Vec::new() };
        let mut needed: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for (at, (path, all)) in to_copy.iter().enumerate() {
            if targets[path] == **path {
                let folder = (places.scratch)(all.end())?;
                targets.insert(path, folder.join(format!("replay-{}-{at}", std::process::id())));
            }
            let folder = targets[path].parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
            *needed.entry(folder).or_default() += all.end();
        }
        for (folder, needed) in &needed {
            check_space(folder, *needed)?;
        }
        for (path, all) in to_copy {
            files.copy(path, &targets[path], all, stop)?;
        }
        for file in &program.files {
            let target = targets.get(file.path.as_path()).filter(|_| file.uses > 0);
            let writes = uses.get(file.path.as_path()).is_some_and(|all| all.written_to.is_some());
            files.open.push(target.map(|target| open(target, file, writes)).transpose()?);
        }
        files.targets = targets.into_iter().map(|(path, target)| (path.to_path_buf(), target)).collect();
        Ok(files)
    }

    /// Each recorded path in use, with the path of the file that replaces it.
    pub fn targets(&self) -> &[(PathBuf, PathBuf)] {
        &self.targets
    }

    /// Descriptors indexed by the program's file numbers; -1 if nothing uses the file.
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.open.iter().map(|file| file.as_ref().map_or(-1, |f| f.as_raw_fd())).collect()
    }

    /// Resets the copies to their recorded sizes, so that each replay starts from the same state.
    pub fn reset(&self) -> Result<()> {
        for copy in &self.copies {
            let is_other = copy.file.metadata().is_ok_and(|m| m.len() != copy.size);
            if is_other {
                copy.file.set_len(copy.size).map_err(|e| refused(&copy.path, e))?;
            }
        }
        Ok(())
    }

    /// Whether any file was copied.
    pub fn has_copies(&self) -> bool {
        !self.copies.is_empty()
    }

    fn copy(&mut self, from: &Path, to: &Path, all: &Use, stop: &AtomicBool) -> Result<()> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(to);
        let file = file.map_err(|e| refused(to, e))?;
        self.copies.push(Copied { path: to.to_owned(), file, size: all.size });
        let Some(Copied { file, size, .. }) = self.copies.last_mut() else { return Ok(()) };
        if all.end() > 0 {
            // On file systems without fallocate (NFS), only the free space is checked.
            match fallocate(&*file, FallocateFlags::KEEP_SIZE, 0, all.end()) {
                Err(e) if e != rustix::io::Errno::OPNOTSUPP => return Err(refused(to, e.into())),
                _ => {}
            }
        }
        let source = match File::open(from) {
            Ok(source) => Some(source),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.replaced.push(from.to_owned());
                None
            }
            Err(e) => return Err(refused(from, e)),
        };
        let filled = match &source {
            Some(source) => all.size.min(source.metadata().map_err(|e| refused(from, e))?.len()),
            None => all.size.min(all.read_to),
        };
        *size = (*size).min(filled);
        fill(file, source, filled, stop).map_err(|e| refused(to, e))?;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::machine(
                "interrupted while copying the files that the recording writes",
                "no partial results were kept",
            ));
        }
        file.sync_data().map_err(|e| refused(to, e))?;
        if all.direct {
            // Otherwise, the first direct writes would have to invalidate cached pages.
            let _ = fadvise(&*file, 0, None, Advice::DontNeed);
        }
        Ok(())
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // The file may already be gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Maximum number of files named in an error.
const MOST_NAMED: usize = 8;

/// The NEW path for a recorded path; the longest matching OLD applies.
fn mapped(path: &Path, maps: &[(PathBuf, PathBuf)]) -> Option<PathBuf> {
    let longest = maps.iter().filter(|(old, _)| path.starts_with(old)).max_by_key(|(old, _)| old.components().count());
    longest.map(|(old, new)| match path.strip_prefix(old) {
        Ok(rest) if !rest.as_os_str().is_empty() => new.join(rest),
        _ => new.clone(),
    })
}

/// Why a file cannot be read as recorded.
fn unreadable(path: &Path, all: &Use) -> Option<String> {
    let name = path.display();
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Some(format!("{name} no longer exists")),
        Err(e) => return Some(format!("{name}: {e}")),
    };
    let has = match meta.file_type() {
        kind if kind.is_file() => meta.len(),
        kind if kind.is_block_device() => match File::open(path).and_then(|f| device::bytes(&f)) {
            Ok(has) => has,
            Err(e) => return Some(format!("{name}: {e}")),
        },
        _ => return Some(format!("{name} is neither a file nor a block device")),
    };
    // The recorded program may have read past the end, too.
    let read_to = all.read_to.min(all.size.max(1));
    (has < read_to).then(|| format!("{name} has {has} bytes, but the recording reads up to {read_to}"))
}

/// Opens an existing NEW for writing, if permitted. Claims a block device.
fn may_be_written(new: &Path, places: &Places<'_>, recorded: &BTreeSet<(u64, u64)>) -> Result<Option<File>> {
    let name = new.display();
    let meta = std::fs::metadata(new).map_err(|e| refused(new, e))?;
    if recorded.contains(&(meta.dev(), meta.ino())) {
        return Err(Error::input(
            format!("--map: {name} is a recorded file, and a replay never writes to recorded files"),
            "specify another file, or omit --map to use a copy",
        ));
    }
    if !places.allow_write {
        return Err(Error::input(
            format!("the replay would overwrite {name}, which exists"),
            "add --allow-write to overwrite its contents, or specify a file that does not exist",
        ));
    }
    if !is_usable(&meta) {
        return Err(Error::input(
            format!("--map: {name} is neither a file nor a block device"),
            "specify another file",
        ));
    }
    device::refuse_used(new, &meta)?;
    if meta.file_type().is_block_device() { device::claim(new).map(Some) } else { Ok(None) }
}

fn is_usable(meta: &Metadata) -> bool {
    meta.is_file() || meta.file_type().is_block_device()
}

fn check_space(folder: &Path, needed: u64) -> Result<()> {
    let space = statvfs(folder).map_err(|e| refused(folder, e.into()))?;
    let has = space.f_bavail.saturating_mul(space.f_frsize);
    if needed <= has.saturating_sub(KEPT_FREE) {
        return Ok(());
    }
    Err(Error::machine(
        format!(
            "copies of the files that the recording writes need {}, but {} has only {} free",
            bytes(needed),
            folder.display(),
            bytes(has)
        ),
        "free space there, or specify other files with --map OLD=NEW",
    ))
}

/// Free space to leave, because a full file system affects other users.
const KEPT_FREE: u64 = 64 << 20;

/// Fills a file up to `to` bytes: from the source, and beyond its end with random data.
fn fill(mut file: &File, mut source: Option<File>, to: u64, stop: &AtomicBool) -> io::Result<()> {
    let mut chunk = vec![0u8; 1 << 20];
    let mut random = SplitMix64::new(to);
    let mut left = to;
    while left > 0 && !stop.load(Ordering::Relaxed) {
        let part = &mut chunk[..left.min(1 << 20) as usize];
        let got = source.as_mut().map_or(Ok(0), |source| source.read(part))?;
        let part = match got {
            0 => {
                source = None;
                part.chunks_mut(8).for_each(|word| word.copy_from_slice(&random.draw().to_le_bytes()[..word.len()]));
                part
            }
            n => &mut part[..n],
        };
        file.write_all(part)?;
        left -= part.len() as u64;
    }
    Ok(())
}

fn open(path: &Path, file: &ProgramFile, writes: bool) -> Result<File> {
    let open = |flags: i32| {
        let flags = flags | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
        OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path)
    };
    let opened = match open(file.open_flags) {
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => open(file.open_flags & !libc::O_NOATIME),
        opened => opened,
    };
    let opened = opened.map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL) if file.open_flags & libc::O_DIRECT != 0 => Error::machine(
            format!(
                "the file system of {} does not support direct I/O (O_DIRECT), which the recording uses",
                path.display()
            ),
            "specify a file on another file system with --map OLD=NEW",
        ),
        _ => refused(path, e),
    })?;
    // The file may have been replaced since the check.
    let meta = opened.metadata().map_err(|e| refused(path, e))?;
    match is_usable(&meta) {
        true => Ok(opened),
        false => Err(Error::input(
            format!("{} is neither a file nor a block device", path.display()),
            "specify another file",
        )),
    }
}

fn refused(path: &Path, e: io::Error) -> Error {
    let what = format!("cannot use {} for the replay", path.display());
    match e.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => Error::machine(what, "free space there, or use --map OLD=NEW").because(e),
        _ => Error::machine(what, "check its permissions, or use --map OLD=NEW").because(e),
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
