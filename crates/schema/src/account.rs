//! The time account: the wall time of every traced thread and the latency of all requests, each divided into rows that sum to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::runnable::HadCpu;
use crate::syscall::{self, Work};

/// `account` of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Traced threads, SQPOLL threads and io-wq workers, longest wall time first.
    pub threads: Vec<ThreadAccount>,
    /// Number of unlisted threads.
    #[serde(default)]
    pub more_threads: u64,
    /// Null: no request was traced end to end.
    pub requests: Option<RequestAccount>,
    /// Blocked time of the listed threads that counts as iowait; null if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iowait: Option<Iowait>,
}

/// Blocked time that the kernel counts as iowait while the CPU is idle (`in_iowait`). It is idle time, not load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iowait {
    /// Sum over the listed threads.
    pub ns: u64,
    /// Part of `ns` spent waiting for completions in io_uring_enter; IORING_ENTER_NO_IOWAIT eliminates it.
    pub enter_ns: u64,
    /// The kernel has IORING_FEAT_NO_IOWAIT (Linux 6.15). Null: iotrail could not create a ring.
    pub no_iowait_available: Option<bool>,
}

impl Account {
    /// The program's threads, excluding SQPOLL threads and io-wq workers.
    pub fn own_threads(&self) -> impl Iterator<Item = &ThreadAccount> {
        self.threads.iter().filter(|thread| thread.role == Role::Thread)
    }

    /// The program's threads without those that slept nearly all their time; all threads if all of them slept. If the
    /// program has asynchronous requests, threads that submit none also count as idle if they lived for a short time.
    pub fn active_threads(&self) -> Vec<&ThreadAccount> {
        let submits = |thread: &ThreadAccount| thread.rows.iter().any(ThreadRow::is_asynchronous);
        let events = self.own_threads().any(submits);
        let longest = self.own_threads().map(|thread| thread.wall_ns).max().unwrap_or(0);
        let slept = |thread: &&ThreadAccount| {
            let sleeps = thread.asleep(events) >= if events { SLEEPS_BESIDES } else { SLEEPS };
            !submits(thread) && (sleeps || events && (thread.wall_ns as f64) < SHORT * longest as f64)
        };
        let (slept, active): (Vec<_>, Vec<_>) = self.own_threads().partition(slept);
        if active.is_empty() { slept } else { active }
    }
}

/// Minimum share of its time that an idle thread sleeps.
const SLEEPS: f64 = 0.95;
/// The same if other threads submit asynchronous requests: this thread only starts and waits for them.
const SLEEPS_BESIDES: f64 = 0.8;
/// Lifetime of a short-lived thread, relative to the longest.
const SHORT: f64 = 0.01;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadAccount {
    /// Thread ID.
    pub tid: u32,
    /// Process ID.
    pub tgid: u32,
    /// Thread name.
    pub comm: String,
    /// The kind of thread.
    pub role: Role,
    /// Time from the later of the thread's and the trace's start to the earlier of their ends.
    pub wall_ns: u64,
    /// CPU time in this period according to `sum_exec_runtime`, for checking the running rows. Null: not read.
    pub cpu_ns: Option<u64>,
    /// Number of CPUs on which the thread may run; null: not read.
    #[serde(default)]
    pub cpus: Option<u32>,
    /// The CPU, if the thread may run on only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_cpu: Option<u32>,
    /// Scheduling policy, such as `SCHED_IDLE`; null: SCHED_NORMAL (SCHED_OTHER), or not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Nice value; null: 0, not used by the policy, or not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// Blocked time that counts as iowait while the CPU is idle: the sum of the rows' `iowait_ns`.
    #[serde(default)]
    pub iowait_ns: u64,
    /// Rows that sum to `wall_ns`.
    pub rows: Vec<ThreadRow>,
    /// Threads that had the CPU while this thread was runnable, longest first, without short waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_had: Vec<HadCpu>,
}

impl ThreadAccount {
    /// Share of its time, without waits for a CPU, in which the thread waited without doing I/O. `events`: includes waits for events, which are a
    /// peer's data in a program without asynchronous requests.
    fn asleep(&self, events: bool) -> f64 {
        let sleeps = |row: &&ThreadRow| match &row.reason {
            Some(Reason::Sleep | Reason::Futex | Reason::Child | Reason::Signal | Reason::Timer) => true,
            Some(Reason::Poll | Reason::Epoll | Reason::EventFd) => events,
            _ => false,
        };
        let ns: u64 = self.rows.iter().filter(sleeps).map(|row| row.ns).sum();
        // Other programs can prolong its waits for a CPU.
        let with_cpu_ns = self.wall_ns.saturating_sub(self.ns_in(ThreadState::Runnable));
        ns as f64 / with_cpu_ns.max(1) as f64
    }

