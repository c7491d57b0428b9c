//! Servers with one fault each: every load ends, with one line that names the fault.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::*;
use crate::wire::HEADER;
use iotrail_base::units::Bytes;

/// A request from a connection, with the bytes of its response; `None` if the sender has left.
pub(super) fn next(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut header = [0; HEADER];
    socket.read_exact(&mut header).ok()?;
    let [body, response] = [0, 4].map(|at| u32::from_le_bytes(std::array::from_fn(|i| header[at + i])) as usize);
    let mut bytes = vec![0; body];
    socket.read_exact(&mut bytes).ok()?;
    assert_eq!(body, response, "these servers echo");
    Some(bytes)
}

/// Serves each connection on a separate thread, which ends with it.
pub(super) fn bad(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let serve = Arc::new(serve);
    // Waits for connections until the tests end.
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(std::result::Result::ok) {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(socket));
        }
    });
    address
}

/// Answers the first `right` requests correctly; then passes the connection and the next request's bytes to `wrong`.
fn after(right: usize, wrong: impl Fn(&mut TcpStream, Vec<u8>) + Send + Sync + 'static) -> Address {
    bad(move |mut socket| {
        for n in 0.. {
            let Some(bytes) = next(&mut socket) else { return };
            if n == right {
                return wrong(&mut socket, bytes);
            }
            if socket.write_all(&bytes).is_err() {
                return;
            }
        }
    })
}

/// Keeps the connection open until the sender closes it.
fn wait_for_the_end(socket: &mut TcpStream) {
    while socket.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {}
}

/// Two requests in flight on one connection, measured from the first request.
fn two_in_flight() -> SenderOptions {
    SenderOptions { connections: 1, window: 2, warmup: Span(Duration::ZERO), ..options() }
}

fn giving_up(ms: u64) -> SenderOptions {
    SenderOptions { give_up: Span(Duration::from_millis(ms)), ..two_in_flight() }
}

/// The load fails with this message and returns no result.
fn fails(options: &SenderOptions, address: &Address, said: &str) {
    let e = send(options, address).map(|sent| sent.record).unwrap_err();
    assert_eq!(e.exit_status(), 3);
    let e = e.to_string();
    assert!(e.contains(said), "{e}");
    assert!(!e.contains('\n'));
}

/// The load ends with this message and `responses` measured responses, and all requests are accounted for.
fn breaks_off(options: &SenderOptions, address: &Address, responses: u64, said: &str) {
    let sent = send(options, address).unwrap();
    let e = sent.broken_off.as_ref().unwrap().to_string();
    assert!(e.contains(said), "{e}");
    let r = &sent.record;
    assert_eq!((r.responses, r.requests - r.unanswered, r.broken), (responses, responses, 1), "{e}");
    assert!(sent.warnings.iter().any(|w| w.code == "broken_off"));
    // The time before giving up is not measured.
    assert!(u128::from(sent.elapsed_ns) < options.give_up.0.as_nanos());
}

#[test]
fn swapped_responses_on_a_connection_are_detected() {
    let at = after(4, |socket, first| {
        let Some(second) = next(socket) else { return };
        let _ = socket.write_all(&[second, first].concat());
        wait_for_the_end(socket);
    });
    let said = "the response to request 5 of connection 1 belongs to its request 6 (swapped), after 4 right ones";
    fails(&two_in_flight(), &at, said);
}

#[test]
fn responses_swapped_between_connections_are_detected() {
    let held = std::sync::Mutex::new(None);
    let turn = std::sync::Barrier::new(2);
    // Each of two connections gets the other's response.
    let at = after(0, move |socket, bytes| {
        held.lock().unwrap().get_or_insert_with(Vec::new).push((socket.peer_addr().unwrap(), bytes));
        turn.wait();
        let me = socket.peer_addr().unwrap();
        let other = held.lock().unwrap().iter().flatten().find(|(peer, _)| *peer != me).unwrap().1.clone();
        let _ = socket.write_all(&other);
        wait_for_the_end(socket);
    });
    let o = SenderOptions { connections: 2, window: 1, ..two_in_flight() };
    fails(&o, &at, "(swapped), after 0 right ones");
}

#[test]
fn a_wrong_byte_in_a_response_is_reported_with_its_offset() {
    for offset in [0, 8, 63, 4999] {
        let at = after(3, move |socket, mut bytes| {
            bytes[offset] ^= 1;
            let _ = socket.write_all(&bytes);
            wait_for_the_end(socket);
        });
        let size = if offset > 63 { 5000 } else { 64 };
        let o = SenderOptions { request: Bytes(size), response: Bytes(size), ..two_in_flight() };
        fails(
            &o,
            &at,
            &format!("the response to request 4 of connection 1 is wrong at offset {offset} of {size} bytes"),
        );
    }
}

