//! Why a thread sleeps, from the functions on its kernel stack.
//!
//! **The rule**: three passes over the stack, each outwards from the innermost function. The first pass looks for
//! functions that identify one cause, the second for functions with many callers, such as a mutex. The third looks for
//! functions that are on many stacks, and therefore must be the innermost: the loop of an idle kernel thread;
//! io_uring_enter's own function, since 6.1 inlines io_cqring_wait into it; and callers of a lock, since the kernel
//! omits functions in `.sched.text` (`rwsem_down_write_slowpath`, `down_write`, `__mutex_lock`) from a sleeper's stack.
//! In a single pass, fdatasync(2) would be a synchronous bio.
//!
//! Names have no compiler suffixes (`.constprop.0`). They are those of 6.1 to 7.3; the names in 6.18 were checked
//! against stacks.

use iotrail_schema::account::Reason;

struct Rule {
    reason: Reason,
    functions: &'static [&'static str],
}

const fn rule(reason: Reason, functions: &'static [&'static str]) -> Rule {
    Rule { reason, functions }
}

/// Rules of the three passes, in order.
#[rustfmt::skip]
const PASSES: [&[Rule]; 3] = [
    &[
        rule(Reason::RequestTag, &["blk_mq_get_tag", "__blk_mq_alloc_requests", "__sbitmap_queue_get_shallow"]),
        rule(Reason::QueueQos, &["rq_qos_wait", "ioc_rqos_throttle", "blkcg_iolatency_throttle"]),
        rule(Reason::CgroupIoLimit, &["blk_throtl_bio", "__blk_throtl_bio", "blkcg_maybe_throttle_current"]),
        rule(Reason::QueueFrozen, &["blk_queue_enter", "__bio_queue_enter", "blk_mq_freeze_queue_wait"]),
        rule(Reason::DeviceFlush, &["blkdev_issue_flush"]),
        rule(Reason::JournalCommit, &[
            "jbd2_log_wait_commit", "jbd2_complete_transaction", "jbd2_journal_commit_transaction", "do_get_write_access",
            "xfs_log_force_seq", "xfs_log_force", "xlog_force_lsn", "xlog_wait_on_iclog", "xlog_wait_on_iclog_lsn", "btrfs_sync_log",
            "wait_log_commit", "btrfs_commit_transaction", "wait_for_commit",
        ]),
        rule(Reason::JournalSpace, &[
            "wait_transaction_locked", "add_transaction_credits", "start_this_handle", "xlog_grant_head_wait", "xfs_log_reserve",
        ]),
        rule(Reason::DirtyPages, &["balance_dirty_pages", "balance_dirty_pages_ratelimited_flags"]),
        rule(Reason::Writeback, &[
            "folio_wait_writeback", "file_write_and_wait_range", "filemap_fdatawait_range", "__filemap_fdatawait_range",
            "btrfs_wait_ordered_range", "wb_wait_for_completion",
        ]),
        rule(Reason::DirectIo, &["iomap_dio_rw", "__iomap_dio_rw", "dio_await_one", "__blkdev_direct_IO_simple"]),
        rule(Reason::InodeDio, &["inode_dio_wait", "__inode_dio_wait"]),
        rule(Reason::CgroupReclaim, &["try_to_free_mem_cgroup_pages", "mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high"]),
        rule(Reason::Reclaim, &["try_to_free_pages", "throttle_direct_reclaim", "__alloc_pages_direct_compact"]),
        rule(Reason::SwapIn, &["do_swap_page"]),
        rule(Reason::MmapLock, &[
            "lock_mm_and_find_vma", "vm_mmap_pgoff", "__vm_munmap", "do_mprotect_pkey", "do_madvise", "__do_sys_brk",
        ]),
        rule(Reason::UringCompletions, &["io_cqring_wait", "io_run_loop", "io_loop_wait", "io_do_iopoll"]),
        rule(Reason::UringSqSpace, &["io_sqpoll_wait_sq"]),
        rule(Reason::UringSetup, &["io_sq_offload_create"]),
        rule(Reason::UringTeardown, &[
            "io_uring_cancel_generic", "io_wq_put_and_exit", "io_wq_exit_workers", "io_ring_exit_work", "io_rsrc_ref_quiesce",
            "io_uring_drop_tctx_refs",
        ]),
        rule(Reason::AioEvents, &["read_events", "do_io_getevents", "exit_aio"]),
        rule(Reason::Epoll, &["do_epoll_wait", "ep_poll"]),
        rule(Reason::Poll, &["do_sys_poll", "do_poll", "do_restart_poll", "do_select", "core_sys_select"]),
        rule(Reason::Futex, &["do_futex", "futex_wait", "futex_do_wait", "futex_wait_queue"]),
        rule(Reason::Sleep, &["do_nanosleep", "hrtimer_nanosleep", "msleep", "msleep_interruptible"]),
        rule(Reason::Timer, &["timerfd_read_iter", "timerfd_read"]),
        rule(Reason::EventFd, &["eventfd_read"]),
        rule(Reason::Accept, &["inet_csk_accept", "unix_accept"]),
        rule(Reason::Connect, &["inet_stream_connect", "inet_wait_for_connect", "unix_wait_for_peer"]),
        rule(Reason::SocketSpace, &["sk_stream_wait_memory", "sock_alloc_send_pskb", "sock_wait_for_wmem"]),
        rule(Reason::SocketData, &[
            "sk_wait_data", "tcp_recvmsg", "unix_stream_read_generic", "__skb_wait_for_more_packets", "__unix_dgram_recvmsg",
        ]),
        rule(Reason::PipeEmpty, &["anon_pipe_read", "fifo_pipe_read", "pipe_read", "pipe_wait_readable"]),
        rule(Reason::PipeFull, &["anon_pipe_write", "fifo_pipe_write", "pipe_write", "pipe_wait_writable"]),
        rule(Reason::Fifo, &["fifo_open", "wait_for_partner"]),
        rule(Reason::Terminal, &["n_tty_read", "n_tty_write"]),
        rule(Reason::FileLock, &["posix_lock_inode_wait", "flock_lock_inode_wait", "fcntl_setlk", "locks_lock_inode_wait"]),
        rule(Reason::FilePosition, &["fdget_pos", "__fdget_pos", "__f_lock_pos"]),
        rule(Reason::Linger, &["sk_stream_wait_close"]),
        rule(Reason::Semaphore, &["__do_semtimedop", "do_semtimedop"]),
        rule(Reason::FuseServer, &["request_wait_answer"]),
        rule(Reason::NfsServer, &["rpc_wait_bit_killable", "nfs_wait_on_request"]),
        rule(Reason::Child, &["do_wait", "kernel_wait4", "wait_for_vfork_done"]),
        rule(Reason::Signal, &["do_sigtimedwait", "sigsuspend", "__do_sys_pause", "signalfd_read", "signalfd_read_iter"]),
        rule(Reason::CpuQuota, &["throttle_cfs_rq_work"]),
        rule(Reason::Rcu, &["synchronize_rcu_normal", "synchronize_rcu_expedited", "__wait_rcu_gp", "__synchronize_srcu"]),
        rule(Reason::Stopped, &["do_signal_stop"]),
        rule(Reason::Ptrace, &["ptrace_stop"]),
        rule(Reason::Frozen, &["do_freezer_trap", "cgroup_enter_frozen", "__refrigerator"]),
    ],
    &[
        rule(Reason::SynchronousBio, &["submit_bio_wait"]),
        rule(Reason::PageIo, &["folio_wait_bit_common", "filemap_fault", "filemap_update_page"]),
        // A write to part of a page, which the file system first reads.
        rule(Reason::PageIo, &["ext4_block_write_begin", "__block_write_begin_int", "block_write_begin"]),
        rule(Reason::MetadataIo, &["__wait_on_buffer", "bit_wait_io", "ext4_read_bh", "xfs_buf_iowait", "fsync_buffers_list", "__sync_dirty_buffer"]),
        rule(Reason::Mutex, &["__mutex_lock", "__mutex_lock_slowpath", "__rt_mutex_slowlock"]),
        rule(Reason::RwSemaphore, &["rwsem_down_write_slowpath", "rwsem_down_read_slowpath", "__percpu_down_read", "percpu_down_write"]),
        rule(Reason::Rcu, &["synchronize_rcu"]),
        // vfork(2), whose own function is inlined.
        rule(Reason::Child, &["kernel_clone"]),
        rule(Reason::NinePServer, &["p9_client_rpc", "p9_virtio_zc_request"]),
        rule(Reason::Exit, &["do_exit"]),
    ],
    &[
        rule(Reason::IowqIdle, &["io_wq_worker", "io_wqe_worker"]),
        rule(Reason::UringCompletions, &["__do_sys_io_uring_enter"]),
        rule(Reason::SqpollIdle, &["io_sq_thread"]),
        // do_freezer_trap is inlined.
        rule(Reason::Frozen, &["get_signal"]),
        // restart_syscall(2) of a sleep that task work or a signal interrupted. All functions of that sleep are in
        // `.sched.text`.
        rule(Reason::Sleep, &["do_syscall_64", "invoke_syscall", "__do_sys_restart_syscall", "hrtimer_nanosleep_restart"]),
        rule(Reason::RwSemaphore, &[
            "ext4_file_write_iter", "ext4_file_read_iter", "ext4_dio_write_iter", "ext4_buffered_write_iter", "ext4_dio_read_iter",
            "ext4_fallocate", "xfs_ilock", "xfs_ilock_iocb", "btrfs_inode_lock", "generic_file_write_iter", "blkdev_write_iter", "do_truncate",
            "open_last_lookups", "do_unlinkat", "lock_rename", "iterate_dir",
        ]),
    ],
];

