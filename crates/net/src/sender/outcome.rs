//! A load's result, combined from its threads.

use hdrhistogram::Histogram;

use super::spec::SenderSpec;
use super::tally::Tally;
use super::thread::Done;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_load::clock::Clock;
use iotrail_load::cpus::unpinned;
use iotrail_load::usage::Usage;
use iotrail_schema::measurement::{Throughput, Warning};
use iotrail_schema::net_record::{SenderPlan, SenderRecord};

/// At this share of a thread's time or more, the sender may be the bottleneck.
const BUSY: f64 = 0.9;
const LAG_NS: u64 = 1_000_000;

/// A measured load, as observed by its sender.
#[derive(Debug)]
pub struct Sent {
    pub asked: SenderPlan,
    pub record: SenderRecord,
    /// Latency of every response, in ns.
    pub histogram: Histogram<u64>,
    /// From the first thread's start to the last thread's end; if the load broke off, to the last response.
    pub elapsed_ns: u64,
    pub responses: u64,
    /// Bytes of requests and responses, including headers.
    pub bytes: u64,
    /// Wall clock time at the start of the measured stage, in seconds since the epoch (UTC).
    pub started_unix_s: u64,
    /// Responses over the measured stage; `None` if it was too short.
    pub throughput: Option<Throughput>,
    pub warnings: Vec<Warning>,
    /// Usage of the sender's threads.
    pub usage: Usage,
    /// The sender's threads.
    pub tids: Vec<i32>,
    /// The clock used for latency: `tsc`, `cntvct` or `monotonic`.
    pub clock: &'static str,
    /// The user stopped the load; the measurement so far is valid.
    pub interrupted: bool,
    /// Why the load ended early: the server disappeared or stopped responding. The measurement so far is valid. The
    /// caller reports the reason to the user, because the command has failed.
    pub broken_off: Option<Error>,
}

/// The calling thread's data, in addition to the threads' results.
pub struct CallerTotals {
    pub started_unix_s: u64,
    pub throughput: Option<Throughput>,
    pub interrupted: bool,
    pub broken_off: Option<Error>,
}

/// Combines the threads. Fails if nothing was answered.
pub fn assemble(spec: &SenderSpec, clock: &Clock, threads: Vec<Done>, around: CallerTotals) -> Result<Sent> {
    let mut sum = Tally::default();
    let mut usage = Usage { run_queue_wait_ns: Some(0), ..Usage::default() };
    let began = threads.iter().map(|thread| thread.began).min().unwrap_or(0);
    let mut ended = threads.iter().map(|thread| thread.ended).max().unwrap_or(0);
    let span_ns = clock.ns(ended.saturating_sub(began));
    let (mut moved, mut idle_lost, mut unsent) = (0, 0, spec.rate.map(|_| 0));
    let mut busiest: Option<f64> = Some(0.0);
    for thread in &threads {
        sum.add(&thread.tally).or_machine("cannot add the threads' histograms", "")?;
        usage.add(thread.usage.within(span_ns));
        let share = busy_share(&thread.usage, clock.ns(thread.ended.saturating_sub(thread.began)));
        busiest = busiest.zip(share).map(|(a, b)| a.max(b));
        moved += u32::from(thread.bound == Some(false));
        idle_lost += thread.idle_lost;
        unsent = unsent.zip(thread.unsent).map(|(a, b)| a + b);
    }
    let sums = sum.sums;
    if sums.responses == 0
        && let Some(why) = around.broken_off
    {
        return Err(why);
    }
    if around.broken_off.is_some() {
        // The time spent waiting for a missing response is not measured.
        ended = sums.last;
    }
    let record = SenderRecord {
        requests: sums.requests,
        responses: sums.responses,
        unanswered: sums.unanswered,
        user_ns: usage.user_ns,
        system_ns: usage.system_ns,
        busiest_thread: busiest,
        reconnects: sums.opened,
        broken: sums.broken,
        unsent,
        worst_lag_ns: spec.rate.map(|_| clock.ns(sums.worst_lag)),
    };
    let mut warnings = warn(spec, &record, moved, idle_lost);
    if let Some(why) = &around.broken_off {
        warnings.push(Warning::new(
            "broken_off",
            format!("the load ended early, and the results cover only the time until then: {}", why.what),
            &*why.remedy,
        ));
    }
    Ok(Sent {
        asked: spec.asked(),
        record,
        histogram: sum.histogram,
        elapsed_ns: clock.ns(ended.saturating_sub(began)),
        responses: sums.responses,
        bytes: sums.bytes,
        started_unix_s: around.started_unix_s,
        throughput: around.throughput,
        warnings,
        usage,
        tids: threads.iter().map(|thread| thread.tid).collect(),
        clock: clock.name(),
        interrupted: around.interrupted,
        broken_off: around.broken_off,
    })
}

