//! Call sites of a traced program: sampled user stacks, and what was done there.

use serde::{Deserialize, Serialize};

/// User stacks at submissions, in sleeps and at system calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stacks {
    /// Functions that the stacks consist of.
    pub frames: Vec<Frame>,
    /// Each stack with what was done there. Stacks of one program with the same functions are combined.
    pub stacks: Vec<StackRecord>,
    /// Why functions or names are missing.
    pub gaps: Vec<StackGap>,
}

/// A place in the program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The function, demangled; null: not known.
    pub function: Option<String>,
    /// The source file; null: no debug information.
    pub file: Option<String>,
    /// The line in the source file.
    pub line: Option<u32>,
    /// The executable file; null: code that the program generated.
    pub module: Option<String>,
    /// Offset in the executable file, or the address of generated code.
    pub offset: u64,
    /// The compiler inlined it into the function of the next frame.
    pub inlined: bool,
    /// It belongs to libc, liburing, libaio or a language's standard library.
    pub library: bool,
}

/// One stack of one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StackRecord {
    /// Name of the first thread sampled with this stack.
    pub comm: String,
    /// Positions in `frames`, innermost first; empty: an unreadable stack.
    pub frames: Vec<u32>,
    /// Position in `frames` of the innermost function outside libraries; null: none.
    pub site: Option<u32>,
    /// The sampled actions, one entry per action and name.
    pub uses: Vec<SiteUse>,
}

/// What a thread does at a call site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SiteAction {
    /// It sleeps in a system call.
    Sleeps,
    /// It makes a system call.
    Calls,
    /// It submits requests.
    Submits,
    /// It is on the CPU.
    Runs,
}

/// Sums over the sampled events, each weighted by the inverse of its sampling probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteUse {
    /// The action.
    pub action: SiteAction,
    /// The system call, or the operation of the requests; `user`: a thread runs outside system calls.
    pub name: String,
    /// Events whose stack was sampled.
    pub samples: u64,
    /// Estimated number of all events of this kind.
    pub count: u64,
    /// Time slept or on the CPU, or latencies of completed requests.
    pub ns: u64,
    /// Events that failed.
    pub errors: u64,
    /// Requests punted to io-wq.
    pub punts: u64,
}

/// A call site and its share in a finding or a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallSite {
    /// The function, or an offset in its executable file.
    pub function: String,
    /// The source file; null: no debug information.
    pub file: Option<String>,
    /// The line in the source file.
    pub line: Option<u32>,
    /// Its share, by the sampled stacks.
    pub share: f64,
}

/// Why functions or names are missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackGap {
    /// The reason.
    pub code: StackGapCode,
    /// The executable file, or the program's name.
    pub module: String,
    /// Sampled events that it concerns.
    pub samples: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StackGapCode {
    /// The file has no symbols.
    Stripped,
    /// Callers are missing: the file was compiled without frame pointers.
    NoFramePointers,
    /// Code that the program generated, without a perf map file.
    NoPerfMap,
    /// The process ended before its memory map was read.
    Ended,
    /// The thread has no stack in user mode, as SQPOLL threads and io-wq workers.
    KernelThread,
    /// The stack was lost: a buffer was full.
    Lost,
}
