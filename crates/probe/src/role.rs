//! What the BPF programs are for.

/// What a program is for; decides which runs want it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// io_uring's completions, counted by CPU alone.
    Completion,
    /// What carried io_uring's completions.
    Ring,
    /// Requests by ring and opcode, the stages of the followed ones, the processes' children.
    Follow,
    /// Native aio's completions.
    Aio,
    /// What programs of others' ask of native and POSIX AIO.
    AioCalls,
    /// Context, interrupts and switches: every run.
    Counts,
    /// System calls that the load does not issue itself; costs on each of them.
    Syscalls,
}
