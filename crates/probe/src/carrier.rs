//! Delivery paths and interrupts in the probes' data, with names in place of numbers.

use iotrail_host::irq::Interrupts;
use iotrail_path::delivery::Carrier;
use iotrail_path::entry::Fired;
use iotrail_schema::waker::{Line, Waker};

use crate::skel::types;
use crate::symbols::Symbols;

/// Name of a line's handler.
pub fn handler(p: &Interrupts, irq: u32) -> Option<String> {
    p.row(&irq.to_string()).map(|row| row.name.clone())
}

/// A vector's mnemonic in /proc/interrupts and its name.
pub fn vector(v: types::vector) -> (&'static str, &'static str) {
    match v {
        types::vector::VEC_TIMER => ("LOC", "timer"),
        types::vector::VEC_RESCHED => ("RES", "reschedule"),
        types::vector::VEC_CALL_SINGLE | types::vector::VEC_CALL_MANY => ("CAL", "function call"),
        types::vector::VEC_IRQ_WORK => ("IWI", "irq work"),
        types::vector::VEC_PLATFORM => ("PLT", "platform"),
        types::vector::VEC_UNTRACED_TIMER => ("HVS", "timer"),
        _ => ("?", "unknown"),
    }
}

/// Delivery path of a completion, with names in place of numbers.
pub fn carrier(key: &types::delivery_key, symbols: Option<&Symbols>, line: &dyn Fn(u32) -> Line) -> Carrier {
    use types::carrier as c;
    let by = || waker(key.waker, key.waker_nr, key.waker_cpu, line);
    match key.carrier {
        c::BY_RUN_IN_SYSCALL => Carrier::RunInSyscall { nr: key.nr },
        c::BY_RUN_AFTER_SLEEP => Carrier::RunAfterSleep { waker: by() },
        c::BY_RUN_AT_EXIT => Carrier::RunAtSyscallExit { nr: key.nr },
        c::BY_RUN_AT_RETURN => Carrier::RunAtReturn {
            entry: symbols.and_then(|s| s.caller(key.entry)).map(str::to_owned),
            fired: fired(key.waker, key.waker_nr),
            line: key.nr.checked_sub(1).map(line),
        },
        c::BY_IRQ | c::BY_SOFTIRQ => Carrier::Interrupt { by: by() },
        c::BY_KWORKER => Carrier::KernelWorker,
        c::BY_SUBMITTER => Carrier::Submitter,
        c::BY_SUBMISSION => Carrier::Inline,
        c::BY_SQPOLL => Carrier::SqpollThread,
        c::BY_IOWQ => Carrier::IowqWorker,
        c::BY_IOPOLL => Carrier::DevicePoll,
        c::BY_TEARDOWN => Carrier::KernelWorker,
        _ => Carrier::Stranger,
    }
}

/// The action in a kernel entry.
pub fn fired(kind: types::waker, nr: u32) -> Option<Fired> {
    use types::waker as w;
    match kind {
        w::WAKER_IRQ => Some(Fired::Line),
        w::WAKER_VECTOR => Some(Fired::Vector(fired_name(types::vector(nr)).into())),
        w::FIRED_PAGE_FAULT => Some(Fired::PageFault),
        w::FIRED_TIMER => Some(Fired::Timer),
        _ => None,
    }
}

/// Name of an action, from its entry point's vector.
pub fn fired_name(v: types::vector) -> &'static str {
    match v {
        types::vector::VEC_CALL_SINGLE => "call_function_single",
        types::vector::VEC_CALL_MANY => "call_function",
        types::vector::VEC_IRQ_WORK => "irq_work",
        types::vector::VEC_PLATFORM => "x86_platform_ipi",
        other => vector(other).1,
    }
}

/// Source of a wake-up.
pub fn waker(kind: types::waker, nr: u32, cpu: u32, line: &dyn Fn(u32) -> Line) -> Waker {
    use types::waker as w;
    let name = || vector(types::vector(nr)).1.into();
    match kind {
        w::WAKER_IRQ => Waker::Irq { line: line(nr), cpu },
        w::WAKER_VECTOR => Waker::Vector { name: name(), cpu },
        w::WAKER_SOFTIRQ_OF_IRQ => Waker::SoftirqOfIrq { line: line(nr), cpu },
        w::WAKER_SOFTIRQ_OF_VECTOR => Waker::SoftirqOfVector { name: name(), cpu },
        w::WAKER_SOFTIRQ => Waker::Softirq { nr, cpu },
        w::WAKER_OTHER => Waker::Thread { cpu },
        _ => Waker::Unseen,
    }
}
