//! The server's main loop: prints seconds as they end, and measures one sender at a time over the control connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::span::{self, Probes, Span};
use iotrail_base::error::Result;
use iotrail_load::options::Trace;
use iotrail_net::control::PROTOCOL;
use iotrail_net::control::host::{Event, Host};
use iotrail_net::control::message::{FromServer, Hello, Machine, Welcome};
use iotrail_net::descriptors;
use iotrail_net::server::Server;
use iotrail_net::server::counted::Look;
use iotrail_probe::watch::ObjectSlot;
use iotrail_schema::measurement::Warning;
use iotrail_schema::net_record::{SERVER_SCHEMA, ServedRecord, ServerCounts};

const SECOND: Duration = Duration::from_secs(1);
/// Interval at which the traced requests are read.
const ROOM: Duration = Duration::from_millis(20);
/// Interval at which the stop flag is checked if nothing wakes the thread.
const TICK: Duration = Duration::from_millis(100);

/// The options of a server.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether measured spans are traced.
    pub trace: Trace,
    /// Traces 1 in N io_uring requests end to end.
    pub follow: Option<u32>,
    /// `None` to serve until stopped.
    pub duration: Option<Duration>,
}

/// Events for display.
pub enum ServeNews<'a> {
    /// A second ended, with this number of open connections.
    Second(&'a ServerCounts, u64),
    /// A message about the control connection.
    Message(String),
}

/// The reason why a wait ended.
enum Next {
    Happened(Event),
    Time,
    Stop,
}

struct Serving<'a> {
    server: &'a Server,
    host: Option<Host>,
    how: Options,
    tell: &'a mut dyn FnMut(ServeNews<'_>),
    stop: &'a AtomicBool,
    ends: Option<Instant>,
    began: Look,
    /// Counters at the end of the last second.
    seen: Look,
    second: Instant,
    cpus: Vec<u32>,
    resident_before_bytes: Option<u64>,
    spans: u64,
    broken_spans: u64,
    accept_failures: u64,
}

