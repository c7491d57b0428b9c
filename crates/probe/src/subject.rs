//! The traced processes, and the options of a trace.

use crate::choice::Choice;
use crate::role::Role;

/// How the traced process's completions can be observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    IoUring {
        /// A ring may be polled (`iopoll`): costs a read per completion.
        iopoll: bool,
    },
    /// Native aio: by the end of direct I/O.
    Aio,
    /// io_uring, native aio and POSIX AIO, in an unknown program.
    Any,
    /// The submitting thread's own pread and pwrite calls.
    OwnCalls,
    /// pread and pwrite calls of helper threads (glibc's POSIX AIO).
    HelperCalls,
    /// No completions: the kernel reports readiness, and the program makes its own calls (epoll). Interrupts, switches and
    /// IPIs are counted.
    Readiness,
}

impl Interface {
    /// `follow`: the programs that trace requests count the completions themselves.
    pub fn roles(self, follow: bool) -> Vec<Role> {
        let completions = if follow { Role::Follow } else { Role::Completion };
        match self {
            Interface::IoUring { .. } => vec![completions, Role::Ring, Role::Counts],
            Interface::Aio => vec![Role::Aio, Role::Counts],
            Interface::Any => {
                vec![completions, Role::Ring, Role::Aio, Role::AioCalls, Role::Counts, Role::Syscalls]
            }
            Interface::OwnCalls | Interface::HelperCalls => vec![Role::Syscalls, Role::Counts],
            Interface::Readiness => vec![Role::Counts],
        }
    }
}

/// Processes whose threads are traced, including their io_uring kernel threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One process, without a call of [`crate::watch::Watch::follow`].
    Process {
        tgid: u32,
        /// The thread of it that is not traced; 0: all are.
        unwatched_tid: u32,
    },
    /// This process, without the thread that opens the watch.
    OtherThreads,
    /// The processes named by [`crate::watch::Watch::follow`], and their later children.
    Followed,
    /// Every process that uses io_uring, native aio or POSIX AIO.
    Everyone,
}

/// Options of tracing requests end to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follow {
    pub choice: Choice,
    /// Power of two, at least a page; it must have space for all requests that end between two calls of [`crate::watch::Watch::trails`].
    pub ring_bytes: u32,
    /// User stacks of the program's call sites are sampled.
    pub stacks: bool,
}

/// The traced processes, and the options of a trace.
#[derive(Debug, Clone)]
pub struct Subject {
    pub who: Scope,
    pub interface: Interface,
    /// Interrupt lines of the target's completions.
    pub target_irqs: Vec<u32>,
    /// Counts by ring and opcode, and traces requests; `None`: neither.
    pub follow: Option<Follow>,
    /// The program on native aio's submission is attached once a traced process has a context.
    pub aio_awaited: bool,
    /// Times interrupts, by line and CPU: two clock reads per interrupt.
    pub spans_timed: bool,
}
