//! Findings from the completions themselves: a full queue, no buffer, an error.

use super::{Check, ENOUGH, Matter, RULE, RestsOn, Rule, errno};
use crate::delivered::WORTH_SAYING;
use iotrail_base::words::{count, list, percent, plural, so_many, span};
use iotrail_schema::file::Kind;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::opcode::{READS, RECV_ZC, SOCKET, SPLICES, WRITES, is};
use iotrail_schema::state::{Unread, UnreadSocket};
use iotrail_schema::trace_record::{BufferGroup, EndedRequest, FileRecord, OpcodeRecord, RingRecord, TraceRecord};

/// Minimum share for the events to cost time; single ones only show that the limit was reached.
const COSTS: f64 = 0.01;

/// Buffer errors, which have their own finding (`buffers`).
pub const OF_BUFFERS: &str = "EFAULT";

pub const CQ_OVERFLOW: Rule = Rule {
    code: "cq_overflow",
    about: "a completion found the completion queue full (a warning for at least 1 %)",
    rests_on: RestsOn::Completions,
    matter: Matter::Data,
    advice: "size the completion queue for all completions that can be posted between two reaps (IORING_SETUP_CQSIZE; the default is twice the SQ \
             size, and a multishot request posts several completions), or reap more often",
    checks: &[Check::Ring(cq_overflow)],
    ..RULE
};

fn cq_overflow(_: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    if r.overflows == 0 {
        return None;
    }
    let completions = r.opcodes.iter().map(|o| o.seen.unwrap_or(o.completions)).sum::<u64>().max(r.overflows);
    let share = r.overflows as f64 / completions.max(1) as f64;
    let text = format!(
        "{} ({}) found the completion queue of {} entries full. The kernel allocates memory for each overflowed completion until the program reaps \
         and calls io_uring_enter, and an overflow ends a multishot request",
        so_many(r.overflows, "completion"),
        percent(share),
        r.cq_entries
    );
    let evidence = [("overflows", r.overflows as f64), ("share", share), ("cq_entries", f64::from(r.cq_entries))];
    Some(CQ_OVERFLOW.finding_from(completions, Severity::warning_if(share >= COSTS), text, &evidence))
}

pub const BUFFERS_EXHAUSTED: Rule = Rule {
    code: "buffers_exhausted",
    about: "a receive or read failed with ENOBUFS (a warning for at least 1 %)",
    rests_on: RestsOn::Completions,
    matter: Matter::Data,
    advice: "provide more or larger buffers than can fill between two reaps, and return each buffer as soon as you have read it; resubmit the \
             receive at once, not from a timer; use incremental buffers (IOU_PBUF_RING_INC, Linux 6.12), so that small messages share a buffer",
    checks: &[Check::Trace(buffers_exhausted)],
    ..RULE
};

const SUBMIT_AGAIN: &str = "submit the receive again after each completion without IORING_CQE_F_MORE";

