//! The cause of a kernel entry, from the entry's symbol and the observed action.
//!
//! On bare-metal x86 each interrupt has its own entry point, whose symbol identifies it. With Xen, Hyper-V or FRED, and
//! on arm64, many interrupts share one entry point. There the action decides, as observed by tracepoints.
//! Architecture-specific code is in one file per architecture in `entry/` and `probe/bpf/arch/`.

mod arm64;
mod x86;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The cause of a kernel entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    ReschedIpi,
    /// A device interrupt on any line.
    DeviceIrq,
    TimerTick,
    PageFault,
    /// Another interrupt or exception, by name: `call_function_single`, `irq_work`, `nmi` …
    Other(String),
}

/// The action observed in an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fired {
    /// The handler of this entry's line ran.
    Line,
    /// A kernel vector, by name: `timer`, `reschedule` …
    Vector(Cow<'static, str>),
    PageFault,
    /// A timer expired in an interrupt that has no tracepoint.
    Timer,
}

/// The entry's cause, from its entry point's symbol, the observed action, and the name of the line whose handler ran,
/// if any; `None` if unknown or not an entry.
pub fn of(symbol: Option<&str>, fired: Option<&Fired>, line: Option<&str>) -> Option<Entry> {
    let Some(symbol) = symbol else { return done(fired?, line) };
    let by_symbol = of_symbol(symbol)?;
    match &by_symbol {
        // Lines may also deliver other interrupts, such as Xen's timers and IPIs, and those of machines without a
        // vector for them.
        Entry::DeviceIrq => Some(line.and_then(of_line).unwrap_or(by_symbol)),
        Entry::Other(name) if is_shared(name) => Some(match fired {
            Some(fired) => done(fired, line).unwrap_or(by_symbol),
            // No tracepoint fired: a VMBus channel (Hyper-V), whose devices have no lines.
            None if name == "hyperv_callback" => Entry::DeviceIrq,
            None => by_symbol,
        }),
        _ => Some(by_symbol),
    }
}

/// Whether several interrupts share this entry point.
fn is_shared(name: &str) -> bool {
    x86::SHARED.contains(&name) || arm64::SHARED.contains(&name)
}

/// The cause if this symbol identifies it, otherwise `None`. Symbols of different architectures are distinct, so a
/// recording can be read on another architecture.
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

/// Cause of a line that belongs to no device, by handler name. Xen's handlers are `timer0`, `resched0`, `callfunc0`,
/// `callfuncsingle0` and `irqwork0`, with the CPU's number (arch/x86/xen/{time,smp}.c).
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

/// Whether the symbol is any system-call entry.
pub(crate) fn is_system_call(symbol: &str) -> bool {
    let symbol = original(symbol);
    x86::is_system_call(symbol) || arm64::is_system_call(symbol)
}

const ARM64: bool = cfg!(target_arch = "aarch64");

/// The probes distinguish kernel entries by the addresses of these functions.
pub const FUNCTIONS: &[&str] = if ARM64 { arm64::FUNCTIONS } else { x86::FUNCTIONS };

/// Functions that send IPIs, on an architecture whose own tracepoint replaces `ipi_send_cpu`.
pub const IPI_SENDERS: &[&str] = if ARM64 { arm64::IPI_SENDERS } else { x86::IPI_SENDERS };

/// Functions that send a kick, which makes a running task notice its task work.
///
/// `kick_process` sends the IPI, so the call site is in its caller, `task_work_add`. If the compiler inlined one of
/// them or made a tail call, the call site is in the next caller.
pub const KICK_SITES: [&str; 4] = ["task_work_add", "kick_process", "io_req_normal_work_add", "__io_req_task_work_add"];

/// Whether an IPI sent from this function is a kick.
pub fn is_kick_site(symbol: &str) -> bool {
    KICK_SITES.contains(&original(symbol))
}

/// Original name of a compiler-made copy: `el0_svc` for `el0_svc.isra.0`.
fn original(symbol: &str) -> &str {
    symbol.split_once('.').map_or(symbol, |(name, _)| name)
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
