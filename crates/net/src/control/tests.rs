//! Tests both ends against each other, and each against misbehaving peers.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::guest::{Guest, Unmet};
use super::host::{Event, Host};
use super::message::{FromServer, Machine, Measured, Welcome};
use super::*;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::net_record::{SenderPlan, ServerCounts, ServerRecord};

fn asked() -> SenderPlan {
    SenderPlan { connections: 4, window: 2, request_bytes: 64, response_bytes: 64, ..SenderPlan::default() }
}

fn welcome() -> FromServer {
    FromServer::Welcome(Box::new(Welcome {
        protocol: PROTOCOL,
        version: "1".into(),
        kernel: "6.18".into(),
        engine: "epoll".into(),
        options: serde_json::Map::new(),
        granted: vec![],
        machine: Machine::of_this_process(),
    }))
}

fn counts(requests: u64) -> ServerCounts {
    let mut counts = ServerCounts::default();
    counts.counts.requests = requests;
    counts
}

fn measured(whole: bool, requests: u64) -> FromServer {
    let server = ServerRecord { total: counts(requests), ..ServerRecord::default() };
    let measurement = Measurement { ios: Some(requests), ..Measurement::default() };
    FromServer::Measured(Box::new(Measured { whole, measurement, server }))
}

fn host() -> Host {
    Host::listen(&"127.0.0.1:0".parse().unwrap()).unwrap()
}

/// The next event; every test needs much less time than the limit.
fn next(host: &mut Host) -> Event {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(event) = host.next(until).unwrap() {
            return event;
        }
    }
    panic!("nothing happened");
}

/// Waits until this many connections were rejected.
fn refuses(host: &mut Host, many: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    while host.refused() < many && Instant::now() < until {
        assert_eq!(host.next(Instant::now() + Duration::from_millis(20)).unwrap(), None);
    }
    assert_eq!(host.refused(), many);
}

