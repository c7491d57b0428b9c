//! Bookkeeping memory that a load touches as it goes: one fresh page per 512 I/Os, as a bitmap of completed blocks
//! would. Faulted in lazily, each such touch is a page fault: a mode switch that has nothing to do with I/O.
//!
//! The memory is a ring of [`PAGES`] pages, so that it stays bounded however long a load runs. Prefaulted, the pages
//! are there from the start and never fault. Lazy, the whole ring is given back (one madvise) each time it was used
//! up, every 2 million I/Os, so that its pages are fresh again.

use std::io;

use super::buffers::PAGE;
use super::options::Scratch;

/// I/Os for each page.
pub const IOS_PER_PAGE: u64 = 512;
/// 16 MiB.
pub const PAGES: usize = 4096;

pub struct Pages {
    base: *mut u8,
    lazy: bool,
    next: usize,
    /// I/Os until the next page is touched.
    left: u64,
    /// madvise calls made.
    pub syscalls: u64,
}

// SAFETY: the mapping belongs to this value alone, and any thread may use it.
unsafe impl Send for Pages {}

impl Pages {
    /// `None` for `Scratch::None`.
    pub fn new(kind: Scratch) -> io::Result<Option<Self>> {
        let lazy = match kind {
            Scratch::None => return Ok(None),
            Scratch::Lazy => true,
            Scratch::Prefault => false,
        };
        let populate = if lazy { 0 } else { libc::MAP_POPULATE };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGES * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | populate,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let pages = Self { base: base.cast(), lazy, next: 0, left: IOS_PER_PAGE, syscalls: 0 };
        if lazy {
            // Huge pages would turn 512 faults into one. A kernel without them refuses (EINVAL) and needs no telling.
            // SAFETY: our own mapping.
            let done = unsafe { libc::madvise(base, PAGES * PAGE, libc::MADV_NOHUGEPAGE) };
            if done != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Some(pages))
    }

    /// Accounts for `ios` more.
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
        // SAFETY: within our own mapping: `next` stays below PAGES.
        unsafe { self.base.add(self.next * PAGE).write_volatile(1) };
        self.next += 1;
        if self.next == PAGES {
            self.next = 0;
            if self.lazy {
                self.syscalls += 1;
                // SAFETY: our own mapping, which holds nothing that is read again.
                if unsafe { libc::madvise(self.base.cast(), PAGES * PAGE, libc::MADV_DONTNEED) } != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our own mapping, used by nobody else.
        let done = unsafe { libc::munmap(self.base.cast(), PAGES * PAGE) };
        debug_assert_eq!(done, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults() -> i64 {
        // SAFETY: a plain C structure, valid when all zero, filled by the call.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
            usage.ru_minflt
        }
    }

    #[test]
    fn lazy_pages_fault_once_per_512_ios_and_prefaulted_ones_never() {
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
    fn the_memory_stays_bounded() {
        let mut pages = Pages::new(Scratch::Lazy).unwrap().unwrap();
        pages.advance(3 * PAGES as u64 * IOS_PER_PAGE).unwrap();
        assert_eq!((pages.next, pages.syscalls), (0, 3));
    }
}
