//! io_uring with raw system calls.
//!
//! Submitting and waiting are separate `io_uring_enter` calls, so that the phases are measured correctly: the cost of
//! `submit` never includes a wait. While it polls in user mode, the reaping half makes a system call only if the ring's
//! flags require one:
//!
//! | ring | a poll that finds nothing |
//! |---|---|
//! | taskrun_flag | enters when the kernel has set IORING_SQ_TASKRUN |
//! | defer_taskrun without taskrun_flag | enters: nothing else runs the task work or reports it |
//! | iopoll without sqpoll | enters: nothing else polls the device |
//! | any | enters when IORING_SQ_CQ_OVERFLOW is set: nothing else flushes the overflow list |
//! | all others | makes no system call |

pub(crate) mod cmd;
pub(crate) mod entry;
pub mod flags;
pub mod refusal;
pub mod ring;
pub mod sq_thread;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use linux_raw_sys::io_uring as sys;

use super::capabilities::{self, Engine, Failure, Nop, RingUse, TargetKind};
use super::{Completion, Io, Job, Memory, Op, Opened, Opening, Queued, Reaper, Submitter, Wait, time_left};
use crate::options::Commit;
use entry::{Common, Entry, ReadWrite};
use flags::Flag;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::io_uring;
use refusal::Words;
use ring::{Handle, Ring, Waits};

pub static ENGINE: Engine = Engine {
    name: "io_uring",
    help: None,
    fio: &["io_uring"],
    target: TargetKind::File,
    ring: Some(RingUse { big_entries: false, iopoll_may_be_ignored: false }),
    nop: Nop::MovesNothing,
    completions: capabilities::Completions::Ring,
    completes_in_queue: false,
    one_in_flight: None,
    sleeps: true,
    synchronous_if_buffered: None,
    here: |circumstances| io_uring::ring(circumstances).map(|()| "a ring can be created".into()),
    remedy,
};

fn remedy(failure: &Failure) -> Option<&'static str> {
    match failure.errno {
        libc::EOPNOTSUPP if failure.iopoll => Some(
            "iopoll needs a device with poll queues (nvme.poll_queues=N, virtio_blk.poll_queues=N) and a file system that polls: omit iopoll",
        ),
        libc::EINVAL if !failure.has_target => {
            Some("the kernel rejects this operation with these flags; see `iotrail check`")
        }
        _ => None,
    }
}

/// The requested configuration of a ring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    pub setup: flags::Setup,
    /// Number of submission entries, which equals the depth.
    pub sq_entries: u32,
    pub sq_cpu: Option<u32>,
    pub sq_idle_ms: Option<u32>,
    pub register_files: bool,
    pub register_buffers: bool,
    pub register_ring: bool,
    /// Punts every request to io-wq (IOSQE_ASYNC).
    pub force_async: bool,
    pub waits: Waits,
    /// IORING_SETUP_SQE128 and IORING_SETUP_CQE32, as needed.
    pub big_entries: u32,
}

pub(crate) const BIG_ENTRIES: u32 = sys::IORING_SETUP_SQE128 | sys::IORING_SETUP_CQE32;

/// Sets up a ring with exactly the flags of `config` and no registrations; must be called on the submitting thread
/// (SINGLE_ISSUER). `words`: names of the user's options for error messages.
pub fn open_ring(config: &Config, words: &Words) -> Result<Ring> {
    let mut params = ring::params(config.setup.bits());
    // IORING_SETUP_CQSIZE is set only if a size was requested; without the flag, the kernel ignores the field.
    if let Some(n) = config.setup.cq_entries {
        params.cq_entries = n;
    }
    if let Some(cpu) = config.sq_cpu {
        params.flags |= sys::IORING_SETUP_SQ_AFF;
        params.sq_thread_cpu = cpu;
    }
    if let Some(ms) = config.sq_idle_ms {
        params.sq_thread_idle = ms;
    }
    params.flags |= config.big_entries;
    if config.waits.registered {
        params.flags |= sys::IORING_SETUP_R_DISABLED;
    }
    let asked = params.flags;
    let mut ring = Ring::open(config.sq_entries, params).map_err(|e| refusal::of_setup(config, words, e))?;
    refusal::not_granted(asked, &ring.params)?;
    for (used, feature, what, option) in [
        (config.waits.min_us > 0, sys::IORING_FEAT_MIN_TIMEOUT, "min_wait_usec", "--min-wait, or use Linux 6.12"),
        (
            config.waits.no_iowait,
            sys::IORING_FEAT_NO_IOWAIT,
            "IORING_ENTER_NO_IOWAIT",
            "--no-iowait, or use Linux 6.15",
        ),
    ] {
        if used && ring.params.features & feature == 0 {
            let remedy = format!("omit {option} or later");
            return Err(Error::machine(format!("this kernel does not support {what}"), remedy));
        }
    }
    if config.waits.registered {
        ring.register_waits().or_machine(
            "cannot register memory for wait arguments (requires Linux 6.13)",
            "remove wait from --register",
        )?;
    }
    Ok(ring)
}

