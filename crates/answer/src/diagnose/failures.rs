//! Failed requests, and what their errno means.

use super::results::{OF_BUFFERS, is_storage, writes_to_storage};
use super::{Check, ENOUGH, ENOUGH_EVENTS, Matter, RULE, RestsOn, Rule, errno};
use crate::delivered::has;
use iotrail_base::words::{bytes, count, list, percent, plural, span};
use iotrail_schema::account::Role;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::opcode::{MAYBE_INDEXED, READS, RECV_ZC, SOCKET, SPLICES, STORES, SYNCS, WRITES, is};
use iotrail_schema::trace_record::{FileRecord, OpcodeRecord, RingRecord, TraceRecord};

/// Minimum share of requests at which failures without data loss distort the measurement.
const COSTS: f64 = 0.01;

/// Errors that every program has to expect: no data yet, cancelled, timed out, peer gone.
const ORDINARY: [&str; 8] =
    ["EAGAIN", "EINTR", "ECANCELED", "ETIME", "ETIMEDOUT", "EPIPE", "ECONNRESET", "EINPROGRESS"];

/// Opening a missing file is a normal failure; a failing read is not.
fn moves_data(opcode: &str) -> bool {
    is(opcode, READS | WRITES | STORES)
}

/// Data is lost if such a request fails and the program ignores the failure.
fn keeps_data(opcode: &str) -> bool {
    is(opcode, WRITES | STORES) && !is(opcode, SOCKET | SPLICES | MAYBE_INDEXED)
}

/// The file of most traced requests, if it is on a file system or a device.
fn storage(t: &TraceRecord) -> Option<&FileRecord> {
    t.total.files.iter().find(|f| is_storage(f))
}

/// Whether another finding reports these errors.
fn is_explained(t: &TraceRecord, o: &OpcodeRecord, name: &str) -> bool {
    name == OF_BUFFERS
        || (name == "EACCES" && o.denied > 0)
        || (name == "ENOBUFS" && is(&o.opcode, READS))
        || (name == "EOPNOTSUPP" && t.rings.iter().any(|r| has(&r.flags, "iopoll")))
}

