//! How often the intervals of a trace's estimates hold: streams of events by the millisecond, replayed through the windows and the estimators.
//!
//! usage: estimates STREAM... [--seeds N] [--seconds N]
//!
//! A stream has one line per millisecond: its end in µs, and all completions, system calls other than io_uring_enter, and system calls until then.
//! A gap's are spread over it. `benches/estimates.sh` records some.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use iotrail_probe::pace::{Pace, Step};
use iotrail_probe::sampled_events::{Sampled, SampledEvents, Sums};
use iotrail_stats::expansion;

const MS: Duration = Duration::from_millis(1);

/// How long everything is counted before its cost is known.
const WHOLE_MS: usize = 400;

struct Stream {
    name: String,
    ms: Vec<Sums>,
}

fn read(path: &str) -> Result<Stream, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let line = |line: &str| {
        let numbers: Option<Vec<u64>> = line.split_whitespace().map(|n| n.parse().ok()).collect();
        let [us, completions, stray_calls, syscalls] = numbers?[..] else { return None };
        let mut sums = Sums { ns: us * 1000, completions, ..Sums::default() };
        sums.events[Sampled::Syscalls as usize] = syscalls;
        sums.events[Sampled::StrayCalls as usize] = stray_calls;
        Some(sums)
    };
    // The last line may be cut.
    let lines: Vec<Sums> = text.lines().map_while(line).collect();
    let ms: Vec<Sums> = lines.windows(2).flat_map(|two| spread(two[1].since(&two[0]))).collect();
    let name = std::path::Path::new(path).file_stem().map_or(path.into(), |n| n.to_string_lossy().into_owned());
    if ms.len() < 2 * WHOLE_MS { Err(format!("{path} is too short")) } else { Ok(Stream { name, ms }) }
}

/// By the millisecond.
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

/// The trace of a stream from a place of its own on.
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
            // A quiet stream stays sampled here: all of it checks the estimators.
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

/// A number of a trace, and how it is counted.
type Number = (&'static str, Sampled);

/// The replays of one stream and one number.
#[derive(Default)]
struct Tally {
    replays: u32,
    covered: u32,
    printed: u32,
    far: u32,
    errors: Vec<f64>,
}

impl Tally {
    fn take(&mut self, events: &SampledEvents, of: Sampled) {
        let (truth, per) = (events.all.events[of as usize] as f64, events.all.completions.max(1) as f64);
        let Some(t) = events.total(of) else { return };
        let Some((lo, hi)) = t.interval else { return };
        self.replays += 1;
        self.covered += u32::from(lo <= truth && truth <= hi);
        let error = (t.total - truth).abs();
        self.errors.push(error / truth.max(1.0));
        if expansion::is_narrow(t.total / per, (lo / per, hi / per)) {
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
    let numbers: [Number; 2] = [("system calls", Sampled::Syscalls), ("other calls", Sampled::StrayCalls)];
    let mut all = [Tally::default(), Tally::default()];
    for path in &paths {
        let stream = read(path)?;
        let mut tallies = [Tally::default(), Tally::default()];
        for seed in 0..seeds as u64 {
            let events = traced(&stream, seed, seconds);
            numbers.iter().zip(&mut tallies).for_each(|((_, of), tally)| tally.take(&events, *of));
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
