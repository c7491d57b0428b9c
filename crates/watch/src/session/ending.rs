//! The end of a trace and its results.

use iotrail_schema::setup_flag;
use std::collections::BTreeMap;
use std::time::Duration;

use super::cpu::cpu;
use super::opening::of_windows;
use super::running::{PATIENCE, Running};
use super::watched::{Watched, subject};
use crate::iowait;
use crate::processes::{CpuTime, Processes};
use crate::quota::Quotas;
use crate::recorder::{self, Recorded};
use crate::sampler::Sampler;
use crate::summary::{ProcView, Span};
use iotrail_answer::warnings::doubt;
use iotrail_base::error::Result;
use iotrail_host::io_uring;
use iotrail_path::sample::Sample;
use iotrail_probe::cost::Cost;
use iotrail_probe::observed::Observed;
use iotrail_probe::sampled::CpuShares;
use iotrail_schema::account::{CallRecord, Mode, Role, ThreadAccount, ThreadState};
use iotrail_schema::measurement::Warning;
use iotrail_schema::recorded::{End, Losses};
use iotrail_schema::trace_record::{self, EndedBy, ProbeCost, ProcessRecord, TraceRecord};

/// Results of a trace.
pub struct Traced {
    pub record: TraceRecord,
    /// `None` if no requests were kept.
    pub kept: Option<Recorded>,
    /// Samples behind the record's CPU shares; empty unless requested.
    pub samples: Vec<Sample>,
}

