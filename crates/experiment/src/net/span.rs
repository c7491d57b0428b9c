//! A measured span of a server: its counts and probes. At both ends, no request is in flight and all threads sleep.

use iotrail_schema::setup_flag;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::follow::{self, Requests};
use crate::watched::{self, Counted, ProbeFigures};
use iotrail_base::error::Result;
use iotrail_host::{self, circumstances};
use iotrail_load::options::Trace;
use iotrail_load::usage;
use iotrail_net::control::message::Measured;
use iotrail_net::options::ServerEngine;
use iotrail_net::server::Server;
use iotrail_net::server::counted::Look;
use iotrail_probe::subject::{Interface, Scope, Subject};
use iotrail_probe::watch::{ObjectSlot, Watch};
use iotrail_schema::measurement::{Cpu, LoadRecord, Measurement, Ring, SCHEMA, Warning};
use iotrail_schema::net_record::{Memory, ServerCounts, ServerRecord};

/// Maximum time for an idle server's threads to fall asleep.
const REST: Duration = Duration::from_millis(500);
const SECOND: Duration = Duration::from_secs(1);

/// Probes on this process's server, for one sender.
pub struct Probes<'room> {
    watch: Option<(Watch<'room>, Option<Requests>)>,
    trace: Trace,
    warnings: Vec<Warning>,
}

impl<'room> Probes<'room> {
    /// Attaches the probes, which do not trace the calling thread.
    pub fn attach(room: &'room mut ObjectSlot, server: &Server, trace: Trace, follow: Option<u32>) -> Result<Self> {
        let mut warnings = Vec::new();
        let is_ring = server.spec().options.engine == ServerEngine::IoUring;
        let how = follow.filter(|_| is_ring && trace != Trace::Off).map(|one_in| follow::follow(one_in.max(1)));
        if follow.is_some() && how.is_none() {
            let why = if is_ring { "the probes are off" } else { "only io_uring requests can be traced" };
            warnings.push(Warning::new(
                "not_followed",
                format!("no request was traced end to end: {why}"),
                "omit --follow",
            ));
        }
        let subject = Subject {
            who: Scope::OtherThreads,
            interface: if is_ring { Interface::IoUring { iopoll: false } } else { Interface::Readiness },
            target_irqs: Vec::new(),
            follow: how,
            aio_awaited: false,
            spans_timed: false,
        };
        let watch = watched::open(room, subject, trace, &mut warnings)?;
        warnings.extend(watch.iter().flat_map(Watch::missing));
        Ok(Self { watch: watch.map(|watch| (watch, how.map(Requests::new))), trace, warnings })
    }

    /// Whether requests are traced, so that the ring buffer has to be read regularly.
    pub fn follow(&self) -> bool {
        matches!(self.watch, Some((_, Some(_))))
    }
}

/// A running span.
pub struct Span<'a> {
    server: &'a Server,
    began: Look,
    seconds: Vec<ServerCounts>,
    /// Counters at the end of the last second.
    seen: Look,
    next: Instant,
    before: circumstances::Before<'a>,
    /// CPU time so far of all threads except the calling thread, and of the SQPOLL threads.
    others_ns: Option<u64>,
    sqpoll_ns: Option<u64>,
    started_unix_s: u64,
    rested: bool,
}

impl<'a> Span<'a> {
    /// `cpus`: the CPUs whose state affects the server.
    pub fn begin(server: &'a Server, probes: &mut Probes<'_>, cpus: &'a [u32]) -> Result<Self> {
        let before = circumstances::before(circumstances::Subject { target: None, bytes: None, cpus });
        let rested = server.settle(REST);
        if let Some((watch, _)) = &mut probes.watch {
            watch.begin()?;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (others_ns, sqpoll_ns) = (usage::of_others().ok(), server.sqpoll_ns());
        let began = server.look();
        Ok(Span {
            server,
            seconds: Vec::new(),
            seen: began.clone(),
            began,
            next: Instant::now() + SECOND,
            before,
            others_ns,
            sqpoll_ns,
            started_unix_s: now.as_secs(),
            rested,
        })
    }

    /// End of the current second.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// The last second, if it has ended.
    pub fn second(&mut self) -> Option<ServerCounts> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        // A second that ends late is longer, and its record has the actual duration.
        while self.next <= now {
            self.next += SECOND;
        }
        let look = self.server.look();
        let second = look.since(&self.seen).1;
        self.seen = look;
        self.seconds.push(second.clone());
        Some(second)
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.server.look().since(&self.began).1.counts.requests
    }

    /// Reads the traced requests before the ring buffer fills up.
    pub fn make_room(&self, probes: &mut Probes<'_>) -> Result<()> {
        let Some((watch, Some(requests))) = &mut probes.watch else { return Ok(()) };
        requests.make_room(watch, self.server.look().since(&self.began).1.counts.completions)
    }

