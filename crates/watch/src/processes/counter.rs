//! A monotonic counter.

/// A monotonic counter over the traced span; `None`: not readable.
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

    /// Its growth up to its final value.
    pub fn grown_to(self, end: u64) -> Option<u64> {
        end.checked_sub(self.first?)
    }
}
