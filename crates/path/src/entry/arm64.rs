//! arm64: all interrupts share an entry point, and system calls share another with exceptions
//! (arch/arm64/kernel/entry.S).
//!
//! The action in an interrupt decides: the last handler in this entry, from `irq_handler_entry` (the timer also has a
//! line, `arch_timer`) and `ipi_entry`. System calls and exceptions are identified by their main function
//! (entry-common.c): `el0_svc`, `el0_da` …

use super::Entry;

/// Common name of `el0t_64_irq`, `el0t_64_fiq` and their handlers. A handler's symbol begins with its entry's name.
pub(super) const SHARED: &[&str] = &[INTERRUPT];

const INTERRUPT: &str = "el0_interrupt";

const INTERRUPTS: [&str; 6] =
    ["el0t_64_irq", "el0t_64_fiq", "el0t_32_irq", "el0t_32_fiq", "el1h_64_irq", "el1h_64_fiq"];

pub(super) fn of_symbol(symbol: &str) -> Option<Entry> {
    let interrupt = || INTERRUPTS.iter().any(|entry| symbol.starts_with(entry));
    Some(match symbol {
        "el0_da" | "el0_ia" => Entry::PageFault,
        "el0_svc" | "el0_svc_compat" => return None,
        _ if symbol.starts_with("el0t_64_error") || symbol.starts_with("el0t_32_error") => Entry::Other("error".into()),
        _ if interrupt() => Entry::Other(INTERRUPT.into()),
        // `el0_undef`, `el0_sve_acc` …
        other => Entry::Other(other.strip_prefix("el0_")?.to_owned()),
    })
}

pub(super) fn is_system_call(symbol: &str) -> bool {
    symbol == "el0_svc" || symbol == "el0_svc_compat"
}

/// In the order of `enum entry_function` (probe/bpf/arch/arm64.h): entries of system calls and exceptions; callers of a
/// system call; main functions of a system call until its return; entries of interrupts; each for 64-bit and 32-bit
/// programs. The last two are interrupts within the kernel.
#[rustfmt::skip]
pub(super) const FUNCTIONS: &[&str] = &[
    "el0t_64_sync", "el0t_32_sync",
    "do_el0_svc", "do_el0_svc_compat",
    "el0_svc", "el0_svc_compat",
    "el0t_64_irq", "el0t_32_irq",
    "el0t_64_fiq", "el0t_32_fiq",
    "el0t_64_error", "el0t_32_error",
    "el1h_64_irq", "el1h_64_fiq",
];

/// Functions between `ipi_raise` and the function that requests the IPI (arch/arm64/kernel/smp.c), for kernels without
/// `ipi_send_cpu`.
pub(super) const IPI_SENDERS: &[&str] = &["smp_cross_call", "smp_send_reschedule"];
