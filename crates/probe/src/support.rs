//! Which programs a run wants, and which of them this kernel can take: facts first, then a pure decision. Each is tried in
//! `survey`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Enum, Enum64, FuncProto, Typedef};

use super::function::{self, FUNCTIONS, Way};
use super::posix_aio;
use super::role::Role;
use super::symbols::Symbols;
use iotrail_base::error::errno_in;
use iotrail_base::plain::say;
use iotrail_host::lockdown;
use iotrail_host::pid_namespace::own_number_in_proc;
use iotrail_host::privileges::{Capability, Seccomp};
use iotrail_host::procfs;
use iotrail_host::refusal::Circumstances;

/// One BPF program: its name in the object, the tracepoint that it hangs on (or a library's function), and what is not known
/// without it.
#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    pub tracepoint: &'static str,
    pub role: Role,
    /// Without it the role's answer would be wrong, not only poorer: the probes are refused.
    pub required: bool,
    pub purpose: &'static str,
    pub lost: &'static str,
    /// First kernel with the tracepoint, where that is later than the oldest supported one (6.1).
    pub since: Option<&'static str>,
}

macro_rules! programs {
    ($($name:literal $tp:literal $role:ident $required:literal $purpose:literal $lost:literal $since:expr;)*) => {
        &[$(Program { name: $name, tracepoint: $tp, role: Role::$role, required: $required, purpose: $purpose,
                      lost: $lost, since: $since }),*]
    };
}

