//! Programs without asynchronous I/O: their most expensive calls, and whether each would benefit from io_uring.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::calls::SPIN;
use super::reasons::{Waits, name as reason_name, waits_for};
use super::waits;
use iotrail_base::words::{bytes, count, list, percent, span};
use iotrail_schema::account::{CallRecord, Mode, Reason, ThreadAccount, ThreadRow, ThreadState};
use iotrail_schema::trace_record::TraceRecord;

/// Maximum number of calls named in a text, and their minimum share of the time.
const NAMED: usize = 3;
const LEAST: f64 = 0.02;
/// Minimum share of failed calls for their errno to be named.
const FAILED: f64 = 0.01;
/// Above this number of calls, each below this size in bytes, larger calls would save CPU time.
const MANY: u64 = 1_000;
const PAGE: u64 = 4096;

/// Time of all threads in one system call.
#[derive(Default)]
struct InCall<'t> {
    /// On a CPU in the kernel.
    ran_ns: u64,
    /// Grouped by the awaited object.
    waits_ns: BTreeMap<Waits, u64>,
    /// Grouped by the reason of the wait.
    reasons_ns: BTreeMap<&'t Reason, u64>,
}

impl InCall<'_> {
    fn ns(&self) -> u64 {
        self.ran_ns + self.waits_ns.values().sum::<u64>()
    }

    /// The kind of wait that takes most of the call's time; `None` if the call mostly runs.
    fn mostly(&self) -> Option<Waits> {
        let (waits, ns) = self.waits_ns.iter().max_by_key(|(_, ns)| **ns)?;
        (*ns > self.ran_ns).then_some(*waits)
    }

    /// The reason of its longest waits, if known.
    fn reason(&self) -> Option<&Reason> {
        self.reasons_ns.iter().max_by_key(|(_, ns)| **ns).map(|(reason, _)| *reason)
    }
}

