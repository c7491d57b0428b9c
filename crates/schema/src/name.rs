//! Short texts of which long runs hold many.

/// As a `String`; up to 24 bytes stand in its own place.
pub type Name = compact_str::CompactString;
