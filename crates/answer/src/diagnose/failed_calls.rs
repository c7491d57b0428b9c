//! System calls that fail: set-up and submission calls, and calls that move data or accept connections.

use super::calls::{ENOUGH_CALLS, EPOLL_WAITS, cpu, cpu_share, of_name};
use super::{Check, Matter, RULE, Rule};
use iotrail_base::words::{count, percent, plural};
use iotrail_schema::account::{Bound, BoundOf, CallRecord, Reason, ThreadRow, ThreadState};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::TraceRecord;

/// Calls that set up objects for later use.
const SETUP: [&str; 16] = [
    "io_uring_setup",
    "io_uring_register",
    "io_setup",
    "epoll_create",
    "epoll_create1",
    "eventfd2",
    "timerfd_create",
    "inotify_init1",
    "inotify_add_watch",
    "pipe2",
    "socket",
    "mlock",
    "bind",
    "listen",
    "clone",
    "clone3",
];

/// Errors by which programs probe for kernel features.
const PROBING: [&str; 5] = ["EINVAL", "EOPNOTSUPP", "ENOTTY", "EEXIST", "EAFNOSUPPORT"];

/// Why the kernel rejects the call, and which limit to raise.
fn refused(syscall: &str, errno: &str) -> (&'static str, &'static str) {
    match (syscall, errno) {
        ("io_uring_setup" | "io_uring_register", "ENOMEM") => (
            "rings and registered buffers count towards the user's RLIMIT_MEMLOCK (rings: before Linux 5.12 and since 6.14, summed over the user's \
             processes) and towards the cgroup's memory.max",
            "raise RLIMIT_MEMLOCK (`ulimit -l`, LimitMEMLOCK= of the service, CAP_IPC_LOCK), or create fewer or smaller rings",
        ),
        ("io_uring_setup" | "io_uring_register" | "io_uring_enter", "EPERM" | "EACCES" | "ENOSYS") => (
            "a seccomp filter (of a container or a service), kernel.io_uring_disabled or a security module denies io_uring to this process",
            "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp filter; check `sysctl kernel.io_uring_disabled` (0: allowed) \
             and `grep Seccomp /proc/PID/status`; or let the program fall back to another interface",
        ),
        ("io_setup", "EAGAIN") => (
            "the events of all aio contexts in the system (fs.aio-nr) would exceed fs.aio-max-nr",
            "raise fs.aio-max-nr (`sysctl fs.aio-nr fs.aio-max-nr` shows its use), or create fewer or smaller contexts",
        ),
        ("inotify_init1", "EMFILE") => (
            "the user has reached fs.inotify.max_user_instances (128 by default, summed over the user's processes and containers), or the process \
             RLIMIT_NOFILE",
            "raise fs.inotify.max_user_instances (sysctl), or add all watches to one instance (inotify_add_watch(2)), and close unused instances",
        ),
        ("inotify_add_watch", "ENOSPC") => (
            "the user has reached fs.inotify.max_user_watches, summed over the user's processes",
            "raise fs.inotify.max_user_watches (sysctl), or watch fewer files and directories; the disk is not full",
        ),
        (_, "EMFILE") => (
            "the process has reached RLIMIT_NOFILE open descriptors",
            "raise RLIMIT_NOFILE (`ulimit -n`, LimitNOFILE= of the service), or close unused descriptors",
        ),
        (_, "ENFILE") => ("the system has reached fs.file-max open files", "raise fs.file-max"),
        ("mlock", "ENOMEM") => ("RLIMIT_MEMLOCK is too small for the locked memory", "raise RLIMIT_MEMLOCK"),
        ("io_uring_setup", "EAGAIN") => (
            "RLIMIT_NPROC or the cgroup's pids.max prevented the creation of the SQPOLL thread",
            "raise RLIMIT_NPROC or pids.max",
        ),
        ("clone" | "clone3", "EAGAIN") => (
            "RLIMIT_NPROC, the cgroup's pids.max or kernel.threads-max prevented the creation of a thread or process",
            "raise RLIMIT_NPROC (`ulimit -u`, LimitNPROC= of the service) or pids.max (TasksMax=), or create fewer threads; check the result of \
             pthread_create(3), because work that was meant for the thread is never done",
        ),
        ("io_uring_setup" | "io_uring_register", "EINVAL") => (
            "this kernel does not support a flag, the flags are mutually exclusive, or a number is out of range",
            "request fewer flags (`iotrail check` lists the flags that this kernel supports), and at most 32768 entries or IORING_SETUP_CLAMP",
        ),
        ("bind", "EADDRINUSE") => {
            ("another socket is using the address", "set SO_REUSEADDR or SO_REUSEPORT, or use another port")
        }
        ("io_uring_register", "EBUSY") => (
            "an object of that kind is already registered",
            "unregister it first, or update it (IORING_REGISTER_FILES_UPDATE, IORING_REGISTER_BUFFERS_UPDATE)",
        ),
        _ => ("the program continues without the object, or exits", "see ERRORS in the call's manual page"),
    }
}

