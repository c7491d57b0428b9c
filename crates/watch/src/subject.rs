//! Resolves and validates the subject of a trace before anything is loaded.

use std::ffi::OsString;

use super::command;
use super::end::End;
use super::namespace::Numbers;
use iotrail_base::error::{Error, Result};

/// The traced processes, with PIDs in the initial namespace.
#[derive(Debug)]
pub enum Target {
    Command(Vec<OsString>),
    Processes(Vec<Process>),
    Everyone,
}

/// A process that existed when it was specified.
#[derive(Debug)]
pub struct Process {
    pub tgid: u32,
    pub comm: String,
    pub end: End,
}

/// Resolves a command, PIDs or all processes, of which exactly one must be specified.
pub fn resolve(command: &[OsString], tgids: &[u32], everyone: bool, numbers: &Numbers) -> Result<Target> {
    match (command.is_empty(), tgids.is_empty(), everyone) {
        (true, true, false) => Err(Error::input(
            "nothing to trace",
            "specify a command (iotrail trace -- CMD), a process (-p TGID), or all processes (-a)",
        )),
        (false, true, false) => {
            command::find(command)?;
            Ok(Target::Command(command.to_vec()))
        }
        (true, false, false) => {
            let mut processes: Vec<Process> = vec![];
            for tgid in tgids {
                let process = process(*tgid, numbers)?;
                if processes.iter().all(|p| p.tgid != process.tgid) {
                    processes.push(process);
                }
            }
            Ok(Target::Processes(processes))
        }
        (true, true, true) => Ok(Target::Everyone),
        _ => Err(Error::input(
            "more than one kind of subject is specified",
            "specify one of: a command after --, processes with -p, all processes with -a",
        )),
    }
}

fn process(number: u32, numbers: &Numbers) -> Result<Process> {
    let absent = || Error::input(format!("process {number} does not exist"), "`ps` lists the processes");
    if std::process::id() == number {
        return Err(Error::input(format!("process {number} is iotrail itself"), "specify the process to trace"));
    }
    let found = numbers.find(number)?.ok_or_else(absent)?;
    if found.tid != found.tgid {
        let of = found.process_here;
        return Err(Error::input(
            format!("{number} is a thread of process {of}"),
            format!("trace the process: -p {of}"),
        ));
    }
    // The pidfd first, then /proc, so that both refer to the same process.
    let end = End::of(number).map_err(|cause| match cause.raw_os_error() {
        Some(libc::ESRCH) => absent(),
        _ => Error::machine(
            format!("cannot watch process {number} for its exit"),
            "a seccomp filter may forbid pidfd_open: run outside the container",
        )
        .because(cause),
    })?;
    let found = numbers.find(number)?.ok_or_else(absent)?;
    if found.is_kernel_thread {
        return Err(Error::input(
            format!("process {number} ({}) is a kernel thread: it makes no requests of its own", found.comm),
            "specify the program whose requests it serves, or trace all processes with -a",
        ));
    }
    // Only PID 1 of the initial namespace: a container's first process is an ancestor only within its container.
    if found.tgid == 1 {
        return Err(Error::input(
            format!("process 1 ({}) is the ancestor of all processes on this machine", found.comm),
            "trace all processes with -a, or specify the program to trace",
        ));
    }
    if end.is_there() {
        return Err(Error::input(format!("process {number} ({}) has exited", found.comm), "specify a running process"));
    }
    Ok(Process { tgid: found.tgid, comm: found.comm, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(command: &[&str], tgids: &[u32], everyone: bool) -> String {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let e = resolve(&command, tgids, everyone, &Numbers::SAME).unwrap_err();
        assert_eq!(e.exit_status(), 2, "{e}");
        e.to_string()
    }

    #[test]
    fn exactly_one_kind_of_subject_is_required() {
        assert!(said(&[], &[], false).starts_with("nothing to trace; "));
        assert!(said(&["true"], &[1], false).starts_with("more than one kind"));
        assert!(said(&["true"], &[], true).starts_with("more than one kind"));
        assert!(said(&[], &[1], true).starts_with("more than one kind"));
    }

    #[test]
    fn a_subject_that_cannot_be_traced_is_rejected() {
        assert_eq!(said(&[], &[u32::MAX / 2], false), "process 2147483647 does not exist; `ps` lists the processes");
        let first = said(&[], &[1], false);
        assert!(first.contains("is the ancestor of all") && first.contains("trace all processes with -a"), "{first}");
        let us = std::process::id();
        assert!(said(&[], &[us], false).ends_with("is iotrail itself; specify the process to trace"));
        // Tests run in threads other than the first.
        let tid = rustix::thread::gettid().as_raw_pid() as u32;
        if tid != us {
            assert_eq!(
                said(&[], &[tid], false),
                format!("{tid} is a thread of process {us}; trace the process: -p {us}")
            );
        }
    }

    #[test]
    fn the_name_and_exit_of_a_traced_process_are_detected() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let tgid = child.id();
        let asked = resolve(&[], &[tgid, tgid], false, &Numbers::SAME).unwrap();
        let Target::Processes(processes) = asked else { panic!("processes were asked for") };
        assert_eq!((processes.len(), processes[0].tgid), (1, tgid));
        assert!(!processes[0].end.is_there());
        child.kill().unwrap();
        while !processes[0].end.is_there() {
            std::thread::yield_now();
        }
        assert!(
            said(&[], &[tgid], false).ends_with("has exited; specify a running process"),
            "nobody has waited for it"
        );
        child.wait().unwrap();
        assert!(said(&[], &[tgid], false).contains("does not exist"));
    }
}
