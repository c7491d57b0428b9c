//! I/O interfaces with one contract: one file (or directory) each.
//!
//! An engine's file has `ENGINE`, its properties ([`Engine`]), and `open`, which takes an [`Opening`] and returns both halves
//! ([`Opened`]). `registry` has one line for each. All other code reads properties of an engine from its `ENGINE`.
//!
//! An engine is opened once per job and has two halves, so that the reaping half can move to another thread:
//!
//! | hook | half | required | called by | how often |
//! |---|---|---|---|---|
//! | [`Submitter::start`] | submitting | no | the submitting thread | once, before the first `queue` |
//! | [`Submitter::queue`] | submitting | yes | the submitting thread | once per I/O |
//! | [`Submitter::sync`] | submitting | no | the submitting thread | once per batch of a load that commits so |
//! | [`Submitter::submit`] | submitting | no | the submitting thread | once per batch; again while `pending` is not 0 |
//! | [`Reaper::start`] | reaping | no | the reaping thread | once, before the first `poll` |
//! | [`Reaper::poll`] | reaping | yes | the reaping thread | until every queued I/O was returned |
//! | [`Reaper::clear`] | reaping | no | the reaping thread | once after each `poll` that returned completions |
//!
//! The submitting thread calls `open` itself: a ring with SINGLE_ISSUER belongs to the thread that set it up.
//! After `queue` an I/O is *completed*, *queued* or *busy* ([`Queued`]).
//!
//! **Memory.** The load owns the buffers ([`Memory`]) and keeps them mapped until every I/O was reaped; if it cannot
//! reap (an engine failed) it leaks them. Slot `s` has bytes `s * stride .. s * stride + block_bytes`; from
//! `queue` until `poll` returns its completion the kernel owns them.

pub mod capabilities;
pub mod io_uring;
pub(crate) mod libaio;
pub(crate) mod null;
pub(crate) mod nvme;
pub(crate) mod posix_aio;
pub(crate) mod registry;
pub(crate) mod sync;

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use crate::options::Commit;
use capabilities::Engine;
use iotrail_base::error::{Error, Result};
use nvme::identify::Namespace;
use nvme::user::Controller;

/// The operation of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Read,
    Write,
    /// io_uring's no-op.
    Nop,
}

/// One I/O: `op` on the target's block at `offset`, with the buffer of `slot`.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    pub op: Op,
    /// Below the depth; not in use by another I/O in flight.
    pub slot: u32,
    /// Bytes from the start of the target.
    pub offset: u64,
}

/// State of an I/O after [`Submitter::queue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    /// It is done; the result as in [`Completion::result`]. `poll` will not hand it out.
    Completed(i32),
    /// It will be handed over by `submit` and handed out by `poll`.
    Queued,
    /// The queue is full: `submit` and `poll` first, then queue it again.
    Busy,
}

/// The end of one I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    pub slot: u32,
    /// Bytes moved, or negated an errno or a drive's status ([`nvme::status`]).
    pub result: i32,
}

/// How [`Reaper::poll`] waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// In the kernel.
    Block,
    /// By looking from user mode, with no system call but those that the interface demands.
    Peek,
}

