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
    "ring_complete" "io_uring_complete" Completion true "io_uring completions" "all delivery paths of io_uring" None;
    "delivery_task_work_run" "io_uring_task_work_run" Ring true "task-work runs" "all delivery paths of io_uring" None;
    "delivery_local_work_run" "io_uring_local_work_run" Ring true "task-work runs with DEFER_TASKRUN" "delivery paths with DEFER_TASKRUN" None;
    "delivery_cqring_wait" "io_uring_cqring_wait" Ring false "starts of waits in io_uring_enter" "whether a thread slept for a completion" None;
    "sched_switched" "sched_switch" Counts true "context switches" "delivery paths of threads that move between CPUs" None;
    "sched_waked" "sched_waking" Counts false "wake-ups" "wakers of sleeping threads, wake-up IPIs" None;
    "interrupt_handler_entry" "irq_handler_entry" Counts false "device interrupts" "device interrupts per I/O, their vector names" None;
    "interrupt_handler_exit" "irq_handler_exit" Counts false "device interrupt exits" "wakers of sleeping threads" None;
    "interrupt_local_timer_entry" "local_timer_entry" Counts false "timer interrupts" "mode switches by timer interrupts" None;
    "interrupt_local_timer_exit" "local_timer_exit" Counts false "timer interrupt exits" "wake-ups by timer interrupts" None;
    "interrupt_reschedule_entry" "reschedule_entry" Counts false "received reschedule IPIs" "reschedule IPIs per I/O" None;
    "interrupt_reschedule_exit" "reschedule_exit" Counts false "reschedule IPI exits" "wake-ups by reschedule IPIs" None;
    "interrupt_call_function_single_entry" "call_function_single_entry" Counts false "function-call IPIs to a single CPU" "the number of function-call IPIs to a single CPU" None;
    "interrupt_call_function_single_exit" "call_function_single_exit" Counts false "exits of function-call IPIs to a single CPU" "wake-ups by function-call IPIs" None;
    "interrupt_call_function_entry" "call_function_entry" Counts false "function-call IPIs to several CPUs" "the number of function-call IPIs to several CPUs" None;
    "interrupt_call_function_exit" "call_function_exit" Counts false "exits of function-call IPIs to several CPUs" "wake-ups by function-call IPIs" None;
    "interrupt_irq_work_entry" "irq_work_entry" Counts false "irq_work interrupts" "the number of irq_work interrupts" None;
    "interrupt_irq_work_exit" "irq_work_exit" Counts false "irq_work interrupt exits" "wake-ups by irq_work interrupts" None;
    "interrupt_from_cpu_entry" "ipi_entry" Counts false "received IPIs, by kind" "reschedule IPIs per I/O" None;
    "interrupt_from_cpu_exit" "ipi_exit" Counts false "IPI exits" "wake-ups by IPIs" None;
    "interrupt_softirq_raise" "softirq_raise" Counts false "raised softirqs" "the interrupts behind softirq wake-ups" None;
    "interrupt_softirq_entry" "softirq_entry" Counts false "softirqs" "whether a softirq or a thread woke a thread" None;
    "interrupt_softirq_exit" "softirq_exit" Counts false "softirq exits" "wake-ups by softirqs" None;
    "interrupt_ipi_send" "ipi_send_cpu" Counts false "sent IPIs, by call site" "kicks per I/O" Some("6.4");
    "interrupt_ipi_raised" "ipi_raise" Counts false "sent reschedule IPIs, by call site" "kicks per I/O" None;
    "interrupt_untraced_timer" "hrtimer_expire_entry" Counts false "Hyper-V timers" "mode switches by timer interrupts" None;
    "credit_block" "block_rq_complete" Counts false "block I/O completed in interrupts" "device interrupts per I/O" None;
    "credit_bio" "block_bio_complete" Counts false "bios completed in interrupts, on stacked devices" "device interrupts per I/O on stacked devices" None;
    "credit_poll" "io_uring_task_add" Ring false "polls woken by interrupts" "device interrupts per I/O on sockets" None;
    "mode_page_fault" "page_fault_user" Counts false "page faults" "mode switches by page faults" None;
    "mode_sys_exit" "sys_exit" Syscalls true "system calls that the load does not count" "system calls and delivery paths of POSIX AIO" None;
    "aio_iomap_complete" "iomap_dio_complete" Aio false "native aio completions on file systems" "delivery paths of native aio on file systems" Some("6.6");
    "aio_block_complete" "block_rq_complete" Aio false "native aio completions on block devices" "delivery paths of native aio on block devices" None;
    "aio_submits" "sys_enter_io_submit" AioCalls false "native aio submissions" "requests, opcodes and latencies of native aio" None;
    "aio_submits_entered" "sys_enter" AioCalls false "native aio submissions by 32-bit programs, or without tracefs" "requests, opcodes and latencies of 32-bit programs' native aio" None;
    "posix_aio_called" "aio_read" AioCalls false "POSIX AIO calls" "POSIX AIO requests" None;
    "posix_aio_called_each" "aio_read" AioCalls false "POSIX AIO calls, with one probe per function" "POSIX AIO requests" None;
    "follow_submit" "io_uring_submit_req" Follow true "io_uring submissions" "requests by opcode, latencies" Some("6.4");
    "follow_submit_sqe" "io_uring_submit_sqe" Follow true "io_uring submissions" "requests by opcode, latencies" None;
    "follow_refused" "io_uring_req_failed" Follow false "rejected io_uring requests" "the number of rejected requests by opcode" None;
    "follow_complete" "io_uring_complete" Follow true "io_uring completions" "all delivery paths of io_uring" Some("6.17");
    "follow_complete_members" "io_uring_complete" Follow true "io_uring completions" "all delivery paths of io_uring" None;
    "follow_create" "io_uring_create" Follow false "created rings" "the distinction between successive rings at one address" None;
    "follow_punt" "io_uring_queue_async_work" Follow false "requests punted to io-wq" "punted requests by opcode" None;
    "follow_chain_failed" "io_uring_fail_link" Follow false "cancelled request chains" "whether a request without a completion was cancelled or is in flight" None;
    "follow_overflow" "io_uring_cqe_overflow" Follow false "completions that found the completion queue full" "overflows" None;
    "memory_registered" "io_uring_register" Follow false "unregistered buffers, resized rings" "requests in flight on unregistered buffers" None;
    "follow_poll_arm" "io_uring_poll_arm" Follow false "armed polls" "stages of sockets and pipes" None;
    "follow_task_add" "io_uring_task_add" Follow false "woken polls" "stages of sockets and pipes" None;
    "block_queued" "block_bio_queue" Follow false "queued block I/O of traced requests" "stages of files and block devices" None;
    "block_was_split" "block_split" Follow false "split block I/O" "stages of split requests, which are then wrong, not only missing" None;
    "block_issued" "block_rq_issue" Follow false "issued block I/O" "stages of files and block devices" None;
    "block_completed" "block_rq_complete" Follow false "completed block I/O" "stages of files and block devices" None;
    "block_bio_completed" "block_bio_complete" Follow false "completed block I/O on stacked devices" "stages of stacked devices" None;
    "block_ended" "iomap_dio_complete" Follow false "direct I/O finished by a kernel worker of the file system" "the delivery time in that worker, separate from task work" Some("6.6");
    "account_napi_poll" "napi_poll" Follow false "NAPI busy polling in io_uring_enter" "busy-polling time in the threads' account" None;
    "process_forked" "sched_process_fork" Follow false "created processes" "children of traced processes" None;
    "process_executes" "sched_process_exec" Follow false "executed programs" "names of processes" None;
    "process_freed" "sched_process_free" Follow false "freed processes" "memory for new processes, after about a million have exited" None;
    "ring_ends" "workqueue_execute_start" Follow false "starts of ring teardown" "ends of rings: they count as ended with their process" None;
    "ring_ended" "workqueue_execute_end" Follow false "ends of ring teardown" "ends of rings: they count as ended with their process" None;
    "process_exits" "sched_process_exit" Follow false "exiting threads" "unreaped completions of exited threads" None;
};