/// Names of the setup flags that the kernel returned.
pub fn granted(config: &Config, ring: &Ring) -> Vec<String> {
    flags::names(ring.params.flags, config.setup.cq_entries.map(|_| ring.params.cq_entries))
}

pub fn open(at: &Opening) -> Result<Opened<Queue<ReadWrite>, Completions>> {
    open_for(at.ring, &at.job, ReadWrite(Common::new(at.ring, &at.job)))
}

/// A load's ring with all registrations of `config`; `entry` builds its requests.
fn open_for<E: Entry>(config: &Config, job: &Job, entry: E) -> Result<Opened<Queue<E>, Completions>> {
    let ring = Arc::new(open_ring(config, &refusal::LOAD)?);
    if config.register_files {
        let fd = job.fd.expect("resolve() refuses registered files without a target");
        // SAFETY: one live descriptor number.
        unsafe { ring.register(sys::io_uring_register_op::IORING_REGISTER_FILES, (&raw const fd).cast(), 1) }
            .map_err(|e| refusal::of_register("the target", config, &job.memory, e))?;
    }
    if config.register_buffers {
        register_buffers(&ring, &job.memory)
            .map_err(|e| refusal::of_register("the buffers", config, &job.memory, e))?;
    }
    let sqpoll = config.setup.has(Flag::Sqpoll);
    let handle = Handle::by_descriptor(&ring);
    let submitter = Queue {
        tail: ring.sq_tail().load(Ordering::Relaxed),
        taken: ring.sq_tail().load(Ordering::Relaxed),
        known_head: ring.sq_head().load(Ordering::Relaxed),
        entries: ring.params.sq_entries,
        entry,
        file: Common::new(config, job).file(),
        linked: job.commit == Commit::Linked,
        sqpoll,
        handle,
        register_ring: config.register_ring,
        syscalls: 0,
        ring: Arc::clone(&ring),
    };
    let reaper = Completions {
        head: ring.cq_head().load(Ordering::Relaxed),
        handle,
        register_ring: config.register_ring,
        look_enters: (config.setup.has(Flag::Iopoll) && !sqpoll)
            || (config.setup.has(Flag::DeferTaskrun) && !config.setup.has(Flag::TaskrunFlag)),
        block_bytes: job.memory.block_bytes as i32,
        waits: config.waits,
        syscalls: 0,
        ring: Arc::clone(&ring),
    };
    let granted = granted(config, &ring);
    let sq_tid = if sqpoll { sq_thread::of(ring.fd()) } else { None };
    Ok(Opened { submitter, reaper, granted, sq_tid })
}

/// One registered buffer per slot, so that a buffer's index is its slot.
fn register_buffers(ring: &Ring, memory: &Memory) -> io::Result<()> {
    let vectors: Vec<libc::iovec> = (0..memory.slots)
        .map(|slot| libc::iovec { iov_base: memory.address(slot).cast(), iov_len: memory.block_bytes as usize })
        .collect();
    // SAFETY: live vectors that refer to buffers which stay mapped at least until the ring is closed.
    unsafe { ring.register(sys::io_uring_register_op::IORING_REGISTER_BUFFERS, vectors.as_ptr().cast(), memory.slots) }
}

