//! 4 KiB reads at random offsets, and the ways to wait for them.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use io_uring::{opcode, squeue, types};

use crate::ring::Ring;

pub const BLOCK: usize = 4096;

/// A file, memory for reading, and the offsets: a fixed sequence, identical in each run.
pub struct Target {
    file: File,
    blocks: u64,
    seed: u64,
    /// One block per request in flight. Concurrent reads may share a block, because the data is not used.
    memory: Memory,
    next: usize,
}

const SLOTS: usize = 64;

impl Target {
    pub fn new(file: File) -> Result<Target> {
        let blocks = std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0))? / BLOCK as u64;
        ensure!(blocks > 0, "the file to read from has less than one block");
        let memory = Memory::new(SLOTS)?;
        memory.touch_all();
        Ok(Target { file, blocks: blocks.min(1 << 20), seed: 0x9e37_79b9_7f4a_7c15, memory, next: 0 })
    }

    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub fn offset(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % self.blocks * BLOCK as u64
    }

    pub fn buffer(&mut self) -> *mut u8 {
        self.next = (self.next + 1) % SLOTS;
        self.memory.page(self.next)
    }

    pub fn read(&mut self) -> squeue::Entry {
        let offset = self.offset();
        self.read_at(offset)
    }

    pub fn read_at(&mut self, offset: u64) -> squeue::Entry {
        let buffer = self.buffer();
        opcode::Read::new(types::Fd(self.fd()), buffer, BLOCK as u32).offset(offset).build()
    }

    /// A read without any ring.
    pub fn read_one(&mut self) -> Result<()> {
        let (offset, buffer) = (self.offset(), self.buffer());
        // SAFETY: an owned block without other readers.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer, BLOCK) };
        self.file.read_exact_at(buffer, offset).context("reading")
    }

    /// Reads the whole usable part into the page cache.
    pub fn fill_cache(&self) -> Result<()> {
        let mut chunk = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < self.blocks * BLOCK as u64 {
            offset += self.file.read_at(&mut chunk, offset).context("reading")? as u64;
        }
        Ok(())
    }
}

/// Reads in groups of `batch`: pushes and submits each with one enter, which waits for all of them.
pub fn blocking(ring: &mut Ring, target: &mut Target, count: u32, batch: u32) -> Result<()> {
    groups(count, batch, |group| {
        for _ in 0..group {
            let read = target.read();
            ring.push(read, BLOCK as u32);
        }
        ring.enter(group, group)?;
        ring.wait(group)
    })
}

/// The same at ascending, non-adjacent offsets, so a scheduler has nothing to sort or merge.
pub fn blocking_ascending(ring: &mut Ring, target: &mut Target, count: u32, batch: u32) -> Result<()> {
    let stride = (target.blocks / u64::from(count)).max(2);
    let mut next = 0;
    groups(count, batch, |group| {
        for _ in 0..group {
            let read = target.read_at(next % target.blocks * BLOCK as u64);
            next += stride;
            ring.push(read, BLOCK as u32);
        }
        ring.enter(group, group)?;
        ring.wait(group)
    })
}

/// Keeps up to `depth` reads in flight and polls the completion ring in user mode; calls `between` after each
/// unsuccessful poll.
pub fn peeking(ring: &mut Ring, target: &mut Target, count: u32, depth: u32, mut between: impl FnMut()) -> Result<()> {
    let (mut pushed, mut done) = (0, 0);
    while done < count {
        let room = (count - pushed).min(depth - (pushed - done));
        for _ in 0..room {
            let read = target.read();
            ring.push(read, BLOCK as u32);
        }
        pushed += room;
        if room > 0 {
            ring.submit()?;
        }
        loop {
            let found = ring.reap();
            done += found;
            if found > 0 {
                break;
            }
            between();
        }
    }
    Ok(())
}

/// Splits `count` into groups of `size`; the last one may be smaller.
pub fn groups<T>(count: u32, size: u32, mut group: impl FnMut(u32) -> Result<T>) -> Result<()> {
    let mut left = count;
    while left > 0 {
        let now = left.min(size);
        group(now)?;
        left -= now;
    }
    Ok(())
}

/// No-ops, this many per call, which complete immediately.
pub fn nops(ring: &mut Ring, count: u32, batch: u32) -> Result<()> {
    groups(count, batch, |group| {
        (0..group).for_each(|_| ring.push(opcode::Nop::new().build(), 0));
        ring.submit()?;
        ensure!(ring.reap() == group, "a no-op did not complete at once");
        Ok(())
    })
}

/// Computes in user mode, without system calls or memory accesses; a turn takes about a nanosecond or a few.
pub fn spin(turns: u32) {
    for _ in 0..turns {
        std::hint::spin_loop();
    }
}

/// This thread's voluntary context switches, which show that it slept.
pub fn sleeps() -> u64 {
    usage().ru_nvcsw as u64
}

/// This thread's page faults without I/O.
pub fn faults() -> u64 {
    usage().ru_minflt as u64
}

fn usage() -> libc::rusage {
    // SAFETY: the call fills the passed structure.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    }
}

/// Aligned anonymous 4 KiB pages, fresh until they are touched.
pub struct Memory {
    base: *mut u8,
    pages: usize,
}

impl Memory {
    pub fn new(pages: usize) -> Result<Memory> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice, unmapped in drop.
        let base = unsafe {
            let base =
                libc::mmap(std::ptr::null_mut(), pages * BLOCK, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            ensure!(base != libc::MAP_FAILED, "mmap of {pages} pages: {}", std::io::Error::last_os_error());
            libc::madvise(base, pages * BLOCK, libc::MADV_NOHUGEPAGE);
            base.cast()
        };
        Ok(Memory { base, pages })
    }

    pub fn page(&self, index: usize) -> *mut u8 {
        assert!(index < self.pages);
        // SAFETY: within the mapping.
        unsafe { self.base.add(index * BLOCK) }
    }

    pub fn touch(&self, index: usize) {
        // SAFETY: within the mapping, which is writable.
        unsafe { self.page(index).write_volatile(1) }
    }

    pub fn touch_all(&self) {
        (0..self.pages).for_each(|page| self.touch(page));
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: an owned, complete mapping; the completions of all reads into it were reaped.
        unsafe { libc::munmap(self.base.cast(), self.pages * BLOCK) };
    }
}
