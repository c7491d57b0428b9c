//! Both sides are measured, and a server without measurement.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};

use super::{Server, codes, number, whole};
use crate::measurement::check as fields;
use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("net::sender_and_server_count_the_same_requests", both),
    ("net::sender_and_server_counts_agree_with_reconnects_and_an_open_loop", come_and_go),
    ("net::the_json_of_sender_and_server_has_all_fields", json_fields),
    ("net::a_server_without_a_control_connection_is_reported_as_unmeasured", unmeasured),
    ("net::a_server_with_a_runtime_prints_a_table", table),
];

fn both() -> End {
    let place = Place::new();
    let unix = format!("unix:{}", place.join("s").display());
    let v4 = "127.0.0.1:0 --control 127.0.0.1:0";
    let ring = "--engine io_uring --ring defer_taskrun,single_issuer";
    for (at, engine, between) in [
        (v4, "", "loopback"),
        ("[::1]:0 --control [::1]:0", "", "loopback"),
        (&unix, "", "unix"),
        (v4, ring, "loopback"),
        (&unix, ring, "unix"),
        (v4, "--engine io_uring --receive multishot --register files,ring", "loopback"),
    ] {
        let server = Server::at(&place, &format!("{at} --server-threads 2 {engine}"));
        if between == "unix" {
            assert_eq!(server.control, format!("{unix}.control"), "beside it");
        }
        // One sender after another: each has its own measurement.
        for (options, requests) in
            [("--count 1000 --window 2", 1000), ("--count 300 --connections 1 --request 1k --response 9k", 300)]
        {
            let m = run(&mut server.load(&place, options)).ok().json();
            whole(&m);
            // Includes requests in flight when the last one is sent.
            assert!(number(&m["ios"]) >= requests, "{}", m["ios"]);
            assert_eq!(m["net"]["between"], between);
            assert_eq!(m["net"]["address"], server.address.as_str());
        }
        let (_, record) = server.stop();
        assert_eq!((number(&record["spans"]), number(&record["broken_spans"]), number(&record["refused"])), (2, 0, 0));
        assert_eq!(number(&record["total"]["accepted"]), 5);
    }
    assert!(!place.join("s").exists() && !place.join("s.control").exists(), "no socket is left");
    End::Passed
}

fn come_and_go() -> End {
    let place = Place::new();
    let server = Server::start(&place, "--server-threads 2 --trigger edge");
    let options = "--count 600 --connections 3 --window 2 --reconnect-after 20 --idle-connections 10 --store s.db";
    let m = run(&mut server.load(&place, options)).ok().json();
    whole(&m);
    let (net, total) = (&m["net"], &m["net"]["server"]["total"]);
    assert!(number(&net["sender"]["reconnects"]) >= 27, "{}", net["sender"]);
    assert_eq!(total["accepted"], net["sender"]["reconnects"], "those of the span, on both sides");
    assert!(number(&net["server"]["memory"]["connections"]) >= 10);
    let m = run(&mut server.load(&place, "--runtime 200ms --warmup 0 --rate 2000 --store s.db")).ok().json();
    whole(&m);
    assert_eq!(m["load"]["rate"], 2000.0);
    assert!(number(&m["ios"]) <= 401, "{}", m["ios"]);
    server.stop();
    let runs = run(&mut place.tool(["list", "--json", "--store", "s.db"])).ok().json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2));
    End::Passed
}

const COUNTS: &str = "requests number, bytes_in number, bytes_out number, loops number, completions number, receives number, sends number,
    short_sends number, zero_copy_sends number, zero_copy_copied number, accepted number, closed number, reset number, garbage number,
    cut_off number, accept_failures number, cq_overflows number, buffers_exhausted number, syscalls number, wall_ns number,
    user_ns number?, system_ns number?, idle_ns number?";

