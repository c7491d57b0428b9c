//! The stages of a request.

/// A stage that a trail can know. *Reaped* is the application's own, and not seen from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    Submitted,
    Issued,
    Ready,
    Ended,
    Queued,
    Posted,
}

impl Stage {
    pub const ALL: [Stage; 6] =
        [Stage::Submitted, Stage::Issued, Stage::Ready, Stage::Ended, Stage::Queued, Stage::Posted];

    /// The stable name, as in the documentation and the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Submitted => "submitted",
            Stage::Issued => "issued",
            Stage::Ready => "ready",
            Stage::Ended => "ended",
            Stage::Queued => "queued",
            Stage::Posted => "posted",
        }
    }
}
