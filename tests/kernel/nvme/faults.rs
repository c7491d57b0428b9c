//! Failing drives: errors are counted by name, and the load ends as requested. Removed drives: commands in flight count
//! as failed, and the load ends.

use std::fs;
use std::process::Stdio;

use iotrail_schema::measurement::ErrorCount;
use libtest_mimic::{Failed, Trial};

use super::drive::{Drive, bench, failing, put_back, read, release, run, sound, take_out, until};
use super::own::maps_registers;
use crate::trial;

/// The second drive fails reads of the first of these sectors, and writes of the second.
const READ_FAILS_AT: u64 = 1 << 20;
const WRITE_FAILS_AT: u64 = 2 << 20;

pub fn trials() -> Vec<Trial> {
    let mut trials = vec![trial::test("nvme::errors_of_a_failing_drive_are_counted_by_status_name", by_name)];
    let engines = ["io_uring", "libaio", "sync", "posix_aio", "io_uring_cmd"];
    trials
        .extend(engines.map(|engine| trial::test(format!("nvme::removed_under_{engine}"), move || taken_out(engine))));
    trials.push(trial::test("nvme::removed_under_own_driver", || taken_out("nvme_user")));
    trials
}

/// All blocks of 4 MiB, each once; one of them contains the bad sector.
fn swept(engine: &str, file: &str, rw: &str) -> (u64, u64, Vec<ErrorCount>) {
    let m = run(&format!(
        "--engine {engine} --wait peek --file {file} --rw {rw} --allow-write --size 4m --count 1024 --depth 8 --trace off"
    ));
    assert!(m.warnings.iter().any(|w| w.code == "io_errors"), "{:?}", m.warnings);
    (m.ios.unwrap(), m.errors.unwrap(), m.errors_by.expect("they were counted"))
}

fn one(error: &str) -> (u64, u64, Vec<ErrorCount>) {
    (1024, 1, vec![ErrorCount { error: error.into(), count: 1 }])
}

fn by_name() -> Result<(), Failed> {
    const { assert!(READ_FAILS_AT < 4 << 20 && WRITE_FAILS_AT < 4 << 20) };
    let drive = failing();
    let (unread, unwritten) = ("Unrecovered Read Error (NVMe status 2/0x81)", "Write Fault (NVMe status 2/0x80)");
    for engine in ["io_uring", "libaio", "posix_aio"] {
        // The block layer's errno for medium errors.
        assert_eq!(swept(engine, &drive.block(), "read"), one("ENODATA"), "{engine}");
        assert_eq!(swept(engine, &drive.block(), "write"), one("ENODATA"), "{engine}");
    }
    assert_eq!(swept("io_uring_cmd", &drive.generic(), "read"), one(unread));
    assert_eq!(swept("io_uring_cmd", &drive.generic(), "write"), one(unwritten));
    let released = release(&drive);
    assert_eq!(swept("nvme_user", &drive.address, "read"), one(unread));
    assert_eq!(swept("nvme_user", &drive.address, "write"), one(unwritten));
    drop(released);
    Ok(())
}

/// Whether the load's thread has used some ticks of CPU time, and has therefore done I/Os.
pub fn worked(tgid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{tgid}/task")).into_iter().flatten().flatten();
    let stats = tasks.filter_map(|t| fs::read_to_string(t.path().join("stat")).ok());
    let ticks = |stat: &str| -> Option<u64> {
        let (_, after) = stat.split_once("(load-")?.1.split_once(") ")?;
        let mut fields = after.split(' ').skip(11);
        Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
    };
    stats.filter_map(|s| ticks(&s)).sum::<u64>() > 20
}

fn taken_out(engine: &str) -> Result<(), Failed> {
    let drive = sound();
    let own = engine == "nvme_user";
    let released = own.then(|| release(&drive));
    let file = match engine {
        "nvme_user" => drive.address.clone(),
        "io_uring_cmd" => drive.generic(),
        _ => drive.block(),
    };
    // A load that does not end by itself is stopped, and fails the test.
    let options = format!("--engine {engine} --wait peek --file {file} --depth 8 --runtime 100s --trace off");
    let load = bench(&options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    until("the load works", || (!own || maps_registers(load.id())) && worked(load.id()));
    take_out(&drive);
    let out = load.wait_with_output()?;
    let was = Drive { disk: drive.disk.clone(), ..drive };
    if let Some(released) = released {
        // The rescanned drive is bound to the kernel's driver.
        std::mem::forget(released);
    }
    put_back(&was);
    let m = read(&out);
    // A removed disk has size 0, so reads return 0 at its end.
    let failed = m.errors.unwrap() + m.short_ios.unwrap();
    assert!(failed >= 10_000 && failed < m.ios.unwrap(), "{failed} of {} failed", m.ios.unwrap());
    assert!(m.errors > Some(0) || engine != "nvme_user" && engine != "io_uring_cmd");
    let by: u64 = m.errors_by.iter().flatten().map(|e| e.count).sum();
    assert_eq!(by, m.errors.unwrap(), "{:?}", m.errors_by);
    assert_eq!(m.latency_ns.count, m.ios.unwrap());
    assert!(m.elapsed_ns < 90_000_000_000, "it ended by itself");
    assert!(m.warnings.iter().any(|w| w.code == "target_lost"), "{:?}", m.warnings);
    Ok(())
}
