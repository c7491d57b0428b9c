//! Ring-specific cases (few buffers, few completion entries, sends that wait): no data is lost.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use socket2::Socket;

use super::WORDS;
use crate::options::{Receive, ServerOptions};
use crate::server::Server;
use crate::server::tests::{exchange, start};
use iotrail_load::engine::io_uring::ring::Waits;
use iotrail_load::engine::io_uring::{self, Config};
use iotrail_schema::net_record::Counts;

fn multishot(ring: &str) -> ServerOptions {
    ServerOptions { server_threads: Some(1), ring: ring.into(), ..ServerOptions::default() }
}

fn connections(server: &Server, n: u64) -> Vec<Socket> {
    (0..n).map(|_| server.address().connect().unwrap()).collect()
}

/// Sends to all sockets before reading from any.
fn all_at_once(sockets: &mut [Socket], sizes: &[(u32, u32)]) {
    let exchanges: Vec<_> = (0..sockets.len() as u64).map(|i| exchange(i, sizes)).collect();
    for (socket, (asked, _)) in sockets.iter_mut().zip(&exchanges) {
        socket.write_all(asked).unwrap();
    }
    for (i, (socket, (_, wanted))) in sockets.iter_mut().zip(&exchanges).enumerate() {
        let mut got = vec![0; wanted.len()];
        socket.read_exact(&mut got).unwrap();
        assert!(got == *wanted, "connection {i}");
    }
}

fn counted_when(server: &Server, done: impl Fn(&Counts) -> bool) -> Counts {
    // A server that stops making progress prints its state.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let counts = server.shared.counts[0].read();
        assert!(Instant::now() < deadline, "{:?}: {counts:?}", server.spec().options);
        if done(&counts) {
            return counts;
        }
        std::thread::yield_now();
    }
}

#[test]
fn overflowed_completions_are_counted_and_none_is_lost() {
    for ring in ["cqsize=512", "cqsize=512,coop_taskrun"] {
        let options = ServerOptions {
            buffers: 4096,
            buffer_size: "64".parse().unwrap(),
            // Longer than the queue, so that completions find it full.
            wait_for: 5000,
            wait_timeout: Some("20ms".parse().unwrap()),
            ..multishot(ring)
        };
        let server = start(&options, "127.0.0.1:0");
        let mut sockets = connections(&server, 8);
        for _ in 0..4 {
            all_at_once(&mut sockets, &[(48 << 10, 64)]);
        }
        let c = counted_when(&server, |c| c.requests == 32);
        assert!(c.cq_overflows > 0, "{ring}: {c:?}");
        assert_eq!(c.bytes_in, 32 * (8 + (48 << 10)), "{ring}");
        assert_eq!(c.bytes_out, 32 * 64, "{ring}");
    }
}

#[test]
fn receives_without_a_free_buffer_are_counted_and_retried() {
    for receive in [Receive::Provided, Receive::Multishot, Receive::Bundle] {
        let options = ServerOptions {
            receive,
            buffers: 1,
            buffer_size: "64".parse().unwrap(),
            ..multishot("defer_taskrun,single_issuer")
        };
        let server = start(&options, "127.0.0.1:0");
        let mut sockets = connections(&server, 16);
        all_at_once(&mut sockets, &[(3000, 3000), (1, 1), (64, 500)]);
        let c = counted_when(&server, |c| c.requests == 48);
        assert!(c.buffers_exhausted > 0, "{receive}: {c:?}");
        assert_eq!((c.bytes_in, c.bytes_out), (16 * (3 * 8 + 3065), 16 * 3501), "{receive}");
    }
}

