//! Facts about the kernel that decide which programs it can load.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Enum, Enum64, FuncProto, Typedef};

use super::program::{PROGRAMS, Program};
use crate::function::{self, FUNCTIONS, ProbeMethod};
use crate::posix_aio;
use crate::symbols::Symbols;
use iotrail_host::pid_namespace::own_number_in_proc;

/// Paths in libbpf's order.
pub(super) const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A flag that every kernel since 6.0 has, in the same enum.
pub(super) const MULTISHOT: &str = "REQ_F_APOLL_MULTISHOT";

/// The kernel's own vectors with tracepoints (x86).
const VECTORS: [&str; 6] =
    ["local_timer_", "reschedule_", "call_function_single_", "call_function_", "irq_work_", "x86_platform_ipi_"];

/// Facts known before loading.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// BTF tracepoints; `None` if the kernel's BTF is not readable.
    pub tracepoints: Option<BTreeSet<&'static str>>,
    /// io_uring_complete passes a CQE pointer, since 6.17 (072d37b0cd66); previously the CQE's members.
    pub completion_is_entry: bool,
    /// One uprobe link can attach to many functions (6.6, 89ae89f53d20).
    pub uprobe_multi: bool,
    /// A Hyper-V guest, whose timer interrupt has no tracepoint.
    pub hyper_v: bool,
    /// The timer and IPIs have interrupt lines, as devices do, and IPIs have `ipi_entry` (arm64). Otherwise each has a
    /// vector with its own tracepoints.
    pub lines_alone: bool,
    /// REQ_F_… bits of requests with several completions; `None` if not found.
    pub multishot_flags: Option<u64>,
    /// Bit of a failed request with IOSQE_CQE_SKIP_SUCCESS; `None` if not found.
    pub skip_links_flag: Option<u64>,
    /// Bit in a ring's `int_flags` that marks a drain; `None` if the ring has a separate member (7.3 has the bit, 6.18
    /// does not).
    pub drain_active_flag: Option<u64>,
    /// Tracepoint programs can be preempted, because SRCU protects them rather than disabled preemption (7.3; not
    /// 6.18).
    pub preemptible: bool,
    /// PREEMPT_RT: a thread allocates map entries, and programs cannot.
    pub realtime: bool,
    /// The required functions that the kernel has.
    pub functions: BTreeSet<&'static str>,
    /// Method of probing them; `None` if the kernel does not support it, or lockdown forbids it.
    pub way: Option<ProbeMethod>,
}