/// Scheduler and generic wait functions: every sleep has some of them on its stack.
const SCHEDULER: [&str; 26] = [
    "__schedule",
    "__schedule_loop",
    "context_switch",
    "schedule",
    "schedule_timeout",
    "schedule_timeout_uninterruptible",
    "schedule_timeout_interruptible",
    "schedule_preempt_disabled",
    "schedule_hrtimeout",
    "schedule_hrtimeout_range",
    "schedule_hrtimeout_range_clock",
    "preempt_schedule_common",
    "io_schedule",
    "io_schedule_timeout",
    "wait_for_completion",
    "wait_for_completion_interruptible",
    "wait_for_completion_killable",
    "wait_for_completion_state",
    "wait_for_completion_timeout",
    "wait_for_completion_io",
    "__wait_for_common",
    "do_wait_for_common",
    "bit_wait",
    "__wait_on_bit",
    "out_of_line_wait_on_bit",
    "wait_woken",
];

/// `stack`: innermost function first. `None` if it is empty.
pub fn reason(stack: &[&str]) -> Option<Reason> {
    let stack: Vec<&str> = stack.iter().map(|function| function.split('.').next().unwrap_or(function)).collect();
    let known = |rules: &[Rule]| {
        let of = |function: &&str| rules.iter().find(|rule| rule.functions.contains(function));
        stack.iter().find_map(of).map(|rule| rule.reason.clone())
    };
    let first = || stack.iter().find(|function| !SCHEDULER.contains(function)).or(stack.first());
    let innermost =
        |function: &&str| PASSES[2].iter().find(|rule| rule.functions.contains(function)).map(|r| r.reason.clone());
    PASSES[..2]
        .iter()
        .find_map(|rules| known(rules))
        .or_else(|| first().map(|function| innermost(function).unwrap_or_else(|| Reason::Function((*function).into()))))
}