#[rustfmt::skip]
pub const PROGRAMS: &[Program] = programs! {
    "ring_complete" "io_uring_complete" Completion true "io_uring completions" "all vehicles of io_uring" None;
    "delivery_task_work_run" "io_uring_task_work_run" Ring true "task-work runs" "all vehicles of io_uring" None;
    "delivery_local_work_run" "io_uring_local_work_run" Ring true "deferred task-work runs" "vehicles under DEFER_TASKRUN" None;
    "delivery_cqring_wait" "io_uring_cqring_wait" Ring false "the start of a wait" "slept told apart from ready" None;
    "sched_switched" "sched_switch" Counts true "context switches" "vehicles of threads that move between CPUs" None;
    "sched_waked" "sched_waking" Counts false "wake-ups" "who woke a sleeping thread, IPIs of wake-ups" None;
    "interrupt_handler_entry" "irq_handler_entry" Counts false "device interrupts" "interrupts per I/O, the vector's name" None;
    "interrupt_handler_exit" "irq_handler_exit" Counts false "ends of device interrupts" "who woke a sleeping thread" None;
    "interrupt_local_timer_entry" "local_timer_entry" Counts false "timer interrupts" "timer interrupts as mode switches" None;
    "interrupt_local_timer_exit" "local_timer_exit" Counts false "ends of timer interrupts" "wake-ups by the timer" None;
    "interrupt_reschedule_entry" "reschedule_entry" Counts false "reschedule IPIs received" "reschedule IPIs per I/O" None;
    "interrupt_reschedule_exit" "reschedule_exit" Counts false "ends of reschedule IPIs" "wake-ups by them" None;
    "interrupt_call_function_single_entry" "call_function_single_entry" Counts false "function-call IPIs to one CPU" "their count" None;
    "interrupt_call_function_single_exit" "call_function_single_exit" Counts false "ends of function-call IPIs" "wake-ups by them" None;
    "interrupt_call_function_entry" "call_function_entry" Counts false "function-call IPIs to many CPUs" "their count" None;
    "interrupt_call_function_exit" "call_function_exit" Counts false "ends of function-call IPIs" "wake-ups by them" None;
    "interrupt_irq_work_entry" "irq_work_entry" Counts false "irq work" "its count" None;
    "interrupt_irq_work_exit" "irq_work_exit" Counts false "ends of irq work" "wake-ups by it" None;
    "interrupt_softirq_raise" "softirq_raise" Counts false "who raises softirqs" "the interrupt behind a softirq's wake-ups" None;
    "interrupt_softirq_entry" "softirq_entry" Counts false "softirqs" "wake-ups by them, told apart from a thread's" None;
    "interrupt_softirq_exit" "softirq_exit" Counts false "ends of softirqs" "wake-ups by them" None;
    "interrupt_ipi_send" "ipi_send_cpu" Counts false "IPIs sent, by call site" "kicks per I/O" Some("6.4");
    "interrupt_untraced_timer" "hrtimer_expire_entry" Counts false "timers of Hyper-V" "timer interrupts as mode switches" None;
    "credit_block" "block_rq_complete" Counts false "I/O that ends in an interrupt" "device interrupts per I/O" None;
    "credit_bio" "block_bio_complete" Counts false "the same on stacked devices" "device interrupts per I/O of stacked devices" None;
    "credit_poll" "io_uring_task_add" Ring false "polls that an interrupt wakes" "device interrupts per I/O of sockets" None;
    "mode_page_fault" "page_fault_user" Counts false "page faults" "page faults as mode switches" None;
    "mode_sys_exit" "sys_exit" Syscalls true "system calls out of our sight" "system calls of POSIX AIO, its vehicle" None;
    "aio_iomap_complete" "iomap_dio_complete" Aio false "native aio on a file system" "its vehicle" Some("6.6");
    "aio_block_complete" "block_rq_complete" Aio false "native aio on a block device" "its vehicle" None;
    "aio_submits" "sys_enter_io_submit" AioCalls false "native aio being submitted" "requests, opcodes and latencies of native aio" None;
    "aio_submits_entered" "sys_enter" AioCalls false "native aio being submitted, where that tracepoint does not tell" "requests, opcodes and latencies of 32-bit programs' native aio" None;
    "posix_aio_called" "aio_read" AioCalls false "POSIX AIO, in glibc" "requests of POSIX AIO" None;
    "posix_aio_called_each" "aio_read" AioCalls false "POSIX AIO, in another glibc" "requests of POSIX AIO" None;
    "follow_submit" "io_uring_submit_req" Follow true "io_uring submissions" "requests by opcode, latencies" Some("6.4");
    "follow_submit_sqe" "io_uring_submit_sqe" Follow true "io_uring submissions" "requests by opcode, latencies" None;
    "follow_refused" "io_uring_req_failed" Follow false "io_uring requests that are refused" "their number by opcode" None;
    "follow_complete" "io_uring_complete" Follow true "io_uring completions" "all vehicles of io_uring" Some("6.17");
    "follow_complete_members" "io_uring_complete" Follow true "io_uring completions" "all vehicles of io_uring" None;
    "follow_create" "io_uring_create" Follow false "rings being made" "rings that reuse an address, told apart" None;
    "follow_punt" "io_uring_queue_async_work" Follow false "requests handed to io-wq" "what was punted, by opcode" None;
    "follow_chain_failed" "io_uring_fail_link" Follow false "chains that are cancelled" "requests that end without a completion, told from those in flight" None;
    "follow_overflow" "io_uring_cqe_overflow" Follow false "completions that find no room" "overflows" None;
    "memory_registered" "io_uring_register" Follow false "buffers being unregistered, rings being resized" "requests that outlive their buffers" None;
    "follow_poll_arm" "io_uring_poll_arm" Follow false "polls being armed" "stages of sockets and pipes" None;
    "follow_task_add" "io_uring_task_add" Follow false "polls being woken" "stages of sockets and pipes" None;
    "block_queued" "block_bio_queue" Follow false "block I/O of followed requests" "stages of files and block devices" None;
    "block_was_split" "block_split" Follow false "block I/O that is split" "stages of what is split: then wrong, not unknown" None;
    "block_issued" "block_rq_issue" Follow false "block I/O being issued" "stages of files and block devices" None;
    "block_completed" "block_rq_complete" Follow false "block I/O being done" "stages of files and block devices" None;
    "block_bio_completed" "block_bio_complete" Follow false "block I/O of stacked devices" "stages of stacked devices" None;
    "block_ended" "iomap_dio_complete" Follow false "direct I/O that a worker of the file system ends" "its wait for that worker, told apart from task work" Some("6.6");
    "process_forked" "sched_process_fork" Follow false "children being made" "children of the watched" None;
    "process_executes" "sched_process_exec" Follow false "programs being run" "processes' names" None;
    "process_freed" "sched_process_free" Follow false "processes' ends" "room for new ones, where a million processes come and go" None;
    "ring_ends" "workqueue_execute_start" Follow false "rings being torn down" "rings' ends: they go with their process" None;
    "ring_ended" "workqueue_execute_end" Follow false "rings' ends" "rings' ends: they go with their process" None;
    "process_exits" "sched_process_exit" Follow false "threads' ends" "completions left at a thread's end" None;
};

