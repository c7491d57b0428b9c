//! Memory for the drive: pinned pages, and their device addresses.
//!
//! Without an IOMMU, the drive uses physical addresses (/proc/self/pagemap). The kernel may move a locked page, but not
//! one registered with an io_uring, so an otherwise unused ring pins the pages.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, madvise};

use super::prp::PAGE;
use super::vfio::Container;
use crate::engine::io_uring::ring::{self, Ring};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::mapping::Mapping;

/// How the drive accesses memory.
pub enum Reach {
    Physical,
    Iommu(Container),
}

enum Hold {
    Ring { _ring: Ring },
    Iommu { reach: Arc<Reach>, at: u64, bytes: usize },
}

/// Pages that are pinned as long as this value exists.
pub struct Pinned {
    /// Device addresses of the pages, of [`PAGE`] bytes each.
    pub pages: Vec<u64>,
    _hold: Hold,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Hold::Iommu { reach, at, bytes } = self
            && let Reach::Iommu(container) = &**reach
        {
            container.unmap(*at, *bytes);
        }
    }
}

/// Maximum size of a registered buffer.
const BUFFER: usize = 1 << 30;

impl Reach {
    /// Pins `bytes` at `base`, in complete pages, which must stay mapped as long as the returned value exists.
    pub fn pin(self: &Arc<Self>, base: NonNull<u8>, bytes: usize) -> Result<Pinned> {
        let cannot = |e: io::Error| {
            Error::machine(
                format!("cannot pin {} KiB of memory for the drive", bytes / 1024),
                "raise the locked memory limit (ulimit -l), or use a smaller --depth or --bs",
            )
            .because(e)
        };
        if let Reach::Iommu(container) = &**self {
            let at = container.map(base.as_ptr(), bytes).map_err(cannot)?;
            let pages = (0..bytes / PAGE).map(|i| at + (i * PAGE) as u64).collect();
            return Ok(Pinned { pages, _hold: Hold::Iommu { reach: Arc::clone(self), at, bytes } });
        }
        let ring = Ring::open(1, ring::params(0)).or_machine(
            "cannot pin memory for the drive: the kernel rejects the io_uring that would pin it",
            "see `iotrail check`, or bind the drive to vfio-pci",
        )?;
        hold(&ring, base, bytes).map_err(cannot)?;
        let pages = physical(base, bytes)
            .or_machine("cannot read physical addresses (/proc/self/pagemap)", "run as root (CAP_SYS_ADMIN)")?;
        Ok(Pinned { pages, _hold: Hold::Ring { _ring: ring } })
    }
}

fn hold(ring: &Ring, base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    let parts: Vec<libc::iovec> = (0..bytes)
        .step_by(BUFFER)
        .map(|at| libc::iovec { iov_base: base.as_ptr().wrapping_add(at).cast(), iov_len: BUFFER.min(bytes - at) })
        .collect();
    let op = linux_raw_sys::io_uring::io_uring_register_op::IORING_REGISTER_BUFFERS;
    // SAFETY: live vectors that refer to memory which stays mapped while the ring is open; no request uses them.
    unsafe { ring.register(op, parts.as_ptr().cast(), parts.len() as u32) }
}

/// The physical address of each page (Documentation/admin-guide/mm/pagemap.rst).
fn physical(base: NonNull<u8>, bytes: usize) -> io::Result<Vec<u64>> {
    let system_page = match rustix::param::page_size() {
        n if n >= PAGE => n as u64,
        _ => return Err(io::Error::other("the system's page size is unknown")),
    };
    let map = File::open("/proc/self/pagemap")?;
    let mut word = [0u8; 8];
    (0..bytes / PAGE)
        .map(|i| {
            let at = base.as_ptr() as u64 + (i * PAGE) as u64;
            map.read_exact_at(&mut word, at / system_page * 8)?;
            frame(u64::from_le_bytes(word)).map(|frame| frame * system_page + at % system_page)
        })
        .collect()
}

/// The page frame number in a pagemap entry.
fn frame(entry: u64) -> io::Result<u64> {
    const PRESENT: u64 = 1 << 63;
    match (entry & PRESENT != 0, entry & ((1 << 55) - 1)) {
        (false, _) => Err(io::Error::other("a page is not in memory")),
        // Without permission, the kernel hides addresses.
        (true, 0) => Err(io::ErrorKind::PermissionDenied.into()),
        (true, frame) => Ok(frame),
    }
}

