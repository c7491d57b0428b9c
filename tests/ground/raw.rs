//! A ring without a library, for setup flags and entries that the library does not know.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

use crate::report::{Op, RingReport};
use crate::run::Unsupported;

pub const CQE32: u32 = 1 << 11;
pub const R_DISABLED: u32 = 1 << 6;
pub const SQE_MIXED: u32 = 1 << 19;
/// IORING_ENTER_GETEVENTS.
pub const GETEVENTS: u32 = 1;

const OFF_SQES: libc::off_t = 0x1000_0000;

/// Word offset in `struct io_uring_params`: 40 bytes, followed by the offsets of both queues, 40 bytes each.
pub const SQ_OFF: usize = 10;
pub const CQ_OFF: usize = 20;

pub struct RawRing {
    fd: OwnedFd,
    rings: *mut u8,
    entries: *mut [u64; 8],
    params: [u32; 30],
    tail: u32,
    pub ops: BTreeMap<&'static str, Op>,
    pub enters: u64,
    pub refused: u64,
}

pub struct Seen {
    pub user_data: u64,
    pub result: i32,
    pub flags: u32,
}

impl RawRing {
    /// Returns `Unsupported` if the kernel rejects the flags.
    pub fn open(size: u32, flags: u32) -> Result<RawRing> {
        let mut params = [0u32; 30];
        params[2] = flags;
        // SAFETY: a live structure of 120 bytes.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, size, params.as_mut_ptr()) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            return Err(Unsupported(format!("io_uring_setup with flags {flags:#x}: {error}")).into());
        }
        // SAFETY: a new descriptor without another owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let map = |bytes: usize, offset| {
            let (protection, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
            // SAFETY: a new mapping of the ring's memory.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, shared, fd.as_raw_fd(), offset) };
            if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast::<u8>()) }
        };
        let stride = if flags & CQE32 != 0 { 32 } else { 16 };
        let completions = params[CQ_OFF + 5] as usize + params[1] as usize * stride;
        let submissions = params[SQ_OFF + 6] as usize + 4 * params[0] as usize;
        let rings = map(completions.max(submissions), 0).context("mapping the queues")?;
        let entries = map(64 * params[0] as usize, OFF_SQES).context("mapping the entries")?.cast();
        let ring = RawRing { fd, rings, entries, params, tail: 0, ops: BTreeMap::new(), enters: 0, refused: 0 };
        for i in 0..params[0] {
            ring.word(SQ_OFF + 6, i).store(i, Ordering::Relaxed);
        }
        Ok(ring)
    }

    /// The byte offset of that field in the queues' memory.
    pub fn offset(&self, field: usize) -> u32 {
        self.params[field]
    }

    /// The word `index` after that offset in `params`.
    pub fn word(&self, offset: usize, index: u32) -> &AtomicU32 {
        // SAFETY: within the mapping, which lives as long as the ring, and aligned.
        unsafe { &*self.rings.add(self.params[offset] as usize).cast::<AtomicU32>().add(index as usize) }
    }

    /// Queues an entry of `words`; an entry of 16 words takes two slots.
    pub fn push(&mut self, name: &'static str, words: &[u64]) {
        self.ops.entry(name).or_default().requests += 1;
        for part in words.chunks(8) {
            let at = self.tail & (self.params[0] - 1);
            self.place(at, part);
            self.tail = self.tail.wrapping_add(1);
        }
        self.word(SQ_OFF + 1, 0).store(self.tail, Ordering::Release);
    }

    /// Writes an entry without publishing it.
    pub fn place(&mut self, at: u32, words: &[u64]) {
        let mut entry = [0u64; 8];
        entry[..words.len()].copy_from_slice(words);
        assert!(at < self.params[0]);
        // SAFETY: within the mapping; the kernel reads it only once the tail has passed it.
        unsafe { self.entries.add(at as usize).write(entry) };
    }

    /// Number of entries before the end of the queue.
    pub fn before_the_end(&self) -> u32 {
        self.params[0] - (self.tail & (self.params[0] - 1))
    }

    pub fn enter(&mut self, submit: u32, wait: u32, flags: u32) -> io::Result<u32> {
        self.enter_with(submit, wait, flags, std::ptr::null::<u8>(), 0)
    }

    pub fn enter_with<T>(
        &mut self,
        submit: u32,
        wait: u32,
        flags: u32,
        argument: *const T,
        size: usize,
    ) -> io::Result<u32> {
        self.enters += 1;
        let fd = self.fd.as_raw_fd();
        // SAFETY: the caller's argument lives during the call.
        let done = unsafe { libc::syscall(libc::SYS_io_uring_enter, fd, submit, wait, flags, argument, size) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as u32) }
    }

    pub fn register<T>(&self, operation: u32, argument: *mut T, count: u32) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: the argument has the operation's type and lives during the call.
        let done = unsafe { libc::syscall(libc::SYS_io_uring_register, fd, operation, argument, count) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Reaps all available completions.
    pub fn reap(&mut self, mut each: impl FnMut(Seen) -> &'static str) -> u32 {
        let (head, tail) =
            (self.word(CQ_OFF, 0).load(Ordering::Relaxed), self.word(CQ_OFF + 1, 0).load(Ordering::Acquire));
        let words = if self.params[2] & CQE32 != 0 { 8 } else { 4 };
        let mut at = head;
        while at != tail {
            let index = (at & (self.params[1] - 1)) * words;
            let word = |i| self.word(CQ_OFF + 5, index + i).load(Ordering::Relaxed);
            let seen = Seen {
                user_data: u64::from(word(1)) << 32 | u64::from(word(0)),
                result: word(2) as i32,
                flags: word(3),
            };
            let (result, more) = (seen.result, seen.flags & 2 != 0);
            let op = self.ops.entry(each(seen)).or_default();
            op.add(result, 0);
            op.more += u64::from(more);
            at = at.wrapping_add(1);
        }
        self.word(CQ_OFF, 0).store(at, Ordering::Release);
        at.wrapping_sub(head)
    }

    pub fn report(self) -> RingReport {
        RingReport {
            tgid: std::process::id(),
            fd: self.fd.as_raw_fd(),
            sq_entries: self.params[0],
            cq_entries: self.params[1],
            opcodes: self.ops.into_iter().map(|(name, op)| (name.to_owned(), op)).collect(),
            enters: self.enters,
            refused: self.refused,
            ..RingReport::default()
        }
    }
}

impl AsRawFd for RawRing {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// First words of an entry: operation, flags, descriptor; offset; address; length and operation flags; user data.
pub fn entry(operation: u8, fd: i32, offset: u64, address: u64, length: u32, flags: u32, user_data: u64) -> [u64; 8] {
    let first = u64::from(operation) | u64::from(fd as u32) << 32;
    [first, offset, address, u64::from(length) | u64::from(flags) << 32, user_data, 0, 0, 0]
}
