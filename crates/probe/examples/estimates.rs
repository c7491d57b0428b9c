//! Checks the interval coverage of a trace's estimates: replays event streams with 1 ms resolution through the windows
//! and estimators.
//!
//! usage: estimates STREAM... [--seeds N] [--seconds N]
//!
//! Each line of a stream is 1 ms: its end in µs, and the cumulative numbers of completions, system calls other than
//! io_uring_enter, all system calls, task work items, and completions of one ring. The events of a longer gap are
//! spread evenly over it. `benches/estimates.sh` records streams.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use iotrail_probe::observed::window_counts::{Known, WindowCount};
use iotrail_probe::pace::{Pace, Step};
use iotrail_probe::sampled_events::{Sampled, SampledEvents, Sums};
use iotrail_stats::expansion::{self, Rest, Window};
use iotrail_stats::random::Random;

const MS: Duration = Duration::from_millis(1);

/// Initial phase in which everything is counted, before the probes' cost is known.
const WHOLE_MS: usize = 400;

/// Schedule of a trace whose probes are attached in windows, in ms: its duration, the initial complete phase, one
/// window, and the window period.
const LIGHT_MS: [usize; 4] = [40_000, 10_000, 2_000, 40];

/// Position in a stream of the counts by delivery path and by ring.
const ITEMS: Sampled = Sampled::TaskWorkRuns;
const OF_RING: Sampled = Sampled::Returns;

struct Stream {
    name: String,
    ms: Vec<Sums>,
}

fn read(path: &str) -> Result<Stream, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let line = |line: &str| {
        let numbers: Option<Vec<u64>> = line.split_whitespace().map(|n| n.parse().ok()).collect();
        let [us, completions, stray_calls, syscalls, items, of_ring] = numbers?[..] else { return None };
        let mut sums = Sums { ns: us * 1000, completions, ..Sums::default() };
        sums.events[Sampled::Syscalls as usize] = syscalls;
        sums.events[Sampled::StrayCalls as usize] = stray_calls;
        sums.events[ITEMS as usize] = items;
        sums.events[OF_RING as usize] = of_ring;
        Some(sums)
    };
    // The last line may be truncated.
    let lines: Vec<Sums> = text.lines().map_while(line).collect();
    let ms: Vec<Sums> = lines.windows(2).flat_map(|two| spread(two[1].since(&two[0]))).collect();
    let name = std::path::Path::new(path).file_stem().map_or(path.into(), |n| n.to_string_lossy().into_owned());
    if ms.len() < 2 * WHOLE_MS { Err(format!("{path} is too short")) } else { Ok(Stream { name, ms }) }
}

/// Splits the sums of an interval into milliseconds.
fn spread(of: Sums) -> Vec<Sums> {
    let parts = ((of.ns + 500_000) / 1_000_000).max(1);
    let part = |n: u64, i: u64| n * (i + 1) / parts - n * i / parts;
    let one = |i| Sums { ns: 1_000_000, completions: part(of.completions, i), events: of.events.map(|n| part(n, i)) };
    (0..parts).map(one).collect()
}

fn sum(ms: &[Sums]) -> Sums {
    ms.iter().fold(Sums::default(), |mut sum, ms| {
        sum.add(ms);
        sum
    })
}

/// Traces a stream from a random position.
fn traced(stream: &Stream, seed: u64, seconds: usize) -> SampledEvents {
    let began = Instant::now();
    let at = |ms: usize| stream.ms[(ms + seed as usize * 7919) % stream.ms.len()];
    let all: Vec<Sums> = (0..seconds * 1000).map(at).collect();
    let mut events = SampledEvents::default();
    events.all = sum(&all);
    let mut pace = Pace::new(began, seed);
    events.whole(sum(&all[..WHOLE_MS]));
    pace.close(began + MS * WHOLE_MS as u32);
    let (mut opened, mut runs) = (None, 0);
    for (ms, sums) in all.iter().enumerate().skip(WHOLE_MS) {
        match pace.step(began + MS * ms as u32, runs, u64::MAX, false) {
            Some(Step::Open) => opened = Some(ms),
            Some(Step::Close) => events.window(sum(&all[opened.take().expect("it is open")..ms])),
            // A stream with few events stays sampled here, so that all of it checks the estimators.
            Some(Step::Stay) => {
                events.window(sum(&all[opened.take().expect("it is open")..ms]));
                pace.close(began + MS * ms as u32);
            }
            None => {}
        }
        runs += sums.events[Sampled::Syscalls as usize];
    }
    events
}