fn connect(host: &Host) -> TcpStream {
    let socket = host.address().connect().unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn rest(mut stream: &TcpStream) -> String {
    let mut text = String::new();
    // Closing a connection with unread data resets it.
    let _ = stream.read_to_string(&mut text);
    text
}

fn hello(protocol: u32) -> String {
    format!(
        "{{\"hello\":{{\"protocol\":{protocol},\"version\":\"9\",\"asked\":{}}}}}\n",
        serde_json::to_string(&asked()).unwrap()
    )
}

#[test]
fn control_addresses_are_derived_from_data_addresses() {
    let of = |place: &str, data: &str| {
        let place: Place = place.parse().unwrap();
        place.of(&data.parse().unwrap()).map(|a| a.map(|a| a.to_string()))
    };
    assert_eq!(of("none", "127.0.0.1:7000").unwrap(), None);
    assert_eq!(of("[::1]:9", "127.0.0.1:7000").unwrap().as_deref(), Some("[::1]:9"));
    let beside = |data: &str| Place::Beside.of(&data.parse().unwrap()).map(|a| a.map(|a| a.to_string()));
    assert_eq!(beside("127.0.0.1:7000").unwrap().as_deref(), Some("127.0.0.1:7001"));
    assert_eq!(beside("unix:/run/x").unwrap().as_deref(), Some("unix:/run/x.control"));
    assert!(beside("127.0.0.1:65535").unwrap_err().to_string().contains("--control ADDRESS"));
}

#[test]
fn a_measurement_session_runs_from_hello_to_bye() {
    let mut host = host();
    let address = host.address().clone();
    let sender = std::thread::spawn(move || {
        let mut guest = Guest::greet(&address, &asked()).ok().unwrap();
        assert_eq!(guest.welcome().engine, "epoll");
        guest.begin().unwrap();
        let measured = guest.end().unwrap();
        (guest.seconds().len(), measured)
    });
    let Event::Hello(hello) = next(&mut host) else { panic!("a hello comes first") };
    assert_eq!((hello.protocol, hello.asked), (PROTOCOL, asked()));
    host.say(&welcome());
    assert_eq!(next(&mut host), Event::Begin);
    host.say(&FromServer::Begun);
    host.say(&FromServer::Second(Box::new(counts(5))));
    assert_eq!(next(&mut host), Event::End);
    host.say(&FromServer::Second(Box::new(counts(6))));
    host.say(&measured(true, 11));
    assert_eq!(next(&mut host), Event::Left);
    let (seconds, measured) = sender.join().unwrap();
    assert_eq!((seconds, measured.whole, measured.server.total.counts.requests), (2, true, 11));
    assert_eq!(host.refused(), 0);
}

#[test]
fn a_peer_that_is_not_a_sender_is_rejected_and_takes_no_slot() {
    let mut host = host();
    let silent = connect(&host);
    for (said, reason) in [
        ("GET / HTTP/1.0\n".to_owned(), "not an iotrail hello"),
        ("\"begin\"\n".into(), "not an iotrail hello"),
        (hello(2), "use the same version on both sides"),
        ("{\"hello\":{\"protocol\":2,\"version\":\"x\",\"new\":1}}\n".into(), "iotrail x, speaks 2"),
    ] {
        let before = host.refused();
        let mut stream = connect(&host);
        stream.write_all(said.as_bytes()).unwrap();
        refuses(&mut host, before + 1);
        let line = rest(&stream);
        assert!(line.starts_with("{\"refused\":{\"why\":\"") && line.contains(reason), "{said}: {line}");
    }
    // Longer than any message, and not text. Whether the reason arrives depends on the kernel.
    for said in [vec![b'x'; 200 << 10], vec![0xff, b'\n']] {
        let before = host.refused();
        let mut stream = connect(&host);
        // The connection may be closed before everything is written.
        let _ = stream.write_all(&said);
        refuses(&mut host, before + 1);
    }
    drop(connect(&host));
    refuses(&mut host, 7);
    let mut sender = connect(&host);
    sender.write_all(hello(PROTOCOL).as_bytes()).unwrap();
    assert!(matches!(next(&mut host), Event::Hello(_)), "the place is free all the same");
    drop(silent);
    refuses(&mut host, 8);
}

#[test]
fn only_one_sender_is_admitted_until_it_leaves() {
    let mut host = host();
    let mut first = connect(&host);
    first.write_all(hello(PROTOCOL).as_bytes()).unwrap();
    assert!(matches!(next(&mut host), Event::Hello(_)));
    let mut second = connect(&host);
    second.write_all(hello(PROTOCOL).as_bytes()).unwrap();
    refuses(&mut host, 1);
    assert!(rest(&second).contains("another sender is connected"));
    drop(first);
    assert_eq!(next(&mut host), Event::Left);
    let mut third = connect(&host);
    third.write_all(hello(PROTOCOL).as_bytes()).unwrap();
    assert!(matches!(next(&mut host), Event::Hello(_)));
    third.write_all(b"what?\n").unwrap();
    assert_eq!(next(&mut host), Event::Left, "garbage costs it the place");
    assert!(rest(&third).contains("not an iotrail message"));
    let mut fourth = connect(&host);
    fourth.write_all(hello(PROTOCOL).as_bytes()).unwrap();
    assert!(matches!(next(&mut host), Event::Hello(_)));
    // The peer no longer reads; an error here is expected.
    fourth.shutdown(Shutdown::Both).unwrap();
    host.say(&FromServer::Begun);
    assert_eq!(next(&mut host), Event::Left);
}

#[test]
fn seconds_reported_before_the_server_was_lost_are_kept() {
    for stopped in [true, false] {
        let mut host = host();
        let address = host.address().clone();
        let sender = std::thread::spawn(move || {
            let mut guest = Guest::greet(&address, &asked()).ok().unwrap();
            guest.begin().unwrap();
            let ended = guest.end();
            (guest.seconds().to_vec(), ended)
        });
        assert!(matches!(next(&mut host), Event::Hello(_)));
        host.say(&welcome());
        assert_eq!(next(&mut host), Event::Begin);
        host.say(&FromServer::Begun);
        host.say(&FromServer::Second(Box::new(counts(5))));
        if stopped {
            // More data than the socket buffers hold.
            let FromServer::Measured(mut part) = measured(false, 7) else { unreachable!() };
            part.server.version = "x".repeat(16 << 20);
            host.hand_over(&FromServer::Measured(part));
        }
        drop(host);
        let (seconds, ended) = sender.join().unwrap();
        assert_eq!(seconds, [counts(5)]);
        match ended {
            Ok(measured) => assert!(stopped && !measured.whole && measured.measurement.ios == Some(7)),
            Err(e) => assert!(!stopped && e.to_string().contains("was lost"), "{e}"),
        }
    }
}

#[test]
fn a_sender_distinguishes_a_foreign_server_from_a_rejection() {
    let unmet = |answer: Option<String>| {
        let (listener, address) = "127.0.0.1:0".parse::<Address>().unwrap().listen(false).unwrap();
        listener.set_nonblocking(false).unwrap();
        let stranger = std::thread::spawn(move || {
            let mut stream = TcpStream::from(listener.accept().unwrap().0);
            let mut said = [0; 1 << 10];
            let n = stream.read(&mut said).unwrap();
            assert!(said[..n].starts_with(b"{\"hello\":{\"protocol\":1,"));
            if let Some(answer) = answer {
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let unmet = Guest::greet(&address, &asked()).err().unwrap();
        stranger.join().unwrap();
        unmet
    };
    let not_ours = |answer: Option<&str>| matches!(unmet(answer.map(str::to_owned)), Unmet::NotOurs(_));
    assert!(not_ours(None));
    assert!(not_ours(Some("HTTP/1.1 400 Bad Request\r\n\r\n")));
    assert!(not_ours(Some("\"begun\"\n")));
    for (answer, why) in [
        ("{\"refused\":{\"why\":\"no\"}}\n", "refuses to be measured: no; "),
        ("{\"welcome\":{\"protocol\":3,\"version\":\"8\",\"kernel\":1}}\n", "iotrail 8, speaks 3"),
    ] {
        let Unmet::Refused(e) = unmet(Some(answer.into())) else { panic!("{answer} is a refusal") };
        assert!(e.to_string().contains(why) && e.exit_status() == 3, "{e}");
    }
    let (gone, at) = "127.0.0.1:0".parse::<Address>().unwrap().listen(false).unwrap();
    drop(gone);
    assert!(matches!(Guest::greet(&at, &asked()), Err(Unmet::NotOurs(_))));
}

#[test]
fn two_processes_on_one_machine_are_detected() {
    let here = Machine::of_this_process();
    assert_eq!(here.between(&here.clone()), "loopback");
    assert_eq!(here.between(&Machine { net_namespace: None, ..here.clone() }), "namespaces");
    assert_eq!(here.between(&Machine { boot_id: Some("x".into()), ..here.clone() }), "hosts");
    let unknown = Machine { boot_id: None, net_namespace: None };
    assert_eq!((unknown.between(&unknown), here.between(&unknown)), ("hosts", "hosts"));
}
