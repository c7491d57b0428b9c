//! The cause of a kernel entry: by the action observed in it, and by its symbol.
//!
//! On bare x86 each interrupt has its own entry point, whose symbol identifies it. Under Xen and Hyper-V, with FRED, and on arm64, many
//! share one; then the observed action decides, from the tracepoints that fired. Architecture-specific code is in `entry/` and
//! in `probe/bpf/arch/`, one file each.

mod arm64;
mod x86;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The cause of a kernel entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    ReschedIpi,
    /// A device's interrupt, any line.
    DeviceIrq,
    TimerTick,
    PageFault,
    /// A different interrupt or exception, by its name: `call_function_single`, `irq_work`, `nmi` …
    Other(String),
}

/// The action observed in an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fired {
    /// The handler of a line: the one of this entry.
    Line,
    /// A kernel vector's, by its name: `timer`, `reschedule` …
    Vector(Cow<'static, str>),
    PageFault,
    /// A timer expired, in an interrupt without a tracepoint.
    Timer,
}

/// The entry, from the symbol of its entry point, the tracepoints in it, and the name of the line if that was a line's handler.
/// `None`: unknown, or not an entry.
pub fn of(symbol: Option<&str>, fired: Option<&Fired>, line: Option<&str>) -> Option<Entry> {
    let Some(symbol) = symbol else { return done(fired?, line) };
    let by_symbol = of_symbol(symbol)?;
    match &by_symbol {
        // Other interrupts can come by a line: Xen's timers and IPIs do, and those of machines without a vector for them.
        Entry::DeviceIrq => Some(line.and_then(of_line).unwrap_or(by_symbol)),
        Entry::Other(name) if is_shared(name) => Some(match fired {
            Some(fired) => done(fired, line).unwrap_or(by_symbol),
            // No event with a tracepoint: a channel of Hyper-V's bus, whose devices have no lines.
            None if name == "hyperv_callback" => Entry::DeviceIrq,
            None => by_symbol,
        }),
        _ => Some(by_symbol),
    }
}

/// Shared entry points.
fn is_shared(name: &str) -> bool {
    x86::SHARED.contains(&name) || arm64::SHARED.contains(&name)
}

/// The entry point that a symbol identifies; `None` for other symbols. No two architectures share a symbol, so a
/// recording of one can be read on another.
pub(super) fn of_symbol(symbol: &str) -> Option<Entry> {
    let symbol = original(symbol);
    x86::of_symbol(symbol).or_else(|| arm64::of_symbol(symbol))
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

/// Lines that do not belong to devices, by their handlers' names: Xen's are `timer0`, `resched0`, `callfunc0`, `callfuncsingle0`, `irqwork0`
/// with the CPU's number (arch/x86/xen/{time,smp}.c).
fn of_line(name: &str) -> Option<Entry> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    Some(match base {
        "timer" | "arch_timer" | "arch_mem_timer" | "Hyper-V stimer" => Entry::TimerTick,
        "resched" => Entry::ReschedIpi,
        "callfunc" => Entry::Other("call_function".into()),
        "callfuncsingle" => Entry::Other("call_function_single".into()),
        "irqwork" => Entry::Other("irq_work".into()),
        "spinlock" | "debug" if base != name => Entry::Other(base.into()),
        _ => return None,
    })
}

/// Whether the symbol is a system call's entry, of any kind.
pub(crate) fn is_system_call(symbol: &str) -> bool {
    let symbol = original(symbol);
    x86::is_system_call(symbol) || arm64::is_system_call(symbol)
}

const ARM64: bool = cfg!(target_arch = "aarch64");

/// Kernel functions whose addresses the probes need to distinguish entries.
pub const FUNCTIONS: &[&str] = if ARM64 { arm64::FUNCTIONS } else { x86::FUNCTIONS };

/// The functions that send IPIs, for an architecture whose own tracepoint replaces `ipi_send_cpu`.
pub const IPI_SENDERS: &[&str] = if ARM64 { arm64::IPI_SENDERS } else { x86::IPI_SENDERS };

/// The functions that a kick is sent from: to make a running task notice task work.
///
/// `kick_process` sends it, so the call site is in its caller, `task_work_add`. If the compiler inlined either, or made the call a
/// jump, it is in the next caller.
pub const KICK_SITES: [&str; 4] = ["task_work_add", "kick_process", "io_req_normal_work_add", "__io_req_task_work_add"];

/// Whether an IPI sent from this function is a kick.
pub fn is_kick_site(symbol: &str) -> bool {
    KICK_SITES.contains(&original(symbol))
}

/// The original of a compiler-made copy: `el0_svc.isra.0` is one of `el0_svc`.
fn original(symbol: &str) -> &str {
    symbol.split_once('.').map_or(symbol, |(name, _)| name)
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
