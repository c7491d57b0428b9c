//! Creates a missing target: writes all of it with verifiable data, so that every block exists.
//!
//! The file has no name until it is complete (O_TMPFILE, then linkat). A load that fails, is stopped or is killed
//! earlier leaves nothing behind, and a file with that name that another process creates meanwhile is never replaced.
//! On a file system without unnamed files (NFS, FAT), it is `NAME.partial` and renamed at the end; a kill leaves that
//! file behind.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use rustix::fs::{Advice, AtFlags, CWD, FallocateFlags, fadvise, fallocate, linkat};
use rustix::io::Errno;

use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::plain::say;

use super::alignment::check_alignment;
use super::refusal::{cannot, no_direct};
use super::spec::LoadSpec;
use super::verify;
use super::{Doing, Progress};

/// Creates and lays out the file. Problems with its path and size are found before any write.
///
/// Returns the file's identity.
pub fn make(spec: &LoadSpec, path: &Path, progress: &mut dyn FnMut(Progress), stop: &AtomicBool) -> Result<Identity> {
    let name = path.display();
    if path.is_symlink() {
        return Err(Error::input(
            format!("{name} is a dangling symlink"),
            "specify the file itself, or remove the symlink",
        ));
    }
    let bytes = spec.size.or_input(format_args!("{name} does not exist"), "specify --size to create it")?;
    if bytes < u64::from(spec.block_bytes) {
        return Err(Error::input(
            format!("--size {bytes} is less than one block of {}", spec.block_bytes),
            "use a larger --size or a smaller --bs",
        ));
    }
    let unfinished = Unfinished::create(path)?;
    if spec.direct {
        check_direct(spec, path, &unfinished.file)?;
    }
    match lay_out(&unfinished.file, bytes, progress, stop) {
        Ok(true) => {
            let meta = unfinished.file.metadata().map_err(|e| cannot("access", path, e))?;
            unfinished.publish(path).map_err(|e| cannot("create", path, e))?;
            let made = creation(&meta);
            ours().insert(made);
            Ok(made.0)
        }
        Ok(false) => Err(Error::machine(format!("stopped while laying out {name}"), "no partial results were kept")),
        Err(e) => Err(cannot("lay out", path, e)),
    }
}

/// Device and inode.
pub type Identity = (u64, u64);

/// With the time of creation: file systems reuse the inode numbers of removed files.
type Creation = (Identity, Option<SystemTime>);

fn creation(meta: &Metadata) -> Creation {
    ((meta.dev(), meta.ino()), meta.created().ok())
}

/// Files created by this process. Later loads of an experiment may write to them without `--allow-write`.
fn ours() -> MutexGuard<'static, BTreeSet<Creation>> {
    static OURS: Mutex<BTreeSet<Creation>> = Mutex::new(BTreeSet::new());
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process created the file.
pub fn is_ours(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| ours().contains(&creation(&meta)))
}

pub fn identity(file: &File) -> io::Result<Identity> {
    let meta = file.metadata()?;
    Ok((meta.dev(), meta.ino()))
}

/// Checks whether direct I/O is possible on the file before the slow write.
fn check_direct(spec: &LoadSpec, path: &Path, file: &File) -> Result<()> {
    match OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(in_proc(file)) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Err(no_direct(path)),
        // Other errors are reported when the complete file is opened.
        _ => check_alignment(spec, path, file, false),
    }
}

