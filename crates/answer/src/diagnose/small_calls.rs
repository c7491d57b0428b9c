//! Calls that each do little and can be replaced by fewer, larger calls or by none.

use super::calls::{SPIN, cpu, cpu_share, of_name, sum};
use super::{Check, RULE, Rule};
use iotrail_base::words::{bytes, count, percent};
use iotrail_schema::account::{ThreadAccount, ThreadRow, ThreadState};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::TraceRecord;

/// Minimum number of calls, and maximum CPU time of each in ns, for their number to be a cost.
const MANY: u64 = 10_000;
const SHORT_NS: f64 = 20_000.0;
/// Share of the program's CPU time.
const MUCH: f64 = 0.25;
/// Minimum share of its time with a CPU in which the busiest thread runs.
const RAN: f64 = 0.2;
/// Bytes per call: less than a page.
const SMALL: u64 = 4096;

pub const SMALL_CALLS: Rule = Rule {
    code: "small_calls",
    about: "a program without rings or aio contexts made at least 10,000 calls of one kind. They took at most 20 µs of CPU time \
        each, and at least 25 % of its CPU time in total. The busiest thread ran for at least 20 % of the time in which it did not \
        wait for a CPU. Such calls move at most 4 KiB each (with fewer than one wait per four calls), open or examine a file, wake a \
        thread, or yield",
    checks: &[Check::Trace(small_calls)],
    ..RULE
};

/// Calls of one kind that a larger call, or none, can replace.
struct Small {
    names: &'static [&'static str],
    /// The work of one call, worded to follow `each`; with `moves`, the bytes are printed instead.
    does: &'static str,
    moves: bool,
    /// The calls serve a peer, which may wait for each of them.
    of_sockets: bool,
    remedy: &'static str,
}

#[rustfmt::skip]
const SMALLS: [Small; 11] = [
    Small { names: &["sendto", "sendmsg"], does: "", moves: true, of_sockets: true, remedy:
        "send several datagrams per call with UDP_SEGMENT (the kernel splits one buffer) or sendmmsg(2); gather a stream's sends in one buffer or \
         one iovec" },
    Small { names: &["recvfrom", "recvmsg"], does: "", moves: true, of_sockets: true, remedy:
        "receive more data per call: use UDP_GRO or recvmmsg(2) for datagrams, and a larger buffer for a stream" },
    Small { names: &["write", "writev", "pwrite64", "pwritev", "pwritev2"], does: "", moves: true, of_sockets: true, remedy:
        "gather the data in a buffer, and write the buffer with one call; write to an eventfd only if its reader sleeps, not once per item" },
    Small { names: &["read", "readv", "pread64", "preadv", "preadv2"], does: "", moves: true, of_sockets: true, remedy:
        "read 64 KiB or more per call into a buffer (stdio, BufReader), and parse the items from the buffer" },
    Small { names: &["copy_file_range"], does: "", moves: true, of_sockets: false, remedy:
        "pass the length of the remaining file, and stop at a result of 0 bytes: some file systems, such as procfs, return 0 for a file with data. \
         Read and write such a file instead" },
    Small { names: &["splice", "sendfile"], does: "", moves: true, of_sockets: false, remedy:
        "move more bytes per call: enlarge the pipe of splice(2) with F_SETPIPE_SZ. Above fs.pipe-user-pages-soft a user's new pipes get a single \
         page" },
    Small { names: &["open", "openat", "openat2"], does: "opens a file", moves: false, of_sockets: false, remedy:
        "keep the file open, and use its descriptor for several operations" },
    Small { names: &["stat", "fstat", "newfstatat", "statx"], does: "examines a file", moves: false, of_sockets: false, remedy:
        "wait for changes with inotify(7) instead of polling the files, or keep their results. For the types of the files in a directory, use d_type of readdir(3)" },
    Small { names: &["futex", "futex_wait", "futex_waitv"], does: "wakes a thread or waits for one", moves: false, of_sockets: false, remedy:
        "hand over more work per wake-up, or do short operations, such as reads of cached data, in the thread itself" },
    Small { names: &["lseek"], does: "sets a file position", moves: false, of_sockets: false, remedy:
        "use pread(2) and pwrite(2), which take the offset" },
    Small { names: &["sched_yield"], does: "only yields the CPU", moves: false, of_sockets: false, remedy:
        "wait for the event in a call that sleeps: futex(2), io_getevents(2), epoll_wait(2)" },
];

