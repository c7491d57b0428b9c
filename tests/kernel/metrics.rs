//! `trace --metrics` on a program that stops after a known number of I/Os: a scrape returns the trace's values.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use iotrail_schema::trace_record::TraceRecord;
use libtest_mimic::{Failed, Trial};

use crate::ground::ground;
use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("metrics::a_scrape_matches_the_trace_with_other_clients_connected", scraped),
        trial::test("metrics::calls_before_a_thread_sleeps_are_counted", asleep),
    ]
}

pub fn scrape(at: &str) -> Result<String, Failed> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// The sum over a family's samples, by the value of one label.
fn by(text: &str, family: &str, label: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|l| l.split(['{', ' ']).next() == Some(family)) {
        let value = line.rsplit(' ').next().and_then(|v| v.parse::<u64>().ok()).expect(line);
        let of = line.split_once(&format!("{label}=\"")).map_or("", |(_, rest)| rest.split('"').next().expect(line));
        *sums.entry(of.to_owned()).or_insert(0) += value;
    }
    sums
}

/// The endpoint's address, from iotrail's first line.
fn address(said: &mut impl BufRead) -> Result<String, Failed> {
    let mut line = String::new();
    said.read_line(&mut line)?;
    Ok(line.trim().strip_prefix("metrics: http://").and_then(|l| l.strip_suffix("/metrics")).expect(&line).to_owned())
}

/// The program's no-ops complete during submission; then it sleeps, and no event follows.
fn asleep() -> Result<(), Failed> {
    let mut trace = Command::new(env!("CARGO_BIN_EXE_iotrail"))
        .args(["trace", "--json", "--one-in", "1", "--metrics", "0", "--"])
        .arg(ground())
        .args(["inline_nop", "--count", "48", "--pause-ms", "3000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut said = BufReader::new(trace.stderr.take().expect("a pipe"));
    let at = address(&mut said)?;
    let mut seen = 0;
    // Scrapes while the program is running, each with later values than the previous one.
    while seen < 48 && trace.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(250));
        let Ok(text) = scrape(&at) else { break };
        seen = by(&text, "iotrail_completions_total", "vehicle").values().sum();
    }
    let still_there = trace.try_wait()?.is_none();
    std::io::copy(&mut said, &mut std::io::sink())?;
    trace.wait()?;
    assert!(still_there && seen == 48, "{seen} of 48 while it was there: {still_there}");
    Ok(())
}

fn scraped() -> Result<(), Failed> {
    const IOS: u64 = 20_000;
    let tool = env!("CARGO_BIN_EXE_iotrail");
    // The program waits until its standard input is closed.
    let script =
        format!("{tool} bench --trace off --rw nop --warmup 0 --depth 8 --batch 4 --count {IOS} >&2; read line");
    let mut trace = Command::new(tool)
        .args(["trace", "--json", "--one-in", "1", "--metrics", "0", "--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut said = BufReader::new(trace.stderr.take().expect("a pipe"));
    let at = address(&mut said)?;
    // Reads further output, so that the program does not block on a full pipe.
    let rest = std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let half: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(&at)?;
            stream.write_all(b"GET /met").map(|()| stream)
        })
        .collect::<Result<_, _>>()?;
    let until = Instant::now() + Duration::from_secs(60);
    let completed = |text: &str| by(text, "iotrail_completions_total", "vehicle").values().sum::<u64>();
    let mut text = scrape(&at)?;
    while completed(&text) < IOS || by(&text, "iotrail_followed_total", "").values().sum::<u64>() < IOS {
        assert!(Instant::now() < until, "waited in vain for {IOS} completions:\n{text}");
        // A scrape with later values than the previous one.
        std::thread::sleep(Duration::from_millis(250));
        text = scrape(&at)?;
    }
    drop(trace.stdin.take());
    let out = trace.wait_with_output()?;
    drop(half);
    rest.join().expect("it only reads")?;
    let record: TraceRecord = serde_json::from_slice(&out.stdout)?;
    let mut vehicles = BTreeMap::new();
    for v in &record.total.vehicles {
        *vehicles.entry(v.vehicle.name().to_owned()).or_insert(0) += v.completions;
    }
    assert_eq!((record.total.ios, record.total.probe.lost), (IOS, Some(0)));
    assert_eq!(by(&text, "iotrail_completions_total", "vehicle"), vehicles);
    assert_eq!(by(&text, "iotrail_requests_total", "opcode"), BTreeMap::from([("nop".into(), IOS)]));
    assert_eq!(by(&text, "iotrail_latency_seconds_count", ""), BTreeMap::from([(String::new(), IOS)]));
    assert_eq!(by(&text, "iotrail_lost_total", ""), BTreeMap::from([(String::new(), 0)]));
    let tgid = record.rings[0].tgid.to_string();
    assert_eq!(by(&text, "iotrail_completions_total", "tgid"), BTreeMap::from([(tgid, IOS)]));
    let dropped = by(&text, "iotrail_scrapes_total", "outcome")["dropped"];
    assert!(dropped >= 100, "{dropped} of 200 half requests gave way");
    Ok(())
}