#[test]
fn too_short_and_too_long_responses_are_detected() {
    let at = after(2, |socket, bytes| {
        let Some(second) = next(socket) else { return };
        let _ = socket.write_all(&[&bytes[..60], &second].concat());
        wait_for_the_end(socket);
    });
    fails(&two_in_flight(), &at, "request 3 of connection 1 is too short: the next one begins after 60 of 64 bytes");
    let at = after(2, |socket, bytes| {
        let Some(second) = next(socket) else { return };
        let _ = socket.write_all(&[&bytes[..], b"more", &second].concat());
        wait_for_the_end(socket);
    });
    fails(
        &two_in_flight(),
        &at,
        "the response before the response to request 4 of connection 1 is too long by 4 bytes",
    );
    let at = after(0, |socket, bytes| {
        let _ = socket.write_all(&[&bytes[..], b"more"].concat());
        wait_for_the_end(socket);
    });
    fails(
        &SenderOptions { window: 1, ..two_in_flight() },
        &at,
        "connection 1 received 4 bytes that no request had asked for",
    );
    let o = SenderOptions { window: 1, check: crate::options::Check::Size, ..two_in_flight() };
    fails(&o, &at, "connection 1 received 4 bytes that no request had asked for");
}

#[test]
fn check_size_ignores_the_content_of_responses() {
    let at = bad(|mut socket| {
        while let Some(bytes) = next(&mut socket) {
            let _ = socket.write_all(&vec![0; bytes.len()]);
        }
    });
    fails(&SenderOptions { window: 1, ..two_in_flight() }, &at, "is wrong at offset");
    let o = SenderOptions { check: crate::options::Check::Size, ..two_in_flight() };
    assert_eq!(send(&o, &at).unwrap().responses, 1000);
}

#[test]
fn a_silent_connection_is_given_up_after_the_timeout() {
    let said =
        |span: &str| format!("connection 1 was given up after {span} without a response (requests in flight: 2)");
    let silent = after(0, |socket, _| wait_for_the_end(socket));
    fails(&giving_up(200), &silent, &said("200ms"));
    // Leaves enough time for the correct responses before, even on a busy machine.
    let later = after(5, |socket, _| wait_for_the_end(socket));
    breaks_off(&giving_up(1000), &later, 5, &said("1s"));
    let midway = after(5, |socket, bytes| {
        let _ = socket.write_all(&bytes[..12]);
        wait_for_the_end(socket);
    });
    let said = "12 of 64 bytes of the response to request 6 had arrived; 5 requests had been answered";
    breaks_off(&giving_up(1000), &midway, 5, said);
}

/// A trickle does not count as an answer: it would end eventually, but the sender does not wait for it.
#[test]
fn a_response_that_trickles_in_does_not_extend_the_timeout() {
    let at = after(2, |socket, bytes| {
        for byte in bytes {
            std::thread::sleep(Duration::from_millis(100));
            if socket.write_all(&[byte]).is_err() {
                return;
            }
        }
    });
    breaks_off(&giving_up(1000), &at, 2, "bytes of the response to request 3 had arrived");
}

#[test]
fn a_server_that_never_reads_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = Address::Tcp(listener.local_addr().unwrap());
    let o = SenderOptions { request: Bytes(16 << 20), ..giving_up(200) };
    fails(&o, &at, "connection 1 was given up after 200ms");
    // A UNIX socket with a full queue from which nothing is accepted.
    let dir = tempfile::tempdir().unwrap();
    let (_listener, at) = Address::Unix(dir.path().join("s")).listen(false).unwrap();
    fails(&o, &at, "was given up after 200ms");
}

#[test]
fn connections_that_are_never_accepted_are_given_up() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.listen(0).unwrap();
    let at = Address::Tcp(socket.local_addr().unwrap().as_socket().unwrap());
    // The queue holds one or two connections, so of ten, some get no answer.
    fails(&SenderOptions { connections: 10, ..giving_up(200) }, &at, "cannot connect to 127.0.0.1:");
    // Nor does it delay a stop.
    let many = spec(&SenderOptions { connections: 10, ..two_in_flight() });
    let e = run(&many, &at, &mut |_| Ok(()), &mut |_| {}, &AtomicBool::new(true)).unwrap_err();
    assert_eq!(e.to_string(), "the load was stopped before the first measurement");
    drop(socket);
    fails(&two_in_flight(), &at, "Connection refused");
    let nowhere = Address::Unix("/nonexistent/socket".into());
    fails(
        &two_in_flight(),
        &nowhere,
        "check that a server is running there: iotrail net serve unix:/nonexistent/socket",
    );
}

