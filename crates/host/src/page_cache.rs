//! Share of a file in the page cache, determined without touching the file.
//!
//! Cost: at most some milliseconds. Above [`WHOLE`] bytes, [`WINDOWS`] evenly spaced windows with a total of [`WHOLE`]
//! bytes are checked. A contiguous cached range is then known to about one part in [`WINDOWS`].

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::mm::ProtFlags;

use iotrail_base::mapping::Mapping;

const WHOLE: u64 = 1 << 30;
const WINDOWS: u64 = 64;

/// Shares of the checked part, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cached {
    pub resident: f64,
    /// Modified but not yet written to the device; `None` before Linux 6.5.
    pub dirty: Option<f64>,
}

/// An open file whose first `bytes` are checked.
pub struct Cache {
    file: File,
    bytes: u64,
}

impl Cache {
    /// `bytes`: the part in use; `None`: all. Returns `None` if the file cannot be opened or is empty.
    pub fn of(path: &Path, bytes: Option<u64>) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        // Also works for a device, whose metadata has no length.
        let all = file.seek(SeekFrom::End(0)).ok()?;
        let bytes = bytes.map_or(all, |b| b.min(all));
        (bytes > 0).then_some(Self { file, bytes })
    }

    /// `None` without permission: only the owner and users with write access may see it (since Linux 5.2, with
    /// cachestat since 6.14).
    pub fn look(&self) -> Option<Cached> {
        let page = rustix::param::page_size() as u64;
        let (mut pages, mut resident, mut dirty) = (0, 0, Some(0));
        for (offset, length) in windows(self.bytes, page) {
            let seen = cachestat(&self.file, offset, length).or_else(|| {
                let resident = mincore(&self.file, offset, length, page)?;
                Some(Pages { resident, dirty: None })
            })?;
            pages += length.div_ceil(page);
            resident += seen.resident;
            dirty = dirty.zip(seen.dirty).map(|(a, b)| a + b);
        }
        let share = |n: u64| n as f64 / pages as f64;
        Some(Cached { resident: share(resident).min(1.0), dirty: dirty.map(share) })
    }
}

struct Pages {
    resident: u64,
    dirty: Option<u64>,
}

/// Page-aligned offsets and lengths of the windows.
fn windows(bytes: u64, page: u64) -> Vec<(u64, u64)> {
    if bytes <= WHOLE {
        return vec![(0, bytes)];
    }
    let length = WHOLE / WINDOWS;
    let step = (bytes - length) / (WINDOWS - 1);
    (0..WINDOWS).map(|n| (n * step / page * page, length)).collect()
}

/// cachestat(2), Linux 6.5; has the same number on all architectures.
fn cachestat(file: &File, offset: u64, length: u64) -> Option<Pages> {
    const NUMBER: libc::c_long = 451;
    let range = [offset, length];
    // Numbers of pages: cached, dirty, under writeback, evicted, recently evicted.
    let mut counts = [0u64; 5];
    // SAFETY: a live descriptor and two live structures from linux/mman.h (cachestat_range, cachestat), which consist
    // of u64.
    let done = unsafe { libc::syscall(NUMBER, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0) };
    (done == 0).then(|| Pages { resident: counts[0], dirty: Some(counts[1] + counts[2]) })
}

/// Used only with permission; without it mincore(2) reports all pages as resident.
fn mincore(file: &File, offset: u64, length: u64, page: u64) -> Option<u64> {
    let uid = rustix::process::geteuid().as_raw();
    if uid != 0 && file.metadata().ok()?.uid() != uid {
        return None;
    }
    let map = Mapping::shared(file, offset, usize::try_from(length).ok()?, ProtFlags::READ).ok()?;
    let mut pages = vec![0u8; length.div_ceil(page) as usize];
    // SAFETY: a live mapping, which is not read, and one byte per page.
    let done = unsafe { libc::mincore(map.base().as_ptr().cast(), map.bytes(), pages.as_mut_ptr()) };
    (done == 0).then(|| pages.iter().filter(|p| **p & 1 != 0).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_newly_written_file_is_resident_in_the_page_cache() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        File::create(&path).unwrap().write_all(&vec![7; 1 << 20]).unwrap();
        let cache = Cache::of(&path, None).unwrap();
        assert_eq!(cache.look().unwrap().resident, 1.0);
        assert_eq!(mincore(&cache.file, 0, 1 << 20, 4096), Some(256));
        // A part that is not a multiple of the page size.
        assert_eq!(Cache::of(&path, Some(5000)).unwrap().look().unwrap().resident, 1.0);
        let empty = dir.path().join("empty");
        File::create(&empty).unwrap();
        assert!(Cache::of(&empty, None).is_none());
    }

    #[test]
    fn a_hole_is_not_resident_in_the_page_cache() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        File::create(&path).unwrap().set_len(8 << 20).unwrap();
        let cache = Cache::of(&path, None).unwrap();
        let seen = cache.look().unwrap();
        assert_eq!(seen.resident, 0.0);
        assert_eq!(mincore(&cache.file, 0, 8 << 20, 4096), Some(0));
    }

    #[test]
    fn at_most_1_gib_is_sampled_in_windows_within_the_file() {
        assert_eq!(windows(1 << 30, 4096), [(0, 1 << 30)]);
        for bytes in [(1 << 30) + 1, 3 << 40] {
            let all = windows(bytes, 4096);
            assert_eq!(all.len(), 64);
            assert_eq!(all.iter().map(|(_, n)| n).sum::<u64>(), 1 << 30);
            assert!(all.iter().all(|(o, n)| o % 4096 == 0 && o + n <= bytes));
            let (last, length) = all[63];
            assert!(bytes - (last + length) < 64 * 4096 + 4096, "{bytes}: {last}");
        }
    }
}
