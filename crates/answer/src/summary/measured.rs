//! The answer for one measurement of a load or a traced program: the largest cost with its remedy, or the statement
//! that there is nothing to fix.

use crate::callsites;
use crate::diagnose::{WAITING_FOR_CPU, WORTH_A_CHANGE, failed_call, findings_of, synchronous, unexpected_errors};
use crate::per_io;
use crate::traced::{Scope, estimate};
use crate::unit::Unit;
use crate::warnings::doubt::{NOT_SEEN, NOTHING_ASYNCHRONOUS};
use iotrail_base::words::{UNKNOWN, count, percent, plural, signal_name, span};
use iotrail_schema::account::{
    Account, Bound, BoundOf, CallRecord, Reason, RequestAccount, RequestStage, ThreadAccount, ThreadRow, ThreadState,
};
use iotrail_schema::file::Kind;
use iotrail_schema::finding::Finding;
use iotrail_schema::measurement::{Latency, Measurement, StageRecord, Warning};
use iotrail_schema::stacks::CallSite;
use iotrail_schema::trace_record::{EndedBy, Subject, TraceRecord};

/// Minimum number of completions for time shares, which equals the minimum for a median.
const FEW: u64 = 10;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// The answer in one sentence, with its number.
    pub answer: String,
    pub advice: Option<String>,
    /// The most that removing the cause could save.
    pub bound: Option<Bound>,
    /// Call sites that cause it; empty if no call is involved or no stacks were sampled.
    pub from: Vec<CallSite>,
    /// The remaining findings, warnings first.
    pub others: Vec<Finding>,
}

pub fn of_trace(t: &TraceRecord) -> Verdict {
    let sampled = t.total.followed.is_sample();
    let iops = estimate(count(t.total.iops), t.total.ios, "ios", &t.total.count_intervals);
    let rate = rate(&format!("{iops} completions per second"), &t.total.latency_ns);
    let mut verdict = of(t.findings.clone(), &t.total.warnings, &rate, t.total.ios, no_problem(t, sampled));
    let first = t.total.warnings.first().filter(|w| w.code == NOTHING_ASYNCHRONOUS && w.text == verdict.answer);
    if let Some(answer) = first.and_then(|_| synchronous::answer(t)) {
        (verdict.answer, verdict.advice) = (answer, synchronous::advice(t));
        let blocked = callsites::of_figure(&Scope::All, "blocked").zip(t.stacks.as_ref());
        verdict.from = blocked.map(|(concern, stacks)| callsites::top(stacks, &concern)).unwrap_or_default();
    }
    if let Some(share) = starved(t) {
        verdict.answer =
            format!("the threads waited for a CPU for {} of their time; {}", percent(share), verdict.answer);
    }
    match t.subject {
        Subject::Command { exit_status: Some(status @ 1..), .. } if !stopped(t) => {
            let (how, remedy) = ended(status, t.ended_by);
            // The answer reports a failed exit or a fatal signal first, even if no rule fired.
            let has_advice = t.findings.iter().any(|f| f.warns());
            let advice = if has_advice { verdict.advice } else { remedy.map(Into::into).or(verdict.advice) };
            Verdict { answer: format!("{how}; {}", verdict.answer), advice, ..verdict }
        }
        _ => verdict,
    }
}

/// The share of time that the threads waited for a CPU, if it is large and larger than the bound of the first finding.
fn starved(t: &TraceRecord) -> Option<f64> {
    const LARGE: f64 = 0.25;
    let share = share_of(t.account.as_ref()?, |row| row.state == ThreadState::Runnable)?;
    let first = t.findings.iter().find(|f| f.warns())?;
    let bound = first.bound.filter(|bound| bound.of == BoundOf::ThreadTime)?;
    (share >= LARGE && share > bound.share && first.code != WAITING_FOR_CPU.code).then_some(share)
}

/// iotrail or the user ended the command, so its exit status needs no explanation.
fn stopped(t: &TraceRecord) -> bool {
    matches!(t.ended_by, Some(EndedBy::Duration | EndedBy::Interrupt))
}

