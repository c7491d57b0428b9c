//! Which programs a run wants, and which of them this kernel can take: facts first, then a pure decision.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use libbpf_rs::OpenObject;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};

use super::skel::IotrailSkelBuilder;

/// What a program is for; decides which runs want it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// io_uring's completions and what carried them.
    Ring,
    /// Native aio's completions.
    Aio,
    /// Context, interrupts and switches: every run.
    Counts,
    /// System calls that the load does not issue itself; costs on each of them.
    Syscalls,
}

/// One BPF program: its name in the object, the tracepoint that it hangs on, and what is not known without it.
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
    "ring_complete" "io_uring_complete" Ring true "io_uring completions" "all vehicles of io_uring" None;
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
    "mode_page_fault" "page_fault_user" Counts false "page faults" "page faults as mode switches" None;
    "mode_sys_exit" "sys_exit" Syscalls true "system calls out of our sight" "system calls of POSIX AIO, its vehicle" None;
    "aio_iomap_complete" "iomap_dio_complete" Aio false "native aio on a file system" "its vehicle" Some("6.6");
    "aio_block_complete" "block_rq_complete" Aio false "native aio on a block device" "its vehicle" None;
};

/// What can be known before loading.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Tracepoints with BTF arguments; `None`: the kernel has no readable BTF.
    pub tracepoints: Option<BTreeSet<&'static str>>,
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
        let present = PROGRAMS
            .iter()
            .map(|p| p.tracepoint)
            .filter(|tp| btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tp}")).is_some());
        Facts { tracepoints: Some(present.collect()) }
    }
}

/// What a run will attach, or why it can't.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    pub attach: Vec<&'static str>,
    /// Wanted, but not there: the name and what is lost.
    pub missing: Vec<(&'static str, &'static str)>,
}

/// The pure decision: of the programs with these roles, which load. An error names a required one that can't.
pub fn plan(facts: &Facts, roles: &[Role]) -> Result<Plan, String> {
    let Some(tracepoints) = &facts.tracepoints else {
        return Err("the kernel has no readable BTF (/sys/kernel/btf/vmlinux)".into());
    };
    let mut plan = Plan { attach: vec![], missing: vec![] };
    for p in PROGRAMS.iter().filter(|p| roles.contains(&p.role)) {
        if tracepoints.contains(p.tracepoint) {
            plan.attach.push(p.name);
        } else if p.required {
            return Err(format!("this kernel has no tracepoint {}", p.tracepoint));
        } else {
            plan.missing.push((p.name, p.lost));
        }
    }
    Ok(plan)
}

/// One program, tried alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramCheck {
    pub name: &'static str,
    pub purpose: &'static str,
    pub state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Loads,
    Missing { why: String, lost: &'static str, restore: String },
}

/// Loads each program alone and takes it out again: about 20 ms each.
pub fn survey() -> Vec<ProgramCheck> {
    quiet();
    let facts = Facts::of_this_kernel();
    let missing = |p: &Program, why: String, restore: &str| ProgramCheck {
        name: p.name,
        purpose: p.purpose,
        state: State::Missing { why, lost: p.lost, restore: restore.into() },
    };
    PROGRAMS
        .iter()
        .map(|p| {
            let Some(tracepoints) = &facts.tracepoints else {
                return missing(p, "no readable BTF".into(), "a kernel built with CONFIG_DEBUG_INFO_BTF");
            };
            if !tracepoints.contains(p.tracepoint) {
                let restore = p.since.map_or("a kernel with this tracepoint".into(), |v| format!("Linux {v} or later"));
                return missing(p, format!("no tracepoint {}", p.tracepoint), &restore);
            }
            match try_load(p.name) {
                Ok(()) => ProgramCheck { name: p.name, purpose: p.purpose, state: State::Loads },
                Err(e) => {
                    let (why, restore) = refusal(&e);
                    missing(p, why, restore)
                }
            }
        })
        .collect()
}

fn try_load(name: &str) -> libbpf_rs::Result<()> {
    let mut room = MaybeUninit::<OpenObject>::uninit();
    let mut open = IotrailSkelBuilder::default().open(&mut room)?;
    for mut program in open.open_object_mut().progs_mut() {
        let chosen = program.name() == name;
        program.set_autoload(chosen);
    }
    open.load().map(drop)
}

/// A kernel's refusal in words: why, and what restores it.
pub fn refusal(e: &libbpf_rs::Error) -> (String, &'static str) {
    use libbpf_rs::ErrorKind::*;
    match e.kind() {
        PermissionDenied => (
            "the kernel does not let this process load BPF programs".into(),
            "run as root, or with CAP_BPF and CAP_PERFMON; under lockdown=confidentiality or a container's seccomp \
             filter only the host's owner can allow it",
        ),
        NotFound => {
            ("the kernel lacks a type or tracepoint that the program reads".into(), "report this kernel's version")
        }
        _ => ("the kernel refused the program".into(), "report this kernel's version and its configuration"),
    }
}

/// libbpf's own messages advise wrongly in places (EPERM: "try ulimit -l"); ours replace them. IOTRAIL_LIBBPF=1 shows them.
pub fn quiet() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        if std::env::var_os("IOTRAIL_LIBBPF").is_none() {
            libbpf_rs::set_print(None);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> BTreeSet<&'static str> {
        PROGRAMS.iter().map(|p| p.tracepoint).collect()
    }

    #[test]
    fn a_run_attaches_what_its_roles_want() {
        let facts = Facts { tracepoints: Some(all()) };
        let ring = plan(&facts, &[Role::Ring, Role::Counts]).unwrap();
        assert_eq!(ring.attach.len(), 23);
        assert!(ring.missing.is_empty());
        assert!(!ring.attach.contains(&"mode_sys_exit"), "system-call probes are not in the default set");
        assert!(plan(&facts, &[Role::Syscalls]).unwrap().attach == ["mode_sys_exit"]);
    }

    #[test]
    fn a_missing_tracepoint_is_named_and_a_required_one_refuses() {
        let mut some = all();
        some.remove("ipi_send_cpu"); // before 6.4
        let got = plan(&Facts { tracepoints: Some(some.clone()) }, &[Role::Counts]).unwrap();
        assert_eq!(got.missing, [("interrupt_ipi_send", "kicks per I/O")]);
        some.remove("io_uring_complete");
        let e = plan(&Facts { tracepoints: Some(some) }, &[Role::Ring]).unwrap_err();
        assert_eq!(e, "this kernel has no tracepoint io_uring_complete");
        assert!(plan(&Facts::default(), &[Role::Ring]).unwrap_err().contains("BTF"));
    }
}