/// Provided buffers ran out.
fn buffers_exhausted(t: &TraceRecord) -> Option<Finding> {
    let receiving: Vec<&OpcodeRecord> = t.total.opcodes.iter().filter(|o| is(&o.opcode, READS)).collect();
    let hit: Vec<&&OpcodeRecord> = receiving.iter().filter(|o| errno(o, &["ENOBUFS"]) > 0).collect();
    let ended: u64 = hit.iter().map(|o| errno(o, &["ENOBUFS"])).sum();
    if ended == 0 {
        return None;
    }
    let outcomes: u64 = hit.iter().map(|o| o.judged()).sum();
    let share = ended as f64 / outcomes.max(ended) as f64;
    let names = list(&hit.iter().map(|o| o.opcode.clone()).collect::<Vec<_>>());
    let timeouts = t.total.opcodes.iter().filter(|o| o.opcode == "timeout");
    let expired: u64 = timeouts.map(|o| errno(o, &["ETIME"])).sum();
    let groups = || t.rings.iter().flat_map(|r| r.buffers.iter().flatten());
    let (rearmed, unarmed_ns): (u64, u64) = groups().fold((0, 0), |(n, ns), b| (n + b.rearmed, ns + b.unarmed_ns));
    let mut evidence = vec![("enobufs", ended as f64), ("share", share)];
    evidence.extend((rearmed > 0).then_some(("unarmed_ns", unarmed_ns as f64)));
    // A group that has buffers at times gives some.
    let never = groups().filter(|b| b.taken == 0 && b.enobufs >= ENOUGH).max_by_key(|b| b.enobufs);
    let unread = t.state.as_ref().and_then(|state| state.unread.as_ref());
    let unread = unread.filter(|of| of.because == Unread::NotArmed);
    let stays = unread.is_some_and(|of| of.at_end && of.for_ns >= NOT_AGAIN_NS);
    let not_again = stays || rearmed == 0 && groups().any(|b: &BufferGroup| b.enobufs > 0);
    let (text, remedy) = match never.filter(|b| b.enobufs * 2 >= ended) {
        Some(b) => {
            evidence.push(("group", f64::from(b.group)));
            let text = format!(
                "{} completions of {names} ({}) ended with ENOBUFS, {} of them for the buffer group {}, and no request got a buffer of this group",
                count(ended as f64),
                percent(share),
                count(b.enobufs as f64),
                b.group
            );
            let remedy = format!(
                "register buffers in group {} (IORING_REGISTER_PBUF_RING, or IORING_OP_PROVIDE_BUFFERS), or set buf_group of the SQE to the group \
                 that has them",
                b.group
            );
            (text, Some(remedy))
        }
        None => {
            let after_timeout = expired * 2 >= ended && !not_again;
            let unarmed = match rearmed {
                _ if not_again => {
                    let bytes = |of: &UnreadSocket| {
                        format!(": {} bytes unread for {}", count(of.bytes as f64), span(of.for_ns as f64))
                    };
                    format!(", but it did not{}", unread.map(bytes).unwrap_or_default())
                }
                0 if after_timeout => "; until then no receive is armed".into(),
                0 => String::new(),
                n => {
                    format!("; until then no receive was armed, for {} on average", span(unarmed_ns as f64 / n as f64))
                }
            };
            let text = format!(
                "{} ({}) failed with ENOBUFS. No provided buffer was free, whether or not data was available. ENOBUFS ends a multishot \
                 request, and the program must resubmit the request{}{unarmed}",
                so_many(ended, &format!("{names} completion")),
                percent(share),
                if after_timeout { ", here each time after a timeout" } else { "" }
            );
            (text, not_again.then(|| format!("{SUBMIT_AGAIN}; and {}", BUFFERS_EXHAUSTED.advice)))
        }
    };
    let f = BUFFERS_EXHAUSTED.finding_from(outcomes, Severity::warning_if(share >= COSTS), text, &evidence);
    Some(Finding { remedy: remedy.unwrap_or_else(|| f.remedy.clone()), ..f })
}

pub const MULTISHOT_ENDED: Rule = Rule {
    code: "multishot_ended",
    about: "at least 1 s before the trace ended, a multishot poll, accept or receive ended with a full CQ or the errno of a limit. The program \
            did not cancel it, and submitted no other request for its file",
    matter: Matter::Data,
    checks: &[Check::Ring(multishot_ended)],
    ..RULE
};

/// A program that submits the request again does so sooner.
const NOT_AGAIN_NS: u64 = 1_000_000_000;

/// Errors of a request that would succeed later. `buffers_exhausted` reports ENOBUFS.
const TRANSIENT: [&str; 4] = ["EMFILE", "ENFILE", "ENOMEM", "ECONNABORTED"];

