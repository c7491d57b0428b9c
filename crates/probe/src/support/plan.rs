//! Decides which programs a run attaches. Pure.

use std::path::Path;

use super::facts::{Facts, MULTISHOT, TRACEFS};
use super::program::PROGRAMS;
use crate::function;
use crate::posix_aio;
use crate::role::Role;
use iotrail_host::procfs;

/// The programs that a run attaches.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub attach: Vec<&'static str>,
    /// Programs among them that are attached to kernel functions.
    pub functions: Vec<function::Chosen>,
    /// Names of unavailable optional programs, and the information lost without each.
    pub missing: Vec<(&'static str, &'static str)>,
}

/// Attachment point of a program: a tracepoint or a kernel function.
pub(crate) fn tracepoint(program: &'static str) -> &'static str {
    let function = || function::named(program).map(|f| f.functions[0]);
    PROGRAMS.iter().find(|p| p.name == program).map(|p| p.tracepoint).or_else(function).unwrap_or(program)
}

/// Selects the programs with these roles that the kernel can load. Fails if a required program is unavailable.
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
        plan.missing.push((MULTISHOT, "opcodes of the later completions of multishot requests"));
    }
    Ok(plan)
}

/// Why an optional program is unavailable, and the remedy: its tracepoint may only be hidden.
pub(crate) fn missing_why(name: &str) -> (String, &'static str) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::FUNCTIONS;
    use crate::function::ProbeMethod;
    use std::collections::BTreeSet;

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
    fn only_the_probes_of_the_requested_roles_are_attached() {
        let facts = facts(all());
        let ring = plan(&facts, &[Role::Completion, Role::Ring, Role::Counts]).unwrap();
        assert_eq!(ring.attach.len(), 26);
        assert!(ring.missing.is_empty());
        assert!(!ring.attach.contains(&"mode_sys_exit"), "system-call probes are not in the default set");
        assert!(plan(&facts, &[Role::Syscalls]).unwrap().attach == ["mode_sys_exit"]);
    }

    #[test]
    fn each_kernel_has_one_submission_probe_and_one_completion_probe() {
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
    fn function_probes_replace_missing_tracepoints() {
        let probed = |tracepoints, way| Facts {
            functions: FUNCTIONS.iter().flat_map(|f| f.functions.iter().copied()).collect(),
            way,
            ..facts(tracepoints)
        };
        let names = |f: &Facts, role| plan(f, &[role]).unwrap().functions.iter().map(|f| f.program).collect::<Vec<_>>();
        const RECEIVES: &str = "received_in_place";
        let mut new = probed(all(), Some(ProbeMethod::Entry));
        new.functions.remove("__io_req_task_work_add");
        assert_eq!(names(&new, Role::Follow), ["queue_added", "queue_added_deferred"], "its caller chooses inline");
        let today = probed(all(), Some(ProbeMethod::Entry));
        assert_eq!(names(&today, Role::Follow), ["queue_added"], "no tracepoint tells that");
        assert_eq!(names(&today, Role::Counts), ["kick_asked", RECEIVES], "nor that");
        assert!(names(&today, Role::Aio).is_empty());
        let mut some = all();
        some.remove("ipi_send_cpu");
        some.remove("iomap_dio_complete");
        let old = probed(some.clone(), Some(ProbeMethod::Entry));
        assert_eq!(names(&old, Role::Counts), ["interrupt_resched_sent", "kick_asked", RECEIVES]);
        assert_eq!(names(&old, Role::Follow), ["queue_added", "block_called_back"]);
        assert_eq!(plan(&old, &[Role::Aio]).unwrap().attach, ["aio_called_back"], "nothing is counted twice");
        assert!(plan(&old, &[Role::Counts, Role::Aio, Role::Follow]).unwrap().missing.is_empty());
        let by_kprobe = probed(some.clone(), Some(ProbeMethod::Kprobe));
        assert_eq!(names(&by_kprobe, Role::Aio), ["aio_called_back_kprobe"]);
        let refused = plan(&probed(some, None), &[Role::Counts, Role::Aio, Role::Follow]).unwrap();
        assert!(refused.functions.is_empty() && refused.attach.contains(&"aio_block_complete"));
        assert_eq!(refused.missing.len(), 3, "{:?}", refused.missing);
    }

    #[test]
    fn ipis_with_interrupt_lines_are_reported_by_one_tracepoint() {
        let arm64 = |tracepoints: BTreeSet<&'static str>| Facts {
            functions: ["handle_mm_fault"].into(),
            way: Some(ProbeMethod::Kprobe),
            lines_alone: true,
            ..facts(tracepoints)
        };
        let mut its = all();
        for x86 in ["local_timer_entry", "reschedule_exit", "call_function_entry", "irq_work_entry", "page_fault_user"]
        {
            its.remove(x86);
        }
        let now = plan(&arm64(its.clone()), &[Role::Counts]).unwrap();
        assert!(now.missing.is_empty(), "{:?}", now.missing);
        for name in ["interrupt_from_cpu_entry", "interrupt_from_cpu_exit", "interrupt_ipi_send", "page_faulted_kprobe"]
        {
            assert!(now.attach.contains(&name), "{name}: {:?}", now.attach);
        }
        assert!(!now.attach.iter().any(|n| n.contains("local_timer") || *n == "interrupt_ipi_raised"));
        its.remove("ipi_send_cpu"); // before 6.4
        let old = plan(&arm64(its.clone()), &[Role::Counts]).unwrap();
        assert!(old.missing.is_empty() && old.attach.contains(&"interrupt_ipi_raised"), "{old:?}");
        its.remove("ipi_raise");
        let neither = plan(&arm64(its), &[Role::Counts]).unwrap();
        assert_eq!(neither.missing, [("interrupt_ipi_send", "kicks per I/O")]);
    }

    #[test]
    fn a_missing_tracepoint_is_reported_and_a_required_one_is_an_error() {
        let mut some = all();
        some.remove("ipi_send_cpu"); // before 6.4
        let got = plan(&facts(some.clone()), &[Role::Counts]).unwrap();
        assert_eq!(got.missing, [("interrupt_ipi_send", "kicks per I/O")]);
        let unflagged = Facts { multishot_flags: None, ..facts(all()) };
        let got = plan(&unflagged, &[Role::Follow]).unwrap();
        assert_eq!(got.missing, [("REQ_F_APOLL_MULTISHOT", "opcodes of the later completions of multishot requests")]);
        assert!(plan(&unflagged, &[Role::Completion]).unwrap().missing.is_empty(), "a load of our own needs it not");
        some.remove("io_uring_complete");
        let e = plan(&facts(some), &[Role::Completion]).unwrap_err();
        assert_eq!(e, "this kernel has no tracepoint io_uring_complete");
        assert!(plan(&Facts::default(), &[Role::Ring]).unwrap_err().contains("BTF"));
    }
}
