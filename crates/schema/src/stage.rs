//! The stages of a request.

/// A stage that the probes can see. *Reaped* happens in the application and is not visible in the kernel.
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

    /// The stable name, as in the documentation and in the JSON.
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