impl Running<'_> {
    /// The record so far, without order, file ends and CPU time, which are only known at the end. Threads are accounted
    /// up to their last switch.
    pub(super) fn record_so_far(&mut self) -> Result<TraceRecord> {
        self.take()?;
        let observed = self.watch.look()?;
        let (threads, more_threads) = self.watch.threads()?;
        let calls = self.watch.calls(&threads)?;
        let span = Span {
            started_unix_s: self.origin.unix_ns / 1_000_000_000,
            elapsed_ns: self.began.elapsed().as_nanos() as u64,
            subject: subject(&mut self.watched, self.descendants),
            host: self.host.clone(),
            cpu: None,
            processes: processes(&self.processes, &observed),
            most_workers: self.processes.most_workers(),
            workers_cpu_ns: None,
            warnings: self.warnings.clone(),
        };
        let sq_thread = |tgid, tid| self.processes.sq_thread(tgid, tid);
        let seen = ProcView { rings: self.processes.rings.all(), sq_thread: &sq_thread, files: &self.files };
        let mut record = self.summary.so_far().record(observed, &seen, span);
        record.calls = calls;
        let account = record.account.get_or_insert_default();
        (account.threads, account.more_threads) = (threads, more_threads);
        iowait::add(&mut record, io_uring::has_no_iowait);
        Ok(record)
    }

    pub fn end(mut self) -> Result<Traced> {
        // Detaching the probes of the system calls takes about 20 ms, in which an ended program did not run.
        let exited = self.watched.have_ended().then(|| self.began.elapsed());
        let last_read = self.rings_read - self.began;
        // First, so that the threads' times end with the trace.
        self.watch.close_account()?;
        let windows = self.windows.take().map(|windows| windows.end(&mut self.watch, self.began)).transpose()?;
        let lasted = exited.unwrap_or_else(|| self.began.elapsed());
        let asked = windows.filter(|w| w.whole_ns.is_none());
        let elapsed_ns = asked.and_then(|w| w.open_for_ns()).unwrap_or(lasted.as_nanos() as u64);
        let ended_ns = recorder::now().monotonic_ns;
        let over = self.watched.have_ended();
        let state = self.state.end(self.processes.running(), !over || self.stopped);
        self.processes.look(true);
        let posted = windows.and_then(|w| w.whole_ns).map(|_| self.processes.rings.posted());
        let cpu = cpu(&mut self.watch, &mut self.processes, &self.watched, &self.how.numbers)?;
        // Detaching the probes must not count as CPU time of the traced programs.
        let shares = self.sampler.as_mut().map(Sampler::end).transpose()?;
        let costs = self.watch.costs()?;
        // On a busy machine the last reading is older than its period.
        let unread = exited.map_or(Duration::ZERO, |exited| exited.saturating_sub(last_read));
        self.watch.lasted(lasted, posted.unwrap_or_default(), unread);
        let observed = self.watch.end()?;
        let (threads, more_threads) = self.watch.threads()?;
        let cpu = if windows.is_some() { with_threads(cpu, &threads) } else { cpu };
        let mut calls = self.watch.calls(&threads)?;
        self.take()?;
        let sites = self.watch.sites()?;
        let stacks = self.callsites.take().map(|callsites| callsites.record(sites));

        self.end_command();
        if over {
            self.tell_left()?;
        }
        let ended_by = match &self.watched {
            Watched::Command(_) if self.interrupted => Some(EndedBy::Interrupt),
            Watched::Command(_) if !over => Some(EndedBy::Duration),
            Watched::Command(command) if command.was_killed() => Some(EndedBy::Signal),
            _ => None,
        };
        self.warnings.extend(self.processes.quotas.as_ref().and_then(Quotas::warning));
        let workers_cpu_ns = self.processes.workers_cpu_ns(self.watch.ended_workers_ns());
        let span = Span {
            started_unix_s: self.origin.unix_ns / 1_000_000_000,
            elapsed_ns,
            subject: subject(&mut self.watched, self.descendants),
            host: self.host,
            cpu: cpu.filter(|_| asked.is_none()),
            processes: processes(&self.processes, &observed),
            most_workers: self.processes.most_workers(),
            workers_cpu_ns: workers_cpu_ns.filter(|_| asked.is_none()),
            warnings: self.warnings,
        };
        let sq_thread = |tgid, tid| self.processes.sq_thread(tgid, tid);
        let seen = ProcView { rings: self.processes.rings.all(), sq_thread: &sq_thread, files: &self.files };
        let loss = observed.follow_loss;
        let watched = observed.processes.len() as u64 + observed.more_processes;
        let mut record = self.summary.record(observed, &seen, span);
        record.ended_by = ended_by;
        if let Some(of_ios) = record.total.count_intervals.get("ios") {
            calls.iter_mut().flatten().for_each(|call| with_unread(call, record.total.ios, *of_ios));
        }
        record.calls = calls;
        record.stacks = stacks;
        let account = record.account.get_or_insert_default();
        (account.threads, account.more_threads) = (threads, more_threads);
        if let Some(requests) = &mut account.requests {
            let posted: u64 = record.rings.iter().map(|ring| ring.completions).sum();
            let reaping = record.total.reaping.as_ref().and_then(|reaping| reaping.mean_ns_ci95);
            let reaped_ns = reaping.map(|ends| ends.map(|mean| mean * posted as f64));
            self.state.add_queues(requests, elapsed_ns, reaped_ns);
        }
        iowait::add(&mut record, io_uring::has_no_iowait);
        record.state = state;
        record.total.reaping_lost = Some(self.watch.stays_lost());
        // The probes count all processes; a reused PID is counted once.
        record.total.more_processes = watched.saturating_sub(record.total.processes.len() as u64);
        if let Some(windows) = windows {
            let (user_ns, system_ns) = cpu.map(|cpu| (cpu.user_ns, cpu.system_ns)).unzip();
            // The counter counts CQ entries, and a 32-byte CQE in such a ring occupies two.
            let mixed = record.rings.iter().any(|ring| setup_flag::is_set(&ring.flags, "cqe_mixed"));
            // Rings that no sample found are known only from the windows.
            let (posted, each) = posted.filter(|_| !mixed).unzip();
            let posted_is_all = each.map(|each| each && record.rings.len() <= seen.rings.len());
            let windows = trace_record::Windows { posted, posted_is_all, user_ns, system_ns, ..windows };
            of_windows(&mut record, windows, loss.came_later);
        }
        record.total.probe_costs = costs.map(|costs| costs.into_iter().map(probe_cost).collect());
        let samples = shares.map(|shares| take_shares(&mut record, shares, self.sampler.as_ref())).unwrap_or_default();
        let end = || {
            let (rings, processes) = (record.rings.clone(), record.total.processes.clone());
            End { rings, processes, ..End::default() }
        };
        let kept = match (self.capturing, self.recorder) {
            (Some(capturing), _) => {
                let losses = Losses { at_ns: ended_ns, ..Losses::default() };
                let (file, captured) = capturing.finish(End { losses, ..end() });
                Some(Recorded { file: Some(file), completions: 0, slowest: None, captured: Some(captured) })
            }
            (None, Some(recorder)) => Some(recorder.finish(ended_ns, loss, End { files: self.files.named(), ..end() })),
            (None, None) => None,
        };
        Ok(Traced { record, kept, samples })
    }

    /// Asks a command to exit, unless already done, and waits for it.
    fn end_command(&mut self) {
        let Watched::Command(command) = &mut self.watched else { return };
        if !self.stopped {
            command.signal(libc::SIGTERM);
        }
        let ended = if self.stopped { command.ended() } else { command.wait(PATIENCE) };
        if ended.is_none() {
            self.warnings.push(Warning::new(
                "still_running",
                format!("the command (process {}) was asked to exit but is still running, untraced", command.tgid()),
                "stop it yourself",
            ));
        }
    }

    /// Reports processes that an exited command left running.
    fn tell_left(&mut self) -> Result<()> {
        let Watched::Command(_) = &self.watched else { return Ok(()) };
        let left = self.left.get_or_insert_default();
        left.look(&self.watch, &self.how.numbers)?;
        if left.running().len() > 0 {
            self.warnings.push(Warning::new(
                "left_running",
                format!("the trace ended before {}", left.words()),
                "their later activity is not counted; end them if they are not needed",
            ));
        }
        Ok(())
    }
}

