use super::*;

fn other(name: &str) -> Option<Entry> {
    Some(Entry::Other(name.into()))
}

fn vector(name: &'static str) -> Fired {
    Fired::Vector(name.into())
}

#[test]
fn kernel_entries_are_identified_by_symbol() {
    let of_symbol = |symbol| of(Some(symbol), None, None);
    assert_eq!(of_symbol("asm_sysvec_reschedule_ipi"), Some(Entry::ReschedIpi));
    assert_eq!(of_symbol("asm_common_interrupt"), Some(Entry::DeviceIrq));
    assert_eq!(of_symbol("asm_sysvec_apic_timer_interrupt"), Some(Entry::TimerTick));
    assert_eq!(of_symbol("asm_exc_page_fault"), Some(Entry::PageFault));
    assert_eq!(of_symbol("asm_sysvec_irq_work"), other("irq_work"));
    assert_eq!(of_symbol("asm_sysvec_kvm_posted_intr_ipi"), other("kvm_posted_intr_ipi"));
    assert_eq!(of_symbol("asm_exc_nmi"), other("nmi"));
    assert_eq!(of_symbol("entry_SYSCALL_64_after_hwframe"), None);
    assert_eq!(of(Some("ret_from_fork_asm"), Some(&vector("timer")), None), None, "no entry from user mode");
}

#[test]
fn an_unambiguous_entry_symbol_takes_precedence_over_the_action() {
    let tick = vector("timer");
    assert_eq!(of(Some("asm_exc_page_fault"), Some(&tick), None), Some(Entry::PageFault));
    assert_eq!(of(Some("asm_common_interrupt"), Some(&tick), Some("nvme0q1")), Some(Entry::DeviceIrq));
    assert_eq!(of(Some("asm_sysvec_reschedule_ipi"), Some(&Fired::Line), Some("nvme0q1")), Some(Entry::ReschedIpi));
}

#[test]
fn hyper_v_timer_and_bus_entries_are_identified() {
    assert_eq!(of(Some("asm_sysvec_hyperv_stimer0"), None, None), Some(Entry::TimerTick));
    assert_eq!(of(Some("asm_sysvec_hyperv_stimer0"), Some(&Fired::Timer), None), Some(Entry::TimerTick));
    let callback = |fired: Option<&Fired>| of(Some("asm_sysvec_hyperv_callback"), fired, None);
    assert_eq!(callback(None), Some(Entry::DeviceIrq));
    assert_eq!(callback(Some(&Fired::Timer)), Some(Entry::TimerTick), "a host without direct timers sends a message");
    assert_eq!(of(Some("asm_sysvec_hyperv_reenlightenment"), None, None), other("hyperv_reenlightenment"));
    assert_eq!(of(Some("asm_sysvec_reschedule_ipi"), Some(&vector("reschedule")), None), Some(Entry::ReschedIpi));
}

#[test]
fn xen_entries_are_identified_by_the_handler_name() {
    for symbol in ["asm_sysvec_xen_hvm_callback", "asm_exc_xen_hypervisor_callback"] {
        let by = |line| of(Some(symbol), Some(&Fired::Line), Some(line));
        assert_eq!(by("timer0"), Some(Entry::TimerTick));
        assert_eq!(by("resched12"), Some(Entry::ReschedIpi));
        assert_eq!(by("callfunc3"), other("call_function"));
        assert_eq!(by("callfuncsingle3"), other("call_function_single"));
        assert_eq!(by("irqwork0"), other("irq_work"));
        assert_eq!(by("spinlock1"), other("spinlock"));
        assert_eq!(by("blkif"), Some(Entry::DeviceIrq));
        assert_eq!(by("eth0-q0-rx"), Some(Entry::DeviceIrq));
        assert_eq!(of(Some(symbol), Some(&Fired::Line), None), Some(Entry::DeviceIrq));
        let name = symbol.trim_start_matches("asm_sysvec_").trim_start_matches("asm_exc_");
        assert_eq!(of(Some(symbol), None, None), other(name));
    }
}

