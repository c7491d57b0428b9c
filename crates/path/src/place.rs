//! Attributes a sample to a place in the kernel: one place per stack.
//!
//! **The rule**: searching outwards from the innermost function, the first function in a table decides. So the code
//! counts, not its caller: a copy within task work is `copy`, a wake-up within a driver's interrupt is
//! `wake_up_and_scheduling`. Shared helpers are in no table and count for their caller: locks, lists, allocators, RCU,
//! and `io_read`, which both submission and task work call. All kernel entries are in a table, so the search never
//! continues from an interrupt into the interrupted code.
//!
//! Tables contain names and prefixes. A name takes precedence over a prefix, and a longer prefix over a shorter one.
//! Leading underscores and compiler suffixes (`.constprop.0`, `.isra.0`, `.cold`) are stripped first.

use std::collections::HashMap;
use std::sync::OnceLock;

use iotrail_schema::place::Place;

/// Functions of one place. Names have no leading underscores.
struct Rule {
    place: Place,
    /// Whole names.
    names: &'static [&'static str],
    prefixes: &'static [&'static str],
}

/// The comment above each rule gives its reason.
#[rustfmt::skip]
const RULES: &[Rule] = &[
    // Submission calls, and the functions around a request's start. Completions posted inline count here.
    // `io_issue_sqe`, `io_read` and `__io_submit_flush_completions` are left out, because task work also calls them.
    Rule {
        place: Place::Submit,
        names: &[
            "io_submit_sqes", "io_submit_sqe", "io_get_sqe", "io_init_req", "io_queue_sqe",
            "io_uring_enter", "do_sys_io_uring_enter", "se_sys_io_uring_enter", "x64_sys_io_uring_enter",
            "arm64_sys_io_uring_enter", "arm64_sys_io_submit",
            // io-wq: punting a request, and the worker's own loop.
            "io_wq_worker", "io_worker_handle_work", "io_wq_submit_work", "io_wq_enqueue", "io_queue_iowq", "io_wq_free_work",
            "io_wq_worker_sleeping", "io_wq_worker_running", "io_wqe_worker",
            // Native aio.
            "io_submit_one", "do_sys_io_submit", "se_sys_io_submit", "x64_sys_io_submit", "aio_read", "aio_write",
        ],
        prefixes: &[],
    },
    // lib/iov_iter.c and the architecture's copy routines, under the names of 6.1 to 6.18.
    Rule {
        place: Place::Copy,
        names: &[
            "rep_movs_alternative", "rep_stos_alternative", "clear_user", "copyin", "copyout", "copy_to_iter", "copy_from_iter",
            "copy_page_to_iter", "copy_page_from_iter", "copy_folio_to_iter", "strncpy_from_user",
            "csum_and_copy_to_iter", "csum_and_copy_from_iter", "simple_copy_to_iter", "copy_mc_to_iter", "iov_iter_zero",
            "csum_partial_copy_generic", "arch_copy_to_user", "arch_copy_from_user", "arch_clear_user",
            "copy_folio_from_iter_atomic", "copy_page_from_iter_atomic", "memcpy_to_iter", "memcpy_from_iter",
        ],
        prefixes: &["copy_to_user", "copy_from_user", "copy_user_", "get_user_", "put_user_", "copy_to_iter_", "copy_from_iter_"],
    },
    // fs/, mm/filemap.c and their system calls. Includes block devices opened as files (`blkdev_`, block/fops.c),
    // pipes and event files.
    Rule {
        place: Place::FileSystem,
        names: &[
            "ksys_read", "ksys_write", "ksys_pread64", "ksys_pwrite64", "x64_sys_read", "x64_sys_write", "x64_sys_pread64",
            "arm64_sys_read", "arm64_sys_write", "arm64_sys_pread64", "arm64_sys_pwrite64",
            "x64_sys_pwrite64", "se_sys_pread64", "se_sys_pwrite64", "rw_verify_area", "touch_atime", "atime_needs_update",
            "file_update_time", "file_remove_privs", "fsnotify", "dio_bio_end_io", "dio_bio_end_aio", "balance_dirty_pages_ratelimited_flags",
            "balance_dirty_pages_ratelimited", "dio_complete", "read_pages", "folio_mark_accessed", "aio_complete_rw", "aio_complete",
            "security_file_permission", "writeback_single_inode", "mark_inode_dirty",
        ],
        prefixes: &[
            "vfs_", "filemap_", "generic_file_", "generic_perform_write", "page_cache_", "iomap_", "blkdev_", "ext4_", "ext2_", "jbd2_",
            "xfs_", "xlog_", "btrfs_", "f2fs_", "fuse_", "nfs_", "ovl_", "shmem_", "erofs_", "squashfs_", "zfs_", "zpl_", "mpage_",
            "pipe_", "anon_pipe_", "eventfd_", "fsnotify_", "block_write_", "block_read_", "do_mpage_", "kiocb_write_and_wait", "kiocb_invalidate_", "kiocb_modified",
        ],
    },
    // block/, its schedulers, accounting and tag allocation, and the virtual block devices in drivers/md.
    Rule {
        place: Place::BlockLayer,
        names: &["submit_bio", "get_request", ],
        prefixes: &[
            "blk_", "bio_", "blkcg_", "blkg_", "bdev_", "elv_", "dd_", "bfq_", "kyber_", "rq_qos_", "wbt_", "sbitmap_", "part_",
            "throtl_", "ioc_", "dm_", "md_", "raid", "submit_bio_", "update_io_ticks", "disk_",
        ],
    },
    // Disk and network drivers, by their prefixes, and DMA mapping.
    Rule {
        place: Place::Driver,
        names: &[
            "vm_notify", "vm_interrupt", "vp_notify", "vp_interrupt", "vp_vring_interrupt", "detach_buf_split", "detach_buf_packed",
            "iowrite16", "iowrite32", "ioread8", "ioread16", "ioread32", "null_queue_rq", "null_queue_rqs", "null_process_cmd",
            "null_handle_cmd", "null_timer_expired", "lo_rw_aio", "loop_queue_rq", "loop_process_work",
        ],
        prefixes: &[
            "virtio_", "virtblk_", "virtqueue_", "vring_", "virtnet_", "nvme_", "scsi_", "ata_", "ahci_", "sd_init_command", "sd_setup_",
            "sd_done", "mpt3sas_", "megasas_", "nbd_", "dma_", "swiotlb_", "iommu_", "intel_iommu_", "amd_iommu_", "mlx4_", "mlx5_",
            "mlx5e_", "ixgbe_", "i40e_", "ice_", "igb_", "e1000_", "ena_", "gve_", "bnxt_", "veth_", "xennet_", "netvsc_", "blkfront_",
        ],
    },
    // net/ and the socket calls. Loopback has no hardware, so it is not a driver.
    Rule {
        place: Place::Network,
        names: &[
            "alloc_skb", "kfree_skb", "kfree_skb_partial", "consume_skb", "dev_queue_xmit", "dev_hard_start_xmit", "process_backlog",
            "lock_sock_nested", "release_sock", "build_skb", "sys_sendto", "sys_recvfrom", "sys_sendmsg", "sys_recvmsg",
            "arm64_sys_sendto", "arm64_sys_recvfrom", "arm64_sys_sendmsg", "arm64_sys_recvmsg",
            "x64_sys_sendto", "x64_sys_recvfrom", "x64_sys_sendmsg", "x64_sys_recvmsg", "loopback_xmit", "enqueue_to_backlog",
            "kmalloc_reserve", "pskb_copy", "import_iovec_from_msg", "csum_partial", "security_socket_sendmsg",
            "security_socket_recvmsg", "sys_accept4", "do_accept",
        ],
        prefixes: &[
            "tcp_", "udp_", "udpv6_", "sock_", "inet_", "inet6_", "ip_", "ip6_", "ipv4_", "ipv6_", "skb", "sk_", "net_", "netif_",
            "napi_", "nf_", "nft_", "unix_", "qdisc_", "sch_", "fq_", "pfifo_", "neigh_", "fib_", "dst_", "eth_", "validate_xmit_",
            "packet_", "mptcp_", "tls_", "datagram_",
        ],
    },
    // Page faults, and page pinning, which direct I/O does for unregistered buffers.
    Rule {
        place: Place::Memory,
        names: &[
            "asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault", "handle_mm_fault",
            "internal_get_user_pages_fast", "iov_iter_get_pages2",
            "fault_in_readable", "fault_in_writeable", "fault_in_iov_iter_readable",
            "el0_da", "el0_ia", "el1_abort", "do_mem_abort", "do_page_fault", "do_translation_fault",
            "arm64_sys_mmap", "arm64_sys_munmap", "arm64_sys_brk", "arm64_sys_madvise",
            "x64_sys_mmap", "x64_sys_munmap", "x64_sys_brk", "x64_sys_madvise",
            "try_to_free_pages", "do_try_to_free_pages", "kswapd", "vm_mmap_pgoff", "do_munmap", "do_anonymous_page",
        ],
        prefixes: &["gup_", "get_user_pages", "pin_user_pages", "unpin_user_", "try_grab_", "shrink_", "flush_tlb_mm", "iov_iter_extract_"],
    },
    // Polling loops, which use a CPU even without work.
    Rule {
        place: Place::Poll,
        names: &["io_sq_thread", "io_sq_tw", "io_do_iopoll", "io_iopoll_check", "io_iopoll_try_reap_events", "io_uring_classic_poll",
                 "io_uring_hybrid_poll", "ep_poll", "ep_send_events", "ep_item_poll", "do_epoll_wait", "do_epoll_pwait", "do_sys_poll",
                 "do_poll", "do_select", "core_sys_select", "read_events", "aio_read_events", "do_io_getevents"],
        prefixes: &["ep_poll_", "arm64_sys_epoll_", "arm64_sys_io_getevents", "arm64_sys_io_pgetevents", "x64_sys_epoll_", "x64_sys_io_getevents", "x64_sys_io_pgetevents", "aio_read_events_"],
    },
    // kernel/task_work.c and io_uring's own lists: adding task work (in the waker's context) and running it.
    Rule {
        place: Place::TaskWork,
        names: &[
            "task_work_run", "task_work_add", "task_work_cancel", "tctx_task_work", "tctx_task_work_run", "io_handle_tw_list",
            "handle_tw_list", "io_run_task_work", "io_run_local_work", "io_run_local_work_loop", "io_run_local_work_locked",
            "io_run_task_work_sig", "resume_user_mode_work", "io_fallback_req_func", "io_fallback_tw", "io_req_task_work_add",
            "io_req_task_work_add_remote", "io_req_normal_work_add", "io_req_local_work_add", "io_req_task_complete", "io_req_rw_complete",
            "io_req_task_submit", "io_poll_task_func", "io_complete_rw", "io_cqring_wake", "io_poll_wake", "io_poll_execute",
        ],
        prefixes: &[],
    },
    // kernel/sched/, wait queues, futexes, and the sleep while waiting for completions.
    Rule {
        place: Place::WakeUpAndScheduling,
        names: &[
            "schedule", "schedule_idle", "schedule_timeout", "schedule_hrtimeout_range", "schedule_hrtimeout_range_clock", "io_schedule",
            "io_schedule_timeout", "preempt_schedule", "preempt_schedule_irq", "preempt_schedule_common", "cond_resched", "preempt_schedule_notrace",
            "try_to_wake_up", "finish_task_switch", "switch_to", "switch_to_asm", "context_switch",
            "prepare_task_switch", "prepare_to_wait", "prepare_to_wait_exclusive", "finish_wait", "autoremove_wake_function",
            "default_wake_function", "complete", "swake_up_one", "wait_woken", "woken_wake_function", "do_nanosleep", "hrtimer_nanosleep",
            "select_task_rq_fair", "update_load_avg", "update_curr", "dl_server_start", "dl_server_stop", "resched_curr",
            "io_cqring_wait", "io_run_loop", "io_loop_wait", "io_cqring_schedule_timeout", "cqring_wait_schedule", "io_wake_function", "rcu_note_context_switch", "check_preempt_wakeup_fair",
            "wakeup_preempt", "switch_fpu_return", "restore_fpregs_from_fpstate", "set_next_entity", "put_prev_entity", "set_task_cpu",
            "do_wait_intr_irq", "newidle_balance", "x64_sys_futex", "x64_sys_sched_yield", "arm64_sys_futex", "arm64_sys_sched_yield", "do_sched_yield", "io_worker_cancel_cb",
            "wait_for_completion", "submit_bio_wait_endio",
        ],
        prefixes: &[
            "ttwu_", "wake_up", "enqueue_task", "enqueue_entity", "dequeue_task", "dequeue_entit", "pick_next_", "pick_task_", "put_prev_task_", "set_next_task_", "sched_balance_",
            "load_balance", "psi_", "futex_", "do_futex", "schedule_timeout_", "sched_ttwu_", "update_rq_clock", "activate_task",
            "deactivate_task", "block_task", "switch_mm", "sched_mm_", "hrtick_",
        ],
    },
    // The entry assembly and the C code around each system call. Its ends run with interrupts disabled.
    Rule {
        place: Place::SyscallEntry,
        names: &[
            "do_syscall_64", "x64_sys_call", "syscall_return_via_sysret", "syscall_exit_to_user_mode", "syscall_exit_to_user_mode_prepare", "exit_to_user_mode_prepare",
            "syscall_enter_from_user_mode", "syscall_trace_enter", "syscall_exit_work", "syscall_exit_to_user_mode_work", "do_int80_syscall_32",
            "entry_SYSCALL_64", "entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64_safe_stack", "entry_SYSRETQ_unsafe_stack",
            "el0_svc", "do_el0_svc", "el0_svc_common", "invoke_syscall", "el0t_64_sync", "el0t_64_sync_handler", "ret_to_user",
            "do_notify_resume", "syscall_trace_exit",
            "srso_alias_safe_ret", "audit_syscall_entry", "audit_syscall_exit", "entry_SYSCALL_compat_after_hwframe",
        ],
        prefixes: &["seccomp_", "secure_computing"],
    },
    // Interrupt entries, softirqs, and the kernel timers and RCU that run from them.
    Rule {
        place: Place::Interrupt,
        names: &[
            "el0t_64_irq", "el0t_64_irq_handler", "el1h_64_irq", "el1h_64_irq_handler", "el0_interrupt", "el1_interrupt",
            "el0_irq_handler_common", "do_interrupt_handler", "call_on_irq_stack", "gic_handle_irq", "generic_handle_domain_irq",
            "generic_handle_arch_irq", "handle_percpu_devid_irq", "arch_timer_handler_virt", "arch_timer_handler_phys",
            "asm_common_interrupt", "common_interrupt", "handle_edge_irq", "handle_fasteoi_irq", "handle_irq_event", "handle_irq_event_percpu",
            "irq_exit_rcu", "irq_enter_rcu", "do_softirq", "do_softirq_own_stack", "handle_softirqs", "run_ksoftirqd", "invoke_softirq",
            "local_bh_enable_ip", "hrtimer_interrupt", "hrtimer_run_queues", "hrtimer_run_softirq", "update_process_times", "scheduler_tick",
            "sched_tick", "run_timer_softirq", "run_timer_base", "tmigr_handle_remote", "rcu_core", "rcu_core_si", "rcu_sched_clock_irq",
            "irq_work_run", "irq_work_run_list", "irq_work_single", "account_process_tick", "update_wall_time",
        ],
        prefixes: &["asm_sysvec_", "sysvec_", "asm_exc_", "exc_", "tick_", "timerfd_", "raise_softirq", "tasklet_"],
    },
    // IPIs: sending them (in a virtual machine an exit to the hypervisor), receiving them, and the work that they
    // carry.
    Rule {
        place: Place::Ipi,
        names: &[
            "asm_sysvec_reschedule_ipi", "sysvec_reschedule_ipi", "kick_process", "flush_smp_call_function_queue", "smp_call_single_queue",
            "native_smp_send_reschedule", "arch_irq_work_raise",
            "native_send_call_func_single_ipi", "native_send_call_func_ipi", "kvm_smp_send_call_func_ipi", "send_call_function_single_ipi",
            "smp_send_reschedule", "arch_smp_send_reschedule", "smp_cross_call", "ipi_send_mask", "ipi_handler", "do_handle_IPI",
            "gic_ipi_send_mask", "handle_percpu_devid_fasteoi_ipi",
        ],
        prefixes: &[
            "asm_sysvec_call_function", "sysvec_call_function", "generic_smp_call_function", "x2apic_send_IPI", "default_send_IPI",
            "kvm_send_ipi", "hv_send_ipi", "xen_send_IPI", "native_x2apic_icr", "native_apic_icr", "smp_call_function",
        ],
    },
    // Everything below a tracepoint: the dispatch, the BPF programs and their helpers.
    Rule {
        place: Place::Tracing,
        names: &["trace_call_bpf", "perf_tp_event", "perf_swevent_event", "trace_buffer_lock_reserve", "ring_buffer_lock_reserve"],
        prefixes: &["bpf_", "traceiter_", "perf_trace_", "perf_syscall_", "trace_event_", "ftrace_"],
    },
    // Functions below the idle loop that are in no other table.
    Rule {
        place: Place::Idle,
        names: &["do_idle", "cpu_startup_entry", "start_secondary", "rest_init", "default_idle", "default_idle_call", "poll_idle",
                 "pv_native_safe_halt", "native_safe_halt", "intel_idle", "acpi_safe_halt", "arch_cpu_idle", "cpu_do_idle", "io_idle"],
        prefixes: &["cpuidle_", "mwait_idle", "haltpoll_", "menu_", "teo_", "tick_nohz_idle_", "intel_idle_", "acpi_idle_"],
    },
];

