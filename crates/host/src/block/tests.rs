use std::path::PathBuf;

use super::*;
use iotrail_testing::fixture::Tree;
use locate::Place;

const PCI: &str = "sys/devices/pci0000:00";

fn at(kind: Kind, major: u32, minor: u32) -> Place {
    Place { path: PathBuf::from("/data/file"), kind, major, minor }
}

/// sysfs directory of a disk with `queues` hardware queues, and the links to it.
fn disk(mut t: Tree, dir: &str, dev: &str, queues: u32, io_poll: &str) -> Tree {
    let name = dir.rsplit('/').next().unwrap();
    for q in 0..queues {
        t = t.dir(&format!("{dir}/mq/{q}"));
    }
    t.file(&format!("{dir}/dev"), dev)
        .file(&format!("{dir}/queue/scheduler"), "none [mq-deadline] kyber\n")
        .file(&format!("{dir}/queue/io_poll"), io_poll)
        .file(&format!("{dir}/queue/logical_block_size"), "512\n")
        .file(&format!("{dir}/queue/nr_requests"), "256\n")
        .link(&format!("sys/class/block/{name}"), dir)
        .link(&format!("sys/dev/block/{dev}"), dir)
}

fn function(mut t: Tree, slot: &str, driver: &str, irqs: &[u32]) -> Tree {
    for irq in irqs {
        t = t
            .file(&format!("{PCI}/{slot}/msi_irqs/{irq}"), "msix\n")
            .file(&format!("proc/irq/{irq}/smp_affinity_list"), "0-3\n")
            .file(&format!("proc/irq/{irq}/effective_affinity_list"), &format!("{}\n", irq % 4));
    }
    t.link(&format!("{PCI}/{slot}/driver"), &format!("sys/bus/pci/drivers/{driver}"))
        .link(&format!("{PCI}/{slot}/subsystem"), "sys/bus/pci")
}

fn interrupts(t: Tree, rows: &[(u32, &str)]) -> Tree {
    let mut text = String::from("      CPU0  CPU1\n");
    for (irq, action) in rows {
        text += &format!(" {irq}:  0  5  PCI-MSIX-0000:00:02.0   1-edge      {action}\n");
    }
    t.file("proc/interrupts", &text)
}

fn virtio() -> Tree {
    let dir = format!("{PCI}/0000:00:02.0/virtio1");
    let t = function(Tree::new(), "0000:00:02.0", "virtio-pci", &[35, 36]);
    let t = t
        .link(&format!("{dir}/driver"), "sys/bus/virtio/drivers/virtio_blk")
        .link(&format!("{dir}/subsystem"), "sys/bus/virtio");
    let t = disk(t, &format!("{dir}/block/vda"), "254:0", 1, "0\n");
    let t = t
        .file(&format!("{dir}/block/vda/vda1/partition"), "1\n")
        .file(&format!("{dir}/block/vda/vda1/dev"), "254:1\n")
        .link("sys/dev/block/254:1", &format!("{dir}/block/vda/vda1"))
        .file("proc/self/mountinfo", "27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n");
    interrupts(t, &[(35, "virtio1-config"), (36, "virtio1-req.0"), (37, "virtio2-input.0")])
}

fn nvme_interrupts(t: Tree) -> Tree {
    interrupts(t, &[(40, "nvme0q0"), (41, "nvme0q1"), (42, "nvme0q2"), (50, "nvme1q0"), (51, "nvme1q1")])
}

fn names(t: &Target) -> Vec<(u32, &str, &[u32])> {
    t.interrupts.iter().map(|i| (i.irq, i.name.as_str(), i.cpus.as_slice())).collect()
}

#[test]
fn a_file_on_a_partition_is_resolved_to_its_virtio_disk() {
    let t = virtio();
    let d = describe_in(t.root(), &at(Kind::File, 254, 1));
    assert_eq!(d.layers, ["vda1"]);
    assert_eq!(d.disks[0].dev, Some((254, 0)));
    assert_eq!((d.disks[0].logical_block_bytes, d.disks[0].nr_requests), (Some(512), Some(256)));
    let target = d.target();
    assert_eq!(target.filesystem.as_deref(), Some("ext4"));
    assert_eq!((target.device.as_deref(), target.driver.as_deref()), (Some("vda"), Some("virtio_blk")));
    assert_eq!((target.queues, target.poll_queues), (Some(1), Some(0)));
    assert_eq!(target.scheduler.as_deref(), Some("mq-deadline"));
    assert_eq!(names(&target), [(36, "virtio1-req.0", &[0][..])]);
}