/// The program's calls, longest total time first, and the time of all its threads.
fn in_calls(t: &TraceRecord) -> (Vec<(&str, InCall<'_>)>, u64) {
    let mut calls: BTreeMap<&str, InCall<'_>> = BTreeMap::new();
    for row in t.own_threads().flat_map(|thread| &thread.rows) {
        let Some(name) = row.syscall.as_deref() else { continue };
        let of = calls.entry(name).or_default();
        match row.state {
            ThreadState::Running => of.ran_ns += row.ns,
            ThreadState::Blocked => {
                *of.waits_ns.entry(row.reason.as_ref().map_or(Waits::Other, waits_for)).or_default() += row.ns;
                if let Some(reason) = &row.reason {
                    *of.reasons_ns.entry(reason).or_default() += row.ns;
                }
            }
            _ => {}
        }
    }
    let mut calls: Vec<_> = calls.into_iter().collect();
    calls.sort_by_key(|(_, of)| Reverse(of.ns()));
    (calls, t.own_threads().map(|thread| thread.wall_ns).sum())
}

/// The answer for a program without asynchronous requests. `None` if its threads' time is unknown.
pub fn answer(t: &TraceRecord) -> Option<String> {
    let (calls, wall_ns) = in_calls(t);
    let share = |ns: u64| ns as f64 / wall_ns.max(1) as f64;
    t.calls.as_ref().filter(|_| wall_ns > 0)?;
    let one = |(name, of): &(&str, InCall<'_>)| {
        let each = t.call(name).map(|call| {
            let calls = match call.count {
                1 => "1 call".into(),
                n => format!("{} calls, {} each", count(n as f64), span(of.ns() as f64 / n.max(1) as f64)),
            };
            let details: Vec<String> = [moved(call), timed_out(call), failed(call)].into_iter().flatten().collect();
            format!(" ({})", [vec![calls], details].concat().join(", "))
        });
        format!("{} in {}(2){}", percent(share(of.ns())), plain(name), each.unwrap_or_default())
    };
    let mut parts: Vec<String> = calls.iter().filter(|(_, of)| share(of.ns()) >= LEAST).take(NAMED).map(one).collect();
    let rows = || t.own_threads().flat_map(|thread| &thread.rows);
    let sum = |is_meant: fn(&ThreadRow) -> bool| rows().filter(|row| is_meant(row)).map(|row| row.ns).sum::<u64>();
    let undivided = |row: &ThreadRow| row.state == ThreadState::Running && row.mode.is_none();
    let waits = |row: &ThreadRow| matches!(row.state, ThreadState::Runnable | ThreadState::Throttled);
    let others = [
        ("in user mode", sum(|row| row.mode == Some(Mode::User))),
        ("running", sum(undivided)),
        ("waiting for a CPU", sum(waits)),
    ];
    let others = others.iter().map(|(name, ns)| (name, share(*ns))).filter(|(_, x)| *x >= LEAST);
    parts.extend(others.map(|(name, x)| format!("{} {name}", percent(x))));
    let whose = match t.own_threads().count() {
        1 => "thread time".into(),
        n => format!("time of {n} threads"),
    };
    Some(format!("no asynchronous I/O; {whose}: {}", list(&parts)))
}

/// The most frequent errno of failed calls, unless it only means that no data is available yet.
fn failed(call: &CallRecord) -> Option<String> {
    let meant = |(errno, _): &(&String, &u64)| {
        !["EAGAIN", "EINTR", "EINPROGRESS", "ETIMEDOUT", "ECHILD"].contains(&errno.as_str())
    };
    let (errno, n) = call.errors.iter().filter(meant).max_by_key(|(_, n)| **n)?;
    (*n as f64 >= FAILED * call.judged() as f64).then(|| format!("{} with {errno}", count(*n as f64)))
}

/// Mean bytes per call, if at least a page.
fn moved(call: &CallRecord) -> Option<String> {
    let mean = (call.bytes? + call.count / 2) / call.count.max(1);
    (call.count >= MANY && mean > 0 && mean < PAGE).then(|| format!("{} each", bytes(mean)))
}

/// Waits for events that timed out.
fn timed_out(call: &CallRecord) -> Option<String> {
    let n = call.ended?.time_limit;
    let is_sleep = ["nanosleep", "clock_nanosleep"].contains(&call.syscall.as_str());
    (n > 0 && !is_sleep).then(|| format!("{} timed out", count(n as f64)))
}

/// The remedy for a thread's wait, worded to follow the call's name. `None` if only the reason is known.
fn instead(call: &str, reason: &Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::RwSemaphore if call.contains("write") => {
            "the lock admits one write, truncate or fallocate of a file at a time, in a ring too. Give each thread its own file, let one thread write, or overwrite \
             preallocated blocks with O_DIRECT, for which the lock is shared"
        }
        Reason::MmapLock => {
            "another thread of the process maps or unmaps memory (mmap(2), munmap(2), mprotect(2)) or handles a page fault. Map memory once and reuse it (malloc: \
             M_MMAP_THRESHOLD, M_TRIM_THRESHOLD), and populate it before its use (MAP_POPULATE)"
        }
        Reason::FilePosition => {
            "use pread(2) and pwrite(2) with an offset, or open the file once per thread, which avoids the lock"
        }
        Reason::Linger => "clear SO_LINGER, or close the socket in another thread",
        Reason::Fifo => "open the FIFO with O_NONBLOCK or O_RDWR",
        Reason::PipeFull => {
            "write from another thread, or enlarge the pipe (F_SETPIPE_SZ): the reader is slower than the writer"
        }
        Reason::FileLock => "release the lock sooner in the thread or process that holds it (`lslocks`)",
        Reason::SocketSpace => {
            "send fewer and larger messages, or let another thread send: the peer reads more slowly than this thread sends. With MSG_DONTWAIT, the call \
             returns EAGAIN instead of waiting"
        }
        _ => return None,
    })
}

/// Threads that wait in one call each, from which one thread should wait for all their descriptors.
const MANY_THREADS: usize = 32;