/// The meaning of an errno for an operation, and the remedy.
fn meaning(t: &TraceRecord, opcode: &str, errno: &str) -> (String, String) {
    let of_file = is(opcode, READS | WRITES) && !is(opcode, SOCKET) && t.total.files.iter().any(is_storage);
    let (why, remedy): (&str, &str) = match errno {
        "ENOSPC" | "EDQUOT" => (
            "the file system or the device is full or the quota is exhausted, and the data is not written",
            "free space, or allocate it in advance with fallocate(2); check each result, and report data as written only after you have checked its \
             result",
        ),
        "EINVAL" if of_file => {
            let block = storage(t).and_then(|f| Some((f.logical_block_bytes?, f.queue_device.as_deref()?)));
            let aligned = match block {
                Some((block, device)) => {
                    format!("{block} bytes ({}), the logical block size of {device}", bytes(block))
                }
                None => "the logical block size of the device (often 4096 bytes)".into(),
            };
            return (
                format!(
                    "O_DIRECT requires offset, length and buffer to be aligned to {aligned}"
                ),
                "align them (statx(2) with STATX_DIOALIGN, or BLKSSZGET on a device, reports the required alignment), or open the file without \
                 O_DIRECT"
                    .into(),
            );
        }
        "EAGAIN" if of_file => {
            let on = match storage(t).and_then(|f| f.filesystem.as_deref()) {
                Some(fs) => format!("{fs}: a write that extends the file or allocates blocks"),
                None => "a write that extends a file or allocates blocks".into(),
            };
            return (
                format!("the requests would block, and RWF_NOWAIT forbids blocking ({on}; data or metadata that is not in memory; a full request \
                         queue)"),
                "allocate the file with fallocate(2) and overwrite blocks that were written before; or submit without RWF_NOWAIT, from a thread that \
                 may block or through io_uring, which punts blocking requests to io-wq"
                    .into(),
            );
        }
        "EAGAIN" if is(opcode, SPLICES) => (
            "the pipe or socket is full or empty and non-blocking (O_NONBLOCK), and io_uring does not wait for its readiness in this operation",
            "submit IORING_OP_POLL_ADD for the descriptor (POLLOUT, POLLIN) before you repeat the operation, or clear O_NONBLOCK",
        ),
        "EAGAIN" => (
            "with MSG_DONTWAIT, or with O_NONBLOCK on the descriptor, the request fails at once if no data is available",
            "submit the request without MSG_DONTWAIT on a blocking descriptor, so that the ring waits for readiness; or use one multishot receive or \
             accept for all arrivals",
        ),
        "EINVAL" if is(opcode, READS) && opcode.starts_with("recv") => (
            "a field or a flag of the request is invalid, or a multishot receive (IORING_RECV_MULTISHOT) has no provided buffers",
            "for a multishot receive, set IOSQE_BUFFER_SELECT, a buffer group and a length of 0; or submit one receive per message",
        ),
        "EINVAL" if t.rings.iter().any(|r| has(&r.flags, "iopoll")) => (
            "a ring with IORING_SETUP_IOPOLL accepts only reads, writes and passthrough commands of devices that poll",
            "submit other operations to a second ring without IORING_SETUP_IOPOLL, or make the system call",
        ),
        "EINVAL" => (
            "a field or a flag of the request is invalid, or this kernel does not support the operation or flag",
            "compare the SQE with the operation's manual page, and set unused fields to 0; `iotrail check` lists what this kernel supports",
        ),
        "ENOENT" if opcode.contains("cancel") => (
            "no request matches: a cancel matches requests by user_data, or by descriptor with IORING_ASYNC_CANCEL_FD",
            "pass the request's user_data (not the address of its SQE) to IORING_OP_ASYNC_CANCEL, on the ring to which the request was submitted",
        ),
        "EPIPE" | "ECONNRESET" => (
            "the peer has closed the connection, and the program continues to use it",
            "close the descriptor at the first EPIPE or ECONNRESET, and submit no further requests on it",
        ),
        "ENOTSOCK" => (
            "the descriptor is not a socket: it was closed, and its number was reused",
            "cancel a descriptor's requests before you close it (IORING_OP_ASYNC_CANCEL with IORING_ASYNC_CANCEL_FD), and do not resubmit after a \
             permanent error",
        ),
        "EBADF" if opcode == "close" => (
            "the descriptor or slot is not open, or the request has IOSQE_FIXED_FILE, which a close does not accept",
            "for a slot of the registered files, set file_index without IOSQE_FIXED_FILE (io_uring_prep_close_direct); close each descriptor once",
        ),
        "EBADF" if t.rings.iter().any(registers_files) => (
            "the descriptor is not open, or it is a slot of the registered files and the request lacks IOSQE_FIXED_FILE",
            "set IOSQE_FIXED_FILE on each request whose fd is a slot of the registered files (direct opens and accepts return slots); do not resubmit \
             after this error",
        ),
        "EBADF" => (
            "the descriptor is not open, or not open for this operation",
            "cancel a descriptor's requests before you close it; do not resubmit after this error",
        ),
        "EMFILE" => (
            "the process has reached RLIMIT_NOFILE open descriptors",
            "raise RLIMIT_NOFILE (`ulimit -n`), or close descriptors",
        ),
        "ENFILE" => ("the system has reached fs.file-max open files", "raise fs.file-max"),
        "ENOMEM" if opcode == RECV_ZC => (
            "the area of the zero-copy receive queue had no free page for the data",
            "return pages through the refill queue sooner, and without a device flush it (ZCRX_CTRL_FLUSH_RQ) before the area is used up; or \
             register a larger area, or add one (ZCRX_CTRL_ADD_AREA)",
        ),
        "ENOMEM" | "ENOBUFS" => (
            "the request reached a memory limit: RLIMIT_MEMLOCK (pinned or zero-copy buffers), the cgroup's memory.max, or the socket memory limit",
            "raise RLIMIT_MEMLOCK or memory.max, or keep fewer requests in flight",
        ),
        "EIO" | "EREMOTEIO" | "ENODATA" | "EILSEQ" | "ETIMEDOUT" if of_file => (
            "the device reported an error",
            "check the kernel log (`dmesg`) for the device; after a failed write or fsync, do not assume that a second fsync covers it",
        ),
        "EFBIG" => ("the write exceeds RLIMIT_FSIZE or the file system's limit", "raise RLIMIT_FSIZE (`ulimit -f`)"),
        "EROFS" => (
            "the file system is read-only",
            "check the kernel log: the kernel may have remounted the file system read-only after an error",
        ),
        "ECANCELED" if is(opcode, SYNCS) => (
            "the preceding request in the chain (IOSQE_IO_LINK) failed or was short, so nothing was made durable",
            "check the result of each request in a chain; resubmit the rest of a short write, and then the fsync",
        ),
        "ECANCELED" if expired(t) > 0 => (
            "the timeout before them in the chain (IOSQE_IO_LINK) ended with ETIME, which cancels the rest of the chain",
            "set IORING_TIMEOUT_ETIME_SUCCESS (Linux 5.16) on the timeout; or link it with IOSQE_IO_HARDLINK, which continues the chain after a failure",
        ),
        "ECANCELED" => (
            "the preceding request in the chain (IOSQE_IO_LINK) failed or was short, which cancels the rest of the chain",
            "check the result of each request in a chain, and request no more bytes than are available (a short read at the end of a file ends the \
             chain); or use IOSQE_IO_HARDLINK, which continues after a short or failed request",
        ),
        "EOPNOTSUPP" => (
            "the file, the file system or the driver does not support this operation or flag",
            "use the operation without the flag, or plain reads and writes; `iotrail check` lists what this kernel supports",
        ),
        "EACCES" | "EPERM" => (
            "file permissions, a seccomp filter or a security module deny the operation",
            "check permissions, `grep Seccomp /proc/PID/status` and the audit log",
        ),
        "EISCONN" | "ENOTCONN" | "ECONNREFUSED" | "EHOSTUNREACH" | "ENETUNREACH" => {
            ("the connection is broken or refused", "stop at this error, and reconnect after a delay")
        }
        _ => (
            "the program keeps submitting requests that fail in the same way",
            "look up the error in the operation's manual page: failed requests do not do the work being measured",
        ),
    };
    (why.into(), remedy.into())
}

