//! The limits of the answer, each with its reason.

use super::arms::{self, Arm};
use super::measure::Round;
use iotrail_base::error::errno_name;
use iotrail_base::words::{percent, so_many, span};
use iotrail_replay::files::Files;
use iotrail_replay::latencies::Latencies;
use iotrail_replay::program::Program;
use iotrail_schema::replay_record::ReplayLimit;

/// Requests faster than this were most likely served from memory.
const FAST_NS: u64 = 20_000;
/// Shares of fast requests that differ by more are not of the same page cache.
const FAST_APART: f64 = 0.1;
/// A share of the threads' time off the CPU, outside of recorded calls, from which on something else was waited for.
const IDLE: f64 = 0.1;

pub(super) fn of(program: &Program, arms: &[Arm], rounds: &[Round], files: &Files) -> Vec<ReplayLimit> {
    let mut all = Vec::new();
    let mut limit = |code: &str, text: String| all.push(ReplayLimit { code: code.into(), text });
    let o = &program.observed;
    let (d, sums) = (&o.doubts, &o.sums);
    let share = |part: u64, of: u64| if of > 0 { part as f64 / of as f64 } else { 0.0 };
    if d.imported {
        limit("imported", "an iolog has no calls, completions and open flags: the replay cannot be checked against the recorded program, and files are opened without O_DIRECT".into());
    }
    if d.lost_events > 0 {
        limit(
            "lost_events",
            format!(
                "the recording lost {}: its counts are lower bounds, and so are those of the replay",
                so_many(d.lost_events, "event")
            ),
        );
    }
    let left_out = d.other_requests + d.other_files;
    if left_out > 0 {
        limit(
            "left_out",
            format!(
                "{} ({}) are not replayed: they are neither reads, writes nor syncs of files; the program may have waited for them",
                so_many(left_out, "request"),
                percent(share(left_out, left_out + sums.ios))
            ),
        );
    }
    if d.unexplained > 0 {
        limit(
            "unexplained",
            format!(
                "{} are not replayed: their ring or call is not in the recording",
                so_many(d.unexplained, "request")
            ),
        );
    }
    if d.side_calls > 0 {
        limit(
            "side_calls",
            format!(
                "{} of threads without other I/O are not replayed: they are too few to be part of the load",
                so_many(d.side_calls, "synchronous call")
            ),
        );
    }
    if o.is_part {
        limit(
            "part",
            format!("only the first {} of the recording are replayed", so_many(program.requests(), "request")),
        );
    }
    if d.sqpoll_rings > 0 {
        limit("sqpoll", "the recorded rings have SQPOLL, and a replay submits by calls: its counts of calls are those of a ring without SQPOLL".into());
    }
    if d.shared_rings > 0 {
        limit(
            "shared_ring",
            format!(
                "{} used by several threads; in the replay each thread has its own, so their waits for each other are missing",
                match d.shared_rings {
                    1 => "a ring is".into(),
                    n => format!("{n} rings are"),
                }
            ),
        );
    }
    if d.posix_aio {
        limit("posix_aio", "POSIX AIO is replayed as native aio: glibc's helper threads are missing".into());
    }
    if d.skipped_completions > 0 {
        limit(
            "skipped_completions",
            format!(
                "{} asked for no completion; in the replay they have one",
                so_many(d.skipped_completions, "request")
            ),
        );
    }
    if d.at_position > 0 {
        limit(
            "file_position",
            format!(
                "{} name no offset: the replay assumes that each file is used from its start",
                so_many(d.at_position, "request")
            ),
        );
    }
    if arms::thinks(program) {
        limit(
            "think_time",
            format!(
                "think time is {} of the threads' time; a variant changes only the rest, and a changed program may compute less: the range is from the arms as recorded to those with no think time",
                percent(share(sums.think_ns, sums.threads_ns))
            ),
        );
    }
    if !d.imported && share(sums.idle_ns, sums.threads_ns) > IDLE {
        limit(
            "waits_elsewhere",
            format!(
                "the threads were off the CPU for {} of their time between calls: waits for locks, other threads, timers or the CPU are not replayed",
                percent(share(sums.idle_ns, sums.threads_ns))
            ),
        );
    }
    all.extend(page_cache(program, &rounds[0]));
    let mut limit = |code: &str, text: String| all.push(ReplayLimit { code: code.into(), text });
    if arms.iter().any(|arm| arm.upper_bound) {
        limit("upper_bound", "whether a request depends on the data of an earlier one is not recorded: more requests in flight are an upper bound".into());
    }
    for (arm, round) in arms.iter().zip(rounds).filter(|(_, round)| round.counts.errors > 0) {
        let errno = round.errno.filter(|e| *e > 0).map_or_else(|| "fewer bytes than recorded".into(), errno_name);
        limit(
            "errors",
            format!(
                "{}: {} of {} failed or were short ({errno}); their times are not those of the recorded ones",
                arm.name,
                so_many(round.counts.errors, "request"),
                round.counts.ios
            ),
        );
    }
    if files.has_copies() {
        limit(
            "copies",
            "files that are written are copies in another place: extents, holes and the device may differ".into(),
        );
    }
    for path in files.replaced.iter().take(3) {
        limit("replaced_file", format!("{} is gone: a file of random bytes takes its place", path.display()));
    }
    if let Some(why) = rounds.iter().find_map(|r| r.untraced.as_ref()) {
        limit("not_traced", format!("kicks, interrupts and punts are not counted: {why}"));
    }
    all
}

/// Buffered requests are as fast as the page cache allows: its state has to be that of the recording.
fn page_cache(program: &Program, unchanged: &Round) -> Option<ReplayLimit> {
    let buffered = program.files.iter().any(|f| f.uses > 0 && f.open_flags & libc::O_DIRECT == 0);
    let mut replayed = Latencies::default();
    unchanged.runs.iter().for_each(|run| replayed.add(&run.in_order));
    let recorded = &program.observed.sums.latencies;
    let (a, b) = recorded.share_below(FAST_NS).zip(replayed.share_below(FAST_NS))?;
    (buffered && !program.observed.doubts.imported && (a - b).abs() > FAST_APART).then(|| ReplayLimit {
        code: "page_cache".into(),
        text: format!(
            "{} of the requests took less than {} in the recording and {} in the replay: the page cache had other pages, and times do not compare",
            percent(a),
            span(FAST_NS as f64),
            percent(b)
        ),
    })
}