pub const SETUP_FAILED: Rule = Rule {
    code: "setup_failed",
    about: "a call that sets up a ring, a context or a descriptor failed. It is a note if the call succeeded later and the error only shows which features the kernel has",
    matter: Matter::Data,
    checks: &[Check::Each(setup_failed)],
    ..RULE
};

fn setup_failed(t: &TraceRecord) -> Vec<Finding> {
    let mut failed: Vec<(&CallRecord, &str, u64)> =
        of_name(t, &SETUP).flat_map(|c| c.errors.iter().map(move |(errno, n)| (c, errno.as_str(), *n))).collect();
    failed.sort_by_key(|(.., n)| std::cmp::Reverse(*n));
    let one = |(c, errno, n): &(&CallRecord, &str, u64)| {
        let succeeded = c.judged().saturating_sub(c.failed());
        // glibc creates threads with clone(2) if a seccomp filter does not know clone3(2).
        let probes = PROBING.contains(errno) && (succeeded > 0 || c.syscall == "io_uring_register")
            || c.syscall == "clone3" && *errno == "ENOSYS";
        let (why, remedy) = refused(&c.syscall, errno);
        let text = format!(
            "{}(2) failed with {errno} in {} of {} calls: {why}",
            c.syscall,
            count(*n as f64),
            count(c.judged() as f64)
        );
        let evidence = [("failed", *n as f64), ("calls", c.judged() as f64)];
        // No remedy for a call that a library only probes.
        let remedy = if probes { "" } else { remedy };
        Finding { remedy: remedy.into(), ..SETUP_FAILED.finding(Severity::warning_if(!probes), text, &evidence) }
    };
    failed.iter().map(one).collect()
}

/// Errors of submitting calls, which differ from request results.
const OF_SUBMISSION: [(&str, &str, &str); 6] = [
    (
        "EBUSY",
        "completions wait in the overflow list",
        "reap them with IORING_ENTER_GETEVENTS, and enlarge the CQ (IORING_SETUP_CQSIZE)",
    ),
    (
        "EEXIST",
        "a second thread submits to a ring with IORING_SETUP_SINGLE_ISSUER",
        "submit from one thread, or drop the flag",
    ),
    ("EBADFD", "the ring is disabled", "enable it first (IORING_REGISTER_ENABLE_RINGS)"),
    (
        "EAGAIN",
        "the context has no free events, or the kernel is out of memory",
        "reap events before submitting, or create a larger context",
    ),
    ("EINVAL", "a request, a flag or a descriptor is not valid", "check the first request that was not submitted"),
    ("EBADF", "a request's descriptor is not open", "check the first request that was not submitted"),
];

