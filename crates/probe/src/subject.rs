//! The traced processes, and the options of a trace.

use crate::choice::Choice;
use crate::role::Role;

/// How the completions of the traced process can be observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    IoUring {
        /// Whether a ring may use `iopoll`; the check costs one memory read per completion.
        iopoll: bool,
    },
    /// Native aio, by the end of direct I/O.
    Aio,
    /// io_uring, native aio and POSIX AIO of an unknown program.
    Any,
    /// pread and pwrite calls of the submitting thread itself.
    OwnCalls,
    /// pread and pwrite calls of helper threads (glibc's POSIX AIO).
    HelperCalls,
    /// No completions: the kernel reports readiness (epoll), and the program makes the calls itself. Interrupts,
    /// switches and IPIs are counted.
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
        /// Its thread that is not traced; 0: all threads are traced.
        unwatched_tid: u32,
    },
    /// This process, except the thread that opens the watch.
    OtherThreads,
    /// Processes passed to [`crate::watch::Watch::follow`], and their later children.
    Followed,
    /// Every process that uses io_uring, native aio or POSIX AIO.
    Everyone,
}

/// Options of tracing requests end to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follow {
    pub choice: Choice,
    /// Power of two, at least one page. Must hold all requests that complete between two calls of
    /// [`crate::watch::Watch::trails`].
    pub ring_bytes: u32,
    /// Sample user stacks of the program's call sites.
    pub stacks: bool,
}

/// The traced processes, and the options of a trace.
#[derive(Debug, Clone)]
pub struct Subject {
    pub who: Scope,
    pub interface: Interface,
    /// Interrupt lines that end the target's I/O.
    pub target_irqs: Vec<u32>,
    /// Count by ring and opcode, and trace requests; `None`: neither.
    pub follow: Option<Follow>,
    /// Attach the program on native aio's submission only when a traced process has a context.
    pub aio_awaited: bool,
    /// Time the interrupts by line and CPU: two clock reads per interrupt.
    pub spans_timed: bool,
}
