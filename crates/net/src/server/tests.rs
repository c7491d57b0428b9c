//! Tests every engine with plain blocking sockets as peers.

use std::io::{Read, Write};

use super::*;
use crate::options::{Accept, Receive, ServerOptions, Trigger};
use crate::wire::Content;

/// Request bytes, and the bytes of their answers.
pub(super) fn exchange(connection: u64, sizes: &[(u32, u32)]) -> (Vec<u8>, Vec<u8>) {
    let (mut asked, mut wanted) = (vec![], vec![]);
    for (number, &(body, response)) in (0u64..).zip(sizes) {
        let content = Content { connection, number };
        content.request(body, response, &mut asked);
        content.response(body, response, &mut wanted);
    }
    (asked, wanted)
}

fn each_engine() -> Vec<ServerOptions> {
    let engine = |engine| ServerOptions { engine, server_threads: Some(2), ..ServerOptions::default() };
    let small = |options| ServerOptions { buffer_size: "64".parse().unwrap(), ..options };
    let mut all = vec![
        engine(ServerEngine::Epoll),
        small(ServerOptions { trigger: Trigger::Edge, ..engine(ServerEngine::Epoll) }),
    ];
    let rings = ["", "coop_taskrun,submit_all", "defer_taskrun,single_issuer,taskrun_flag,cqsize=4096", "sqpoll"];
    let registered = ["", "files", "ring", "files,ring"];
    // Each kind of receive with each ring, cycling through the other options.
    for (i, receive) in
        [Receive::Single, Receive::Provided, Receive::Multishot, Receive::Bundle].into_iter().enumerate()
    {
        for (j, ring) in rings.into_iter().enumerate() {
            let options = ServerOptions {
                receive,
                ring: ring.into(),
                register: registered[(i + j) % registered.len()].into(),
                accept: if (i + j) % 2 == 0 { Accept::Single } else { Accept::Multishot },
                zero_copy: (j == i).then(|| "64".parse().unwrap()),
                ..engine(ServerEngine::IoUring)
            };
            all.push(if j % 2 == 0 { options } else { small(ServerOptions { buffers: 2, ..options }) });
        }
    }
    all
}

pub(super) fn start(options: &ServerOptions, at: &str) -> Server {
    let spec = ServerSpec::resolve(options, &[0]).unwrap();
    Server::start(spec, &at.parse().unwrap()).unwrap()
}

#[test]
fn each_engine_answers_requests_of_all_sizes_at_all_address_types() {
    let dir = tempfile::tempdir().unwrap();
    let unix = format!("unix:{}", dir.path().join("s").display());
    for options in each_engine() {
        for at in ["127.0.0.1:0", "[::1]:0", &unix] {
            if at == unix && options.zero_copy.is_some() {
                let refused = Server::start(ServerSpec::resolve(&options, &[0]).unwrap(), &at.parse().unwrap()).err();
                assert!(refused.unwrap().to_string().starts_with("a UNIX socket has no zero-copy sends; "));
                continue;
            }
            let server = start(&options, at);
            let before = server.look();
            let mut socket = server.address().connect().unwrap();
            let sizes = [(64, 64), (1, 1), (1, 300_000), (300_000, 1), (500_000, 500_000), (9, 0), (64, 4096)];
            for (number, (body, response)) in (0u64..).zip(sizes) {
                let (asked, wanted) = exchange(number, &[(body, response)]);
                // A server that waits for buffer space must not block this send: the kernel's buffers hold this much,
                // or the other half reads.
                let mut other = socket.try_clone().unwrap();
                let sender = std::thread::spawn(move || other.write_all(&asked).unwrap());
                let mut got = vec![0; response as usize];
                socket.read_exact(&mut got).unwrap();
                sender.join().unwrap();
                assert!(got == wanted, "{options:?} at {at}: request of {body}, response of {response}");
            }
            drop(socket);
            let counted = || server.look().since(&before).1.counts;
            while counted().closed == 0 {
                std::thread::yield_now();
            }
            let c = counted();
            assert_eq!((c.requests, c.accepted, c.closed), (sizes.len() as u64, 1, 1));
            assert_eq!(c.bytes_in, sizes.iter().map(|(body, _)| 8 + u64::from(*body)).sum::<u64>());
            assert_eq!(c.bytes_out, sizes.iter().map(|(_, response)| u64::from(*response)).sum::<u64>());
        }
    }
}

#[test]
fn garbage_or_a_partial_request_ends_only_its_connection() {
    for options in each_engine() {
        let server = start(&options, "127.0.0.1:0");
        let before = server.look();
        let mut good = server.address().connect().unwrap();
        let mut bad = server.address().connect().unwrap();
        bad.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(bad.read(&mut [0; 8]).unwrap_or(0), 0, "it is closed");
        let mut half = server.address().connect().unwrap();
        half.write_all(&[64, 0, 0, 0, 64]).unwrap();
        drop(half);
        let (asked, wanted) = exchange(1, &[(10, 10)]);
        good.write_all(&asked).unwrap();
        let mut got = vec![0; 10];
        good.read_exact(&mut got).unwrap();
        assert_eq!(got, wanted);
        while server.look().since(&before).1.counts.cut_off == 0 {
            std::thread::yield_now();
        }
        let c = server.look().since(&before).1.counts;
        assert_eq!((c.accepted, c.garbage, c.cut_off, c.requests), (3, 1, 1, 1));
    }
}
