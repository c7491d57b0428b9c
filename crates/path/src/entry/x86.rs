//! x86-64: each interrupt has its own entry point, `asm_sysvec_*`, `asm_exc_*` or `asm_common_interrupt` since 5.8
//! (DEFINE_IDTENTRY). With Xen, Hyper-V or FRED many interrupts share one.

use super::Entry;

/// Entry points that a hypervisor or FRED shares between interrupts.
///
/// `sysvec_xen_hvm_callback` (drivers/xen/events), `exc_xen_hypervisor_callback` (Xen PV), `sysvec_hyperv_callback`
/// (vmbus), `sysvec_acrn_hv_callback`; `asm_fred_entrypoint_user` (6.9, 14619d912b65).
pub(super) const SHARED: &[&str] =
    &["xen_hvm_callback", "xen_hypervisor_callback", "hyperv_callback", "acrn_hv_callback", FRED];

const FRED: &str = "fred_entrypoint_user";

pub(super) fn of_symbol(symbol: &str) -> Option<Entry> {
    Some(match symbol {
        "asm_sysvec_reschedule_ipi" => Entry::ReschedIpi,
        "asm_common_interrupt" => Entry::DeviceIrq,
        // On Hyper-V its own timer is the tick (drivers/clocksource/hyperv_timer.c).
        "asm_sysvec_apic_timer_interrupt" | "asm_sysvec_hyperv_stimer0" => Entry::TimerTick,
        "asm_exc_page_fault" => Entry::PageFault,
        "asm_fred_entrypoint_user" => Entry::Other(FRED.into()),
        other => {
            let name = other.strip_prefix("asm_sysvec_").or_else(|| other.strip_prefix("asm_exc_"))?;
            Entry::Other(name.to_owned())
        }
    })
}

/// arch/x86/entry/entry_64.S, entry_64_compat.S.
pub(super) fn is_system_call(symbol: &str) -> bool {
    ["entry_SYSCALL_", "entry_SYSENTER_", "entry_INT80_", "asm_int80_"].iter().any(|entry| symbol.starts_with(entry))
}

/// Empty: the entry point's symbol identifies the interrupt.
pub(super) const FUNCTIONS: &[&str] = &[];

/// Empty: either `ipi_send_cpu` or `native_smp_send_reschedule` exists.
pub(super) const IPI_SENDERS: &[&str] = &[];