/// Where libbpf looks for it.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The types of the kernel itself.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The flag that every kernel since 6.0 has, beside others.
const MULTISHOT: &str = "REQ_F_APOLL_MULTISHOT";

/// What can be known before loading.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Tracepoints with BTF arguments; `None`: the kernel has no readable BTF.
    pub tracepoints: Option<BTreeSet<&'static str>>,
    /// io_uring_complete hands over the completion queue entry, as it does since 6.17 (072d37b0cd66); before, its members.
    pub completion_is_entry: bool,
    /// Many functions of a library can be probed as one (6.6, 89ae89f53d20).
    pub uprobe_multi: bool,
    /// The machine is a guest of Hyper-V: its timer's interrupt has no tracepoint.
    pub hyper_v: bool,
    /// REQ_F_… bits of requests that post many completions; `None`: not found.
    pub multishot_flags: Option<u64>,
    /// The bit of a request that asked for no completion and failed; `None`: not found.
    pub skip_links_flag: Option<u64>,
    /// The bit of a ring's `int_flags` that says that it is being drained; `None`: it is a member of its own (7.3 has the bit, 6.18 not).
    pub drain_active_flag: Option<u64>,
    /// Programs on tracepoints can be preempted: their guard is SRCU's, no longer a disabled preemption (7.3 has it, 6.18 not).
    pub preemptible: bool,
    /// Those of the kernel's own functions that the programs ask for.
    pub functions: BTreeSet<&'static str>,
    /// How they can be probed; `None`: the kernel lets nobody (lockdown, or built without).
    pub way: Option<Way>,
}

impl Facts {
    /// Read once in the life of the process.
    pub fn of_this_kernel() -> &'static Facts {
        static FACTS: OnceLock<Facts> = OnceLock::new();
        FACTS.get_or_init(Self::read)
    }

    /// Reads /sys/kernel/btf/vmlinux.
    pub fn read() -> Facts {
        let Ok(btf) = Btf::from_vmlinux() else { return Facts::default() };
        let there = |tp: &str| match tp {
            "aio_read" => own_number_in_proc().is_some_and(|us| !posix_aio::libraries(us).is_empty()),
            // A system call's own, with CONFIG_FTRACE_SYSCALLS; libbpf finds its number in the same places.
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
        // An enumeration of 64 bits where one of the flags needs them, else of 32.
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
            hyper_v: Path::new("/sys/bus/vmbus").exists(),
            functions: BTreeSet::new(),
            way: None,
            // A context pointer stands before the tracepoint's own arguments.
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

    /// Whether the program is the one for this kernel, of those that do the same on different kernels.
    fn fits(&self, p: &Program) -> bool {
        let has = |tp: &str| self.tracepoints.as_ref().is_some_and(|all| all.contains(tp));
        match p.name {
            "posix_aio_called" => self.uprobe_multi,
            "interrupt_untraced_timer" => self.hyper_v,
            // It needs tracefs as well; without, the one on all system calls stands in.
            "aio_submits" => has("sys_enter_io_submit") || !has("sys_enter"),
            "follow_complete" => self.completion_is_entry,
            "follow_complete_members" => !self.completion_is_entry,
            // Renamed in 6.4 (2ad57931db64).
            "follow_submit_sqe" => has("io_uring_submit_sqe") && !has("io_uring_submit_req"),
            "follow_submit" => has("io_uring_submit_req") || !has("io_uring_submit_sqe"),
            _ => true,
        }
    }

    /// Whether a function's program tells what this kernel's tracepoints don't.
    pub(super) fn fits_function(&self, f: &function::Program) -> bool {
        let there = |name: &&str| {
            let of = PROGRAMS.iter().find(|p| p.name == *name);
            of.is_some_and(|p| self.tracepoints.as_ref().is_some_and(|all| all.contains(p.tracepoint)))
        };
        // The first is what is missed; the others would count the same once more.
        !f.instead_of.first().is_some_and(there) && !f.unless.is_some_and(|other| self.functions.contains(other))
    }

    /// The programs on functions for this kernel, where it lets them be probed.
    fn probed(&self) -> impl Iterator<Item = (&'static function::Program, function::Chosen)> {
        let fitting = FUNCTIONS.iter().filter(|f| self.fits_function(f));
        fitting.filter_map(|f| Some((f, function::chosen(f, &self.functions, self.way?)?)))
    }

    /// The programs on tracepoints for this kernel, but those that one on a function stands in for.
    pub fn programs(&self) -> impl Iterator<Item = &'static Program> {
        let replaced: Vec<&str> = self.probed().flat_map(|(f, _)| f.instead_of).copied().collect();
        PROGRAMS.iter().filter(move |p| self.fits(p) && !replaced.contains(&p.name))
    }
}