/// The only reason for which a system call can wait, except in an uninterruptible sleep.
pub fn reason_of_call(syscall: &str) -> Option<Reason> {
    Some(match syscall {
        "io_uring_enter" => Reason::UringCompletions,
        "io_getevents" | "io_pgetevents" => Reason::AioEvents,
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => Reason::Epoll,
        "poll" | "ppoll" | "select" | "pselect6" => Reason::Poll,
        "futex" | "futex_wait" | "futex_waitv" => Reason::Futex,
        "nanosleep" | "clock_nanosleep" => Reason::Sleep,
        "wait4" | "waitid" => Reason::Child,
        "rt_sigtimedwait" | "rt_sigsuspend" | "pause" => Reason::Signal,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specific_outer_function_precedes_a_generic_inner_one() {
        let tag =
            ["__schedule", "schedule", "io_schedule", "blk_mq_get_tag", "__blk_mq_alloc_requests", "io_cqring_wait"];
        assert_eq!(reason(&tag), Some(Reason::RequestTag));
        let fsync =
            ["__schedule", "io_schedule", "folio_wait_bit_common", "folio_wait_writeback", "file_write_and_wait_range"];
        assert_eq!(reason(&fsync), Some(Reason::Writeback));
        let flush = ["__schedule", "submit_bio_wait", "blkdev_issue_flush", "ext4_sync_file"];
        assert_eq!(reason(&flush), Some(Reason::DeviceFlush));
        let worker = ["__schedule", "__mutex_lock.constprop.0", "io_wq_submit_work", "io_wq_worker"];
        assert_eq!(reason(&worker), Some(Reason::Mutex), "a busy worker is not idle");
        assert_eq!(reason(&["__schedule", "schedule_timeout", "io_wq_worker"]), Some(Reason::IowqIdle));
        let unknown = ["__schedule", "schedule", "shmem_fallocate", "io_wq_submit_work", "io_wq_worker"];
        assert_eq!(reason(&unknown), Some(Reason::Function("shmem_fallocate".into())), "nor one with an unknown cause");
    }

    #[test]
    fn a_lock_wait_is_attributed_to_the_innermost_caller() {
        let lock = ["ext4_file_write_iter", "io_write", "io_issue_sqe", "io_wq_submit_work", "io_wq_worker"];
        assert_eq!(reason(&lock), Some(Reason::RwSemaphore));
        let direct = ["schedule", "__iomap_dio_rw", "iomap_dio_rw", "ext4_file_write_iter", "io_write"];
        assert_eq!(reason(&direct), Some(Reason::DirectIo));
        let other = ["schedule", "ext4_some_wait", "ext4_file_write_iter", "vfs_write"];
        assert_eq!(reason(&other), Some(Reason::Function("ext4_some_wait".into())));
    }

    #[test]
    fn an_unknown_sleep_is_named_after_its_innermost_function() {
        let unknown = ["__schedule", "schedule", "wait_for_completion", "drm_wait.isra.0", "ioctl"];
        assert_eq!(reason(&unknown), Some(Reason::Function("drm_wait".into())));
        assert_eq!(reason(&["schedule"]), Some(Reason::Function("schedule".into())));
        assert_eq!(reason(&[]), None);
    }

    #[test]
    fn an_inlined_completion_wait_is_recognized_by_its_system_call() {
        let inlined =
            ["__schedule", "schedule", "schedule_hrtimeout_range_clock", "__do_sys_io_uring_enter", "do_syscall_64"];
        assert_eq!(reason(&inlined), Some(Reason::UringCompletions));
        let other = ["__schedule", "schedule", "io_submit_flush", "__do_sys_io_uring_enter", "do_syscall_64"];
        assert_eq!(reason(&other), Some(Reason::Function("io_submit_flush".into())));
    }

    #[test]
    fn a_frozen_thread_is_distinguished_from_a_stopped_one() {
        let outer = ["get_signal", "arch_do_signal_or_restart", "do_syscall_64"];
        assert_eq!(reason(&[&["__schedule", "schedule"], &outer[..]].concat()), Some(Reason::Frozen));
        assert_eq!(
            reason(&[&["__schedule", "schedule", "do_signal_stop"], &outer[..]].concat()),
            Some(Reason::Stopped)
        );
    }

    #[test]
    fn a_restarted_sleep_counts_as_a_sleep() {
        assert_eq!(reason(&["__schedule", "schedule", "do_syscall_64"]), Some(Reason::Sleep));
        let in_call = ["__schedule", "schedule", "some_wait", "do_syscall_64"];
        assert_eq!(reason(&in_call), Some(Reason::Function("some_wait".into())));
    }

    #[test]
    fn a_partial_write_waits_for_the_page_that_it_reads() {
        let cold = ["schedule", "io_schedule", "bit_wait", "__wait_on_bit", "ext4_block_write_begin", "vfs_write"];
        assert_eq!(reason(&cold), Some(Reason::PageIo));
        let full = ["schedule", "start_this_handle", "ext4_block_write_begin", "vfs_write"];
        assert_eq!(reason(&full), Some(Reason::JournalSpace));
    }

    #[test]
    fn no_function_has_two_reasons() {
        let all: Vec<&str> = PASSES.iter().flat_map(|rules| rules.iter()).flat_map(|r| r.functions).copied().collect();
        let once: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), once.len());
        assert!(SCHEDULER.iter().all(|function| !once.contains(function)));
    }
}