/// The CPU time of threads that exited between two windows is only in their accounts: no probe observes their last
/// switch. `None` if too little of it is split by mode.
fn with_threads(cpu: Option<CpuTime>, threads: &[ThreadAccount]) -> Option<CpuTime> {
    let own = threads.iter().filter(|thread| thread.role == Role::Thread);
    let all: u64 = own.clone().filter_map(|thread| thread.cpu_ns).sum();
    let rows = own.flat_map(|thread| &thread.rows).filter(|row| row.state == ThreadState::Running);
    let of = |mode| rows.clone().filter(|row| row.mode == Some(mode)).map(|row| row.ns).sum::<u64>();
    // The counters of /proc are read at different times.
    if cpu.is_some_and(|cpu| 10 * (cpu.user_ns + cpu.system_ns) >= 9 * all) {
        return cpu;
    }
    let (user, kernel) = (of(Mode::User), of(Mode::Kernel));
    let system_ns = (u128::from(all) * u128::from(kernel)).checked_div(u128::from(user + kernel))? as u64;
    (2 * (user + kernel) >= all).then(|| CpuTime { user_ns: all - system_ns, system_ns })
}

/// Calls are extrapolated by completions. If their number is an estimate, its error adds to that of the calls.
fn with_unread(call: &mut CallRecord, ios: u64, of_ios: Option<[f64; 2]>) {
    let (seen, ios) = (call.seen.unwrap_or(0) as f64, ios.max(1) as f64);
    let both = call.count_ci95.zip(of_ios);
    call.count_ci95 = both.map(|([lo, hi], [least, most])| [(lo * least / ios).max(seen), hi * most / ios]);
}

/// Processes as /proc showed them. For a process found at its I/O, the probes' name is that of the thread; /proc's name
/// may predate exec.
pub(super) fn processes(met: &Processes, observed: &Observed) -> Vec<ProcessRecord> {
    let mut names: BTreeMap<u32, String> = met.names().map(|(tgid, name)| (tgid, name.to_owned())).collect();
    let newer = observed.processes.iter().filter(|p| !met.looked_at_since(p.tgid, p.executed_ns));
    names.extend(newer.map(|p| (p.tgid, p.comm.clone())));
    let record = |(tgid, comm)| ProcessRecord { tgid, here: met.here(tgid), comm, found: met.was_there(tgid) };
    names.into_iter().map(record).collect()
}

fn probe_cost(c: Cost) -> ProbeCost {
    ProbeCost { program: c.program.into(), event: c.tracepoint.into(), runs: c.runs, spent_ns: c.spent_ns }
}

/// Moves the CPU shares to the record and returns the samples behind them.
fn take_shares(record: &mut TraceRecord, shares: CpuShares, sampler: Option<&Sampler<'_>>) -> Vec<Sample> {
    record.total.warnings.extend(doubt::samples_lost(&shares.how));
    record.total.warnings.extend(sampler.and_then(Sampler::doubt));
    record.total.cpu_shares = Some(shares.shares);
    record.total.cpu_samples = Some(shares.how);
    shares.samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::account::ThreadRow;

    #[test]
    fn calls_have_the_error_of_the_completions() {
        let of = |of_ios| {
            let count_ci95 = Some([90.0, 110.0]);
            let mut call = CallRecord { count: 100, seen: Some(50), count_ci95, ..CallRecord::default() };
            with_unread(&mut call, 1_000, of_ios);
            call.count_ci95
        };
        assert_eq!(of(Some([1_000.0, 1_200.0])), Some([90.0, 132.0]));
        assert_eq!(of(Some([100.0, 2_000.0])), Some([50.0, 220.0]));
        assert_eq!(of(None), None);
    }

    #[test]
    fn cpu_time_that_no_window_observed_is_that_of_the_threads() {
        let row = |mode, ns| ThreadRow {
            state: ThreadState::Running,
            mode,
            syscall: None,
            reason: None,
            ns,
            iowait_ns: 0,
            longest_ns: None,
            count: None,
            exact: false,
        };
        let thread = |rows: Vec<ThreadRow>| ThreadAccount {
            tid: 7,
            tgid: 7,
            comm: "hot".into(),
            role: Role::Thread,
            wall_ns: 8_000,
            cpu_ns: Some(rows.iter().map(|row| row.ns).sum()),
            cpus: None,
            only_cpu: None,
            policy: None,
            nice: None,
            iowait_ns: 0,
            rows,
            cpu_had: vec![],
        };
        let split = [thread(vec![row(Some(Mode::User), 600), row(Some(Mode::Kernel), 1_200)])];
        let of = |user_ns, system_ns| Some(CpuTime { user_ns, system_ns });
        assert_eq!(with_threads(of(0, 0), &split), of(600, 1_200));
        assert_eq!(with_threads(None, &split), of(600, 1_200));
        assert_eq!(with_threads(of(1_000, 750), &split), of(1_000, 750));
        assert_eq!(with_threads(of(0, 0), &[thread(vec![row(None, 1_800)])]), None, "unknown is not 0");
    }
}
