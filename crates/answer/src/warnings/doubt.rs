//! Where a measurement's numbers must not be taken at their word. Asked once, when it is made; the answers stay with it, as
//! its warnings.

use iotrail_base::words::{list, percent, plural};
use iotrail_path::loss::Full;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{
    CpuSamples, DeliveryPathCount, Followed, Host, Interrupt, Measurement, Probe, Warning,
};

/// One in a hundred: the accuracy that shares and counts are read with.
const ACCURACY: f64 = 0.01;

/// The counts of one watched span, whoever's load it was.
#[derive(Debug, Clone, Copy)]
pub struct Counts<'a> {
    /// That the load had from the kernel: one for each I/O, but for a network server's.
    pub completions: u64,
    pub probe: &'a Probe,
    pub vehicles: &'a [DeliveryPathCount],
    pub interrupts: &'a [Interrupt],
}

impl<'a> From<&'a Measurement> for Counts<'a> {
    fn from(m: &'a Measurement) -> Self {
        let server = m.net.as_ref().and_then(|net| net.server.as_ref());
        let completions = server.map_or(m.ios.unwrap_or(0), |server| server.total.counts.completions);
        Self { completions, probe: &m.probe, vehicles: &m.vehicles, interrupts: &m.interrupts }
    }
}

/// What the span's own numbers say against it.
pub fn doubts<'a>(of: impl Into<Counts<'a>>) -> Vec<Warning> {
    let c = &of.into();
    [lost(c), missed(c), untracked(c), seen_too_many(c), unknown(c), interrupts_missed(c)]
        .into_iter()
        .flatten()
        .collect()
}

/// Nothing that was timed tells of a machine whose instructions are run by software.
pub fn emulated(host: &Host) -> Option<Warning> {
    host.is_emulated().then(|| {
        Warning::new(
            "emulated",
            "software runs this machine's instructions: counts mean what they say, times mean nothing",
            "compare counts, or run where KVM works",
        )
    })
}

fn lost(m: &Counts<'_>) -> Option<Warning> {
    let lost = m.probe.lost.filter(|n| *n > 0)?;
    Some(Warning::new(
        "events_lost",
        format!(
            "the probes lost {}: a counter's map was full or a probe interrupted itself",
            plural(lost as usize, "event")
        ),
        "take the counts as lower bounds, or repeat with less else running",
    ))
}

/// What the probes' maps had no room for, and what is unreliable for that.
pub fn no_room(full: &[(Full, u64)]) -> Vec<Warning> {
    let warning = |(what, n): &(Full, u64)| {
        let (of, code, text, advice) = match what {
            Full::Threads => (
                "thread state",
                "threads_lost",
                "what delivered their completions is wrong (slept counts as inline), not only too low; counts by operation hold",
                "watch fewer threads at once",
            ),
            Full::Counts => (
                "event",
                "counts_lost",
                "completions, requests and what delivered them are lower bounds",
                "watch fewer rings at once",
            ),
            Full::Calls => (
                "call",
                "calls_lost",
                "requests, results and latencies of native and POSIX AIO are lower bounds; io_uring's counts hold",
                "watch fewer requests of AIO at once",
            ),
            Full::Children => (
                "process",
                "children_lost",
                "what they did is not counted: all counts are lower bounds",
                "watch one process of them (-p), or fewer at once",
            ),
            Full::Errnos => (
                "error",
                "errnos_lost",
                "which errors these were is not known; the number of errors holds",
                "the opcodes' errors have all of them",
            ),
            Full::Interrupts => (
                "interrupt",
                "interrupts_lost",
                "interrupts and mode switches are lower bounds; completions hold",
                "/proc/interrupts has all of them",
            ),
            Full::Ipis => (
                "interprocessor interrupt",
                "ipis_lost",
                "kicks and interprocessor interrupts are lower bounds; completions hold",
                "watch fewer threads at once",
            ),
            Full::Waits => (
                "wait",
                "waits_lost",
                "how often which thread waited for a ring's completions is a lower bound; completions hold",
                "watch fewer threads at once",
            ),
            Full::Workers => (
                "look at an io-wq worker",
                "workers_lost",
                "the number of io-wq workers is a lower bound; completions hold",
                "watch fewer processes at once",
            ),
        };
        let things = match (*n, of) {
            (1, "process") => "1 process".to_owned(),
            (n, "process") => format!("{n} processes"),
            (1, "look at an io-wq worker") => "1 look at an io-wq worker".to_owned(),
            (n, "look at an io-wq worker") => format!("{n} looks at io-wq workers"),
            (n, of) => plural(n as usize, of),
        };
        Warning::new(code, format!("the probes had no room for {things}: {text}"), advice)
    };
    full.iter().map(warning).collect()
}

