//! Runs the built `iotrail bench` like a user, and reads its JSON.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use iotrail_probe::subject::Interface;
use iotrail_probe::support::{Facts, plan};
use iotrail_probe::survey::{State, survey};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{DeliveryPathCount, Measurement};

use crate::ground::{is_emulated, may_lose};
use crate::trial;

/// Why this machine cannot run these tests; `None` if it can.
pub fn missing() -> Option<String> {
    // SAFETY: geteuid takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Some("not root".into());
    }
    let programs = survey();
    let refused: Vec<_> =
        programs.iter().filter(|p| matches!(p.state, State::Missing { refused: true, .. })).map(|p| p.name).collect();
    if !refused.is_empty() {
        return Some(format!("these probes don't load here: {}", refused.join(", ")));
    }
    let roles = Interface::Any.roles(true);
    if let Err(why) = plan(Facts::of_this_kernel(), &roles) {
        return Some(why);
    }
    let target = match iotrail_host::block::target(scratch_folder()) {
        Ok(target) => target,
        Err(e) => return Some(e.to_string()),
    };
    if target.interrupts.is_empty() {
        return Some(format!("{} is on no disk with known interrupts", scratch_folder().display()));
    }
    if cpus(&target).1.is_empty() {
        return Some("every CPU takes the disk's interrupts".into());
    }
    None
}

/// CPUs that handle the target's interrupts, and CPUs that do not.
fn cpus(target: &iotrail_schema::measurement::Target) -> (Vec<u32>, Vec<u32>) {
    let online = iotrail_host::cpu::online().expect("sysfs lists the CPUs");
    online.into_iter().partition(|cpu| target.interrupts.iter().any(|i| i.cpus.contains(cpu)))
}

fn scratch_folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// A 64 MiB file on the disk, laid out once.
pub fn file() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = scratch_folder().join("kernel-tests.dat");
        if std::fs::metadata(&path).map(|m| m.len()).ok() != Some(64 << 20) {
            if path.exists() {
                std::fs::remove_file(&path).expect("an old scratch file can be removed");
            }
            run(&format!("--file {} --size 64m --count 16 --warmup 0 --trace off", path.display()));
        }
        path
    })
}

/// Runs `bench --json` with these options, separated by spaces, and a short warm-up, which suffices for counts.
pub fn run(options: &str) -> Measurement {
    let warmup: &[&str] = if options.contains("--warmup") { &[] } else { &["--warmup", "100ms"] };
    let out = Command::new(env!("CARGO_BIN_EXE_iotrail"))
        .args(["bench", "--json"])
        .args(warmup)
        .args(options.split_whitespace())
        .output()
        .expect("the built binary starts");
    assert!(out.status.success(), "bench {options}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("--json prints one measurement")
}

/// Runs on the test's file with probes.
pub fn watched(options: &str) -> Measurement {
    let m = run(&format!("--file {} --trace on {options}", file().display()));
    exact(&m);
    m
}

/// The first result of `attempt` that `holds` accepts, among at most five with growing pauses. Interrupts of other
/// programs deliver completions too; one quiet second suffices to show the kernel's rule. `attempt` asserts the
/// invariants that no other program can break.
#[track_caller]
pub fn until<T>(attempt: impl Fn() -> T, holds: impl Fn(&T) -> Result<(), String>) -> T {
    match trial::attempts(&[0, 0, 1, 2, 4], attempt, holds) {
        Ok(got) => got,
        Err(why) => panic!("all attempts failed, the last one: {why}"),
    }
}

/// Runs on the test's file with probes, until [the rule](rule) holds for a delivery path.
#[track_caller]
pub fn watched_until(options: &str, vehicle: DeliveryPath) -> Measurement {
    until(|| watched(options), |m| rule(m, vehicle))
}

/// Asserts what holds for every measurement with probes of a traceable interface.
pub fn exact(m: &Measurement) {
    let sum: u64 = m.vehicles.iter().map(|v| v.completions).sum();
    assert_eq!(Some(sum), m.probe.completions_seen, "vehicles sum to the completions seen");
    let lost = m.probe.lost.expect("losses are counted");
    if lost > 0 && may_lose() {
        assert!(sum <= m.ios.unwrap() && m.ios.unwrap() - sum <= lost, "{sum} of {} seen, {lost} lost", m.ios.unwrap());
    } else {
        assert_eq!(sum, m.ios.unwrap(), "completions seen are the I/Os done: {:?}", m.vehicles);
        assert_eq!((lost, m.probe.untracked), (0, Some(0)));
    }
    assert_eq!((m.errors.unwrap(), m.short_ios.unwrap()), (0, 0));
    let p = m.phases.as_ref().expect("a load of ours has phases");
    let phases = p.submit + p.poll + p.clear + p.other;
    assert!((phases - 1.0).abs() < 1e-6, "phases sum to 1: {phases}");
}

/// Share of completions with this delivery path.
pub fn share(m: &Measurement, vehicle: DeliveryPath) -> f64 {
    let by: u64 = m.vehicles.iter().filter(|v| v.vehicle == vehicle).map(|v| v.completions).sum();
    by as f64 / m.ios.unwrap() as f64
}

/// Share of completions with this delivery path and a detail with this prefix.
pub fn detailed(m: &Measurement, vehicle: DeliveryPath, detail: &str) -> f64 {
    let of =
        |v: &&DeliveryPathCount| v.vehicle == vehicle && v.detail.as_deref().is_some_and(|d| d.starts_with(detail));
    m.vehicles.iter().filter(of).map(|v| v.completions).sum::<u64>() as f64 / m.ios.unwrap() as f64
}

/// Share of completions whose device was done before io_uring_enter returned from their submission; larger on faster
/// disks. With any ring flags, the submitting call posts these completions, or runs their task work at its exit.
pub fn early(m: &Measurement) -> f64 {
    share(m, DeliveryPath::Inline) + detailed(m, DeliveryPath::SyscallExit, "io_uring_enter")
}

/// Whether a delivery path has nearly all completions, except the [early](early) ones.
pub fn rule(m: &Measurement, vehicle: DeliveryPath) -> Result<(), String> {
    let got = share(m, vehicle);
    // A fast host's disk may be done before most submissions return, which leaves few completions to evaluate. On an
    // emulated CPU, a tick precedes the polling of many ready completions.
    let late = 1.0 - early(m);
    let nearly_all = if is_emulated() { 0.5 } else { 0.95 };
    if got >= nearly_all * late || late * (m.ios.unwrap() as f64) < 50.0 {
        return Ok(());
    }
    Err(format!("{vehicle} carried {got:.4} of {}: {:?}", m.ios.unwrap(), m.vehicles))
}

#[track_caller]
pub fn assert_share(m: &Measurement, vehicle: DeliveryPath, at_least: f64) {
    let got = share(m, vehicle);
    assert!(got >= at_least, "{vehicle} carried {got:.4} of {}, not {at_least}: {:?}", m.ios.unwrap(), m.vehicles);
}
