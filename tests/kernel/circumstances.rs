//! Readings around a load, and the rules on them, for known causes: another reader, a quota, the page cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use iotrail_answer::comparable::{ANOTHER_LOAD, DISTURBED, another_load, disturbances};
use iotrail_schema::measurement::{Circumstances, Measurement, Warning};
use iotrail_schema::trace_record::TraceRecord;
use libtest_mimic::{Failed, Trial};

use crate::bench::{file, run, until};
use crate::beside::Beside;
use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 6] = [
        ("direct_reads_are_counted_at_the_disk", direct),
        ("short_direct_reads_are_counted_at_the_disk", short),
        ("resident_reads_are_not_counted_at_the_disk", resident),
        ("io_of_another_reader_is_reported", another_reader),
        ("a_load_without_a_file_reports_no_disk", no_file),
        ("throughput_intervals_cover_the_complete_run", course),
    ];
    let with_quota: [(&str, Test); 2] = [
        ("a_throttled_load_is_reported_with_its_cpu_quota", throttled),
        ("a_throttled_traced_program_is_reported_with_its_cpu_quota", traced),
    ];
    let quota = with_quota.map(|(name, test)| {
        trial::test(format!("circumstances::{name}"), test).with_ignored_flag(Group::parent().is_none())
    });
    let trial = |(name, test): (&str, Test)| trial::test(format!("circumstances::{name}"), test);
    tests.into_iter().map(trial).chain(quota).collect()
}

fn reasons(m: &Measurement) -> Vec<String> {
    disturbances(m).into_iter().chain(another_load(m)).collect()
}

fn around(m: &Measurement) -> &Circumstances {
    m.circumstances.as_deref().expect("looked at")
}

/// Codes of the warnings that make the measurement incomparable.
fn codes(m: &Measurement) -> Vec<&str> {
    let told = |code: &&str| DISTURBED.contains(code) || ANOTHER_LOAD.contains(code);
    let codes: Vec<&str> = m.warnings.iter().map(|w| w.code.as_str()).filter(told).collect();
    assert_eq!(reasons(m).len(), codes.len());
    codes
}

/// Whether it is comparable, apart from other users of the CPUs that the kernel reports, on this machine or on its
/// host.
fn comparable(m: &Measurement) -> Result<(), String> {
    let c = around(m);
    let others = |code: &&str| match *code {
        "cpu_contended" => c.runnable_before.is_some_and(|n| n > 0),
        code => code == "steal",
    };
    match codes(m).into_iter().filter(|code| !others(code)).collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        codes => Err(format!("{codes:?}: {c:?}")),
    }
}

/// Other programs occasionally use this machine's disk, so one undisturbed attempt of five suffices.
fn of_disk(options: &str) -> Measurement {
    until(|| run(&format!("--file {} {options}", file().display())), comparable)
}

fn direct() -> Result<(), Failed> {
    let m = of_disk("--direct --depth 8 --runtime 1s --warmup 200ms");
    let device = around(&m).device.as_ref().expect("the test's disk counts");
    assert_eq!(device.asked_bytes, m.bytes.unwrap());
    // The device's bytes include those that the load reads.
    assert!(device.read_bytes >= m.bytes.unwrap(), "{device:?}");
    assert!(device.read_bytes as f64 <= 1.05 * m.bytes.unwrap() as f64 + f64::from(640 << 10), "{device:?}");
    let c = around(&m);
    assert!(c.span_ns >= m.elapsed_ns, "{} {}", c.span_ns, m.elapsed_ns);
    assert_eq!(c.interrupts_after, m.host.target.as_ref().expect("a target").interrupts);
    assert!(c.run_queue_wait_ns.is_some() && c.steal_ns.is_some() && c.runnable_before.is_some(), "{c:?}");
    Ok(())
}

fn short() -> Result<(), Failed> {
    let m = of_disk("--direct --depth 1 --runtime 100ms --warmup 0");
    assert!(around(&m).device.as_ref().is_some_and(|d| d.read_bytes >= m.bytes.unwrap()));
    Ok(())
}

fn resident() -> Result<(), Failed> {
    let from_disk = |m: &Measurement| around(m).device.as_ref().expect("the test's disk counts").read_bytes;
    let m = until(
        || {
            drop(fs::read(file()).expect("the test's file can be read"));
            run(&format!("--file {} --buffered --runtime 500ms --warmup 100ms", file().display()))
        },
        // Other programs may read from the same disk.
        |m| match from_disk(m) {
            few if few < 1 << 20 => comparable(m),
            many => Err(format!("the disk read {many} bytes")),
        },
    );
    let cached = around(&m).page_cache.as_ref().expect("root may look");
    assert_eq!((cached.resident.before, cached.resident.after), (1.0, 1.0));
    assert!(m.bytes.unwrap() > (1 << 20), "{}", m.bytes.unwrap());
    Ok(())
}

