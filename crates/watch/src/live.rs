//! A trace that reports rates while it runs.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::allowed;
use super::namespace::Numbers;
use super::processes::Processes;
use super::rates::{Known, Meter, Moment, ThreadMeter};
use super::recorder;
use super::rings::{self, SQPOLL};
use super::session::{self, PERIOD, Watched};
use super::subject::Target;
use super::summary::{self, Part, Summary};
use iotrail_base::error::{Error, Result};
use iotrail_probe::choice::Choice;
use iotrail_probe::observed::Observed;
use iotrail_probe::watch::{ObjectSlot, Watch};
use iotrail_schema::measurement::Warning;
use iotrail_schema::top_record::TopRecord;

/// The options of the trace.
#[derive(Debug, Clone)]
pub struct Options {
    pub interval: Duration,
    /// Which requests to trace end to end.
    pub choice: Choice,
    pub numbers: Rc<Numbers>,
}

/// Receives the events of a live trace.
pub trait Listener {
    /// Tracing has begun; `missing`: unavailable features.
    fn begins(&mut self, missing: &[Warning]) -> Result<()>;
    /// An interval ended.
    fn interval(&mut self, record: TopRecord) -> Result<ControlFlow<()>>;
    /// Called repeatedly between intervals; must not block.
    fn meanwhile(&mut self) -> Result<ControlFlow<()>>;
}

/// Traces until the processes exit or the listener stops the trace.
pub fn watch(asked: Target, how: &Options, listener: &mut dyn Listener) -> Result<()> {
    allowed::allowed()?;
    let mut room = ObjectSlot::default();
    let mut watch = Watch::open(&mut room, session::probed(&asked, how.choice, false))?;
    let mut watched = match asked {
        Target::Processes(processes) => Watched::Processes(processes),
        Target::Everyone => Watched::Everyone,
        Target::Command(_) => {
            return Err(Error::input("a command cannot be traced live", "see `iotrail trace --help`"));
        }
    };
    let mut processes = Processes::new(!matches!(watched, Watched::Everyone), Rc::clone(&how.numbers));
    session::follow(&mut watched, &mut watch, &mut processes, &how.numbers)?;
    session::still_there(&watched)?;
    let mut missing = watch.missing();
    missing.extend(session::whose_numbers(&how.numbers));
    listener.begins(&missing)?;

    watch.begin()?;
    if how.choice.adaptive {
        watch.spare();
    }
    let mut began = Instant::now();
    let mut price = how.choice.adaptive.then(|| session::Price::new(None, began));
    let (mut summary, mut meter) = (Summary::new(how.choice), Meter::new(how.choice));
    let mut threads = ThreadMeter::default();
    loop {
        let over = watched.have_ended();
        if let Some(price) = &mut price {
            price.turn(&mut watch, &mut processes, &watched, &how.numbers)?;
        }
        watch.pace()?;
        session::take(&mut watch, &mut summary, &mut processes, None, None)?;
        processes.sample();
        let now = Instant::now();
        if over || now >= began + how.interval {
            let observed = watch.turn()?;
            summary.fold(&watch.folded());
            let read = Instant::now();
            let followed = summary.turn();
            let known = known(&observed, &followed, &processes, &how.numbers);
            let unix_s = recorder::now().unix_ns / 1_000_000_000;
            let end = Moment { elapsed_ns: (read - began).as_nanos() as u64, unix_s };
            began = read;
            let mut record = meter.turn(observed, &followed, &known, end);
            let mut times = threads.turn(watch.threads_turn()?);
            record.processes.iter_mut().for_each(|process| process.threads = times.remove(&process.tgid));
            if listener.interval(record)?.is_break() || over {
                return Ok(());
            }
        }
        if listener.meanwhile()?.is_break() {
            return Ok(());
        }
        watched
            .wait(PERIOD.min(watch.pace_rest()).min((began + how.interval).saturating_duration_since(Instant::now())));
    }
}

/// Data from /proc about each ring.
fn known(
    observed: &Observed,
    followed: &BTreeMap<Option<u32>, Part>,
    processes: &Processes,
    numbers: &Numbers,
) -> HashMap<u32, Known> {
    let sq_tids = summary::sq_tids(&observed.rings, followed);
    let matched =
        rings::matched(&observed.rings, &processes.rings.all(), &sq_tids, &rings::partly_told(&observed.others));
    let names: HashMap<u32, &str> = processes.names().collect();
    let mut alive: HashMap<u32, bool> = HashMap::new();
    let known = observed.rings.iter().zip(matched).map(|(counts, seen)| {
        let by_trails = sq_tids.get(&counts.ring).copied();
        // As in a trace: a thread that was seen submitting takes precedence over fdinfo.
        let tid = by_trails.or(seen.and_then(|ring| ring.sq_thread)).filter(|_| counts.setup_flags & SQPOLL != 0);
        // The exit of a process outside this PID namespace cannot be observed.
        let alive = *alive.entry(counts.tgid).or_insert_with(|| numbers.lives(counts.tgid) != Some(false));
        let known = Known {
            comm: names.get(&counts.tgid).map(|name| (*name).to_owned()),
            fds: seen.map_or(vec![], |ring| ring.fds.iter().copied().collect()),
            sq_thread: tid.and_then(|tid| processes.sq_thread(counts.tgid, tid)),
            gone: !alive,
        };
        (counts.ring, known)
    });
    known.collect()
}