/// The submitting half. All hooks are called by one thread.
pub trait Submitter: Send {
    /// Setup of the calling thread (a registered ring descriptor, for example).
    fn start(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn queue(&mut self, io: &Io) -> Queued;

    /// Makes all reaped writes durable; with `data_only` as fdatasync(2) does. Called with nothing in flight. `Queued`: `poll`
    /// returns one completion for it, of no slot.
    fn sync(&mut self, _data_only: bool) -> Queued {
        Queued::Completed(-libc::EOPNOTSUPP)
    }

    /// Submits the queued I/Os. An `Err` is final: the interface is broken. I/Os that the kernel cannot accept at present
    /// stay queued and count in `pending`.
    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// I/Os queued and not taken by the kernel yet.
    fn pending(&self) -> u32 {
        0
    }

    /// System calls of this half so far; `None` if another library makes them.
    fn syscalls(&self) -> Option<u64>;

    /// Of these, the calls that woke a kernel thread which submits for this half; `None`: no such thread.
    fn wakeups(&self) -> Option<u64> {
        None
    }
}

/// The reaping half. All hooks are called by one thread, the submitting one or another.
pub trait Reaper: Send {
    /// Setup of the calling thread.
    fn start(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Appends completions to `out`, never beyond its capacity, and returns once at least `min` were appended, or
    /// `deadline` has passed, or (blocking) a signal arrived. With `min` 0 it takes the available completions without waiting
    /// and without a system call. The caller guarantees that at least `min` I/Os are in flight.
    fn poll(&mut self, min: u32, wait: Wait, deadline: Option<Instant>, out: &mut Vec<Completion>) -> io::Result<()>;

    /// Gives the ring slots of the completions handed out back to the kernel.
    fn clear(&mut self) {}

    /// System calls of this half so far; `None` if another library makes them.
    fn syscalls(&self) -> Option<u64>;
}

/// The buffers of one job, one per slot.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub base: NonNull<u8>,
    /// Distance between two buffers; a multiple of the page size.
    pub stride: usize,
    /// Bytes per I/O.
    pub block_bytes: u32,
    /// Number of buffers.
    pub slots: u32,
}

// SAFETY: an address and sizes; who may touch the bytes, and when, is the contract's (module doc).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Address of a slot's buffer.
    #[inline]
    pub fn address(&self, slot: u32) -> *mut u8 {
        debug_assert!(slot < self.slots);
        self.base.as_ptr().wrapping_add(slot as usize * self.stride)
    }
}

/// Parameters that every engine needs to open.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    pub memory: Memory,
    /// The target, open for as long as the halves live; `None` for an engine or operation without one.
    pub fd: Option<RawFd>,
    /// I/Os per submission.
    pub batch: u32,
    /// Method to make a write durable.
    pub commit: Commit,
}

/// How a target that is not reached through files is reached.
pub enum Passage {
    /// Commands through the kernel.
    Generic(Namespace),
    /// Without it.
    Own(Arc<Controller>),
}

/// Parameters of opening an engine.
pub struct Opening<'a> {
    pub engine: &'static Engine,
    pub job: Job,
    /// Configuration of the ring; other engines have none.
    pub ring: &'a io_uring::Config,
    /// For a target without files.
    pub passage: Option<&'a Passage>,
}

impl Opening<'_> {
    /// The target's descriptor, for an engine that cannot do without.
    pub fn target(&self) -> Result<RawFd> {
        self.job.fd.ok_or_else(|| self.no_target())
    }

    pub(crate) fn no_target(&self) -> Error {
        Error::input(format!("--engine {} needs a target", self.engine.name), "name one with --file")
    }
}

/// An open engine.
pub struct Opened<S, R> {
    pub submitter: S,
    pub reaper: R,
    /// Names of the setup flags that the kernel's answer holds.
    pub granted: Vec<String>,
    /// Thread ID of the SQPOLL thread; `None` without one, or if not known.
    pub sq_tid: Option<i32>,
}

impl<S, R> Opened<S, R> {
    /// For an engine without a ring.
    pub(crate) fn ringless(submitter: S, reaper: R) -> Self {
        Self { submitter, reaper, granted: Vec::new(), sq_tid: None }
    }
}

/// The user of an open engine. Compiled per engine, so that I/Os do not need an indirect call.
pub trait Drive {
    type Outcome;

    fn drive<S: Submitter, R: Reaper>(self, opened: Opened<S, R>) -> Result<Self::Outcome>;
}

/// The errno of the last call of libc, as an error.
pub fn last_error() -> io::Error {
    io::Error::last_os_error()
}

/// The time left until `deadline` as the kernel takes it; zero if it has passed.
pub(crate) fn time_left(deadline: Instant) -> libc::timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    libc::timespec { tv_sec: left.as_secs() as libc::time_t, tv_nsec: left.subsec_nanos().into() }
}