fn small_calls(t: &TraceRecord) -> Option<Finding> {
    let rows = || t.own_threads().flat_map(|thread| &thread.rows);
    let ran_ns: u64 = rows().filter(|row| row.state == ThreadState::Running).map(|row| row.ns).sum();
    let with_cpu = |thread: &ThreadAccount| thread.wall_ns.saturating_sub(thread.ns_in(ThreadState::Runnable));
    let busiest = t.own_threads().max_by_key(|thread| thread.ns_in(ThreadState::Running))?;
    let is_idle = (busiest.ns_in(ThreadState::Running) as f64) < RAN * with_cpu(busiest) as f64;
    if !t.rings.is_empty() || !t.contexts.is_empty() || is_idle {
        return None;
    }
    let seconds = t.total.elapsed_ns.max(1) as f64 / 1e9;
    // Waits for a peer in the threads that make these calls.
    let waits = |of: &Small| -> u64 {
        let is = |row: &&ThreadRow, meant: &dyn Fn(&str) -> bool| row.syscall.as_deref().is_some_and(meant);
        let makes = |thread: &&ThreadAccount| thread.rows.iter().any(|row| is(&row, &|name| of.names.contains(&name)));
        let of_peer = |name: &str| name.starts_with("re");
        let rows = || t.own_threads().filter(makes).flat_map(|thread| &thread.rows);
        let slept: u64 = rows()
            .filter(|row| row.state == ThreadState::Blocked && is(row, &of_peer))
            .filter_map(|row| row.count)
            .sum();
        let polls = rows().any(|row| is(&row, &|name| SPIN.contains(&name)));
        let ended = of_name(t, &SPIN).filter_map(|c| c.ended).map(|ended| ended.completions).sum::<u64>();
        slept + if polls { ended } else { 0 }
    };
    let one = |of: &'static Small| {
        let n = sum(t, of.names);
        let share = cpu_share(t, of.names)?;
        let moved: Option<u64> = of_name(t, of.names).map(|c| c.bytes).sum();
        let mean = if of.moves { (moved? + n / 2) / n.max(1) } else { 0 };
        // If there is a wait per few calls, the calls may be answers. A wait whose data has already arrived does not
        // sleep.
        let answers = of.of_sockets && 4 * waits(of) >= n;
        let many = n >= MANY && share * ran_ns as f64 <= SHORT_NS * n as f64;
        (many && share >= MUCH && mean <= SMALL && !answers).then_some((of, n, share, mean))
    };
    let (of, n, share, mean) = SMALLS.iter().filter_map(one).max_by(|a, b| a.2.total_cmp(&b.2))?;
    let c = of_name(t, of.names).max_by_key(|c| c.count)?;
    let each = match of.moves {
        true => format!("each moved {} on average", bytes(mean)),
        false => format!("each {}", of.does),
    };
    let text = format!(
        "{} {}(2) calls per second took {} of the program's CPU time: {each}",
        count(n as f64 / seconds),
        c.syscall.trim_end_matches("64"),
        percent(share)
    );
    let evidence = [("calls", n as f64), ("share", share), ("mean_bytes", mean as f64)];
    let f = SMALL_CALLS.finding(Severity::Warning, text, &evidence);
    Some(Finding { remedy: of.remedy.into(), bound: cpu(Some(share)), ..f })
}
