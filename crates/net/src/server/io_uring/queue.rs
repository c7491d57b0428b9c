//! A ring's two queues, used by one thread: a single system call submits the queued entries and waits for completions.

use std::io;
use std::sync::atomic::{Ordering, fence};

use linux_raw_sys::io_uring as sys;

use super::entry::Word;
use iotrail_load::engine::io_uring::ring::{Handle, Ring, Waits};
use iotrail_schema::net_record::{LiveCounts, bump};

/// A completion.
#[derive(Debug, Clone, Copy)]
pub struct Cqe {
    pub word: Word,
    pub result: i32,
    pub flags: u32,
    /// Where a zero-copy receive placed the data.
    pub at: u64,
}

impl Cqe {
    /// More completions of the same request follow.
    pub fn more(self) -> bool {
        self.flags & sys::IORING_CQE_F_MORE != 0
    }

    /// The provided buffer with the received data, or the first of several.
    pub fn buffer(self) -> Option<u16> {
        (self.flags & sys::IORING_CQE_F_BUFFER != 0).then_some((self.flags >> sys::IORING_CQE_BUFFER_SHIFT) as u16)
    }
}

pub struct Queue<'a> {
    pub ring: Ring,
    handle: Handle,
    sqpoll: bool,
    waits: Waits,
    counts: &'a LiveCounts,
    /// Entries queued so far, and how many of them the kernel has consumed. The low 32 bits are the ring's tails.
    tail: u64,
    taken: u64,
    /// Completion head, how far this iteration has looked for sends, and the tail up to which it reads.
    head: u32,
    searched: u32,
    seen: u32,
    /// Entries that the kernel had consumed when `seen` was read.
    taken_when_seen: u64,
    /// Entries before this one have been submitted, and their failures are known.
    pub settled: u64,
    /// The completions found came from the kernel's overflow list.
    overflown: bool,
    /// Requests that will still post a completion.
    pub outstanding: u64,
}

impl<'a> Queue<'a> {
    /// For a ring that has not been used.
    pub fn new(ring: Ring, handle: Handle, sqpoll: bool, waits: Waits, counts: &'a LiveCounts) -> Self {
        Self {
            ring,
            handle,
            sqpoll,
            waits,
            counts,
            tail: 0,
            taken: 0,
            head: 0,
            searched: 0,
            seen: 0,
            taken_when_seen: 0,
            settled: 0,
            overflown: false,
            outstanding: 0,
        }
    }

    /// Entries that can be queued before the next [`Queue::enter`].
    #[inline]
    pub fn room(&self) -> u32 {
        self.ring.params.sq_entries - (self.tail - self.read_by_kernel()) as u32
    }

    /// Number of entries that the kernel has read.
    #[inline]
    fn read_by_kernel(&self) -> u64 {
        match self.sqpoll {
            // Acquire: the kernel reads an entry before it moves the head past it.
            true => self.tail - u64::from((self.tail as u32).wrapping_sub(self.ring.sq_head().load(Ordering::Acquire))),
            false => self.taken,
        }
    }

    /// The next entry, zeroed except for `word`, and its number; requires [`Queue::room`].
    #[inline]
    pub fn push(&mut self, word: Word) -> (&mut sys::io_uring_sqe, u64) {
        debug_assert!(self.room() > 0);
        let number = self.tail;
        self.tail += 1;
        self.outstanding += u64::from(word.completes());
        let at = self.ring.sqe(number as u32);
        // SAFETY: beyond the tail known to the kernel and within the ring, so owned here until it is submitted; a plain
        // C structure, valid when zeroed.
        let sqe = unsafe {
            at.write_bytes(0, 1);
            &mut *at
        };
        sqe.user_data = word.pack();
        (sqe, number)
    }

    /// An entry that is queued but not submitted.
    #[inline]
    pub fn queued(&mut self, number: u64) -> Option<&mut sys::io_uring_sqe> {
        // SAFETY: between the kernel's head and this tail, so the kernel does not use it.
        (self.taken..self.tail).contains(&number).then(|| unsafe { &mut *self.ring.sqe(number as u32) })
    }

    /// Completions found but not yet handled.
    pub fn left(&self) -> u32 {
        self.seen.wrapping_sub(self.head)
    }

