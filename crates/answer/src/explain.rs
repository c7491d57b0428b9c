//! A recording's slowest I/Os, and the recording's gaps.

use serde::Serialize;

use super::timeline::{Moment, headline, moments, sentence, waited};
use iotrail_base::error::{Error, Result, errno_name};
use iotrail_base::words::list;
use iotrail_path::slowest::{By, SlowRequest, Slowest};
use iotrail_schema::recorded::{Ending, Entry, Header, Losses};
use iotrail_schema::trace_record::{ProcessRecord, RingRecord};
use iotrail_schema::trail::RequestTrace;

pub const SCHEMA: &str = "iotrail.explain/1";

/// The I/Os to explain.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The maximum number of I/Os.
    pub slowest: usize,
    pub by: By,
    pub ring: Option<u32>,
    pub opcode: Option<String>,
    /// Only failed or short requests.
    pub failed: bool,
}

impl Selection {
    fn wants(&self, t: &RequestTrace) -> bool {
        (!self.failed || has_failed(t))
            && self.ring.is_none_or(|r| t.ring == Some(r))
            && self.opcode.as_ref().is_none_or(|o| *o == t.opcode)
    }
}

/// These types *are* the JSON schema `iotrail.explain/1` (`docs/formats.md`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// `iotrail.explain/1`.
    pub schema: &'static str,
    /// One sentence: the slowest I/O, and its longest wait.
    pub answer: String,
    /// The longest waits of the next slowest I/Os; null: there are none.
    pub also: Option<String>,
    /// The recording's header.
    pub recording: Header,
    /// How the recording stops, with its end.
    pub ending: Ending,
    /// Completions in the recording.
    pub completions: u64,
    /// Completions that match `--ring`, `--opcode` and `--failed`.
    pub selected: u64,
    /// Length of the recording: until the last completion's posting, or until its end.
    pub length_ns: u64,
    /// The last state in the file; null: there is none.
    pub losses: Option<Losses>,
    /// Periods with lost completions.
    pub loss_spans: Vec<LossSpan>,
    /// The I/Os, the slowest first.
    pub ios: Vec<ExplainedIo>,
}

/// Losses between two samples of the counters, adjacent periods with losses merged. Times since recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LossSpan {
    /// Its start, since recording began.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// Dropped: no memory to keep them.
    pub no_room: u64,
    /// Lost in the ring buffer, which was full.
    pub ring_buffer_full: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExplainedIo {
    /// The value for its rank: the latency or the delivery delay.
    pub slowness_ns: u64,
    /// posted − submitted.
    pub latency_ns: u64,
    /// posted − ready; null: not known.
    pub delay_ns: Option<u64>,
    /// A later completion of its request: `latency_ns` is not a latency, and its rank is by delay.
    pub later: bool,
    /// Its submission, since recording began; negative: before.
    pub submitted_after_ns: i64,
    /// The timeline in words.
    pub sentences: Vec<String>,
    /// The timeline.
    pub moments: Vec<Moment>,
    /// The record.
    pub trail: RequestTrace,
}

impl ExplainedIo {
    /// Its rank is by its delivery, not by its latency.
    pub fn is_of_delivery(&self) -> bool {
        self.later || self.slowness_ns != self.latency_ns
    }
}

impl Explained {
    pub fn rings(&self) -> &[RingRecord] {
        self.ending.end().map_or(&[], |e| &e.rings)
    }

    pub fn processes(&self) -> &[ProcessRecord] {
        self.ending.end().map_or(&[], |e| &e.processes)
    }
}

/// Consumes `entries`, then calls `ending`.
///
/// Fails if reading fails (the iterator's own error) or if no I/O in the recording matches (usage error).
pub fn explain<I>(
    header: Header,
    mut entries: I,
    ending: impl FnOnce(&I) -> Ending,
    wanted: &Selection,
) -> Result<Explained>
where
    I: Iterator<Item = Result<Entry>>,
{
    let origin = header.origin.monotonic_ns;
    let mut slowest = Slowest::new(wanted.slowest, wanted.by);
    let mut losses = LossHistory { last: Losses { at_ns: origin, ..Losses::default() }, any: false, spans: vec![] };
    let (mut completions, mut selected, mut last_ns) = (0, 0, origin);
    let (mut rings, mut opcodes) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for entry in entries.by_ref() {
        let (t, later) = match entry? {
            Entry::Losses(now) => {
                losses.note(now, origin);
                continue;
            }
            Entry::Trail(t) => (t, false),
            Entry::Later(t) => (t, true),
        };
        completions += 1;
        last_ns = last_ns.max(t.posted.ns);
        if wanted.wants(&t) {
            selected += 1;
            if later { slowest.offer_later(&t) } else { slowest.offer(&t) }
        }
        rings.extend(t.ring);
        if !opcodes.contains(&t.opcode) {
            opcodes.insert(t.opcode);
        }
    }
    let ending = ending(&entries);
    if let Some(end) = ending.end() {
        losses.note(end.losses, origin);
        last_ns = last_ns.max(end.losses.at_ns);
    }
    if completions > 0 && selected == 0 {
        return Err(nothing_of(wanted, rings, opcodes));
    }
    let block_of =
        |t: &RequestTrace| ending.end().and_then(|end| end.named(t)).and_then(|file| file.logical_block_bytes);
    let explained = |kept: SlowRequest| ExplainedIo {
        slowness_ns: kept.slowness_ns,
        latency_ns: kept.trail.latency_ns(),
        delay_ns: kept.trail.delay_ns(),
        later: kept.later,
        submitted_after_ns: kept.trail.submitted.ns as i64 - origin as i64,
        sentences: alignment(&kept.trail, block_of(&kept.trail))
            .into_iter()
            .chain(headline(&kept.trail, kept.later))
            .collect(),
        moments: moments(&kept.trail),
        trail: kept.trail,
    };
    let ios: Vec<ExplainedIo> = slowest.into_sorted().into_iter().map(explained).collect();
    Ok(Explained {
        schema: SCHEMA,
        answer: answer(&ios, completions, &ending),
        also: also(&ios),
        ending,
        completions,
        selected,
        length_ns: last_ns - origin,
        losses: losses.any.then_some(losses.last),
        loss_spans: losses.spans,
        ios,
        recording: header,
    })
}