/// What a run will attach, or why it can't.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub attach: Vec<&'static str>,
    /// Of these, the ones that are attached to a function of the kernel.
    pub functions: Vec<function::Chosen>,
    /// Wanted, but not there: the name and what is lost.
    pub missing: Vec<(&'static str, &'static str)>,
}

/// What a program is attached to: a tracepoint, or a function of the kernel's.
pub(super) fn tracepoint(program: &'static str) -> &'static str {
    let function = || FUNCTIONS.iter().find(|f| program.starts_with(f.name)).map(|f| f.functions[0]);
    PROGRAMS.iter().find(|p| p.name == program).map(|p| p.tracepoint).or_else(function).unwrap_or(program)
}

/// The pure decision: of the programs with these roles, which load. An error names a required one that can't.
pub fn plan(facts: &Facts, roles: &[Role]) -> Result<Plan, String> {
    let Some(tracepoints) = &facts.tracepoints else {
        return Err("the kernel has no readable BTF (/sys/kernel/btf/vmlinux)".into());
    };
    let functions: Vec<_> = facts.probed().filter(|(f, _)| roles.contains(&f.role)).map(|(_, chosen)| chosen).collect();
    let mut plan = Plan { attach: functions.iter().map(|f| f.program).collect(), functions, missing: vec![] };
    for p in facts.programs().filter(|p| roles.contains(&p.role)) {
        if tracepoints.contains(p.tracepoint) {
            plan.attach.push(p.name);
        } else if p.required {
            return Err(format!("this kernel has no tracepoint {}", p.tracepoint));
        } else {
            plan.missing.push((p.name, p.lost));
        }
    }
    if roles.contains(&Role::Follow) && facts.multishot_flags.is_none() {
        plan.missing.push((MULTISHOT, "operations of multishot requests' later completions"));
    }
    Ok(plan)
}

/// Why a program that a run wants is not there, and what restores it: what names it may only be out of sight.
pub(super) fn missing_why(name: &str) -> (String, &'static str) {
    let of_proc = [posix_aio::AT_ONCE, posix_aio::EACH].contains(&name);
    let of_tracefs = PROGRAMS.iter().any(|p| p.name == name && p.tracepoint.starts_with("sys_enter_"));
    if of_proc && !procfs::is_mounted() {
        return ("/proc is not mounted here".into(), "mount -t proc proc /proc");
    }
    if of_tracefs && !TRACEFS.iter().any(|folder| Path::new(folder).join("events").exists()) {
        return ("tracefs is not mounted here".into(), "mount -t tracefs tracefs /sys/kernel/tracing");
    }
    (format!("this kernel has no {name}"), "see `iotrail check`")
}

/// A kernel's refusal in words: why, and what restores it. One text for one cause: what the user lacks is not the kernel's fault.
pub fn refusal(e: &libbpf_rs::Error) -> (String, &'static str) {
    match errno(e) {
        Some(libc::EPERM) => not_allowed(&Circumstances::read(), || lockdown::detect().mode),
        // Where sysfs is not mounted the kernel's types are out of sight, and each one seems to be lacking.
        Some(libc::ENOENT | libc::ESRCH) if !Path::new(TYPES).exists() => (
            format!("{TYPES} cannot be read: sysfs is not mounted here, or the kernel has no type information"),
            "mount -t sysfs sysfs /sys",
        ),
        Some(number) => cause(number),
        None => match e.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => cause(libc::EACCES),
            libbpf_rs::ErrorKind::NotFound => cause(libc::ENOENT),
            libbpf_rs::ErrorKind::OutOfMemory => cause(libc::ENOMEM),
            _ => ("the kernel refused the program".into(), REPORT),
        },
    }
}

