//! Maps the observed facts about a posting to a delivery path and its detail.

use super::entry::{self, Entry, Fired};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::detail::Detail;
use iotrail_schema::waker::{Line, Waker};

/// How a completion was posted, as the probes observed it, with names in place of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carrier {
    /// During its own submission, without a queue.
    Inline,
    /// Task work within a system call, without a preceding sleep.
    RunInSyscall {
        nr: u32,
    },
    /// Task work within io_uring_enter, after the sleep that `waker` ended.
    RunAfterSleep {
        waker: Waker,
    },
    /// Task work at system-call exit.
    RunAtSyscallExit {
        nr: u32,
    },
    /// Task work on return from an interrupt or exception: the entry's symbol (`None` if symbols are hidden), the
    /// action observed in the entry, and for a device interrupt, the line whose handler ran last.
    RunAtReturn {
        entry: Option<String>,
        fired: Option<Fired>,
        line: Option<Line>,
    },
    SqpollThread,
    IowqWorker,
    DevicePoll,
    /// In interrupt context (native aio), identified by its waker.
    Interrupt {
        by: Waker,
    },
    KernelWorker,
    /// By an unrelated thread, as far as observed.
    Stranger,
    /// By the submitting thread in its own system call (native aio, sync).
    Submitter,
    /// By a helper thread's own system call (POSIX AIO).
    HelperThread,
    /// By aio_cancel, in the calling thread (POSIX AIO).
    Cancelled,
    /// Posting unobserved; the result was reaped (native aio).
    Unseen,
    /// The probes were detached before the path was known.
    Undecided,
}

/// System call numbers that decide a delivery path. On all 64-bit architectures these are the same since 5.1.
pub const IO_URING_ENTER: u32 = 426;

/// Marks a call in the 32-bit table (`NR_I386` in probe/bpf/arch/), by a 32-bit program or by int 0x80.
const I386: u32 = 1 << 29;

/// Name of the system call, or its number if unknown.
pub fn syscall_name(nr: u32) -> String {
    if nr & I386 != 0 {
        let nr = nr & !I386;
        if cfg!(target_arch = "aarch64") {
            return format!("32-bit system call {nr}");
        }
        return match syscalls::x86::Sysno::new(nr as usize) {
            Some(s) => format!("{} (i386)", s.name()),
            None => format!("i386 system call {nr}"),
        };
    }
    match syscalls::Sysno::new(nr as usize) {
        Some(s) => s.name().to_owned(),
        None => format!("system call {nr}"),
    }
}

fn unknown_return(symbol: Option<&str>) -> String {
    match symbol {
        Some(symbol) => format!("return through {symbol}"),
        None => "return from an interrupt; kernel symbols can't be read".into(),
    }
}

