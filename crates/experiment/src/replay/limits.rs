//! Limitations of the answer, each with its reason.

use super::arms::{self, Arm};
use super::check::Checks;
use super::measure::Round;
use iotrail_base::error::errno_name;
use iotrail_base::words::{percent, so_many, span, three_digits};
use iotrail_replay::files::Files;
use iotrail_replay::observed::Observed;
use iotrail_replay::program::Program;
use iotrail_schema::replay_record::ReplayLimit;
use iotrail_stats::durations::Durations;
use std::path::PathBuf;

/// Faster requests were most likely served from memory.
const FAST_NS: u64 = 20_000;
/// If the shares of fast requests differ by more, the page cache was in a different state.
const FAST_APART: f64 = 0.1;
/// Minimum share of the threads' time off the CPU and outside recorded calls for other waits to be reported.
const IDLE: f64 = 0.1;
/// If the p99 differs by more from the recorded one, the replay does not predict it.
const TAIL_APART: f64 = 0.2;
/// If recording slows the replay down by more, the recorded think time has the tail of the probes.
const MOST_SLOWDOWN: f64 = 1.5;

pub(super) fn of(
    program: &Program,
    arms: &[Arm],
    rounds: &[Round],
    checks: &Checks,
    files: &Files,
    tail_error: Option<f64>,
    slowdown: Option<f64>,
) -> Vec<ReplayLimit> {
    let o = &program.observed;
    let (d, sums) = (&o.doubts, &o.sums);
    let share = |part: u64, of: u64| if of > 0 { part as f64 / of as f64 } else { 0.0 };
    let fixed = |is: bool, text: &str| is.then(|| text.to_owned());
    let counted = |n: u64, noun: &str, rest: &str| (n > 0).then(|| format!("{} {rest}", so_many(n, noun)));
    let idle = share(sums.idle_ns, sums.threads_ns);
    let upper_bound = arms.iter().any(|arm| arm.upper_bound);
    let left_out = |n: u64, why: &str| {
        let share = percent(share(n, d.other_requests + d.other_files + sums.ios));
        (n > 0).then(|| {
            format!("{} ({share}) are not replayed: {why}; the program may have waited for them", so_many(n, "request"))
        })
    };
    let limit = |(code, text): (&str, Option<String>)| Some(ReplayLimit { code: code.into(), text: text? });
    let known: [(&str, Option<String>); 19] = [
        ("imported", fixed(d.imported, "an iolog contains no calls, completions or open flags: the replay cannot be checked against the recorded \
                                        program, and files are opened without O_DIRECT")),
        ("unchecked", checks.failed.as_ref().map(|why| {
            format!("the replay's own error is unknown, because no replay could be recorded in the same way as the program: {why}")
        })),
        ("lost_events", (d.lost_events > 0).then(|| {
            format!("the recording lost {}: its counts are lower bounds, and so are those of the replay", so_many(d.lost_events, "event"))
        })),
        ("left_out", left_out(d.other_requests, "they are neither reads, writes nor syncs")),
        ("left_out_files", left_out(d.other_files, "their files are neither regular files nor block devices")),
        ("unexplained", counted(d.unexplained, "request", "are not replayed: their ring or call is not in the recording")),
        ("side_calls", counted(d.side_calls, "synchronous call", "of threads without other I/O are not replayed: they are too few to be part of the load")),
        ("part", o.is_part.then(|| format!("only the first {} of the recording are replayed", so_many(program.requests(), "request")))),
        ("sqpoll", fixed(d.sqpoll_rings > 0, "the recorded rings use SQPOLL, but a replay submits with system calls: its call counts are those of \
                                              rings without SQPOLL")),
        ("shared_ring", (d.shared_rings > 0).then(|| {
            let rings = if d.shared_rings == 1 { "a ring is".into() } else { format!("{} rings are", d.shared_rings) };
            format!("{rings} used by several threads; in the replay each thread has its own ring, so their waits for each other are missing")
        })),
        ("posix_aio", fixed(d.posix_aio, "POSIX AIO is replayed as native aio: glibc's helper threads are missing")),
        ("skipped_completions", counted(d.skipped_completions, "request", "requested no completion, but have one in the replay")),
        ("file_position", counted(d.at_position, "request", "have no offset: the replay assumes that each file is used from its start")),
        ("think_time", arms::thinks(program).then(|| format!(
            "think time is {} of the threads' time, and a variant changes only the rest. A changed program may compute less, so the range extends from the arms with the recorded think time to the arms without think time",
            percent(share(sums.think_ns, sums.threads_ns))
        ))),
        ("think_per_call", fixed(
            arms.iter().any(|arm| arm.per_call),
            "the recording does not show whether think time is per call or per request, so the range extends over both",
        )),
        ("waits_elsewhere", (!d.imported && idle > IDLE).then(|| format!(
            "the threads were off the CPU for {} of their time between calls: waits for locks, other threads, timers or the CPU keep their recorded length between synchronous calls, and are not replayed between requests",
            percent(idle)
        ))),
        ("tail_latency", tail(tail_error, slowdown)),
        ("page_cache", page_cache(program, &checks.observed)),
        ("upper_bound", fixed(upper_bound, "the recording does not show whether a request depends on an earlier request's data: results with more \
                                            requests in flight are upper bounds")),
    ];
    let failed = arms.iter().zip(rounds).filter(|(_, round)| round.counts.errors > 0).map(|(arm, round)| {
        let errno = round.errno.filter(|e| *e > 0).map_or_else(|| "fewer bytes than recorded".into(), errno_name);
        let requests = so_many(round.counts.errors, "request");
        let of = round.counts.ios;
        let text = format!(
            "{}: {requests} of {of} failed or were short ({errno}); their times do not represent the recorded requests",
            arm.name
        );
        ("errors", Some(text))
    });
    let copies = fixed(
        files.has_copies(),
        "written files are copies in another location: extents, holes and the device may differ",
    );
    let gone = |path: &PathBuf| {
        ("replaced_file", Some(format!("{} no longer exists: a file of random bytes replaces it", path.display())))
    };
    let untraced = rounds.iter().find_map(|round| round.untraced.as_ref());
    let untraced = untraced.map(|why| format!("kicks, interrupts and punts are not counted: {why}"));
    let known = known.into_iter().chain(failed).chain([("copies", copies)]);
    known.chain(files.replaced.iter().take(3).map(gone)).chain([("not_traced", untraced)]).filter_map(limit).collect()
}