    /// `whole`: the sender has ended the span, and no request is in flight.
    pub fn end(mut self, probes: &mut Probes<'_>, whole: bool, resident_before_bytes: Option<u64>) -> Result<Measured> {
        let rested = whole && self.server.settle(REST);
        let look = self.server.look();
        let grown = |after: Option<u64>, before: Option<u64>| after.zip(before).map(|(a, b)| a.saturating_sub(b));
        let others_ns = grown(usage::of_others().ok(), self.others_ns);
        let sqpoll_ns = grown(self.server.sqpoll_ns(), self.sqpoll_ns);
        let observed = probes.watch.as_mut().map(|(watch, _)| watch.end()).transpose()?;
        if let Some((watch, Some(requests))) = &mut probes.watch {
            requests.take_out(watch)?;
        }
        let (threads, total) = look.since(&self.began);
        let last = look.since(&self.seen).1;
        if last.counts != Default::default() {
            // The seconds add up to the total.
            self.seconds.push(last);
        }
        let server = ServerRecord {
            version: env!("CARGO_PKG_VERSION").into(),
            engine: self.server.spec().options.engine.to_string().as_str().into(),
            options: self.server.spec().record(),
            memory: memory(resident_before_bytes, self.server),
            total,
            threads,
            seconds: self.seconds,
        };
        let mut circumstances = self.before.after();
        circumstances.run_queue_wait_ns = waited(&server);
        let mut warnings = std::mem::take(&mut probes.warnings);
        if whole && !(self.rested && rested) {
            warnings.push(Warning::new(
                "not_at_rest",
                "a server thread was running at a boundary of the measured interval: its work at that time may be counted in the wrong interval",
                "counts per request are off by a few requests; stop other work of the server to avoid this",
            ));
        }
        warnings.extend(refused_connections(server.total.counts.accept_failures));
        let mut measurement = measured(self.server, &server, probes.trace, sqpoll_ns, others_ns)?;
        measurement.started_unix_s = self.started_unix_s;
        measurement.circumstances = Some(circumstances.into());
        let is_ring = self.server.spec().options.engine == ServerEngine::IoUring;
        let loss = observed.as_ref().map(|o| o.follow_loss);
        let counted = Counted {
            ios: server.total.counts.requests,
            completions: is_ring.then_some(server.total.counts.completions),
            leave_events: true,
            syscalls: Some(server.total.counts.syscalls),
        };
        ProbeFigures::of(observed, counted, probes.trace)?.tell(&mut measurement);
        if let (Some((_, Some(requests))), Some(loss)) = (probes.watch.take(), loss) {
            requests.tell(&mut measurement, loss);
        }
        measurement.warnings.extend(warnings);
        Ok(Measured { whole, measurement, server })
    }
}

/// Warns about connections that could not be accepted.
pub fn refused_connections(failures: u64) -> Option<Warning> {
    (failures > 0).then(|| {
        Warning::new(
            "accept_failed",
            format!(
                "accepting a connection failed {failures} times for lack of file descriptors or memory; the connections waited"
            ),
            "raise the hard limit of open files (ulimit -Hn) for the server, or use fewer connections",
        )
    })
}

/// Time for which the threads were runnable but not running, which is neither CPU time nor idle time.
fn waited(server: &ServerRecord) -> Option<u64> {
    let t = &server.total;
    let wall = t.wall_ns * server.threads.len() as u64;
    Some(wall.saturating_sub(t.user_ns? + t.system_ns? + t.idle_ns?))
}

pub fn memory(resident_before_bytes: Option<u64>, server: &Server) -> Option<Memory> {
    Some(Memory {
        resident_bytes: resident()?,
        resident_before_bytes: resident_before_bytes?,
        connections: server.counts().open(),
    })
}

/// This process's resident memory.
pub fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// The server's part of the measurement, to which the sender adds its own.
fn measured(
    server: &Server,
    record: &ServerRecord,
    trace: Trace,
    sqpoll_ns: Option<u64>,
    others_ns: Option<u64>,
) -> Result<Measurement> {
    let spec = server.spec();
    let counts = record.total.counts;
    let mut warnings = Vec::new();
    if record.total.user_ns.is_none() {
        warnings.push(Warning::new(
            "cpu_unknown",
            "this kernel does not record the CPU time of threads (CONFIG_SCHED_INFO): the CPU time of the server and per request is unknown",
            "use a kernel with CONFIG_SCHED_INFO",
        ));
    }
    if spec.options.zero_copy.is_some() && counts.sends > 0 && counts.zero_copy_sends == 0 {
        warnings.push(Warning::new(
            "zero_copy_unused",
            format!("none of {} sends used zero-copy: all were below the size of --zero-copy", counts.sends),
            "responses are sent in parts if a request does not fit one receive buffer: increase --buffer-size, or decrease --zero-copy",
        ));
    }
    // The sum is unknown if it is unknown for any thread.
    let has_sqpoll = setup_flag::is_set(&spec.setup.names(), "sqpoll");
    let sqpoll = sqpoll_ns.or((!has_sqpoll).then_some(0));
    let known_ns = || Some(record.total.user_ns? + record.total.system_ns? + sqpoll?);
    let seconds = record.total.wall_ns as f64 / 1e9;
    Ok(Measurement {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        load: LoadRecord {
            engine: record.engine.clone(),
            ring: Ring { requested: spec.setup.names(), granted: server.granted() },
            sq_cpu: spec.options.sq_cpu,
            sq_idle_ms: spec.options.sq_idle,
            register: spec.registered(),
            jobs: spec.threads as u32,
            cpus_requested: spec.options.server_cpus.clone(),
            cpus: spec.cpus.iter().copied().cycle().take(spec.threads).collect(),
            trace: trace.to_string().as_str().into(),
            ..LoadRecord::default()
        }
        .into(),
        elapsed_ns: record.total.wall_ns,
        ios: Some(counts.requests),
        bytes: Some(counts.bytes_in + counts.bytes_out),
        errors: Some(0),
        short_ios: Some(0),
        iops: Some(if seconds > 0.0 { counts.requests as f64 / seconds } else { 0.0 }),
        cpu: Cpu {
            user_ns: record.total.user_ns,
            system_ns: record.total.system_ns,
            sqpoll_ns,
            sqpoll_wakeups: None,
            helpers_ns: others_ns.zip(known_ns()).map(|(all, known)| all.saturating_sub(known)),
        },
        host: iotrail_host::facts(None)?.into(),
        warnings,
        thrown_away: 0,
        ..Measurement::default()
    })
}
