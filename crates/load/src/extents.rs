//! Parts of a file that were never written: reads of them do not reach the device, so a load that reads them measures
//! something else.

use std::fs::File;

use linux_raw_sys::ioctl::{FIEMAP_EXTENT_LAST, FIEMAP_EXTENT_UNWRITTEN};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};

use iotrail_schema::measurement::Warning;

/// linux/fs.h: _IOWR('f', 11, struct fiemap)
const FS_IOC_FIEMAP: Opcode = 0xc020_660b;
const EXTENTS: usize = 128;

/// linux/fiemap.h
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

const _: () = assert!(size_of::<Extent>() == 56 && size_of::<Fiemap>() == 32 + 56 * EXTENTS);

/// Warns if part of the first `bytes` is a hole, or allocated but never written.
pub fn warn_of_holes(file: &File, bytes: u64) -> Option<Warning> {
    let written = written(file, bytes)?;
    if written >= bytes {
        return None;
    }
    let percent = (100 * (bytes - written)).div_ceil(bytes);
    Some(Warning::new(
        "holes",
        format!("{percent} % of the target was never written: reads of it never reach the device"),
        "remove the file so that it is created (--size), or write it first",
    ))
}

/// Written bytes among the first `bytes`, from the file system's extent map, otherwise from its holes; `None` if
/// neither is available.
fn written(file: &File, bytes: u64) -> Option<u64> {
    by_extents(file, bytes).or_else(|| by_holes(file, bytes))
}

fn by_extents(file: &File, bytes: u64) -> Option<u64> {
    let mut map = Box::new(Fiemap {
        start: 0,
        length: bytes,
        flags: 0,
        mapped_extents: 0,
        extent_count: EXTENTS as u32,
        reserved: 0,
        extents: [Extent::default(); EXTENTS],
    });
    let mut written = 0;
    while map.start < bytes {
        map.length = bytes - map.start;
        map.mapped_extents = 0;
        // SAFETY: the request's structure, with memory for the number of extents that it specifies.
        unsafe { ioctl(file, Updater::<FS_IOC_FIEMAP, Fiemap>::new(&mut map)) }.ok()?;
        let extents = &map.extents[..(map.mapped_extents as usize).min(EXTENTS)];
        let Some(last) = extents.last() else { break };
        for e in extents.iter().filter(|e| e.flags & FIEMAP_EXTENT_UNWRITTEN == 0) {
            let (from, to) = (e.logical.max(map.start), (e.logical + e.length).min(bytes));
            written += to.saturating_sub(from);
        }
        if last.flags & FIEMAP_EXTENT_LAST != 0 {
            break;
        }
        map.start = last.logical + last.length;
    }
    Some(written)
}

fn by_holes(file: &File, bytes: u64) -> Option<u64> {
    // Nothing else uses the file's position.
    let (mut at, mut written) = (0, 0);
    while at < bytes {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Only a hole remains.
            Err(Errno::NXIO) => break,
            Err(_) => return None,
        };
        let hole = seek(file, SeekFrom::Hole(data)).ok()?;
        written += hole.min(bytes).saturating_sub(data);
        at = hole;
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_hole_does_not_count_as_data() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&[1; 65536], 65536).unwrap();
        file.sync_all().unwrap();
        assert_eq!(written(&file, 1 << 20), Some(65536));
        assert_eq!(by_holes(&file, 1 << 20), Some(65536));
        assert!(warn_of_holes(&file, 1 << 20).unwrap().text.starts_with("94 %"));
        file.write_all_at(&vec![1; 1 << 20], 0).unwrap();
        file.sync_all().unwrap();
        assert_eq!(warn_of_holes(&file, 1 << 20), None);
    }
}
