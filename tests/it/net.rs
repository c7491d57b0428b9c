//! `net serve` and `net load` against each other, and each against hands that do it wrong.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::measurement::check as fields;
use crate::tool::{BINARY, Ended, PATIENCE, Place, end, kill, run, wait_for};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("net::both_sides_agree_to_the_last_request", both),
    ("net::connections_that_come_and_go_and_an_open_loop_agree_too", come_and_go),
    ("net::each_half_has_its_fields", json_fields),
    ("net::a_server_that_is_not_measured_is_said_to_be_so", unmeasured),
    ("net::an_address_that_is_taken_or_none_is_one_line", addresses),
    ("net::another_version_is_refused_on_both_sides", versions),
    ("net::garbage_and_half_requests_stop_nobody", garbage),
    ("net::a_server_at_its_limit_of_files_says_so_and_goes_on", descriptors),
    ("net::a_second_sender_is_refused_and_the_first_goes_on", second_sender),
    ("net::a_killed_server_leaves_the_sender_what_it_had_told", killed_server),
    ("net::a_stopped_server_hands_over_what_it_has", stopped_server),
    ("net::a_killed_sender_leaves_the_server_to_the_next", killed_sender),
    ("net::a_server_for_a_time_prints_a_table", table),
];

/// A server that says what it does as JSON at its end.
struct Server {
    child: Child,
    address: String,
    control: String,
}

impl Server {
    /// Where the kernel chooses, so that tests do not meet.
    fn start(place: &Place, options: &str) -> Self {
        Self::at(place, &format!("127.0.0.1:0 --control 127.0.0.1:0 {options}"))
    }

    fn at(place: &Place, options: &str) -> Self {
        Self::by(place.tool(["net", "serve"]), options)
    }

    fn by(mut command: Command, options: &str) -> Self {
        command.args(["--json", "--trace", "off", "--engine", "epoll"]).args(options.split_whitespace());
        let mut child = command.spawn().expect("the tool starts");
        let line = line(&mut child);
        let said = line.strip_prefix("iotrail: serving at ").unwrap_or_else(|| panic!("{line}"));
        let said = said.strip_suffix("; Ctrl-C ends it").unwrap_or_else(|| panic!("{line}"));
        let (address, control) = said.split_once(", control at ").unwrap_or((said, "none"));
        Server { child, address: address.into(), control: control.into() }
    }

    fn load(&self, place: &Place, options: &str) -> Command {
        let mut command = place.tool(["net", "load", &self.address, "--control", &self.control, "--json"]);
        command.args(options.split_whitespace());
        command
    }

    /// Until it has told a second in which it answered something.
    fn answers(&mut self) {
        wait_for("a second with requests", || {
            let line = line(&mut self.child);
            let requests = line.split_whitespace().next()?;
            (requests != "0" && requests.starts_with(|c: char| c.is_ascii_digit())).then_some(())
        });
    }

    #[track_caller]
    fn stop(self) -> (Ended, Value) {
        kill(self.child.id(), libc::SIGTERM);
        let ended = end(self.child).ok();
        let record = ended.json();
        (ended, record)
    }
}

/// A line of standard error, and not a byte more.
fn line(child: &mut Child) -> String {
    let stderr = child.stderr.as_mut().expect("it is piped");
    let mut line = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" {
        assert_eq!(stderr.read(&mut byte).expect("it can be read"), 1, "it has ended: {:?}", String::from_utf8(line));
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("UTF-8").trim_end().to_owned()
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens there");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream
}

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("a number: {v}"))
}

fn codes(m: &Value) -> Vec<&str> {
    m["warnings"].as_array().expect("a list").iter().filter_map(|w| w["code"].as_str()).collect()
}

/// What holds for every load that came to its end against a server of ours.
#[track_caller]
fn whole(m: &Value) {
    let net = &m["net"];
    let requests = number(&m["ios"]);
    assert!(requests > 0);
    assert_eq!(net["sender"]["requests"], requests);
    assert_eq!(net["sender"]["responses"], requests);
    assert_eq!(net["server"]["total"]["requests"], requests);
    assert_eq!(m["latency_ns"]["count"], requests);
    for list in ["threads", "seconds"] {
        let list = net["server"][list].as_array().expect("a list");
        assert_eq!(list.iter().map(|t| number(&t["requests"])).sum::<u64>(), requests);
    }
    assert_eq!(number(&m["load"]["depth"]), number(&net["asked"]["connections"]) * number(&net["asked"]["window"]));
}

