//! What made the CPU enter the kernel: by what was seen to be done in the entry, and by its symbol.
//!
//! On bare x86 each interrupt has an entry point of its own, whose symbol says all. Under Xen and Hyper-V, and with FRED, many share
//! one; then what was done decides, by the tracepoints that fired. What differs between architectures and kernels stands here and
//! in `probe/bpf/arch.h`, nowhere else.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

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

/// What was seen to be done in an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fired {
    /// The handler of a line: the one that goes with the entry.
    Line,
    /// A kernel vector's, by its name: `timer`, `reschedule` …
    Vector(Cow<'static, str>),
    PageFault,
    /// A timer ended, in an interrupt that has no tracepoint.
    Timer,
}

/// The entry, from the symbol of its entry point, what fired in it, and the name of the line where that was a line's handler.
/// `None`: it cannot be told, or is none.
pub fn of(symbol: Option<&str>, fired: Option<&Fired>, line: Option<&str>) -> Option<Entry> {
    let Some(symbol) = symbol else { return done(fired?, line) };
    let by_symbol = of_symbol(symbol)?;
    match &by_symbol {
        // Others' work can come by a line: Xen's timers and IPIs do, and those of machines without a vector for them.
        Entry::DeviceIrq => Some(line.and_then(of_line).unwrap_or(by_symbol)),
        Entry::Other(name) if is_shared(name) => Some(match fired {
            Some(fired) => done(fired, line).unwrap_or(by_symbol),
            // Nothing that has a tracepoint: a channel of Hyper-V's bus, whose devices have no lines.
            None if name == "hyperv_callback" => Entry::DeviceIrq,
            None => by_symbol,
        }),
        _ => Some(by_symbol),
    }
}

/// Entry points that stand for whatever the hypervisor or the CPU has to say.
///
/// `sysvec_xen_hvm_callback` (drivers/xen/events), `exc_xen_hypervisor_callback` (Xen PV), `sysvec_hyperv_callback` (vmbus),
/// `sysvec_acrn_hv_callback`; `asm_fred_entrypoint_user` (6.9, 14619d912b65).
fn is_shared(name: &str) -> bool {
    ["xen_hvm_callback", "xen_hypervisor_callback", "hyperv_callback", "acrn_hv_callback", FRED].contains(&name)
}

const FRED: &str = "fred_entrypoint_user";

/// The entry point that a symbol names, as far as it does; `None` for a symbol that is none.
///
/// x86-64: `asm_sysvec_*`, `asm_exc_*` and `asm_common_interrupt` since 5.8 (DEFINE_IDTENTRY).
pub(super) fn of_symbol(symbol: &str) -> Option<Entry> {
    Some(match symbol {
        "asm_sysvec_reschedule_ipi" => Entry::ReschedIpi,
        "asm_common_interrupt" => Entry::DeviceIrq,
        // Hyper-V's own timer (drivers/clocksource/hyperv_timer.c) is the tick there.
        "asm_sysvec_apic_timer_interrupt" | "asm_sysvec_hyperv_stimer0" => Entry::TimerTick,
        "asm_exc_page_fault" => Entry::PageFault,
        "asm_fred_entrypoint_user" => Entry::Other(FRED.into()),
        other => {
            let name = other.strip_prefix("asm_sysvec_").or_else(|| other.strip_prefix("asm_exc_"))?;
            Entry::Other(name.to_owned())
        }
    })
}

fn done(fired: &Fired, line: Option<&str>) -> Option<Entry> {
    Some(match fired {
        Fired::Line => line.and_then(of_line).unwrap_or(Entry::DeviceIrq),
        Fired::Vector(name) => match name.as_ref() {
            "timer" => Entry::TimerTick,
            "reschedule" => Entry::ReschedIpi,
            name => Entry::Other(name.replace(' ', "_")),
        },
        Fired::PageFault => Entry::PageFault,
        Fired::Timer => Entry::TimerTick,
    })
}

