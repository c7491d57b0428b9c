//! Faulty peers, and unavailable features: one line each, while other peers continue.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use super::{Server, codes, connect, line, number, whole};
use crate::tool::{BINARY, Place, end, kill, run, wait_for};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("net::an_address_in_use_or_invalid_is_one_error_line", addresses),
    ("net::another_version_is_rejected_on_both_sides", versions),
    ("net::garbage_and_partial_requests_do_not_stop_the_server", garbage),
    ("net::a_server_at_its_file_limit_reports_it_and_continues", descriptors),
    ("net::a_second_sender_is_rejected_and_the_first_continues", second_sender),
];

fn addresses() -> End {
    let place = Place::new();
    let server = Server::start(&place, "");
    for (status, said, command) in [
        (3, "cannot listen at", format!("net serve {} --engine epoll --control none", server.address)),
        (3, "cannot listen at", format!("net serve 127.0.0.1:0 --engine epoll --control {}", server.control)),
        (2, "is not an address", "net serve 127.0.0.1 --engine epoll".into()),
        (2, "is not an address", "net load here".into()),
        (2, "has no socket path", "net load unix:".into()),
        (2, "for the control connection", "net load 127.0.0.1:65535".into()),
        (3, "cannot listen at unix:/no/such/folder/s", "net serve unix:/no/such/folder/s --engine epoll".into()),
    ] {
        let ended = run(&mut place.tool(command.split(' ')));
        assert_eq!(ended.status, status, "{command}: {}", ended.stderr);
        assert!(ended.one_line().contains(said), "{command}: {}", ended.stderr);
    }
    let address = server.address.clone();
    server.stop();
    let ended = run(&mut place.tool(["net", "load", &address, "--control", "none", "--give-up", "1s"]));
    assert_eq!(ended.status, 3, "{}", ended.stderr);
    assert!(ended.one_line().contains(&address), "{}", ended.stderr);
    End::Passed
}

fn versions() -> End {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut newer = connect(&server.control);
    newer.write_all(b"{\"hello\":{\"protocol\":2,\"version\":\"77.0\",\"what\":1}}\n").expect("it listens");
    let mut said = String::new();
    newer.read_to_string(&mut said).expect("a line, and the end");
    let said: Value = serde_json::from_str(&said).expect("one line of JSON");
    let why = said["refused"]["why"].as_str().expect("a reason");
    assert!(why.contains("iotrail 77.0, speaks 2") && why.contains("same version on both sides"), "{why}");

    let newer = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = newer.local_addr().expect("its address").to_string();
    let hand = std::thread::spawn(move || {
        let (mut stream, _) = newer.accept().expect("the sender comes");
        let mut hello = [0; 4096];
        let n = stream.read(&mut hello).expect("a hello");
        let hello: Value = serde_json::from_slice(&hello[..n]).expect("one line of JSON");
        assert_eq!((&hello["hello"]["protocol"], &hello["hello"]["asked"]["connections"]), (&json!(1), &json!(4)));
        stream.write_all(b"{\"welcome\":{\"protocol\":9,\"version\":\"88.0\"}}\n").expect("it listens");
    });
    let ended = run(&mut place.tool(["net", "load", &server.address, "--control", &at]));
    hand.join().expect("the hand was done");
    assert_eq!(ended.status, 3);
    assert!(ended.one_line().contains("iotrail 88.0, speaks 9"), "{}", ended.stderr);
    let (_, record) = server.stop();
    assert_eq!((number(&record["refused"]), number(&record["total"]["accepted"])), (1, 0));
    End::Passed
}

fn garbage() -> End {
    let place = Place::new();
    let server = Server::start(&place, "--server-threads 1");
    // All connections that the server does not close stay open while a sender is measured.
    let mut hands = Vec::new();
    for said in [&b"GET / HTTP/1.0\r\n\r\n"[..], b"\xff\xfe\x00\n", b"{\"hello\":", b""] {
        let mut stream = connect(&server.control);
        stream.write_all(said).expect("it listens");
        hands.push(stream);
    }
    let mut half = connect(&server.address);
    half.write_all(&[64, 0, 0, 0, 64, 0, 0, 0, 1, 2, 3]).expect("it listens");
    let mut silent = connect(&server.address);
    let mut bad = connect(&server.address);
    bad.write_all(&[0xff; 64]).expect("it listens");
    assert_eq!(bad.read(&mut [0; 8]).unwrap_or(0), 0, "it is ended");
    let m = run(&mut server.load(&place, "--count 2000 --window 4")).ok().json();
    whole(&m);
    drop(half);
    silent.write_all(&[1, 0, 0, 0, 2, 0, 0, 0, 7]).expect("it is still there");
    let mut answer = [0; 2];
    silent.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, [7, 7], "half of a request that another one sent is none of its affair");
    drop(silent);
    let (_, record) = server.stop();
    // On the control port, one connection has sent nothing and one half a line; neither has timed out yet.
    assert!((2..=4).contains(&number(&record["refused"])), "{}", record["refused"]);
    assert_eq!((number(&record["total"]["garbage"]), number(&record["spans"])), (1, 1));
    End::Passed
}

fn descriptors() -> End {
    let place = Place::new();
    let limited = ["-c", "ulimit -n 40 && exec \"$0\" net serve \"$@\"", BINARY];
    let at = "127.0.0.1:0 --control 127.0.0.1:0 --server-threads 1";
    let mut server = Server::by(place.command("/bin/sh".as_ref(), limited), at);
    let hands: Vec<TcpStream> = (0..60).map(|_| connect(&server.address)).collect();
    let said = wait_for("the server's line", || Some(line(&mut server.child)).filter(|l| l.starts_with("iotrail: ")));
    let allowed =
        said.strip_prefix("iotrail: no more connections can be accepted: the open file limit (40 here) allows ");
    let allowed = allowed.and_then(|rest| rest.split_once(" connections; ")).unwrap_or_else(|| panic!("{said}")).0;
    let allowed: u64 = allowed.parse().expect("a number");
    assert!((20..40).contains(&allowed), "{said}");
    drop(hands);
    whole(&run(&mut server.load(&place, "--count 100")).ok().json());
    let (_, record) = server.stop();
    assert!(record["warnings"].as_array().is_some_and(|w| w.iter().any(|w| w["code"] == "accept_failed")));
    // The waiting connections were accepted after others had closed.
    assert_eq!(number(&record["total"]["accepted"]), 64);
    End::Passed
}

fn second_sender() -> End {
    let place = Place::new();
    let mut server = Server::start(&place, "");
    let first = server.load(&place, "--runtime 60s --warmup 0").spawn().expect("the tool starts");
    server.answers();
    let ended = run(&mut server.load(&place, "--count 1"));
    assert_eq!(ended.status, 3);
    assert!(
        ended.one_line().contains("another sender is connected; the server accepts one at a time"),
        "{}",
        ended.stderr
    );
    kill(first.id(), libc::SIGINT);
    let ended = end(first);
    assert_eq!(ended.status, 1);
    let m = ended.json();
    whole(&m);
    assert!(codes(&m).contains(&"interrupted"), "{:?}", codes(&m));
    let (_, record) = server.stop();
    assert_eq!((number(&record["refused"]), number(&record["spans"])), (1, 1));
    End::Passed
}
