//! `iotrail replay`: replays a recorded program's I/O without the program, unchanged and with modified options.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use toml::{Table, Value};

use super::one_of;
use super::run::{self as experiments, RunArgs};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::output::{self, Existing, Reserved};
use iotrail_base::{interrupt, words};
use iotrail_experiment::replay::{INTERFACES, Progress, ReplayOptions, SPEEDS, name, once, replay};
use iotrail_load::options::Trace;
use iotrail_replay::compile::Compiler;
use iotrail_replay::fio_log;
use iotrail_replay::program::Program;
use iotrail_replay::run::{Interface, Speed};
use iotrail_report::terminal;
use iotrail_schema::recorded::Ending;
use iotrail_watch::replay_recording::ReplayReader;

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Recording made with `iotrail trace --record FILE --for-replay`, or a fio iolog (--write_iolog)
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// Submit through this interface (default: as recorded)
    #[arg(long, value_parser = one_of(&INTERFACES[..3]), value_name = "ENGINE")]
    engine: Option<Interface>,

    /// Set up rings with exactly these flags, as in `iotrail bench --ring`, or none (default: as recorded, without sqpoll)
    #[arg(long, value_name = "LIST")]
    ring: Option<String>,

    /// Register these with the ring: files, buffers, or none (default: as recorded)
    #[arg(long, value_name = "LIST")]
    register: Option<String>,

    /// Submit N requests per call, and wait for N completions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: Option<u32>,

    /// Keep N requests in flight per thread and ring. With more than recorded, the result is an upper bound
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16384))]
    depth: Option<u32>,

    /// Give each thread its own ring
    #[arg(long, value_parser = ["per-thread"], value_name = "RINGS", default_value = "per-thread")]
    rings: String,

    /// Use the file or directory NEW in place of the recorded OLD; may be repeated
    #[arg(long = "map", value_name = "OLD=NEW", value_parser = pair)]
    maps: Vec<(PathBuf, PathBuf)>,

    /// Allow the replay to overwrite existing --map files
    #[arg(long)]
    allow_write: bool,

    /// Compute between calls as recorded (think), not at all (none), or submit at the recorded times (timestamps). By default, both think and
    /// none are replayed if most of the time is think time
    #[arg(long, value_parser = one_of(&SPEEDS), value_name = "SPEED")]
    speed: Option<Speed>,

    /// Replay N times, both unchanged and with the specified options
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,

    /// Replay only the first N requests
    #[arg(long, value_name = "N", default_value_t = MOST, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    requests: u64,

    /// Replay once with the specified options and measure nothing else, for use under another tool: `iotrail trace -- iotrail replay FILE --once`
    #[arg(long, conflicts_with_all = ["repeats", "seed", "full"])]
    once: bool,

    /// Seed the order of the replays (default: random)
    #[arg(long, value_name = "N")]
    seed: Option<u32>,

    /// Trace one replay of each kind, to count kicks, interrupts and punts: if possible, always or never
    #[arg(long, value_enum, value_name = "WHETHER", default_value_t = Trace::Auto)]
    trace: Trace,

    /// Replay on each of these kernels, in virtual machines, and compare them: see `iotrail run --kernels`
    #[arg(long, value_name = "LIST", conflicts_with_all = ["once", "trace"])]
    kernels: Option<String>,

    /// Boot with this accelerator: auto, kvm or tcg
    #[arg(long, value_name = "HOW", requires = "kernels")]
    accel: Option<String>,

    /// Print all sections, not only the answer
    #[arg(long, conflicts_with = "json")]
    full: bool,

    /// Print JSON on standard output
    #[arg(long)]
    json: bool,
}

impl ReplayArgs {
    /// `--ring`, with an empty list for `none`.
    fn ring_flags(&self) -> Option<String> {
        self.ring.as_ref().map(|list| if list.trim() == "none" { String::new() } else { list.clone() })
    }
}

fn pair(text: &str) -> std::result::Result<(PathBuf, PathBuf), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.into(), new.into())),
        _ => Err(format!("'{text}' is not OLD=NEW")),
    }
}

pub fn run(args: &ReplayArgs) -> Result<u8> {
    if let Some(kernels) = &args.kernels {
        return on_kernels(args, kernels);
    }
    let stop = interrupt::raise_flag()?;
    let bar = ProgressBar::with_draw_target(None, terminal::progress_target());
    bar.set_style(ProgressStyle::with_template("{msg}").expect("a fixed template"));
    let program = program(&args.recording, args.requests, &bar)?;
    let options = ReplayOptions {
        interface: args.engine,
        ring: args.ring_flags(),
        register: args.register.clone(),
        batch: args.batch,
        depth: args.depth,
        speed: args.speed,
        requests: args.requests,
        maps: args.maps.clone(),
        allow_write: args.allow_write,
        repeats: args.repeats,
        seed: args.seed,
        trace: args.trace,
    };
    if args.once {
        let replayed = once(program, &options, stop)?;
        bar.finish_and_clear();
        if args.json {
            terminal::print_with_head(&replayed, &replayed.measurement)?;
            return Ok(0);
        }
        let replayed = replayed.measurement;
        let (n, span) = (replayed.ios.unwrap_or(0), words::span(replayed.elapsed_ns as f64));
        let rate = replayed.iops.map_or(words::UNKNOWN.into(), words::count);
        terminal::print(&format!("{} replayed in {span}, {rate} per second\n", words::plural(n as usize, "request")))?;
        return Ok(0);
    }
    let mut progress = |p: Progress<'_>| match p {
        Progress::Copying => bar.set_message("checking and copying files"),
        Progress::Replaying { arm, done, of } => bar.set_message(format!("replay {} of {of}: {arm}", done + 1)),
    };
    let record = replay(program, &args.recording, &options, &mut progress, stop);
    bar.finish_and_clear();
    let record = record?;
    match args.json {
        true => terminal::print_json(&record)?,
        false => terminal::show(&terminal::replay(&record, args.full))?,
    }
    Ok(0)
}

