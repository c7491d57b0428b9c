//! Programs on kernel functions, for events without a tracepoint. If a hardened kernel does not allow probing
//! functions, only these events are unknown.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::{Link, OpenProgramMut, ProgramMut, libbpf_sys};

use super::symbols::Symbols;
use crate::role::Role;

/// Methods of probing a function, cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeMethod {
    /// A trampoline (fentry or fexit).
    Entry,
    /// A kprobe: costs several times as much, and misses hits during another kprobe on the same CPU.
    Kprobe,
}

/// A program that exists for each method.
#[derive(Debug)]
pub struct Program {
    /// Name of the fentry program; the kprobe program is in `kprobe`.
    pub name: &'static str,
    kprobe: &'static str,
    /// Candidate functions with the same first argument: the first one that exists is probed.
    pub functions: &'static [&'static str],
    /// Not needed if this function exists.
    pub(super) unless: Option<&'static str>,
    pub role: Role,
    /// Tracepoint programs that it replaces. It is used if the first one's tracepoint does not exist.
    pub instead_of: &'static [&'static str],
    pub purpose: &'static str,
    pub lost: &'static str,
    /// Only later kernels have the function, and all others lack its events too.
    pub(super) newer: bool,
}

pub(crate) const FUNCTIONS: &[Program] = &[
    Program {
        name: "queue_added",
        kprobe: "queue_added_kprobe",
        functions: &["__io_req_task_work_add", "io_req_normal_work_add"],
        unless: None,
        role: Role::Follow,
        instead_of: &[],
        purpose: "queued task work",
        lost: "the queued stage, between ready and posted",
        newer: false,
    },
    // Since io_uring/tw.c (7.0) the caller chooses between the two in inlined code.
    Program {
        name: "queue_added_deferred",
        kprobe: "queue_added_deferred_kprobe",
        functions: &["io_req_local_work_add"],
        unless: Some("__io_req_task_work_add"),
        role: Role::Follow,
        instead_of: &[],
        purpose: "queued task work with DEFER_TASKRUN",
        lost: "the queued stage of rings with DEFER_TASKRUN",
        newer: false,
    },
    Program {
        name: "interrupt_resched_sent",
        kprobe: "interrupt_resched_sent_kprobe",
        functions: &["native_smp_send_reschedule"],
        unless: None,
        role: Role::Counts,
        instead_of: &["interrupt_ipi_send"],
        purpose: "sent reschedule IPIs, by call site",
        lost: "kicks per I/O",
        newer: false,
    },
    Program {
        name: "kick_asked",
        kprobe: "kick_asked_kprobe",
        functions: &["kick_process"],
        unless: None,
        role: Role::Counts,
        instead_of: &[],
        purpose: "threads to be kicked",
        lost: "kicks of threads that are being switched in",
        newer: false,
    },
    Program {
        name: "page_faulted",
        kprobe: "page_faulted_kprobe",
        functions: &["handle_mm_fault"],
        unless: None,
        role: Role::Counts,
        instead_of: &["mode_page_fault"],
        purpose: "page faults",
        lost: "mode switches by page faults",
        newer: false,
    },
    Program {
        name: "aio_called_back",
        kprobe: "aio_called_back_kprobe",
        functions: &["aio_complete_rw"],
        unless: None,
        role: Role::Aio,
        instead_of: &["aio_iomap_complete", "aio_block_complete"],
        purpose: "native aio completions",
        lost: "delivery paths of native aio on file systems",
        newer: false,
    },
    Program {
        name: "block_called_back",
        kprobe: "block_called_back_kprobe",
        functions: &["io_complete_rw"],
        unless: None,
        role: Role::Follow,
        instead_of: &["block_ended"],
        purpose: "direct I/O finished by a kernel worker of the file system",
        lost: "the delivery time in that worker, separate from task work",
        newer: false,
    },
    Program {
        name: "received_in_place",
        kprobe: "received_in_place_kprobe",
        functions: &["io_zcrx_queue_cqe"],
        unless: None,
        role: Role::Counts,
        instead_of: &[],
        purpose: "data of zero-copy receives",
        lost: "completions and bytes of zero-copy receives",
        newer: true,
    },
];

/// The function program with this name in the object, fentry or kprobe.
pub(crate) fn named(program: &str) -> Option<&'static Program> {
    FUNCTIONS.iter().find(|f| [f.name, f.kprobe].contains(&program))
}

/// Name of the equivalent program: the tracepoint program that it replaces, or its fentry variant.
pub(crate) fn same_as(program: &str) -> &str {
    named(program).map_or(program, |f| f.instead_of.first().copied().unwrap_or(f.name))
}

/// Whether the attached programs observe *queued*.
pub fn sees_queued(programs: &[String]) -> bool {
    programs.iter().any(|name| ["queue_added", "queue_added_deferred"].contains(&same_as(name)))
}

/// Whether the attached programs observe the end in a file system's worker.
pub fn sees_ends(programs: &[String]) -> bool {
    programs.iter().any(|name| same_as(name) == "block_ended")
}

/// Whether the attached programs observe all completions of zero-copy receives.
pub fn sees_receives_in_place(programs: &[String]) -> bool {
    programs.iter().any(|name| same_as(name) == "received_in_place")
}

/// Whether this program observes sent reschedule IPIs.
pub(crate) fn sees_ipis_sent(program: &str) -> bool {
    ["interrupt_ipi_send", "interrupt_ipi_raised"].contains(&same_as(program))
}

