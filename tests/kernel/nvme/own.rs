//! `--engine nvme_user`: iotrail's own driver, on a drive that is unbound from the kernel's driver.

use std::process::Stdio;

use libtest_mimic::{Failed, Trial};

use super::drive::{bench, refused, release, run, sound, until, written_and_checked};
use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("nvme::own_driver_reads_back_what_it_wrote", written),
        trial::test("nvme::own_driver_accepts_all_block_sizes_and_depths", sizes),
        trial::test("nvme::own_driver_makes_no_system_calls_and_causes_no_interrupts", silent),
        trial::test("nvme::own_driver_rejects_a_drive_in_use", anothers),
        trial::test("nvme::own_driver_recovers_from_a_killed_run", killed),
    ]
}

fn written() -> Result<(), Failed> {
    let drive = sound();
    let released = release(&drive);
    let at = &drive.address;
    let common = format!("--engine nvme_user --wait peek --file {at}");
    for options in ["", "--jobs 2", "--reaper thread", "--depth 128 --batch 8 --jobs 2"] {
        written_and_checked(&format!("{common} {options}"), 8 << 20, 4096, "off");
    }
    drop(released);
    // The kernel's driver reads the same data from the drive.
    let m = run(&format!("--trace off --file {} --rw read --verify --size 8m --count 2048", drive.block()));
    assert_eq!((m.ios.unwrap(), m.errors.unwrap()), (2048, 0));
    Ok(())
}

/// One page, two pages, a list, more than half a list.
fn sizes() -> Result<(), Failed> {
    let drive = sound();
    let released = release(&drive);
    let common = format!("--engine nvme_user --wait peek --allow-write --verify --size 16m --file {}", drive.address);
    for (block, depth) in [(512, 1), (4096, 63), (8192, 64), (12 << 10, 3), (128 << 10, 16), (512 << 10, 4)] {
        let blocks = (16 << 20) / block;
        let with = format!("{common} --bs {block} --depth {depth}");
        assert_eq!(run(&format!("{with} --rw write --count {blocks}")).bytes, Some(blocks * block));
        let m = run(&format!("{with} --rw randread --count {}", blocks.min(4096)));
        assert_eq!((m.errors.unwrap(), m.bytes.unwrap()), (0, blocks.min(4096) * block), "{block}");
    }
    for (options, words) in [
        ("--bs 1m", "accepts at most 524288 bytes per command; use --bs 524288 or less"),
        ("--bs 1000", "is not a multiple of the 512-byte blocks"),
        ("--bs 4k --depth 4000", "have at most 2048 entries; use a --depth of at most 2047"),
        ("--bs 4k --jobs 99", "of the 99 I/O queue pairs needed; use --jobs"),
        ("--bs 4k --size 1t", "not the 1099511627776 of --size"),
    ] {
        let (status, said) = refused(&format!("--engine nvme_user --file {} --count 1 {options}", drive.address));
        assert!((2..=3).contains(&status) && said.contains(words), "{options}: {said}");
    }
    let (status, said) = refused(&format!("--engine nvme_user --file {}/7 --count 1", drive.address));
    assert_eq!(status, 2);
    assert!(said.contains("has no namespace 7; it has 1: specify it with"), "{said}");
    drop(released);
    Ok(())
}

fn silent() -> Result<(), Failed> {
    let drive = sound();
    let released = release(&drive);
    let m = run(&format!("--engine nvme_user --wait peek --file {} --depth 4 --count 10000", drive.address));
    assert_eq!((m.ios.unwrap(), m.errors.unwrap(), m.per_io.syscalls), (10_000, 0, Some(0.0)));
    assert_eq!(m.vehicles, []);
    // The driver never sleeps, and reports that the requested mode is not used.
    let m = run(&format!("--engine nvme_user --file {} --count 100", drive.address));
    assert_eq!(m.load.wait.name(), "peek");
    assert!(m.warnings.iter().any(|w| w.code == "polls"));
    drop(released);
    Ok(())
}

fn anothers() -> Result<(), Failed> {
    let drive = sound();
    let load = format!("--engine nvme_user --wait peek --file {}", drive.address);
    let (status, said) = refused(&format!("{load} --count 1"));
    assert_eq!(status, 3);
    let held = format!("{} is bound to the kernel driver nvme ({}); release it: echo", drive.address, drive.disk);
    assert!(said.starts_with(&format!("iotrail: {held}")) || said.starts_with(&held) || said.contains(&held), "{said}");
    let released = release(&drive);
    let (status, said) = refused(&format!("{load} --rw write --count 1"));
    assert_eq!(status, 2);
    assert!(said.ends_with("add --allow-write to overwrite its contents"), "{said}");
    // Only one process may use the drive.
    let mut first = bench(&format!("{load} --runtime 60s")).stdout(Stdio::null()).spawn()?;
    until("the first run has the drive", || maps_registers(first.id()));
    let (status, said) = refused(&format!("{load} --count 1"));
    assert_eq!(status, 3);
    assert!(said.contains("is in use by another process"), "{said}");
    // SAFETY: an unreaped child.
    unsafe { libc::kill(first.id() as i32, libc::SIGINT) };
    assert_eq!(first.wait()?.code(), Some(1), "Ctrl-C keeps what was measured");
    run(&format!("{load} --count 100"));
    drop(released);
    Ok(())
}

pub fn maps_registers(tgid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{tgid}/maps")).is_ok_and(|maps| maps.contains("/resource0"))
}

/// Whether DMA is enabled (bus mastering, in the function's command register).
fn reaches_memory(address: &str) -> bool {
    let config = std::fs::read(format!("/sys/bus/pci/devices/{address}/config")).expect("its configuration");
    config[4] & 4 != 0
}

fn killed() -> Result<(), Failed> {
    let drive = sound();
    let released = release(&drive);
    let load = format!("--engine nvme_user --wait peek --file {} --depth 32", drive.address);
    let enable = format!("/sys/bus/pci/devices/{}/enable", drive.address);
    for _ in 0..3 {
        let mut run = bench(&format!("{load} --runtime 60s")).stdout(Stdio::null()).spawn()?;
        until("the run works", || maps_registers(run.id()) && super::faults::worked(run.id()));
        assert!(reaches_memory(&drive.address));
        run.kill()?;
        run.wait()?;
        assert_eq!(std::fs::read_to_string(&enable)?.trim(), "1", "it is as the killed run left it");
        until("the drive is kept from memory", || !reaches_memory(&drive.address));
    }
    written_and_checked(&load, 8 << 20, 4096, "off");
    assert_eq!(std::fs::read_to_string(&enable)?.trim(), "0");
    drop(released);
    let m = run(&format!("--trace off --file {} --rw read --verify --size 8m --count 2048", drive.block()));
    assert_eq!((m.ios.unwrap(), m.errors.unwrap()), (2048, 0));
    Ok(())
}
