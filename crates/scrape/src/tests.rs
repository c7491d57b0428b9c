//! Tests well-behaved and misbehaving clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use super::*;
use iotrail_schema::metric_family::Scraped;
use iotrail_schema::metrics_record::MetricsRecord;

/// A server, and a trace that delivers counts.
fn served() -> (Server, mpsc::Sender<()>) {
    served_at(address("0").unwrap())
}

fn served_at(at: Address) -> (Server, mpsc::Sender<()>) {
    let server = Server::start(at).unwrap();
    let desk = Arc::clone(server.desk());
    let (end, ended) = mpsc::channel();
    std::thread::spawn(move || {
        while ended.recv_timeout(Duration::from_millis(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
            if desk.is_asked() {
                desk.answer(Scraped::Trace(Box::new(MetricsRecord { kicks: Some(17), ..MetricsRecord::default() })));
            }
        }
    });
    (server, end)
}

fn connected(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.at()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// The complete response to these bytes.
fn answer(server: &Server, request: &[u8]) -> String {
    let mut stream = connected(server);
    // A request that is too large may be rejected before it is complete.
    stream.write_all(request).unwrap_or(());
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost:9464\r\n\r\n";

#[test]
fn a_scrape_is_answered_in_the_requested_format() {
    let (server, _end) = served();
    let text = answer(&server, GET);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{head}"
    );
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
    assert!(
        body.contains("\n# TYPE iotrail_kicks_total counter\n") && body.contains("\niotrail_kicks_total 17\n"),
        "{body}"
    );
    assert!(!body.contains("# EOF"));
    let open =
        answer(&server, b"GET /metrics?x=1 HTTP/1.1\r\naccept: application/openmetrics-text;version=1.0.0\r\n\r\n");
    assert!(open.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"), "{open}");
    assert!(open.contains("\n# TYPE iotrail_kicks counter\n") && open.ends_with("# EOF\n"));
    let head = answer(&server, b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn a_request_that_is_not_a_scrape_is_rejected_and_counted() {
    let (server, _end) = served();
    let many: Vec<u8> = (0..100).fold(b"GET /metrics HTTP/1.1\r\n".to_vec(), |mut text, i| {
        text.extend_from_slice(format!("h{i}: x\r\n").as_bytes());
        text
    });
    let long = [b"GET /metrics HTTP/1.1\r\nh: ".to_vec(), vec![b'x'; 1 << 20]].concat();
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"),
        (b"GET /metrics HTTP/1.1\r\n\x00\xff: x\r\n\r\n", "400"),
        (&many, "431"),
        (&long, "431"),
    ] {
        let text = answer(&server, request);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {text}");
    }
    let text = answer(&server, GET);
    assert!(text.contains("\niotrail_scrapes_total{outcome=\"refused\"} 7\n"), "{text}");
}

#[test]
fn only_requests_for_this_machines_addresses_and_names_are_answered() {
    let named = Address { at: SocketAddr::from(([127, 0, 0, 1], 0)), name: Some("Metrics.Example".into()) };
    let (server, _end) = served_at(named);
    let status = |request: String| {
        let answer = answer(&server, request.as_bytes());
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for (host, expected) in [
        ("localhost:9464", "200"),
        ("a.localhost.", "200"),
        ("127.0.0.1", "200"),
        ("[::1]:9464", "200"),
        ("[fe80::1%eth0]:9464", "200"),
        ("192.0.2.7:80", "200"),
        ("metrics.example:9464", "200"),
        (&own, "200"),
        ("evil.example", "421"),
        ("evil.example:9464", "421"),
        ("localhost.evil.example", "421"),
        ("127.0.0.1.evil.example", "421"),
        ("127.0.0.1@evil.example", "421"),
        ("", "421"),
        ("[evil.example]", "421"),
    ] {
        let header = status(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(header, expected, "{host}");
        let target = status(format!("GET hTTp://{host}/metrics?a=b HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(target, expected, "{host}");
    }
    let absolute = |target: &str, host: &str| status(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(absolute("http://localhost/metrics", "evil.example"), "200", "the target goes before the header");
    assert_eq!(absolute("http://localhost", "localhost"), "404");
    assert_eq!(absolute("https://localhost/metrics", "localhost"), "404");
    assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\n\r\n".into()), "400");
}

#[test]
fn a_thousand_partial_requests_do_not_block_a_scrape() {
    let (server, _end) = served();
    let mut silent = vec![];
    for i in 0..1000 {
        // The machine limits descriptors; the server's own share of them is bounded.
        let Ok(mut stream) = TcpStream::connect(server.at()) else { break };
        stream.write_all(b"GET /metr").unwrap_or(());
        silent.push(stream);
        if i % 250 == 249 {
            assert!(answer(&server, GET).starts_with("HTTP/1.1 200 OK"), "after {i}");
        }
    }
    assert!(silent.len() > CLIENTS * 2, "{}", silent.len());
    let text = answer(&server, GET);
    let dropped = text.lines().find_map(|l| l.strip_prefix("iotrail_scrapes_total{outcome=\"dropped\"} "));
    let dropped: usize = dropped.unwrap().parse().unwrap();
    assert!(dropped + CLIENTS >= silent.len(), "{dropped} of {}", silent.len());
}

#[test]
fn slow_and_disconnected_clients_do_not_affect_others() {
    let (server, _end) = served();
    let takers: Vec<TcpStream> = (0..CLIENTS * 2)
        .map(|_| {
            let mut stream = connected(&server);
            stream.write_all(GET).unwrap();
            stream
        })
        .collect();
    assert!(answer(&server, GET).starts_with("HTTP/1.1 200 OK"));
    drop(takers);
    assert!(answer(&server, GET).starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn a_scrape_fails_with_503_if_the_trace_does_not_answer() {
    let server = Server::start(address("0").unwrap()).unwrap();
    assert!(answer(&server, GET).starts_with("HTTP/1.1 503 "));
}

#[test]
fn a_port_without_an_address_is_bound_to_loopback() {
    let is = |text: &str| address(text).map(|of| of.at.to_string());
    assert_eq!(is("9464").as_deref(), Ok("127.0.0.1:9464"));
    assert_eq!(is(":0").as_deref(), Ok("127.0.0.1:0"));
    assert_eq!(is("0.0.0.0:80").as_deref(), Ok("0.0.0.0:80"));
    assert_eq!(is("[::1]:80").as_deref(), Ok("[::1]:80"));
    for wrong in ["", ":", "host", "127.0.0.1", "1.2.3.4:99999", "-1"] {
        assert!(is(wrong).is_err(), "{wrong}");
    }
}
