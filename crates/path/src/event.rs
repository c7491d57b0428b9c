//! The events that decide how completions were delivered, as plain data: one line of JSON each in files.

use serde::{Deserialize, Serialize};

use super::entry::Fired;
use iotrail_schema::waker::{Line, Waker};

/// One event of a traced thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// CLOCK_MONOTONIC; in files of real recordings, relative to their first event.
    pub time_ns: u64,
    /// CPU of the event: for [`What::Woken`] the waker's, otherwise the thread's own.
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
    /// A run of task work ended; its completions came before it. `items`: the number that the kernel reports;
    /// `looped`: it repeated its list, and `items` covers only the last loop.
    Run { items: u64, looped: bool, entered: Entered },
    /// io_uring_enter starts to wait for completions.
    WaitBegins,
    /// The thread leaves its CPU: it sleeps, or was preempted.
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
    /// A thread of the program, inline or by a run: the following events decide.
    Submitter,
    /// The SQPOLL thread.
    Sqpoll,
    /// An io-wq worker.
    Iowq,
    /// A poll of the device, by any thread.
    Iopoll,
}

/// How the kernel had been entered when task work ran, from the registers saved at the outermost entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entered {
    /// By system call `nr`; `finished`: it has its result and is about to exit.
    Syscall { nr: u32, finished: bool },
    /// By an interrupt or exception: the symbol of its entry (`None`: symbols are unreadable), the action observed in it, and
    /// the line whose handler ran last on that CPU (`None`: none was observed yet).
    Interrupt {
        symbol: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fired: Option<Fired>,
        line: Option<Line>,
    },
}
