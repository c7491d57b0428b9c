//! The target's disks and interrupts.

use iotrail_host::block::{Description, Disk};
use iotrail_host::cpu::format_list;
use iotrail_host::irq;
use iotrail_report::check::{Item, Section};
use iotrail_schema::measurement::{Target, TargetInterrupt};

/// The online CPUs that receive a target's interrupts.
pub(in crate::cli::check) fn taking(target: &Target, online: &[u32]) -> Vec<u32> {
    online.iter().copied().filter(|c| target.interrupts.iter().any(|i| i.cpus.contains(c))).collect()
}

pub(in crate::cli::check) fn target(found: Option<&Description>) -> Vec<Item> {
    const HERE: Section = Section::Target;
    let Some(d) = found else {
        return vec![Item::unknown(
            HERE,
            "target.path",
            "path",
            "the current directory cannot be examined",
            "specify a file: --file PATH",
        )];
    };
    let on = d.filesystem.as_ref().map_or(String::new(), |f| format!(" ({f})"));
    let mut items = vec![Item::fact(HERE, "target.path", "path", format!("{}{on}", d.path))];
    if d.disks.is_empty() {
        items.push(Item::missing(
            HERE,
            "target.disk",
            "disk",
            "no underlying block device is visible",
            "interrupts and queues of the target; --cpus irq and non-irq",
            "specify a file on a disk, or a block device: --file PATH",
        ));
        return items;
    }
    let through = if d.layers.is_empty() { String::new() } else { format!(", through {}", d.layers.join(", ")) };
    for (n, disk) in d.disks.iter().enumerate() {
        let through = if n == 0 { through.as_str() } else { "" };
        items.extend(one_disk(disk, through));
    }
    items
}

fn one_disk(disk: &Disk, through: &str) -> Vec<Item> {
    const HERE: Section = Section::Target;
    let id = |what: &str| format!("target.{}.{what}", disk.name);
    let known = |v: Option<String>| v.unwrap_or_else(|| "unknown".into());
    let driver = disk.driver.as_deref().unwrap_or("unknown driver");
    let queues = known(disk.queues.map(|q| q.to_string()));
    let mut items = vec![
        Item::fact(HERE, &id("disk"), "disk", format!("{}, {driver}{through}", disk.name)),
        Item::fact(
            HERE,
            &id("queues"),
            "hardware queues",
            format!("{queues}; requests {}", known(disk.nr_requests.map(|n| n.to_string()))),
        ),
        poll_queues(disk, &id("poll_queues")),
        Item::fact(HERE, &id("scheduler"), "scheduler", known(disk.scheduler.clone())),
    ];
    if let Some(bytes) = disk.logical_block_bytes {
        let text = format!("{bytes} bytes: the minimum for direct I/O");
        items.push(Item::fact(HERE, &id("block"), "logical block", text));
    }
    if let Some(text) = steering(disk.rq_affinity) {
        items.push(Item::fact(HERE, &id("rq_affinity"), "steering", text));
    }
    items.push(match delivered(&disk.interrupts) {
        Some(text) => Item::ok(HERE, &id("interrupts"), "interrupts", text),
        None => Item::missing(
            HERE,
            &id("interrupts"),
            "interrupts",
            "none visible",
            "--cpus irq and non-irq on this target; its interrupts by vector",
            "a disk with interrupts (virtual and network disks have none)",
        ),
    });
    if !disk.interrupts.is_empty() {
        let answers: Vec<_> = disk.interrupts.iter().map(|i| irq::affinity(i.irq).movable).collect();
        items.push(movable(&answers, &id("movable")));
    }
    items
}

pub(super) fn poll_queues(disk: &Disk, id: &str) -> Item {
    let (here, name) = (Section::Target, "poll queues");
    match disk.poll_queues {
        Some(0) => {
            let restore = match disk.driver.as_deref() {
                Some("nvme") => "boot with nvme.poll_queues=N, or load the module with poll_queues=N".to_owned(),
                Some("virtio_blk") => {
                    "boot with virtio_blk.poll_queues=N, if the hypervisor provides more than N queues for the disk"
                        .to_owned()
                }
                _ => "a disk whose driver supports poll queues (NVMe with nvme.poll_queues=N)".to_owned(),
            };
            Item::missing(here, id, name, "none", "polled completions: --ring iopoll and hybrid_iopoll", restore)
        }
        Some(n) => Item::ok(here, id, name, n.to_string()),
        None => Item::unknown(here, id, name, "unknown for this driver", "check the driver's module parameters"),
    }
}

/// The meaning of queue/rq_affinity (Documentation/ABI/stable/sysfs-block).
pub(super) fn steering(rq_affinity: Option<u32>) -> Option<&'static str> {
    match rq_affinity? {
        0 => Some("completions stay on the CPU that took the interrupt"),
        1 => Some("completions go to a CPU that shares the submitter's cache"),
        2 => Some("completions go to the submitter's own CPU"),
        _ => None,
    }
}

/// `36 virtio1-req.0 on CPU 1`; if there are many, their number and CPUs.
pub(super) fn delivered(interrupts: &[TargetInterrupt]) -> Option<String> {
    const MOST: usize = 8;
    let (first, last) = (interrupts.first()?, interrupts.last()?);
    if interrupts.len() > MOST {
        let cpus: Vec<u32> = interrupts.iter().flat_map(|i| i.cpus.iter().copied()).collect();
        let (n, cpus) = (interrupts.len(), format_list(&cpus));
        return Some(format!("{n}, {} {} to {} {}, on CPUs {cpus}", first.irq, first.name, last.irq, last.name));
    }
    let one = |i: &TargetInterrupt| format!("{} {} on CPU {}", i.irq, i.name, format_list(&i.cpus));
    Some(interrupts.iter().map(one).collect::<Vec<_>>().join("; "))
}

pub(super) fn movable(answers: &[Option<bool>], id: &str) -> Item {
    let (here, name) = (Section::Target, "interrupts move");
    if answers.iter().all(|&a| a == Some(true)) {
        return Item::ok(here, id, name, "their CPUs can be set in /proc/irq");
    }
    if answers.contains(&Some(false)) {
        return Item::missing(
            here,
            id,
            name,
            "managed by the kernel, which rejects changes",
            "experiments that move the interrupt",
            "not possible at run time: move the load instead (--cpus irq, --cpus non-irq)",
        );
    }
    Item::unknown(here, id, name, "only root can see whether their CPUs can be set", "run as root")
}