fn registers_files(r: &RingRecord) -> bool {
    r.register_calls.iter().flatten().any(|call| call.operation.starts_with("files"))
}

/// Timeouts that expired.
fn expired(t: &TraceRecord) -> u64 {
    t.total.opcodes.iter().filter(|o| o.opcode == "timeout").map(|o| errno(o, &["ETIME"])).sum()
}

/// Failures of one opcode with one errno.
struct Failed<'a> {
    opcode: &'a str,
    errno: &'a str,
    count: u64,
    keeps_data: bool,
}

pub const REFUSED_BY_POLICY: Rule = Rule {
    code: "refused_by_policy",
    about: "a request failed with EACCES at submission",
    rests_on: RestsOn::Completions,
    matter: Matter::Data,
    advice: "allow the operation in the policy: IORING_REGISTER_RESTRICTIONS on the ring or, since Linux 7.0, on the task, or the filter of \
             IORING_REGISTER_BPF_FILTER; or make the system call instead of submitting the request",
    checks: &[Check::Trace(refused_by_policy)],
    ..RULE
};

fn refused_by_policy(t: &TraceRecord) -> Option<Finding> {
    let denied: Vec<&OpcodeRecord> = t.total.opcodes.iter().filter(|o| o.denied > 0).collect();
    let all: u64 = denied.iter().map(|o| o.denied).sum();
    let one = |o: &&OpcodeRecord| format!("{} of {}", count(o.denied as f64), o.opcode);
    let text = format!(
        "a policy rejected {} at submission with EACCES ({}): a restriction of the ring or the task, or a BPF filter",
        plural(all as usize, "request"),
        list(&denied.iter().take(3).map(one).collect::<Vec<_>>())
    );
    let outcomes: u64 = denied.iter().map(|o| o.judged()).sum();
    let evidence = [("denied", all as f64)];
    (all > 0).then(|| REFUSED_BY_POLICY.finding_from(outcomes, Severity::Warning, text, &evidence))
}

pub const ERRORS: Rule = Rule {
    code: "errors",
    about: "a request that moves data or makes it durable failed. It is a warning for any write, fsync or fallocate on a file or device. For other requests, it is a warning for at least 1 % of 100 or more. EAGAIN, ETIME and similar errors do not count, nor do errors that \
        another finding reports; ECANCELED counts only for an fsync",
    rests_on: RestsOn::Completions,
    matter: Matter::Data,
    checks: &[Check::Trace(errors)],
    ..RULE
};

