//! `--engine io_uring_cmd`: written data is read back in every mode of a ring, and every completion is accounted for.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

use iotrail_schema::delivery_path::DeliveryPath;
use libtest_mimic::{Failed, Trial};

use super::drive::{bench, read, refused, run, sound, written_and_checked};
use crate::trial;

/// More blocks of a file system than any load here has slots.
const BYTES: u64 = 4 << 20;

pub fn trials() -> Vec<Trial> {
    let ways = [
        ("plain", ""),
        ("registered_buffers", "--register buffers"),
        ("all_registered", "--register files,buffers,ring --batch 4"),
        ("peeking", "--ring coop_taskrun,taskrun_flag --wait peek"),
        ("deferred", "--ring defer_taskrun,single_issuer"),
        ("two_threads", "--reaper thread --jobs 2"),
        ("forced_async", "--force-async"),
        ("sqpoll", "--ring sqpoll"),
        ("iopoll", "--ring iopoll"),
        ("iopoll_registered_buffers", "--ring iopoll --register buffers"),
        ("sqpoll_iopoll", "--ring sqpoll,iopoll"),
    ];
    let written = ways.into_iter().map(|(name, options)| {
        trial::test(format!("nvme::passthrough_reads_back_what_it_wrote_{name}"), move || every_completion(options))
    });
    written
        .chain([
            trial::test("nvme::passthrough_accepts_other_block_sizes", sizes),
            trial::test("nvme::passthrough_rejects_a_file_that_is_not_a_generic_device", no_generic_device),
            trial::test("nvme::passthrough_never_writes_to_a_drive_in_use", held),
        ])
        .collect()
}

fn every_completion(options: &str) -> Result<(), Failed> {
    let drive = sound();
    let target = format!("--engine io_uring_cmd --file {} {options}", drive.generic());
    let m = written_and_checked(&target, BYTES, 4096, "on");
    let sum: u64 = m.vehicles.iter().map(|v| v.completions).sum();
    assert_eq!((Some(sum), sum), (m.probe.completions_seen, m.ios.unwrap()), "{:?}", m.vehicles);
    assert_eq!((m.probe.lost, m.probe.untracked), (Some(0), Some(0)));
    let unknown = m.vehicles.iter().find(|v| v.vehicle == DeliveryPath::Unknown);
    assert!(unknown.is_none(), "{:?}", m.vehicles);
    let polled = options.contains("iopoll");
    for v in &m.vehicles {
        let by_poll = matches!(v.vehicle, DeliveryPath::Iopoll | DeliveryPath::Sqpoll);
        assert!(
            by_poll == polled || v.vehicle == DeliveryPath::Inline || options.contains("sqpoll"),
            "{:?}",
            m.vehicles
        );
    }
    // The target is the same drive's block device.
    let target = m.host.target.clone().expect("a target");
    assert_eq!((target.device.as_deref(), target.driver.as_deref()), (Some(drive.disk.as_str()), Some("nvme")));
    assert!(!target.interrupts.is_empty(), "its queues' interrupts are known");
    Ok(())
}

fn sizes() -> Result<(), Failed> {
    let drive = sound();
    for block in [512, 64 << 10, 256 << 10] {
        let options = format!("--engine io_uring_cmd --file {} --depth 4 --trace off", drive.generic());
        let common = format!("{options} --allow-write --verify --size 4m --bs {block}");
        assert_eq!(run(&format!("{common} --rw write --count {}", (4 << 20) / block)).errors, Some(0));
        // Through the block layer, the same data is at the same offsets.
        let read =
            run(&format!("--trace off --file {} --rw read --verify --size 4m --bs 4096 --count 1024", drive.block()));
        assert_eq!((read.ios.unwrap(), read.errors.unwrap()), (1024, 0), "{block}");
    }
    let (status, said) = refused(&format!("--engine io_uring_cmd --file {} --bs 1000 --count 1", drive.generic()));
    assert_eq!(status, 2);
    assert!(
        said.contains("--bs 1000 is not a multiple of the 512-byte blocks of") && said.ends_with("use --bs 1024"),
        "{said}"
    );
    Ok(())
}

fn no_generic_device() -> Result<(), Failed> {
    let drive = sound();
    let (status, said) = refused(&format!("--engine io_uring_cmd --file {} --count 1", drive.block()));
    assert_eq!(status, 2);
    assert!(said.ends_with(&format!("is a block device; use --file {}", drive.generic())), "{said}");
    let (status, said) = refused(&format!("--file {} --count 1", drive.generic()));
    assert_eq!(status, 2);
    assert!(said.ends_with("use --engine io_uring_cmd, or specify one with --file"), "{said}");
    Ok(())
}

fn held() -> Result<(), Failed> {
    let drive = sound();
    let write = format!("--engine io_uring_cmd --file {} --rw randwrite --count 1 --trace off", drive.generic());
    let (status, said) = refused(&write);
    assert_eq!(status, 2);
    assert!(said.ends_with("which exists; add --allow-write to overwrite its contents"), "{said}");
    // A file system or a volume also opens it with O_EXCL.
    let holder = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(drive.block())?;
    let (status, said) = refused(&format!("{write} --allow-write"));
    assert_eq!(status, 2);
    assert!(said.contains(&format!("{} is in use", drive.block())), "{said}");
    let reads = bench(&format!("--engine io_uring_cmd --file {} --count 10 --trace off", drive.generic())).output()?;
    assert_eq!(read(&reads).errors, Some(0), "reading disturbs nobody");
    drop(holder);
    run(&format!("{write} --allow-write"));
    Ok(())
}
