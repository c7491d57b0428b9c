//! Either side is lost during the run: the measurement so far is kept.

use serde_json::json;

use super::{Server, codes, line, number, whole};
use crate::tool::{Place, end, kill, run, wait_for};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("net::the_last_report_of_a_killed_server_is_kept_by_the_sender", killed_server),
    ("net::an_interrupted_server_delivers_its_partial_measurement", stopped_server),
    ("net::a_killed_sender_leaves_the_server_free_for_the_next_one", killed_sender),
];

fn killed_server() -> End {
    let place = Place::new();
    let mut server = Server::start(&place, "");
    let sender = server.load(&place, "--runtime 60s --warmup 0 --window 2").spawn().expect("the tool starts");
    // Printed and sent seconds end at different times, and one may be late.
    (0..3).for_each(|_| server.answers());
    kill(server.child.id(), libc::SIGKILL);
    let ended = end(sender);
    assert_eq!(ended.status, 3, "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    let m = ended.json();
    let told = number(&m["net"]["server"]["total"]["requests"]);
    assert!(told > 0 && told <= number(&m["net"]["sender"]["requests"]), "{told} of {}", m["net"]["sender"]);
    assert_eq!(m["net"]["server"]["threads"], json!([]));
    assert_eq!(m["load"]["engine"], "epoll");
    assert_eq!(m["latency_ns"]["count"], m["ios"]);
    assert!(codes(&m).contains(&"server_lost"), "{:?}", codes(&m));
    end(server.child);
    End::Passed
}

fn stopped_server() -> End {
    let place = Place::new();
    let mut server = Server::start(&place, "");
    let sender = server.load(&place, "--runtime 60s --warmup 0").spawn().expect("the tool starts");
    server.answers();
    let (_, record) = server.stop();
    assert_eq!((number(&record["spans"]), number(&record["broken_spans"])), (0, 1));
    let ended = end(sender);
    assert_eq!(ended.status, 3, "{}", ended.stderr);
    let m = ended.json();
    let threads = m["net"]["server"]["threads"].as_array().expect("a list").len();
    assert!(threads > 0 && number(&m["net"]["server"]["total"]["requests"]) > 0, "it has said what it had");
    End::Passed
}

fn killed_sender() -> End {
    let place = Place::new();
    let mut server = Server::start(&place, "");
    let sender = server.load(&place, "--runtime 60s --warmup 0").spawn().expect("the tool starts");
    server.answers();
    kill(sender.id(), libc::SIGKILL);
    assert_eq!(end(sender).status, 128 + libc::SIGKILL);
    let said = wait_for("the server's line", || Some(line(&mut server.child)).filter(|l| l.starts_with("iotrail: ")));
    assert!(said.contains("the sender (4 connections) disconnected during a measurement"), "{said}");
    whole(&run(&mut server.load(&place, "--count 100")).ok().json());
    let (_, record) = server.stop();
    assert_eq!((number(&record["spans"]), number(&record["broken_spans"])), (1, 1));
    End::Passed
}
