use std::collections::BTreeSet;

use super::*;

/// Stacks of Linux 6.18, innermost function first. Each place was determined by reading the kernel source.
const RECORDED: &str = include_str!("place_stacks.txt");

#[test]
fn recorded_stacks_are_attributed_to_the_expected_place() {
    let wrong: Vec<String> = RECORDED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (expected, stack) = line.split_once(' ').expect("a place and a stack");
            let got = of_stack(&stack.split(' ').collect::<Vec<_>>());
            (got.name() != expected).then(|| format!("{got} {stack}"))
        })
        .collect();
    assert!(wrong.is_empty(), "otherwise than expected:\n{}", wrong.join("\n"));
}

#[test]
fn a_stack_is_attributed_by_its_innermost_known_function() {
    for (expected, stack) in [
        (Place::Copy, "_copy_to_iter filemap_read io_read io_issue_sqe io_submit_sqes do_syscall_64"),
        (Place::FileSystem, "xas_load filemap_read io_read io_issue_sqe io_submit_sqes do_syscall_64"),
        // A helper counts for its caller.
        (Place::Driver, "_raw_spin_unlock_irqrestore virtio_queue_rq blk_mq_dispatch_rq_list"),
        (Place::BlockLayer, "kmem_cache_alloc_noprof bio_alloc_bioset iomap_dio_bio_iter"),
        // The same io_read below submission and below task work.
        (Place::Submit, "io_read io_issue_sqe io_submit_sqes"),
        (Place::TaskWork, "io_read io_issue_sqe io_req_task_submit tctx_task_work_run"),
        // The interrupted code is irrelevant.
        (Place::Interrupt, "_raw_spin_lock asm_sysvec_apic_timer_interrupt _copy_to_iter filemap_read"),
        (Place::Ipi, "irqentry_exit_to_user_mode asm_sysvec_reschedule_ipi"),
        (Place::Ipi, "native_smp_send_reschedule try_to_wake_up"),
        (Place::Driver, "virtblk_done vring_interrupt handle_irq_event asm_common_interrupt do_idle"),
        (Place::Idle, "pv_native_safe_halt default_idle do_idle cpu_startup_entry"),
        (Place::Memory, "mas_walk lock_vma_under_rcu exc_page_fault asm_exc_page_fault _copy_to_iter"),
        (Place::Network, "native_queued_spin_lock_slowpath __tcp_transmit_skb tcp_write_xmit"),
        (Place::Tracing, "htab_map_hash bpf_prog_0123456789abcdef_ring_complete bpf_trace_run3 io_submit_sqes"),
        // arm64: the timer has a line, and all interrupts share an entry function.
        (
            Place::Driver,
            "nvme_irq handle_irq_event gic_handle_irq call_on_irq_stack do_interrupt_handler el0_interrupt el0t_64_irq",
        ),
        (
            Place::Interrupt,
            "hrtimer_interrupt arch_timer_handler_virt handle_percpu_devid_irq gic_handle_irq el1_interrupt el1h_64_irq",
        ),
        (
            Place::Ipi,
            "do_handle_IPI ipi_handler handle_percpu_devid_irq gic_handle_irq el0_interrupt el0t_64_irq_handler el0t_64_irq",
        ),
        (
            Place::Memory,
            "mas_walk do_page_fault do_translation_fault do_mem_abort el0_da el0t_64_sync_handler el0t_64_sync",
        ),
        (
            Place::Submit,
            "io_nop io_issue_sqe io_submit_sqes __arm64_sys_io_uring_enter invoke_syscall el0_svc_common do_el0_svc el0_svc",
        ),
        (
            Place::SyscallEntry,
            "fpsimd_restore_current_state do_notify_resume el0_svc el0t_64_sync_handler el0t_64_sync",
        ),
        (Place::Other, "never_heard_of nor_of_this"),
        (Place::Other, ""),
    ] {
        assert_eq!(of_stack(&stack.split_whitespace().collect::<Vec<_>>()), expected, "{stack}");
    }
}

#[test]
fn compiler_suffixes_are_removed() {
    for name in ["finish_task_switch", "finish_task_switch.isra.0", "finish_task_switch.constprop.0.cold"] {
        assert_eq!(of_function(name), Some(Place::WakeUpAndScheduling), "{name}");
    }
    assert_eq!(base("__blk_mq_free_request.part.0"), "blk_mq_free_request");
    assert_eq!(of_function("__schedule"), of_function("schedule"));
}

#[test]
fn function_names_of_older_kernels_are_known() {
    for (name, place) in [
        ("io_submit_sqe", Place::Submit),                   // 6.1
        ("copy_user_enhanced_fast_string", Place::Copy),    // up to 6.3
        ("copyout", Place::Copy),                           // up to 6.6
        ("__io_run_local_work", Place::TaskWork),           // 6.1 on
        ("exit_to_user_mode_prepare", Place::SyscallEntry), // up to 6.11
        ("__do_softirq", Place::Interrupt),                 // up to 6.8
        ("scheduler_tick", Place::Interrupt),               // up to 6.9
        ("x2apic_send_IPI", Place::Ipi),
        ("mwait_idle_with_hints.constprop.0", Place::Idle),
    ] {
        assert_eq!(of_function(name), Some(place), "{name}");
    }
}

#[test]
fn rule_names_are_unique_and_not_covered_by_a_prefix() {
    let mut seen = BTreeSet::new();
    for name in RULES.iter().flat_map(|r| r.names.iter().chain(r.prefixes)) {
        assert!(seen.insert(name), "{name} stands twice");
        assert_eq!(base(name), *name);
    }
    // A name is redundant if a prefix of its own rule covers it.
    for rule in RULES {
        for name in rule.names {
            assert!(
                !rule.prefixes.iter().any(|p| name.starts_with(p)),
                "{name} is taken by a prefix of {:?}",
                rule.place
            );
        }
    }
    assert_eq!(RULES.iter().map(|r| r.place).collect::<BTreeSet<_>>().len(), RULES.len());
}

#[test]
fn the_json_name_is_the_displayed_name() {
    for p in Place::ALL {
        assert_eq!(serde_json::to_value(p).unwrap(), p.to_string());
    }
}

#[test]
fn interrupt_frames_end_at_the_interrupt_entry() {
    let stack = [
        "hrtimer_interrupt",
        "sysvec_apic_timer_interrupt",
        "asm_sysvec_apic_timer_interrupt",
        "default_idle",
        "do_idle",
    ];
    assert_eq!(interrupted(&stack), 3);
    assert_eq!(interrupted(&["x", "y"]), 2);
    let arm64 =
        ["gic_handle_irq", "el1_interrupt", "el1h_64_irq_handler", "el1h_64_irq", "default_idle_call", "do_idle"];
    assert_eq!(interrupted(&arm64), 4);
}

#[test]
fn task_work_is_found_by_its_outermost_runner() {
    assert_eq!(task_work(&["io_req_task_complete", "tctx_task_work", "task_work_run", "do_syscall_64"]), Some(2));
    assert_eq!(task_work(&["io_req_rw_complete", "__io_run_local_work", "io_cqring_wait"]), Some(1));
    assert_eq!(task_work(&["schedule", "do_syscall_64"]), None);
}
