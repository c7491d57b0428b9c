//! Buffers that concurrent requests share, or that are freed before their requests complete: no request fails, but the
//! data may be corrupt. And buffers without pages, which reads are the first to touch.

use super::calls::{cpu, cpu_share};
use super::{Check, Matter, RULE, Rule, TRACE_ALL, is_sampled};
use iotrail_base::words::{bytes, count, percent, plural, three_digits};
use iotrail_schema::account::CallRecord;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::TraceRecord;

pub const OVERLAPPING_BUFFERS: Rule = Rule {
    code: "overlapping_buffers",
    about: "two in-flight reads of the same process wrote to the same memory. Only unsampled reads without link or drain flags \
        count. It is a note, because a program that discards its data may do so on purpose. If requests were sampled, `--fail-on` exits with status 4",
    matter: Matter::Data,
    advice: "use a separate buffer for each in-flight read, or link the reads (IOSQE_IO_LINK) to order them",
    checks: &[Check::Trace(overlapping)],
    unjudged: partly_traced,
    ..RULE
};

/// The other request of a pair may be untraced.
fn partly_traced(t: &TraceRecord) -> Option<String> {
    is_sampled(t).then(|| format!("only a sample of the requests was traced; {TRACE_ALL}"))
}

/// Concurrent reads into the same bytes. One pair is enough, because the cause is the program and not the load. Only a
/// note, because a program that discards its data may intend it.
fn overlapping(t: &TraceRecord) -> Option<Finding> {
    let memory = t.total.memory.as_ref()?;
    let first = memory.overlap.as_ref()?;
    let [one, other] = &first.user_data;
    // In a sample, concurrent requests may be untraced.
    let least = if is_sampled(t) { "at least " } else { "" };
    let text = format!(
        "{least}{} wrote to the same memory as another in-flight read. The first two ({}, user_data {one} and {other}) share {}, and the order of \
         their writes is undefined",
        plural(memory.overlapping as usize, "read"),
        first.opcode,
        bytes(first.bytes)
    );
    let evidence = [("reads", memory.overlapping as f64), ("bytes", first.bytes as f64)];
    Some(Finding { ring: memory.ring, ..OVERLAPPING_BUFFERS.finding(Severity::Note, text, &evidence) })
}

pub const UNREGISTERED_IN_FLIGHT: Rule = Rule {
    code: "unregistered_in_flight",
    about: "a read_fixed or write_fixed was in flight when the program unregistered its ring's buffers. Before Linux 6.13 this finding cannot occur, \
            because unregistering waits for these requests. If requests were sampled, `--fail-on` exits with status 4",
    matter: Matter::Data,
    advice: "reap every request that uses a registered buffer before you unregister the buffer or free or reuse its memory",
    checks: &[Check::Trace(outlived)],
    unjudged: partly_traced,
    ..RULE
};

/// Registered buffers that were unregistered while requests used them.
fn outlived(t: &TraceRecord) -> Option<Finding> {
    let memory = t.total.memory.as_ref().filter(|memory| memory.outlived > 0)?;
    let first = memory.outlived_user_data.as_deref().unwrap_or("unknown");
    let text = format!(
        "{} {} in flight when the program unregistered the ring's buffers (the first has user_data {first}). The kernel keeps the pages until these \
         requests complete, and reads still write to them",
        plural(memory.outlived as usize, "request"),
        if memory.outlived == 1 { "was" } else { "were" },
    );
    let evidence = [("requests", memory.outlived as f64)];
    Some(Finding { ring: memory.ring, ..UNREGISTERED_IN_FLIGHT.finding(Severity::Warning, text, &evidence) })
}

/// Faults and calls: fewer belong to the program's start.
const ENOUGH_FAULTS: u64 = 10_000;
const PAGE: u64 = 4096;
/// Minimum faults per page that the calls filled.
const MOST: f64 = 0.5;
/// Faults per call: a read of less data faults by chance.
const PER_CALL: f64 = 4.0;
/// Minimum share of the program's CPU time.
const MUCH: f64 = 0.2;

pub const READS_FAULT: Rule = Rule {
    code: "reads_fault",
    about: "system calls that read took at least 10,000 page faults. These were at least four per call, and at least one per two pages filled. These calls also used at least 20 % of the program's CPU time",
    advice: "read into buffers that are kept and reused. malloc(3) maps a large buffer again each time, and free(3) unmaps it (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of \
             mallopt(3)); for memory that is used once, MAP_POPULATE or huge pages (MADV_HUGEPAGE) need fewer faults",
    checks: &[Check::Trace(reads_fault)],
    ..RULE
};

/// Calls that fill new memory: the kernel allocates and clears a page at each fault.
fn reads_fault(t: &TraceRecord) -> Option<Finding> {
    let faults = t.state.as_ref()?.faults;
    let by_user: u64 = t.total.mode_switches.iter().filter(|m| m.cause == "page_fault").map(|m| m.count).sum();
    let in_calls = faults.saturating_sub(by_user);
    let reads = |c: &&CallRecord| c.syscall.contains("read") || c.syscall.starts_with("recv");
    let c = t.calls.iter().flatten().filter(reads).max_by_key(|c| c.bytes)?;
    let pages = c.bytes? / PAGE;
    let per_call = in_calls as f64 / c.count.max(1) as f64;
    let share = cpu_share(t, &[&c.syscall])?;
    if in_calls < ENOUGH_FAULTS || (in_calls as f64) < MOST * pages as f64 || per_call < PER_CALL || share < MUCH {
        return None;
    }
    let text = format!(
        "{} page faults inside system calls, {} per {}(2), which read {} each and took {} of the program's CPU time. The calls fill memory that has no \
         pages yet, and the kernel allocates and clears each page first",
        count(in_calls as f64),
        three_digits(per_call),
        c.syscall.trim_end_matches("64"),
        bytes(c.bytes? / c.count.max(1)),
        percent(share)
    );
    let evidence = [("faults", in_calls as f64), ("per_call", per_call), ("share", share)];
    // The calls run without the faults, too: this is the most.
    let bound = cpu(cpu_share(t, &[&c.syscall, "mmap", "munmap", "madvise"]));
    Some(Finding { bound, ..READS_FAULT.finding(Severity::Warning, text, &evidence) })
}