/// Share of `wall_ns` for which a thread ran or waited for a CPU.
fn busy_share(usage: &Usage, wall_ns: u64) -> Option<f64> {
    let busy = usage.user_ns + usage.system_ns + usage.run_queue_wait_ns?;
    (wall_ns > 0).then(|| (busy as f64 / wall_ns as f64).min(1.0))
}

fn warn(spec: &SenderSpec, record: &SenderRecord, moved: u32, idle_lost: u64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(share) = record.busiest_thread.filter(|share| *share >= BUSY) {
        warnings.push(Warning::new(
            "sender_bound",
            format!(
                "the sender's busiest thread was on a CPU or waited for one {:.0} % of the time: the server may be faster than shown",
                share * 100.0
            ),
            "use more --sender-threads, give them their own CPUs (--sender-cpus), or send from another machine",
        ));
    }
    if record.unanswered > 0 {
        warnings.push(Warning::new(
            "unanswered",
            format!(
                "{} of {} requests got no response: {} connections broke or were given up",
                record.unanswered, record.requests, record.broken
            ),
            "check the server's messages",
        ));
    }
    if idle_lost > 0 {
        warnings.push(Warning::new(
            "idle_closed",
            format!("{idle_lost} of {} idle connections were closed by the server", spec.idle_connections),
            "check the server's time-outs and limits",
        ));
    }
    warnings.extend(unpinned(moved));
    if let Some(rate) = spec.rate {
        let lag_ns = record.worst_lag_ns.unwrap_or(0);
        if let Some(unsent) = record.unsent.filter(|n| *n > 0) {
            warnings.push(Warning::new(
                "rate_not_met",
                format!("{unsent} of the requested {rate} requests per second were not sent in time; the latency does not include them"),
                "use a lower --rate, more --connections or a larger --window",
            ));
        } else if lag_ns > LAG_NS {
            warnings.push(Warning::new(
                "rate_lag",
                format!("a request was sent {} µs late (included in the latency)", lag_ns / 1000),
                "use more --connections or a larger --window, and give the sender its own CPU",
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SenderOptions;

    #[test]
    fn a_saturated_or_late_sender_causes_a_warning() {
        let usage = |wait| Usage { user_ns: 300, system_ns: 500, run_queue_wait_ns: wait, ..Usage::default() };
        assert_eq!(busy_share(&usage(Some(100)), 1000), Some(0.9));
        assert_eq!(busy_share(&usage(Some(900)), 1000), Some(1.0));
        assert_eq!(busy_share(&usage(None), 1000), None);
        let spec = SenderSpec::resolve(&SenderOptions { rate: Some(100.0), ..SenderOptions::default() }, &[0]).unwrap();
        let codes = |record: &SenderRecord| warn(&spec, record, 0, 0).into_iter().map(|w| w.code).collect::<Vec<_>>();
        let quiet = SenderRecord { busiest_thread: Some(0.89), unsent: Some(0), ..SenderRecord::default() };
        assert!(codes(&quiet).is_empty());
        assert_eq!(codes(&SenderRecord { busiest_thread: Some(0.9), ..quiet.clone() }), ["sender_bound"]);
        assert_eq!(
            codes(&SenderRecord { unsent: Some(1), unanswered: 2, ..quiet.clone() }),
            ["unanswered", "rate_not_met"]
        );
        assert_eq!(codes(&SenderRecord { worst_lag_ns: Some(2_000_000), ..quiet }), ["rate_lag"]);
    }
}
