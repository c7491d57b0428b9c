//! Where a target is made when none is given: a file that stays, so that the next run need not lay it out again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FsWord, access, statfs};
use rustix::io::Errno;

use iotrail_base::error::{Error, Result};
use iotrail_base::folders::TARGET_VARIABLE;
use iotrail_base::folders::own;
use iotrail_base::units::Bytes;

/// What the variable names; an empty one names nothing.
pub fn named() -> Option<PathBuf> {
    std::env::var_os(TARGET_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The scratch file for `size`; nothing is made yet. The size is in the name: a run that needs more makes its own.
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
    Err(Error::machine("no place for a scratch file", REMEDY).because(refused.join(", ")))
}

const REMEDY: &str = "name a file on a disk with --file";

/// Makes the folder of a scratch file. A write experiment writes to what is there of that name without being asked: so folder
/// and file have to be ours, and no link that somebody else has put there.
pub fn make_folder(file: &Path) -> Result<()> {
    let Some(dir) = file.parent() else { return Ok(()) };
    own::make(dir, REMEDY)?;
    own::check_file(file, REMEDY)
}

/// In the order of preference. A relative XDG_CACHE_HOME is to be ignored, says the XDG base directory specification.
fn places(cache_home: Option<OsString>, home: Option<OsString>) -> Vec<PathBuf> {
    let absolute = |p: &PathBuf| p.is_absolute();
    let cache = cache_home.map(PathBuf::from).filter(absolute);
    let cache = cache.or_else(|| home.map(PathBuf::from).filter(absolute).map(|h| h.join(".cache")));
    cache.into_iter().map(|c| c.join("iotrail")).chain([PathBuf::from("/var/tmp/iotrail")]).collect()
}

/// Whether a file can be made there; refuses file systems in memory, which have no disk to wait for.
fn usable(dir: &Path) -> std::result::Result<(), String> {
    let there = dir.ancestors().find(|d| d.is_dir()).ok_or("it is not there")?;
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
    fn places_follow_the_base_directory_specification() {
        let p = |c: Option<&str>, h: Option<&str>| places(c.map(Into::into), h.map(Into::into));
        let fallback = PathBuf::from("/var/tmp/iotrail");
        assert_eq!(p(Some("/c"), Some("/h")), [PathBuf::from("/c/iotrail"), fallback.clone()]);
        assert_eq!(p(Some("rel"), Some("/h")), [PathBuf::from("/h/.cache/iotrail"), fallback.clone()]);
        assert_eq!(p(None, None), [fallback]);
    }

    #[test]
    fn names_carry_the_size() {
        let of = |n| size_text(Bytes(n));
        assert_eq!((of(1 << 30), of(1536 << 20), of(4096)), ("1g".into(), "1536m".into(), "4k".into()));
        assert_eq!((of(1000), of(0)), ("1000".into(), "0".into()));
    }

    #[test]
    fn memory_is_no_disk() {
        if Path::new("/dev/shm").is_dir() {
            let dir = tempfile::tempdir_in("/dev/shm").unwrap();
            assert_eq!(usable(dir.path()), Err("it is in memory (tmpfs)".into()));
        }
    }
}
