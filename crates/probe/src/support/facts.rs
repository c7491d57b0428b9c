//! Facts about a kernel that are known before anything is loaded.

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

/// The path that libbpf uses.
pub(super) const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A flag that every kernel since 6.0 has, in the same enumeration.
pub(super) const MULTISHOT: &str = "REQ_F_APOLL_MULTISHOT";

/// The kernel's own vectors with tracepoints (x86).
const VECTORS: [&str; 6] =
    ["local_timer_", "reschedule_", "call_function_single_", "call_function_", "irq_work_", "x86_platform_ipi_"];

/// Facts that are known before loading.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Tracepoints with BTF arguments; `None`: the kernel has no readable BTF.
    pub tracepoints: Option<BTreeSet<&'static str>>,
    /// io_uring_complete passes the completion queue entry, since 6.17 (072d37b0cd66); before, its members.
    pub completion_is_entry: bool,
    /// One probe can be attached to many functions of a library (6.6, 89ae89f53d20).
    pub uprobe_multi: bool,
    /// The machine is a guest of Hyper-V: its timer's interrupt has no tracepoint.
    pub hyper_v: bool,
    /// The timer and IPIs have lines, as devices have, and IPIs `ipi_entry` (arm64); otherwise each has a vector with its own tracepoints.
    pub lines_alone: bool,
    /// REQ_F_… bits of requests with several completions; `None`: not found.
    pub multishot_flags: Option<u64>,
    /// The bit of a request that requested no completion and failed; `None`: not found.
    pub skip_links_flag: Option<u64>,
    /// The bit of a ring's `int_flags` that marks a drain; `None`: a separate member (7.3 has the bit, 6.18 not).
    pub drain_active_flag: Option<u64>,
    /// Programs on tracepoints can be preempted: their guard is SRCU, not disabled preemption (7.3 has it, 6.18 not).
    pub preemptible: bool,
    /// PREEMPT_RT: a thread allocates the entries of maps, and a running program cannot.
    pub realtime: bool,
    /// The needed functions that the kernel has.
    pub functions: BTreeSet<&'static str>,
    /// How they can be probed; `None`: not at all (lockdown, or a kernel without support).
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
            // A system call's own tracepoint, with CONFIG_FTRACE_SYSCALLS; libbpf finds its ID in the same places.
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
        // An enumeration of 64 bits if one of the flags needs them, otherwise of 32.
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
            // A context pointer precedes the tracepoint's own arguments.
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

    /// Whether the program is the one for this kernel, among those with the same purpose on different kernels.
    fn fits(&self, p: &Program) -> bool {
        let has = |tp: &str| self.tracepoints.as_ref().is_some_and(|all| all.contains(tp));
        match p.name {
            "posix_aio_called" => self.uprobe_multi,
            "interrupt_untraced_timer" => self.hyper_v,
            "interrupt_from_cpu_entry" | "interrupt_from_cpu_exit" => self.lines_alone,
            // Since 6.4 all architectures share one. Older kernels of other architectures name it in their BTF as well, but it never fires.
            "interrupt_ipi_raised" => self.lines_alone && !has("ipi_send_cpu") && has("ipi_raise"),
            "interrupt_ipi_send" => has("ipi_send_cpu") || !(self.lines_alone && has("ipi_raise")),
            _ if VECTORS.iter().any(|vector| p.tracepoint.starts_with(vector)) => !self.lines_alone,
            // A kernel function replaces it.
            "mode_page_fault" => has("page_fault_user") || !self.lines_alone,
            // It needs tracefs as well; without tracefs, the one on all system calls replaces it.
            "aio_submits" => has("sys_enter_io_submit") || !has("sys_enter"),
            "follow_complete" => self.completion_is_entry,
            "follow_complete_members" => !self.completion_is_entry,
            // Renamed in 6.4 (2ad57931db64).
            "follow_submit_sqe" => has("io_uring_submit_sqe") && !has("io_uring_submit_req"),
            "follow_submit" => has("io_uring_submit_req") || !has("io_uring_submit_sqe"),
            _ => true,
        }
    }

    /// Whether a function's program reports events for which this kernel has no tracepoint.
    pub(crate) fn fits_function(&self, f: &function::Program) -> bool {
        let there = |name: &&str| {
            let of = PROGRAMS.iter().find(|p| p.name == *name);
            of.is_some_and(|p| self.tracepoints.as_ref().is_some_and(|all| all.contains(p.tracepoint)))
        };
        // The first one's tracepoint is missing; the others would count the same events again.
        !f.instead_of.first().is_some_and(there) && !f.unless.is_some_and(|other| self.functions.contains(other))
    }

    /// The programs on functions for this kernel, if it allows probing them.
    pub(super) fn probed(&self) -> impl Iterator<Item = (&'static function::Program, function::Chosen)> {
        let fitting = FUNCTIONS.iter().filter(|f| self.fits_function(f));
        fitting.filter_map(|f| Some((f, function::chosen(f, &self.functions, self.way?)?)))
    }

    /// The programs on tracepoints for this kernel, except those replaced by one on a function.
    pub fn programs(&self) -> impl Iterator<Item = &'static Program> {
        let replaced: Vec<&str> = self.probed().flat_map(|(f, _)| f.instead_of).copied().collect();
        PROGRAMS.iter().filter(move |p| self.fits(p) && !replaced.contains(&p.name))
    }
}
