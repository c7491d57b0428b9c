//! Kernel entry points and IPI call sites by their symbols.
//!
//! What differs between architectures and kernels stands here and in `probe/bpf/arch.h`, nowhere else.

/// What made the CPU enter the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    ReschedIpi,
    /// A device's interrupt, any line.
    DeviceIrq,
    TimerTick,
    PageFault,
    /// Another interrupt or exception, by its name: `call_function_single`, `irq_work`, `nmi` …
    Other(String),
}

/// The entry point that a symbol names; `None` for a symbol that is none.
///
/// x86-64: `asm_sysvec_*`, `asm_exc_*` and `asm_common_interrupt` since 5.8 (DEFINE_IDTENTRY).
pub fn of_symbol(symbol: &str) -> Option<Entry> {
    Some(match symbol {
        "asm_sysvec_reschedule_ipi" => Entry::ReschedIpi,
        "asm_common_interrupt" => Entry::DeviceIrq,
        "asm_sysvec_apic_timer_interrupt" => Entry::TimerTick,
        "asm_exc_page_fault" => Entry::PageFault,
        other => {
            let name = other.strip_prefix("asm_sysvec_").or_else(|| other.strip_prefix("asm_exc_"))?;
            Entry::Other(name.to_owned())
        }
    })
}

/// The functions that a kick is sent from: to make a running task notice task work.
///
/// `kick_process` sends it, so the call site is its caller's, `task_work_add`; where the compiler inlined either, or made the call a
/// jump, the next caller's.
pub const KICK_SITES: [&str; 4] = ["task_work_add", "kick_process", "io_req_normal_work_add", "__io_req_task_work_add"];

/// Whether an IPI sent from this function is a kick.
pub fn is_kick_site(symbol: &str) -> bool {
    KICK_SITES.contains(&symbol.split('.').next().unwrap_or(symbol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_by_symbol() {
        assert_eq!(of_symbol("asm_sysvec_reschedule_ipi"), Some(Entry::ReschedIpi));
        assert_eq!(of_symbol("asm_common_interrupt"), Some(Entry::DeviceIrq));
        assert_eq!(of_symbol("asm_sysvec_apic_timer_interrupt"), Some(Entry::TimerTick));
        assert_eq!(of_symbol("asm_exc_page_fault"), Some(Entry::PageFault));
        assert_eq!(of_symbol("asm_sysvec_irq_work"), Some(Entry::Other("irq_work".into())));
        assert_eq!(of_symbol("asm_exc_nmi"), Some(Entry::Other("nmi".into())));
        assert_eq!(of_symbol("entry_SYSCALL_64_after_hwframe"), None);
    }

    #[test]
    fn kicks_by_site() {
        assert!(is_kick_site("task_work_add") && is_kick_site("task_work_add.isra.0"));
        assert!(!is_kick_site("wakeup_preempt") && !is_kick_site("ttwu_queue_wakelist"));
    }
}
