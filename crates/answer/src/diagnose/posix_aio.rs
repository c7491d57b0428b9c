//! POSIX AIO requests that glibc executes sequentially.

use super::{Check, ENOUGH, RULE, RestsOn, Rule, on_average};
use iotrail_base::words::{plural, three_digits};
use iotrail_schema::account::{Bound, BoundOf};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::TraceRecord;

/// Requests in flight per descriptor.
const QUEUED: f64 = 2.0;

pub const POSIX_AIO_SERIAL: Rule = Rule {
    code: "posix_aio_serial",
    about: "at least 100 POSIX AIO requests, with two or more in flight per descriptor on average",
    rests_on: RestsOn::Completions,
    advice: "use io_uring, or native aio with O_DIRECT, which keep all requests in flight; or open the file several times and spread the requests \
             over the descriptors: each descriptor gets its own thread, with at most 20 threads by default (aio_init(3))",
    checks: &[Check::Trace(serial)],
    ..RULE
};

fn serial(t: &TraceRecord) -> Option<Finding> {
    let contexts: Vec<_> = t.contexts.iter().filter(|c| c.interface == "posix_aio").collect();
    let done: u64 = contexts.iter().map(|c| c.completions).sum();
    let active = contexts.iter().filter_map(|c| c.active_ns).max()?;
    let in_flight = on_average(contexts.iter().flat_map(|c| &c.opcodes), active.max(1) as f64 / 1e9)?;
    // Further files are counted without their descriptors.
    let files = Some(&t.total.files).filter(|_| t.total.other_files.is_none())?;
    let descriptors: u64 = files.iter().map(|file| file.descriptors.len() as u64 + file.more_descriptors).sum();
    if done < ENOUGH || descriptors == 0 || in_flight < QUEUED * descriptors as f64 {
        return None;
    }
    let text = format!(
        "{} POSIX AIO requests were in flight on average, on {}. glibc runs the requests of one descriptor one at a time, in one thread",
        three_digits(in_flight),
        plural(descriptors as usize, "descriptor")
    );
    let bound = Some(Bound { of: BoundOf::Latency, share: 1.0 - descriptors as f64 / in_flight });
    let evidence = [("in_flight", in_flight), ("descriptors", descriptors as f64)];
    Some(Finding { bound, ..POSIX_AIO_SERIAL.finding_from(done, Severity::Warning, text, &evidence) })
}