/// Threads that spend most of their blocked time in this call.
fn waiting_threads(t: &TraceRecord, name: &str) -> usize {
    let blocked = |row: &&ThreadRow| row.state == ThreadState::Blocked && row.syscall.as_deref() == Some(name);
    let is_in_it = |rows: &[ThreadRow]| {
        let most = rows.iter().filter(|row| row.state == ThreadState::Blocked).max_by_key(|row| row.ns);
        most.as_ref().is_some_and(blocked)
    };
    t.own_threads().filter(|thread| is_in_it(&thread.rows)).count()
}

/// Minimum share of its time for which a call blocks the thread of an event loop.
const BLOCKS: f64 = 0.1;

/// A thread that this call blocks, although it also waits for events; and the call in which it does.
fn in_event_loop<'t>(t: &'t TraceRecord, name: &str) -> Option<(u32, &'t str)> {
    let of = |thread: &'t ThreadAccount| {
        let in_it = |row: &&ThreadRow| row.state == ThreadState::Blocked && row.syscall.as_deref() == Some(name);
        let blocked: u64 = thread.rows.iter().filter(in_it).map(|row| row.ns).sum();
        let events = thread.rows.iter().filter_map(|row| row.syscall.as_deref());
        let events =
            events.into_iter().find(|of| SPIN.contains(of) || ["select", "pselect6", "io_uring_enter"].contains(of))?;
        (blocked as f64 >= BLOCKS * thread.wall_ns as f64 && events != name).then_some((blocked, thread.tid, events))
    };
    t.own_threads().filter_map(of).max().map(|(_, tid, events)| (tid, events))
}

/// The remedy for a wait for a peer, if a number shows the cause.
fn for_peer(t: &TraceRecord, name: &str) -> Option<String> {
    let threads = waiting_threads(t, name);
    if threads >= MANY_THREADS && !SPIN.contains(&name) {
        return Some(format!(
            "{threads} threads wait in {}(2): set O_NONBLOCK and wait in epoll_wait(2), or submit the calls to a ring. One thread then waits for all descriptors",
            plain(name)
        ));
    }
    if let Some((tid, events)) = in_event_loop(t, name).filter(|_| !SPIN.contains(&name)) {
        return Some(format!(
            "{}(2) blocks thread {tid}, which also waits for events in {events}(2): its other descriptors wait meanwhile. Set O_NONBLOCK on the \
             descriptor (or MSG_DONTWAIT), and continue at EAGAIN",
            plain(name)
        ));
    }
    if let Some(end) = waits::other_end(t, name) {
        return Some(format!("{}(2) waits for a peer: {end}", plain(name)));
    }
    let ended = t.call(name).filter(|call| call.syscall == "poll" || call.syscall == "ppoll")?.ended?;
    (ended.time_limit > 0 && ended.time_limit * 2 >= ended.completions + ended.time_limit).then(|| {
        format!(
            "{name}(2) waits for a peer, and {} of its {} waits timed out: check whether the peer answers. For getaddrinfo(3), check the name servers in /etc/resolv.conf, and their timeout and attempts options",
            count(ended.time_limit as f64),
            count((ended.completions + ended.time_limit) as f64)
        )
    })
}

/// From this CPU time of one call on, its work depends on the size of the file or process.
const LONG_NS: u64 = 1_000_000;

/// The remedy for a call that runs long.
fn long(t: &TraceRecord, name: &str, ran_ns: u64) -> Option<&'static str> {
    if ran_ns / t.call(name).map_or(10, |call| call.count.max(1)) < LONG_NS {
        return None;
    }
    Some(match name {
        "clone" | "fork" => {
            "fork(2) copies the page tables of the process, and the first write to each page afterwards copies the page. Start programs with posix_spawn(3) or \
             vfork(2), or fork from a process with less memory; huge pages need fewer tables"
        }
        "open" | "openat" | "openat2" => {
            "overlayfs copies a file when it is opened for writing (keep such files on a volume), and O_TRUNC frees the file's blocks; otherwise open it in \
             another thread"
        }
        "unlink" | "unlinkat" | "truncate" | "ftruncate" => {
            "the kernel frees the file's blocks in the call: let another thread do it, or truncate the file in steps"
        }
        _ => return None,
    })
}

/// From this share of running time on, a program is CPU-bound.
const CPU_BOUND: f64 = 0.5;