/// Requests that were chosen to be followed and are not among the followed ones.
pub fn followed_lost(of: &Followed, option: &str) -> Option<Warning> {
    (of.no_room + of.ring_buffer_full > 0).then(|| {
        Warning::new(
            "followed_lost",
            format!(
                "of the requests that were followed, {} were given up for want of room and {} were lost on the way",
                of.no_room, of.ring_buffer_full
            ),
            format!("counts by opcode are not affected, files and latencies are of the others; follow fewer: a larger {option}"),
        )
    })
}

fn missed(m: &Counts<'_>) -> Option<Warning> {
    if m.probe.missed.is_empty() {
        return None;
    }
    let each: Vec<String> =
        m.probe.missed.iter().map(|missed| format!("{} {}", missed.program, missed.events)).collect();
    Some(Warning::new(
        "events_missed",
        format!("events were missed that arrived while their own program was running: {}", each.join(", ")),
        "what a program counts is low by at most that; `iotrail check --json` says what each is for",
    ))
}

/// The code of the warning that the probes watched something else than the load.
pub const NOT_SEEN: &str = "load_not_seen";

/// Whether the probes saw so few of a load's completions, which all leave events, that what they counted is not of it.
pub fn is_another_load(probe: &Probe, completions: u64) -> bool {
    probe.completions_seen.is_some_and(|seen| seen < completions.div_ceil(2))
}

/// How many completions ended in interrupts that no probe saw, about: as many for each as in those that were seen.
fn unseen(m: &Counts<'_>) -> Option<String> {
    let own = || m.interrupts.iter().filter(|i| i.credited.is_some_and(|n| n > 0));
    let credited: u64 = own().filter_map(|i| i.credited).sum();
    let unseen: u64 = own().filter_map(|i| Some(i.proc_count?.saturating_sub(i.count))).sum();
    let seen = m.probe.completions_seen.filter(|_| credited > 0 && unseen > 0)?;
    let about = (unseen as f64 * seen as f64 / credited as f64).round();
    Some(format!(
        "; about {about} ended in {} of theirs that the kernel counted and no probe saw",
        plural(unseen as usize, "interrupt")
    ))
}

fn untracked(m: &Counts<'_>) -> Option<Warning> {
    let untracked = m.probe.untracked.filter(|n| *n > 0)?;
    if is_another_load(m.probe, m.completions) {
        let seen = m.probe.completions_seen.unwrap_or(0);
        return Some(Warning::new(
            NOT_SEEN,
            format!(
                "the probes saw {seen} of the load's {} completions: what delivered them, kicks, interrupts and switches are unknown",
                m.completions
            ),
            "latency and throughput are the load's own and stand; report this with the output of `iotrail check`",
        ));
    }
    Some(Warning::new(
        "untracked",
        format!(
            "{untracked} of {} completions left no trace that the probes can follow{}",
            m.completions,
            unseen(m).unwrap_or_default()
        ),
        "docs/delivery.md says which interfaces do that and when",
    ))
}

fn seen_too_many(m: &Counts<'_>) -> Option<Warning> {
    let seen = m.probe.completions_seen.filter(|n| *n > m.completions)?;
    Some(Warning::new(
        "seen_too_many",
        format!("the probes saw {seen} completions, the load {}", m.completions),
        "another ring of this process was busy: take the shares, not the counts, and report this",
    ))
}

fn unknown(m: &Counts<'_>) -> Option<Warning> {
    let seen: u64 = m.vehicles.iter().map(|v| v.completions).sum();
    let unknown: u64 = m.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::Unknown).map(|v| v.completions).sum();
    let share = unknown as f64 / seen.max(1) as f64;
    (share >= ACCURACY).then(|| {
        Warning::new(
            "unknown_vehicle",
            format!("for {} of completions it could not be told what carried them", percent(share)),
            "their details and docs/delivery.md say when that is so (task work within execve or another call that is not \
             io_uring's, native aio that no event ends); `iotrail check` says whether a probe is missing",
        )
    })
}

/// The kernel's own count is the observer that nothing escapes.
fn interrupts_missed(m: &Counts<'_>) -> Option<Warning> {
    // The two are not read at the same instant: a few apart is no miss.
    const EDGES: f64 = 10.0;
    // Of a line that ended others' I/O alone, nothing is said of this program. Nor do the kernel's own vectors change a figure of
    // its: what hits its threads is seen, and /proc's count stands beside that of the others.
    let is_line = |i: &&Interrupt| i.vector.parse::<u32>().is_ok();
    let own = m.interrupts.iter().filter(is_line).filter(|i| i.credited != Some(0) || i.count == 0);
    let both = own.filter_map(|i| Some((i, i.proc_count?)));
    let off = both.filter(|(i, proc)| proc.saturating_sub(i.count) as f64 > (*proc as f64 * ACCURACY).max(EDGES));
    let off: Vec<_> = off.collect();
    let (worst, proc) = off.iter().max_by_key(|(i, proc)| proc - i.count)?;
    let others = match off.len() - 1 {
        0 => String::new(),
        n => format!(", and too few of {}", plural(n, "other")),
    };
    Some(Warning::new(
        "interrupts_missed",
        format!(
            "the probes saw {} of the {proc} interrupts {} {} on CPU {} that /proc/interrupts counted{others}",
            worst.count, worst.vector, worst.name, worst.cpu
        ),
        "counts of interrupts and their wake-ups are low by that share; completions are not affected",
    ))
}

