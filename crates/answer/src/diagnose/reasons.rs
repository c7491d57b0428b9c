//! Reasons why threads block: their kinds, and their names in sentences.

use iotrail_schema::account::Reason;

/// The event that ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waits {
    Storage,
    Peer,
    Other,
}

pub fn waits_for(reason: &Reason) -> Waits {
    use Reason::*;
    match reason {
        reason if is_of_storage(reason) => Waits::Storage,
        SocketData | SocketSpace | Accept | Connect | PipeEmpty | PipeFull | Fifo | Linger | Epoll | Poll
        | Terminal => Waits::Peer,
        _ => Waits::Other,
    }
}

/// Not an I/O wait: process exit, signals or a debugger.
pub fn is_apart(reason: &Reason) -> bool {
    use Reason::*;
    matches!(
        reason,
        UringTeardown | UringSetup | Child | Signal | CpuQuota | Exit | Stopped | Ptrace | Frozen | Woken | Preempted
    )
}

/// A wait for completions, as opposed to a blocked submission.
pub fn is_wait(reason: &Reason) -> bool {
    matches!(reason, Reason::UringCompletions | Reason::UringSqSpace | Reason::AioEvents)
}

/// A wait for a disk or a file system, not for a peer.
pub fn is_of_storage(reason: &Reason) -> bool {
    use Reason::*;
    matches!(
        reason,
        RequestTag
            | QueueQos
            | CgroupIoLimit
            | QueueFrozen
            | DeviceFlush
            | SynchronousBio
            | JournalCommit
            | JournalSpace
            | DirtyPages
            | Writeback
            | PageIo
            | MetadataIo
            | DirectIo
            | InodeDio
            | RwSemaphore
            | FilePosition
            | FuseServer
            | NfsServer
            | NinePServer
    )
}

/// The reason as a phrase.
pub fn name(reason: &Reason) -> String {
    use Reason::*;
    let words = match reason {
        RequestTag => "a free request tag (nr_requests are in flight)",
        QueueQos => "the block queue's latency control (wbt, io.cost or io.latency)",
        CgroupIoLimit => "the cgroup's io.max",
        QueueFrozen => "the block queue, which is frozen",
        DeviceFlush => "a flush of the device's cache",
        SynchronousBio => "synchronous block I/O",
        JournalCommit => "a journal commit of the file system",
        JournalSpace => "the file system's journal",
        DirtyPages => "the dirty page limit",
        Writeback => "the writeback of dirty pages",
        PageIo => "a page read or a page lock",
        MetadataIo => "the file system's metadata",
        DirectIo => "its own direct I/O",
        InodeDio => "the end of the file's direct I/O",
        RwSemaphore => "a kernel rw_semaphore, usually the file's lock",
        MmapLock => "the lock of the address space",
        Mutex => "a kernel mutex",
        CgroupReclaim => "memory within the cgroup's memory.max or memory.high",
        Reclaim => "free memory",
        SwapIn => "a page from swap",
        FuseServer => "a FUSE server",
        NfsServer => "the NFS server",
        NinePServer => "a 9p server",
        SocketData => "a peer's data",
        SocketSpace => "space in the send buffer",
        PipeEmpty => "data in a pipe",
        PipeFull => "space in a pipe",
        Futex => "a futex",
        Lock => "a lock of the program",
        Sleep => "a sleep",
        Epoll | Poll => "events",
        UringCompletions | AioEvents => "completions",
        Accept => "connections",
        Fifo => "the other end of a FIFO",
        FileLock => "a lock on a file",
        FilePosition => "the descriptor's file position, which other threads use",
        Linger => "the peer to take the unsent data (SO_LINGER)",
        Child => "a child process",
        Timer => "a timerfd",
        EventFd => "an eventfd",
        Signal => "a signal",
        Exit => "the exit of the process",
        Function(function) => return format!("{function}()"),
        other => {
            let json = serde_json::to_value(other).ok();
            return json.and_then(|v| Some(v.as_str()?.replace('_', " "))).unwrap_or_default();
        }
    };
    words.into()
}
