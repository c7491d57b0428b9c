//! An HdrHistogram log (version 1.3): one line per measurement, by start time, tagged with its cell. Values
//! are nanoseconds; the maximum in each line is in milliseconds, as in other logs.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::rows::{Order, Row, Run};
use iotrail_base::error::{Error, Result};
use iotrail_schema::run_record::value_text;

/// One line per measurement with a histogram.
pub fn write(run: &Run<'_>, out: &mut impl Write, refused: &dyn Fn(io::Error) -> Error) -> Result<u64> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(concat!("[Latencies in ns, iotrail ", env!("CARGO_PKG_VERSION"), "]"))
        .with_start_time(SystemTime::UNIX_EPOCH + Duration::from_secs(run.started_unix_s))
        .with_max_value_divisor(1e6)
        .begin_log_with(out, &mut serializer)
        .map_err(refused)?;
    let mut lines = 0;
    run.rows(Order::Start, &mut |row| {
        let Some(latency) = run.latency(row)? else { return Ok(()) };
        let tag = tag(row);
        let tag = Tag::new(&tag);
        let (start, length) = (row.measurement.started_unix_s, row.measurement.elapsed_ns);
        log.write_histogram(&latency, Duration::from_secs(start), Duration::from_nanos(length), tag)
            .map_err(|e| refused(io::Error::other(format!("{e:?}"))))?;
        lines += 1;
        Ok(())
    })?;
    Ok(lines)
}

/// `cell=3;repeat=1;arm=coop;depth=16`. Characters that end a tag or the line are percent-encoded.
pub(super) fn tag(row: &Row<'_>) -> String {
    let mut tag = format!("cell={};repeat={}", row.cell, row.repeat);
    for (name, value) in row.params {
        tag.push_str(&format!(";{}={}", encoded(name), encoded(&value_text(value))));
    }
    tag
}

fn encoded(text: &str) -> String {
    super::encoded(text, |c| !matches!(c, ',' | ';' | '=' | '%' | ' ') && !c.is_control() && !c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::export::sample::run_without;
    use iotrail_testing::sample::histogram;

    #[test]
    fn an_hdr_log_is_read_back_with_its_tags() {
        let mut bytes = vec![];
        let refused = |e: io::Error| Error::machine(e.to_string(), "");
        assert_eq!(write(&run_without(2, 1), &mut bytes, &refused).unwrap(), 3);
        let read: Vec<(String, Duration, Histogram<u64>)> = IntervalLogIterator::new(&bytes)
            .map(|entry| entry.unwrap())
            .filter_map(|entry| match entry {
                LogEntry::Interval(i) => {
                    use base64::Engine as _;
                    let packed = base64::engine::general_purpose::STANDARD.decode(i.encoded_histogram()).unwrap();
                    let read = Deserializer::new().deserialize(&mut io::Cursor::new(packed)).unwrap();
                    Some((i.tag().unwrap().as_str().to_owned(), i.start_timestamp(), read))
                }
                _ => None,
            })
            .collect();
        let tags: Vec<&str> = read.iter().map(|(tag, _, _)| tag.as_str()).collect();
        assert_eq!(
            tags,
            [
                "cell=1;repeat=1;arm=a%2C\"b\"%0D%0Ac%3Bd%3De%20%25;depth=16",
                "cell=1;repeat=2;arm=a%2C\"b\"%0D%0Ac%3Bd%3De%20%25;depth=16",
                "cell=2;repeat=2;arm='already;depth=32",
            ]
        );
        assert_eq!(read[2].1, Duration::from_secs(1_772_366_421));
        assert!(read.iter().all(|(_, _, h)| *h == histogram()));
    }
}