pub const NOTHING_ASYNCHRONOUS: &str = "nothing_asynchronous";

/// A watched program of which there is nothing to tell. `syscalls`, `pread_pwrite`: its system calls, and of these how many
/// were pread64 and pwrite64.
pub fn nothing_asynchronous(syscalls: Option<u64>, pread_pwrite: Option<u64>) -> Warning {
    let instead = match (syscalls, pread_pwrite) {
        (Some(0), _) => ", nor any system call".to_owned(),
        (Some(calls), Some(positioned)) => {
            format!("; of {}, {positioned} were pread64 and pwrite64", plural(calls as usize, "system call"))
        }
        _ => String::new(),
    };
    Warning::new(
        NOTHING_ASYNCHRONOUS,
        format!("no request of io_uring, native aio or POSIX AIO was seen{instead}"),
        "if another process does the I/O, trace that one (-p) or all (-a); if the program brings its own glibc, its POSIX AIO is seen \
         only with -p",
    )
}

/// Of a watched program that has rings nothing was seen. `rings`: process and descriptors of each.
pub fn nothing_of_rings(rings: &[(u32, Vec<u32>)]) -> Warning {
    const NAMED: usize = 3;
    let one = |(tgid, fds): &(u32, Vec<u32>)| match fds.first() {
        Some(fd) => format!("fd {fd} of {tgid}"),
        None => format!("one of {tgid}"),
    };
    let mut named: Vec<String> = rings.iter().take(NAMED).map(one).collect();
    if rings.len() > NAMED {
        named.push(format!("{} more", rings.len() - NAMED));
    }
    let are = if rings.len() == 1 { "is" } else { "are" };
    Warning::new(
        "idle_rings",
        format!(
            "{} {are} open ({}); no request was submitted to io_uring, native aio or POSIX AIO while it was watched, and none completed",
            plural(rings.len(), "io_uring"),
            list(&named)
        ),
        "requests that were submitted before the watch began are seen when they complete: watch longer (--duration)",
    )
}

/// Native aio whose results left no system call. `ended`: completions seen, `reaped`: those whose result was seen.
pub fn results_unseen(ended: u64, reaped: u64) -> Option<Warning> {
    let unseen = ended.saturating_sub(reaped);
    (unseen as f64 > ACCURACY * ended as f64).then(|| {
        Warning::new(
            "results_unseen",
            format!(
                "{unseen} of {ended} completions of native aio were not seen to be reaped: the program takes them out of the \
                 ring in its own memory, or has left them there"
            ),
            "their bytes, errors and latencies are not counted; with io_getevents they would be",
        )
    })
}

/// Zero-copy receives: `requests` of them. The kernel puts what they receive into the queue without an event.
pub fn zero_copy_received(requests: u64) -> Option<Warning> {
    (requests > 0).then(|| {
        Warning::new(
            "zero_copy_received",
            format!(
                "what {} of zero-copy receive got is not counted: the kernel has no event for these completions (io_zcrx_queue_cqe)",
                plural(requests as usize, "request")
            ),
            "completions and bytes are lower bounds; other requests hold",
        )
    })
}

/// POSIX AIO: `returned` of `requests`.
pub fn results_unreturned(requests: u64, returned: u64) -> Option<Warning> {
    let unseen = requests.saturating_sub(returned);
    (unseen as f64 > ACCURACY * requests as f64).then(|| {
        Warning::new(
            "results_unseen",
            format!(
                "{unseen} of {requests} requests of POSIX AIO were not seen to be returned (aio_return): the program looks at them by \
                 aio_error or a signal alone, or they were not done"
            ),
            "no event tells when they are done: they are no completions here, and their bytes, errors and latencies are not counted; \
             with aio_return they would be",
        )
    })
}

/// Native aio whose submission was under way, or the program's first, when its probe came.
pub fn submissions_unseen(requests: u64) -> Option<Warning> {
    (requests > 0).then(|| {
        Warning::new(
            "submissions_unseen",
            format!("{requests} requests of native aio were submitted before that was looked at"),
            "they are not among the requests, and their completions have no opcode; a trace that starts the program (--) has all",
        )
    })
}

/// Losses that the shares of the CPU could lean from.
pub fn samples_lost(how: &CpuSamples) -> Option<Warning> {
    let expected = how.expected.unwrap_or(how.taken + how.elsewhere + how.lost);
    (how.lost as f64 > 0.05 * expected as f64).then(|| {
        Warning::new(
            "samples_lost",
            format!("{} of {expected} samples of the CPUs were lost", how.lost),
            "the shares are of the others; a virtual machine whose host is busy loses samples, and so do long stretches \
             with interrupts off",
        )
    })
}

#[cfg(test)]
mod tests;