    /// Time in one state.
    pub fn ns_in(&self, state: ThreadState) -> u64 {
        self.rows.iter().filter(|row| row.state == state).map(|row| row.ns).sum()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A thread of the program.
    #[default]
    Thread,
    /// The SQPOLL thread of a ring.
    Sqpoll,
    /// An io-wq worker.
    Iowq,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// The state of the thread.
    pub state: ThreadState,
    /// User or kernel mode; only for running time, if the mode is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The system call that the thread was in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syscall: Option<String>,
    /// Why the thread was blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Total time.
    pub ns: u64,
    /// Part of `ns` with `in_iowait` set. Omitted if 0.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub iowait_ns: u64,
    /// Longest single occurrence; null: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_ns: Option<u64>,
    /// Number of occurrences; null: not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// False if more than 1 % of it is divided according to samples.
    pub exact: bool,
}

impl ThreadRow {
    /// Exact time in a state, with no other fact known.
    pub fn new(state: ThreadState, ns: u64) -> Self {
        let (mode, syscall, reason) = (None, None, None);
        ThreadRow { state, mode, syscall, reason, ns, iowait_ns: 0, longest_ns: None, count: None, exact: true }
    }

    /// A wait for completions in io_uring_enter.
    pub fn is_completion_wait(&self) -> bool {
        self.reason == Some(Reason::UringCompletions)
    }