/// The most frequent error of io_uring_enter(2), its meaning and the remedy.
pub(super) fn of_submission(t: &TraceRecord) -> Option<&'static (&'static str, &'static str, &'static str)> {
    let errors = &t.call("io_uring_enter")?.errors;
    let of = |(errno, ..): &&(&str, &str, &str)| errors.get(*errno).copied().unwrap_or(0);
    OF_SUBMISSION.iter().max_by_key(of).filter(|row| of(row) > 0)
}

pub const SUBMISSION_FAILED: Rule = Rule {
    code: "submission_failed",
    about: "at least 1 % (and at least 20) of the io_uring_enter(2) or io_submit(2) calls failed, not counting timeouts and signals",
    matter: Matter::Data,
    checks: &[Check::Each(submission_failed)],
    ..RULE
};

fn submission_failed(t: &TraceRecord) -> Vec<Finding> {
    let one = |c: &CallRecord| {
        let of = |(errno, ..): &&(&str, &str, &str)| c.errors.get(*errno).copied().unwrap_or(0);
        let (errno, why, remedy) = OF_SUBMISSION.iter().max_by_key(of)?;
        let n = c.errors.get(*errno).copied()?;
        let share = n as f64 / c.judged().max(1) as f64;
        if n < super::ENOUGH_EVENTS || share < 0.01 {
            return None;
        }
        let text = format!(
            "{}(2) failed with {errno} in {} of its calls ({}): {why}",
            c.syscall,
            percent(share),
            count(n as f64)
        );
        let f = SUBMISSION_FAILED.finding(Severity::Warning, text, &[("share", share), ("failed", n as f64)]);
        Some(Finding { remedy: (*remedy).into(), ..f })
    };
    of_name(t, &["io_uring_enter", "io_submit"]).filter_map(one).collect()
}

pub const CALLS_FAIL: Rule = Rule {
    code: "calls_fail",
    about: "at least 90 % (and at least 1,000) of the calls of one kind that read, write, accept or connect failed with the same \
        errno. Or at least 1 % (and at least 20) failed with the errno of a limit or of a wrong argument. Or at least 90 % (and at least 20) \
        failed with EINTR. Or at least 10 % (and at least 100) of the accepts \
        failed with EAGAIN in several threads, each after one wait for events",
    checks: &[Check::Trace(|t| calls_fail(t).or_else(|| limited(t)).or_else(|| interrupted(t)).or_else(|| herd(t)))],
    ..RULE
};

/// Reads and writes of any file.
const PLAIN: [&str; 10] =
    ["read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2"];

const TRANSFERS: [&str; 9] =
    ["recvfrom", "recvmsg", "recvmmsg", "sendto", "sendmsg", "sendmmsg", "sendfile", "splice", "copy_file_range"];

const CONNECTS: [&str; 3] = ["accept", "accept4", "connect"];

const SYNCS: [&str; 6] = ["fsync", "fdatasync", "syncfs", "sync_file_range", "msync", "fallocate"];

/// Most frequent failure of reads, writes or syncs with an errno other than EAGAIN and EINTR.
pub fn moving_failed(t: &TraceRecord) -> Option<String> {
    let moves = of_name(t, &PLAIN).chain(of_name(t, &TRANSFERS));
    let failed = moves.chain(of_name(t, &SYNCS)).flat_map(|c| c.errors.iter().map(move |(errno, n)| (c, errno, *n)));
    let meant = failed.filter(|(_, errno, _)| *errno != "EAGAIN" && *errno != "EINTR");
    let (c, errno, n) = meant.max_by_key(|(.., n)| *n)?;
    Some(format!(
        "{} failed with {errno}",
        plural(n as usize, &format!("{}(2) call", c.syscall.trim_end_matches("64")))
    ))
}

/// Below this share of the calls, failures are part of a loop that waits in epoll_wait(2).
const FAIL: f64 = 0.9;