const REPORT: &str = "report this with the kernel's release and what `iotrail check --verbose` prints";

/// The number at the bottom of what libbpf gives back, which its own type keeps to itself; its text has it.
fn errno(e: &libbpf_rs::Error) -> Option<i32> {
    errno_in(&format!("{e:#}"))
}

fn cause(number: i32) -> (String, &'static str) {
    let (why, remedy) = match number {
        libc::EMFILE => (
            "this process has as many files open as it may, and each probe is one",
            "raise the hard limit of open files: ulimit -Hn, or LimitNOFILE of the service; `iotrail check` says how many are needed",
        ),
        libc::ENFILE => ("the system has as many files open as it may", "as root: raise fs.file-max with sysctl"),
        libc::ENOMEM => (
            "there is no memory for the probes' tables",
            "free memory, or raise the limit of this process's memory cgroup (memory.max, MemoryMax of the service)",
        ),
        libc::ENOSPC => (
            "the kernel has no room for another probe or table",
            "end other programs that use BPF, or run fewer at once",
        ),
        libc::EBUSY | libc::EEXIST => {
            ("another program holds what the probe is attached to", "end other tracers (perf, bpftrace) and try again")
        }
        libc::EAGAIN | libc::EINTR => ("the kernel gave up loading the program halfway", "try again"),
        libc::ENOSYS => (
            "the kernel has no bpf(2), or a seccomp filter hides it",
            "a kernel with CONFIG_BPF_SYSCALL, or let the filter of the container or service allow bpf",
        ),
        libc::ENOENT | libc::ESRCH => ("the kernel lacks a type or tracepoint that the program reads", REPORT),
        libc::EINVAL | libc::EACCES | libc::E2BIG | libc::EFAULT => {
            ("the kernel's verifier refused the program", REPORT)
        }
        other => {
            let cause = std::io::Error::from_raw_os_error(other);
            return (format!("the kernel refused the program: {cause}"), REPORT);
        }
    };
    (why.into(), remedy)
}

/// EPERM: who asks, from where, and what else forbids it.
fn not_allowed(c: &Circumstances, lockdown: impl Fn() -> Option<String>) -> (String, &'static str) {
    let p = &c.privileges;
    let has = |capability| p.has(capability) == Some(true);
    let may = has(Capability::SysAdmin) || has(Capability::Bpf) && has(Capability::Perfmon);
    let (why, remedy) = if p.initial_namespace == Some(false) {
        ("in a user namespace nobody may", "run it outside, as root or with CAP_BPF and CAP_PERFMON")
    } else if !may && p.euid == 0 {
        ("it is root without CAP_BPF and CAP_PERFMON", "give the container or service CAP_BPF and CAP_PERFMON")
    } else if !may {
        ("it has neither CAP_BPF nor CAP_SYS_ADMIN", "run as root, or with CAP_BPF and CAP_PERFMON")
    } else if lockdown().as_deref() == Some("confidentiality") {
        ("the kernel is locked down: confidentiality", "boot without lockdown=confidentiality")
    } else if matches!(p.seccomp, Some(Seccomp::Filter | Seccomp::Strict)) {
        (
            "the seccomp filter of the container or service refuses bpf",
            "let the filter allow bpf and perf_event_open, or run outside it",
        )
    } else {
        (
            "a security module (SELinux and the like) or too little locked memory",
            "allow bpf in its policy, or ulimit -l unlimited",
        )
    };
    (format!("the kernel does not let this process load BPF programs: {why}"), remedy)
}