/// Counts of a trace that continued with windows of all probes. The rings' own counters cover all completions.
fn light(stream: &Stream, seed: u64) -> impl Fn(Sampled) -> Estimate {
    let [length, whole, period, open] = LIGHT_MS;
    let all: Vec<Sums> = (0..length).map(|ms| stream.ms[(ms + seed as usize * 7919) % stream.ms.len()]).collect();
    let mut random = Random::new(seed);
    let rest = &all[whole..];
    let window = |of: &[Sums]| sum(&of[random.below((period - 2 * open) as u64) as usize..][..open]);
    let windows: Vec<Sums> = rest.chunks_exact(period).map(window).collect();
    let (whole, rest, seen) = (sum(&all[..whole]), sum(rest), sum(&windows));
    let factor = rest.completions as f64 / (seen.completions as f64).max(1.0);
    move |of| {
        let of = |sums: &Sums| sums.events[of as usize] as f64;
        let (whole, in_windows) = (of(&whole), of(&seen));
        let count = WindowCount { whole, seen: whole + in_windows, estimate: whole + factor.max(1.0) * in_windows };
        let window = |w: &Sums| Window { span: w.ns as f64, counted: w.completions as f64, events: of(w) };
        let all = Rest { span: rest.ns as f64, counted: rest.completions as f64, slowed: 1.0 };
        let interval = count.interval(windows.iter().map(window).collect(), all, Known::All);
        Estimate { truth: whole + of(&rest), per: 1.0, total: count.estimate, interval }
    }
}

/// A traced number and its counting method.
type Number = (&'static str, Sampled);

/// An estimate, printed per `per`.
struct Estimate {
    truth: f64,
    per: f64,
    total: f64,
    interval: Option<(f64, f64)>,
}

impl Estimate {
    fn of(events: &SampledEvents, of: Sampled) -> Option<Self> {
        let (truth, per) = (events.all.events[of as usize] as f64, events.all.completions.max(1) as f64);
        let t = events.total(of)?;
        Some(Estimate { truth, per, total: t.total, interval: t.interval })
    }
}

/// Replays of one stream for one number.
#[derive(Default)]
struct Tally {
    replays: u32,
    covered: u32,
    printed: u32,
    far: u32,
    errors: Vec<f64>,
}

impl Tally {
    fn take(&mut self, Estimate { truth, per, total, interval }: Estimate) {
        let Some((lo, hi)) = interval else { return };
        self.replays += 1;
        self.covered += u32::from(lo <= truth && truth <= hi);
        let error = (total - truth).abs();
        self.errors.push(error / truth.max(1.0));
        if expansion::is_narrow(total / per, (lo / per, hi / per)) {
            self.printed += 1;
            self.far += u32::from(error > expansion::OFF * truth && error / per > expansion::NARROW);
        }
    }

    fn add(&mut self, other: &Tally) {
        self.replays += other.replays;
        self.covered += other.covered;
        self.printed += other.printed;
        self.far += other.far;
        self.errors.extend(&other.errors);
    }

    fn print(&mut self, name: &str, number: &str) {
        self.errors.sort_by(f64::total_cmp);
        let quantile = |q: f64| self.errors.get((q * self.errors.len() as f64) as usize).copied().unwrap_or(f64::NAN);
        let share = |n: u32, of: u32| {
            if of > 0 { format!("{:.1} %", 100.0 * f64::from(n) / f64::from(of)) } else { "–".into() }
        };
        println!(
            "{name:<14} {number:<13} {:>8} {:>9} {:>9} {:>9.1} % {:>6.1} %",
            share(self.covered, self.replays),
            share(self.printed, self.replays),
            share(self.far, self.printed),
            100.0 * quantile(0.5),
            100.0 * quantile(0.99),
        );
    }
}

fn run() -> Result<(), String> {
    let (mut paths, mut seeds, mut seconds) = (vec![], 1000, 5);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|n| n.parse().ok()).ok_or(format!("{arg} wants a number"));
        match arg.as_str() {
            "--seeds" => seeds = number()?,
            "--seconds" => seconds = number()?,
            _ => paths.push(arg),
        }
    }
    if paths.is_empty() {
        return Err("name the streams; benches/estimates.sh records some".into());
    }
    println!(
        "{:<14} {:<13} {:>8} {:>9} {:>9} {:>11} {:>8}",
        "program", "number", "covered", "printed", "> 25 % off", "error p50", "p99"
    );
    let numbers: [Number; 4] = [
        ("system calls", Sampled::Syscalls),
        ("other calls", Sampled::StrayCalls),
        ("by path", ITEMS),
        ("by ring", OF_RING),
    ];
    let mut all: [Tally; 4] = Default::default();
    for path in &paths {
        let stream = read(path)?;
        let mut tallies: [Tally; 4] = Default::default();
        for seed in 0..seeds as u64 {
            let (events, counts) = (traced(&stream, seed, seconds), light(&stream, seed));
            for ((_, of), tally) in numbers.iter().zip(&mut tallies) {
                let is_count = matches!(of, Sampled::TaskWorkRuns | Sampled::Returns);
                let estimate = if is_count { Some(counts(*of)) } else { Estimate::of(&events, *of) };
                estimate.into_iter().for_each(|estimate| tally.take(estimate));
            }
        }
        for (((number, _), tally), all) in numbers.iter().zip(&mut tallies).zip(&mut all) {
            all.add(tally);
            tally.print(&stream.name, number);
        }
    }
    numbers.iter().zip(&mut all).for_each(|((number, _), tally)| tally.print("all", number));
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("estimates: {why}");
            ExitCode::from(2)
        }
    }
}
