//! The stages of one I/O in order, and the spans between the known ones.

use super::stage::Stage;
use super::trail::{RequestTrace, Stamp};

/// From one known stage to the next known stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from: Stage,
    pub to: Stage,
    pub begin: Stamp,
    pub end: Stamp,
}

impl Span {
    pub fn ns(&self) -> u64 {
        self.end.ns - self.begin.ns
    }
}

impl RequestTrace {
    pub fn stamp(&self, stage: Stage) -> Option<Stamp> {
        match stage {
            Stage::Submitted => Some(self.submitted),
            Stage::Issued => self.issued,
            Stage::Ready => self.ready,
            Stage::Ended => self.ended,
            Stage::Queued => self.queued,
            Stage::Posted => Some(self.posted),
        }
    }

    /// Whether the stage's stamp is in order: not before an earlier stage's stamp, not after posting. Several threads on one
    /// request, or clocks that differ between CPUs, can cause stamps out of order. `false` if the stamp is not known.
    pub fn in_order(&self, stage: Stage) -> bool {
        self.known().any(|(s, _)| s == stage)
    }

    fn known(&self) -> impl Iterator<Item = (Stage, Stamp)> + '_ {
        let mut last = self.submitted.ns;
        Stage::ALL.into_iter().filter_map(move |stage| {
            let stamp = self.stamp(stage)?;
            if stamp.ns < last || (stamp.ns > self.posted.ns && stage != Stage::Submitted) {
                return None;
            }
            last = stamp.ns;
            Some((stage, stamp))
        })
    }

    /// The I/O without gaps or overlaps, from submission to posting: one to five spans that sum to the latency. Stamps out of order
    /// are omitted. Empty if it was posted before it was submitted.
    pub fn spans(&self) -> Vec<Span> {
        let known: Vec<_> = self.known().collect();
        known.windows(2).map(|w| Span { from: w[0].0, to: w[1].0, begin: w[0].1, end: w[1].1 }).collect()
    }

    /// The longest span; of equal spans the later one, which a program can more easily change.
    pub fn longest(&self) -> Option<Span> {
        self.spans().into_iter().max_by_key(Span::ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trail_example::trail;

    fn names(t: &RequestTrace) -> Vec<(&'static str, &'static str, u64)> {
        t.spans().iter().map(|s| (s.from.name(), s.to.name(), s.ns())).collect()
    }

    #[test]
    fn stage_durations_add_up_to_the_latency() {
        let at = |t: &RequestTrace, ns| Some(Stamp { ns: t.submitted.ns + ns, cpu: 3 });
        let mut t = trail();
        assert_eq!(
            names(&t),
            [("submitted", "issued", 12_000), ("issued", "ready", 89_000), ("ready", "posted", 2_899_000)]
        );
        t.queued = at(&t, 200_000);
        assert_eq!(names(&t)[2..], [("ready", "queued", 99_000), ("queued", "posted", 2_800_000)]);
        t.issued = None;
        assert_eq!(names(&t)[0], ("submitted", "ready", 101_000));
        (t.ready, t.queued) = (None, None);
        assert_eq!(names(&t), [("submitted", "posted", 3_000_000)]);
        assert_eq!(t.longest().unwrap().ns(), t.latency_ns());
    }

    #[test]
    fn out_of_order_timestamps_are_omitted() {
        let mut t = trail();
        t.issued = Some(Stamp { ns: t.posted.ns + 1, cpu: 0 });
        t.queued = Some(Stamp { ns: t.submitted.ns + 1, cpu: 0 });
        assert_eq!(names(&t), [("submitted", "ready", 101_000), ("ready", "posted", 2_899_000)]);
        assert!(t.in_order(Stage::Ready) && !t.in_order(Stage::Issued) && !t.in_order(Stage::Queued));
        t.posted.ns = t.submitted.ns - 1;
        assert_eq!(names(&t), []);
        assert_eq!(t.longest(), None);
    }
}
