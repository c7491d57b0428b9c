//! Short texts that long runs contain many times.

/// Like `String`; up to 24 bytes are stored inline.
pub type Name = compact_str::CompactString;