    /// Submits the queued entries and waits for `min` completions.
    #[inline]
    pub fn enter(&mut self, min: u32, timeout: Option<&libc::timespec>) -> io::Result<()> {
        // Release: entries are written before the kernel sees the tail, and completions are read before it sees the
        // head.
        self.ring.sq_tail().store(self.tail as u32, Ordering::Release);
        self.ring.cq_head().store(self.head, Ordering::Release);
        let mut flags = sys::IORING_ENTER_GETEVENTS;
        let mut submit = (self.tail - self.taken) as u32;
        if self.sqpoll {
            (self.taken, submit) = (self.tail, 0);
            // The tail must be visible before the flag is read, otherwise each side could miss the other's update
            // (io_uring(7): a full barrier).
            fence(Ordering::SeqCst);
            let said = self.ring.sq_flags().load(Ordering::Relaxed);
            let there = self.ring.cq_tail().load(Ordering::Acquire).wrapping_sub(self.head);
            if there >= min && said & sys::IORING_SQ_CQ_OVERFLOW == 0 {
                flags = 0;
            }
            if said & sys::IORING_SQ_NEED_WAKEUP != 0 {
                flags |= sys::IORING_ENTER_SQ_WAKEUP;
            }
        }
        if flags != 0 {
            bump(&self.counts.syscalls, 1);
            match self.ring.wait(self.handle, (submit, min, flags), self.waits, timeout) {
                Ok(taken) if !self.sqpoll => self.taken += u64::from(taken),
                // Interrupted, timed out, out of memory for a request, or the completion queue is full: handle the
                // available completions.
                Ok(_) | Err(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY) => {}
                Err(errno) => return Err(io::Error::from_raw_os_error(errno)),
            }
        }
        self.look()
    }

    fn look(&mut self) -> io::Result<()> {
        let before = self.seen;
        // In this order, because the kernel posts the failures of a batch before it moves the head past the batch.
        self.taken_when_seen = self.read_by_kernel();
        // Acquire: the entries up to the tail have been written.
        self.seen = self.ring.cq_tail().load(Ordering::Acquire);
        if self.overflown {
            // While completions are in the overflow list, all others are queued behind them, so these came from that
            // list: this many did not fit (and possibly a few that arrived after the list was empty).
            bump(&self.counts.cq_overflows, u64::from(self.seen.wrapping_sub(before)));
        }
        self.overflown = self.ring.sq_flags().load(Ordering::Relaxed) & sys::IORING_SQ_CQ_OVERFLOW != 0;
        if self.overflown && self.ring.cq_lost().load(Ordering::Relaxed) > 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        Ok(())
    }

    /// Whether completions overflowed or were left unhandled, so that the next [`Queue::enter`] must not wait.
    pub fn has_more(&self) -> bool {
        self.overflown || self.left() > 0
    }

    fn read(&self, at: u32) -> Cqe {
        // SAFETY: between this head and a tail read with acquire ordering.
        unsafe {
            let (word, result, flags) = self.ring.cqe(at);
            let is_big = self.ring.params.flags & sys::IORING_SETUP_CQE32 != 0;
            let at = if is_big { self.ring.second_half(at) } else { 0 };
            Cqe { word: Word::unpack(word), result, flags, at }
        }
    }

    fn count(&mut self, cqe: Cqe) {
        if !cqe.more() && cqe.word.completes() {
            self.outstanding -= 1;
        }
    }

    /// The next completion of a send. These precede all others, because a connection's next answers depend on them.
    /// After the last one, all submitted entries are settled.
    #[inline]
    pub fn pop_send(&mut self) -> Option<Cqe> {
        while self.searched != self.seen {
            let cqe = self.read(self.searched);
            self.searched = self.searched.wrapping_add(1);
            if cqe.word.is_send() {
                self.count(cqe);
                return Some(cqe);
            }
        }
        if !self.overflown {
            self.settled = self.taken_when_seen;
        }
        None
    }

    /// The next other completion, after those of sends.
    #[inline]
    pub fn pop(&mut self) -> Option<Cqe> {
        debug_assert!(self.searched == self.seen);
        while self.head != self.seen {
            let cqe = self.read(self.head);
            self.head = self.head.wrapping_add(1);
            if !cqe.word.is_send() {
                self.count(cqe);
                return Some(cqe);
            }
        }
        None
    }
}