fn multishot_ended(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let is_meant = |e: &&EndedRequest| e.errno.as_deref().is_none_or(|errno| TRANSIENT.contains(&errno));
    let of = r.ended.iter().filter(is_meant).max_by_key(|e| e.for_ns).filter(|e| e.for_ns >= NOT_AGAIN_NS)?;
    // The counters are read after the end.
    let for_ns = of.for_ns.min(t.total.elapsed_ns);
    // In windows, the later submission may not have been seen.
    if t.total.windows.is_some() {
        return None;
    }
    let (why, remedy) = match of.errno.as_deref() {
        Some(errno @ ("EMFILE" | "ENFILE")) => (
            format!(" with {errno}"),
            "; and close descriptors, or raise the limit of open files (`ulimit -n`, fs.file-max)",
        ),
        Some(errno) => (format!(" with {errno}"), ""),
        None if r.overflows > 0 => (
            format!(" because the completion queue of {} entries was full", r.cq_entries),
            "; and enlarge the CQ (IORING_SETUP_CQSIZE), or reap more often",
        ),
        None => (String::new(), ""),
    };
    let text = format!(
        "the multishot {} on {} ended{why}, and the program did not submit it again in the last {} of the trace",
        of.opcode,
        of.descriptor,
        span(for_ns as f64)
    );
    let evidence = [("for_ns", for_ns as f64), ("ended", r.ended.len() as f64)];
    let f = MULTISHOT_ENDED.finding(Severity::Warning, text, &evidence);
    let remedy = format!(
        "check IORING_CQE_F_MORE in each completion of a multishot request, and submit the request again if the flag is not set{remedy}"
    );
    Some(Finding { remedy, ..f })
}

pub const COPIED_ZERO_COPY: Rule = Rule {
    code: "copied_zero_copy",
    about: "at least half of the zero-copy send notifications with IORING_SEND_ZC_REPORT_USAGE (of at least 100) reported a copy. Or the kernel \
        copied the data of at least half of the completions of zero-copy receives (of at least 100)",
    rests_on: RestsOn::Completions,
    advice: "use SEND instead of SEND_ZC on this route: the kernel copies data over loopback, over a device without scatter-gather or checksum \
             offload, or if the data is too small for a page reference. If zero-copy works, submit the next send without waiting for the \
             notification, and keep the buffer until the notification arrives",
    checks: &[Check::Trace(copied_zero_copy), Check::Trace(copied_receives)],
    ..RULE
};

/// The share of copies, their number, and the number that would be known, if they are worth reporting.
fn copies(t: &TraceRecord, of: fn(&&OpcodeRecord) -> bool) -> Option<(f64, u64, u64)> {
    let sum = |n: fn(&OpcodeRecord) -> u64| t.total.opcodes.iter().filter(of).map(n).sum::<u64>();
    let (reporting, copied) = (sum(|o| o.reporting), sum(|o| o.copied));
    let share = copied as f64 / reporting.max(1) as f64;
    (reporting >= ENOUGH && share >= 0.5).then_some((share, copied, reporting))
}

fn copied_zero_copy(t: &TraceRecord) -> Option<Finding> {
    let (share, copied, reporting) = copies(t, |o| o.opcode != RECV_ZC)?;
    let text = format!(
        "{} of zero-copy send notifications ({} of {}) report that the kernel copied the data. Each of these sends posts two completions and saves \
         no copy",
        percent(share),
        count(copied as f64),
        count(reporting as f64)
    );
    let evidence = [("share", share), ("copied", copied as f64), ("reporting", reporting as f64)];
    Some(COPIED_ZERO_COPY.finding_from(reporting, Severity::Warning, text, &evidence))
}

fn copied_receives(t: &TraceRecord) -> Option<Finding> {
    let (share, copied, reporting) = copies(t, |o| o.opcode == RECV_ZC)?;
    let text = format!(
        "the kernel copied the data of {} of zero-copy receive completions ({} of {}). These receives save no copy",
        percent(share),
        count(copied as f64),
        count(reporting as f64)
    );
    let evidence = [("share", share), ("copied", copied as f64), ("reporting", reporting as f64)];
    let remedy = "receive on the queue of the network device that the ring registered (IORING_REGISTER_ZCRX_IFQ), with header split and flow \
                  steering. Return pages through the refill queue before the area is used up. Over loopback, or without a device \
                  (ZCRX_REG_NODEV), use a multishot receive with provided buffers";
    let f = COPIED_ZERO_COPY.finding_from(reporting, Severity::Warning, text, &evidence);
    Some(Finding { remedy: remedy.into(), ..f })
}