fn errors(t: &TraceRecord) -> Option<Finding> {
    let to_storage = writes_to_storage(t);
    let mut failed: Vec<Failed> = Vec::new();
    for o in t.total.opcodes.iter().filter(|o| moves_data(&o.opcode)) {
        let keeps = to_storage && keeps_data(&o.opcode);
        let sync = keeps && is(&o.opcode, SYNCS);
        let is_odd =
            |name: &str| !is_explained(t, o, name) && (!ORDINARY.contains(&name) || sync && name == "ECANCELED");
        let odd = o.errnos.iter().filter(|e| is_odd(&e.errno));
        failed.extend(odd.map(|e| Failed { opcode: &o.opcode, errno: &e.errno, count: e.count, keeps_data: keeps }));
    }
    let outcomes: u64 = t.total.opcodes.iter().filter(|o| moves_data(&o.opcode)).map(OpcodeRecord::judged).sum();
    let all: u64 = failed.iter().map(|f| f.count).sum();
    let share = all as f64 / outcomes.max(1) as f64;
    let costs = failed.iter().any(|f| f.keeps_data) || outcomes >= ENOUGH && share >= COSTS;
    failed.sort_by_key(|f| std::cmp::Reverse((f.keeps_data, f.count)));
    let first = failed.first()?;
    let (why, remedy) = meaning(t, first.opcode, first.errno);
    let one = |f: &Failed| format!("{} of {} with {}", count(f.count as f64), f.opcode, f.errno);
    let text = format!(
        "{} of the requests that move data or make it durable failed ({}), {}: {why}",
        count(all as f64),
        percent(share),
        list(&failed.iter().take(3).map(one).collect::<Vec<_>>())
    );
    let f =
        ERRORS.finding_from(outcomes, Severity::warning_if(costs), text, &[("errors", all as f64), ("share", share)]);
    Some(Finding { remedy, ..f })
}

/// Above this share of an opcode's results, most requests fail.
const MOST: f64 = 0.5;

/// Failures that are the expected result.
fn is_answer(opcode: &str, errno: &str) -> bool {
    let looks_up = ["open", "stat", "unlink", "rename", "mkdir", "getxattr", "fgetxattr"];
    let ends = ["timeout", "link_timeout", "poll", "cancel", "async_cancel", "futex"];
    match errno {
        "ECANCELED" | "EINTR" | "ETIME" | "EINPROGRESS" | "EPIPE" | "ECONNRESET" => true,
        "ENOENT" if opcode.contains("cancel") => true,
        "ENOENT" => looks_up.iter().chain(&ends).any(|name| opcode.starts_with(name)),
        _ => ends.iter().any(|name| opcode.starts_with(name)),
    }
}

/// Failures that are the expected result unless they are the majority: cancels that find nothing, sends to a closed
/// peer, and chains broken by a short request or an expired timeout in a program that cancels nothing.
fn is_odd_if_most(t: &TraceRecord, o: &OpcodeRecord, name: &str, n: u64) -> bool {
    let of = |is_meant: fn(&OpcodeRecord) -> bool| t.total.opcodes.iter().filter(move |o| is_meant(o));
    match name {
        "ENOENT" => {
            let others: u64 = of(|o| !o.opcode.contains("cancel")).map(OpcodeRecord::judged).sum();
            let come_too_late = t.total.open.is_empty() && others >= n;
            o.opcode.contains("cancel") && n as f64 >= NEARLY_ALL * o.judged() as f64 && !come_too_late
        }
        "EPIPE" | "ECONNRESET" => moves_data(&o.opcode),
        "ECANCELED" => {
            let short: u64 = of(|o| moves_data(&o.opcode)).map(|o| o.short.unwrap_or(0)).sum();
            let cancels = of(|o| o.opcode.contains("cancel") || o.opcode == "link_timeout").count();
            let exited = t.rings.iter().any(|r| submitter_exited(t, r).is_some());
            moves_data(&o.opcode) && cancels == 0 && !exited && (short + expired(t)) * 2 >= n
        }
        _ => false,
    }
}

/// A cancel also fails if its request completes first.
const NEARLY_ALL: f64 = 0.9;

