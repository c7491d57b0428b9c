//! What the completions themselves said: no room for them, no buffer, an error.

use super::{ENOUGH, From, from};
use crate::delivered::{WORTH_SAYING, has};
use iotrail_base::words::{count, list, percent, plural};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::{OpcodeRecord, RingRecord, TraceRecord};

/// From one in a hundred on it costs; single ones only show that the limit was reached.
const COSTS: f64 = 0.01;

/// What is wrong with a buffer, and told apart (`buffers`).
pub const OF_BUFFERS: &str = "EFAULT";

/// Completions of this opcode that ended with one of these errors.
pub fn errno(o: &OpcodeRecord, names: &[&str]) -> u64 {
    o.errnos.iter().filter(|e| names.contains(&e.errno.as_str())).map(|e| e.count).sum()
}

pub fn cq_overflow(_: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    if r.overflows == 0 {
        return None;
    }
    let share = r.overflows as f64 / r.completions.max(r.overflows) as f64;
    let text = format!(
        "{} completions ({}) found the completion queue of {} entries full: each was kept in memory allocated for it, until the \
         program had made room and entered the kernel for it, and a multishot request ends there",
        count(r.overflows as f64),
        percent(share),
        r.cq_entries
    );
    let remedy = "a completion queue with room for all that can complete between two looks (IORING_SETUP_CQSIZE; by default it \
                  has twice the submission queue's entries, and multishot requests complete more than once), or look more often";
    let evidence = [("overflows", r.overflows as f64), ("share", share), ("cq_entries", f64::from(r.cq_entries))];
    let f = Finding::new("cq_overflow", Severity::warning_if(share >= COSTS), text, remedy, &evidence);
    Some(from(f, From::Completions(r.completions)))
}

/// Requests that take a provided buffer, some before they look whether there is something to put into it.
fn receives(opcode: &str) -> bool {
    opcode.starts_with("recv") || opcode.starts_with("read")
}

/// Provided buffers ran out.
pub fn buffers_exhausted(t: &TraceRecord) -> Option<Finding> {
    let receiving: Vec<&OpcodeRecord> = t.total.opcodes.iter().filter(|o| receives(&o.opcode)).collect();
    let hit: Vec<&&OpcodeRecord> = receiving.iter().filter(|o| errno(o, &["ENOBUFS"]) > 0).collect();
    let ended: u64 = hit.iter().map(|o| errno(o, &["ENOBUFS"])).sum();
    if ended == 0 {
        return None;
    }
    let outcomes: u64 = hit.iter().map(|o| o.outcomes()).sum();
    let share = ended as f64 / outcomes.max(ended) as f64;
    let names = list(&hit.iter().map(|o| o.opcode.clone()).collect::<Vec<_>>());
    let text = format!(
        "{} completions of {names} ({}) ended with ENOBUFS: no provided buffer was left at the attempt (whether data was there \
         is not known); a multishot request ends with it and has to be submitted again",
        count(ended as f64),
        percent(share)
    );
    let remedy = "more or larger buffers in the group than arrive between two looks, and each given back as soon as it is read; \
                  with incremental buffers (IOU_PBUF_RING_INC, Linux 6.12) small messages share one";
    let evidence = [("enobufs", ended as f64), ("share", share)];
    let f = Finding::new("buffers_exhausted", Severity::warning_if(share >= COSTS), text, remedy, &evidence);
    Some(from(f, From::Completions(outcomes)))
}

/// What a program has to expect: nothing there yet, taken back, time is up, the other side has gone.
const ORDINARY: [&str; 8] =
    ["EAGAIN", "EINTR", "ECANCELED", "ETIME", "ETIMEDOUT", "EPIPE", "ECONNRESET", "EINPROGRESS"];

/// What native and POSIX AIO call `pread` and `aio_read` is a read.
fn operation(opcode: &str) -> &str {
    let positioned = opcode.strip_prefix('p').filter(|o| o.starts_with("read") || o.starts_with("write"));
    opcode.strip_prefix("aio_").or(positioned).unwrap_or(opcode)
}

/// Opcodes that move data or make it durable: an open of a file that is not there is an answer, a read that fails is not.
fn moves_data(opcode: &str) -> bool {
    let opcode = operation(opcode);
    ["read", "write", "fsync", "sync_file_range", "send", "recv", "splice", "tee", "uring_cmd", "fallocate"]
        .iter()
        .any(|name| opcode.starts_with(name))
}

