//! Compares the aggregation in the probes with its events: the same run, recorded and assembled completion by
//! completion, has the same delivery paths.
//!
//! With IOTRAIL_GOLDEN_WRITE=1, short runs are also recorded into tests/golden: their events, and the aggregated counts
//! as expected result.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use iotrail_path::assemble::{Assembled, assemble};
use iotrail_path::event::{Event, What};
use iotrail_probe::observed::Observed;
use iotrail_probe::recording::{Capacity, Recording};
use iotrail_probe::subject::{Interface, Scope, Subject};
use iotrail_probe::watch::{ObjectSlot, Watch};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::Measurement;
use libtest_mimic::{Failed, Trial};

use crate::bench::{file, run};
use crate::trial;

/// Name, options, and number of I/Os of the short run that is stored as a golden file (0: none is).
const CONFIGURATIONS: [(&str, &str, u32); 17] = [
    ("peek_default", "--depth 1 --cpus non-irq --wait peek --count 20000", 16),
    ("peek_coop", "--ring coop_taskrun --depth 1 --cpus non-irq --wait peek --count 500", 8),
    ("peek_taskrun_flag", "--ring coop_taskrun,taskrun_flag --depth 1 --cpus non-irq --wait peek --count 20000", 16),
    ("peek_irq_cpu", "--depth 1 --cpus irq --wait peek --count 20000", 16),
    ("blocking", "--depth 1 --cpus non-irq --count 20000", 16),
    ("blocking_irq_cpu", "--depth 1 --cpus irq --count 20000", 0),
    ("defer_block", "--ring defer_taskrun,single_issuer --depth 1 --cpus non-irq --count 20000", 16),
    ("defer_deep", "--ring defer_taskrun,single_issuer --depth 64 --batch 8 --count 50000", 48),
    ("sqpoll", "--ring sqpoll --depth 4 --wait peek --count 20000", 16),
    ("force_async", "--force-async --buffered --depth 4 --count 10000", 8),
    ("cached", "--buffered --depth 8 --batch 8 --count 50000", 64),
    ("nop", "--rw nop --depth 32 --batch 32 --count 100000", 0),
    ("depth_16_batch_4", "--depth 16 --batch 4 --count 20000", 32),
    ("two_jobs", "--jobs 2 --depth 16 --batch 4 --count 20000", 32),
    ("two_jobs_on_one_cpu", "--jobs 2 --cpus 0 --depth 4 --wait peek --count 10000", 0),
    ("busy_neighbour", "--depth 4 --cpus non-irq --wait peek --neighbour busy:1 --count 10000", 0),
    ("reaper_thread", "--depth 8 --reaper thread --wait block --count 10000", 0),
];

pub fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = CONFIGURATIONS
        .into_iter()
        .map(|(name, options, _)| trial::test(format!("replay::{name}"), move || agrees(name, options)))
        .collect();
    if std::env::var_os("IOTRAIL_GOLDEN_WRITE").is_some() {
        for (name, options, ios) in CONFIGURATIONS.into_iter().filter(|(_, _, ios)| *ios > 0) {
            trials
                .push(trial::test(format!("replay::golden::{name}"), move || crate::golden::write(name, options, ios)));
        }
    }
    trials
}

/// A run that was counted and recorded.
pub struct Watched {
    pub load: Measurement,
    pub counted: Observed,
    pub recording: Recording,
}

/// Runs `bench` without probes of its own and traces it from its first instruction to its last.
pub fn watch(options: &str) -> Result<Watched, Failed> {
    let target = match options.contains("--rw nop") {
        true => String::new(),
        false => format!("--file {}", file().display()),
    };
    if options.contains("--buffered") {
        // Brings the data into the page cache.
        run(&format!("{target} --rw read --buffered --bs 64k --count 1024 --trace off"));
    }
    // The shell waits for a line and then executes bench in the same process, so that the TGID is known in advance.
    let mut child = Command::new("sh")
        .args(["-c", "read go && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_iotrail")])
        .args(["bench", "--json", "--trace", "off", "--warmup", "0"])
        .args(target.split_whitespace())
        .args(options.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let watched = watch_child(&mut child);
    if watched.is_err() {
        // The process may still be waiting for its line, or may have exited already.
        child.kill()?;
    }
    let out = child.wait_with_output()?;
    let (counted, recording) = watched?;
    if !out.status.success() {
        return Err(format!("bench {options}: {}", String::from_utf8_lossy(&out.stderr)).into());
    }
    Ok(Watched { load: serde_json::from_slice(&out.stdout)?, counted, recording })
}

fn watch_child(child: &mut Child) -> Result<(Observed, Recording), Failed> {
    let tgid = child.id();
    // `bench` also excludes its first thread, which only waits for the load.
    let subject = Subject {
        who: Scope::Process { tgid, unwatched_tid: tgid },
        interface: Interface::IoUring { iopoll: false },
        target_irqs: vec![],
        follow: None,
        aio_awaited: false,
        spans_timed: false,
    };
    let capacity = Capacity { ring_bytes: 16 << 20, events: 1 << 20 };
    let mut room = ObjectSlot::default();
    let mut watch = Watch::open_recording(&mut room, subject, capacity)?;
    watch.begin()?;
    child.stdin.take().expect("it is piped").write_all(b"go\n")?;
    while child.try_wait()?.is_none() {
        watch.drain()?;
        std::thread::sleep(Duration::from_millis(5));
    }
    let counted = watch.end()?;
    let recording = watch.recording()?.expect("it was opened to record");
    Ok((counted, recording))
}

/// The aggregated counts, in the assembler's form.
pub fn counts(counted: &Observed) -> BTreeMap<(DeliveryPath, Option<String>), u64> {
    counted.vehicles.iter().map(|v| ((v.vehicle, v.detail.as_ref().map(ToString::to_string)), v.completions)).collect()
}

/// Number of events of a kind.
fn number(events: &[Event], of: fn(&What) -> bool) -> u64 {
    events.iter().filter(|e| of(&e.what)).count() as u64
}

fn agrees(name: &str, options: &str) -> Result<(), Failed> {
    let Watched { load, counted, recording } = watch(options)?;
    let Assembled { completions, oddities } = assemble(&recording.events);
    assert_eq!((recording.lost, recording.beyond_capacity, counted.lost), (0, 0, 0), "nothing is lost");
    assert_eq!(completions.len() as u64, load.ios.unwrap(), "one posted event per I/O");
    assert_eq!(counted.seen, load.ios.unwrap(), "one counted completion per I/O");
    assert_eq!(Assembled { completions, oddities }.vehicles(), counts(&counted), "{name}: assembled, counted");
    let left = number(&recording.events, |e| matches!(e, What::SwitchedOut { .. }));
    assert_eq!(left, counted.context_switches, "context switches");
    // Runs of an SQPOLL thread are counted but not recorded, because the thread already identifies its completions.
    if !options.contains("sqpoll") {
        let runs = number(&recording.events, |e| matches!(e, What::Run { .. }));
        assert_eq!(Some(runs), counted.task_work_runs, "runs of task work");
    }
    // A task work item that posts nothing frees a request completed by an io-wq worker.
    let frees = if options.contains("--force-async") { oddities.overclaimed_runs } else { 0 };
    assert_eq!(oddities.total() - oddities.of_blindness() - frees, 0, "{name}: {oddities:?}");
    Ok(())
}