/// A peer sends more requests than all buffers on the path hold, and reads only afterwards.
#[test]
fn a_peer_that_does_not_read_does_not_block_other_peers() {
    let each = [Receive::Single, Receive::Provided, Receive::Multishot, Receive::Bundle];
    for (receive, ring) in each.into_iter().flat_map(|r| ["", "defer_taskrun,single_issuer"].map(|ring| (r, ring))) {
        let server = start(&ServerOptions { receive, ..multishot(ring) }, "127.0.0.1:0");
        let mut greedy = server.address().connect().unwrap();
        let (asked, wanted) = exchange(1, &[(20_000, 100_000); 300]);
        let mut sender = greedy.try_clone().unwrap();
        let sending = std::thread::spawn(move || sender.write_all(&asked).unwrap());
        counted_when(&server, |c| c.requests >= 20);
        all_at_once(&mut connections(&server, 3), &[(64, 64), (64, 64)]);
        let mut got = vec![0; wanted.len()];
        greedy.read_exact(&mut got).unwrap();
        assert!(got == wanted, "{receive} {ring}");
        sending.join().unwrap();
        drop(greedy);
        let c = counted_when(&server, |c| c.closed == 4);
        assert_eq!((c.requests, c.bytes_out), (306, 30_000_000 + 6 * 64), "{receive} {ring}");
    }
}

#[test]
fn a_half_closed_sender_receives_its_remaining_responses() {
    for ring in ["", "coop_taskrun", "defer_taskrun,single_issuer", "sqpoll"] {
        for zero_copy in [None, Some("1".parse().unwrap())] {
            let server = start(&ServerOptions { zero_copy, ..multishot(ring) }, "127.0.0.1:0");
            let (asked, wanted) = exchange(1, &[(10, 2_000_000), (64, 64), (1, 1)]);
            let mut socket = server.address().connect().unwrap();
            socket.write_all(&asked).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            let mut got = vec![];
            socket.read_to_end(&mut got).unwrap();
            assert!(got == wanted, "{ring} {zero_copy:?}: {} of {}", got.len(), wanted.len());
            let c = counted_when(&server, |c| c.closed == 1);
            assert_eq!((c.requests, c.bytes_out), (3, 2_000_065));
            assert_eq!(c.zero_copy_sends > 0, zero_copy.is_some());
        }
    }
}

#[test]
fn a_peer_that_closes_during_a_response_ends_only_its_connection() {
    for receive in [Receive::Single, Receive::Provided, Receive::Multishot, Receive::Bundle] {
        let server = start(&ServerOptions { receive, ..multishot("") }, "127.0.0.1:0");
        let mut stays = connections(&server, 1);
        let mut goes = server.address().connect().unwrap();
        goes.write_all(&exchange(1, &[(10, 60_000_000)]).0).unwrap();
        counted_when(&server, |c| c.bytes_out > 0);
        drop(goes);
        let c = counted_when(&server, |c| c.reset > 0);
        assert_eq!((c.accepted, c.reset, c.closed, c.cut_off), (2, 1, 0, 0));
        all_at_once(&mut stays, &[(64, 64)]);
    }
}

#[test]
fn a_wait_for_many_completions_ends_at_its_timeout_or_minimum() {
    let span = || Some("1ms".parse().unwrap());
    let wait = ServerOptions { wait_for: 64, ..multishot("defer_taskrun,single_issuer") };
    let mut kinds = vec![ServerOptions { wait_timeout: span(), ..wait.clone() }];
    let config = Config { sq_entries: 1, waits: Waits { min_us: 1, ..Waits::default() }, ..Config::default() };
    if io_uring::open_ring(&config, &WORDS).is_ok() {
        kinds.push(ServerOptions { min_wait: span(), ..wait });
    }
    for options in kinds {
        let server = start(&options, "127.0.0.1:0");
        let mut sockets = connections(&server, 3);
        for _ in 0..5 {
            all_at_once(&mut sockets, &[(64, 64)]);
        }
        let counts = counted_when(&server, |c| c.requests == 15);
        assert_eq!(counts.accepted, 3);
        // Each wait with a minimum ends with a completion.
        assert!(options.min_wait.is_none() || counts.loops <= 2 * (3 + 15), "{counts:?}");
    }
}

#[test]
fn direct_descriptors_are_reused() {
    let options = ServerOptions { register: "files".into(), ..multishot("") };
    let server = start(&options, "127.0.0.1:0");
    for round in 1..=3 {
        let mut sockets = connections(&server, 20);
        all_at_once(&mut sockets, &[(64, 64)]);
        drop(sockets);
        counted_when(&server, |c| c.closed == 20 * round);
    }
}
