//! The machine that these tests change: one disk with one interrupt.

use std::collections::BTreeMap;

use super::conditions::Conditions;
use super::roots::{Roots, present};
use iotrail_schema::measurement::{Target, TargetInterrupt};
use iotrail_testing::fixture::Tree;

pub fn roots(t: &Tree) -> Roots {
    Roots { system: t.root().into(), state: t.root().join("state/iotrail") }
}

pub fn conditions(toml: &str) -> Conditions {
    toml::from_str(toml).expect("conditions")
}

pub fn target(device: &str) -> Target {
    Target {
        path: format!("/dev/{device}"),
        filesystem: None,
        device: Some(device.into()),
        driver: None,
        model: None,
        queue_device: None,
        queues: Some(1),
        poll_queues: Some(0),
        scheduler: None,
        interrupts: vec![TargetInterrupt { irq: 36, name: "virtio1-req.0".into(), cpus: vec![1] }],
    }
}

const DISK: &str = "sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda";

pub fn vda() -> Tree {
    // This process as the kernel would show it, started 50 ticks after boot.
    let stat = format!("{} (test) S 1 7 7 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 50 9 9\n", std::process::id());
    Tree::new()
        .file(&format!("proc/{}/stat", std::process::id()), &stat)
        .file("proc/sys/kernel/random/boot_id", "this\n")
        .file("proc/sys/kernel/hostname", "here\n")
        .file("proc/sys/kernel/osrelease", "6.18.0\n")
        .file("proc/irq/36/smp_affinity_list", "0-1\n")
        .file("sys/devices/system/cpu/online", "0-1\n")
        .file("sys/devices/system/cpu/possible", "0-1\n")
        .file("sys/module/virtio_blk/parameters/poll_queues", "0\n")
        .dir("sys/bus/virtio/drivers/virtio_blk")
        .file(&format!("{DISK}/dev"), "254:0\n")
        .file(&format!("{DISK}/mq/0/nr_tags"), "256\n")
        .file(&format!("{DISK}/queue/scheduler"), "none [mq-deadline]\n")
        .file(&format!("{DISK}/queue/nr_requests"), "256\n")
        .file(&format!("{DISK}/queue/wbt_lat_usec"), "75000\n")
        .file(&format!("{DISK}/queue/io_poll"), "0\n")
        .file(&format!("{DISK}/queue/iosched/fifo_batch"), "16\n")
        .link("sys/block/vda", DISK)
        .link("sys/devices/pci0000:00/0000:00:02.0/virtio1/driver", "sys/bus/virtio/drivers/virtio_blk")
}

/// File behind a value in [`disk_values`].
pub fn file_of(name: &str) -> String {
    match name {
        "affinity" => "proc/irq/36/smp_affinity_list".into(),
        name => format!("sys/block/vda/queue/{name}"),
    }
}

/// Changeable values of [`vda`].
pub fn disk_values(t: &Tree) -> BTreeMap<String, String> {
    let names = ["scheduler", "nr_requests", "wbt_lat_usec", "io_poll", "iosched/fifo_batch", "affinity"];
    names.iter().map(|n| ((*n).to_owned(), present(&t.root().join(file_of(n))).expect("its value"))).collect()
}