impl Carrier {
    /// The delivery path and its detail; [`DeliveryPath::Unknown`] with the known part if the facts are insufficient.
    pub fn vehicle(&self) -> (DeliveryPath, Option<String>) {
        match self {
            Carrier::Inline | Carrier::Submitter => (DeliveryPath::Inline, None),
            Carrier::RunInSyscall { nr: IO_URING_ENTER } => (DeliveryPath::Enter, Some(Detail::Ready.to_string())),
            // Task work also runs within a few other calls (exit_group, io_uring_register).
            Carrier::RunInSyscall { nr } => {
                (DeliveryPath::Unknown, Some(format!("task work inside {}", syscall_name(*nr))))
            }
            Carrier::RunAfterSleep { waker } => (DeliveryPath::Enter, Some(Detail::Slept(waker.clone()).to_string())),
            Carrier::RunAtSyscallExit { nr } => (DeliveryPath::SyscallExit, Some(syscall_name(*nr))),
            Carrier::RunAtReturn { entry, fired, line } => {
                // A system call without a number: rt_sigreturn restores the interrupted code's registers.
                if entry.as_deref().is_some_and(entry::is_system_call) {
                    return (DeliveryPath::SyscallExit, Some("rt_sigreturn".into()));
                }
                let name = line.as_ref().and_then(|l| l.name.as_deref());
                match entry::of(entry.as_deref(), fired.as_ref(), name) {
                    Some(Entry::ReschedIpi) => (DeliveryPath::ReschedIpi, None),
                    // VMBus devices have no line.
                    Some(Entry::DeviceIrq) => {
                        let bus = entry.as_deref() == Some("asm_sysvec_hyperv_callback");
                        (DeliveryPath::DeviceIrq, line.as_ref().filter(|_| !bus).map(|l| l.to_string()))
                    }
                    Some(Entry::TimerTick) => (DeliveryPath::TimerTick, None),
                    Some(Entry::PageFault) => (DeliveryPath::PageFault, None),
                    Some(Entry::Other(name)) => (DeliveryPath::OtherIrq, Some(name)),
                    None => (DeliveryPath::Unknown, Some(unknown_return(entry.as_deref()))),
                }
            }
            Carrier::SqpollThread => (DeliveryPath::Sqpoll, None),
            Carrier::IowqWorker => (DeliveryPath::Iowq, None),
            Carrier::DevicePoll => (DeliveryPath::Iopoll, None),
            Carrier::Interrupt { by } => (DeliveryPath::IrqDirect, Some(by.to_string())),
            Carrier::KernelWorker => (DeliveryPath::Kworker, None),
            Carrier::Stranger => (DeliveryPath::Unknown, Some("in a thread that is not traced".into())),
            Carrier::HelperThread => (DeliveryPath::Thread, None),
            Carrier::Cancelled => (DeliveryPath::Inline, Some("cancelled by aio_cancel".into())),
            Carrier::Unseen => (DeliveryPath::Unknown, Some("its end was not seen".into())),
            Carrier::Undecided => (DeliveryPath::Unknown, Some("the window closed before the path was known".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line { irq: 36, name: Some("virtio1-req.0".into()) }
    }

    fn at(entry: &str) -> (DeliveryPath, Option<String>) {
        Carrier::RunAtReturn { entry: Some(entry.into()), fired: None, line: Some(line()) }.vehicle()
    }

    #[test]
    fn delivery_at_a_return_is_identified_by_the_entry_symbol() {
        assert_eq!(at("asm_sysvec_reschedule_ipi"), (DeliveryPath::ReschedIpi, None));
        assert_eq!(at("asm_sysvec_apic_timer_interrupt"), (DeliveryPath::TimerTick, None));
        assert_eq!(at("asm_common_interrupt"), (DeliveryPath::DeviceIrq, Some("36 virtio1-req.0".into())));
        assert_eq!(at("asm_exc_page_fault"), (DeliveryPath::PageFault, None));
        assert_eq!(
            at("asm_sysvec_call_function_single"),
            (DeliveryPath::OtherIrq, Some("call_function_single".into()))
        );
        assert_eq!(at("entry_SYSCALL_64_after_hwframe"), (DeliveryPath::SyscallExit, Some("rt_sigreturn".into())));
        assert_eq!(at("ret_from_fork_asm").0, DeliveryPath::Unknown);
        assert_eq!(Carrier::RunAtReturn { entry: None, fired: None, line: None }.vehicle().0, DeliveryPath::Unknown);
    }

    #[test]
    fn delivery_at_a_return_on_arm64_is_identified_by_the_action() {
        let by = |entry: &str, fired| {
            Carrier::RunAtReturn { entry: Some(entry.into()), fired: Some(fired), line: Some(line()) }.vehicle()
        };
        assert_eq!(by("el0t_64_irq", Fired::Vector("reschedule".into())), (DeliveryPath::ReschedIpi, None));
        assert_eq!(by("el0t_64_irq", Fired::Vector("timer".into())), (DeliveryPath::TimerTick, None));
        assert_eq!(
            by("el0t_64_irq", Fired::Vector("call_function".into())),
            (DeliveryPath::OtherIrq, Some("call_function".into()))
        );
        assert_eq!(by("el0t_64_irq", Fired::Line), (DeliveryPath::DeviceIrq, Some("36 virtio1-req.0".into())));
        assert_eq!(by("el0_da", Fired::Vector("timer".into())), (DeliveryPath::PageFault, None));
        assert_eq!(at("el0_svc"), (DeliveryPath::SyscallExit, Some("rt_sigreturn".into())));
        assert_eq!(at("ret_from_fork").0, DeliveryPath::Unknown);
    }

    #[test]
    fn the_action_identifies_the_path_of_a_shared_entry() {
        let xen = |name: &str| {
            let line = Some(Line { irq: 48, name: Some(name.into()) });
            let entry = Some("asm_sysvec_xen_hvm_callback".into());
            Carrier::RunAtReturn { entry, fired: Some(Fired::Line), line }.vehicle()
        };
        assert_eq!(xen("timer1"), (DeliveryPath::TimerTick, None));
        assert_eq!(xen("blkif"), (DeliveryPath::DeviceIrq, Some("48 blkif".into())));
        let entry = Some("asm_sysvec_hyperv_callback".into());
        let bus = Carrier::RunAtReturn { entry, fired: None, line: Some(line()) }.vehicle();
        assert_eq!(bus, (DeliveryPath::DeviceIrq, None), "the line is that of some interrupt before");
    }

    #[test]
    fn delivery_in_a_system_call_is_identified_by_its_number() {
        assert_eq!(Carrier::RunInSyscall { nr: 426 }.vehicle(), (DeliveryPath::Enter, Some("ready".into())));
        assert_eq!(Carrier::RunInSyscall { nr: 231 }.vehicle().0, DeliveryPath::Unknown);
        assert_eq!(Carrier::RunAtSyscallExit { nr: 426 }.vehicle().1.as_deref(), Some("io_uring_enter"));
        #[cfg(target_arch = "x86_64")]
        assert_eq!(Carrier::RunAtSyscallExit { nr: 12 }.vehicle(), (DeliveryPath::SyscallExit, Some("brk".into())));
        let of_32_bits = |nr| Carrier::RunAtSyscallExit { nr: I386 | nr }.vehicle().1.unwrap();
        // 4 is stat in the 64-bit table.
        #[cfg(target_arch = "x86_64")]
        assert_eq!((of_32_bits(4), of_32_bits(9_999)), ("write (i386)".into(), "i386 system call 9999".into()));
        #[cfg(target_arch = "aarch64")]
        assert_eq!(of_32_bits(4), "32-bit system call 4");
        let slept = Carrier::RunAfterSleep { waker: Waker::Irq { line: line(), cpu: 1 } }.vehicle();
        let softirq = Carrier::Interrupt { by: Waker::SoftirqOfIrq { line: line(), cpu: 1 } }.vehicle();
        assert_eq!(softirq, (DeliveryPath::IrqDirect, Some("irq 36 virtio1-req.0 on CPU 1 (its softirq)".into())));
        assert_eq!(Waker::Softirq { nr: 3, cpu: 0 }.to_string(), "net_rx softirq on CPU 0");
        assert_eq!(slept, (DeliveryPath::Enter, Some("slept, woken by irq 36 virtio1-req.0 on CPU 1".into())));
    }
}