#[test]
fn an_nvme_target_lists_the_interrupts_of_its_two_irq_queues() {
    let t = function(Tree::new(), "0000:01:00.0", "nvme", &[40, 41, 42]);
    let t = disk(t, &format!("{PCI}/0000:01:00.0/nvme/nvme0/nvme0n1"), "259:0", 3, "1\n");
    let target = describe_in(nvme_interrupts(t).root(), &at(Kind::Block, 259, 0)).target();
    assert_eq!((target.device.as_deref(), target.driver.as_deref()), (Some("nvme0n1"), Some("nvme")));
    assert_eq!((target.queues, target.poll_queues), (Some(3), Some(1)));
    assert_eq!(target.filesystem, None);
    assert_eq!(names(&target), [(41, "nvme0q1", &[1][..]), (42, "nvme0q2", &[2][..])]);
}

#[test]
fn an_nvme_generic_device_is_resolved_to_its_namespace() {
    let dir = format!("{PCI}/0000:01:00.0/nvme/nvme0");
    let t = function(Tree::new(), "0000:01:00.0", "nvme", &[40, 41, 42]);
    let t = disk(t, &format!("{dir}/nvme0n1"), "259:0", 2, "0\n")
        .file(&format!("{dir}/ng0n1/dev"), "240:0\n")
        .link("sys/dev/char/240:0", &format!("{dir}/ng0n1"))
        .link("sys/dev/char/241:0", &dir);
    let t = nvme_interrupts(t);
    let target = describe_in(t.root(), &at(Kind::Character, 240, 0)).target();
    assert_eq!((target.device.as_deref(), target.queues), (Some("nvme0n1"), Some(2)));
    assert_eq!(target.interrupts.iter().map(|i| i.irq).collect::<Vec<_>>(), [41, 42]);
    let controller = describe_in(t.root(), &at(Kind::Character, 241, 0)).target();
    assert_eq!((controller.device.as_deref(), controller.queues), (Some("nvme0"), None));
    assert_eq!(controller.interrupts.iter().map(|i| i.irq).collect::<Vec<_>>(), [41, 42]);
}

#[test]
fn a_device_mapper_target_combines_the_queues_of_two_disks() {
    let t = function(virtio(), "0000:01:00.0", "nvme", &[40, 41, 42]);
    let nvme = format!("{PCI}/0000:01:00.0/nvme/nvme0/nvme0n1");
    let dm = "sys/devices/virtual/block/dm-0";
    let vda1 = format!("{PCI}/0000:00:02.0/virtio1/block/vda/vda1");
    let t = disk(t, &nvme, "259:0", 2, "0\n")
        .file(&format!("{dm}/dev"), "253:0\n")
        .link("sys/dev/block/253:0", dm)
        .link(&format!("{dm}/slaves/vda1"), &vda1)
        .link(&format!("{dm}/slaves/nvme0n1"), &nvme);
    let t = interrupts(t, &[(36, "virtio1-req.0"), (40, "nvme0q0"), (41, "nvme0q1"), (42, "nvme0q2")]);
    let d = describe_in(t.root(), &at(Kind::Block, 253, 0));
    assert_eq!(d.layers, ["dm-0", "vda1"]);
    let target = d.target();
    assert_eq!((target.device.as_deref(), target.driver.as_deref()), (Some("nvme0n1+vda"), Some("nvme+virtio_blk")));
    assert_eq!((target.queues, target.scheduler.as_deref()), (Some(3), Some("mq-deadline")));
    assert_eq!(target.interrupts.iter().map(|i| i.irq).collect::<Vec<_>>(), [36, 41, 42]);
}

#[test]
fn an_nvme_multipath_head_has_the_queues_of_its_paths() {
    let subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
    let (c0, c1) = (format!("{PCI}/0000:01:00.0/nvme/nvme0"), format!("{PCI}/0000:02:00.0/nvme/nvme1"));
    let t = function(Tree::new(), "0000:01:00.0", "nvme", &[40, 41, 42]);
    let t = function(t, "0000:02:00.0", "nvme", &[50, 51]);
    let t = disk(t, &format!("{c0}/nvme0c0n1"), "259:1", 2, "0\n");
    let t = disk(t, &format!("{c1}/nvme0c1n1"), "259:2", 1, "0\n")
        .file(&format!("{subsystem}/nvme0n1/dev"), "259:0\n")
        .link("sys/class/block/nvme0n1", &format!("{subsystem}/nvme0n1"))
        .link("sys/dev/block/259:0", &format!("{subsystem}/nvme0n1"))
        .link(&format!("{subsystem}/nvme0"), &c0)
        .link(&format!("{subsystem}/nvme1"), &c1);
    let target = describe_in(nvme_interrupts(t).root(), &at(Kind::Block, 259, 0)).target();
    assert_eq!((target.device.as_deref(), target.driver.as_deref()), (Some("nvme0n1"), Some("nvme")));
    assert_eq!((target.queues, target.poll_queues), (Some(3), Some(0)));
    assert_eq!(target.interrupts.iter().map(|i| i.irq).collect::<Vec<_>>(), [41, 42, 51]);
}