static VERBOSE: AtomicBool = AtomicBool::new(false);

/// What libbpf says, the verifier's log among it, goes to standard error from now on.
pub fn be_verbose() {
    VERBOSE.store(true, Ordering::Relaxed);
}

/// libbpf's own messages advise wrongly in places (EPERM: "try ulimit -l"); ours replace them, unless they are asked for.
pub fn quiet() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        if VERBOSE.load(Ordering::Relaxed) {
            let say_all = |_, text: String| text.lines().for_each(say);
            libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Info, say_all)));
        } else if std::env::var_os("IOTRAIL_LIBBPF").is_none() {
            libbpf_rs::set_print(None);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_host::privileges::Privileges;

    fn facts(tracepoints: BTreeSet<&'static str>) -> Facts {
        Facts {
            tracepoints: Some(tracepoints),
            completion_is_entry: true,
            uprobe_multi: true,
            drain_active_flag: None,
            multishot_flags: Some(0),
            skip_links_flag: Some(0),
            ..Facts::default()
        }
    }

    fn all() -> BTreeSet<&'static str> {
        PROGRAMS.iter().map(|p| p.tracepoint).collect()
    }

    #[test]
    fn a_run_attaches_what_its_roles_want() {
        let facts = facts(all());
        let ring = plan(&facts, &[Role::Completion, Role::Ring, Role::Counts]).unwrap();
        assert_eq!(ring.attach.len(), 26);
        assert!(ring.missing.is_empty());
        assert!(!ring.attach.contains(&"mode_sys_exit"), "system-call probes are not in the default set");
        assert!(plan(&facts, &[Role::Syscalls]).unwrap().attach == ["mode_sys_exit"]);
    }

    #[test]
    fn each_kernel_has_one_program_for_submissions_and_one_for_completions() {
        let names = |f: &Facts| {
            let plan = plan(f, &[Role::Follow]).unwrap();
            let both = plan
                .attach
                .iter()
                .filter(|n| n.contains("submit") || n.contains("complete_") || n.ends_with("_complete"));
            both.copied().collect::<Vec<_>>()
        };
        assert_eq!(names(&facts(all())), ["follow_submit", "follow_complete"]);
        let mut old = all();
        old.remove("io_uring_submit_req");
        let old = Facts { completion_is_entry: false, ..facts(old) };
        assert_eq!(names(&old), ["follow_submit_sqe", "follow_complete_members"]);
        let mut none = all();
        none.remove("io_uring_submit_req");
        none.remove("io_uring_submit_sqe");
        assert!(plan(&facts(none), &[Role::Follow]).unwrap_err().contains("io_uring_submit_req"));
    }

    #[test]
    fn functions_stand_in_for_tracepoints_that_are_not_there() {
        let probed = |tracepoints, way| Facts {
            functions: FUNCTIONS.iter().flat_map(|f| f.functions.iter().copied()).collect(),
            way,
            ..facts(tracepoints)
        };
        let names = |f: &Facts, role| plan(f, &[role]).unwrap().functions.iter().map(|f| f.program).collect::<Vec<_>>();
        let mut new = probed(all(), Some(Way::Entry));
        new.functions.remove("__io_req_task_work_add");
        assert_eq!(names(&new, Role::Follow), ["queue_added", "queue_added_deferred"], "its caller chooses inline");
        let today = probed(all(), Some(Way::Entry));
        assert_eq!(names(&today, Role::Follow), ["queue_added"], "no tracepoint tells that");
        assert_eq!(names(&today, Role::Counts), ["kick_asked"], "nor that");
        assert!(names(&today, Role::Aio).is_empty());
        let mut some = all();
        some.remove("ipi_send_cpu");
        some.remove("iomap_dio_complete");
        let old = probed(some.clone(), Some(Way::Entry));
        assert_eq!(names(&old, Role::Counts), ["interrupt_resched_sent", "kick_asked"]);
        assert_eq!(names(&old, Role::Follow), ["queue_added", "block_called_back"]);
        assert_eq!(plan(&old, &[Role::Aio]).unwrap().attach, ["aio_called_back"], "nothing is counted twice");
        assert!(plan(&old, &[Role::Counts, Role::Aio, Role::Follow]).unwrap().missing.is_empty());
        let by_kprobe = probed(some.clone(), Some(Way::Kprobe));
        assert_eq!(names(&by_kprobe, Role::Aio), ["aio_called_back_kprobe"]);
        let refused = plan(&probed(some, None), &[Role::Counts, Role::Aio, Role::Follow]).unwrap();
        assert!(refused.functions.is_empty() && refused.attach.contains(&"aio_block_complete"));
        assert_eq!(refused.missing.len(), 3, "{:?}", refused.missing);
    }

    #[test]
    fn a_missing_tracepoint_is_named_and_a_required_one_refuses() {
        let mut some = all();
        some.remove("ipi_send_cpu"); // before 6.4
        let got = plan(&facts(some.clone()), &[Role::Counts]).unwrap();
        assert_eq!(got.missing, [("interrupt_ipi_send", "kicks per I/O")]);
        let unflagged = Facts { multishot_flags: None, ..facts(all()) };
        let got = plan(&unflagged, &[Role::Follow]).unwrap();
        assert_eq!(got.missing, [("REQ_F_APOLL_MULTISHOT", "operations of multishot requests' later completions")]);
        assert!(plan(&unflagged, &[Role::Completion]).unwrap().missing.is_empty(), "a load of our own needs it not");
        some.remove("io_uring_complete");
        let e = plan(&facts(some), &[Role::Completion]).unwrap_err();
        assert_eq!(e, "this kernel has no tracepoint io_uring_complete");
        assert!(plan(&Facts::default(), &[Role::Ring]).unwrap_err().contains("BTF"));
    }

    #[test]
    fn each_errno_has_its_cause_and_remedy() {
        let of = |number| refusal(&libbpf_rs::Error::from_raw_os_error(number));
        for (number, why, remedy) in [
            (libc::EMFILE, "as many files open as it may", "ulimit -Hn"),
            (libc::ENFILE, "the system has as many files open", "fs.file-max"),
            (libc::ENOMEM, "no memory", "memory cgroup"),
            (libc::ENOSPC, "no room", "fewer at once"),
            (libc::EBUSY, "another program holds", "other tracers"),
            (libc::EINVAL, "the kernel's verifier refused", "check --verbose"),
            (libc::E2BIG, "the kernel's verifier refused", "check --verbose"),
            (libc::EACCES, "the kernel's verifier refused", "check --verbose"),
            (libc::ENOENT, "lacks a type or tracepoint", "check --verbose"),
            (libc::ENOSYS, "a seccomp filter hides it", "CONFIG_BPF_SYSCALL"),
            (libc::EIO, "Input/output error", "check --verbose"),
        ] {
            let (got, restore) = of(number);
            assert!(got.contains(why) && restore.contains(remedy), "{number}: {got}; {restore}");
        }
    }

    #[test]
    fn a_missing_right_is_told_from_what_else_forbids_probes() {
        let with = |euid, effective: u64, seccomp, initial| {
            let mut c = Circumstances { version: None, settings: Default::default(), privileges: Privileges::read() };
            (c.privileges.euid, c.privileges.effective) = (euid, Some(effective));
            (c.privileges.seccomp, c.privileges.initial_namespace) = (Some(seccomp), Some(initial));
            c
        };
        let says = |c: Circumstances, mode: &str| not_allowed(&c, || Some(mode.into()));
        let off = Seccomp::Off;
        assert!(says(with(0, 0, off, true), "none").1.starts_with("give the container"));
        assert!(says(with(7, 0, Seccomp::Filter, true), "none").1.starts_with("run as root"));
        assert!(says(with(0, !0, off, false), "none").0.contains("user namespace"));
        assert!(says(with(0, !0, off, true), "confidentiality").1.starts_with("boot without"));
        assert!(says(with(0, !0, Seccomp::Filter, true), "none").0.contains("seccomp"));
        assert!(says(with(0, !0, off, true), "none").0.contains("security module"));
    }
}
