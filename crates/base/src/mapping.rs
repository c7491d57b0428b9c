//! An owned memory mapping, unmapped on drop.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::mm::{self, MapFlags, ProtFlags};

/// Pages at an address that the kernel chose. Users of the address are responsible for access.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address and a size. The mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed, readable and writable memory. `flags`: shared or private, and others.
    pub fn anonymous(bytes: usize, flags: MapFlags) -> io::Result<Self> {
        // SAFETY: without FIXED, the kernel chooses an unmapped address.
        let base = unsafe {
            mm::mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags - MapFlags::FIXED)
        };
        Self::at(base?.cast(), bytes)
    }

    /// Part of a file, shared with all other mappings of it.
    pub fn shared(file: impl AsFd, offset: u64, bytes: usize, access: ProtFlags) -> io::Result<Self> {
        // SAFETY: as above.
        let base = unsafe { mm::mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, file, offset) };
        Self::at(base?.cast(), bytes)
    }

    /// The memory of an io_uring, mapped into this process.
    pub fn of_ring(ring: impl AsFd, offset: u64, bytes: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: as above.
        let base = unsafe { mm::mmap(ptr::null_mut(), bytes, access, flags, ring, offset) };
        Self::at(base?.cast(), bytes)
    }

    fn at(base: *mut u8, bytes: usize) -> io::Result<Self> {
        let base = NonNull::new(base).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { base, bytes })
    }

    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this process's own mapping, whose address is no longer in use.
        let done = unsafe { mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert_eq!(done, Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn anonymous_memory_is_zeroed_and_writable() {
        let memory = Mapping::anonymous(4096, MapFlags::PRIVATE).unwrap();
        assert_eq!(memory.bytes(), 4096);
        // SAFETY: the last byte of the mapping, which has no other users.
        unsafe {
            let last = memory.base().add(4095);
            assert_eq!(last.read(), 0);
            last.write(7);
            assert_eq!(last.read(), 7);
        }
        assert!(Mapping::anonymous(0, MapFlags::PRIVATE).is_err());
    }

    #[test]
    fn a_shared_mapping_reads_the_file_at_an_aligned_offset() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[5; 8192]).unwrap();
        let part = Mapping::shared(&file, 4096, 4096, ProtFlags::READ).unwrap();
        // SAFETY: a byte within the file.
        assert_eq!(unsafe { part.base().read() }, 5);
        assert!(Mapping::shared(&file, 1, 4096, ProtFlags::READ).is_err(), "no whole page");
    }
}
