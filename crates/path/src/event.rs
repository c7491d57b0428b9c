//! The events that decide how completions were delivered, as plain data: one line of JSON each where they are kept.

use serde::{Deserialize, Serialize};

use super::entry::Fired;
use iotrail_schema::waker::{Line, Waker};

/// One event of a watched thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// CLOCK_MONOTONIC; of real recordings kept as files, from their first event.
    pub time_ns: u64,
    /// Where it happened: for [`What::Woken`] the waker's CPU, else the thread's own.
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
    /// A run of task work ended; the completions it carried came before it. `items`: how many it ran, as the kernel reports
    /// it; `looped`: it went round its list again, and `items` is the last round's alone.
    Run { items: u64, looped: bool, entered: Entered },
    /// io_uring_enter begins to wait for completions.
    WaitBegins,
    /// The thread leaves its CPU: to sleep, or preempted.
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
    /// One of the program's own, inline or by a run: what follows tells.
    Submitter,
    /// io_uring's submission-queue thread.
    Sqpoll,
    /// A worker of io_uring's own.
    Iowq,
    /// A polling look at the device, by whichever thread.
    Iopoll,
}

/// How the kernel had been entered when task work ran, from the registers saved at the outermost entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entered {
    /// By system call `nr`; `finished`: it has its result and is on its way out.
    Syscall { nr: u32, finished: bool },
    /// By an interrupt or exception: the symbol of its entry (`None`: symbols can't be read), what was seen to be done in it, and
    /// the line whose handler ran last on that CPU (`None`: none was seen yet).
    Interrupt {
        symbol: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fired: Option<Fired>,
        line: Option<Line>,
    },
}