/// Anonymous memory, faulted in. Its owner stops the drive's access before dropping it.
struct Pages {
    mapping: Mapping,
    /// Offset of the used part.
    at: usize,
}

impl Pages {
    fn new(bytes: usize, flags: MapFlags) -> io::Result<Self> {
        Ok(Self { mapping: Mapping::anonymous(bytes, MapFlags::PRIVATE | flags)?, at: 0 })
    }

    /// Memory that starts at a huge-page boundary, for which a huge page is requested.
    fn of_huge_pages(bytes: usize) -> io::Result<Self> {
        let mut pages = Self::new(bytes + HUGE, MapFlags::empty())?;
        pages.at = pages.mapping.base().as_ptr().align_offset(HUGE);
        // SAFETY: part of an owned mapping, still zeroed.
        unsafe {
            // Without a huge page, normal pages are used.
            madvise(pages.start().as_ptr().cast(), bytes, Advice::LinuxHugepage).unwrap_or(());
            pages.start().as_ptr().write_bytes(0, bytes);
        }
        Ok(pages)
    }

    fn start(&self) -> NonNull<u8> {
        // SAFETY: `at` is within the mapping.
        unsafe { self.mapping.base().add(self.at) }
    }
}

const HUGE: usize = 2 << 20;

/// The driver's own memory: rings, lists, pages for results. Initially zeroed.
pub struct Region {
    // Unpinned before it is unmapped.
    pinned: Pinned,
    memory: Pages,
}

impl Region {
    /// This many pages at arbitrary addresses.
    pub fn pages(reach: &Arc<Reach>, pages: usize) -> Result<Self> {
        let memory = Pages::new(pages * PAGE, MapFlags::POPULATE).map_err(no_memory)?;
        Self::pinned(reach, memory, pages * PAGE)
    }

    /// `bytes` (at most 2 MiB) of memory that is contiguous for the drive as well.
    pub fn contiguous(reach: &Arc<Reach>, bytes: usize) -> Result<Self> {
        let bytes = bytes.next_multiple_of(PAGE);
        if bytes <= PAGE || matches!(**reach, Reach::Iommu(_)) {
            return Self::pages(reach, bytes / PAGE);
        }
        let none = || {
            Error::machine(
                format!("a queue needs {} KiB of contiguous memory, but no huge page is available", bytes / 1024),
                "reserve some, as root: sysctl vm.nr_hugepages=8 (two per job); or use a --depth of at most 63",
            )
        };
        if bytes > HUGE {
            return Err(none());
        }
        let reserved = Pages::new(HUGE, MapFlags::HUGETLB | MapFlags::POPULATE);
        let found = reserved.or_else(|_| Pages::of_huge_pages(HUGE)).map_err(no_memory)?;
        let region = Self::pinned(reach, found, bytes)?;
        if in_one_piece(&region.pinned.pages) { Ok(region) } else { Err(none()) }
    }

    fn pinned(reach: &Arc<Reach>, memory: Pages, bytes: usize) -> Result<Self> {
        Ok(Self { pinned: reach.pin(memory.start(), bytes)?, memory })
    }

    pub fn start(&self) -> NonNull<u8> {
        self.memory.start()
    }

    /// Device addresses of its pages.
    pub fn addresses(&self) -> &[u64] {
        &self.pinned.pages
    }
}

fn no_memory(e: io::Error) -> Error {
    Error::machine(
        "cannot allocate memory for the drive's queues",
        "free memory, or use a smaller --depth or fewer --jobs",
    )
    .because(e)
}

fn in_one_piece(pages: &[u64]) -> bool {
    pages.windows(2).all(|pair| pair[1] == pair[0] + PAGE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pagemap_entry_is_decoded_into_a_frame_number() {
        assert_eq!(frame(1 << 63 | 1 << 55 | 0x1234).unwrap(), 0x1234);
        assert_eq!(frame(1 << 63).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(frame(0x1234).is_err());
    }

    #[test]
    fn consecutive_pages_are_detected_as_contiguous() {
        assert!(in_one_piece(&[0x5000, 0x6000, 0x7000]) && in_one_piece(&[0x5000]));
        assert!(!in_one_piece(&[0x5000, 0x7000]) && !in_one_piece(&[0x6000, 0x5000]));
    }
}