#[test]
fn a_closed_connection_ends_the_load_with_an_error() {
    let closed = after(0, |_, _| {});
    let e = send(&two_in_flight(), &closed).unwrap_err().to_string();
    assert!(e.contains("connection 1 was closed by the server") || e.contains("connection 1 broke"), "{e}");
    let midway = after(3, |socket, bytes| {
        // Also read the next request, because closing a socket with unread input resets the connection.
        next(socket);
        let _ = socket.write_all(&bytes[..10]);
    });
    let said =
        "was closed by the server when 10 of 64 bytes of the response to request 4 had arrived (requests in flight: 2)";
    breaks_off(&two_in_flight(), &midway, 3, said);
    let reset = after(3, |socket, _| {
        socket2::SockRef::from(&*socket).set_linger(Some(Duration::ZERO)).unwrap();
    });
    breaks_off(&two_in_flight(), &reset, 3, "connection 1 broke (requests in flight: ");
    // A failure before the measured stage yields no result.
    let o = SenderOptions { warmup: Span(Duration::from_secs(60)), ..two_in_flight() };
    fails(&o, &midway, "was closed by the server");
}

/// The measured stage lasts until the test ends it.
fn long() -> SenderOptions {
    SenderOptions { count: None, runtime: Some(Span(Duration::from_secs(3600))), window: 2, ..options() }
}

#[test]
fn a_server_that_exits_under_load_ends_the_load_and_keeps_its_results() {
    let mut running = Some(server("127.0.0.1:0"));
    let at = running.as_ref().unwrap().address().clone();
    let sent = run(
        &spec(&SenderOptions { idle_connections: 3, ..long() }),
        &at,
        &mut |_| Ok(()),
        &mut |p| {
            if p.doing == Doing::Measuring && p.done > 0 {
                running = None;
            }
        },
        &NOT_STOPPED,
    )
    .unwrap();
    let r = &sent.record;
    assert!(r.responses > 0 && sent.broken_off.is_some() && !sent.interrupted);
    assert_eq!((r.requests, sent.histogram.len()), (r.responses + r.unanswered, r.responses));
    assert!((1..=7).contains(&r.broken), "{r:?}");
}

#[test]
fn a_load_with_reconnect_continues_after_a_server_restart() {
    for rate in [None, Some(5000.0)] {
        let first = server("127.0.0.1:0");
        let at = first.address().clone();
        let (mut running, mut second, mut nothing) = (Some(first), None, None);
        let stop = AtomicBool::new(false);
        let o = SenderOptions { reconnect: true, idle_connections: 3, rate, ..long() };
        let sent = run(
            &spec(&o),
            &at,
            &mut |_| Ok(()),
            &mut |p| {
                if p.doing != Doing::Measuring || p.done == 0 {
                    return;
                }
                // Killed at the first call, restarted at the second, and checked at the last.
                if running.take().is_some() {
                    return;
                }
                let server = second.get_or_insert_with(|| server(&at.to_string()));
                let start = nothing.get_or_insert_with(|| server.look());
                if server.look().since(start).1.counts.requests > 100 {
                    stop.store(true, Ordering::Relaxed);
                }
            },
            &stop,
        )
        .unwrap();
        let r = &sent.record;
        assert!(sent.broken_off.is_none() && sent.interrupted);
        assert!(r.broken >= 4 && r.reconnects >= 4, "{r:?}");
        assert_eq!((r.requests, sent.histogram.len()), (r.responses + r.unanswered, r.responses));
        assert!(sent.warnings.iter().any(|w| w.code == "idle_closed"));
        assert_eq!(sent.warnings.iter().any(|w| w.code == "unanswered"), r.unanswered > 0);
    }
}

#[test]
fn a_load_with_reconnect_gives_up_if_the_server_does_not_return() {
    let mut running = Some(server("127.0.0.1:0"));
    let at = running.as_ref().unwrap().address().clone();
    let o = SenderOptions { reconnect: true, give_up: Span(Duration::from_millis(200)), ..long() };
    let mut progress = |p: Progress| {
        if p.doing == Doing::Measuring && p.done > 0 {
            running = None;
        }
    };
    let sent = run(&spec(&o), &at, &mut |_| Ok(()), &mut progress, &NOT_STOPPED).unwrap();
    let e = sent.broken_off.unwrap().to_string();
    assert!(e.contains("cannot connect to") && e.contains("Connection refused"), "{e}");
}
