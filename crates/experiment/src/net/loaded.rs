//! Runs a sender against a server, and adds the server's part of the measurement if available.

use std::cell::RefCell;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;

use hdrhistogram::Histogram;

use iotrail_answer::comparable;
use iotrail_answer::warnings::doubt::doubts;
use iotrail_base::error::{Error, Result};
use iotrail_host::{self, circumstances};
use iotrail_load::{Boundary, Doing, Progress};
use iotrail_net::address::Address;
use iotrail_net::control::Place;
use iotrail_net::control::guest::{Guest, Unmet};
use iotrail_net::control::message::{Machine, Measured, Welcome};
use iotrail_net::sender::spec::SenderSpec;
use iotrail_net::sender::{self, Sent};
use iotrail_schema::measurement::Trace;
use iotrail_schema::measurement::{INTERRUPTED, LoadRecord, Measurement, Ring, SCHEMA, Warning};
use iotrail_schema::net_record::{NetRecord, ServerCounts, ServerRecord};
use iotrail_stats::quantile;

/// The result of one run of a sender.
pub struct Loaded {
    pub measurement: Measurement,
    /// Latencies of all connections, in nanoseconds.
    pub histogram: Histogram<u64>,
    /// Stopped by the user.
    pub interrupted: bool,
    /// The peer was lost; the measurement covers the time until then.
    pub broken_off: Option<Error>,
}

/// The control connection during a run.
struct ControlSession {
    guest: Guest,
    begun: bool,
    measured: Option<Box<Measured>>,
    lost: Option<Error>,
}

impl ControlSession {
    fn end(&mut self) {
        if self.begun && self.measured.is_none() && self.lost.is_none() {
            match self.guest.end() {
                Ok(measured) => self.measured = Some(measured),
                Err(e) => self.lost = Some(e),
            }
        }
    }
}

/// Sends to a server and measures both sides. If no iotrail server answers at the default control address, only the
/// sender is measured, with a warning; at an explicit control address, that is an error.
pub fn run(
    spec: &SenderSpec,
    address: &Address,
    control: &Place,
    progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<Loaded> {
    let mut warnings = Vec::new();
    let talk = RefCell::new(greet(spec, address, control, &mut warnings)?);
    let alone = talk.borrow().is_none();
    let cpus = iotrail_host::cpu::online()?;
    let (mut before, mut around) = (None, None);
    let mut boundary = |at: Boundary| -> Result<()> {
        let mut talk = talk.borrow_mut();
        match at {
            Boundary::Ready => {}
            Boundary::MeasureBegins => {
                // A measured server reads its own machine's state.
                let of = circumstances::Subject { target: None, bytes: None, cpus: &cpus };
                before = alone.then(|| circumstances::before(of));
                if let Some(talk) = talk.as_mut() {
                    talk.guest.begin()?;
                    talk.begun = true;
                }
            }
            Boundary::MeasureEnds => {
                talk.iter_mut().for_each(ControlSession::end);
                around = before.take().map(circumstances::Before::after);
            }
        }
        Ok(())
    };
    let mut progress = |p: Progress| {
        if let (Doing::Measuring, Some(talk)) = (p.doing, talk.borrow_mut().as_mut())
            && talk.lost.is_none()
            && let Err(e) = talk.guest.listen()
        {
            talk.lost = Some(e);
        }
        progress(p);
    };
    let mut sent = sender::run(spec, address, &mut boundary, &mut progress, stop)?;
    let mut talk = talk.into_inner();
    // An aborted load never reached its final boundary.
    talk.iter_mut().for_each(ControlSession::end);
    let mut broken_off = sent.broken_off.take();

    let half = match &mut talk {
        Some(talk) => match (talk.measured.take(), talk.lost.take()) {
            (Some(measured), _) => {
                if !measured.whole && broken_off.is_none() {
                    broken_off = Some(stopped(address));
                }
                Some(*measured)
            }
            (None, lost) => {
                let half = lost_half(&talk.guest);
                let seconds = half.as_ref().map_or(0, |h| h.server.seconds.len());
                warnings.push(Warning::new(
                    "server_lost",
                    format!("the server was lost: its side covers only the first {seconds} seconds"),
                    "check whether the server is still running, and read its messages",
                ));
                broken_off = broken_off.or(lost);
                half
            }
        },
        None => None,
    };
    let between = between(address, talk.as_ref().map(|talk| talk.guest.welcome()));
    let mut measurement = joined(spec, address, between, &sent, half)?;
    if let Some(mut around) = around {
        around.throughput = sent.throughput.clone();
        measurement.circumstances = Some(around.into());
    }
    measurement.warnings.extend(warnings);
    measurement.warnings.append(&mut sent.warnings);
    if sent.interrupted {
        measurement.warnings.push(Warning::new(
            INTERRUPTED,
            "the load was stopped early: the numbers cover only the part that ran",
            "run it again for a complete measurement",
        ));
    }
    let doubts: Vec<Warning> = doubts(&measurement).into_iter().chain(comparable::warnings(&measurement)).collect();
    measurement.warnings.extend(doubts);
    Ok(Loaded { measurement, histogram: sent.histogram, interrupted: sent.interrupted, broken_off })
}

fn greet(
    spec: &SenderSpec,
    address: &Address,
    control: &Place,
    warnings: &mut Vec<Warning>,
) -> Result<Option<ControlSession>> {
    let unmeasured = |why: String| {
        Warning::new(
            "server_unmeasured",
            why,
            "`iotrail net serve` measures its side; name its control address with --control ADDRESS",
        )
    };
    let Some(at) = control.of(address)? else {
        warnings.push(unmeasured("the server's side was not measured: --control none".into()));
        return Ok(None);
    };
    match Guest::greet(&at, &spec.asked()) {
        Ok(guest) => Ok(Some(ControlSession { guest, begun: false, measured: None, lost: None })),
        Err(Unmet::Refused(e)) => Err(e),
        Err(Unmet::NotOurs(why)) if *control == Place::Beside => {
            warnings.push(unmeasured(format!(
                "the server's side was not measured: no iotrail server answers at {at} ({why})"
            )));
            Ok(None)
        }
        Err(Unmet::NotOurs(why)) => {
            let what = format!("no iotrail server answers at the control address {at}");
            Err(Error::machine(what, "start `iotrail net serve` with that --control, or use --control none")
                .because(why))
        }
    }
}

fn stopped(address: &Address) -> Error {
    Error::machine(format!("the server at {address} was stopped"), "keep it running until the load ends")
}

/// The seconds that a lost server reported; `None` if it reported none.
fn lost_half(guest: &Guest) -> Option<Measured> {
    let (first, rest) = guest.seconds().split_first()?;
    let mut total: ServerCounts = first.clone();
    rest.iter().for_each(|second| total.add(second));
    let welcome = guest.welcome();
    let flags = |name: &str| welcome.options.get(name).and_then(|v| serde_json::from_value(v.clone()).ok());
    let jobs = welcome.options.get("server-threads").and_then(serde_json::Value::as_u64);
    let load = LoadRecord {
        engine: welcome.engine.as_str().into(),
        ring: Ring { requested: flags("ring").unwrap_or_default(), granted: welcome.granted.clone() },
        register: flags("register").unwrap_or_default(),
        jobs: jobs.unwrap_or_default() as u32,
        ..LoadRecord::default()
    };
    let server = ServerRecord {
        version: welcome.version.clone(),
        engine: welcome.engine.as_str().into(),
        options: welcome.options.clone(),
        total,
        threads: Vec::new(),
        seconds: guest.seconds().to_vec(),
        memory: None,
    };
    Some(Measured { whole: false, measurement: Measurement { load: load.into(), ..Measurement::default() }, server })
}

fn between(address: &Address, welcome: Option<&Welcome>) -> &'static str {
    match (address, welcome) {
        (Address::Unix(_), _) => "unix",
        (Address::Tcp(_), Some(welcome)) => Machine::of_this_process().between(&welcome.machine),
        (Address::Tcp(at), None) => {
            // For a local destination, the kernel selects the same address as source. This sends no packet.
            let any = if at.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
            let source = UdpSocket::bind(any).and_then(|s| s.connect(at).and_then(|()| s.local_addr()));
            if source.is_ok_and(|source| source.ip() == at.ip()) { "loopback" } else { "hosts" }
        }
    }
}

