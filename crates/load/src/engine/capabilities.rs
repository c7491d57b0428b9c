//! Properties of an engine for the rest of the program: one [`Engine`] per engine's file. Other code does not distinguish engines.

use iotrail_host::refusal::{Circumstances, Refusal};

/// The description of an engine. Every engine sets every field, so that a new one has to decide each.
#[derive(Debug)]
pub struct Engine {
    /// On the command line, in experiments and in stored measurements: never changed once released.
    pub name: &'static str,
    /// The text of `--help` after the name.
    pub help: Option<&'static str>,
    /// Its names in fio; none if fio has no such engine.
    pub fio: &'static [&'static str],
    pub target: TargetKind,
    /// `None`: it has no ring, so io_uring's options are refused.
    pub ring: Option<RingUse>,
    /// The effect of `--rw nop`.
    pub nop: Nop,
    pub completions: Completions,
    /// Its I/Os are complete when `queue` returns, so a reaper thread would have nothing to do.
    pub completes_in_queue: bool,
    /// The calls that have one I/O in flight per thread, by name: the depth is 1 then.
    pub one_in_flight: Option<&'static str>,
    /// It can wait in the kernel; otherwise `--wait peek` is used.
    pub sleeps: bool,
    /// Through the page cache its submission waits for the data: code and text of the warning. Such an I/O has no completion
    /// event either.
    pub synchronous_if_buffered: Option<(&'static str, &'static str)>,
    /// Whether it is available on this machine, for `iotrail check`.
    pub here: fn(&Circumstances) -> Result<String, Refusal>,
    /// Remedy if I/Os fail in this way; `None`: the common remedy.
    pub remedy: fn(&Failure) -> Option<&'static str>,
}

/// The target of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    Nothing,
    /// A file, which is created if it is missing, or a block device.
    File,
    /// An NVMe namespace's generic character device.
    Generic,
    /// A whole drive, by its PCI address.
    Drive,
}

impl TargetKind {
    /// It is not a file: never created or buffered, and not in the page cache.
    pub fn is_past_files(self) -> bool {
        matches!(self, Self::Generic | Self::Drive)
    }

    /// How to name one where none was named.
    pub(crate) fn name_one(self) -> &'static str {
        match self {
            Self::Nothing | Self::File => "name one with --file; a missing file is made with --size",
            Self::Generic => "name a namespace's generic device: --file /dev/ng0n1",
            Self::Drive => "name a drive by its PCI address: --file 0000:00:04.0",
        }
    }
}

/// How an engine uses a ring of io_uring's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingUse {
    /// Entries of twice the size (SQE128 and CQE32).
    pub big_entries: bool,
    /// The kernel takes IOPOLL without poll queues, and completes by interrupts: that has to be refused before it runs.
    pub iopoll_may_be_ignored: bool,
}

/// A no-op, and the result of one that succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nop {
    Refused,
    /// 0.
    MovesNothing,
    /// The block size.
    MovesBlock,
}

/// Where its completions can be seen by probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completions {
    /// In a ring of io_uring's.
    Ring,
    /// At the end of native aio's I/O.
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
    /// The ring polls.
    pub iopoll: bool,
    pub has_target: bool,
}

/// For an engine without remedies of its own.
pub(crate) fn no_other_remedy(_: &Failure) -> Option<&'static str> {
    None
}
