//! The traced processes, and the configuration of the probes for them.

use std::time::Duration;

use super::terms::Options;
use crate::command::Gated;
use crate::end;
use crate::namespace::{self, Numbers};
use crate::processes::Processes;
use crate::subject::{Process, Target};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_probe::choice::Choice;
use iotrail_probe::subject::{Follow, Interface, Scope, Subject};
use iotrail_probe::watch::Watch;
use iotrail_schema::measurement::Warning;
use iotrail_schema::trace_record;

/// The traced processes of a running trace.
pub(crate) enum Watched {
    Command(Gated),
    Processes(Vec<Process>),
    Everyone,
}

impl Watched {
    /// Starts a command, which waits at its gate.
    pub fn of(asked: Target, how: &Options) -> Result<Self> {
        Ok(match asked {
            Target::Command(argv) => Watched::Command(Gated::new(&argv, how.stdout_apart, how.prepare.as_ref())?),
            Target::Processes(processes) => Watched::Processes(processes),
            Target::Everyone => Watched::Everyone,
        })
    }

    pub fn have_ended(&mut self) -> bool {
        match self {
            Watched::Command(command) => command.ended().is_some(),
            Watched::Processes(processes) => all_ended(processes),
            Watched::Everyone => false,
        }
    }

    /// Waits for an exit, for at most `patience`.
    pub fn wait(&self, patience: Duration) {
        match self {
            Watched::Command(command) => end::wait([command.end()].into_iter(), patience),
            Watched::Processes(processes) => end::wait(processes.iter().map(|p| &p.end), patience),
            Watched::Everyone => end::wait([].into_iter(), patience),
        }
    }
}

fn all_ended(processes: &[Process]) -> bool {
    processes.iter().all(|p| p.end.is_there())
}

/// Fails if a requested process has exited while the probes were loaded.
pub(crate) fn still_there(watched: &Watched) -> Result<()> {
    if let Watched::Processes(gone) = watched
        && all_ended(gone)
    {
        let names: Vec<String> = gone.iter().map(|p| format!("{} ({})", p.tgid, p.comm)).collect();
        return Err(Error::input(
            format!("process {} exited before it could be traced", names.join(", ")),
            "let iotrail start it: iotrail trace -- CMD",
        ));
    }
    Ok(())
}

/// Configures the scope of the probes.
pub(crate) fn probed(asked: &Target, choice: Choice, stacks: bool) -> Subject {
    // Space for the requests that complete between two reads: a million per second or more if all requests are traced.
    let ring_bytes = if choice.one_in < 16 { 32 << 20 } else { 4 << 20 };
    Subject {
        who: if matches!(asked, Target::Everyone) { Scope::Everyone } else { Scope::Followed },
        interface: Interface::Any,
        target_irqs: vec![],
        follow: Some(Follow { choice, ring_bytes, stacks }),
        // A process that is traced from its start, or found during the trace, may use native aio immediately.
        aio_awaited: matches!(asked, Target::Processes(_)),
        spans_timed: false,
    }
}

/// Passes the traced processes to the probes and to the sampling of /proc. The probes follow later children themselves.
/// Returns the number of descendants of the named processes.
pub(crate) fn follow(
    watched: &mut Watched,
    watch: &mut Watch<'_>,
    seen: &mut Processes,
    numbers: &Numbers,
) -> Result<usize> {
    match watched {
        Watched::Command(command) => {
            let number = command.tgid();
            let found = numbers.find(number)?.or_machine(
                format_args!("cannot determine the ID of process {number} in the initial PID namespace"),
                "report this",
            )?;
            command.is_known_as(found.tgid);
            watch.follow(found.tgid, numbers.in_proc(found.tgid), true)?;
            seen.track(found.tgid, false);
            seen.count_cpu_from_now(found.tgid);
            Ok(0)
        }
        Watched::Processes(roots) => {
            let mut all: Vec<u32> = vec![];
            for root in roots.iter() {
                let mut new = vec![root.tgid];
                // A child created in the meantime is traced through its parent, or found by the next sample.
                while !new.is_empty() {
                    for tgid in &new {
                        watch.follow(*tgid, numbers.in_proc(*tgid), false)?;
                    }
                    all.append(&mut new);
                    new = numbers.descendants(root.tgid)?.into_iter().filter(|d| !all.contains(d)).collect();
                }
            }
            let descendants = all.iter().filter(|tgid| roots.iter().all(|root| root.tgid != **tgid)).count();
            all.into_iter().for_each(|tgid| seen.track(tgid, true));
            Ok(descendants)
        }
        Watched::Everyone => {
            namespace::with_rings(numbers).into_iter().for_each(|tgid| seen.track(tgid, true));
            Ok(0)
        }
    }
}

/// Warns that the PIDs in the record differ from those in this namespace.
pub(crate) fn whose_numbers(numbers: &Numbers) -> Option<Warning> {
    let text = match (numbers.differ(), numbers.has_proc()) {
        (false, _) => return None,
        (true, true) => "process IDs are those of the host; `here` contains the IDs in this PID namespace",
        (true, false) => {
            "/proc is not mounted, or belongs to another PID namespace: CPU times, file descriptors and some names are unknown; process IDs are those of the host, and `here` contains the IDs in this PID namespace"
        }
    };
    let remedy = if numbers.has_proc() { "`ps` shows the latter" } else { "mount -t proc proc /proc" };
    Some(Warning::new("pid_namespace", text, remedy))
}

pub(super) fn subject(watched: &mut Watched, descendants: usize) -> trace_record::Subject {
    match watched {
        Watched::Command(command) => {
            let exit_status = command.ended();
            trace_record::Subject::Command { argv: command.argv(), exit_status }
        }
        Watched::Processes(processes) => match processes.as_slice() {
            [p] => trace_record::Subject::Process { tgid: p.tgid, comm: p.comm.clone(), descendants },
            several => {
                let tgids = several.iter().map(|p| p.tgid).collect();
                trace_record::Subject::Processes { tgids, descendants }
            }
        },
        Watched::Everyone => trace_record::Subject::All,
    }
}