fn calls_fail(t: &TraceRecord) -> Option<Finding> {
    let failed =
        moving(t).chain(of_name(t, &["close"])).flat_map(|c| c.errors.iter().map(move |(errno, n)| (c, errno, *n)));
    // epoll reports a descriptor that the program has closed: see `epoll_spins`.
    let stale = t.calls.iter().flatten().flat_map(|c| &c.woken_by).any(|by| by.is_closed);
    let failed = failed.filter(|(_, errno, _)| !stale || errno.as_str() != "EBADF");
    let habits = failed.filter(|(c, _, n)| *n >= ENOUGH_CALLS && *n as f64 >= FAIL * c.judged() as f64);
    let (c, errno, n) = habits.max_by_key(|(.., n)| *n)?;
    let (why, remedy) = match errno.as_str() {
        errno if limit(&c.syscall, errno).is_some() => limit(&c.syscall, errno)?,
        "EAGAIN" if ["splice", "sendfile"].contains(&c.syscall.as_str()) => (
            "a descriptor is non-blocking (O_NONBLOCK, SPLICE_F_NONBLOCK), and no data was available, or the pipe or socket to write to was full",
            "wait for the descriptor that is not ready: EPOLLIN of the source, or EPOLLOUT of a full pipe or socket. While the destination is full, the \
             source stays readable and ends each epoll_wait(2)",
        ),
        "EAGAIN" if ["write", "pwrite", "send"].iter().any(|name| c.syscall.starts_with(name)) => (
            "the pipe or the socket's send buffer was full, and the descriptor is non-blocking (O_NONBLOCK)",
            "wait for EPOLLOUT (epoll_wait(2), poll(2)) before you write the rest, or submit the operation to a ring, which waits for it",
        ),
        "EAGAIN" => (
            "no data was available, and the descriptor is non-blocking (O_NONBLOCK)",
            "wait for readiness first (epoll_wait(2), poll(2)), or submit the operation to a ring, which waits for it",
        ),
        "EMFILE" | "ENFILE" => refused(&c.syscall, errno),
        _ => ("the program repeats a failing call", "stop at this error, and look up its meaning in the manual page"),
    };
    let text = format!(
        "{} of {} {}(2) calls failed with {errno}: {why}",
        count(n as f64),
        count(c.judged() as f64),
        c.syscall.trim_end_matches("64")
    );
    let bound = cpu(cpu_share(t, &[&c.syscall]));
    let f = CALLS_FAIL.finding(Severity::Warning, text, &[("failed", n as f64), ("calls", c.judged() as f64)]);
    Some(Finding { remedy: remedy.into(), bound, ..f })
}

