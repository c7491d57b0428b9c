//! Other programs run next to the traced program: their events are not attributed to it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::trace_record::TraceRecord;
use libtest_mimic::Failed;
use serde_json::Value;

use super::Test;
use crate::bench::{file, run, watched};
use crate::ground::{ground, watch_with};

pub const TESTS: &[(&str, Test)] = &[
    ("programs_without_device_io_are_not_charged_for_neighbours", without_device),
    ("a_socket_loop_next_to_disk_io_has_no_wrong_core_finding", socket_loop),
    ("reads_of_a_program_are_attributed_to_their_own_interrupts", own_reads),
    ("only_a_loads_own_interrupts_are_counted_on_a_shared_disk", own_load),
    ("native_aio_is_untracked_only_in_interrupts_without_probes", untracked),
];

/// A neighbour by name, killed on drop.
struct Neighbour(Child);

impl Neighbour {
    /// Returns once the neighbour's activity has started.
    fn start(name: &str) -> Result<Self, Failed> {
        let mut command = Command::new(ground());
        let mut neighbour = Self(command.arg(format!("beside:{name}")).stdout(Stdio::piped()).spawn()?);
        let mut said = String::new();
        BufReader::new(neighbour.0.stdout.take().expect("it is piped")).read_line(&mut said)?;
        assert_eq!(said, "at work\n", "{name}");
        Ok(neighbour)
    }

    fn is_at_work(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let ended = self.0.kill().and_then(|()| self.0.wait());
        assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
    }
}

fn names() -> Vec<String> {
    let listed = Command::new(ground()).arg("beside:list").output().expect("cargo test builds the ground program");
    String::from_utf8(listed.stdout).expect("names").lines().map(Into::into).collect()
}

/// One thread each and no device, so no interrupts or kicks belong to them.
const CLEAN: [&str; 8] = [
    "inline_nop",
    "inline_cached",
    "eventfd_polls",
    "sockets",
    "pipes",
    "provided_buffers",
    "multishot_recv",
    "libaio_buffered",
];

/// More threads than CPUs are runnable, including the neighbour's, so waits for a CPU are real and may be reported.
const CPU_TAKEN: &str = "waiting_for_cpu";

/// Errors in the report on a program without problems. `own`: findings that belong to the program.
fn wrong(trace: &TraceRecord, own: &[&str]) -> Vec<String> {
    let found = trace.findings.iter().filter(|f| !own.contains(&f.code.as_str()));
    found.map(|f| format!("finding {}: {}", f.code, f.text)).collect()
}

/// Runs one program after another in a single trace: checks each program's activity by its own report.
fn watch_clean(path: &str) -> Result<(TraceRecord, Vec<Value>), Failed> {
    let each = CLEAN.map(|program| format!("{} {program} --count 960 --file {path}", ground().display()));
    let out = Command::new(env!("CARGO_BIN_EXE_iotrail"))
        .args(["trace", "--json", "--one-in", "1", "--", "sh", "-c", &each.join(" && ")])
        .output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let truths = said.lines().filter(|l| l.starts_with('{')).map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok((serde_json::from_slice(&out.stdout)?, truths))
}

fn without_device() -> Result<(), Failed> {
    let mut said = vec![];
    let path = file().display().to_string();
    let names = names();
    assert_eq!(names.len(), 10);
    // Reading the programs' executables would count as their own I/O, so first brings them into the page cache.
    watch_clean(&path)?;
    for name in names {
        let mut neighbour = Neighbour::start(&name)?;
        let foreign = of_neighbour(&name, &path)?;
        assert!(neighbour.is_at_work(), "{name} ended early");
        said.extend(foreign);
    }
    if said.is_empty() { Ok(()) } else { Err(said.join("\n").into()) }
}

/// Findings on the clean programs next to this neighbour that are not their own.
fn of_neighbour(name: &str, path: &str) -> Result<Vec<String>, Failed> {
    let (trace, truths) = watch_clean(path)?;
    let total = &trace.total;
    assert_eq!(truths.len(), CLEAN.len());
    let done = truths.iter().map(|t| t["expected"]["completions"].as_u64().expect("a count")).sum::<u64>();
    assert_eq!(total.ios, done, "beside {name}");
    let mut said = vec![];
    let credited: u64 = total.interrupts.iter().filter_map(|i| i.credited).sum();
    if (total.per_io.device_irqs, credited) != (Some(0.0), 0) {
        said.push(format!("beside {name}: device interrupts: {:?}", total.interrupts));
    }
    if total.per_io.kicks != Some(0.0) {
        said.push(format!("beside {name}: kicks: {:?}", total.ipis));
    }
    said.extend(
        wrong(&trace, &["delivered_out_of_order", "reordered", CPU_TAKEN])
            .into_iter()
            .map(|what| format!("beside {name}: {what}")),
    );
    Ok(said)
}