/// Serves until stopped. The calling thread waits, reports and measures; other threads serve.
///
/// Fails if a server thread fails, or if `--trace on` requires probes that cannot be loaded.
pub fn serve(
    server: &Server,
    host: Option<Host>,
    how: Options,
    tell: &mut dyn FnMut(ServeNews<'_>),
    stop: &AtomicBool,
) -> Result<ServedRecord> {
    let resident_before_bytes = span::resident();
    let started = iotrail_host::clock::unix_s();
    if how.trace == Trace::On {
        // Report probe errors at startup, not to the first sender.
        Probes::attach(&mut ObjectSlot::default(), server, how.trace, how.follow)?;
    }
    let spec = server.spec();
    let cpus = if spec.cpus.is_empty() { &spec.online } else { &spec.cpus }.clone();
    let began = server.start_look();
    let now = Instant::now();
    let mut serving = Serving {
        server,
        host,
        how,
        tell,
        stop,
        ends: how.duration.map(|span| now + span),
        seen: began.clone(),
        began,
        second: now + SECOND,
        cpus,
        resident_before_bytes,
        spans: 0,
        broken_spans: 0,
        accept_failures: 0,
    };
    loop {
        match serving.next(now + Duration::from_secs(u32::MAX.into()))? {
            Next::Happened(Event::Hello(hello)) => serving.measure(&hello)?,
            // Left over from a sender that has disconnected.
            Next::Happened(_) | Next::Time => {}
            Next::Stop => return serving.record(started),
        }
    }
}

impl Serving<'_> {
    /// Waits, and reports due events.
    fn next(&mut self, until: Instant) -> Result<Next> {
        loop {
            let now = Instant::now();
            if self.stop.load(Ordering::Relaxed) || self.ends.is_some_and(|end| now >= end) {
                return Ok(Next::Stop);
            }
            if let Some(e) = self.server.failure() {
                return Err(e);
            }
            if now >= self.second {
                self.tell_second(now);
            }
            if now >= until {
                return Ok(Next::Time);
            }
            let until = [Some(until), Some(self.second), self.ends].into_iter().flatten().min().unwrap_or(until);
            match &mut self.host {
                Some(host) => {
                    if let Some(event) = host.next(until)? {
                        return Ok(Next::Happened(event));
                    }
                }
                None => std::thread::sleep(until.saturating_duration_since(now).min(TICK)),
            }
        }
    }

    fn tell_second(&mut self, now: Instant) {
        let look = self.server.look();
        let second = look.since(&self.seen).1;
        self.seen = look;
        while self.second <= now {
            self.second += SECOND;
        }
        let failures = second.counts.accept_failures;
        (self.tell)(ServeNews::Second(&second, self.server.counts().open()));
        if failures > 0 && self.accept_failures == 0 {
            let limit = descriptors::raise().map_or_else(|_| String::new(), |n| format!(" ({n} here)"));
            let connections = self.server.counts().open();
            (self.tell)(ServeNews::Message(format!(
                "no more connections can be accepted: the open file limit{limit} allows {connections} connections; raise it (ulimit -Hn)"
            )));
        }
        self.accept_failures += failures;
    }

    fn say(&mut self, message: &FromServer) {
        if let Some(host) = &mut self.host {
            host.say(message);
        }
    }

    fn send_away(&mut self, why: &str) {
        if let Some(host) = &mut self.host {
            host.send_away(why);
        }
    }

    /// Serves one sender from its hello until it disconnects.
    fn measure(&mut self, hello: &Hello) -> Result<()> {
        let mut room = ObjectSlot::default();
        let resident = span::resident();
        let mut probes = match Probes::attach(&mut room, self.server, self.how.trace, self.how.follow) {
            Ok(probes) => probes,
            Err(e) => return self.give_up(&e.to_string()),
        };
        // A connection's memory excludes that of the probes.
        let taken = span::resident().zip(resident).map(|(after, before)| after.saturating_sub(before));
        let resident_before = self.resident_before_bytes.zip(taken).map(|(before, taken)| before + taken);
        self.say(&FromServer::Welcome(Box::new(Welcome {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").into(),
            kernel: iotrail_host::kernel::release().unwrap_or_else(|| "unknown".into()),
            engine: self.server.spec().options.engine.to_string().as_str().into(),
            options: self.server.spec().record(),
            granted: self.server.granted(),
            machine: Machine::of_this_process(),
        })));
        let (server, cpus) = (self.server, self.cpus.clone());
        let mut span: Option<Span<'_>> = None;
        let mut measured = false;
        let long = Duration::from_secs(u32::MAX.into());
        loop {
            let now = Instant::now();
            let due = span.as_ref().map_or(now + long, Span::next);
            let until = if span.is_some() && probes.follow() { due.min(now + ROOM) } else { due };
            match self.next(until)? {
                Next::Happened(Event::Begin) if span.is_none() && !measured => {
                    match Span::begin(server, &mut probes, &cpus) {
                        Ok(begun) => span = Some(begun),
                        Err(e) => return self.give_up(&e.to_string()),
                    }
                    self.say(&FromServer::Begun);
                }
                Next::Happened(Event::End) if span.is_some() => {
                    let ended = span.take().map(|span| span.end(&mut probes, true, resident_before));
                    match ended.transpose() {
                        Ok(ended) => ended.into_iter().for_each(|m| self.say(&FromServer::Measured(Box::new(m)))),
                        Err(e) => return self.give_up(&e.to_string()),
                    }
                    (measured, self.spans) = (true, self.spans + 1);
                }
                Next::Happened(Event::Begin | Event::End) => self.send_away("unexpected message"),
                Next::Happened(Event::Left) => {
                    if let Some(span) = span {
                        self.broken_spans += 1;
                        let asked = &hello.asked;
                        (self.tell)(ServeNews::Message(format!(
                            "the sender ({} connections) disconnected during a measurement, after {} requests",
                            asked.connections,
                            span.requests()
                        )));
                    }
                    return Ok(());
                }
                // The host accepts only one sender at a time.
                Next::Happened(Event::Hello(_)) => {}
                Next::Time => {
                    if let Some(span) = &mut span {
                        let second = span.second();
                        let made = span.make_room(&mut probes);
                        second.into_iter().for_each(|s| self.say(&FromServer::Second(Box::new(s))));
                        if let Err(e) = made {
                            return self.give_up(&e.to_string());
                        }
                    }
                }
                Next::Stop => {
                    if let Some(span) = span {
                        self.broken_spans += 1;
                        // Errors at the final boundary are ignored.
                        if let (Ok(part), Some(host)) = (span.end(&mut probes, false, resident_before), &mut self.host)
                        {
                            host.hand_over(&FromServer::Measured(Box::new(part)));
                        }
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Rejects this sender, whose load cannot be measured, and continues to serve.
    fn give_up(&mut self, why: &str) -> Result<()> {
        (self.tell)(ServeNews::Message(format!("a sender could not be measured: {why}")));
        self.send_away(why);
        Ok(())
    }

    fn record(self, started_unix_s: u64) -> Result<ServedRecord> {
        let (threads, total) = self.server.look().since(&self.began);
        let spec = self.server.spec();
        let mut warnings: Vec<Warning> = Vec::new();
        warnings.extend(span::refused_connections(total.counts.accept_failures));
        Ok(ServedRecord {
            schema: SERVER_SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_unix_s,
            address: self.server.address().to_string(),
            control: self.host.as_ref().map(|host| host.address().to_string()),
            engine: spec.options.engine.to_string().as_str().into(),
            options: spec.record(),
            granted: self.server.granted(),
            memory: span::memory(self.resident_before_bytes, self.server),
            total,
            threads,
            spans: self.spans,
            broken_spans: self.broken_spans,
            refused: self.host.as_ref().map_or(0, Host::refused),
            host: iotrail_host::facts(None)?,
            warnings,
        })
    }
}
