//! The traced processes, the duration and the totals.

use crate::terminal::measured::{SPLIT_NS, TOO_SHORT, estimate};
use iotrail_base::grouped::grouped;
use iotrail_base::words::{UNKNOWN, and_descendants, bytes, count, list, percent, plural, signal_name, so_many, span};
use iotrail_schema::opcode;
use iotrail_schema::trace_record::{EndedBy, OpcodeRecord, ProcessRecord, Subject, Total, TraceRecord, Windows};

/// Maximum number of processes named.
const PROCESSES: usize = 6;

pub fn subject(t: &TraceRecord) -> Vec<String> {
    subject_as(t, command)
}

/// The same with shortened paths.
pub fn shortly(t: &TraceRecord) -> Vec<String> {
    subject_as(t, |argv| {
        let mut words: Vec<String> = argv.iter().map(|word| short_path(word)).collect();
        let name = |program: &mut String| program.rsplit('/').next().unwrap_or_default().to_owned();
        words.iter_mut().take(1).for_each(|program| *program = name(program));
        command(&words)
    })
}

/// The words of a command, in quotes where they contain spaces or line ends.
pub fn command(argv: &[String]) -> String {
    let word = |word: &String| match word.is_empty() || word.contains(char::is_whitespace) {
        true => format!("'{}'", word.replace('\n', "\\n")),
        false => word.clone(),
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// `--filename=…/data` for `--filename=/srv/disk/data`.
fn short_path(word: &str) -> String {
    const SHORT: usize = 12;
    let (option, path) = word.split_once('=').map_or(("", word), |(option, path)| (option, path));
    let equals = if option.is_empty() { "" } else { "=" };
    match path.trim_end_matches('/').rsplit_once('/') {
        Some((_, name)) if path.len() > SHORT && !path.contains(char::is_whitespace) => {
            format!("{option}{equals}…/{name}")
        }
        _ => word.to_owned(),
    }
}

fn subject_as(t: &TraceRecord, command: impl Fn(&[String]) -> String) -> Vec<String> {
    let what = match &t.subject {
        Subject::Command { argv, exit_status } => {
            let by = match t.ended_by {
                Some(EndedBy::Duration) => Some("stopped by --duration".to_owned()),
                Some(EndedBy::Interrupt) => Some("interrupted".into()),
                Some(EndedBy::Signal) => exit_status.map(|status| format!("killed by {}", signal_name(status - 128))),
                None => None,
            };
            // 128 + a signal is iotrail's, not the command's.
            let is_own = by.is_none() || exit_status.is_some_and(|status| (1..128).contains(&status));
            let status = exit_status.map_or("exit status unknown".into(), |status| format!("exit status {status}"));
            [Some(command(argv)), by, is_own.then_some(status)].into_iter().flatten().collect()
        }
        Subject::Process { tgid, comm, descendants } => {
            vec![format!("{comm} ({tgid}){}", and_descendants(*descendants))]
        }
        Subject::Processes { tgids, descendants } => {
            let list: Vec<String> = tgids.iter().map(u32::to_string).collect();
            vec![format!("processes {}{}", list.join(", "), and_descendants(*descendants))]
        }
        Subject::All => vec!["all programs".into()],
    };
    let watched = span(t.total.elapsed_ns as f64);
    let time = match t.total.windows {
        None => vec![format!("for {watched}")],
        Some(w) => windows(&watched, &w),
    };
    [what, time].concat()
}

/// The windows and their durations.
fn windows(watched: &str, w: &Windows) -> Vec<String> {
    if let Some((whole, cost)) = w.whole_ns.zip(w.cost) {
        let more = plural(w.opened.saturating_sub(1) as usize, "window");
        let all = w.posted.map(|posted| {
            let least = if w.posted_is_all == Some(false) { "at least " } else { "" };
            format!("{least}{} completions by the rings' own counters", count(posted as f64))
        });
        let items = [
            format!("for {watched}"),
            format!(
                "all of the first {}, then {more} of {}, one per {}, because tracing everything costs {} of its CPU time; counts are \
                 estimates (--exact traces everything)",
                span(whole as f64),
                span(w.open_ns as f64),
                span(w.period_ns as f64),
                percent(cost),
            ),
        ];
        return items.into_iter().chain(all).collect();
    }
    let asked = format!(
        "for {watched} in {} over {} ({} per {}): everything below except the threads' times and the CPU time covers only these",
        plural(w.opened as usize, "window"),
        span(w.span_ns as f64),
        span(w.open_ns as f64),
        span(w.period_ns as f64),
    );
    let parts = w.choosing_ns.zip(w.finishing_ns).map(|(choosing, finishing)| {
        format!("{} to select requests, {} to finish them", span(choosing as f64), span(finishing as f64))
    });
    [Some(asked), parts].into_iter().flatten().collect()
}

pub fn processes(processes: &[ProcessRecord], more: u64) -> Vec<String> {
    let one = |p: &ProcessRecord| match p.here {
        None => format!("{} ({})", p.comm, p.tgid),
        Some(here) => format!("{} ({}, here {here})", p.comm, p.tgid),
    };
    let mut items: Vec<String> = processes.iter().take(PROCESSES).map(one).collect();
    let more = processes.len().saturating_sub(PROCESSES) as u64 + more;
    if more > 0 {
        items.push(format!("and {more} more"));
    }
    items
}

/// Whether counts of rings, operations and delivery paths are extrapolated from windows.
pub fn is_estimated(total: &Total) -> bool {
    total.windows.is_some_and(|w| w.whole_ns.is_some())
}

pub const ESTIMATED: &str = "counts and shares are estimates";

pub fn throughput(t: &TraceRecord) -> Vec<String> {
    let total = &t.total;
    if total.opcodes.is_empty() && total.ios == 0 && !is_estimated(total) {
        return vec!["no asynchronous request".into()];
    }
    // Failures are not extrapolated.
    let least = |n: u64| if is_estimated(total) && n > 0 { "at least " } else { "" };
    let about = |text: String| estimate(text, total.bytes, "bytes", &total.count_intervals);
    // The bytes of requests that succeeded without a completion are unknown.
    let in_part = total.opcodes.iter().any(OpcodeRecord::bytes_unknown);
    let moved = |n: u64, per: &str| match (in_part, n) {
        (false, n) => format!("{}{per}", about(bytes(n))),
        (true, 0) => format!("bytes{per} {UNKNOWN}"),
        (true, n) => format!("more than {}{per}", bytes(n)),
    };
    let of_ios = |number: String| estimate(number, total.ios, "ios", &total.count_intervals);
    let noun = if total.ios == 1 { "completion" } else { "completions" };
    let mut items = vec![
        format!("{} {noun}", of_ios(count(total.ios as f64))),
        format!("{} per second", of_ios(count(total.iops))),
        moved(total.bytes, ""),
        format!(
            "{}{}{}{}",
            least(total.errors),
            plural(total.errors as usize, "error"),
            if is_estimated(total) && total.errors == 0 { " seen" } else { "" },
            errnos(&total.opcodes)
        ),
        short(total, least(total.short_ios)),
    ];
    if total.elapsed_ns > 0 {
        let per_s = total.bytes as f64 / (total.elapsed_ns as f64 / 1e9);
        items.insert(3, moved(per_s.round() as u64, "/s"));
    }
    items
}

/// Maximum number of errnos named.
const ERRNOS: usize = 3;

/// ` (900 EAGAIN, 100 ECANCELED)`: the most frequent errnos.
fn errnos(opcodes: &[OpcodeRecord]) -> String {
    let counts = grouped(opcodes.iter().flat_map(|o| &o.errnos).map(|e| (e.errno.as_str(), e.count))).into_iter();
    let mut sums: Vec<(&str, u64)> = counts.map(|(name, counts)| (name, counts.iter().sum())).collect();
    sums.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let named: Vec<String> = sums.iter().take(ERRNOS).map(|(name, n)| format!("{} {name}", count(*n as f64))).collect();
    let more = if sums.len() > ERRNOS { ", …" } else { "" };
    if named.is_empty() { String::new() } else { format!(" ({}{more})", named.join(", ")) }
}

/// `3 short`, and the opcodes whose short results are unknown.
fn short(total: &Total, least: &str) -> String {
    let unknown = total.opcodes.iter().filter(|o| o.short_not_told());
    let (vectored, mut named): (Vec<String>, Vec<String>) =
        unknown.map(|o| o.opcode.clone()).partition(|name| opcode::is(name, opcode::VECTORED));
    named.sort_unstable();
    if !vectored.is_empty() {
        named.push("vectored requests".into());
    }
    let short = format!("{least}{} short", count(total.short_ios as f64));
    match named.is_empty() {
        true => short,
        false if total.opcodes.iter().all(|o| o.short.is_none()) => format!("short: unknown for {}", list(&named)),
        false => format!("{short} (unknown for {})", list(&named)),
    }
}

/// The completions on which latencies and stages are based.
pub fn followed(total: &Total, overflows: u64) -> Vec<String> {
    let f = &total.followed;
    let some = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", count(n as f64)));
    let mut items = vec![
        f.sampling(),
        so_many(f.completions, "completion"),
        format!("{} with all stages", count(f.with_stages as f64)),
    ];
    items.extend(some(f.came_later.unwrap_or(0), "requests submitted while windows finished: counted, not traced"));
    items.extend(some(f.skipped, "without a completion, as requested"));
    let overflowed = match overflows {
        0 => "without an observed completion",
        _ => {
            "without an observed completion: completions that overflow the queue do not name their request and have no latency"
        }
    };
    items.extend(some(f.no_completion, overflowed));
    let unfinished = if f.is_sample() { "traced requests unfinished at the end" } else { "unfinished at the end" };
    items.extend(some(f.unfinished, unfinished));
    items.extend(some(f.no_room, "dropped: map full"));
    items.extend(some(f.ring_buffer_full, "lost: ring buffer full"));
    items.extend(some(f.unreaped, "without an observed reap"));
    items.extend(some(
        f.shared_user_data,
        "of requests with the same user data or iocb as another open request: ambiguous",
    ));
    items
}

pub fn cpu(total: &Total) -> Vec<String> {
    // /proc covers the entire span, independent of the windows.
    let (wall, user, system) = match total.windows {
        Some(w) => (w.span_ns, w.user_ns, w.system_ns),
        None => (total.elapsed_ns, total.cpu.user_ns, total.cpu.system_ns),
    };
    let of = |name: &str, ns: u64| match wall {
        0 => format!("{name}{}", span(ns as f64)),
        wall => format!("{name}{} ({} of a CPU)", span(ns as f64), percent(ns as f64 / wall as f64)),
    };
    let of_all = total.windows.map(|w| format!("over {}", span(w.span_ns as f64)));
    let items: Vec<String> = match user.zip(system).map(|(user, system)| user + system) {
        Some(all) if all < SPLIT_NS => vec![of("", all), TOO_SHORT.into()],
        _ => [("user ", user), ("system ", system)]
            .map(|(name, ns)| ns.map_or(format!("{name}{UNKNOWN}"), |ns| of(name, ns)))
            .into(),
    };
    items.into_iter().chain(of_all).collect()
}