/// Failed I/O that no other finding explains.
pub fn errors(t: &TraceRecord) -> Option<Finding> {
    let polls = t.rings.iter().any(|r| has(&r.flags, "iopoll"));
    let explained = |o: &OpcodeRecord, name: &str| {
        name == OF_BUFFERS
            || ORDINARY.contains(&name)
            || (name == "ENOBUFS" && receives(&o.opcode))
            || (name == "EOPNOTSUPP" && polls)
    };
    let mut failed: Vec<(&str, &str, u64)> = Vec::new();
    for o in t.total.opcodes.iter().filter(|o| moves_data(&o.opcode)) {
        let odd = o.errnos.iter().filter(|e| !explained(o, &e.errno));
        failed.extend(odd.map(|e| (o.opcode.as_str(), e.errno.as_str(), e.count)));
    }
    let outcomes: u64 = t.total.opcodes.iter().filter(|o| moves_data(&o.opcode)).map(OpcodeRecord::outcomes).sum();
    let all: u64 = failed.iter().map(|f| f.2).sum();
    let share = all as f64 / outcomes.max(1) as f64;
    if outcomes < ENOUGH || share < COSTS {
        return None;
    }
    failed.sort_by_key(|f| std::cmp::Reverse(f.2));
    let shown: Vec<String> =
        failed.iter().take(3).map(|(op, errno, n)| format!("{} of {op} with {errno}", count(*n as f64))).collect();
    let text = format!("{} of the requests that move data or make it durable failed, {}", percent(share), list(&shown));
    let remedy = "find out what the error means for this operation: a failing request is not the same work, and its times say \
                  nothing about the others";
    let evidence = [("errors", all as f64), ("share", share)];
    let f = Finding::new("errors", Severity::Warning, text, remedy, &evidence);
    Some(from(f, From::Completions(outcomes)))
}

fn of_kind<'a>(t: &'a TraceRecord, kind: &'a str) -> impl Iterator<Item = &'a OpcodeRecord> {
    t.total.opcodes.iter().filter(move |o| operation(&o.opcode).starts_with(kind))
}

/// Why a finding that is not there says nothing: of these requests it is not looked at what it is about.
pub fn unjudged(t: &TraceRecord, code: &str) -> Option<String> {
    // A splice or tee is both.
    let kinds = match code {
        "short_reads" => ["read", "recv", "splice", "tee"],
        "short_writes" => ["write", "send", "splice", "tee"],
        _ => return None,
    };
    let such = || kinds.iter().flat_map(|kind| of_kind(t, kind));
    let of: Vec<&OpcodeRecord> = such().filter(|o| o.short_not_told()).collect();
    let n: u64 = of.iter().map(|o| o.outcomes()).sum();
    let all: u64 = such().map(OpcodeRecord::outcomes).sum();
    let names: Vec<String> = of.iter().map(|o| o.opcode.clone()).collect();
    (n > 0 && n as f64 >= WORTH_SAYING * all as f64).then(|| {
        format!("of {} it is not looked at how much they ask for ({})", plural(n as usize, "request"), list(&names))
    })
}

/// Plain reads, writes and sends of fewer bytes than asked for. One finding for each of them.
pub fn short(t: &TraceRecord) -> Vec<Finding> {
    [
        (
            "read",
            "short_reads",
            Severity::Note,
            "the end of a file, a pipe or a socket gives what it has, and that is no fault; elsewhere the rest has to be read \
             again, so ask for as much as is there",
        ),
        (
            "write",
            "short_writes",
            Severity::Warning,
            "a full device or a limit cuts writes short, and the rest is not written unless the program submits it again",
        ),
        (
            "send",
            "short_writes",
            Severity::Warning,
            "a send that does not wait takes as much as the socket has room for, and the rest is not sent unless the program submits it \
             again; with MSG_WAITALL the kernel sends all of it (Linux 5.19)",
        ),
    ]
    .into_iter()
    .filter_map(|(kind, code, severity, remedy)| {
        let judged = of_kind(t, kind).filter_map(|o| Some((o.short?, o.outcomes())));
        let (short, all) = judged.fold((0, 0), |(short, all), (s, o)| (short + s, all + o));
        let share = short as f64 / all.max(1) as f64;
        if all < ENOUGH || share < WORTH_SAYING {
            return None;
        }
        let text = format!("{} of the {kind}s ({}) gave fewer bytes than asked for", percent(share), count(short as f64));
        let f = Finding::new(code, severity, text, remedy, &[("share", share), ("short", short as f64)]);
        Some(from(f, From::Completions(all)))
    })
    .collect()
}