/// The limit behind an errno, and the remedy.
fn limit(syscall: &str, errno: &str) -> Option<(&'static str, &'static str)> {
    Some(match (syscall, errno) {
        ("connect", "EADDRNOTAVAIL") => (
            "no local port (net.ipv4.ip_local_port_range) is free, because each closed connection keeps its port in TIME_WAIT for 60 s",
            "keep connections open, and reuse them for several requests; or widen net.ipv4.ip_local_port_range",
        ),
        ("sendto" | "sendmsg" | "sendmmsg", "ENOBUFS") => (
            "the socket is out of memory for the notifications of in-flight MSG_ZEROCOPY sends (net.core.optmem_max), or the device queue is full",
            "send small buffers without MSG_ZEROCOPY, keep fewer sends in flight, and read the zero-copy notifications (recvmsg(2) with \
             MSG_ERRQUEUE); or raise net.core.optmem_max",
        ),
        ("connect", "EAGAIN") => (
            "the accept queue of the AF_UNIX socket is full: the server accepts more slowly than clients connect, or its backlog is too small",
            "raise the backlog of the server's listen(2) and net.core.somaxconn, and let the server accept faster; a blocking connect(2) waits instead",
        ),
        ("accept" | "accept4" | "recvmsg" | "open" | "openat" | "openat2", "EMFILE" | "ENFILE") => {
            refused(syscall, errno)
        }
        ("fcntl", "EAGAIN" | "EACCES") => (
            "another process holds a lock on the file (F_SETLK)",
            "hold the lock for a shorter time there (shorter transactions, no sleeps or network calls within them); or wait with F_SETLKW instead of sleeping \
             and trying again",
        ),
        ("flock", "EAGAIN") => (
            "another process, or another descriptor of this process, holds the lock (LOCK_NB)",
            "hold the lock for a shorter time there; or wait without LOCK_NB instead of sleeping and trying again",
        ),
        (_, "EINVAL") if PLAIN.contains(&syscall) => (
            "with O_DIRECT, the buffer's address, the offset and the length must be multiples of the device's logical block size (often 512 or 4096 bytes); \
             otherwise the file does not support the call",
            "align them (posix_memalign(3); statx(2) with STATX_DIOALIGN reports the required alignment), or open the file without O_DIRECT",
        ),
        ("close", "EBADF") => (
            "the program closes descriptor numbers that are not open",
            "close a range of descriptors with close_range(2) (Linux 5.9; with CLOSE_RANGE_CLOEXEC, at the next execve(2)), or list the open ones in \
             /proc/self/fd",
        ),
        ("copy_file_range", "EXDEV") => (
            "source and destination are on different file systems, and the file systems do not support copies between them",
            "at this error, copy with read(2) and write(2) or sendfile(2)",
        ),
        ("sendmsg" | "sendmmsg", "ETOOMANYREFS") => (
            "too many descriptors sent over AF_UNIX sockets (SCM_RIGHTS) have not been received: RLIMIT_NOFILE limits their number per user",
            "receive them (recvmsg(2)) before the program sends more, or raise RLIMIT_NOFILE",
        ),
        (_, "EIO") => ("the device or the file system reported an error", "check the kernel log (`dmesg`)"),
        (_, "EBADF") if syscall != "fcntl" => (
            "the descriptor is not open, or not open for this operation",
            "use no descriptor after close(2), and set it to -1 there: another file may get its number",
        ),
        (_, "EFBIG") => (
            "the file would exceed RLIMIT_FSIZE or the file system's maximum file size",
            "raise RLIMIT_FSIZE (`ulimit -f`)",
        ),
        (_, "ENOSPC") => ("the file system is full", "free space, and check the result of each write"),
        (_, "EDQUOT") => ("the user's disk quota is exhausted", "raise the quota, or free space"),
        _ => return None,
    })
}

fn moving(t: &TraceRecord) -> impl Iterator<Item = &CallRecord> {
    of_name(t, &PLAIN).chain(of_name(t, &TRANSFERS)).chain(of_name(t, &CONNECTS))
}

/// Minimum share of the calls for errors due to a limit to be more than single events.
const LIMITED: f64 = 0.01;

fn limited(t: &TraceRecord) -> Option<Finding> {
    let names = ["fcntl", "flock", "open", "openat", "openat2"];
    let calls = moving(t).chain(of_name(t, &SYNCS)).chain(of_name(t, &names));
    let failed = calls.flat_map(|c| c.errors.iter().map(move |(errno, n)| (c, errno, *n)));
    let of_limits = failed.filter_map(|(c, errno, n)| Some((c, errno, n, limit(&c.syscall, errno)?)));
    let meant = of_limits.filter(|(c, _, n, _)| *n >= super::ENOUGH_EVENTS && *n as f64 >= LIMITED * c.judged() as f64);
    let (c, errno, n, (why, remedy)) = meant.max_by_key(|(_, _, n, _)| *n)?;
    let text = format!(
        "{} of {} {}(2) calls failed with {errno}: {why}",
        count(n as f64),
        count(c.judged() as f64),
        c.syscall.trim_end_matches("64")
    );
    let f = CALLS_FAIL.finding(Severity::Warning, text, &[("failed", n as f64), ("calls", c.judged() as f64)]);
    Some(Finding { remedy: remedy.into(), bound: slept(t).filter(|_| c.syscall.starts_with('f')), ..f })
}