/// Why an absent finding proves nothing: the probes do not read these requests' lengths. A splice or tee both reads and
/// writes.
fn sizes_unknown(t: &TraceRecord, traits: u32) -> Option<String> {
    let such = || t.total.opcodes.iter().filter(|o| is(&o.opcode, traits));
    let of: Vec<&OpcodeRecord> = such().filter(|o| o.short_not_told()).collect();
    let n: u64 = of.iter().map(|o| o.outcomes()).sum();
    let all: u64 = such().map(OpcodeRecord::outcomes).sum();
    let names: Vec<String> = of.iter().map(|o| o.opcode.clone()).collect();
    (n > 0 && n as f64 >= WORTH_SAYING * all as f64).then(|| {
        format!(
            "the trace does not record the requested length of {} ({})",
            plural(n as usize, "request"),
            list(&names)
        )
    })
}

pub const SHORT_READS: Rule = Rule {
    code: "short_reads",
    about: "at least 5 % of the reads (of at least 100) returned fewer bytes than requested. Or at least half of the reads or \
        receives, and at least 1,000 per second, returned 0 bytes (a warning). If at least 5 % of the reads moved data and have no \
        `short`, `--fail-on` exits with status 4",
    rests_on: RestsOn::Completions,
    advice: "ignore short reads at the end of a file, or from a pipe or a socket, which are normal; otherwise submit another read for the rest, or \
             request no more bytes than are available",
    checks: &[Check::Trace(|t| empty(t).or_else(|| short(&SHORT_READS, Severity::Note, t, "read", |o| is(o, READS))))],
    unjudged: |t| sizes_unknown(t, READS | SPLICES),
    ..RULE
};

/// At this number of empty reads per second, they take a substantial part of a CPU.
const EMPTY_PER_S: f64 = 1_000.0;

/// Reads that repeatedly hit end of file or a closed peer. A read of at least one byte adds to the byte sum, so at
/// least this many reads were empty.
fn empty(t: &TraceRecord) -> Option<Finding> {
    let none = |o: &OpcodeRecord| o.outcomes().saturating_sub(o.errors + o.silent() + o.bytes);
    let reads = t.total.opcodes.iter().filter(|o| is(&o.opcode, READS) && !is(&o.opcode, SPLICES) && o.more == 0);
    let (o, n) = reads.map(|o| (o, none(o))).max_by_key(|(_, n)| *n)?;
    let share = n as f64 / o.outcomes().max(1) as f64;
    let seconds = super::seconds(t)?;
    let per_s = n as f64 / seconds;
    if n < ENOUGH || share < 0.5 || per_s < EMPTY_PER_S {
        return None;
    }
    let (what, remedy) = match is(&o.opcode, SOCKET) {
        true => (
            "the peer has closed its side, and the program keeps receiving",
            "treat a result of 0 as the end of the stream: close the descriptor, and submit no further receive on it",
        ),
        false => (
            "the program keeps reading at the end of the file, or from a pipe whose writers have closed it",
            "stop at a result of 0, which is the end of the data. To follow a growing file, wait for a change (inotify(7), or a timer) before the \
             next read",
        ),
    };
    let text = format!(
        "{} of the {} requests ({}, {} per second) returned 0 bytes: {what}",
        percent(share),
        o.opcode,
        count(n as f64),
        super::rate(per_s, seconds)
    );
    let f = SHORT_READS.finding_from(o.outcomes(), Severity::Warning, text, &[("share", share), ("empty", n as f64)]);
    let bound = super::calls::cpu(super::calls::cpu_share(t, &["io_uring_enter"]).map(|cpu| cpu * share));
    Some(Finding { remedy: remedy.into(), bound, ..f })
}