#[test]
fn fred_entries_are_identified_by_the_action() {
    let by = |fired: &Fired, line| of(Some("asm_fred_entrypoint_user"), Some(fired), line);
    assert_eq!(by(&vector("timer"), None), Some(Entry::TimerTick));
    assert_eq!(by(&vector("reschedule"), None), Some(Entry::ReschedIpi));
    assert_eq!(by(&vector("call_function_single"), None), other("call_function_single"));
    assert_eq!(by(&vector("irq work"), None), other("irq_work"));
    assert_eq!(by(&Fired::Line, Some("nvme0q3")), Some(Entry::DeviceIrq));
    assert_eq!(by(&Fired::PageFault, None), Some(Entry::PageFault));
    assert_eq!(of(Some("asm_fred_entrypoint_user"), None, None), other("fred_entrypoint_user"));
}

#[test]
fn entries_are_identified_by_the_action_without_symbols() {
    assert_eq!(of(None, Some(&vector("timer")), None), Some(Entry::TimerTick));
    assert_eq!(of(None, Some(&Fired::Line), Some("resched0")), Some(Entry::ReschedIpi));
    assert_eq!(of(None, None, Some("nvme0q1")), None);
}

#[test]
fn system_call_entry_symbols_are_recognized() {
    for symbol in ["entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_compat_after_hwframe", "asm_int80_emulation"] {
        assert!(is_system_call(symbol), "{symbol}");
    }
    assert!(!is_system_call("asm_common_interrupt") && !is_system_call("ret_from_fork_asm"));
}

#[test]
fn kick_sites_are_recognized_by_function() {
    assert!(is_kick_site("task_work_add") && is_kick_site("task_work_add.isra.0"));
    assert!(!is_kick_site("wakeup_preempt") && !is_kick_site("ttwu_queue_wakelist"));
}

#[test]
fn arm64_interrupt_entries_are_identified_by_the_action() {
    // Outermost return address of an interrupt on 6.1, 6.12 and 7.3: in `el0t_64_irq`, which calls its handler.
    for symbol in ["el0t_64_irq", "el0t_64_irq_handler", "el0t_64_fiq", "el0t_32_irq"] {
        let by = |fired: &Fired, line| of(Some(symbol), Some(fired), line);
        assert_eq!(by(&vector("timer"), None), Some(Entry::TimerTick));
        assert_eq!(by(&vector("reschedule"), None), Some(Entry::ReschedIpi));
        assert_eq!(by(&vector("call_function"), None), other("call_function"));
        assert_eq!(by(&vector("irq_work"), None), other("irq_work"));
        assert_eq!(by(&Fired::Line, Some("nvme0q1")), Some(Entry::DeviceIrq));
        assert_eq!(by(&Fired::Line, Some("arch_timer")), Some(Entry::TimerTick));
        assert_eq!(of(Some(symbol), None, None), other("el0_interrupt"));
    }
}

#[test]
fn arm64_exceptions_are_identified_by_function() {
    let tick = vector("timer");
    for symbol in ["el0_da", "el0_ia"] {
        assert_eq!(of(Some(symbol), Some(&tick), None), Some(Entry::PageFault), "the tick came within the fault");
    }
    assert_eq!(of(Some("el0_undef"), None, None), other("undef"));
    assert_eq!(of(Some("el0_sve_acc"), Some(&tick), None), other("sve_acc"));
    assert!(is_system_call("el0_svc") && of(Some("el0_svc"), None, None).is_none());
    assert!(!is_system_call("el0_da") && !is_system_call("do_el0_svc"));
    assert_eq!(of(Some("ret_from_fork"), Some(&tick), None), None, "no entry from user mode");
}

#[test]
fn compiler_clones_are_recognized_as_their_function() {
    assert!(is_system_call("el0_svc.isra.0") && is_system_call("el0_svc.cold"));
    assert!(!is_system_call("el0_svc_something.isra.0"));
    assert_eq!(of(Some("el0_da.constprop.0"), None, None), Some(Entry::PageFault));
}

#[test]
fn each_entry_symbol_belongs_to_one_architecture() {
    for symbol in
        ["asm_sysvec_reschedule_ipi", "asm_exc_page_fault", "asm_fred_entrypoint_user", "el0_da", "el0t_64_irq"]
    {
        assert_eq!(x86::of_symbol(symbol).is_some(), arm64::of_symbol(symbol).is_none(), "{symbol}");
    }
}