fn json_fields() -> End {
    let place = Place::new();
    let server = Server::start(&place, "--server-threads 1 --server-cpus 0");
    let m =
        run(&mut server.load(&place, "--runtime 100ms --warmup 10ms --connections 2 --window 3 --burst 2")).ok().json();
    fields(
        &m,
        "schema string, load object, net.address string, net.between string, net.asked.connections number, net.asked.window number,
         net.asked.request_bytes number, net.asked.response_bytes number, net.asked.threads number, net.asked.cpus list?,
         net.asked.rate number?, net.asked.burst number, net.asked.reconnect_after number?, net.asked.reconnect bool, net.asked.idle_connections number,
         net.asked.check string, net.sender.requests number, net.sender.responses number, net.sender.unanswered number,
         net.sender.user_ns number, net.sender.system_ns number, net.sender.busiest_thread number?, net.sender.reconnects number,
         net.sender.broken number, net.sender.unsent number?, net.sender.worst_lag_ns number?, net.sender_host object?,
         net.server.version string, net.server.engine string, net.server.options object, net.server.total object,
         net.server.threads list, net.server.seconds list, net.server.memory.resident_bytes number,
         net.server.memory.resident_before_bytes number, net.server.memory.connections number",
    );
    fields(&m["net"]["server"]["total"], COUNTS);
    assert_eq!(m["schema"], "iotrail.measurement/1");
    let load = &m["load"];
    assert_eq!(
        (load["engine"].as_str(), load["rw"].as_str(), load["trace"].as_str()),
        (Some("epoll"), Some("echo"), Some("off"))
    );
    assert_eq!(
        (&load["bs"], &load["depth"], &load["batch"], &load["jobs"]),
        (&json!(64), &json!(6), &json!(2), &json!(1))
    );
    assert_eq!((&load["cpus"], &load["runtime_ns"], &load["file"]), (&json!([0]), &json!(100_000_000), &Value::Null));
    assert_eq!(m["net"]["server"]["options"]["trigger"], "level");
    assert_eq!(m["net"]["server"]["memory"]["connections"], 2);
    assert_eq!(m["probe"]["mode"], "off");
    // Requests carry an 8-byte header.
    let total = &m["net"]["server"]["total"];
    assert_eq!(number(&total["bytes_in"]), 72 * number(&total["requests"]));
    assert_eq!(number(&total["bytes_out"]), 64 * number(&total["requests"]));
    let (ended, record) = server.stop();
    assert!(ended.stderr.lines().any(|l| l.contains("req/s")) || ended.stderr.is_empty(), "{}", ended.stderr);
    fields(
        &record,
        "schema string, version string, started_unix_s number, address string, control string?, engine string, options object,
         granted list, total object, threads list, memory.connections number, spans number, broken_spans number, refused number,
         host.kernel string, warnings list",
    );
    fields(&record["total"], COUNTS);
    assert_eq!((record["schema"].as_str(), number(&record["spans"])), (Some("iotrail.net_server/1"), 1));
    End::Passed
}

fn unmeasured() -> End {
    let place = Place::new();
    let server = Server::at(&place, "127.0.0.1:0 --control none");
    assert_eq!(server.control, "none");
    let m = run(&mut server.load(&place, "--count 500")).ok().json();
    assert!(m["net"]["server"].is_null());
    assert_eq!(m["load"]["engine"], "unknown");
    assert_eq!(m["net"]["between"], "loopback");
    assert!(codes(&m).contains(&"server_unmeasured"), "{:?}", codes(&m));
    assert_eq!(m["net"]["sender"]["responses"], m["ios"]);
    // An explicit control address must answer.
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").to_string();
    let ended = run(&mut place.tool(["net", "load", &server.address, "--control", &gone, "--count", "1"]));
    assert_eq!(ended.status, 3);
    assert!(ended.one_line().starts_with(&format!("no iotrail server answers at the control address {gone}: ")));
    // A different server program is distinguished from a refusal. Without an explicit control address, the server is
    // just not measured.
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = stranger.local_addr().expect("its address").to_string();
    let hand = std::thread::spawn(move || {
        let (mut stream, _) = stranger.accept().expect("the sender comes");
        stream.write_all(b"220 mail\r\n").expect("a line");
        // Reads until the server closes; closing with an unread line would reset the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let ended = run(&mut place.tool(["net", "load", &server.address, "--control", &at, "--count", "1"]));
    assert_eq!(ended.status, 3);
    assert!(ended.one_line().starts_with("no iotrail server answers at"), "{}", ended.stderr);
    hand.join().expect("the hand was done");
    server.stop();
    End::Passed
}

fn table() -> End {
    let place = Place::new();
    let served = [
        "net",
        "serve",
        "127.0.0.1:0",
        "--engine",
        "epoll",
        "--control",
        "none",
        "--server-threads",
        "2",
        "--duration",
        "1200ms",
    ];
    let ended = run(&mut place.tool(served)).ok();
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(lines[0].contains("req/s") && lines[1].trim_start().starts_with('0'), "{}", ended.stdout);
    for row in ["thread  requests", "0 ", "1 ", "all ", "senders"] {
        assert!(lines.iter().any(|l| l.starts_with(row)), "{row} in {}", ended.stdout);
    }
    assert!(lines.iter().all(|l| l.chars().count() <= 80), "{}", ended.stdout);
    End::Passed
}