pub const OFFSET_IGNORED: Rule = Rule {
    code: "offset_ignored",
    about: "at least one traced write with an offset above 0 went to the end of its file instead, because the file was open with O_APPEND",
    matter: Matter::Data,
    advice: "open the file without O_APPEND if the program chooses the offsets; if it appends, set the offsets to -1, and keep one write in flight if \
             their order matters",
    checks: &[Check::Trace(offset_ignored)],
    ..RULE
};

fn offset_ignored(t: &TraceRecord) -> Option<Finding> {
    let file = t.total.files.iter().max_by_key(|file| file.appended).filter(|file| file.appended > 0)?;
    let writes = file.writes.map_or(0, |writes| writes.followed);
    let text = format!(
        "{} of {} traced writes to {} ({}) went to the end of the file instead of their offset, because the file is open with O_APPEND",
        count(file.appended as f64),
        count(writes as f64),
        file.path.as_deref().unwrap_or("a file"),
        file.descriptors.join(", ")
    );
    let evidence = [("appended", file.appended as f64), ("writes", writes as f64)];
    Some(OFFSET_IGNORED.finding(Severity::Warning, text, &evidence))
}

pub const SHORT_WRITES: Rule = Rule {
    code: "short_writes",
    about: "at least one write to a file or device moved fewer bytes than requested. Or at least 5 % of the other writes or of the sends (of at least 100) did. Writes and sends are separate findings. As for reads, `--fail-on` exits with status 4",
    rests_on: RestsOn::Completions,
    matter: Matter::Data,
    advice: "check for a full device or a limit, which cut writes short, and submit the rest of a short write again: the kernel does not write the \
             rest by itself",
    checks: &[
        Check::Trace(|t| {
            let f = short(&SHORT_WRITES, Severity::Warning, t, "write", |o| is(o, WRITES) && !is(o, SOCKET))?;
            let is_pipe = t.total.files.iter().any(|f| f.kind == Kind::Pipe) && !t.total.files.iter().any(is_storage);
            Some(if is_pipe { Finding { remedy: SHORT_PIPES.into(), ..f } } else { f })
        }),
        Check::Trace(|t| {
            Some(Finding {
                remedy: SHORT_SENDS.into(),
                ..short(&SHORT_WRITES, Severity::Warning, t, "send", |o| is(o, WRITES) && is(o, SOCKET))?
            })
        }),
    ],
    unjudged: |t| sizes_unknown(t, WRITES),
};

const SHORT_PIPES: &str = "keep one write in flight per pipe, and submit the rest of a short write before the next write: a pipe takes only what fits, and the \
                           data of another write in flight comes before the rest";

const SHORT_SENDS: &str = "submit the rest of a short send again, or set MSG_WAITALL, with which the kernel sends all bytes (Linux 5.19): a \
                           non-blocking send accepts only as many bytes as the socket has free space";

/// Plain requests of this kind that transferred fewer bytes than requested.
fn short(rule: &Rule, severity: Severity, t: &TraceRecord, kind: &str, of: fn(&str) -> bool) -> Option<Finding> {
    let judged = t.total.opcodes.iter().filter(|o| of(&o.opcode)).filter_map(|o| Some((o.short?, o.judged())));
    let (short, all) = judged.fold((0, 0), |(short, all), (s, o)| (short + s, all + o));
    let share = short as f64 / all.max(1) as f64;
    // A short write to a file loses data.
    let enough =
        if kind == "write" && writes_to_storage(t) { short > 0 } else { all >= ENOUGH && share >= WORTH_SAYING };
    if !enough {
        return None;
    }
    let text = format!("{} of the {kind}s ({}) moved fewer bytes than requested", percent(share), count(short as f64));
    Some(rule.finding_from(all, severity, text, &[("share", share), ("short", short as f64)]))
}

pub fn is_storage(f: &FileRecord) -> bool {
    matches!(f.kind, Kind::File | Kind::BlockDevice)
}

/// Whether writes went to files or devices, as far as known.
pub fn writes_to_storage(t: &TraceRecord) -> bool {
    let mut written = t.total.files.iter().filter(|f| f.writes.is_some()).peekable();
    written.peek().is_none() || written.any(is_storage)
}
