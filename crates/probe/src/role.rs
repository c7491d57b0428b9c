//! Purposes of the BPF programs.

/// Role of a program. It decides which runs need the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// io_uring completions, counted only per CPU.
    Completion,
    /// Delivery paths of io_uring completions.
    Ring,
    /// Requests by ring and opcode, stages of the traced ones, and child processes.
    Follow,
    /// Native aio completions.
    Aio,
    /// Other programs' native and POSIX AIO.
    AioCalls,
    /// Context, interrupts and context switches; needed by every run.
    Counts,
    /// System calls that the load cannot count itself; costs time on each call.
    Syscalls,
}