/// Signals end the calls before they are done, and the program repeats them from the beginning.
fn interrupted(t: &TraceRecord) -> Option<Finding> {
    let of = |c: &CallRecord| c.errors.get("EINTR").copied().unwrap_or(0);
    let c = of_name(t, &SYNCS).max_by_key(|c| of(c)).filter(|c| of(c) as f64 >= FAIL * c.judged() as f64)?;
    let n = of(c);
    if n < super::ENOUGH_EVENTS {
        return None;
    }
    let text = format!(
        "{} of {} {}(2) calls failed with EINTR: a signal arrived before the call was done",
        count(n as f64),
        count(c.judged() as f64),
        c.syscall.trim_end_matches("64")
    );
    let remedy = "block the signal in this thread while it makes the call (pthread_sigmask(3)), stop the periodic timer (setitimer(2), timer_create(2)), or \
                  make several smaller calls, which are done before the next signal: the program repeats the interrupted call from its beginning";
    let is_in_it = |row: &ThreadRow| row.syscall.as_ref() == Some(&c.syscall);
    let bound = super::most_of_wall(t, is_in_it).map(|share| Bound { of: BoundOf::ThreadTime, share });
    let f = CALLS_FAIL.finding(Severity::Warning, text, &[("failed", n as f64), ("calls", c.judged() as f64)]);
    Some(Finding { remedy: remedy.into(), bound, ..f })
}

/// The thread that sleeps most: at most this much is until it tries again.
fn slept(t: &TraceRecord) -> Option<Bound> {
    let is_sleep = |row: &ThreadRow| row.state == ThreadState::Blocked && row.reason == Some(Reason::Sleep);
    super::most_of_wall(t, is_sleep).map(|share| Bound { of: BoundOf::ThreadTime, share })
}

/// Minimum share of accepts without a connection; fewer are normal.
const HERD: f64 = 0.1;
const ENOUGH_OF_HERD: u64 = 100;
/// Maximum accepts per wait if every wait is followed by one accept. A program that accepts until EAGAIN makes two or
/// more.
const ONE_ACCEPT: f64 = 1.2;

/// Several threads wait on one listening socket: a connection wakes more than one of them, but only one accepts it.
fn herd(t: &TraceRecord) -> Option<Finding> {
    let c = of_name(t, &["accept", "accept4"]).max_by_key(|c| c.count)?;
    let n = c.errors.get("EAGAIN").copied().unwrap_or(0);
    let share = n as f64 / c.judged().max(1) as f64;
    let waits: u64 = of_name(t, &EPOLL_WAITS).filter_map(|c| c.ended).map(|ended| ended.completions).sum();
    let is_wait = |row: &ThreadRow| row.syscall.as_deref().is_some_and(|name| EPOLL_WAITS.contains(&name));
    let threads = t.own_threads().filter(|thread| thread.rows.iter().any(is_wait)).count();
    if n < ENOUGH_OF_HERD || share < HERD || c.count as f64 > ONE_ACCEPT * waits as f64 || threads < 2 {
        return None;
    }
    let text = format!(
        "{} of {} {}(2) calls failed with EAGAIN: a connection woke several of the {threads} threads that wait on the listening socket, but only one \
         thread accepted the connection",
        count(n as f64),
        count(c.judged() as f64),
        c.syscall
    );
    let f = CALLS_FAIL.finding(Severity::Warning, text, &[("failed", n as f64), ("calls", c.judged() as f64)]);
    let remedy = "add the listening socket to each epoll instance with EPOLLEXCLUSIVE, which limits the wake-ups; or give each thread its own \
                  listening socket with SO_REUSEPORT";
    Some(Finding { remedy: remedy.into(), bound: cpu(cpu_share(t, &[&c.syscall])), ..f })
}
