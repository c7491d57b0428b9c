//! Latency histograms.
//!
//! **Error**: 3 significant digits, so that a value read back is at most 0.1 % above the recorded one. **Range**: 1 ns
//! to 1 hour; values outside count as the nearest end. **Memory**: fixed at 264 KiB each; recording never allocates.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// One hour in ns: the upper end of the range.
pub(crate) const MAX_NS: u64 = 3_600_000_000_000;

/// 33 half-buckets after the first, each with 1024 counts of 8 bytes.
#[cfg(test)]
const BYTES: usize = 33 * 1024 * 8;

/// An empty histogram of durations in ns.
pub fn new() -> Histogram<u64> {
    // The library accepts these constant bounds and digits (tested below). Resizing stays off.
    Histogram::new_with_bounds(1, MAX_NS, 3).expect("constant bounds")
}

/// A histogram that could not be encoded or decoded.
#[derive(Debug, thiserror::Error)]
#[error("histogram: {0}")]
pub struct Unreadable(String);

/// Encodes as HdrHistogram V2, deflated, which the HdrHistogram libraries and tools in other languages can read.
pub fn to_bytes(histogram: &Histogram<u64>) -> Result<Vec<u8>, Unreadable> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(|e| Unreadable(e.to_string()))?;
    Ok(bytes)
}

/// Decodes the result of [`to_bytes`].
pub fn from_bytes(bytes: &[u8]) -> Result<Histogram<u64>, Unreadable> {
    Deserializer::new().deserialize(&mut std::io::Cursor::new(bytes)).map_err(|e| Unreadable(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_error_and_memory_are_within_the_documented_limits() {
        let mut h = new();
        assert_eq!(h.distinct_values() * 8, BYTES);
        for v in [1, 999, 1_234_567, 987_654_321_012, MAX_NS] {
            h.reset();
            h.record(v).unwrap();
            let read = h.max();
            assert!(read >= v && read - v <= v / 1000, "{v} reads as {read}");
        }
    }

    #[test]
    fn a_histogram_round_trips_through_bytes() {
        let mut h = new();
        h.record_n(80_000, 900).unwrap();
        h.record_n(4_000_000, 100).unwrap();
        let back = from_bytes(&to_bytes(&h).unwrap()).unwrap();
        assert_eq!(back, h);
        assert_eq!(back.len(), 1000);
        assert!(from_bytes(b"no histogram").is_err());
    }
}
