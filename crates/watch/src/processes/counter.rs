//! A monotonic counter.

/// A monotonic counter over the trace; `None` if unreadable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub first: Option<u64>,
    pub last: Option<u64>,
}

impl Span {
    pub fn take(&mut self, value: Option<u64>) {
        self.last = value.or(self.last);
    }

    pub fn grown(self) -> Option<u64> {
        self.last?.checked_sub(self.first?)
    }

    /// Increase up to the final value `end`.
    pub fn grown_to(self, end: u64) -> Option<u64> {
        end.checked_sub(self.first?)
    }
}
