//! The file's text, and positions in it.

use std::ops::Range;

use crate::load::Kind;
use iotrail_base::error::Error;

/// Maximum size of an experiment file and of its fio job file, in bytes.
pub const LONGEST: u64 = 1 << 20;

/// The text that spans point into.
pub(super) struct File<'a> {
    pub text: &'a str,
    pub origin: &'a str,
    pub kind: Kind,
}

impl File<'_> {
    pub(super) fn refuse(&self, at: Range<usize>, what: impl std::fmt::Display) -> Error {
        Error::input(what.to_string(), self.kind.remedy()).at(self.place(at))
    }

    /// `FILE:LINE:COLUMN`.
    pub(super) fn place(&self, at: Range<usize>) -> String {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        format!("{}:{line}:{column}", self.origin)
    }
}