/// A function without compiler suffixes and leading underscores.
pub(crate) fn base(function: &str) -> &str {
    let end = function.find('.').unwrap_or(function.len());
    function[..end].trim_start_matches('_')
}

struct Tables {
    names: HashMap<&'static str, Place>,
    /// Longest first.
    prefixes: Vec<(&'static str, Place)>,
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let names = RULES.iter().flat_map(|r| r.names.iter().map(|n| (*n, r.place))).collect();
        let mut prefixes: Vec<_> = RULES.iter().flat_map(|r| r.prefixes.iter().map(|p| (*p, r.place))).collect();
        prefixes.sort_by_key(|(p, _)| std::cmp::Reverse(p.len()));
        Tables { names, prefixes }
    })
}

/// The place of one function; `None` if it counts for its caller.
pub(crate) fn of_function(function: &str) -> Option<Place> {
    let (tables, base) = (tables(), base(function));
    let by_prefix = || tables.prefixes.iter().find(|(p, _)| base.starts_with(p)).map(|(_, place)| *place);
    tables.names.get(base).copied().or_else(by_prefix)
}

/// The place of a kernel stack, innermost function first.
pub(crate) fn of_stack<S: AsRef<str>>(frames: &[S]) -> Place {
    frames.iter().find_map(|f| of_function(f.as_ref())).unwrap_or(Place::Other)
}

/// Number of innermost frames that belong to an interrupt, up to its entry. A stack without an entry belongs entirely
/// to the interrupt, so all frames count.
pub fn interrupted<S: AsRef<str>>(frames: &[S]) -> usize {
    let entry = |f: &&S| super::entry::of_symbol(f.as_ref()).is_some();
    let Some(first) = frames.iter().position(|f| entry(&f)) else { return frames.len() };
    first + frames[first..].iter().take_while(entry).count()
}

/// Index of the outermost frame that runs task work; `None` if there is none.
pub fn task_work<S: AsRef<str>>(frames: &[S]) -> Option<usize> {
    let runs = |f: &S| {
        let runners =
            ["task_work_run", "tctx_task_work", "tctx_task_work_run", "io_run_local_work", "io_run_local_work_locked"];
        runners.contains(&base(f.as_ref()))
    };
    frames.iter().rposition(runs)
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
