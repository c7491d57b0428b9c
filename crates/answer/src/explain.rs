//! A recording's slowest I/Os, and what the recording itself lacks.

use serde::Serialize;

use super::timeline::{Moment, headline, moments};
use iotrail_base::error::{Error, Result};
use iotrail_path::slowest::{By, Kept, Slowest};
use iotrail_schema::recorded::{Ending, Entry, Header, Losses};
use iotrail_schema::trace_record::{ProcessRecord, RingRecord};
use iotrail_schema::trail::Trail;

pub const SCHEMA: &str = "iotrail.explain/1";

/// Which I/Os are asked for.
#[derive(Debug, Clone)]
pub struct Selection {
    /// So many at most.
    pub slowest: usize,
    pub by: By,
    pub ring: Option<u32>,
    pub opcode: Option<String>,
}

impl Selection {
    fn wants(&self, t: &Trail) -> bool {
        self.ring.is_none_or(|r| t.ring == Some(r)) && self.opcode.as_ref().is_none_or(|o| *o == t.opcode)
    }
}

/// These types *are* the JSON schema `iotrail.explain/1` (`docs/formats.md`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// `iotrail.explain/1`.
    pub schema: &'static str,
    /// The recording's header.
    pub recording: Header,
    /// How the recording stops, with its end.
    pub ending: Ending,
    /// Completions in it.
    pub completions: u64,
    /// Of these, the ones that `--ring` and `--opcode` ask for.
    pub selected: u64,
    /// Length of the recording: to the last completion's posting, or to its end.
    pub length_ns: u64,
    /// The last state in the file; null: there is none.
    pub losses: Option<Losses>,
    /// When completions were lost.
    pub loss_spans: Vec<LossSpan>,
    /// The I/Os, the slowest first.
    pub ios: Vec<ExplainedIo>,
}

/// Losses between two looks at the counters, neighbouring spans with losses as one. Times since recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LossSpan {
    /// Its beginning, since recording began.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// Given up: no room to keep them.
    pub no_room: u64,
    /// Lost on the way: the ring buffer was full.
    pub ring_buffer_full: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExplainedIo {
    /// What it was ranked by: the latency or the delivery delay.
    pub slowness_ns: u64,
    /// posted − submitted.
    pub latency_ns: u64,
    /// posted − ready; null: not known.
    pub delay_ns: Option<u64>,
    /// It is a later completion of its request: `latency_ns` is no latency. It is ranked by its delay.
    pub later: bool,
    /// Its submission, since recording began; negative: before.
    pub submitted_after_ns: i64,
    /// The timeline in words.
    pub sentences: Vec<String>,
    /// The timeline.
    pub moments: Vec<Moment>,
    /// The record.
    pub trail: Trail,
}

impl Explained {
    pub fn rings(&self) -> &[RingRecord] {
        self.ending.end().map_or(&[], |e| &e.rings)
    }

    pub fn processes(&self) -> &[ProcessRecord] {
        self.ending.end().map_or(&[], |e| &e.processes)
    }
}

/// Reads `entries` to their end; `ending` is asked for after that.
///
/// Errors: reading fails (the entries' own); nothing of what was asked for is in the recording (wrong input).
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
    let explained = |kept: Kept| ExplainedIo {
        slowness_ns: kept.slowness_ns,
        latency_ns: kept.trail.latency_ns(),
        delay_ns: kept.trail.delay_ns(),
        later: kept.later,
        submitted_after_ns: kept.trail.submitted.ns as i64 - origin as i64,
        sentences: headline(&kept.trail, kept.later),
        moments: moments(&kept.trail),
        trail: kept.trail,
    };
    Ok(Explained {
        schema: SCHEMA,
        ending,
        completions,
        selected,
        length_ns: last_ns - origin,
        losses: losses.any.then_some(losses.last),
        loss_spans: losses.spans,
        ios: slowest.into_sorted().into_iter().map(explained).collect(),
        recording: header,
    })
}

fn nothing_of(
    wanted: &Selection,
    rings: std::collections::BTreeSet<u32>,
    opcodes: std::collections::BTreeSet<String>,
) -> Error {
    let mut asked = Vec::new();
    asked.extend(wanted.ring.map(|r| format!("of ring {r}")));
    asked.extend(wanted.opcode.as_ref().map(|o| format!("with opcode {o}")));
    let list = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    Error::input(
        format!("no completion {} is in this recording", asked.join(" ")),
        format!(
            "there are rings: {}; opcodes: {}",
            list(rings.iter().map(u32::to_string).collect()),
            list(opcodes.into_iter().collect())
        ),
    )
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
    fn losses_by_span() {
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
}