/// A path to the open file, whether or not it has a name.
fn in_proc(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A file that is not yet the target.
struct Unfinished {
    file: File,
    /// The file's name, if it needs one; removed on drop.
    partial: Option<PathBuf>,
}

impl Unfinished {
    fn create(path: &Path) -> Result<Self> {
        let folder = match path.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
            // Without /proc, the file could not be named later.
            Ok(file) if in_proc(&file).exists() => return Ok(Self { file, partial: None }),
            Ok(_) => {}
            // The kernel or the file system does not support it (open(2), O_TMPFILE).
            Err(e) if matches!(e.raw_os_error(), Some(libc::EISDIR | libc::EOPNOTSUPP)) => {}
            Err(e) => return Err(cannot("create", path, e)),
        }
        Self::create_named(path, &mut options)
    }

    fn create_named(path: &Path, options: &mut OpenOptions) -> Result<Self> {
        let mut partial = OsString::from(path);
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = options.create_new(true).open(&partial).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => Error::input(
                format!(
                    "{} exists: another load is creating this target, or was killed while doing so",
                    partial.display()
                ),
                "wait for the other load, or remove the file",
            ),
            _ => cannot("create", path, e),
        })?;
        Ok(Self { file, partial: Some(partial) })
    }

    /// Names the file, unless a file with that name has been created meanwhile.
    fn publish(mut self, path: &Path) -> io::Result<()> {
        let Some(partial) = &self.partial else {
            return Ok(linkat(CWD, in_proc(&self.file), CWD, path, AtFlags::SYMLINK_FOLLOW)?);
        };
        if path.exists() {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        std::fs::rename(partial, path)?;
        self.partial = None;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            remove(partial);
        }
    }
}

/// Writes and syncs `bytes`; returns false if stopped.
fn lay_out(mut file: &File, bytes: u64, progress: &mut dyn FnMut(Progress), stop: &AtomicBool) -> io::Result<bool> {
    // A full disk is reported here, before any write. Not all file systems support this.
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(e) => return Err(e.into()),
    }
    let began = Instant::now();
    let mut told = began;
    let mut block = vec![0; 1 << 20];
    let mut done = 0u64;
    while done < bytes {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let now = block.len().min(usize::try_from(bytes - done).unwrap_or(usize::MAX));
        verify::fill(&mut block, done, 0);
        file.write_all(&block[..now])?;
        done += now as u64;
        if told.elapsed() >= super::TICK {
            told = Instant::now();
            progress(Progress { doing: Doing::LayingOut, done, total: Some(bytes), elapsed: began.elapsed() });
        }
    }
    file.sync_all()?;
    // Spares direct I/O from finding the pages in the cache. A failure does not affect results.
    let advised = fadvise(file, 0, None, Advice::DontNeed);
    debug_assert_eq!(advised, Ok(()));
    Ok(true)
}

/// Removes the created file. Reports a failure on standard error.
pub fn remove(path: &Path) {
    if let Err(e) = std::fs::remove_file(path) {
        say(&format!("iotrail: cannot remove {}: {e}", path.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_the_inode_number_of_a_removed_one_is_not_ours() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "made").unwrap();
        let made = std::fs::metadata(&path).unwrap();
        ours().insert(creation(&made));
        assert!(is_ours(&path));
        std::fs::remove_file(&path).unwrap();
        // Until the clock of the file system has advanced.
        let mut again = made.clone();
        while again.created().ok() == made.created().ok() && made.created().is_ok() {
            _ = std::fs::remove_file(&path);
            std::fs::write(&path, "another").unwrap();
            again = std::fs::metadata(&path).unwrap();
        }
        assert!(made.created().is_err() || !is_ours(&path), "{made:?} {again:?}");
    }

    #[test]
    fn a_file_is_renamed_when_complete_and_replaces_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let names = || std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
        let mut options = OpenOptions::new();
        let named = |options: &mut OpenOptions| Unfinished::create_named(&path, options.write(true));
        for round in 0..2 {
            let make = |o: &mut OpenOptions| if round == 0 { Unfinished::create(&path) } else { named(o) };
            let before = make(&mut options).unwrap();
            assert!(!path.exists());
            drop(before);
            assert_eq!(names(), [""; 0]);
            make(&mut options).unwrap().publish(&path).unwrap();
            assert_eq!(names(), ["x"]);
            let e = make(&mut options).unwrap().publish(&path).unwrap_err();
            assert_eq!(e.raw_os_error(), Some(libc::EEXIST));
            assert_eq!(names(), ["x"]);
            std::fs::remove_file(&path).unwrap();
        }
        let _first = named(&mut options).unwrap();
        let e = named(&mut options).err().unwrap();
        assert!(e.to_string().contains("x.partial exists"), "{e}");
    }
}
