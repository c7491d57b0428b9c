//! Each option, tested against iotrail's server, has exactly the requested effect.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::Ordering;

use super::*;
use crate::options::Check;
use iotrail_base::units::Bytes;

#[test]
fn request_counts_of_sender_and_server_agree_for_all_options() {
    let dir = tempfile::tempdir().unwrap();
    let unix = format!("unix:{}", dir.path().join("s").display());
    let o = || SenderOptions { count: Some(1001), seed: Some(1), ..options() }; // not a multiple of anything
    let large = SenderOptions { request: Bytes(300_000), response: Bytes(300_000), count: Some(8), ..o() };
    for at in ["127.0.0.1:0", "[::1]:0", &unix] {
        let server = server(at);
        for o in [
            o(),
            SenderOptions { connections: 1, ..o() },
            SenderOptions { connections: 64, window: 3, ..o() },
            SenderOptions { connections: 5, window: 8, sender_threads: 3, ..o() },
            SenderOptions { connections: 3, window: 8, burst: 4, ..o() },
            SenderOptions { request: Bytes(1), response: Bytes(9), window: 4, ..o() },
            SenderOptions { request: Bytes(200), response: Bytes(1), window: 40, ..o() },
            SenderOptions { check: Check::Size, ..o() },
            SenderOptions { rate: Some(50_000.0), window: 4, sender_threads: 2, ..o() },
            SenderOptions { rate: Some(50_000.0), window: 8, burst: 8, ..o() },
            SenderOptions { reconnect_after: Some(7), window: 3, ..o() },
            SenderOptions { reconnect_after: Some(1), rate: Some(20_000.0), ..o() },
            SenderOptions { idle_connections: 20, sender_threads: 2, ..o() },
            SenderOptions { window: 4, ..large.clone() },
            SenderOptions { request: Bytes(1), ..large.clone() },
            SenderOptions { response: Bytes(1), window: 4, ..large.clone() },
        ] {
            let count = o.count.unwrap();
            let (sent, counted) = both(&o, &server);
            let r = &sent.record;
            assert_eq!((r.requests, r.responses, r.unanswered, r.broken), (count, count, 0, 0), "{o:?} at {at}");
            assert_eq!(
                (sent.responses, sent.histogram.len(), counted.requests),
                (count, count, count),
                "{o:?} at {at}"
            );
            assert_eq!(counted.bytes_in, count * (8 + o.request.0), "{o:?} at {at}");
            assert_eq!(sent.bytes, count * (8 + o.request.0 + o.response.0), "{o:?} at {at}");
            assert_eq!((counted.reset, counted.garbage, counted.cut_off), (0, 0, 0), "{o:?} at {at}");
            assert_eq!(sent.asked, spec(&o).asked());
            assert_eq!(r.unsent, o.rate.map(|_| 0));
            assert!(sent.elapsed_ns > 0 && sent.broken_off.is_none() && !sent.interrupted);
            assert_eq!(sent.tids.len(), o.sender_threads as usize);
        }
    }
}

#[test]
fn connections_are_reopened_as_requested_and_idle_ones_stay_open() {
    let server = server("127.0.0.1:0");
    let before = server.look();
    let o = SenderOptions {
        connections: 2,
        reconnect_after: Some(10),
        count: Some(1000),
        idle_connections: 30,
        warmup: Span(Duration::ZERO),
        ..options()
    };
    let (sent, _) = both(&o, &server);
    // 100 connections with ten requests each. The first two already existed; the last two share the remainder.
    let reconnects = sent.record.reconnects;
    assert!((98..=99).contains(&reconnects) && sent.record.broken == 0, "{:?}", sent.record);
    let all = 2 + 30 + reconnects;
    let counted = || server.look().since(&before).1.counts;
    while counted().closed < all {
        std::thread::yield_now();
    }
    assert_eq!((counted().accepted, counted().closed, counted().reset, counted().requests), (all, all, 0, 1000));
}

