//! Slow servers: open-loop records, and bursts.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::faults::{bad, next};
use super::*;

/// In an open loop, latency starts at the intended time: a pause of the server shows in all requests that were due
/// during it.
#[test]
fn a_server_pause_is_part_of_the_latency_of_each_delayed_request() {
    let pause = || after_pause(Duration::from_millis(300));
    let o = SenderOptions { connections: 1, window: 1, count: Some(200), warmup: Span(Duration::ZERO), ..options() };
    let open = send(&SenderOptions { rate: Some(1000.0), ..o.clone() }, &pause()).unwrap();
    // The 200 requests were due within 200 ms, and none was answered before 300 ms, so each took at least 100 ms.
    assert!(open.histogram.min() >= 99_000_000, "{} ns", open.histogram.min());
    assert!(open.record.worst_lag_ns.unwrap() >= 250_000_000);
    assert!(open.warnings.iter().any(|w| w.code == "rate_lag"));
    assert_eq!((open.record.unsent, open.responses), (Some(0), 200));
    let closed = send(&o, &pause()).unwrap();
    assert_eq!(closed.responses, 200);
    assert!(closed.histogram.max() >= 300_000_000 && closed.histogram.value_at_quantile(0.5) < closed.histogram.max());
}

/// Echoes, but delays its first answer.
fn after_pause(pause: Duration) -> Address {
    bad(move |mut socket| {
        let mut first = true;
        while let Some(bytes) = next(&mut socket) {
            if std::mem::take(&mut first) {
                std::thread::sleep(pause);
            }
            let _ = socket.write_all(&bytes);
        }
    })
}

/// Reports requests that could not be sent before the end.
#[test]
fn an_open_loop_reports_unsent_requests() {
    let count = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&count);
    let slow = bad(move |mut socket| {
        while let Some(bytes) = next(&mut socket) {
            seen.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(20));
            let _ = socket.write_all(&bytes);
        }
    });
    let o = SenderOptions {
        connections: 1,
        rate: Some(1000.0),
        count: None,
        runtime: Some(Span(Duration::from_millis(200))),
        warmup: Span(Duration::ZERO),
        ..options()
    };
    let sent = send(&o, &slow).unwrap();
    let r = &sent.record;
    // 200 were due, and at most ten could be sent; the last one may have been due at the very end.
    assert!((1..=11).contains(&r.requests) && r.requests == count.load(Ordering::Relaxed), "{r:?}");
    assert!((r.requests + r.unsent.unwrap()).abs_diff(200) <= 1, "{r:?}");
    assert!(sent.warnings.iter().any(|w| w.code == "rate_not_met"));
}

/// A burst is sent only if all of it fits.
#[test]
fn bursts_are_sent_completely() {
    // Answers four requests at a time, once four have arrived: with smaller bursts the load would fail.
    let fours = bad(|mut socket| {
        loop {
            let four: Option<Vec<_>> = (0..4).map(|_| next(&mut socket)).collect();
            let Some(four) = four else { return };
            if socket.write_all(&four.concat()).is_err() {
                return;
            }
        }
    });
    for rate in [None, Some(10_000.0)] {
        let o = SenderOptions {
            connections: 3,
            window: 6,
            burst: 4,
            rate,
            count: Some(1200),
            warmup: Span(Duration::ZERO),
            ..options()
        };
        assert_eq!(send(&o, &fours).unwrap().responses, 1200);
    }
}