fn another_reader() -> Result<(), Failed> {
    let other = file().with_file_name("kernel-tests-other.dat");
    if fs::metadata(&other).map(|m| m.len()).ok() != Some(64 << 20) {
        run(&format!("--file {} --size 64m --count 16 --warmup 0 --trace off", other.display()));
    }
    let _reader = Beside::bench(&other, "--depth 8")?;
    let m = run(&format!("--file {} --depth 8 --runtime 1s --warmup 200ms", file().display()));
    assert!(codes(&m).contains(&"other_io"), "{:?} {:?}", m.warnings, m.circumstances);
    assert!(reasons(&m).iter().any(|r| r.starts_with("in addition to the load's ")), "{:?}", reasons(&m));
    Ok(())
}

fn no_file() -> Result<(), Failed> {
    for load in ["--rw nop", "--engine null"] {
        let m = until(|| run(&format!("{load} --runtime 300ms --warmup 0")), comparable);
        let c = around(&m);
        assert_eq!((&c.device, &c.page_cache, c.interrupts_after.len()), (&None, &None, 0), "{load}");
    }
    Ok(())
}

fn course() -> Result<(), Failed> {
    let m = run("--engine null --runtime 2s --warmup 0");
    let t = around(&m).throughput.as_ref().expect("40 intervals");
    let sum: u64 = t.ios.iter().sum();
    assert_eq!(t.interval_ns, 50_000_000);
    // On a busy machine, the last sample comes after the load's end, and completions after the previous sample are not
    // included.
    assert!((20..=40).contains(&t.ios.len()), "{t:?}");
    let told = t.ios.len() as f64 * t.interval_ns as f64 / m.elapsed_ns as f64;
    assert!(
        sum <= m.ios.unwrap() && sum as f64 > 0.8 * told * m.ios.unwrap() as f64,
        "{sum} of {}: {t:?}",
        m.ios.unwrap()
    );
    Ok(())
}

/// A cgroup with one fifth of a CPU, removed with the test.
struct Group(PathBuf);

impl Group {
    /// The directory in which a cgroup with a quota can be created, and whether it is cgroup v2.
    fn parent() -> Option<(&'static Path, bool)> {
        let first = Path::new("/sys/fs/cgroup/cpu");
        if first.join("cpu.cfs_period_us").exists() {
            return Some((first, false));
        }
        let second = Path::new("/sys/fs/cgroup");
        let on = fs::read_to_string(second.join("cgroup.subtree_control")).ok()?;
        on.split_whitespace().any(|c| c == "cpu").then_some((second, true))
    }

    fn make() -> std::io::Result<Self> {
        let (parent, second) = Self::parent().expect("the trial is ignored without one");
        let group = Self(parent.join(format!("iotrail-test-{}", std::process::id())));
        fs::create_dir(&group.0)?;
        if second {
            fs::write(group.0.join("cpu.max"), "20000 100000")?;
        } else {
            fs::write(group.0.join("cpu.cfs_period_us"), "100000")?;
            fs::write(group.0.join("cpu.cfs_quota_us"), "20000")?;
        }
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its last process may still be exiting.
        let gone = (0..50).any(|_| {
            let removed = fs::remove_dir(&self.0).is_ok();
            if !removed {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            removed
        });
        assert!(gone || std::thread::panicking(), "{} is left behind", self.0.display());
    }
}

fn throttled() -> Result<(), Failed> {
    let group = Group::make()?;
    let out = Command::new("sh")
        .args(["-c", "echo $$ >\"$0\" && exec \"$@\""])
        .arg(group.0.join("cgroup.procs"))
        .arg(env!("CARGO_BIN_EXE_iotrail"))
        .args("bench --json --engine null --trace off --runtime 1s --warmup 0".split(' '))
        .output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let m: Measurement = serde_json::from_slice(&out.stdout)?;
    let c = around(&m);
    assert_eq!(c.cpu_quota, Some(0.2));
    // A busy thread gets 20 ms of every 100 ms, and may wait for other threads before it has used them.
    let share = c.throttled_ns.expect("told") as f64 / c.span_ns as f64;
    assert!((0.05..1.0).contains(&share), "{c:?}");
    assert!(codes(&m).contains(&"throttled"), "{:?}", m.warnings);
    assert!(reasons(&m).iter().any(|r| r.contains("quota of 0.20 CPUs")), "{:?}", reasons(&m));
    Ok(())
}

/// A program that joins the cgroup by itself while it is traced.
fn traced() -> Result<(), Failed> {
    let group = Group::make()?;
    let trace = |join: &str| -> Result<Option<Warning>, Failed> {
        let out = Command::new(env!("CARGO_BIN_EXE_iotrail"))
            .args(["trace", "--json", "--", "sh", "-c", &format!("{join} exec \"$@\""), "sh"])
            .args([env!("CARGO_BIN_EXE_iotrail"), "bench", "--trace", "off", "--rw", "nop", "--runtime", "1s"])
            .output()?;
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let warnings: Vec<Warning> = serde_json::from_slice::<TraceRecord>(&out.stdout)?.total.warnings;
        Ok(warnings.into_iter().find(|w| w.code == "cpu_quota"))
    };
    let of_group = trace(&format!("echo $$ >{}/cgroup.procs &&", group.0.display()))?.ok_or("no warning")?;
    assert!(of_group.text.contains(&format!("{} (0.2 CPUs) throttled its threads", group.0.display())), "{of_group:?}");
    assert!(trace("")?.is_none_or(|other| !other.text.contains(&*group.0.to_string_lossy())));
    Ok(())
}