/// Requests whose errno is not a normal result of the operation.
pub fn unexpected(t: &TraceRecord) -> u64 {
    let of = |o: &OpcodeRecord| -> u64 {
        let answers: u64 = o.errnos.iter().filter(|e| is_answer(&o.opcode, &e.errno)).map(|e| e.count).sum();
        o.errors.saturating_sub(answers)
    };
    t.total.opcodes.iter().map(of).sum()
}

pub const REQUESTS_FAIL: Rule = Rule {
    code: "requests_fail",
    about: "at least half of the requests of one operation (of at least 100), or all (of at least 20), failed with the same errno, and no other finding reports that errno. \
            ENOENT of cancels counts if at least 90 % of them failed with it, unless all other requests completed. EPIPE and ECONNRESET count for requests that move data; ECANCELED \
            counts for these if short requests or expired timeouts ended their chains and the program cancels no requests",
    rests_on: RestsOn::Completions,
    matter: Matter::Data,
    checks: &[Check::Trace(requests_fail)],
    ..RULE
};

fn requests_fail(t: &TraceRecord) -> Option<Finding> {
    let is_told = |o: &OpcodeRecord, name: &str| moves_data(&o.opcode) && !ORDINARY.contains(&name);
    let of =
        |o: &&OpcodeRecord| -> Vec<(String, u64)> { o.errnos.iter().map(|e| (e.errno.clone(), e.count)).collect() };
    let failed = t.total.opcodes.iter().flat_map(|o| of(&o).into_iter().map(move |(name, n)| (o, name, n)));
    let dominant = failed.filter(|(o, name, n)| {
        let outcomes = o.judged();
        let enough = if *n == outcomes { ENOUGH_EVENTS } else { ENOUGH };
        let is_most = outcomes >= enough && *n as f64 >= MOST * outcomes as f64;
        let is_odd = !is_answer(&o.opcode, name) || is_odd_if_most(t, o, name, *n);
        is_most && !is_told(o, name) && !is_explained(t, o, name) && is_odd
    });
    // Cancels that find nothing lose less than other failures.
    let (o, name, n) = dominant.max_by_key(|(_, name, n)| (name != "ENOENT", *n))?;
    let (why, remedy) = meaning(t, &o.opcode, &name);
    let share = n as f64 / o.judged().max(1) as f64;
    let text =
        format!("{} of the {} requests ({}) failed with {name}: {why}", percent(share), o.opcode, count(n as f64));
    let f = REQUESTS_FAIL.finding_from(o.judged(), Severity::Warning, text, &[("share", share), ("failed", n as f64)]);
    Some(Finding { remedy, ..f })
}

pub const LINKED_TIMEOUTS_EXPIRE: Rule = Rule {
    code: "linked_timeouts_expire",
    about: "at least half (and at least 20) of the linked timeouts expired and cancelled their requests",
    rests_on: RestsOn::Completions,
    advice: "set IORING_OP_LINK_TIMEOUT to more time than the peer or the device needs (the timespec is in seconds and nanoseconds): a cancelled \
             request starts from the beginning when you resubmit it",
    checks: &[Check::Trace(linked_timeouts_expire)],
    ..RULE
};

fn linked_timeouts_expire(t: &TraceRecord) -> Option<Finding> {
    let timeouts = t.total.opcodes.iter().find(|o| o.opcode == "link_timeout")?;
    let expired = errno(timeouts, &["ETIME"]);
    let share = expired as f64 / timeouts.judged().max(1) as f64;
    if expired.min(timeouts.judged()) < ENOUGH_EVENTS || share < MOST {
        return None;
    }
    let others = t.total.opcodes.iter().filter(|o| o.opcode != "link_timeout");
    let ended = others.map(|o| (errno(o, &["ECANCELED", "EINTR"]), o)).max_by_key(|(n, _)| *n).filter(|(n, _)| *n > 0);
    let ended = ended.map(|(n, o)| format!(", and {} {} requests failed with ECANCELED", count(n as f64), o.opcode));
    let text = format!(
        "{} of the linked timeouts ({}) expired{}",
        percent(share),
        count(expired as f64),
        ended.unwrap_or_default()
    );
    let evidence = [("share", share), ("expired", expired as f64)];
    Some(LINKED_TIMEOUTS_EXPIRE.finding_from(timeouts.judged(), Severity::Warning, text, &evidence))
}