#[test]
fn a_scsi_disk_has_the_driver_of_its_host_adapter() {
    let host = format!("{PCI}/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0");
    let t = function(Tree::new(), "0000:00:1f.2", "ahci", &[41]);
    let t =
        t.link(&format!("{host}/driver"), "sys/bus/scsi/drivers/sd").link(&format!("{host}/subsystem"), "sys/bus/scsi");
    let t = disk(t, &format!("{host}/block/sda"), "8:0", 1, "0\n");
    let target = describe_in(interrupts(t, &[(41, "ahci[0000:00:1f.2]")]).root(), &at(Kind::Block, 8, 0)).target();
    assert_eq!(target.driver.as_deref(), Some("ahci"));
    assert_eq!(names(&target), [(41, "ahci[0000:00:1f.2]", &[1][..])]);
}

#[test]
fn a_file_on_tmpfs_has_no_disk() {
    let t = virtio().file("proc/self/mountinfo", "30 1 0:25 / /data rw - tmpfs none rw\n");
    let target = describe_in(t.root(), &at(Kind::File, 0, 25)).target();
    assert_eq!(target.filesystem.as_deref(), Some("tmpfs"));
    assert_eq!((target.device, target.queues, target.interrupts), (None, None, vec![]));
}

#[test]
fn btrfs_disks_are_found_in_sysfs() {
    let t = virtio()
        .file("proc/self/mountinfo", "30 1 0:25 / /data rw - btrfs /dev/vda1 rw\n")
        .file("dev/vda1", "")
        .link("sys/fs/btrfs/1234/devices/vda1", &format!("{PCI}/0000:00:02.0/virtio1/block/vda/vda1"))
        .dir("sys/fs/btrfs/features");
    let target = describe_in(t.root(), &at(Kind::File, 0, 25)).target();
    assert_eq!((target.filesystem.as_deref(), target.device.as_deref()), (Some("btrfs"), Some("vda")));
}

#[test]
fn a_virtual_disk_is_named_by_its_major_number() {
    let t = disk(Tree::new(), "sys/devices/virtual/block/zram0", "251:0", 1, "0\n")
        .file("proc/devices", "Character devices:\n251 chr\n\nBlock devices:\n  7 loop\n251 zram\n");
    let target = describe_in(t.root(), &at(Kind::Block, 251, 0)).target();
    assert_eq!((target.device.as_deref(), target.driver.as_deref()), (Some("zram0"), Some("zram")));
    assert_eq!(target.interrupts, []);
}

/// A loop device on a file on vda1, and one on a file in tmpfs.
fn loops() -> Tree {
    let t = virtio();
    let own = |t: Tree, n: u32, file: &str| {
        let dir = format!("sys/devices/virtual/block/loop{n}");
        disk(t, &dir, &format!("7:{n}"), 1, "0\n").file(&format!("{dir}/loop/backing_file"), file)
    };
    let file = t.root().join("img");
    std::fs::write(&file, "").unwrap();
    let (major, minor) = {
        let place = locate::place(&file).unwrap();
        (place.major, place.minor)
    };
    // Places the test's file on vda1, whatever its real device is. (A file system without a device number is treated
    // as btrfs.)
    let vda1 = format!("{PCI}/0000:00:02.0/virtio1/block/vda/vda1");
    let link = format!("sys/dev/block/{major}:{minor}");
    let t = if t.root().join(&link).exists() { t } else { t.link(&link, &vda1) };
    let t = t
        .file("proc/self/mountinfo", "30 1 0:25 / / rw - btrfs /dev/vda1 rw\n")
        .file("dev/vda1", "")
        .link("sys/fs/btrfs/1234/devices/vda1", &vda1)
        .link("sys/block/vda", &format!("{PCI}/0000:00:02.0/virtio1/block/vda"))
        .link("sys/block/loop0", "sys/devices/virtual/block/loop0");
    own(own(t, 0, "/img\n"), 1, "/gone\n")
}

#[test]
fn a_loop_device_has_its_own_queue_and_the_disk_below_it() {
    let t = loops().file("sys/devices/virtual/block/loop0/queue/scheduler", "none mq-deadline [kyber]\n");
    let target = describe_in(t.root(), &at(Kind::Block, 7, 0)).target();
    assert_eq!((target.device.as_deref(), target.queue_device.as_deref()), (Some("vda"), Some("loop0")));
    assert_eq!(target.scheduler.as_deref(), Some("kyber"), "not that of vda, mq-deadline");
    assert_eq!(target.interrupts.iter().map(|i| i.irq).collect::<Vec<_>>(), [36]);
    // A file system on the loop device changes nothing.
    assert_eq!(describe_in(t.root(), &at(Kind::File, 7, 0)).target().queue_device.as_deref(), Some("loop0"));
    assert_eq!(again(t.root(), &target), target);
    let alone = describe_in(t.root(), &at(Kind::Block, 7, 1)).target();
    assert_eq!((alone.device.as_deref(), alone.queue_device()), (None, Some("loop1")));
    assert_eq!(alone.interrupts, []);
    let plain = describe_in(t.root(), &at(Kind::Block, 254, 1)).target();
    assert_eq!((plain.queue_device.as_deref(), plain.queue_device()), (None, Some("vda")));
}