/// What to do about the most expensive calls, and which of them would benefit from io_uring.
pub fn advice(t: &TraceRecord) -> Option<String> {
    let (calls, wall_ns) = in_calls(t);
    let (mut gain, mut rest, mut peers, mut runs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, of) in calls.iter().filter(|(_, of)| of.ns() as f64 >= LEAST * wall_ns as f64).take(NAMED) {
        let call = format!("{}(2)", plain(name));
        let better = of.mostly().and(of.reason()).and_then(|reason| Some((reason, instead(name, reason)?)));
        if let Some((reason, instead)) = better {
            rest.push(format!("{call} waits for {}: {instead}", reason_name(reason)));
            continue;
        }
        if let Some(remedy) = long(t, name, of.ran_ns).filter(|_| of.mostly().is_none()) {
            let each = t.call(name).map(|c| format!(" for {} each", span(of.ran_ns as f64 / c.count.max(1) as f64)));
            rest.push(format!("{call} runs{}: {remedy}", each.unwrap_or_default()));
            continue;
        }
        match of.mostly() {
            Some(Waits::Storage) => {
                let reason = of.reason().map(reason_name).unwrap_or_default();
                gain.push(format!("{call}, which waits for {reason}"));
            }
            Some(Waits::Peer) => match for_peer(t, name) {
                Some(text) => rest.push(text),
                None => peers.push(call),
            },
            Some(Waits::Other) => rest.push(match of.reason() {
                Some(Reason::Futex | Reason::Lock) => format!("{call} waits for another thread"),
                Some(Reason::Sleep) => match in_event_loop(t, name) {
                    Some((tid, events)) => format!(
                        "{call} sleeps in thread {tid}, which also waits for events in {events}(2): ready descriptors wait meanwhile. Use a timerfd, or \
                         the timeout of {events}(2), instead of the sleep"
                    ),
                    None => format!("the program sleeps on purpose in {call}"),
                },
                // Whether an unknown function waits for I/O is unknown.
                Some(Reason::Function(function)) => format!("{call} waits in the kernel function {function}()"),
                Some(reason) => match in_event_loop(t, name).filter(|_| *name == "read") {
                    Some((tid, events)) => format!(
                        "{call} waits for {} in thread {tid}, which also waits for events in {events}(2): ready descriptors wait meanwhile. Set O_NONBLOCK \
                         (TFD_NONBLOCK, EFD_NONBLOCK, SFD_NONBLOCK), and continue at EAGAIN",
                        reason_name(reason)
                    ),
                    None => format!("{call} waits for {}, not for I/O", reason_name(reason)),
                },
                None => format!("{call} does not wait for I/O"),
            }),
            None => runs.push(call),
        }
    }
    let rows = t.own_threads().flat_map(|thread| &thread.rows).filter(|row| row.state == ThreadState::Running);
    let ran = rows.map(|row| row.ns).sum::<u64>() as f64 / wall_ns.max(1) as f64;
    let mut sentences = Vec::new();
    if gain.is_empty() && ran >= CPU_BOUND {
        sentences.push(format!(
            "find the functions that use the CPU with `perf record -g`: the threads ran for {} of their time",
            percent(ran)
        ));
    }
    if !gain.is_empty() {
        sentences.push(format!(
            "io_uring would help with {}: the thread could continue, or keep several requests in flight",
            list(&gain)
        ));
    }
    sentences.extend(rest);
    let wait = if peers.len() == 1 { "waits" } else { "wait" };
    let peers = (!peers.is_empty())
        .then(|| format!("{} {wait} for a peer: a ring would save system calls, but not the wait", list(&peers)));
    sentences.extend(peers);
    let hardly = if runs.len() == 1 { "hardly waits" } else { "hardly wait" };
    sentences.extend((!runs.is_empty()).then(|| format!("io_uring would not shorten {}, which {hardly}", list(&runs))));
    if sentences.is_empty() && wall_ns > 0 {
        sentences.push("io_uring would not help much".to_owned());
    }
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

fn plain(name: &str) -> &str {
    name.trim_end_matches("64")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::account::{Account, WaitEnds};
    use iotrail_testing::trace;

    fn traced(rows: &[(ThreadState, Option<&str>, Option<Reason>, u64)]) -> TraceRecord {
        let thread = trace::thread(7, rows);
        let account = Some(Account { threads: vec![thread], more_threads: 0, requests: None, iowait: None });
        let read = CallRecord { syscall: "pread64".into(), count: 1000, ..CallRecord::default() };
        TraceRecord { account, calls: Some(vec![read]), ..trace::clean() }
    }

    #[test]
    fn only_calls_that_wait_for_storage_benefit_from_io_uring() {
        let t = traced(&[
            (ThreadState::Blocked, Some("pread64"), Some(Reason::DirectIo), 500_000_000),
            (ThreadState::Blocked, Some("recvfrom"), Some(Reason::SocketData), 200_000_000),
            (ThreadState::Running, Some("write"), None, 100_000_000),
            (ThreadState::Running, None, None, 200_000_000),
        ]);
        assert_eq!(
            answer(&t).unwrap(),
            "no asynchronous I/O; thread time: 50 % in pread(2) (1.00 k calls, 500 µs each), 20 % in recvfrom(2), 10 % in write(2) and \
             20 % in user mode"
        );
        assert_eq!(
            advice(&t).unwrap(),
            "io_uring would help with pread(2), which waits for its own direct I/O: the thread could continue, or keep several requests in flight; \
             recvfrom(2) waits for a peer: a ring would save system calls, but not the wait; io_uring would not shorten \
             write(2), which hardly waits"
        );
        let rows = |state, name, reason, ns| traced(&[(state, Some(name), reason, ns)]);
        let said = |t: &TraceRecord| advice(t).unwrap();
        let fork = rows(ThreadState::Running, "clone", None, 400_000_000);
        assert!(said(&fork).contains("clone(2) runs: fork(2) copies the page tables"), "{}", said(&fork));
        let mut reads = rows(ThreadState::Blocked, "read", Some(Reason::PipeEmpty), 400_000_000);
        assert!(said(&reads).contains("read(2) waits for a peer"));
        let threads = &mut reads.account.as_mut().unwrap().threads;
        *threads = vec![threads[0].clone(); 400];
        assert!(said(&reads).contains("400 threads wait in read(2): set O_NONBLOCK"), "{}", said(&reads));
        let mut poll = rows(ThreadState::Blocked, "poll", Some(Reason::Poll), 400_000_000);
        let ended = Some(WaitEnds { time_limit: 4, completions: 4, ..WaitEnds::default() });
        poll.calls = Some(vec![CallRecord { syscall: "poll".into(), count: 8, ended, ..CallRecord::default() }]);
        assert!(said(&poll).contains("4 of its 8 waits timed out"), "{}", said(&poll));
        let of_loop = traced(&[
            (ThreadState::Blocked, Some("recvfrom"), Some(Reason::SocketData), 400_000_000),
            (ThreadState::Blocked, Some("epoll_wait"), Some(Reason::Epoll), 600_000_000),
        ]);
        assert!(said(&of_loop).contains("recvfrom(2) blocks thread 7, which also waits for events in epoll_wait(2)"));
        let timer = (ThreadState::Blocked, Some("read"), Some(Reason::Timer), 400_000_000);
        let disarmed =
            traced(&[timer.clone(), (ThreadState::Blocked, Some("epoll_wait"), Some(Reason::Epoll), 600_000_000)]);
        assert!(
            said(&disarmed).contains("read(2) waits for a timerfd in thread 7, which also waits for events"),
            "{}",
            said(&disarmed)
        );
        assert!(said(&traced(&[timer])).contains("read(2) waits for a timerfd, not for I/O"));
        let cached = traced(&[(ThreadState::Running, Some("pread64"), None, 900_000_000)]);
        assert_eq!(
            advice(&cached).unwrap(),
            "find the functions that use the CPU with `perf record -g`: the threads ran for 100 % of their time; io_uring would not shorten \
             pread(2), which hardly waits"
        );
    }
}