pub const TIMEOUTS_END_EARLY: Rule = Rule {
    code: "timeouts_end_early",
    about: "at least half (and at least 20) of the timeouts completed with 0, because their completion count was reached before they expired",
    rests_on: RestsOn::Completions,
    advice: "set the completion count of IORING_OP_TIMEOUT (`count` of io_uring_prep_timeout, `off` of the SQE) to 0, so that only time ends the timeout; \
             to limit a wait, pass the timeout to io_uring_enter(2) instead (io_uring_submit_and_wait_timeout)",
    checks: &[Check::Trace(timeouts_end_early)],
    ..RULE
};

fn timeouts_end_early(t: &TraceRecord) -> Option<Finding> {
    let timeouts = t.total.opcodes.iter().find(|o| o.opcode == "timeout")?;
    let early = timeouts.judged().saturating_sub(timeouts.errors);
    let share = early as f64 / timeouts.judged().max(1) as f64;
    if early < ENOUGH_EVENTS || share < MOST {
        return None;
    }
    let mean = timeouts.waits.as_ref().map(|waits| waits.mean_ns).or(timeouts.latency_ns.mean);
    let after = mean.map(|ns| format!(", {} after submission on average", span(ns))).unwrap_or_default();
    let text = format!(
        "{} of the timeouts ({}) ended before they expired{after}: their completion count is not 0, so the completions of other requests end them",
        percent(share),
        count(early as f64)
    );
    let evidence = [("share", share), ("early", early as f64)];
    Some(TIMEOUTS_END_EARLY.finding_from(timeouts.judged(), Severity::Warning, text, &evidence))
}

pub const SUBMITTER_EXITED: Rule = Rule {
    code: "submitter_exited",
    about: "at least 20 requests failed with EFAULT or ECANCELED. Threads that had exited by then had submitted at least 90 % of the ring's requests",
    rests_on: RestsOn::Completions,
    matter: Matter::Data,
    advice: "submit from a thread that lives until its requests have completed, or with IORING_SETUP_SQPOLL: the kernel runs a request's task work \
             in the thread that submitted it",
    checks: &[Check::Ring(submitter_exited)],
    ..RULE
};

/// Share of the process's lifetime: a thread that lived this long did not exit before its requests completed. The main
/// thread exits with its process.
const SHORT_LIFE: f64 = 0.5;

fn submitter_exited(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let failed: u64 =
        r.opcodes.iter().filter(|o| moves_data(&o.opcode)).map(|o| errno(o, &["EFAULT", "ECANCELED"])).sum();
    let account = t.account.as_ref()?;
    let exited = |tid: u32| match account.threads.iter().find(|thread| thread.tid == tid) {
        Some(thread) => {
            let longest =
                account.threads.iter().filter(|other| other.tgid == thread.tgid).map(|other| other.wall_ns).max();
            let is_short = (thread.wall_ns as f64) < SHORT_LIFE * longest.unwrap_or(0) as f64;
            thread.role == Role::Thread && tid != thread.tgid && is_short
        }
        // The threads with the shortest lifetimes are not listed.
        None => account.more_threads > 0 && tid != r.tgid,
    };
    let threads = r.threads.as_ref()?;
    let submitters = || threads.threads.iter().filter(|thread| thread.submitted > 0);
    let all: u64 = submitters().map(|thread| thread.submitted).sum();
    let gone: u64 = submitters().filter(|thread| exited(thread.tid)).map(|thread| thread.submitted).sum();
    if failed < ENOUGH_EVENTS || (gone as f64) < 0.9 * all as f64 {
        return None;
    }
    let n = submitters().filter(|thread| exited(thread.tid)).count() as u64 + threads.more;
    let outcomes: u64 = r.opcodes.iter().map(OpcodeRecord::judged).sum();
    let share = failed as f64 / outcomes.max(1) as f64;
    let text = format!(
        "{} requests ({}) failed with EFAULT or ECANCELED: {} submitted them and exited, and the kernel cannot run their task work without the \
         submitting thread",
        count(failed as f64),
        percent(share),
        plural(n as usize, "thread")
    );
    let evidence = [("failed", failed as f64), ("share", share), ("threads", n as f64)];
    Some(SUBMITTER_EXITED.finding_from(outcomes, Severity::Warning, text, &evidence))
}