/// Lines that are no device's, by their handlers' names: Xen's are `timer0`, `resched0`, `callfunc0`, `callfuncsingle0`, `irqwork0`
/// with the CPU's number (arch/x86/xen/{time,smp}.c).
fn of_line(name: &str) -> Option<Entry> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    Some(match base {
        "timer" | "arch_timer" | "Hyper-V stimer" => Entry::TimerTick,
        "resched" => Entry::ReschedIpi,
        "callfunc" => Entry::Other("call_function".into()),
        "callfuncsingle" => Entry::Other("call_function_single".into()),
        "irqwork" => Entry::Other("irq_work".into()),
        "spinlock" | "debug" if base != name => Entry::Other(base.into()),
        _ => return None,
    })
}

/// Whether the symbol is a system call's entry, whichever way it was made. x86-64: arch/x86/entry/entry_64.S, entry_64_compat.S.
pub(crate) fn is_system_call(symbol: &str) -> bool {
    ["entry_SYSCALL_", "entry_SYSENTER_", "entry_INT80_", "asm_int80_"].iter().any(|entry| symbol.starts_with(entry))
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

    fn other(name: &str) -> Option<Entry> {
        Some(Entry::Other(name.into()))
    }

    fn vector(name: &'static str) -> Fired {
        Fired::Vector(name.into())
    }

    #[test]
    fn entries_by_symbol() {
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
    fn an_entry_of_its_own_is_not_what_came_within_it() {
        let tick = vector("timer");
        assert_eq!(of(Some("asm_exc_page_fault"), Some(&tick), None), Some(Entry::PageFault));
        assert_eq!(of(Some("asm_common_interrupt"), Some(&tick), Some("nvme0q1")), Some(Entry::DeviceIrq));
        assert_eq!(of(Some("asm_sysvec_reschedule_ipi"), Some(&Fired::Line), Some("nvme0q1")), Some(Entry::ReschedIpi));
    }

    #[test]
    fn under_hyper_v_a_timer_is_the_tick_and_the_bus_is_the_devices() {
        assert_eq!(of(Some("asm_sysvec_hyperv_stimer0"), None, None), Some(Entry::TimerTick));
        assert_eq!(of(Some("asm_sysvec_hyperv_stimer0"), Some(&Fired::Timer), None), Some(Entry::TimerTick));
        let callback = |fired: Option<&Fired>| of(Some("asm_sysvec_hyperv_callback"), fired, None);
        assert_eq!(callback(None), Some(Entry::DeviceIrq));
        assert_eq!(
            callback(Some(&Fired::Timer)),
            Some(Entry::TimerTick),
            "a host without direct timers sends a message"
        );
        assert_eq!(of(Some("asm_sysvec_hyperv_reenlightenment"), None, None), other("hyperv_reenlightenment"));
        assert_eq!(of(Some("asm_sysvec_reschedule_ipi"), Some(&vector("reschedule")), None), Some(Entry::ReschedIpi));
    }

    #[test]
    fn under_xen_the_handlers_name_tells() {
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
    fn with_fred_what_was_done_tells() {
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
    fn without_symbols_what_was_done_tells() {
        assert_eq!(of(None, Some(&vector("timer")), None), Some(Entry::TimerTick));
        assert_eq!(of(None, Some(&Fired::Line), Some("resched0")), Some(Entry::ReschedIpi));
        assert_eq!(of(None, None, Some("nvme0q1")), None);
    }

    #[test]
    fn entries_of_system_calls() {
        for symbol in ["entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_compat_after_hwframe", "asm_int80_emulation"] {
            assert!(is_system_call(symbol), "{symbol}");
        }
        assert!(!is_system_call("asm_common_interrupt") && !is_system_call("ret_from_fork_asm"));
    }

    #[test]
    fn kicks_by_site() {
        assert!(is_kick_site("task_work_add") && is_kick_site("task_work_add.isra.0"));
        assert!(!is_kick_site("wakeup_preempt") && !is_kick_site("ttwu_queue_wakelist"));
    }
}