/// A program and its function for this kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub program: &'static str,
    pub function: &'static str,
    pub way: ProbeMethod,
}

/// `None` if the kernel has none of the functions.
pub(super) fn chosen(program: &Program, known: &BTreeSet<&'static str>, way: ProbeMethod) -> Option<Chosen> {
    let function = program.functions.iter().find(|name| known.contains(**name))?;
    let name = match way {
        ProbeMethod::Entry => program.name,
        ProbeMethod::Kprobe => program.kprobe,
    };
    Some(Chosen { program: name, function, way })
}

impl Chosen {
    /// Sets the attach target; called before loading.
    pub(super) fn aim(&self, program: &mut OpenProgramMut<'_>) -> libbpf_rs::Result<()> {
        match self.way {
            ProbeMethod::Entry => program.set_attach_target(0, Some(self.function.into())),
            ProbeMethod::Kprobe => Ok(()),
        }
    }

    pub(super) fn attach(&self, program: &ProgramMut<'_>) -> libbpf_rs::Result<Link> {
        match self.way {
            ProbeMethod::Entry => program.attach_trace(),
            ProbeMethod::Kprobe => program.attach_kprobe(false, self.function),
        }
    }
}

/// Functions with exactly this symbol. If the compiler specialised or inlined a function, BTF may still list it, but
/// the symbol differs (`….constprop.0`) and a probe would miss some calls.
pub(super) fn known(
    btf: &Btf<'_>,
    symbols: &Symbols,
    wanted: impl Iterator<Item = &'static str>,
) -> BTreeSet<&'static str> {
    let whole = |name: &&str| btf.type_by_name::<Func<'_>>(name).is_some() && symbols.address(name).is_some();
    wanted.filter(whole).collect()
}

/// Tests the methods with an empty program on one function. The program is detached on return.
pub(super) fn way(btf: &Btf<'_>, known: &BTreeSet<&'static str>) -> Option<ProbeMethod> {
    let name = known.first()?;
    let id = btf.type_by_name::<Func<'_>>(name)?.type_id();
    if entry_allowed(id.into()) {
        return Some(ProbeMethod::Entry);
    }
    kprobe_allowed(name).then_some(ProbeMethod::Kprobe)
}

fn entry_allowed(function: u32) -> bool {
    // r0 = 0; exit
    let instructions: [u64; 2] = [0xb7, 0x95];
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        expected_attach_type: libbpf_sys::BPF_TRACE_FENTRY,
        attach_btf_id: function,
        ..Default::default()
    };
    // SAFETY: the instructions and options outlive the call; nothing else owns the returned descriptor.
    let program = unsafe {
        descriptor(libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_TRACING,
            c"iotrail_try".as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            instructions.as_ptr().cast(),
            instructions.len() as libbpf_sys::size_t,
            &mut options,
        ))
    };
    let Some(program) = program else { return false };
    // SAFETY: null is valid, because the program itself names its target; nothing else owns the link, which its
    // descriptor closes.
    unsafe { descriptor(libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd())).is_some() }
}

/// Whether a kprobe can be created, tested without a program.
fn kprobe_allowed(function: &str) -> bool {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/kprobe/type").ok();
    let Some(kind) = kind.and_then(|kind| kind.trim().parse().ok()) else { return false };
    let Ok(name) = std::ffi::CString::new(function) else { return false };
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: kind,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        ..Default::default()
    };
    attributes.__bindgen_anon_3.kprobe_func = name.as_ptr() as u64;
    // SAFETY: the structure and the name outlive the call. The event counts any thread on CPU 0 and is never read.
    unsafe { descriptor(libc::syscall(libc::SYS_perf_event_open, &attributes, -1, 0, -1, 0) as i32).is_some() }
}

/// # Safety
///
/// `raw` is negative, or a descriptor with no other owner.
unsafe fn descriptor(raw: i32) -> Option<OwnedFd> {
    // SAFETY: guaranteed by the caller.
    (raw >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_probe_has_the_events_of_the_tracepoint_it_replaces() {
        for name in ["mode_page_fault", "page_faulted", "page_faulted_kprobe"] {
            assert_eq!(same_as(name), "mode_page_fault");
        }
        assert!(["interrupt_ipi_raised", "interrupt_resched_sent_kprobe"].into_iter().all(sees_ipis_sent));
        assert!(sees_queued(&["queue_added_deferred_kprobe".into()]) && !sees_queued(&["queue_added_else".into()]));
        assert_eq!(crate::support::tracepoint("queue_added_deferred_kprobe"), "io_req_local_work_add");
    }

    #[test]
    fn the_first_function_available_in_the_kernel_is_probed() {
        let of = |known: &[&'static str], way| chosen(&FUNCTIONS[0], &known.iter().copied().collect(), way);
        let old = of(&["io_req_normal_work_add", "__io_req_task_work_add"], ProbeMethod::Entry).unwrap();
        assert_eq!((old.program, old.function), ("queue_added", "__io_req_task_work_add"));
        let new = of(&["io_req_normal_work_add"], ProbeMethod::Kprobe).unwrap();
        assert_eq!((new.program, new.function), ("queue_added_kprobe", "io_req_normal_work_add"));
        assert_eq!(of(&["aio_complete_rw"], ProbeMethod::Entry), None);
    }
}