    /// In a call that submits or reaps asynchronous requests.
    fn is_asynchronous(&self) -> bool {
        let call = self.syscall.as_deref().and_then(syscall::find);
        call.is_some_and(|call| call.work == Some(Work::Submits)) || self.reason == Some(Reason::AioEvents)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadState {
    /// On a CPU.
    Running,
    /// Runnable, waiting for a CPU.
    Runnable,
    /// Throttled by the cgroup's CPU quota.
    Throttled,
    /// Asleep.
    Blocked,
    /// iotrail did not see its context switches.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In user mode.
    User,
    /// In the kernel.
    Kernel,
}

/// Why a thread is blocked, determined from the functions on its kernel stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A free request tag: `nr_requests` requests are in flight.
    RequestTag,
    /// Throttling by wbt, iocost or iolatency.
    QueueQos,
    /// The cgroup's io.max.
    CgroupIoLimit,
    /// The block queue to be unfrozen after a settings change.
    QueueFrozen,
    /// A device cache flush.
    DeviceFlush,
    /// A bio for which the kernel is waiting.
    SynchronousBio,
    /// A file system journal commit.
    JournalCommit,
    /// Free space in the file system journal.
    JournalSpace,
    /// The dirty page limit.
    DirtyPages,
    /// Writeback of dirty pages.
    Writeback,
    /// A page that is locked or being read.
    PageIo,
    /// A file system metadata block.
    MetadataIo,
    /// Its own direct I/O to complete.
    DirectIo,
    /// All direct I/O of the inode to complete.
    InodeDio,
    /// A read-write semaphore.
    RwSemaphore,
    /// The mmap lock.
    MmapLock,
    /// A mutex.
    Mutex,
    /// The cgroup's memory.max or memory.high.
    CgroupReclaim,
    /// Free memory on the machine.
    Reclaim,
    /// A page to be swapped in.
    SwapIn,
    /// Completions, in io_uring_enter; with IORING_SETUP_HYBRID_IOPOLL, the sleep before polling.
    UringCompletions,
    /// A free SQ entry (SQPOLL).
    UringSqSpace,
    /// The start of a ring's SQPOLL thread.
    UringSetup,
    /// Completion of a ring's requests.
    UringTeardown,
    /// The SQPOLL thread has nothing to submit.
    SqpollIdle,
    /// The io-wq worker has no work.
    IowqIdle,
    /// io_getevents(2).
    AioEvents,
    /// epoll_wait(2).
    Epoll,
    /// poll(2) or select(2).
    Poll,
    /// futex(2).
    Futex,
    /// A lock in the program, in futex(2): FUTEX_LOCK_PI, or a glibc or Rust mutex.
    Lock,
    /// A sleep that the program requested.
    Sleep,
    /// Data from a peer.
    SocketData,
    /// Space in the send buffer.
    SocketSpace,
    /// A connection to accept.
    Accept,
    /// The peer, in connect(2).
    Connect,
    /// Data in a pipe.
    PipeEmpty,
    /// Space in a pipe.
    PipeFull,
    /// The exit of a child process.
    Child,
    /// A signal.
    Signal,
    /// A timerfd to expire.
    Timer,
    /// An eventfd to be written.
    EventFd,
    /// The other end of a FIFO to be opened.
    Fifo,
    /// A terminal.
    Terminal,
    /// A lock on a file.
    FileLock,
    /// The file position lock, which threads share if they share a descriptor.
    FilePosition,
    /// The peer to accept unsent data, in close(2) on a socket with SO_LINGER.
    Linger,
    /// A System V semaphore.
    Semaphore,
    /// A FUSE server.
    FuseServer,
    /// The NFS server.
    NfsServer,
    /// A 9p server.
    NinePServer,
    /// The cgroup's CPU quota.
    CpuQuota,
    /// An RCU grace period.
    Rcu,
    /// The exit of the process.
    Exit,
    /// SIGCONT.
    Stopped,
    /// Its tracer.
    Ptrace,
    /// The cgroup freezer.
    Frozen,
    /// Runnable: a CPU, after the thread was woken or created.
    Woken,
    /// Runnable: a CPU, after another thread preempted this one.
    Preempted,
    /// Running: NAPI busy polling in io_uring_enter, from its first poll.
    BusyPoll,
    /// No known function on the stack: the innermost function outside the scheduler.
    #[serde(untagged)]
    Function(String),
}

/// The latency of all requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestAccount {
    /// Number of requests.
    pub count: u64,
    /// Sum of their latencies.
    pub latency_sum_ns: u64,
    /// The stage at which these latencies start.
    pub from: Start,
    /// The stage at which these latencies end.
    pub to: End,
    /// Rows that sum to `latency_sum_ns`.
    pub rows: Vec<RequestRow>,
}

/// An interval is narrow if its ends differ by at most this factor,
const NARROW: f64 = 1.5;
/// or by at most this share of all latencies.
const SMALL: f64 = 0.1;

/// Whether an interval of a row is narrow enough to print the row.
pub fn is_narrow([lo, hi]: [f64; 2], latency_sum_ns: f64) -> bool {
    hi <= NARROW * lo || hi - lo <= SMALL * latency_sum_ns
}

impl RequestAccount {
    /// Share of the latency in the rows that `is_meant` selects.
    pub fn share(&self, is_meant: impl Fn(&RequestRow) -> bool) -> f64 {
        let ns: u64 = self.rows.iter().filter(|row| is_meant(row)).map(|row| row.ns).sum();
        ns as f64 / self.latency_sum_ns.max(1) as f64
    }

    /// The upper end of that share, where the rows are of a sample.
    pub fn share_at_most(&self, is_meant: impl Fn(&RequestRow) -> bool) -> f64 {
        let most = |row: &RequestRow| row.ns_ci95.map_or(row.ns, |[_, hi]| hi);
        let ns: u64 = self.rows.iter().filter(|row| is_meant(row)).map(most).sum();
        (ns as f64 / self.latency_sum_ns.max(1) as f64).min(1.0)
    }

    /// Whether the interval of a row is narrow enough to print its share.
    pub fn is_narrow(&self, row: &RequestRow) -> bool {
        row.ns_ci95.is_none_or(|[lo, hi]| is_narrow([lo as f64, hi as f64], self.latency_sum_ns as f64))
    }

    /// The mean latency.
    pub fn mean_ns(&self) -> f64 {
        self.latency_sum_ns as f64 / self.count.max(1) as f64
    }