/// The replay as an experiment, with the options as second arm.
fn on_kernels(args: &ReplayArgs, kernels: &str) -> Result<u8> {
    #[derive(clap::Parser)]
    struct Run {
        #[command(flatten)]
        run: RunArgs,
    }
    let folder = tempfile::tempdir()
        .or_machine("cannot create a temporary directory", "check the free space in TMPDIR or /tmp")?;
    let file = folder.path().join("replay.toml");
    output::write(Reserved::new(&file, Existing::Keep, "--kernels")?, experiment(args)?.as_bytes())?;
    let mut line = vec!["run".to_owned(), file.display().to_string(), "--kernels".into(), kernels.into()];
    line.extend(args.accel.as_ref().map(|accel| format!("--accel={accel}")));
    line.extend(args.seed.map(|seed| format!("--seed={seed}")));
    let flags = [(args.allow_write, "--allow-write"), (args.full, "--full"), (args.json, "--json")];
    line.extend(flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag.to_owned()));
    let line = <Run as clap::Parser>::try_parse_from(line).map_err(|e| Error::internal(e.to_string()))?;
    experiments::run(&line.run)
}

/// The text of that experiment.
fn experiment(args: &ReplayArgs) -> Result<String> {
    let recording = std::path::absolute(&args.recording)
        .or_input("the current directory does not exist", "change to another one")?;
    let mut file = toml::toml! {
        name = "replay"
        title = "a recorded program on several kernels"
        question = "Does the kernel make a difference?"
        expect = "Counts per I/O that depend on the kernel."
        kind = "program"
        metrics = ["iops", "cpu_per_io", "latency_p99"]
    };
    let number = |n: u32| Value::from(i64::from(n));
    let changes: Table = [
        ("engine", args.engine.map(|engine| name(&INTERFACES, engine).into())),
        ("ring", args.ring_flags().map(Value::from)),
        ("register", args.register.clone().map(Value::from)),
        ("batch", args.batch.map(number)),
        ("depth", args.depth.map(number)),
        ("speed", args.speed.map(|speed| name(&SPEEDS, speed).into())),
    ]
    .into_iter()
    .filter_map(|(option, value)| Some((option.to_owned(), value?)))
    .collect();
    let arm = |name: &str, options: Table| [("name".to_owned(), name.into())].into_iter().chain(options).collect();
    let mut arms: Vec<Table> = vec![arm("unchanged", Table::new())];
    if !changes.is_empty() {
        arms.push(arm("changed", changes));
    }
    let maps: Vec<String> = args.maps.iter().map(|(old, new)| format!("{}={}", old.display(), new.display())).collect();
    let mut load = Table::new();
    load.insert("replay".into(), recording.display().to_string().into());
    load.insert("requests".into(), Value::from(args.requests as i64));
    load.insert("map".into(), maps.into());
    file.insert("repeats".into(), number(args.repeats));
    file.insert("load".into(), load.into());
    file.insert("arm".into(), Value::from(arms));
    toml::to_string(&file).map_err(|e| Error::internal(e.to_string()))
}

/// Maximum number of requests read by default.
const MOST: u64 = 10_000_000;

/// Usage errors: not a recording for replay, or damaged or truncated.
pub(super) fn read(path: &Path) -> Result<Program> {
    program(path, MOST, &ProgressBar::hidden())
}

fn program(path: &Path, most: u64, bar: &ProgressBar) -> Result<Program> {
    let mut compiler = Compiler::new(most);
    if most != MOST {
        // Only the complete recording shows which calls are part of the load. Damage matters only in the replayed part.
        let mut complete = Compiler::new(most.max(MOST));
        let _ = compile(path, &mut complete, bar);
        compiler.only(complete.load());
    }
    compile(path, &mut compiler, bar)?;
    compiler.finish()
}

fn compile(path: &Path, compiler: &mut Compiler, bar: &ProgressBar) -> Result<()> {
    if fio_log::is_one(path) {
        compiler.imported();
        return fio_log::read(path, &mut |event| compiler.take(&event));
    }
    let mut reader = ReplayReader::open(path)?;
    for (n, event) in (0u64..).zip(reader.by_ref()) {
        if let ControlFlow::Break(()) = compiler.take(&event?) {
            return Ok(());
        }
        if n.is_multiple_of(1 << 20) {
            bar.set_message(format!("reading the recording: {} million events", n >> 20));
        }
    }
    let again = "record it again with `iotrail trace --record FILE --for-replay`, or copy it completely";
    match reader.ending() {
        Some(Ending::Damaged { at_byte }) => {
            Err(Error::input(format!("the recording {} is damaged at byte {at_byte}", path.display()), again))
        }
        Some(Ending::Cut { at_byte }) => {
            Err(Error::input(format!("the recording {} is truncated at byte {at_byte}", path.display()), again))
        }
        _ => Ok(()),
    }
}