fn both() -> End {
    let place = Place::new();
    let unix = format!("unix:{}", place.join("s").display());
    for (at, between) in
        [("127.0.0.1:0 --control 127.0.0.1:0", "loopback"), ("[::1]:0 --control [::1]:0", "loopback"), (&unix, "unix")]
    {
        let server = Server::at(&place, &format!("{at} --server-threads 2"));
        if between == "unix" {
            assert_eq!(server.control, format!("{unix}.control"), "beside it");
        }
        // One sender after the other: each is measured apart.
        for (options, requests) in
            [("--count 1000 --window 2", 1000), ("--count 300 --connections 1 --request 1k --response 9k", 300)]
        {
            let m = run(&mut server.load(&place, options)).ok().json();
            whole(&m);
            // Those that are in flight when the last one that was asked for is sent come with it.
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
         net.asked.rate number?, net.asked.burst number, net.asked.reconnect_after number?, net.asked.idle_connections number,
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
    // Requests carry a header of 8 bytes.
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
    // An address that was named has to be there.
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").to_string();
    let ended = run(&mut place.tool(["net", "load", &server.address, "--control", &gone, "--count", "1"]));
    assert_eq!(ended.status, 3);
    assert!(ended.one_line().starts_with(&format!("no server of iotrail's answers at the control address {gone}: ")));
    // What answers there and is none of ours is told from one that refuses; with no address named, it is only not measured.
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = stranger.local_addr().expect("its address").to_string();
    let hand = std::thread::spawn(move || {
        let (mut stream, _) = stranger.accept().expect("the sender comes");
        stream.write_all(b"220 mail\r\n").expect("a line");
        // Until it is closed; with an error if the line was still unread.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let ended = run(&mut place.tool(["net", "load", &server.address, "--control", &at, "--count", "1"]));
    assert_eq!(ended.status, 3);
    assert!(ended.one_line().starts_with("no server of iotrail's answers at"), "{}", ended.stderr);
    hand.join().expect("the hand was done");
    server.stop();
    End::Passed
}

fn addresses() -> End {
    let place = Place::new();
    let server = Server::start(&place, "");
    for (status, said, command) in [
        (3, "cannot listen at", format!("net serve {} --engine epoll --control none", server.address)),
        (3, "cannot listen at", format!("net serve 127.0.0.1:0 --engine epoll --control {}", server.control)),
        (2, "is no address", "net serve 127.0.0.1 --engine epoll".into()),
        (2, "is no address", "net load here".into()),
        (2, "names no socket", "net load unix:".into()),
        (2, "no port for the control connection", "net load 127.0.0.1:65535".into()),
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
    // All of these stay open while a sender is measured, but for those that the server ends.
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
    // One of the hands on the control port has said nothing and one half a line: they have not had their time yet.
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
        said.strip_prefix("iotrail: no more connections can be accepted: the limit of open files (40 here) allows ");
    let allowed = allowed.and_then(|rest| rest.split_once(" of them; ")).unwrap_or_else(|| panic!("{said}")).0;
    let allowed: u64 = allowed.parse().expect("a number");
    assert!((20..40).contains(&allowed), "{said}");
    drop(hands);
    whole(&run(&mut server.load(&place, "--count 100")).ok().json());
    let (_, record) = server.stop();
    assert!(record["warnings"].as_array().is_some_and(|w| w.iter().any(|w| w["code"] == "accept_failed")));
    // Those that waited were accepted when others had gone.
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
    assert!(ended.one_line().contains("another sender is connected: one is served at a time"), "{}", ended.stderr);
    kill(first.id(), libc::SIGINT);
    let ended = end(first).ok();
    let m = ended.json();
    whole(&m);
    assert!(codes(&m).contains(&"interrupted"), "{:?}", codes(&m));
    let (_, record) = server.stop();
    assert_eq!((number(&record["refused"]), number(&record["spans"])), (1, 1));
    End::Passed
}

fn killed_server() -> End {
    let place = Place::new();
    let mut server = Server::start(&place, "");
    let sender = server.load(&place, "--runtime 60s --warmup 0 --window 2").spawn().expect("the tool starts");
    // The seconds that it prints and those that it tells the sender end at different moments, and it may be late with one.
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
    assert!(said.contains("the sender (4 connections) has gone in the middle of what was measured"), "{said}");
    whole(&run(&mut server.load(&place, "--count 100")).ok().json());
    let (_, record) = server.stop();
    assert_eq!((number(&record["spans"]), number(&record["broken_spans"])), (1, 1));
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