#[test]
fn runtime_ends_the_load_and_an_open_loop_keeps_its_rate() {
    let server = server("127.0.0.1:0");
    let timed = |o: SenderOptions| SenderOptions { count: None, runtime: Some(Span(Duration::from_millis(200))), ..o };
    let (closed, counted) = both(&timed(options()), &server);
    assert!(closed.record.responses > 0 && closed.elapsed_ns >= 200_000_000);
    assert_eq!((closed.record.requests, closed.record.responses), (counted.requests, counted.requests));
    assert_eq!((closed.record.unsent, closed.record.worst_lag_ns), (None, None));
    let (open, counted) = both(&timed(SenderOptions { rate: Some(1000.0), window: 1000, ..options() }), &server);
    // With slots for all requests, none remains unsent: 200 in 200 ms, ±1 due to rounding.
    assert!(counted.requests.abs_diff(200) <= 1 && open.record.unsent.unwrap() <= 1, "{:?}", open.record);
    assert_eq!((open.record.requests, open.record.responses), (counted.requests, counted.requests));
}

#[test]
fn an_interrupt_waits_for_responses_and_keeps_measurements() {
    let server = server("127.0.0.1:0");
    let stop = AtomicBool::new(false);
    let o = SenderOptions { count: None, runtime: Some(Span(Duration::from_secs(3600))), window: 4, ..options() };
    let before = server.look();
    let mut ends = 0;
    let sent = run(
        &spec(&o),
        server.address(),
        &mut |at| {
            ends += u32::from(at == Boundary::MeasureEnds);
            Ok(())
        },
        &mut |p| {
            if p.doing == Doing::Measuring && p.done > 0 {
                stop.store(true, Ordering::Relaxed);
            }
        },
        &stop,
    )
    .unwrap();
    assert!(sent.interrupted && sent.record.responses > 0 && sent.broken_off.is_none());
    assert_eq!((sent.record.requests, sent.record.unanswered, ends), (sent.record.responses, 0, 1));
    assert!(server.look().since(&before).1.counts.requests >= sent.record.responses);
}

#[test]
fn an_error_at_a_boundary_aborts_the_load_except_at_the_last_one() {
    let server = server("127.0.0.1:0");
    for off in [Boundary::Ready, Boundary::MeasureBegins, Boundary::MeasureEnds] {
        let mut seen = vec![];
        let ended = run(
            &spec(&options()),
            server.address(),
            &mut |at| {
                seen.push(at);
                if at == off { Err(Error::machine("the control connection broke", "")) } else { Ok(()) }
            },
            &mut |_| {},
            &NOT_STOPPED,
        );
        assert_eq!(seen.last(), Some(&off), "nothing comes after");
        match ended {
            Err(e) => assert!(off != Boundary::MeasureEnds && e.what == "the control connection broke"),
            Ok(sent) => {
                assert_eq!((off, sent.responses), (Boundary::MeasureEnds, 1000));
                assert_eq!(sent.broken_off.unwrap().what, "the control connection broke");
            }
        }
    }
}

#[test]
fn more_connections_than_the_descriptor_limit_are_rejected() {
    let o = SenderOptions { connections: 1, idle_connections: u32::MAX, ..options() };
    let e = send(&o, &"127.0.0.1:1".parse().unwrap()).unwrap_err().to_string();
    assert!(e.contains("use at most") && e.contains("4294967297 connections"), "{e}");
}

#[test]
fn equal_seeds_send_equal_bytes() {
    let sent = |seed: u32| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
        // Each request has an 8-byte header and a 64-byte body, and its response has the requested length.
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut all, mut request) = (vec![], [0; 72]);
            while stream.read_exact(&mut request).is_ok() {
                all.extend(request);
                stream.write_all(&[0; 64]).unwrap();
            }
            all
        });
        let load = SenderOptions {
            connections: 1,
            count: Some(5),
            warmup: Span(Duration::ZERO),
            check: Check::Size,
            seed: Some(seed),
            ..options()
        };
        assert_eq!(spec(&load).asked().seed, Some(seed));
        send(&load, &address).unwrap();
        server.join().unwrap()
    };
    let first = sent(7);
    assert_eq!((first.len(), sent(7) == first, sent(8) == first), (5 * 72, true, false));
    assert!(spec(&options()).asked().seed.is_some(), "drawn, and kept");
}