/// How a command with a non-zero exit status ended, and the remedy for a signal. Shells and iotrail exit with 128 +
/// signal.
fn ended(status: i32, by: Option<EndedBy>) -> (String, Option<&'static str>) {
    let (signal, why, remedy) = match status - 128 {
        13 => (
            "SIGPIPE",
            "it wrote to a socket or pipe whose other end was closed",
            Some(
                "send with MSG_NOSIGNAL (a ring's sends too), or ignore SIGPIPE, and handle EPIPE: close the descriptor",
            ),
        ),
        25 => (
            "SIGXFSZ",
            "it wrote beyond RLIMIT_FSIZE",
            Some("raise RLIMIT_FSIZE (`ulimit -f`), or ignore SIGXFSZ and handle EFBIG"),
        ),
        31 => (
            "SIGSYS",
            "a seccomp filter killed it because of a system call",
            Some("let the seccomp filter allow the call, or return an errno instead; the audit log names the call"),
        ),
        7 => (
            "SIGBUS",
            "it accessed a mapping beyond the end of its file, or the file system is full (`df`; tmpfs and /dev/shm have a size limit), or a page could not \
             be read",
            Some(
                "allocate a mapped file with posix_fallocate(3) instead of ftruncate(2), which reserves no space; do not truncate a file that is mapped; \
                 check the kernel log (`dmesg`) for I/O errors",
            ),
        ),
        9 => (
            "SIGKILL",
            "another process or the kernel killed it",
            Some("check the kernel log (`dmesg`) for the OOM killer, and the cgroup's memory.max"),
        ),
        signal if by == Some(EndedBy::Signal) => {
            return (format!("{} killed the command (status {status})", signal_name(signal)), None);
        }
        _ => return (format!("the command exited with status {status}"), None),
    };
    (format!("{signal} killed the command (status {status}): {why}"), remedy)
}

/// The statement without findings. Reports "no problem" only if all time is accounted for and no request failed.
fn no_problem(t: &TraceRecord, sampled: bool) -> String {
    let failed = matches!(t.subject, Subject::Command { exit_status: Some(1..), .. }) && !stopped(t);
    let errors = unexpected_errors(t);
    let unexplained = t.account.as_ref().and_then(unexplained);
    let waits = |row: &ThreadRow| matches!(row.state, ThreadState::Runnable | ThreadState::Throttled);
    let starved = t.account.as_ref().and_then(|account| share_of(account, waits)).unwrap_or(0.0);
    match (unexplained, &t.calls) {
        _ if failed => "no finding explains the exit status".into(),
        (None, _) | (_, None) => "the threads' time was not measured".into(),
        (Some(share), _) if share > UNEXPLAINED => {
            format!("{} of the threads' time is unexplained", percent(share))
        }
        _ if starved > UNEXPLAINED => {
            format!("the threads spent {} of their time waiting for a CPU", percent(starved))
        }
        _ if errors > 0 => format!("{} failed", plural(errors as usize, "request")),
        _ => failed_call(t).or_else(|| in_vain(t)).unwrap_or_else(|| {
            match t.account.as_ref().and_then(|account| account.requests.as_ref()) {
                Some(requests) if requests.latency_sum_ns > 0 => of_requests(requests, waits_for(t)),
                _ => of_stages(t, sampled),
            }
        }),
    }
}

/// Waits for events or for another thread that took most of a thread's time and mostly timed out.
fn in_vain(t: &TraceRecord) -> Option<String> {
    const MOST: f64 = 0.5;
    let is_sleep = |c: &&CallRecord| c.syscall.ends_with("nanosleep");
    let ended = t.calls.iter().flatten().filter(|c| !is_sleep(c)).filter_map(|c| Some((c, c.ended?)));
    let (c, ended) = ended.max_by_key(|(_, ended)| ended.time_limit)?;
    let in_it = |row: &ThreadRow| row.state == ThreadState::Blocked && row.syscall.as_ref() == Some(&c.syscall);
    let waits = ended.completions + ended.time_limit + ended.signal;
    let is_most = ended.time_limit > 0 && ended.time_limit as f64 >= MOST * waits as f64;
    let in_thread = |thread: &ThreadAccount| {
        let ns: u64 = thread.rows.iter().filter(|row| in_it(row)).map(|row| row.ns).sum();
        (ns as f64 / thread.wall_ns.max(1) as f64, thread.tid)
    };
    let (share, tid) = t.own_threads().map(in_thread).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (is_most && share >= MOST).then(|| {
        format!(
            "no finding, but {} of the {} waits in {}(2) timed out, and thread {tid} spent {} of its time in this call",
            count(ended.time_limit as f64),
            count(waits as f64),
            c.syscall,
            percent(share)
        )
    })
}