fn socket_loop() -> Result<(), Failed> {
    let mut reader = Neighbour::start("disk_reader")?;
    let (trace, _) = watch_with("unix_echo", &["--count", "4000"]);
    assert!(reader.is_at_work());
    assert_eq!(trace.total.per_io.device_irqs, Some(0.0));
    assert_eq!(wrong(&trace, &[CPU_TAKEN]), Vec::<String>::new());
    Ok(())
}

/// One read at a time: each has an interrupt of its own, or completes without one.
fn own_reads() -> Result<(), Failed> {
    let path = file().display().to_string();
    for name in ["disk_reader", "disk_writer", "peeking_ring", "unix_ping_pong"] {
        let mut neighbour = Neighbour::start(name)?;
        for program in ["enter_slept", "libaio"] {
            let (trace, _) = watch_with(program, &["--count", "800", "--file", &path]);
            let total = &trace.total;
            let own = total.per_io.device_irqs.expect("whose they are is known") * total.ios as f64;
            let lines = total.interrupts.iter().filter(|i| i.credited.is_some());
            let (count, proc) = lines.fold((0, 0), |(n, p), i| (n + i.count, p + i.proc_count.unwrap_or(0)));
            let blind = proc.saturating_sub(count) as f64;
            if own > total.ios as f64 {
                return Err(format!("{program} beside {name}: {own} interrupts for {} reads", total.ios).into());
            }
            // One interrupt reports all requests that complete together.
            let least = if program == "libaio" { total.ios as f64 / 8.0 } else { 0.9 * total.ios as f64 };
            if own + blind < least {
                return Err(format!("{program} beside {name}: {own} interrupts, {blind} unseen").into());
            }
        }
        assert!(neighbour.is_at_work(), "{name} ended early");
    }
    Ok(())
}

/// The same for an iotrail load, whose target is known.
fn own_load() -> Result<(), Failed> {
    file();
    let mut neighbour = Neighbour::start("disk_reader")?;
    for options in ["--depth 1", "--depth 1 --engine libaio", "--depth 1 --engine sync", "--depth 1 --engine posix_aio"]
    {
        let options = format!("{options} --count 1500 --warmup 0");
        // Only interrupts report native AIO's completions, and some interrupts run no BPF program.
        let m = if options.contains("libaio") { seen(&options) } else { watched(&options) };
        let own = m.per_io.device_irqs.expect("whose they are is known");
        // A single interrupt may complete a read of each; the bytes transferred by the disk show that both were
        // reading.
        let moved = m.circumstances.as_ref().and_then(|c| c.device.as_ref()).expect("the disk counts").read_bytes;
        assert!(
            moved > m.bytes.unwrap() + 20 * 4096,
            "{options}: the neighbour reads too: {moved} for {}",
            m.bytes.unwrap()
        );
        assert!(own <= 1.0, "{options}: {own}");
        let unknown =
            m.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::Unknown).map(|v| v.completions).sum::<u64>();
        let unknown = unknown + m.probe.untracked.unwrap_or(0);
        assert!(own > 0.9 - unknown as f64 / m.ios.unwrap() as f64, "{options}: {own}");
    }
    // The load uses no device, although its file is on one.
    let m = watched("--rw nop --depth 16 --count 200000 --warmup 0");
    assert_eq!(m.per_io.device_irqs, Some(0.0));
    assert_eq!(m.per_io.kicks, Some(0.0));
    assert!(neighbour.is_at_work());
    Ok(())
}

/// Runs on the test's file with probes. Observed and untracked completions add up to all I/Os.
fn seen(options: &str) -> Measurement {
    let m = run(&format!("--file {} --trace on {options}", file().display()));
    let completions: u64 = m.vehicles.iter().map(|v| v.completions).sum();
    assert_eq!(Some(completions), m.probe.completions_seen, "vehicles sum to the completions seen");
    assert_eq!(Some(m.ios.unwrap() - completions), m.probe.untracked, "the others are untracked");
    m
}

/// On some virtual machines, no BPF program runs while a thread of process 1 is current, not even for an interrupt.
fn untracked() -> Result<(), Failed> {
    file();
    let m = seen("--engine libaio --depth 1 --count 8000 --warmup 0");
    let lines = m.interrupts.iter().filter(|i| i.credited.is_some_and(|n| n > 0));
    let unseen: u64 = lines.map(|i| i.proc_count.expect("/proc/interrupts").saturating_sub(i.count)).sum();
    let untracked = m.probe.untracked.expect("completions are seen");
    // The counters are not read at the same instant.
    assert!(untracked <= unseen + 2, "{untracked} untracked, {unseen} interrupts unseen");
    Ok(())
}