/// The submitting half.
pub struct Queue<E> {
    ring: Arc<Ring>,
    /// Private copy of the submission tail; ahead of the shared tail by the entries queued since the last `submit`.
    tail: u32,
    /// The tail up to which the kernel has consumed entries (with SQPOLL: up to which they were handed to its thread).
    taken: u32,
    /// The submission head as last read. It can only be behind the shared head, which is safe.
    known_head: u32,
    /// Number of submission entries; a power of two.
    entries: u32,
    entry: E,
    /// For fsyncs: the file's descriptor or index, and IOSQE_… flags.
    file: (i32, u8),
    /// A linked entry after each write makes it durable.
    linked: bool,
    sqpoll: bool,
    handle: Handle,
    register_ring: bool,
    syscalls: u64,
}

impl<E> Queue<E> {
    #[inline]
    fn has_space(&mut self, entries: u32) -> bool {
        let most = self.entries - entries;
        if self.tail.wrapping_sub(self.known_head) > most {
            // Acquire: the kernel reads an entry before it moves the head past it.
            self.known_head = self.ring.sq_head().load(Ordering::Acquire);
        }
        self.tail.wrapping_sub(self.known_head) <= most
    }
}

impl<E: Entry> Submitter for Queue<E> {
    fn start(&mut self) -> io::Result<()> {
        if self.register_ring {
            self.handle = Handle::by_index(&self.ring)?;
        }
        Ok(())
    }

    #[inline]
    fn queue(&mut self, io: &Io) -> Queued {
        let linked = self.linked && io.op == Op::Write;
        if !self.has_space(1 + u32::from(linked)) {
            return Queued::Busy;
        }
        // SAFETY: the entry is beyond the tail known to the kernel and within the ring, so this half owns it until the
        // tail passes it.
        unsafe { self.entry.fill(self.ring.sqe(self.tail), io) };
        if linked {
            let (write, next) = (self.ring.sqe(self.tail), self.ring.sqe(self.tail.wrapping_add(1)));
            // SAFETY: the queue has two free entries; the first was filled above.
            unsafe { entry::link_sync(write, next) };
            self.tail = self.tail.wrapping_add(1);
        }
        self.tail = self.tail.wrapping_add(1);
        Queued::Queued
    }

    fn sync(&mut self, data_only: bool) -> Queued {
        if !self.has_space(1) {
            return Queued::Busy;
        }
        let (fd, flags) = self.file;
        // SAFETY: the entry is beyond the tail known to the kernel and within the ring.
        unsafe { entry::fill_sync(self.ring.sqe(self.tail), fd, flags, 0, data_only) };
        self.tail = self.tail.wrapping_add(1);
        Queued::Queued
    }

    #[inline]
    fn submit(&mut self) -> io::Result<()> {
        // Release: the entries are written before the kernel can see the tail.
        self.ring.sq_tail().store(self.tail, Ordering::Release);
        if self.sqpoll {
            self.taken = self.tail;
            // The tail must be visible before the flag is read, otherwise each side could miss the other's update
            // (io_uring(7): a full barrier).
            fence(Ordering::SeqCst);
            if self.ring.sq_flags().load(Ordering::Relaxed) & sys::IORING_SQ_NEED_WAKEUP != 0 {
                self.syscalls += 1;
                self.handle.enter(0, 0, sys::IORING_ENTER_SQ_WAKEUP).map_err(io::Error::from_raw_os_error)?;
            }
            return Ok(());
        }
        while self.pending() > 0 {
            self.syscalls += 1;
            match self.handle.enter(self.pending(), 0, 0) {
                Ok(0) => break,
                Ok(taken) => self.taken = self.taken.wrapping_add(taken),
                Err(libc::EINTR) => {}
                // No memory for a request, or the CQ has overflowed: reap first.
                Err(libc::EAGAIN | libc::EBUSY) => break,
                Err(errno) => return Err(io::Error::from_raw_os_error(errno)),
            }
        }
        Ok(())
    }

    #[inline]
    fn pending(&self) -> u32 {
        self.tail.wrapping_sub(self.taken)
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }

    fn wakeups(&self) -> Option<u64> {
        // With SQPOLL, this half enters the kernel only for wake-ups.
        self.sqpoll.then_some(self.syscalls)
    }
}

