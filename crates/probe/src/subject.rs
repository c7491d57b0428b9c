//! Who is watched, and how.

use crate::choice::Choice;
use crate::role::Role;

/// How the watched process's completions can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    IoUring {
        /// A ring may be polled (`iopoll`): costs a read per completion.
        iopoll: bool,
    },
    /// Native aio: by the end of direct I/O.
    Aio,
    /// io_uring, native aio and POSIX AIO, in a program that is not known.
    Any,
    /// The submitting thread's own pread and pwrite calls.
    OwnCalls,
    /// pread and pwrite calls of helper threads (glibc's POSIX AIO).
    HelperCalls,
    /// Nothing completes: the kernel says what is ready, and the program makes its own calls (epoll). Interrupts, switches and
    /// IPIs are counted.
    Readiness,
}

impl Interface {
    /// `follow`: the programs that follow requests count the completions themselves.
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

/// Whose threads are watched, io_uring's own helpers of theirs included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One process, which need not be followed by [`crate::watch::Watch::follow`].
    Process {
        tgid: u32,
        /// The one thread of it that is not watched; 0: all are.
        unwatched_tid: u32,
    },
    /// This process, without the thread that opens the watch.
    OtherThreads,
    /// The processes named by [`crate::watch::Watch::follow`], and the children that they make from then on.
    Followed,
    /// Every process that uses io_uring, native aio or POSIX AIO.
    Everyone,
}

/// Requests followed whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follow {
    pub choice: Choice,
    /// Power of two, at least a page; between two calls of [`crate::watch::Watch::trails`] it must hold all that ends.
    pub ring_bytes: u32,
    /// User stacks of the program's call sites are sampled.
    pub stacks: bool,
}

/// Who is watched, and how.
#[derive(Debug, Clone)]
pub struct Subject {
    pub who: Scope,
    pub interface: Interface,
    /// Interrupt lines that carry the target's completions.
    pub target_irqs: Vec<u32>,
    /// Counts by ring and opcode, and follows requests; `None`: neither.
    pub follow: Option<Follow>,
    /// The program that sees native aio being submitted is attached once a watched process has a context of it.
    pub aio_awaited: bool,
    /// Time in interrupts, by line and CPU: two looks at the clock for each.
    pub spans_timed: bool,
}
