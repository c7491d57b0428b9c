//! Purposes of the BPF programs.

/// Purpose of a program, which decides the runs that need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// io_uring's completions, counted only by CPU.
    Completion,
    /// Delivery paths of io_uring's completions.
    Ring,
    /// Requests by ring and opcode, the stages of the traced ones, child processes.
    Follow,
    /// Native aio's completions.
    Aio,
    /// Other programs' use of native and POSIX AIO.
    AioCalls,
    /// Context, interrupts and switches: every run.
    Counts,
    /// System calls that the load does not issue itself; costs time on each of them.
    Syscalls,
}
