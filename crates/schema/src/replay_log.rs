//! The additional contents of a recording with `--for-replay`: each call that submits or waits, each request with its file offset,
//! and each synchronous read, write and sync of the same program. `watch::recording` stores it and `replay` reads it.

use serde::{Deserialize, Serialize};

/// One fact of the recorded program. Events of one thread are in order of time; those of different threads nearly so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayEvent {
    /// A file, before the first event that names it.
    File(ReplayFile),
    /// An io_uring instance or a native-aio context, before the first event that names it.
    Ring(ReplayRing),
    /// One request. It precedes the call that submitted it.
    Request(ReplayRequest),
    /// One io_uring_enter, io_submit or io_getevents, at its return.
    Call(ReplayCall),
    /// One synchronous read, write or sync, at its return.
    Sync(ReplaySync),
    /// Events that were lost up to here: the replay cannot guarantee their counts.
    Lost {
        /// Lower bound of the number of lost events.
        events: u64,
    },
}

/// A file that requests or synchronous calls used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayFile {
    /// The number by which events refer to it.
    pub file: u32,
    /// The path from /proc, or a replacement (`--anonymise`).
    pub path: String,
    /// A regular file or a block device; others are counted and not replayed.
    pub replayable: bool,
    /// open(2) flags from fdinfo, without creation flags.
    pub open_flags: u32,
    /// Its size when it was first used, in bytes.
    pub size: u64,
}

/// The interface through which a request was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayInterface {
    /// An io_uring instance.
    IoUring,
    /// An io_setup(2) context.
    NativeAio,
    /// aio_read(3) and its family.
    PosixAio,
}

/// An io_uring instance or a native-aio context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayRing {
    /// The number by which events refer to it.
    pub ring: u32,
    /// Its interface.
    pub interface: ReplayInterface,
    /// Entries of the submission queue or of the context.
    pub sq_entries: u32,
    /// Entries of the completion queue; 0: a context.
    pub cq_entries: u32,
    /// Granted IORING_SETUP_… flags.
    pub setup_flags: u32,
}

/// The operation of a request, common to all interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayOp {
    /// A read.
    Read,
    /// A write.
    Write,
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
    /// sync_file_range(2).
    SyncFileRange,
    /// fallocate(2).
    Fallocate,
    /// IORING_OP_NOP.
    Nop,
    /// Any other request. It is counted and not replayed.
    Other,
}

/// One request of a ring or context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayRequest {
    /// The submitting thread.
    pub tid: u32,
    /// The ring's number.
    pub ring: u32,
    /// When the kernel accepted it, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Its operation.
    pub op: ReplayOp,
    /// The kernel's opcode (IORING_OP_…, IOCB_CMD_…).
    pub opcode: u8,
    /// IOSQE_… flags (link, hardlink, drain, async, skip); 0 for a context.
    pub sqe_flags: u8,
    /// Number of the file; absent: none, or a file that is not replayed.
    pub file: Option<u32>,
    /// Offset in bytes; u64::MAX: the file's position.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// Index of the registered buffer; absent: none.
    pub buffer: Option<u16>,
    /// RWF_… flags of a read or write, IORING_FSYNC_… of a sync.
    pub op_flags: u32,
    /// Completions of this ring that the program had reaped when it submitted: the CQ head, in 64 bits. Completions of requests from
    /// before the recording do not count.
    pub reaped: u64,
}

/// The call of a [`ReplayCall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayCallKind {
    /// io_uring_enter(2).
    Enter,
    /// io_submit(2), and lio_listio(3) or aio_read(3) for POSIX AIO.
    Submit,
    /// io_getevents(2) and io_pgetevents(2).
    GetEvents,
}

/// One call that submits or waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayCall {
    /// The calling thread.
    pub tid: u32,
    /// The ring's number.
    pub ring: u32,
    /// The kind of call.
    pub kind: ReplayCallKind,
    /// Its entry, CLOCK_MONOTONIC.
    pub enter_ns: u64,
    /// Its return, CLOCK_MONOTONIC.
    pub exit_ns: u64,
    /// The thread's CPU time since its previous call, excluding that of the probes. 0 for a thread's first call.
    pub think_ns: u64,
    /// Requests to submit.
    pub to_submit: u32,
    /// Completions to wait for.
    pub min_complete: u32,
    /// IORING_ENTER_… flags.
    pub flags: u32,
    /// Its result, or a negative errno.
    pub result: i32,
    /// Completions of this ring that the program had reaped at the entry, as in [`ReplayRequest`].
    pub reaped: u64,
    /// Reaped completions of requests with a linked successor. Absent if the ring had no linked request or was not tracked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads_reaped: Option<u64>,
}

/// A synchronous read, write or sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaySync {
    /// The calling thread.
    pub tid: u32,
    /// Its entry, CLOCK_MONOTONIC.
    pub enter_ns: u64,
    /// Its return, CLOCK_MONOTONIC.
    pub exit_ns: u64,
    /// As in [`ReplayCall`].
    pub think_ns: u64,
    /// Its operation.
    pub op: ReplayOp,
    /// Number of the file; absent: a file that is not replayed.
    pub file: Option<u32>,
    /// Offset in bytes; u64::MAX: the file's position.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// RWF_… flags.
    pub op_flags: u32,
    /// Its result, or a negative errno.
    pub result: i64,
}
