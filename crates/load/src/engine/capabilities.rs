//! The properties of an engine that the rest of the program uses: one [`Engine`] in each engine's file. Other code does
//! not distinguish engines.

use iotrail_host::refusal::{Circumstances, Refusal};

/// An engine's description. Every engine sets every field, so that a new engine has to decide on each.
#[derive(Debug)]
pub struct Engine {
    /// Name on the command line, in experiments and in stored measurements; never changed after a release.
    pub name: &'static str,
    /// The text in `--help` that follows the name.
    pub help: Option<&'static str>,
    /// Its names in fio; empty if fio has no such engine.
    pub fio: &'static [&'static str],
    pub target: TargetKind,
    /// `None` if it has no ring; then io_uring options are rejected.
    pub ring: Option<RingUse>,
    /// The effect of `--rw nop`.
    pub nop: Nop,
    pub completions: Completions,
    /// I/Os are complete when `queue` returns, so a reaper thread would have nothing to do.
    pub completes_in_queue: bool,
    /// The calls that allow only one I/O in flight per thread, by name; the depth is then 1.
    pub one_in_flight: Option<&'static str>,
    /// Whether it can wait in the kernel; if not, `--wait peek` is used.
    pub sleeps: bool,
    /// If set, a buffered submission waits for the data: code and text of the warning. Such an I/O has no completion
    /// event either.
    pub synchronous_if_buffered: Option<(&'static str, &'static str)>,
    /// Whether the engine is available on this machine, for `iotrail check`.
    pub here: fn(&Circumstances) -> Result<String, Refusal>,
    /// The remedy for this kind of failure; `None` for the general remedy.
    pub remedy: fn(&Failure) -> Option<&'static str>,
}

/// The kind of target that an engine uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    Nothing,
    /// A file, created if missing, or a block device.
    File,
    /// An NVMe namespace's generic character device.
    Generic,
    /// An entire drive, by PCI address.
    Drive,
}

impl TargetKind {
    /// Whether the target is not a file: never created, buffered, or in the page cache.
    pub fn is_past_files(self) -> bool {
        matches!(self, Self::Generic | Self::Drive)
    }

    /// How to specify a target, for the message if there is none.
    pub(crate) fn name_one(self) -> &'static str {
        match self {
            Self::Nothing | Self::File => "specify one with --file; with --size, a missing file is created",
            Self::Generic => "specify an NVMe generic device: --file /dev/ng0n1",
            Self::Drive => "specify a drive by its PCI address: --file 0000:00:04.0",
        }
    }
}

/// How an engine uses an io_uring ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingUse {
    /// Double-size entries (SQE128 and CQE32).
    pub big_entries: bool,
    /// The kernel accepts IOPOLL without poll queues but completes by interrupts, so this has to be rejected before the
    /// run.
    pub iopoll_may_be_ignored: bool,
}

/// Whether an engine has a no-op, and the result of a successful one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nop {
    Refused,
    /// The result is 0.
    MovesNothing,
    /// The result is the block size.
    MovesBlock,
}

/// Where probes can observe completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completions {
    /// In an io_uring ring.
    Ring,
    /// When native AIO completes an I/O.
    Aio,
    /// In pread64 and pwrite64 calls of helper threads.
    HelperCalls,
    /// In pread64 and pwrite64 calls of the load's own threads.
    OwnCalls,
    /// Nowhere in the kernel.
    Unseen,
}

/// How I/Os failed.
#[derive(Debug, Clone, Copy)]
pub struct Failure {
    pub errno: i32,
    /// The ring uses IOPOLL.
    pub iopoll: bool,
    pub has_target: bool,
}

/// For engines without remedies of their own.
pub(crate) fn no_other_remedy(_: &Failure) -> Option<&'static str> {
    None
}