/// Combines both halves into a measurement.
fn joined(
    spec: &SenderSpec,
    address: &Address,
    between: &str,
    sent: &Sent,
    half: Option<Measured>,
) -> Result<Measurement> {
    let (mut m, server) = match half {
        Some(half) => (half.measurement, Some(half.server)),
        None => (Measurement::default(), None),
    };
    let here = iotrail_host::facts(None)?;
    if server.is_none() {
        m.load.engine = "unknown".into();
    }
    if m.schema.is_empty() {
        m.schema = SCHEMA.into();
        m.version = env!("CARGO_PKG_VERSION").into();
        m.probe.mode = "off".into();
        m.host = here.clone().into();
    }
    let sender_host = (between == "hosts" && *m.host != here).then_some(here);
    m.started_unix_s = sent.started_unix_s;
    m.load.rw = "echo".into();
    m.load.bs = u64::from(spec.request_bytes);
    m.load.depth = spec.connections.saturating_mul(spec.window);
    m.load.batch = spec.burst;
    (m.load.wait, m.load.reaper) = ("block".into(), "same".into());
    (m.load.scratch, m.load.neighbour) = ("none".into(), "none".into());
    (m.load.runtime_ns, m.load.count) = (spec.end.span().map(|span| span.as_nanos() as u64), spec.end.ios());
    m.load.warmup_ns = spec.warmup.as_nanos() as u64;
    m.load.rate = spec.rate;
    if m.load.trace == Trace::default() {
        m.load.trace = "off".into();
    }
    m.elapsed_ns = sent.elapsed_ns;
    m.ios = Some(sent.responses);
    m.bytes = Some(sent.bytes);
    let seconds = sent.elapsed_ns as f64 / 1e9;
    m.iops = Some(if seconds > 0.0 { sent.responses as f64 / seconds } else { 0.0 });
    m.latency_ns = quantile::summary(&sent.histogram);
    if let Some(circumstances) = &mut m.circumstances {
        circumstances.throughput = sent.throughput.clone();
    }
    m.net = Some(
        NetRecord {
            address: address.to_string(),
            between: between.into(),
            asked: sent.asked.clone(),
            sender: sent.record.clone(),
            sender_host,
            server,
        }
        .into(),
    );
    Ok(m)
}
