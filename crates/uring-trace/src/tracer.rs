//! A trace from start to end.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use iotrail_host::pid_namespace::Standing;
use iotrail_host::privileges::{Capability, Privileges};
use iotrail_path::multishot::Multishot;
use iotrail_probe::choice::Choice;
use iotrail_probe::numbers::Tasks;
use iotrail_probe::subject::{Follow, Interface, Scope, Subject};
use iotrail_probe::watch::{BATCHES, ObjectSlot, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::gate::Gate;
use crate::{Completion, Error, Totals};

/// Interval between two reads of the completions.
const PERIOD: Duration = Duration::from_millis(20);

/// Traces the io_uring requests of a process or a command.
#[derive(Debug, Clone, Default)]
pub struct Tracer {
    /// 0 and 1: all requests.
    one_in: u32,
}

impl Tracer {
    /// Passes every completion to the callback.
    pub fn new() -> Self {
        Tracer::default()
    }

    /// Passes the completions of 1 in `n` requests, selected at random, to the callback. This reduces the overhead.
    /// [`Totals`] counts all requests regardless.
    #[must_use]
    pub fn one_in(self, n: u32) -> Self {
        Tracer { one_in: n }
    }

    /// Runs a command and traces it until it exits. Its child processes are traced too. The command starts only when the
    /// trace has begun, so no request is missed. `each` is called within about 20 ms of a completion.
    ///
    /// No thread reads the command's standard streams, so do not pipe them. If the trace fails while the command is
    /// running, the command is killed.
    ///
    /// Fails with [`Error::Privileges`] or [`Error::Probes`] if the kernel does not permit the trace, and with
    /// [`Error::Command`] if the command does not start.
    pub fn command(&self, command: Command, mut each: impl FnMut(Completion)) -> Result<(ExitStatus, Totals), Error> {
        check_privileges()?;
        let gate = Gate::fork(command).map_err(Error::Command)?;
        let mut slot = ObjectSlot::default();
        let mut trace = Trace::begin(&mut slot, self.one_in, gate.pid(), true)?;
        let mut child = gate.release().map_err(Error::Command)?;
        let totals = trace.run(None, &mut each).and_then(|()| trace.end(&mut each));
        if totals.is_err() {
            // It fails only if the command has exited.
            child.kill().unwrap_or(());
        }
        let status = child.wait().map_err(Error::Command);
        Ok((status?, totals?))
    }

    /// Traces a running process, and the child processes that it creates from now on, for `duration` or until the
    /// process exits. Requests that are already in flight are not traced. `pid` is a process ID in the caller's PID
    /// namespace. `each` is called within about 20 ms of a completion.
    ///
    /// Fails with [`Error::Privileges`] or [`Error::Probes`] if the kernel does not permit the trace, and with
    /// [`Error::Process`] if the process does not exist.
    pub fn process(&self, pid: u32, duration: Duration, mut each: impl FnMut(Completion)) -> Result<Totals, Error> {
        check_privileges()?;
        let mut slot = ObjectSlot::default();
        let mut trace = Trace::begin(&mut slot, self.one_in, pid, false)?;
        trace.run(Instant::now().checked_add(duration), &mut each)?;
        trace.end(&mut each)
    }
}

fn check_privileges() -> Result<(), Error> {
    let privileges = Privileges::read();
    // If the capabilities are unreadable, the kernel decides.
    let has = |capability| privileges.has(capability) != Some(false);
    let may = has(Capability::SysAdmin) || (has(Capability::Bpf) && has(Capability::Perfmon));
    may.then_some(()).ok_or(Error::Privileges)
}

/// A running trace.
struct Trace<'slot> {
    watch: Watch<'slot>,
    /// Becomes readable when the process exits.
    exit: OwnedFd,
    multishot: Multishot,
    traced: u64,
}

impl<'slot> Trace<'slot> {
    /// `whole`: the process has not run yet.
    fn begin(slot: &'slot mut ObjectSlot, one_in: u32, pid: u32, whole: bool) -> Result<Self, Error> {
        let exit = exit_of(pid).map_err(|e| Error::Process { pid, source: e.into() })?;
        let subject = Subject {
            who: Scope::Followed,
            interface: Interface::IoUring { iopoll: true },
            target_irqs: vec![],
            // Holds the completions of one period at more than one million per second.
            follow: Some(Follow { choice: Choice::fixed(one_in), ring_bytes: 32 << 20, stacks: false }),
            aio_awaited: false,
            spans_timed: false,
        };
        let mut watch = Watch::open(slot, subject).map_err(Error::probes)?;
        let (tgid, in_proc) = ids(pid)?;
        watch.follow(tgid, in_proc, whole).map_err(Error::probes)?;
        watch.begin().map_err(Error::probes)?;
        Ok(Trace { watch, exit, multishot: Multishot::default(), traced: 0 })
    }

    fn run(&mut self, until: Option<Instant>, each: &mut dyn FnMut(Completion)) -> Result<(), Error> {
        loop {
            let rest = until.map_or(PERIOD, |until| until.saturating_duration_since(Instant::now()).min(PERIOD));
            let timeout = Timespec::try_from(rest).ok();
            // A signal ends the wait early.
            let has_exited = poll(&mut [PollFd::new(&self.exit, PollFlags::IN)], timeout.as_ref()) == Ok(1);
            self.read(each)?;
            if has_exited || rest.is_zero() {
                return Ok(());
            }
        }
    }

    /// Passes the completions since the last call to `each`.
    fn read(&mut self, each: &mut dyn FnMut(Completion)) -> Result<(), Error> {
        for _ in 0..BATCHES {
            let more = self.watch.read_batch().map_err(Error::probes)?;
            let (multishot, traced) = (&mut self.multishot, &mut self.traced);
            let mut pass = |trace| {
                *traced += 1;
                let is_later = multishot.is_later(&trace);
                each(Completion::new(trace, is_later));
            };
            self.watch.trails(&mut pass).map_err(Error::probes)?;
            // Records that the library does not report would accumulate.
            drop((self.watch.overflowed(), self.watch.unregistered(), self.watch.file_names()));
            drop((self.watch.ended_sq_threads(), self.watch.folded()));
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn end(&mut self, each: &mut dyn FnMut(Completion)) -> Result<Totals, Error> {
        let observed = self.watch.end().map_err(Error::probes)?;
        self.read(each)?;
        let unavailable = self.watch.missing().into_iter().map(|warning| warning.text).collect();
        Ok(Totals::of(&observed, self.traced, unavailable))
    }
}

fn exit_of(pid: u32) -> rustix::io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    pidfd_open(pid, PidfdFlags::empty())
}

/// The process's IDs in the initial PID namespace, which the BPF programs use, and in /proc.
fn ids(pid: u32) -> Result<(u32, Option<u32>), Error> {
    let standing = Standing::of_this_process();
    if standing == Standing::Initial {
        return Ok((pid, Some(pid)));
    }
    let tasks = Tasks::open(standing).and_then(|tasks| tasks.read()).map_err(Error::probes)?;
    let task = tasks.into_iter().find(|task| task.here == pid);
    let task = task.ok_or_else(|| Error::Process { pid, source: io::Error::from(Errno::SRCH) })?;
    Ok((task.tgid, task.in_proc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_exist_is_not_found() {
        assert_eq!([0, u32::MAX, i32::MAX as u32].map(|pid| exit_of(pid).err()), [Some(Errno::SRCH); 3]);
        assert!(exit_of(std::process::id()).is_ok());
    }
}
