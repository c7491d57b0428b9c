//! Doubts about a measurement's numbers. They are determined once, at measurement time, and stored as the measurement's
//! warnings.

use iotrail_base::words::{list, percent, plural};
use iotrail_path::loss::Full;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{
    CpuSamples, DeliveryPathCount, Followed, Host, Interrupt, Measurement, Probe, Warning,
};

/// 1 %: the accuracy that readers need in shares and counts.
const ACCURACY: f64 = 0.01;

/// The counts of one traced span, for any load.
#[derive(Debug, Clone, Copy)]
pub struct Counts<'a> {
    /// Completions posted by the kernel for the load: one per I/O, except for a network server.
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

/// Doubts that follow from the span's own numbers.
pub fn doubts<'a>(of: impl Into<Counts<'a>>) -> Vec<Warning> {
    let c = &of.into();
    [lost(c), missed(c), untracked(c), seen_too_many(c), unknown(c), interrupts_missed(c)]
        .into_iter()
        .flatten()
        .collect()
}

/// Warns that the machine is emulated, which no timing reveals.
pub fn emulated(host: &Host) -> Option<Warning> {
    host.is_emulated().then(|| {
        Warning::new(
            "emulated",
            "this machine is emulated (no KVM): counts are valid, times are meaningless",
            "compare counts, or run with KVM",
        )
    })
}

fn lost(m: &Counts<'_>) -> Option<Warning> {
    let lost = m.probe.lost.filter(|n| *n > 0)?;
    Some(Warning::new(
        "events_lost",
        format!(
            "the probes lost {}, since a counter's map was full or a probe interrupted itself: counts are lower bounds",
            plural(lost as usize, "event")
        ),
        "repeat with less load from other programs",
    ))
}

/// Entries that did not fit into the probes' maps, and the numbers that become unreliable as a result.
pub fn no_room(full: &[(Full, u64)]) -> Vec<Warning> {
    let warning = |(what, n): &(Full, u64)| {
        let (of, code, text, advice) = match what {
            Full::Threads => (
                "thread state",
                "threads_lost",
                "some completions are counted under the wrong delivery path (slept counts as inline); counts by operation are unaffected",
                "trace fewer threads at once",
            ),
            Full::Counts => (
                "event",
                "counts_lost",
                "completions, requests and delivery paths are lower bounds",
                "trace fewer rings at once",
            ),
            Full::Calls => (
                "call",
                "calls_lost",
                "requests, results and latencies of native and POSIX AIO are lower bounds; io_uring's counts are unaffected",
                "trace fewer AIO requests at once",
            ),
            Full::Children => (
                "process",
                "children_lost",
                "their work is not counted, and all counts are lower bounds",
                "trace only one process (-p), or fewer at a time",
            ),
            Full::Errnos => (
                "error",
                "errnos_lost",
                "their errno is unknown; the number of errors is exact",
                "the opcodes' `errors` include all of them",
            ),
            Full::Interrupts => (
                "interrupt",
                "interrupts_lost",
                "interrupts and mode switches are lower bounds; completions are unaffected",
                "/proc/interrupts counts all of them",
            ),
            Full::Ipis => (
                "interprocessor interrupt",
                "ipis_lost",
                "kicks and interprocessor interrupts are lower bounds; completions are unaffected",
                "trace fewer threads at once",
            ),
            Full::Waits => (
                "wait",
                "waits_lost",
                "the number of waits per thread and ring is a lower bound; completions are unaffected",
                "trace fewer threads at once",
            ),
            Full::Workers => (
                "sample of an io-wq worker",
                "workers_lost",
                "the number of io-wq workers is a lower bound; completions are unaffected",
                "trace fewer processes at once",
            ),
        };
        let things = match (*n, of) {
            (1, "process") => "1 process".to_owned(),
            (n, "process") => format!("{n} processes"),
            (1, "sample of an io-wq worker") => "1 sample of an io-wq worker".to_owned(),
            (n, "sample of an io-wq worker") => format!("{n} samples of io-wq workers"),
            (n, of) => plural(n as usize, of),
        };
        Warning::new(code, format!("the probes' maps had no space for {things}: {text}"), advice)
    };
    full.iter().map(warning).collect()
}