/// `error`: of the p99 in the self-check.
fn tail(error: Option<f64>, slowdown: Option<f64>) -> Option<String> {
    let why = match (error.filter(|e| e.abs() > TAIL_APART), slowdown.filter(|slowdown| *slowdown > MOST_SLOWDOWN)) {
        (Some(e), _) => {
            let apart = if e > 0.0 { "above" } else { "below" };
            format!("the p99 of the unchanged replay is {} {apart} the recorded one", percent(e.abs()))
        }
        (None, Some(slowdown)) => {
            format!(
                "recording divided the IOPS by {}, so the recorded p99 is not that of the program",
                three_digits(slowdown)
            )
        }
        (None, None) => return None,
    };
    Some(format!("{why}: the replay does not predict tail latencies"))
}

/// Buffered requests depend on the page cache, whose state has to match that of the recording.
fn page_cache(program: &Program, checks: &[Observed]) -> Option<String> {
    let buffered = program.files.iter().any(|f| f.uses > 0 && f.open_flags & libc::O_DIRECT == 0);
    let mut replayed = Durations::default();
    checks.iter().for_each(|check| replayed.add(&check.sums.latencies));
    let (a, b) = fast(&program.observed.sums.latencies).zip(fast(&replayed))?;
    (buffered && !program.observed.doubts.imported && (a - b).abs() > FAST_APART).then(|| {
        format!(
            "{} of the requests took less than {} in the recording and {} in the replay: the page cache held different pages, so times are not \
             comparable",
            percent(a),
            span(FAST_NS as f64),
            percent(b)
        )
    })
}

fn fast(latencies: &Durations) -> Option<f64> {
    let buckets = latencies.buckets(&[FAST_NS]);
    (buckets.count > 0).then(|| buckets.counts[0] as f64 / buckets.count as f64)
}