fn answer(ios: &[ExplainedIo], completions: u64, ending: &Ending) -> String {
    match (ios.first(), completions) {
        (Some(io), _) => sentence(&io.trail, io.slowness_ns, io.is_of_delivery()),
        (None, 0) if ending.end().is_none() => "this recording ends before its first completion".into(),
        (None, 0) => "this recording has no completion to explain".into(),
        (None, n) => format!("none of the {n} completions in this recording matches the selection"),
    }
}

/// `of the next 4 slowest, 2 waited longest for the same reason and 2 for the device`: the cause in the answer comes first,
/// the others by frequency.
fn also(ios: &[ExplainedIo]) -> Option<String> {
    const NAMED: usize = 3;
    const UNKNOWN: &str = "for an unknown reason";
    let what = |io: &ExplainedIo| waited(&io.trail, io.is_of_delivery()).map_or(UNKNOWN, |w| w.what);
    let (first, next) = ios.split_first()?;
    let same = what(first);
    let mut waits: Vec<(&str, usize)> = vec![("for the same reason", 0)];
    for io in next {
        let what = if what(io) == same { waits[0].0 } else { what(io) };
        match waits.iter_mut().find(|(other, _)| *other == what) {
            Some((_, n)) => *n += 1,
            None => waits.push((what, 1)),
        }
    }
    waits[1..].sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    waits.retain(|(_, n)| *n > 0);
    match (waits.as_slice(), next.len()) {
        ([], _) => None,
        ([(what, _)], 1) => Some(format!("the next slowest waited longest {what}")),
        ([(what, _)], n) => Some(format!("the next {n} slowest waited longest {what}")),
        ([(what, n), rest @ ..], all) => {
            let mut parts = vec![format!("{n} waited longest {what}")];
            parts.extend(rest.iter().take(NAMED - 1).map(|(what, n)| format!("{n} {what}")));
            let others: usize = rest.iter().skip(NAMED - 1).map(|(_, n)| n).sum();
            parts.extend((others > 0).then(|| format!("{others} for other reasons")));
            Some(format!("of the next {all} slowest, {}", list(&parts)))
        }
    }
}

fn nothing_of(
    wanted: &Selection,
    rings: std::collections::BTreeSet<u32>,
    opcodes: std::collections::BTreeSet<String>,
) -> Error {
    let mut asked = Vec::new();
    asked.extend(wanted.failed.then(|| "that failed or was short".to_owned()));
    asked.extend(wanted.ring.map(|r| format!("of ring {r}")));
    asked.extend(wanted.opcode.as_ref().map(|o| format!("with opcode {o}")));
    let list = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    Error::input(
        format!("this recording has no completion {}", asked.join(" ")),
        format!(
            "its rings are: {}; its opcodes: {}",
            list(rings.iter().map(u32::to_string).collect()),
            list(opcodes.into_iter().collect())
        ),
    )
}

fn has_failed(t: &RequestTrace) -> bool {
    t.result < 0 || (t.is_short() && !t.notification)
}

/// Alignment of a rejected read or write compared with the device's blocks. `block`: the logical block size, if known.
fn alignment(t: &RequestTrace, block: Option<u64>) -> Option<String> {
    let (offset, length) = (t.offset?, t.asked_bytes?);
    if errno_name(t.result.saturating_neg()) != "EINVAL" {
        return None;
    }
    let of = |n: u64| 1u64 << n.trailing_zeros().min(63);
    let multiple = |name: &str, n: u64| match n {
        0 => format!("its {name} is 0"),
        _ => format!("its {name} {n} is a multiple of {}", of(n)),
    };
    let mut parts = vec![multiple("offset", offset), multiple("length", length)];
    parts.extend(t.buffer.map(|address| format!("its buffer is aligned to {}", of(address).min(4096))));
    let device = match block {
        Some(bytes) => format!("; direct I/O on this device requires multiples of {bytes}"),
        None => "; direct I/O requires multiples of the device's logical block size".into(),
    };
    Some(format!("Refused: {}{device}.", list(&parts)))
}