    /// Scales the rows to this number of requests.
    pub fn stands_for(&mut self, count: u64) {
        let factor = count as f64 / self.count.max(1) as f64;
        let scale = |ns: u64| (ns as f64 * factor).round() as u64;
        for row in &mut self.rows {
            (row.ns, row.ns_ci95) = (scale(row.ns), row.ns_ci95.map(|ends| ends.map(scale)));
        }
        self.latency_sum_ns = self.rows.iter().map(|row| row.ns).sum();
        self.count = count;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// The program published the request, or entered the call.
    Intended,
    /// The kernel accepted the request.
    Submitted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The completion was posted to the completion queue.
    Posted,
    /// The program reaped it.
    Reaped,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRow {
    /// The stage.
    pub stage: RequestStage,
    /// The cause of the delay in that stage, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RequestReason>,
    /// Total time.
    pub ns: u64,
    /// False if from a sample of the requests or queues.
    pub exact: bool,
    /// 95 % interval of `ns`; omitted if `ns` is exact or the sample is too small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns_ci95: Option<[u64; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestStage {
    /// In the submission queue, not yet accepted by the kernel.
    Unsubmitted,
    /// Waiting for requests that must complete first.
    Ordered,
    /// Being submitted, on the submitting thread.
    Inline,
    /// In io-wq's queue.
    IowqQueue,
    /// In an io-wq worker.
    Iowq,
    /// In the block layer, not yet issued to the driver.
    Block,
    /// Issued to the driver, not yet ready.
    Device,
    /// In flight, in a stage that iotrail did not observe.
    InFlight,
    /// Waiting in a poll or for a timer.
    Poll,
    /// Ready, not yet posted.
    Ready,
    /// In the completion queue, not yet reaped.
    Posted,
    /// Not known.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestReason {
    /// The request to which it is linked.
    Link,
    /// IOSQE_IO_DRAIN.
    Drain,
    /// A cgroup limit throttled its bio.
    CgroupIoLimit,
    /// A free tag (`nr_requests`).
    RequestTag,
    /// The block plug or the I/O scheduler.
    Scheduler,
    /// The peer, or another source of the polled event.
    Peer,
    /// The timer.
    Timer,
    /// A page of the page cache that other I/O reads.
    Page,
    /// A file system's kernel worker.
    FileSystem,
    /// The submitting thread had no CPU.
    NoCpu,
    /// The submitting thread was running but did not run its task work.
    ThreadRunning,
    /// The submitting thread was asleep and had to be woken.
    ThreadAsleep,
}

/// The traced threads' system calls that set up, submit, wait, read, write, sync and poll.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// System call name.
    pub syscall: String,
    /// Number of calls.
    pub count: u64,
    /// Number of times each errno was returned, by errno name, among `seen` calls.
    pub errors: BTreeMap<String, u64>,
    /// Time that threads were blocked in the call.
    pub blocked_ns: u64,
    /// Bytes read or written; null if the call transfers no data or does not return the byte count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How its waits ended; null: the call does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<WaitEnds>,
    /// Descriptors that ended its waits for events, most frequent first; estimated from a sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub woken_by: Vec<WokenBy>,
    /// 95 % interval of `count`, if `count` is an estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count_ci95: Option<[f64; 2]>,
    /// Calls seen in windows; null: all calls were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
}

impl CallRecord {
    /// The calls among which errors were counted.
    pub fn judged(&self) -> u64 {
        self.seen.unwrap_or(self.count)
    }

    /// Of these, the calls that failed.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitEnds {
    /// The awaited completions or events arrived.
    pub completions: u64,
    /// The timeout expired.
    pub time_limit: u64,
    /// EINTR.
    pub signal: u64,
    /// Returned 0 before the timeout.
    pub nothing: u64,
    /// Part of `time_limit`: the CQ contained completions, but fewer than min_complete.
    #[serde(default)]
    pub partial: u64,
}

/// A descriptor that ended waits for events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WokenBy {
    /// Process ID.
    pub tgid: u32,
    /// The descriptor; null: not known.
    pub fd: Option<u32>,
    /// The file: `TCP socket`, `eventfd`, or its name; null: not known.
    pub file: Option<String>,
    /// The last events that the wait returned, with the names used in poll(2) and epoll_ctl(2).
    pub events: Vec<String>,
    /// Share of the call's waits that returned events.
    pub share: f64,
    /// The process has closed the descriptor, or reuses its number: a copy keeps the file open. Omitted: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_closed: bool,
}

/// Upper bound on the share of a time that removing a finding's cause could save.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The time to which the share refers.
    pub of: BoundOf,
    /// The share, 0 to 1.
    pub share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundOf {
    /// Wall time of the affected threads.
    ThreadTime,
    /// The sum of the requests' latencies.
    Latency,
    /// The program's CPU time.
    Cpu,
    /// p99 latency.
    P99,
}