/// The same, from the requests' time account.
fn of_requests(account: &RequestAccount, waits_for: &str) -> String {
    let unexplained = account.share_at_most(|row| matches!(row.stage, RequestStage::Unknown | RequestStage::InFlight));
    if unexplained > UNEXPLAINED {
        return format!("{} of the requests' latency is unexplained", percent(unexplained));
    }
    let parts: [(&str, bool, &[RequestStage]); 7] = [
        (waits_for, true, &[RequestStage::Device, RequestStage::Poll]),
        ("submission", true, &[RequestStage::Inline]),
        ("the block layer", false, &[RequestStage::Block]),
        ("delivery", false, &[RequestStage::Ready]),
        ("io-wq", false, &[RequestStage::Iowq, RequestStage::IowqQueue]),
        ("the wait for earlier requests", true, &[RequestStage::Ordered]),
        ("the ring's queues", false, &[RequestStage::Unsubmitted, RequestStage::Posted]),
    ];
    let share = |(_, _, stages): &(&str, bool, &[RequestStage])| account.share(|row| stages.contains(&row.stage));
    let largest = parts.iter().max_by(|a, b| share(a).total_cmp(&share(b))).expect("seven parts");
    let (name, is_work, stages) = largest;
    // The screen prints such rows as unknown.
    if account.rows.iter().any(|row| stages.contains(&row.stage) && !account.is_narrow(row)) {
        return format!("no problem found, but too few requests were traced to divide their latency; {NOTHING_ELSE}");
    }
    let (share, mean) = (percent(share(largest)), span(account.mean_ns()));
    if *is_work {
        format!("no problem found: {share} of the mean {mean} is {name}; {NOTHING_ELSE}")
    } else {
        format!("no finding explains it, but {share} of the mean {mean} is {name}")
    }
}

fn of_stages(t: &TraceRecord, sampled: bool) -> String {
    match parts_known(t.total.stages.as_ref(), sampled) {
        None => format!("no problem found: {NOTHING_ELSE}"),
        Some(s) => match largest(s, waits_for(t)) {
            ("delivery", share) => format!("no finding explains it, but {share} of {} is delivery", span(s.total_ns)),
            (name, share) => {
                format!("no problem found: {share} of the mean {} is {name}; {NOTHING_ELSE}", span(s.total_ns))
            }
        },
    }
}

const NOTHING_ELSE: &str = "no call failed, blocked in submission or waited in vain";

/// A larger share of the threads' time without a known cause may hide a problem.
const UNEXPLAINED: f64 = 0.1;

/// Share of the threads' time without a known cause.
fn unexplained(account: &Account) -> Option<f64> {
    share_of(account, |row| match row.state {
        ThreadState::Unknown => true,
        ThreadState::Blocked => matches!(row.reason, None | Some(Reason::Function(_))),
        _ => false,
    })
}

/// Share of the active threads' time; `None` if no thread is listed.
fn share_of(account: &Account, is_meant: impl Fn(&ThreadRow) -> bool) -> Option<f64> {
    let threads = account.active_threads();
    let wall: u64 = threads.iter().map(|thread| thread.wall_ns).sum();
    let meant: u64 = threads.iter().flat_map(|thread| &thread.rows).filter(|row| is_meant(row)).map(|row| row.ns).sum();
    (wall > 0).then(|| meant as f64 / wall as f64)
}

/// The program's requests wait for this between issue and readiness.
fn waits_for(t: &TraceRecord) -> &'static str {
    match t.total.files.first() {
        Some(f) if f.queue_device.is_some() => "the device",
        Some(f) if f.kind == Kind::Socket => "the peer",
        _ => "the requested operation",
    }
}

pub fn of_measurement(m: &Measurement) -> Verdict {
    let device = match m.net {
        Some(_) => "the sender",
        None if m.load.direct && m.load.file.is_some() => "the device",
        None => "the requested operation",
    };
    let sampled = m.followed.as_ref().is_some_and(|f| f.is_sample());
    let ios = m.ios.unwrap_or(0);
    let iops = m.iops.map_or(UNKNOWN.into(), count);
    let mut rate = rate(&format!("{iops} {}", Unit::of(m).per_second()), &m.latency_ns);
    if let Some(ns) = per_io::cpu_ns(m).filter(|_| m.net.is_some()) {
        rate += &format!(", {} of the server's CPU time per request", span(ns));
    }
    let found = findings_of(m);
    // If the sender is saturated, the server may have nothing to fix, but the sender does.
    let sender = m.warnings.iter().find(|w| w.code == "sender_bound").filter(|_| found.is_empty() && ios > 0);
    let nothing = match m.net.as_ref().map(|net| net.server.is_none()) {
        _ if m.interrupted() => "interrupted, so these figures cover only the part that ran".into(),
        Some(true) => "the server was not measured".into(),
        _ => nothing_to_fix(m.stages.as_deref(), sampled, device),
    };
    match sender {
        Some(w) => Verdict { answer: format!("{rate}; {}", w.text), advice: some(&w.remedy), ..Verdict::default() },
        None => of(found, &m.warnings, &rate, ios, nothing),
    }
}

/// `59.5 k IOPS, p50 199 µs, p99 481 µs`.
fn rate(rate: &str, latency: &Latency) -> String {
    let quantile =
        |name: &str, ns: Option<u64>| ns.map(|ns| format!(", {name} {}", span(ns as f64))).unwrap_or_default();
    format!("{rate}{}{}", quantile("p50", latency.p50), quantile("p99", latency.p99))
}