/// Requests that were selected for tracing but were not traced.
pub fn followed_lost(of: &Followed, option: &str) -> Option<Warning> {
    (of.no_room + of.ring_buffer_full > 0).then(|| {
        Warning::new(
            "followed_lost",
            format!(
                "of the requests to be traced, {} were dropped because a map was full, and {} because the ring buffer was full. Counts by opcode are unaffected; files and latencies cover the other requests",
                of.no_room, of.ring_buffer_full
            ),
            format!("trace fewer requests: a larger {option}"),
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
        format!("the probes missed events that arrived while their own program was running: {}", each.join(", ")),
        "each program's counts are too low by at most that number; `iotrail check --json` describes each program",
    ))
}

/// Code of the warning that the probes traced something other than the load.
pub const NOT_SEEN: &str = "load_not_seen";

/// Whether the probes observed so few of the load's completions, each of which produces an event, that their counts
/// must come from another load.
pub fn is_another_load(probe: &Probe, completions: u64) -> bool {
    probe.completions_seen.is_some_and(|seen| seen < completions.div_ceil(2))
}

/// Estimated completions in interrupts that the probes missed, assuming as many per interrupt as observed.
fn unseen(m: &Counts<'_>) -> Option<String> {
    let own = || m.interrupts.iter().filter(|i| i.credited.is_some_and(|n| n > 0));
    let credited: u64 = own().filter_map(|i| i.credited).sum();
    let unseen: u64 = own().filter_map(|i| Some(i.proc_count?.saturating_sub(i.count))).sum();
    let seen = m.probe.completions_seen.filter(|_| credited > 0 && unseen > 0)?;
    let about = (unseen as f64 * seen as f64 / credited as f64).round();
    Some(format!(
        "; about {about} ended in {} that the kernel counted but no probe saw",
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
                "the probes saw {seen} of the load's {} completions: delivery paths, kicks, interrupts and switches are unknown",
                m.completions
            ),
            "latency and throughput are measured by the load and are valid; report this with the output of `iotrail check`",
        ));
    }
    Some(Warning::new(
        "untracked",
        format!(
            "{untracked} of {} completions left no event that the probes can use{}: counts are lower bounds",
            m.completions,
            unseen(m).unwrap_or_default()
        ),
        "docs/delivery.md lists the interfaces and conditions",
    ))
}

fn seen_too_many(m: &Counts<'_>) -> Option<Warning> {
    let seen = m.probe.completions_seen.filter(|n| *n > m.completions)?;
    Some(Warning::new(
        "seen_too_many",
        format!(
            "the probes saw {seen} completions, but the load had {}: shares are valid, counts are too high",
            m.completions
        ),
        "another ring of this process was busy; report this",
    ))
}

fn unknown(m: &Counts<'_>) -> Option<Warning> {
    let seen: u64 = m.vehicles.iter().map(|v| v.completions).sum();
    let unknown: u64 = m.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::Unknown).map(|v| v.completions).sum();
    let share = unknown as f64 / seen.max(1) as f64;
    (share >= ACCURACY).then(|| {
        Warning::new(
            "unknown_vehicle",
            format!("the delivery path of {} of completions is unknown", percent(share)),
            "see their details and docs/delivery.md for the conditions (task work in execve or another call outside io_uring, native aio without a \
             completion event); `iotrail check` reports missing probes",
        )
    })
}

/// Interrupts that the kernel counted but the probes missed.
fn interrupts_missed(m: &Counts<'_>) -> Option<Warning> {
    // The counters are not read at the same instant: smaller differences are not misses.
    const EDGES: f64 = 10.0;
    // An IRQ that completed only other programs' I/O does not concern this program. The kernel's own vectors do not
    // affect its numbers either: the probes see interrupts of its threads, and /proc's count is listed separately.
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
            "the probes saw {} of the {proc} interrupts of {} (IRQ {}, CPU {}) in /proc/interrupts{others}",
            worst.count, worst.name, worst.vector, worst.cpu
        ),
        "counts of interrupts and their wake-ups are too low by that share; completions are unaffected",
    ))
}

