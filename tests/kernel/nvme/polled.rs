//! Polled queues: completions are `iopoll`, and the device sends no interrupts for them.

use iotrail_host::irq;
use iotrail_schema::delivery_path::DeliveryPath;
use libtest_mimic::{Failed, Trial};

use super::drive::{failing, refused, run, sound};
use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("nvme::polled_completions_need_no_interrupt", no_interrupts),
        trial::test("nvme::iopoll_on_a_drive_without_poll_queues_is_an_error", no_poll_queue),
    ]
}

/// Interrupts of the drive's I/O queues. (Passthrough uses the admin queue to identify the namespace.)
fn arrived(disk: &str) -> u64 {
    // nvme0n1 → nvme0q0, nvme0q1, …
    let (controller, _) = disk.rsplit_once('n').expect("a namespace has a number");
    let name = format!("{controller}q");
    let rows = irq::snapshot().expect("/proc/interrupts").rows;
    let ours = rows
        .iter()
        .filter(|r| r.name.split(", ").any(|action| action.strip_prefix(&name).is_some_and(|queue| queue != "0")));
    ours.flat_map(|r| &r.counts).sum()
}

fn no_interrupts() -> Result<(), Failed> {
    let drive = sound();
    for (engine, file) in [("io_uring", drive.block()), ("io_uring_cmd", drive.generic())] {
        let load = format!("--engine {engine} --file {file} --trace on --count 4000");
        for options in ["--depth 1", "--depth 16 --register buffers", "--depth 16 --wait peek"] {
            let before = arrived(&drive.disk);
            let m = run(&format!("{load} --ring iopoll {options}"));
            assert_eq!(arrived(&drive.disk) - before, 0, "{engine} {options}");
            let polled: u64 =
                m.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::Iopoll).map(|v| v.completions).sum();
            assert_eq!(
                (polled, m.ios.unwrap(), m.errors.unwrap()),
                (4000, 4000, 0),
                "{engine} {options}: {:?}",
                m.vehicles
            );
            assert_eq!(m.per_io.device_irqs, Some(0.0));
        }
        // The device does send interrupts for queues that are not polled.
        let before = arrived(&drive.disk);
        let m = run(&format!("{load} --depth 1"));
        let irqs = arrived(&drive.disk) - before;
        assert!(irqs > 3500 && irqs <= 4000, "{engine}: {irqs} interrupts of {} I/Os", m.ios.unwrap());
        assert!(m.vehicles.iter().all(|v| v.vehicle != DeliveryPath::Iopoll), "{:?}", m.vehicles);
    }
    Ok(())
}

fn no_poll_queue() -> Result<(), Failed> {
    let drive = failing();
    let (status, said) = refused(&format!("--engine io_uring_cmd --file {} --ring iopoll --count 10", drive.generic()));
    assert_eq!(status, 3);
    assert!(said.contains(&format!("ring flag iopoll: {} has no poll queues; ", drive.disk)), "{said}");
    Ok(())
}