struct LossHistory {
    last: Losses,
    any: bool,
    spans: Vec<LossSpan>,
}

impl LossHistory {
    fn note(&mut self, now: Losses, origin: u64) {
        let span = LossSpan {
            from_ns: self.last.at_ns.saturating_sub(origin),
            to_ns: now.at_ns.saturating_sub(origin),
            no_room: now.no_room.saturating_sub(self.last.no_room),
            ring_buffer_full: now.ring_buffer_full.saturating_sub(self.last.ring_buffer_full),
        };
        if span.no_room + span.ring_buffer_full > 0 {
            match self.spans.last_mut() {
                Some(before) if before.to_ns == span.from_ns => {
                    before.to_ns = span.to_ns;
                    before.no_room += span.no_room;
                    before.ring_buffer_full += span.ring_buffer_full;
                }
                _ => self.spans.push(span),
            }
        }
        (self.last, self.any) = (now, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_grouped_into_time_spans() {
        let mut h = LossHistory { last: Losses { at_ns: 100, ..Losses::default() }, any: false, spans: vec![] };
        let at = |at_ns, no_room, ring_buffer_full| Losses {
            at_ns,
            followed: 0,
            no_room,
            ring_buffer_full,
            no_completion: 0,
        };
        for l in [at(200, 0, 0), at(300, 1, 0), at(400, 1, 5), at(500, 1, 5), at(600, 2, 5)] {
            h.note(l, 100);
        }
        let span = |from_ns, to_ns, no_room, ring_buffer_full| LossSpan { from_ns, to_ns, no_room, ring_buffer_full };
        assert_eq!(h.spans, [span(100, 300, 1, 5), span(400, 500, 1, 0)]);
    }

    #[test]
    fn failed_and_short_requests_are_selected_with_their_misalignment() {
        let wanted = Selection { slowest: 5, by: By::Latency, ring: None, opcode: None, failed: true };
        let whole = iotrail_schema::trail_example::trail();
        let refused = RequestTrace { result: -22, offset: Some(4112), ..whole.clone() };
        let short = RequestTrace { result: 512, ..whole.clone() };
        assert_eq!([&whole, &refused, &short].map(|t| wanted.wants(t)), [false, true, true]);
        let named = "Refused: its offset 4112 is a multiple of 16 and its length 4096 is a multiple of 4096; direct I/O on this device \
                     requires multiples of 512.";
        assert_eq!(alignment(&refused, Some(512)).as_deref(), Some(named));
        assert_eq!(alignment(&short, Some(512)), None);
    }

    fn slow(ready_ns: u64) -> ExplainedIo {
        let mut trail = iotrail_schema::trail_example::trail();
        trail.ready = Some(iotrail_schema::trail::Stamp { ns: trail.submitted.ns + ready_ns, cpu: 1 });
        ExplainedIo {
            slowness_ns: trail.latency_ns(),
            latency_ns: trail.latency_ns(),
            delay_ns: trail.delay_ns(),
            later: false,
            submitted_after_ns: 0,
            sentences: vec![],
            moments: vec![],
            trail,
        }
    }

    #[test]
    fn the_answer_describes_the_slowest_request_and_counts_similar_ones() {
        let (tick, device) = (slow(101_000), slow(2_900_000));
        let all = [tick.clone(), tick.clone(), device.clone()];
        let of_tick = "for the thread to enter the kernel (timer tick)";
        let cut = Ending::Cut { at_byte: 9 };
        assert_eq!(
            answer(&all, 9, &cut),
            format!("read_fixed of 4 KiB, 3.00 ms: for 2.90 ms (97 %) it waited {of_tick}")
        );
        let also_of = |ios: &[&ExplainedIo]| also(&ios.iter().map(|io| (*io).clone()).collect::<Vec<_>>()).unwrap();
        assert_eq!(also_of(&[&tick, &tick]), "the next slowest waited longest for the same reason");
        assert_eq!(also_of(&[&tick, &device]), "the next slowest waited longest for the device");
        assert_eq!(also_of(&[&tick, &tick, &tick]), "the next 2 slowest waited longest for the same reason");
        let told = "of the next 3 slowest, 1 waited longest for the same reason and 2 for the device";
        assert_eq!(also_of(&[&tick, &device, &tick, &device]), told);
        let told =
            format!("of the next 3 slowest, 2 waited longest {of_tick} and 1 for a kernel worker of the file system");
        let mut worker = tick.clone();
        worker.trail.ended = Some(iotrail_schema::trail::Stamp { ns: tick.trail.submitted.ns + 2_900_000, cpu: 1 });
        assert_eq!(also_of(&[&device, &tick, &worker, &tick]), told);
        assert_eq!(also(&[device]), None);
        assert_eq!(answer(&[], 0, &cut), "this recording ends before its first completion");
        assert_eq!(answer(&[], 9, &cut), "none of the 9 completions in this recording matches the selection");
    }
}
