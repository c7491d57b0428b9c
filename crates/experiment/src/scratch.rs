//! The scratch file used if no target is specified. It is kept so that the next run does not have to write it again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FsWord, access, statfs};
use rustix::io::Errno;

use iotrail_base::error::{Error, Result};
use iotrail_base::folders::TARGET_VARIABLE;
use iotrail_base::folders::own;
use iotrail_base::units::Bytes;

/// The path in the environment variable; `None` if empty.
pub fn named() -> Option<PathBuf> {
    std::env::var_os(TARGET_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The scratch file's path for `size`; does not create it. The name contains the size, so a larger run uses a different
/// file.
pub fn file(size: Bytes) -> Result<PathBuf> {
    let mut refused = Vec::new();
    for dir in places(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        match usable(&dir) {
            Ok(()) => match own::check(&dir, REMEDY) {
                Ok(()) => return Ok(dir.join(format!("scratch-{}", size_text(size)))),
                Err(e) => refused.push(e.what),
            },
            Err(why) => refused.push(format!("{}: {why}", dir.display())),
        }
    }
    Err(Error::machine("no directory for a scratch file", REMEDY).because(refused.join(", ")))
}

const REMEDY: &str = "specify a file on a disk with --file";

/// Creates a scratch file's directory. A write experiment overwrites an existing file with that name without
/// --allow-write, so directory and file must belong to this user and must not be other users' symlinks.
pub fn make_folder(file: &Path) -> Result<()> {
    let Some(dir) = file.parent() else { return Ok(()) };
    own::make(dir, REMEDY)?;
    own::check_file(file, REMEDY)
}

/// In order of preference. The XDG base directory specification requires that a relative XDG_CACHE_HOME be ignored.
fn places(cache_home: Option<OsString>, home: Option<OsString>) -> Vec<PathBuf> {
    let absolute = |p: &PathBuf| p.is_absolute();
    let cache = cache_home.map(PathBuf::from).filter(absolute);
    let cache = cache.or_else(|| home.map(PathBuf::from).filter(absolute).map(|h| h.join(".cache")));
    cache.into_iter().map(|c| c.join("iotrail")).chain([PathBuf::from("/var/tmp/iotrail")]).collect()
}

/// Whether a file can be created there. Rejects in-memory file systems, which have no disk.
fn usable(dir: &Path) -> std::result::Result<(), String> {
    let there = dir.ancestors().find(|d| d.is_dir()).ok_or("it does not exist")?;
    let why = |e: Errno| std::io::Error::from(e).to_string();
    access(there, Access::WRITE_OK | Access::EXEC_OK).map_err(why)?;
    if [TMPFS_MAGIC, RAMFS_MAGIC].contains(&statfs(there).map_err(why)?.f_type) {
        return Err("it is in memory (tmpfs)".into());
    }
    Ok(())
}

/// linux/magic.h
const TMPFS_MAGIC: FsWord = 0x0102_1994;
const RAMFS_MAGIC: FsWord = 0x8584_58f6;

fn size_text(size: Bytes) -> String {
    [(30, 'g'), (20, 'm'), (10, 'k')]
        .into_iter()
        .find(|(shift, _)| size.0 != 0 && size.0.trailing_zeros() >= *shift)
        .map_or_else(|| size.0.to_string(), |(shift, unit)| format!("{}{unit}", size.0 >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_directories_follow_the_xdg_base_directory_specification() {
        let p = |c: Option<&str>, h: Option<&str>| places(c.map(Into::into), h.map(Into::into));
        let fallback = PathBuf::from("/var/tmp/iotrail");
        assert_eq!(p(Some("/c"), Some("/h")), [PathBuf::from("/c/iotrail"), fallback.clone()]);
        assert_eq!(p(Some("rel"), Some("/h")), [PathBuf::from("/h/.cache/iotrail"), fallback.clone()]);
        assert_eq!(p(None, None), [fallback]);
    }

    #[test]
    fn scratch_file_names_include_the_size() {
        let of = |n| size_text(Bytes(n));
        assert_eq!((of(1 << 30), of(1536 << 20), of(4096)), ("1g".into(), "1536m".into(), "4k".into()));
        assert_eq!((of(1000), of(0)), ("1000".into(), "0".into()));
    }

    #[test]
    fn a_tmpfs_is_rejected_for_scratch_files() {
        if Path::new("/dev/shm").is_dir() {
            let dir = tempfile::tempdir_in("/dev/shm").unwrap();
            assert_eq!(usable(dir.path()), Err("it is in memory (tmpfs)".into()));
        }
    }
}
