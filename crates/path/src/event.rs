//! Events that decide delivery paths, as plain data. In files each event is one line of JSON.

use serde::{Deserialize, Serialize};

use super::entry::Fired;
use iotrail_schema::waker::{Line, Waker};

/// One event of a traced thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// CLOCK_MONOTONIC; in recorded test files, relative to the first event.
    pub time_ns: u64,
    /// CPU of the event: the waker's for [`What::Woken`], otherwise the thread's.
    pub cpu: u32,
    pub tid: u32,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A completion was posted.
    Complete { by: Poster },
    /// A task work run ended; its completions precede this event. `items`: the kernel's count; `looped`: the run
    /// repeated its list, and `items` covers only the last loop.
    Run { items: u64, looped: bool, entered: Entered },
    /// io_uring_enter begins to wait for completions.
    WaitBegins,
    /// The thread leaves its CPU to sleep, or is preempted.
    SwitchedOut { asleep: bool, inside_io_uring_enter: bool },
    /// The thread gets a CPU.
    SwitchedIn,
    /// The thread is woken.
    Woken { by: Waker },
}

/// The thread that posted a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Poster {
    /// A thread of the program, inline or in a run; later events decide.
    Submitter,
    /// The SQPOLL thread.
    Sqpoll,
    /// An io-wq worker.
    Iowq,
    /// A poll of the device by any thread.
    Iopoll,
}

/// How the kernel was entered when task work ran, from the registers of the outermost entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entered {
    /// By system call `nr`; `finished`: the call has its result and is about to exit.
    Syscall { nr: u32, finished: bool },
    /// By an interrupt or exception: the entry's symbol (`None` if symbols are hidden), the action observed in the
    /// entry, and the line whose handler ran last on that CPU (`None` if none was observed yet).
    Interrupt {
        symbol: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fired: Option<Fired>,
        line: Option<Line>,
    },
}