impl Facts {
    /// Read once per process.
    pub fn of_this_kernel() -> &'static Facts {
        static FACTS: OnceLock<Facts> = OnceLock::new();
        FACTS.get_or_init(Self::read)
    }

    /// Reads /sys/kernel/btf/vmlinux.
    pub fn read() -> Facts {
        let Ok(btf) = Btf::from_vmlinux() else { return Facts::default() };
        let there = |tp: &str| match tp {
            "aio_read" => own_number_in_proc().is_some_and(|us| !posix_aio::libraries(us).is_empty()),
            // A single system call's tracepoint, with CONFIG_FTRACE_SYSCALLS. libbpf looks up its ID in the same
            // places.
            _ if tp.starts_with("sys_enter_") => {
                TRACEFS.iter().any(|tracefs| Path::new(tracefs).join("events/syscalls").join(tp).exists())
            }
            _ => btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tp}")).is_some(),
        };
        let present = PROGRAMS.iter().map(|p| p.tracepoint).filter(|tp| there(tp));
        let tracepoints = Some(present.collect());
        let arguments = btf
            .type_by_name::<Typedef<'_>>("btf_trace_io_uring_complete")
            .and_then(|t| t.next_type())
            .and_then(|pointer| pointer.next_type())
            .and_then(|function| FuncProto::try_from(function).ok())
            .map(|f| f.len());
        // The enum is 64-bit if one of its flags requires that, otherwise 32-bit.
        let value = |name: &str| {
            let is = |n: Option<&OsStr>| n.is_some_and(|n| n == name);
            let wide =
                || btf.type_by_kind::<Enum64<'_>>().find_map(|e| e.iter().find(|m| is(m.name)).map(|m| m.value as u64));
            let narrow =
                || btf.type_by_kind::<Enum<'_>>().find_map(|e| e.iter().find(|m| is(m.name)).map(|m| m.value as u64));
            wide().or_else(narrow)
        };
        let mut facts = Facts {
            tracepoints,
            preemptible: btf.type_by_name::<Typedef<'_>>("class_srcu_fast_notrace_t").is_some(),
            realtime: rustix::system::uname().version().to_string_lossy().contains("PREEMPT_RT"),
            lines_alone: cfg!(target_arch = "aarch64"),
            hyper_v: Path::new("/sys/bus/vmbus").exists(),
            functions: BTreeSet::new(),
            way: None,
            // A context pointer precedes the tracepoint's arguments.
            completion_is_entry: arguments == Some(4),
            uprobe_multi: btf
                .type_by_kind::<Enum<'_>>()
                .any(|e| e.iter().any(|m| m.name.is_some_and(|n| n == "BPF_TRACE_UPROBE_MULTI"))),
            drain_active_flag: value("IO_RING_F_DRAIN_ACTIVE"),
            skip_links_flag: value("REQ_F_SKIP_LINK_CQES"),
            multishot_flags: [MULTISHOT, "REQ_F_MULTISHOT"].into_iter().filter_map(value).reduce(|a, b| a | b),
        };
        let wanted = FUNCTIONS.iter().filter(|f| facts.fits_function(f)).flat_map(|f| f.functions).copied();
        facts.functions = Symbols::of_this_kernel().map(|s| function::known(&btf, s, wanted)).unwrap_or_default();
        facts.way = function::way(&btf, &facts.functions);
        facts
    }

    /// Whether this is the variant of the program for this kernel.
    fn fits(&self, p: &Program) -> bool {
        let has = |tp: &str| self.tracepoints.as_ref().is_some_and(|all| all.contains(tp));
        match p.name {
            "posix_aio_called" => self.uprobe_multi,
            "interrupt_untraced_timer" => self.hyper_v,
            "interrupt_from_cpu_entry" | "interrupt_from_cpu_exit" => self.lines_alone,
            // Shared by all architectures since 6.4. Older kernels of other architectures list it in BTF, but it never
            // fires.
            "interrupt_ipi_raised" => self.lines_alone && !has("ipi_send_cpu") && has("ipi_raise"),
            "interrupt_ipi_send" => has("ipi_send_cpu") || !(self.lines_alone && has("ipi_raise")),
            _ if VECTORS.iter().any(|vector| p.tracepoint.starts_with(vector)) => !self.lines_alone,
            // A kernel function's program replaces it.
            "mode_page_fault" => has("page_fault_user") || !self.lines_alone,
            // Requires tracefs; otherwise the program on all system calls replaces it.
            "aio_submits" => has("sys_enter_io_submit") || !has("sys_enter"),
            "follow_complete" => self.completion_is_entry,
            "follow_complete_members" => !self.completion_is_entry,
            // Renamed in 6.4 (2ad57931db64).
            "follow_submit_sqe" => has("io_uring_submit_sqe") && !has("io_uring_submit_req"),
            "follow_submit" => has("io_uring_submit_req") || !has("io_uring_submit_sqe"),
            _ => true,
        }
    }

    /// Whether this kernel has no tracepoint for the events of a function program.
    pub(crate) fn fits_function(&self, f: &function::Program) -> bool {
        let there = |name: &&str| {
            let of = PROGRAMS.iter().find(|p| p.name == *name);
            of.is_some_and(|p| self.tracepoints.as_ref().is_some_and(|all| all.contains(p.tracepoint)))
        };
        // Only if the first program's tracepoint is missing; otherwise events would be counted twice.
        !f.instead_of.first().is_some_and(there) && !f.unless.is_some_and(|other| self.functions.contains(other))
    }

    /// Whether this kernel lacks the function of a newer kernel.
    pub(crate) fn is_too_old(&self, f: &function::Program) -> bool {
        f.newer && !f.functions.iter().any(|name| self.functions.contains(name))
    }

    /// Function programs for this kernel, if it allows probing functions.
    pub(super) fn probed(&self) -> impl Iterator<Item = (&'static function::Program, function::Chosen)> {
        let fitting = FUNCTIONS.iter().filter(|f| self.fits_function(f));
        fitting.filter_map(|f| Some((f, function::chosen(f, &self.functions, self.way?)?)))
    }

    /// Tracepoint programs for this kernel, except those replaced by function programs.
    pub fn programs(&self) -> impl Iterator<Item = &'static Program> {
        let replaced: Vec<&str> = self.probed().flat_map(|(f, _)| f.instead_of).copied().collect();
        PROGRAMS.iter().filter(move |p| self.fits(p) && !replaced.contains(&p.name))
    }
}