pub const NOTHING_ASYNCHRONOUS: &str = "nothing_asynchronous";

/// For a traced program without asynchronous requests. `syscalls`, `pread_pwrite`: its system calls, and how many of
/// them were pread64 and pwrite64.
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
        format!("no request of io_uring, native aio or POSIX AIO was observed{instead}"),
        "if another process does the I/O, trace that process (-p) or all processes (-a); if the program brings its own glibc, its POSIX AIO is \
         traced only with -p",
    )
}

/// For a traced program whose rings were idle. `rings`: the process and descriptors of each ring.
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
            "{} {are} open ({}); no request was submitted to io_uring, native aio or POSIX AIO in the trace, and none completed",
            plural(rings.len(), "io_uring"),
            list(&named)
        ),
        "requests submitted before the trace are counted when they complete: trace longer (--duration)",
    )
}

/// For native AIO results that no system call returned. `ended`: completions seen; `reaped`: completions with a known
/// result.
pub fn results_unseen(ended: u64, reaped: u64) -> Option<Warning> {
    let unseen = ended.saturating_sub(reaped);
    (unseen as f64 > ACCURACY * ended as f64).then(|| {
        Warning::new(
            "results_unseen",
            format!(
                "no system call reaped {unseen} of {ended} native aio completions: the program reaps them from the ring's memory, or has not reaped \
                 them. Their bytes, errors and latencies are not counted"
            ),
            "reap them with io_getevents(2), which iotrail can trace",
        )
    })
}

/// For `requests` zero-copy receives, whose completions have no tracepoint, and whose function is not probed.
pub fn zero_copy_received(requests: u64) -> Option<Warning> {
    (requests > 0).then(|| {
        Warning::new(
            "zero_copy_received",
            format!(
                "the received data of {} is not counted: the kernel has no tracepoint for it, and its function io_zcrx_queue_cqe cannot be probed",
                plural(requests as usize, "zero-copy receive")
            ),
            "completions and bytes are lower bounds; other requests are unaffected",
        )
    })
}

/// For POSIX AIO: `returned` of `requests` results were returned.
pub fn results_unreturned(requests: u64, returned: u64) -> Option<Warning> {
    let unseen = requests.saturating_sub(returned);
    (unseen as f64 > ACCURACY * requests as f64).then(|| {
        Warning::new(
            "results_unseen",
            format!(
                "{unseen} of {requests} POSIX AIO requests were not returned by aio_return(3): the program only calls aio_error(3) or waits for a \
                 signal, or they did not complete. Their completions, bytes, errors and latencies are not counted"
            ),
            "call aio_return(3): no other event shows their completion",
        )
    })
}

/// For native AIO submissions in progress, or a program's first, while its probe was being attached.
pub fn submissions_unseen(requests: u64) -> Option<Warning> {
    (requests > 0).then(|| {
        Warning::new(
            "submissions_unseen",
            format!(
                "{requests} native aio requests were submitted before their probe was attached: requests are lower bounds, and these completions \
                 have no opcode"
            ),
            "start the program from the trace (--)",
        )
    })
}

/// Lost samples that could bias CPU shares.
pub fn samples_lost(how: &CpuSamples) -> Option<Warning> {
    let expected = how.expected.unwrap_or(how.taken + how.elsewhere + how.lost);
    (how.lost as f64 > 0.05 * expected as f64).then(|| {
        Warning::new(
            "samples_lost",
            format!("{} of {expected} CPU samples were lost: shares cover the other samples", how.lost),
            "a virtual machine on a busy host loses samples, as do long periods with interrupts disabled",
        )
    })
}

#[cfg(test)]
mod tests;
