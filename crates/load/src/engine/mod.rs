//! I/O interfaces behind a common contract: one file (or directory) each.
//!
//! An engine's file has `ENGINE`, its properties ([`Engine`]), and `open`, which takes an [`Opening`] and returns both
//! halves ([`Opened`]). `registry` has one line per engine. All other code reads an engine's properties from its
//! `ENGINE`.
//!
//! An engine is opened once per job. It has two halves, so that the reaping half can run on a separate thread:
//!
//! | hook | half | required | called by | how often |
//! |---|---|---|---|---|
//! | [`Submitter::start`] | submitting | no | the submitting thread | once, before the first `queue` |
//! | [`Submitter::queue`] | submitting | yes | the submitting thread | once per I/O |
//! | [`Submitter::sync`] | submitting | no | the submitting thread | once per batch, if the load commits by batch |
//! | [`Submitter::submit`] | submitting | no | the submitting thread | once per batch; again while `pending` is not 0 |
//! | [`Reaper::start`] | reaping | no | the reaping thread | once, before the first `poll` |
//! | [`Reaper::poll`] | reaping | yes | the reaping thread | until every queued I/O was returned |
//! | [`Reaper::clear`] | reaping | no | the reaping thread | once after each `poll` that returned completions |
//!
//! The submitting thread calls `open` itself, because a ring with SINGLE_ISSUER belongs to the thread that set it up.
//! After `queue`, an I/O is *completed*, *queued* or *busy* ([`Queued`]).
//!
//! **Memory.** The load owns the buffers ([`Memory`]) and keeps them mapped until every I/O is reaped; if it cannot
//! reap (because an engine failed), it leaks them. Slot `s` has the bytes `s * stride .. s * stride + block_bytes`; the
//! kernel owns them from `queue` until `poll` returns the completion.

pub mod capabilities;
pub mod io_uring;
pub mod libaio;
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
pub use crate::options::Wait;
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

/// An I/O: `op` on the target's block at `offset`, with the buffer of `slot`.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    pub op: Op,
    /// Below the depth; not used by any other I/O in flight.
    pub slot: u32,
    /// Byte offset in the target.
    pub offset: u64,
}

/// State of an I/O after [`Submitter::queue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    /// The I/O is complete, with a result as in [`Completion::result`]. `poll` does not return it.
    Completed(i32),
    /// `submit` will pass the I/O to the kernel, and `poll` will return it.
    Queued,
    /// The queue is full: call `submit` and `poll`, then queue the I/O again.
    Busy,
}

/// The completion of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    pub slot: u32,
    /// Bytes transferred, or a negated errno or drive status ([`nvme::status`]).
    pub result: i32,
}

/// The submitting half. All hooks are called on the same thread.
pub trait Submitter: Send {
    /// Per-thread setup, for example of a registered ring descriptor.
    fn start(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn queue(&mut self, io: &Io) -> Queued;

    /// Makes all reaped writes durable; with `data_only` like fdatasync(2). Called with nothing in flight. If it
    /// returns `Queued`, `poll` returns one completion for it, without a slot.
    fn sync(&mut self, _data_only: bool) -> Queued {
        Queued::Completed(-libc::EOPNOTSUPP)
    }

    /// Submits the queued I/Os. An `Err` is final: the interface is broken. I/Os that the kernel cannot accept yet stay
    /// queued and count in `pending`.
    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// I/Os queued but not yet accepted by the kernel.
    fn pending(&self) -> u32 {
        0
    }

    /// System calls of this half so far; `None` if a library makes them.
    fn syscalls(&self) -> Option<u64>;

    /// Those of the system calls that woke the kernel thread which submits for this half; `None` without such a thread.
    fn wakeups(&self) -> Option<u64> {
        None
    }
}

/// The reaping half. All hooks are called on one thread, which may be the submitting thread.
pub trait Reaper: Send {
    /// Per-thread setup.
    fn start(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Appends completions to `out`, never beyond its capacity. Returns once at least `min` were appended, `deadline`
    /// has passed, or (if blocking) a signal arrived. With `min` 0 it takes the available completions without waiting
    /// and without a system call. The caller guarantees that at least `min` I/Os are in flight.
    fn poll(&mut self, min: u32, wait: Wait, deadline: Option<Instant>, out: &mut Vec<Completion>) -> io::Result<()>;

    /// Returns the ring slots of completions that `poll` returned to the kernel.
    fn clear(&mut self) {}

    /// System calls of this half so far; `None` if a library makes them.
    fn syscalls(&self) -> Option<u64>;
}

/// A job's buffers, one per slot.
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

// SAFETY: an address and sizes; the contract in the module documentation defines who may access the bytes, and when.
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
    /// The target, which stays open as long as the halves exist; `None` for an engine or operation without a target.
    pub fd: Option<RawFd>,
    /// I/Os per submission.
    pub batch: u32,
    /// How writes are made durable.
    pub commit: Commit,
}

/// How a target without files is accessed.
pub enum Passage {
    /// Commands are passed through the kernel.
    Generic(Namespace),
    /// Commands bypass the kernel.
    Own(Arc<Controller>),
}

/// Parameters for opening an engine.
pub struct Opening<'a> {
    pub engine: &'static Engine,
    pub job: Job,
    /// The ring's configuration; ignored by engines without a ring.
    pub ring: &'a io_uring::Config,
    /// For a target without files.
    pub passage: Option<&'a Passage>,
}

impl Opening<'_> {
    /// The target's descriptor, for an engine that requires one.
    pub fn target(&self) -> Result<RawFd> {
        self.job.fd.ok_or_else(|| self.no_target())
    }

    pub(crate) fn no_target(&self) -> Error {
        Error::input(format!("--engine {} needs a target", self.engine.name), "specify one with --file")
    }
}

/// An open engine.
pub struct Opened<S, R> {
    pub submitter: S,
    pub reaper: R,
    /// Names of the setup flags that the kernel returned.
    pub granted: Vec<String>,
    /// Thread ID of the SQPOLL thread; `None` if there is none or it is unknown.
    pub sq_tid: Option<i32>,
}

impl<S, R> Opened<S, R> {
    /// For an engine without a ring.
    pub(crate) fn ringless(submitter: S, reaper: R) -> Self {
        Self { submitter, reaper, granted: Vec::new(), sq_tid: None }
    }
}

/// Uses an open engine. Compiled for each engine, so that I/Os need no indirect calls.
pub trait Drive {
    type Outcome;

    fn drive<S: Submitter, R: Reaper>(self, opened: Opened<S, R>) -> Result<Self::Outcome>;
}

/// errno after the last libc call, as an error.
pub fn last_error() -> io::Error {
    io::Error::last_os_error()
}

/// Time left until `deadline` as a timespec; zero if the deadline has passed.
pub(crate) fn time_left(deadline: Instant) -> libc::timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    libc::timespec { tv_sec: left.as_secs() as libc::time_t, tv_nsec: left.subsec_nanos().into() }
}
