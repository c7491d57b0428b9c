//! The tracepoint programs, and the information that is missing without each.

use crate::role::Role;

/// One BPF program: its name in the object, its tracepoint (or library function), and the information that is unknown
/// without it.
#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    pub tracepoint: &'static str,
    pub role: Role,
    /// Without it the role's results would be wrong, not just incomplete, so the run fails.
    pub required: bool,
    pub purpose: &'static str,
    pub lost: &'static str,
    /// First kernel with the tracepoint, if newer than the oldest supported kernel (6.1).
    pub since: Option<&'static str>,
}

macro_rules! programs {
    ($($name:literal $tp:literal $role:ident $required:literal $purpose:literal $lost:literal $since:expr;)*) => {
        &[$(Program { name: $name, tracepoint: $tp, role: Role::$role, required: $required, purpose: $purpose,
                      lost: $lost, since: $since }),*]
    };
}

#[rustfmt::skip]
pub const PROGRAMS: &[Program] = programs! {
    "ring_complete" "io_uring_complete" Completion true "io_uring completions" "all vehicles of io_uring" None;
    "delivery_task_work_run" "io_uring_task_work_run" Ring true "task-work runs" "all vehicles of io_uring" None;
    "delivery_local_work_run" "io_uring_local_work_run" Ring true "deferred task-work runs" "vehicles under DEFER_TASKRUN" None;
    "delivery_cqring_wait" "io_uring_cqring_wait" Ring false "the start of a wait" "slept told apart from ready" None;
    "sched_switched" "sched_switch" Counts true "context switches" "delivery paths of threads that move between CPUs" None;
    "sched_waked" "sched_waking" Counts false "wake-ups" "wakers of sleeping threads, IPIs of wake-ups" None;
    "interrupt_handler_entry" "irq_handler_entry" Counts false "device interrupts" "interrupts per I/O, the vector's name" None;
    "interrupt_handler_exit" "irq_handler_exit" Counts false "ends of device interrupts" "who woke a sleeping thread" None;
    "interrupt_local_timer_entry" "local_timer_entry" Counts false "timer interrupts" "timer interrupts as mode switches" None;
    "interrupt_local_timer_exit" "local_timer_exit" Counts false "ends of timer interrupts" "wake-ups by the timer" None;
    "interrupt_reschedule_entry" "reschedule_entry" Counts false "reschedule IPIs received" "reschedule IPIs per I/O" None;
    "interrupt_reschedule_exit" "reschedule_exit" Counts false "ends of reschedule IPIs" "wake-ups by them" None;
    "interrupt_call_function_single_entry" "call_function_single_entry" Counts false "function-call IPIs to one CPU" "their count" None;
    "interrupt_call_function_single_exit" "call_function_single_exit" Counts false "ends of function-call IPIs" "wake-ups by them" None;
    "interrupt_call_function_entry" "call_function_entry" Counts false "function-call IPIs to many CPUs" "their count" None;
    "interrupt_call_function_exit" "call_function_exit" Counts false "ends of function-call IPIs" "wake-ups by them" None;
    "interrupt_irq_work_entry" "irq_work_entry" Counts false "irq work" "its count" None;
    "interrupt_irq_work_exit" "irq_work_exit" Counts false "ends of irq work" "wake-ups by it" None;
    "interrupt_from_cpu_entry" "ipi_entry" Counts false "IPIs received, each kind" "reschedule IPIs per I/O" None;
    "interrupt_from_cpu_exit" "ipi_exit" Counts false "ends of IPIs" "wake-ups by them" None;
    "interrupt_softirq_raise" "softirq_raise" Counts false "who raises softirqs" "the interrupt behind a softirq's wake-ups" None;
    "interrupt_softirq_entry" "softirq_entry" Counts false "softirqs" "wake-ups by them, distinguished from a thread's" None;
    "interrupt_softirq_exit" "softirq_exit" Counts false "ends of softirqs" "wake-ups by them" None;
    "interrupt_ipi_send" "ipi_send_cpu" Counts false "IPIs sent, by call site" "kicks per I/O" Some("6.4");
    "interrupt_ipi_raised" "ipi_raise" Counts false "reschedule IPIs sent, by call site" "kicks per I/O" None;
    "interrupt_untraced_timer" "hrtimer_expire_entry" Counts false "timers of Hyper-V" "timer interrupts as mode switches" None;
    "credit_block" "block_rq_complete" Counts false "I/O that ends in an interrupt" "device interrupts per I/O" None;
    "credit_bio" "block_bio_complete" Counts false "the same on stacked devices" "device interrupts per I/O of stacked devices" None;
    "credit_poll" "io_uring_task_add" Ring false "polls that an interrupt wakes" "device interrupts per I/O of sockets" None;
    "mode_page_fault" "page_fault_user" Counts false "page faults" "page faults as mode switches" None;
    "mode_sys_exit" "sys_exit" Syscalls true "system calls that the load does not count" "system calls of POSIX AIO, its delivery path" None;
    "aio_iomap_complete" "iomap_dio_complete" Aio false "native aio on a file system" "its vehicle" Some("6.6");
    "aio_block_complete" "block_rq_complete" Aio false "native aio on a block device" "its vehicle" None;
    "aio_submits" "sys_enter_io_submit" AioCalls false "native aio being submitted" "requests, opcodes and latencies of native aio" None;
    "aio_submits_entered" "sys_enter" AioCalls false "native aio submissions without that tracepoint" "requests, opcodes and latencies of 32-bit programs' native aio" None;
    "posix_aio_called" "aio_read" AioCalls false "POSIX AIO, in glibc" "requests of POSIX AIO" None;
    "posix_aio_called_each" "aio_read" AioCalls false "POSIX AIO, in another glibc" "requests of POSIX AIO" None;
    "follow_submit" "io_uring_submit_req" Follow true "io_uring submissions" "requests by opcode, latencies" Some("6.4");
    "follow_submit_sqe" "io_uring_submit_sqe" Follow true "io_uring submissions" "requests by opcode, latencies" None;
    "follow_refused" "io_uring_req_failed" Follow false "io_uring requests that are refused" "their number by opcode" None;
    "follow_complete" "io_uring_complete" Follow true "io_uring completions" "all vehicles of io_uring" Some("6.17");
    "follow_complete_members" "io_uring_complete" Follow true "io_uring completions" "all vehicles of io_uring" None;
    "follow_create" "io_uring_create" Follow false "rings being made" "the distinction of rings that reuse an address" None;
    "follow_punt" "io_uring_queue_async_work" Follow false "requests handed to io-wq" "what was punted, by opcode" None;
    "follow_chain_failed" "io_uring_fail_link" Follow false "chains that are cancelled" "requests that end without a completion, distinguished from those in flight" None;
    "follow_overflow" "io_uring_cqe_overflow" Follow false "completions that find no room" "overflows" None;
    "memory_registered" "io_uring_register" Follow false "buffers being unregistered, rings being resized" "requests that outlive their buffers" None;
    "follow_poll_arm" "io_uring_poll_arm" Follow false "polls being armed" "stages of sockets and pipes" None;
    "follow_task_add" "io_uring_task_add" Follow false "polls being woken" "stages of sockets and pipes" None;
    "block_queued" "block_bio_queue" Follow false "block I/O of followed requests" "stages of files and block devices" None;
    "block_was_split" "block_split" Follow false "block I/O that is split" "stages of split requests: then wrong, not unknown" None;
    "block_issued" "block_rq_issue" Follow false "block I/O being issued" "stages of files and block devices" None;
    "block_completed" "block_rq_complete" Follow false "block I/O being done" "stages of files and block devices" None;
    "block_bio_completed" "block_bio_complete" Follow false "block I/O of stacked devices" "stages of stacked devices" None;
    "block_ended" "iomap_dio_complete" Follow false "direct I/O that a worker of the file system ends" "its wait for that worker, distinguished from task work" Some("6.6");
    "account_napi_poll" "napi_poll" Follow false "NAPI busy polling in io_uring_enter" "its time in the threads' account" None;
    "process_forked" "sched_process_fork" Follow false "children being made" "children of the watched" None;
    "process_executes" "sched_process_exec" Follow false "programs being run" "processes' names" None;
    "process_freed" "sched_process_free" Follow false "processes' ends" "memory for new processes, if a million come and go" None;
    "ring_ends" "workqueue_execute_start" Follow false "rings being torn down" "rings' ends: they go with their process" None;
    "ring_ended" "workqueue_execute_end" Follow false "rings' ends" "rings' ends: they go with their process" None;
    "process_exits" "sched_process_exit" Follow false "threads' ends" "completions left at a thread's end" None;
};