/// `rate`: printed if there is nothing else to report, followed by `nothing`, the statement that there is nothing to
/// fix.
fn of(found: Vec<Finding>, warnings: &[Warning], rate: &str, ios: u64, nothing: String) -> Verdict {
    if let Some(w) = warnings.iter().find(|w| w.code == NOT_SEEN) {
        return Verdict { answer: w.text.clone(), advice: some(&w.remedy), others: found, ..Verdict::default() };
    }
    let (mut warns, notes): (Vec<Finding>, Vec<Finding>) = found.into_iter().partition(Finding::warns);
    if !warns.is_empty() {
        let first = warns.remove(0);
        let others = warns.into_iter().chain(notes).collect();
        return of_finding(first, others);
    }
    // A note with worthwhile advice rules out the statement that there is nothing to fix.
    let mut notes = notes;
    let worth = |f: &Finding| !f.remedy.is_empty() && f.bound.is_none_or(|bound| bound.share >= WORTH_A_CHANGE);
    if let Some(i) = notes.iter().position(worth) {
        let first = notes.remove(i);
        return of_finding(first, notes);
    }
    if ios == 0 {
        let first = warnings.first();
        let answer = first.map_or_else(|| "no completion was observed".into(), |w| w.text.clone());
        return Verdict { answer, advice: first.and_then(|w| some(&w.remedy)), others: notes, ..Verdict::default() };
    }
    Verdict { answer: format!("{rate}; {nothing}"), others: notes, ..Verdict::default() }
}

fn of_finding(f: Finding, others: Vec<Finding>) -> Verdict {
    let advice = some(&f.remedy);
    Verdict { answer: f.text, advice, bound: f.bound, from: f.from, others }
}

/// `at most 12 % of the latency`.
pub fn bound_text(bound: Bound) -> String {
    let of = match bound.of {
        BoundOf::ThreadTime => "the threads' time",
        BoundOf::Latency => "the latency",
        BoundOf::Cpu => "the CPU time",
        BoundOf::P99 => "the p99 latency",
    };
    format!("at most {} of {of}", percent(bound.share))
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The largest part of mean latency, if its parts are known. `waits_for`: what requests wait for between issue and
/// readiness.
fn nothing_to_fix(stages: Option<&StageRecord>, sampled: bool, waits_for: &str) -> String {
    let Some(s) = parts_known(stages, sampled) else { return "found nothing to fix".into() };
    let of = span(s.total_ns);
    match largest(s, waits_for) {
        ("delivery", share) => format!("no finding explains it, but {share} of {of} is delivery"),
        (name, share) => format!("nothing to fix: {share} of {of} is {name}"),
    }
}

/// The largest part of mean latency, and its share.
fn largest<'a>(s: &StageRecord, waits_for: &'a str) -> (&'a str, String) {
    let parts = [("issuing the request", s.issue_ns), (waits_for, s.wait_ns), ("delivery", s.delivery_ns)];
    let (name, ns) = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("three parts");
    (name, percent(ns / s.total_ns))
}

/// The parts of mean latency, if enough requests were sampled.
pub fn parts_known(stages: Option<&StageRecord>, sampled: bool) -> Option<&StageRecord> {
    stages.filter(|s| s.total_ns > 0.0 && s.completions >= FEW && !(sampled && s.total_ci95.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::trace::clean;

    #[test]
    fn a_signal_that_killed_the_command_is_named_with_its_cause() {
        let mut t = clean();
        t.subject = Subject::Command { argv: vec!["db".into()], exit_status: Some(141) };
        let verdict = of_trace(&t);
        assert!(verdict.answer.starts_with("SIGPIPE killed the command (status 141)"), "{}", verdict.answer);
        assert!(verdict.advice.unwrap().contains("MSG_NOSIGNAL"));
        t.subject = Subject::Command { argv: vec!["db".into()], exit_status: Some(3) };
        assert!(of_trace(&t).answer.starts_with("the command exited with status 3"));
        // A shell exits with the status of a command that a signal killed.
        t.subject = Subject::Command { argv: vec!["sh".into()], exit_status: Some(139) };
        assert!(of_trace(&t).answer.starts_with("the command exited with status 139"));
        t.ended_by = Some(EndedBy::Signal);
        assert!(of_trace(&t).answer.starts_with("SIGSEGV killed the command (status 139)"));
    }

    #[test]
    fn the_exit_status_of_a_command_that_iotrail_stopped_is_not_a_failure() {
        let mut t = clean();
        let answer = of_trace(&t).answer;
        for (by, status) in [(EndedBy::Duration, 143), (EndedBy::Interrupt, 130)] {
            t.subject = Subject::Command { argv: vec!["db".into()], exit_status: Some(status) };
            t.ended_by = Some(by);
            assert_eq!(of_trace(&t).answer, answer);
        }
    }
}
