//! Bookkeeping memory that a load touches while running: one fresh page per 512 I/Os, like a bitmap of completed
//! blocks. If it is faulted in lazily, each first touch is a page fault: a mode switch without I/O.
//!
//! The memory is a ring of [`PAGES`] pages, so that it is bounded for loads of any length. If prefaulted, the pages
//! exist from the start and never fault. If lazy, the entire ring is released (with a single madvise) each time it is
//! used up, every 2 million I/Os, so that its pages are fresh again.

use std::io;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, madvise};

use super::buffers::PAGE;
use super::options::Scratch;
use iotrail_base::mapping::Mapping;

/// I/Os per page.
pub const IOS_PER_PAGE: u64 = 512;
/// 16 MiB.
pub const PAGES: usize = 4096;

pub struct Pages {
    memory: Mapping,
    lazy: bool,
    next: usize,
    /// I/Os until the next page is touched.
    left: u64,
    /// Number of madvise calls.
    pub syscalls: u64,
}

impl Pages {
    /// `None` for `Scratch::None`.
    pub fn new(kind: Scratch) -> io::Result<Option<Self>> {
        let lazy = match kind {
            Scratch::None => return Ok(None),
            Scratch::Lazy => true,
            Scratch::Prefault => false,
        };
        let populate = if lazy { MapFlags::empty() } else { MapFlags::POPULATE };
        let memory = Mapping::anonymous(PAGES * PAGE, MapFlags::PRIVATE | populate)?;
        let pages = Self { memory, lazy, next: 0, left: IOS_PER_PAGE, syscalls: 0 };
        if lazy {
            // Huge pages would turn 512 faults into one. Kernels without huge pages return EINVAL, which is harmless.
            match pages.advise(Advice::LinuxNoHugepage) {
                Ok(()) | Err(Errno::INVAL) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Some(pages))
    }

    fn advise(&self, advice: Advice) -> rustix::io::Result<()> {
        // SAFETY: an owned mapping, whose contents are not read again.
        unsafe { madvise(self.memory.base().as_ptr().cast(), self.memory.bytes(), advice) }
    }

    /// Accounts for `ios` further I/Os.
    #[inline]
    pub fn advance(&mut self, mut ios: u64) -> io::Result<()> {
        while ios >= self.left {
            ios -= self.left;
            self.left = IOS_PER_PAGE;
            self.touch()?;
        }
        self.left -= ios;
        Ok(())
    }

    fn touch(&mut self) -> io::Result<()> {
        // SAFETY: within an owned mapping, because `next` stays below PAGES.
        unsafe { self.memory.base().add(self.next * PAGE).write_volatile(1) };
        self.next += 1;
        if self.next == PAGES {
            self.next = 0;
            if self.lazy {
                self.syscalls += 1;
                // Linux-specific advice, because the POSIX function of that name does nothing.
                self.advise(Advice::LinuxDontNeed)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults() -> u64 {
        crate::usage::sampled().unwrap().minor_faults
    }

    #[test]
    fn lazy_pages_fault_once_per_512_ios_and_prefaulted_pages_never() {
        for (kind, expected) in [(Scratch::Lazy, 100), (Scratch::Prefault, 0)] {
            let mut pages = Pages::new(kind).unwrap().unwrap();
            let before = faults();
            for _ in 0..100 * IOS_PER_PAGE / 32 {
                pages.advance(32).unwrap();
            }
            let seen = faults() - before;
            assert!((expected..expected + 5).contains(&seen), "{kind}: {seen} faults");
        }
        assert!(Pages::new(Scratch::None).unwrap().is_none());
    }

    #[test]
    fn scratch_pages_are_reused_after_a_full_round() {
        let mut pages = Pages::new(Scratch::Lazy).unwrap().unwrap();
        pages.advance(3 * PAGES as u64 * IOS_PER_PAGE).unwrap();
        assert_eq!((pages.next, pages.syscalls), (0, 3));
    }
}