/// The reaping half.
pub struct Completions {
    ring: Arc<Ring>,
    /// Private copy of the completion head; ahead of the shared head by the completions returned since the last
    /// `clear`.
    head: u32,
    handle: Handle,
    register_ring: bool,
    /// Whether an unsuccessful poll has to enter the kernel, according to the ring's flags.
    look_enters: bool,
    /// Size of a write, which is the result once its linked fsync completes.
    block_bytes: i32,
    waits: Waits,
    syscalls: u64,
}

impl Completions {
    /// Takes all available completions.
    #[inline]
    fn take(&mut self, out: &mut Vec<Completion>) -> u32 {
        // Acquire: the entries up to the tail have been written.
        let tail = self.ring.cq_tail().load(Ordering::Acquire);
        let room = (out.capacity() - out.len()) as u32;
        let count = tail.wrapping_sub(self.head).min(room);
        let (ring, head, block_bytes) = (&self.ring, self.head, self.block_bytes);
        out.extend((0..count).map(|i| {
            // SAFETY: between the head and a tail read with acquire ordering.
            let (slot, result, _) = unsafe { ring.cqe(head.wrapping_add(i)) };
            let result = if slot & entry::SYNC != 0 && result == 0 { block_bytes } else { result };
            Completion { slot: slot as u32, result }
        }));
        self.head = self.head.wrapping_add(count);
        count
    }

    /// Enters the kernel to run task work, poll the device or flush overflowed completions.
    fn get_events(&mut self) -> io::Result<()> {
        self.syscalls += 1;
        match self.handle.enter(0, 0, sys::IORING_ENTER_GETEVENTS) {
            Ok(_) | Err(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ETIME) => Ok(()),
            Err(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    fn peek(&mut self, mut missing: u32, deadline: Option<Instant>, out: &mut Vec<Completion>) -> io::Result<()> {
        let mut looks = 0u32;
        loop {
            let flags = self.ring.sq_flags().load(Ordering::Relaxed);
            if self.look_enters || flags & (sys::IORING_SQ_TASKRUN | sys::IORING_SQ_CQ_OVERFLOW) != 0 {
                self.clear(); // overflowed completions need space
                self.get_events()?;
            }
            missing = missing.saturating_sub(self.take(out));
            if missing == 0 {
                return Ok(());
            }
            std::hint::spin_loop();
            looks = looks.wrapping_add(1);
            // Reading the time in every iteration would slow down polling.
            if looks.is_multiple_of(8) && deadline.is_some_and(|d| Instant::now() >= d) {
                return Ok(());
            }
        }
    }

    fn block(&mut self, mut missing: u32, deadline: Option<Instant>, out: &mut Vec<Completion>) -> io::Result<()> {
        while missing > 0 {
            // The kernel counts from the shared head: completions that were already returned must not satisfy the wait.
            self.clear();
            let timeout = deadline.map(time_left);
            self.syscalls += 1;
            let enter = (0, missing, sys::IORING_ENTER_GETEVENTS);
            let end = self.ring.wait(self.handle, enter, self.waits, timeout.as_ref());
            let taken = self.take(out);
            missing = if self.waits.min_us > 0 && taken > 0 { 0 } else { missing.saturating_sub(taken) };
            match end {
                Ok(_) | Err(libc::EAGAIN | libc::EBUSY) => {}
                Err(libc::EINTR | libc::ETIME) => return Ok(()),
                Err(errno) => return Err(io::Error::from_raw_os_error(errno)),
            }
        }
        Ok(())
    }
}

impl Reaper for Completions {
    fn start(&mut self) -> io::Result<()> {
        if self.register_ring {
            self.handle = Handle::by_index(&self.ring)?;
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self, min: u32, wait: Wait, deadline: Option<Instant>, out: &mut Vec<Completion>) -> io::Result<()> {
        let taken = self.take(out);
        if taken >= min {
            return Ok(());
        }
        match wait {
            Wait::Peek => self.peek(min - taken, deadline, out),
            Wait::Block => self.block(min - taken, deadline, out),
        }
    }

    #[inline]
    fn clear(&mut self) {
        // Release: the entries are read before the kernel may overwrite them.
        self.ring.cq_head().store(self.head, Ordering::Release);
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }
}
