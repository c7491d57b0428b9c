//! The machine: kernel, clocks, the target's disk and interrupts, CPUs.

use iotrail_host::block::{Description, Disk};
use iotrail_host::cpu::format_list;
use iotrail_host::procfs;
use iotrail_host::refusal::Circumstances;
use iotrail_host::{clock, cpu, irq, kernel, lockdown};
use iotrail_report::check::{Cpus, Item, Section};
use iotrail_schema::measurement::{Target, TargetInterrupt};

/// The online CPUs that a target's interrupts are delivered to.
pub(super) fn taking(target: &Target, online: &[u32]) -> Vec<u32> {
    online.iter().copied().filter(|c| target.interrupts.iter().any(|i| i.cpus.contains(c))).collect()
}

pub(super) fn kernel(circumstances: &Circumstances) -> Vec<Item> {
    const HERE: Section = Section::Kernel;
    let release = kernel::release();
    let text = release.as_deref().unwrap_or("unknown");
    let release = match circumstances.version {
        Some(v) if v < (6, 1, 0) => Item::missing(
            HERE,
            "kernel.release",
            "release",
            text,
            "the probes: the events they read have other forms before 6.1",
            "Linux 6.1 or later",
        ),
        Some(_) => Item::ok(HERE, "kernel.release", "release", text),
        None => Item::unknown(HERE, "kernel.release", "release", text, "mount /proc"),
    };
    let btf = if kernel::btf() {
        Item::ok(HERE, "kernel.btf", "type information", "/sys/kernel/btf/vmlinux is readable")
    } else {
        Item::missing(
            HERE,
            "kernel.btf",
            "type information",
            "/sys/kernel/btf/vmlinux is not there or not readable",
            "all probes",
            "a kernel with CONFIG_DEBUG_INFO_BTF=y, and sysfs mounted",
        )
    };
    vec![release, btf, locked(lockdown::detect()), symbols(kernel::kallsyms(), circumstances.settings.kptr_restrict)]
}

fn locked(found: lockdown::Lockdown) -> Item {
    let (here, id, name) = (Section::Kernel, "kernel.lockdown", "lockdown");
    let how = found.how;
    match found.mode.as_deref() {
        Some("confidentiality") => Item::missing(
            here,
            id,
            name,
            format!("confidentiality ({how})"),
            "the probes: BPF programs may not read kernel memory",
            "boot with lockdown=integrity or without lockdown",
        ),
        Some("integrity") => {
            Item::ok(here, id, name, format!("integrity ({how}); the probes need nothing that it forbids"))
        }
        Some(mode) => Item::ok(here, id, name, format!("{mode} ({how})")),
        None => Item::unknown(here, id, name, how, "mount -t securityfs securityfs /sys/kernel/security, as root"),
    }
}

fn symbols(readable: Option<bool>, restrict: Option<u32>) -> Item {
    let (here, id, name) = (Section::Kernel, "kernel.symbols", "kernel symbols");
    let lost = "by which interrupt or system call a completion was delivered: entry points have no names";
    match readable {
        Some(true) => Item::ok(here, id, name, "/proc/kallsyms shows addresses"),
        Some(false) => {
            let restore = match restrict {
                Some(2) => "as root: sysctl kernel.kptr_restrict=1",
                _ => "run as root or with CAP_SYSLOG",
            };
            Item::missing(here, id, name, "/proc/kallsyms hides addresses from this process", lost, restore)
        }
        None => {
            let (why, restore) = match procfs::is_mounted() {
                true => ("/proc/kallsyms is not readable", "a kernel with CONFIG_KALLSYMS=y"),
                false => ("/proc is not mounted here", "mount -t proc proc /proc"),
            };
            Item::missing(here, id, name, why, lost, restore)
        }
    }
}

pub(super) fn clock() -> Vec<Item> {
    clocks(clock::source().as_deref(), clock::tsc(), clock::tick_hz())
}

fn clocks(source: Option<&str>, tsc: Option<clock::Tsc>, tick_hz: Option<u32>) -> Vec<Item> {
    const HERE: Section = Section::Clock;
    // The kernel answers these from memory that it shares with programs; the others take a system call for each stamp.
    const CHEAP: [&str; 6] =
        ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase", "riscv_clocksource"];
    let (id, name) = ("clock.source", "clock source");
    let first = match source {
        Some(s) if CHEAP.contains(&s) => Item::ok(HERE, id, name, format!("{s}: read without a system call")),
        Some(s) => Item::missing(
            HERE,
            id,
            name,
            format!("{s}: each reading is a system call, and slow"),
            "cheap latency: every stamp costs up to microseconds",
            "boot with clocksource=tsc where the machine's time-stamp counters are sound",
        ),
        None => Item::unknown(HERE, id, name, "the clock source can't be read", "mount sysfs on /sys"),
    };
    let (id, name) = ("clock.tsc", "invariant TSC");
    let lost = "the cheapest stamps: clock_gettime is used in their place";
    let second = match (tsc, source) {
        (Some(t), Some("tsc")) if t.invariant() => Item::ok(HERE, id, name, "and the kernel trusts it"),
        (Some(t), _) if t.invariant() => Item::missing(
            HERE,
            id,
            name,
            "invariant, but the kernel does not keep time by it",
            lost,
            "boot with clocksource=tsc where the machine's time-stamp counters are sound",
        ),
        (Some(_), _) => Item::missing(
            HERE,
            id,
            name,
            "its rate or its running depends on the processor's state",
            lost,
            "a processor, or a virtual machine's CPU model, with constant_tsc and nonstop_tsc",
        ),
        (None, _) => Item::fact(HERE, id, name, "this processor has none; clock_gettime is used"),
    };
    let (id, name) = ("clock.tick", "tick");
    let third = match tick_hz {
        Some(hz) => {
            let ms = 1000.0 / f64::from(hz);
            Item::fact(HERE, id, name, format!("{hz} Hz: a completion that nothing announces waits up to {ms:.1} ms"))
        }
        None => Item::unknown(HERE, id, name, "its rate can't be told", "let clock_getres through the seccomp filter"),
    };
    vec![first, second, third]
}

pub(super) fn target(found: Option<&Description>) -> Vec<Item> {
    const HERE: Section = Section::Target;
    let Some(d) = found else {
        return vec![Item::unknown(
            HERE,
            "target.path",
            "path",
            "the current folder can't be looked at",
            "name a file: --file PATH",
        )];
    };
    let on = d.filesystem.as_ref().map_or(String::new(), |f| format!(" ({f})"));
    let mut items = vec![Item::fact(HERE, "target.path", "path", format!("{}{on}", d.path))];
    if d.disks.is_empty() {
        items.push(Item::missing(
            HERE,
            "target.disk",
            "disk",
            "no block device that can be seen lies under it",
            "interrupts and queues of the target; --cpus irq and non-irq",
            "name a file on a disk, or a block device: --file PATH",
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
        let text = format!("{bytes} bytes: the least for direct I/O");
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
            "none of its own that can be seen",
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

fn poll_queues(disk: &Disk, id: &str) -> Item {
    let (here, name) = (Section::Target, "poll queues");
    match disk.poll_queues {
        Some(0) => {
            let restore = match disk.driver.as_deref() {
                Some("nvme") => "boot with nvme.poll_queues=N, or load the module with poll_queues=N".to_owned(),
                Some("virtio_blk") => "boot with virtio_blk.poll_queues=N, on a hypervisor that gives the disk more \
                                       queues than that"
                    .to_owned(),
                _ => "a disk whose driver has them (NVMe with nvme.poll_queues=N)".to_owned(),
            };
            Item::missing(here, id, name, "none", "polled completions: --ring iopoll and hybrid_iopoll", restore)
        }
        Some(n) => Item::ok(here, id, name, n.to_string()),
        None => Item::unknown(
            here,
            id,
            name,
            "whether queues are polled can't be told for this driver",
            "look at the driver's module parameters",
        ),
    }
}

/// The kernel's words for queue/rq_affinity (Documentation/ABI/stable/sysfs-block).
fn steering(rq_affinity: Option<u32>) -> Option<&'static str> {
    match rq_affinity? {
        0 => Some("completions stay on the CPU that took the interrupt"),
        1 => Some("completions go to a CPU that shares the submitter's cache"),
        2 => Some("completions go to the submitter's own CPU"),
        _ => None,
    }
}

/// `36 virtio1-req.0 on CPU 1`; of many, their number and CPUs.
fn delivered(interrupts: &[TargetInterrupt]) -> Option<String> {
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

fn movable(answers: &[Option<bool>], id: &str) -> Item {
    let (here, name) = (Section::Target, "interrupts move");
    if answers.iter().all(|&a| a == Some(true)) {
        return Item::ok(here, id, name, "their CPUs can be set in /proc/irq");
    }
    if answers.contains(&Some(false)) {
        return Item::missing(
            here,
            id,
            name,
            "the kernel manages where they go, and refuses to change it",
            "experiments that move the interrupt",
            "nothing while it runs: move the load instead (--cpus irq, --cpus non-irq)",
        );
    }
    Item::unknown(here, id, name, "whether their CPUs can be set is told to root only", "run as root")
}

pub(super) fn cpus(cpus: &Cpus, virtualisation: Option<&str>) -> Vec<Item> {
    const HERE: Section = Section::Cpus;
    let listed = |list: &[u32]| if list.is_empty() { "none".into() } else { format_list(list) };
    let mut items = vec![Item::fact(
        HERE,
        "cpus.online",
        "online",
        format!("{} ({})", format_list(&cpus.online), cpu::model().as_deref().unwrap_or("unknown model")),
    )];
    let (with, without) = ("target interrupts", "without them");
    match (&cpus.with_target_interrupts, &cpus.without_target_interrupts) {
        (Some(taking), Some(free)) => {
            items.push(Item::fact(HERE, "cpus.irq", with, format!("CPU {}", listed(taking))));
            items.push(if free.is_empty() {
                Item::missing(
                    HERE,
                    "cpus.non_irq",
                    without,
                    "none: every CPU takes some",
                    "--cpus non-irq: a load on a CPU without the target's interrupts",
                    "more CPUs than the disk has queues, or interrupts that can be moved",
                )
            } else {
                Item::ok(HERE, "cpus.non_irq", without, format!("CPU {}", listed(free)))
            });
        }
        _ => items.push(Item::unknown(
            HERE,
            "cpus.irq",
            with,
            "the target has no interrupts that can be seen",
            "name a file on a disk: --file PATH",
        )),
    }
    items.push(isolation(cpus));
    items.push(Item::fact(HERE, "cpus.shared", "shared", shared(&cpus.online)));
    items.push(governor(&cpus.online));
    items.push(match virtualisation {
        Some("none") => Item::ok(HERE, "cpus.virtualisation", "bare metal", "no hypervisor"),
        Some(name) => {
            let text =
                format!("{name}{}: times hold what the hypervisor adds; compare pairs, not single runs", stolen());
            Item::fact(HERE, "cpus.virtualisation", "virtual machine", text)
        }
        None => Item::unknown(
            HERE,
            "cpus.virtualisation",
            "virtual machine",
            "neither processor nor firmware tells",
            "mount sysfs on /sys",
        ),
    });
    items
}

fn isolation(cpus: &Cpus) -> Item {
    let (here, id, name) = (Section::Cpus, "cpus.isolated", "isolated");
    match cpus.isolated.as_deref() {
        None => Item::unknown(here, id, name, "can't be read", "mount sysfs on /sys"),
        Some([]) => {
            let tickless = if cpus.nohz_full.is_some() { " and nohz_full=LIST" } else { "" };
            Item::missing(
                here,
                id,
                name,
                "no CPU is kept free of other tasks",
                "quiet CPUs: other tasks and kernel threads disturb the load",
                format!("boot with isolcpus=LIST{tickless}"),
            )
        }
        Some(list) => {
            let tickless = match cpus.nohz_full.as_deref() {
                None | Some([]) => String::new(),
                Some(n) => format!("; without tick: {}", format_list(n)),
            };
            Item::ok(here, id, name, format!("CPU {}{tickless}", format_list(list)))
        }
    }
}

/// Which CPUs share a core and which a cache: it decides where completions are steered and how dear they are there.
fn shared(online: &[u32]) -> String {
    let sets = |of: fn(u32) -> Option<Vec<u32>>| -> Option<Vec<Vec<u32>>> {
        let mut sets: Vec<Vec<u32>> = online.iter().map(|&c| of(c)).collect::<Option<_>>()?;
        sets.sort();
        sets.dedup();
        Some(sets)
    };
    let lists = |sets: &[Vec<u32>]| sets.iter().map(|s| format_list(s)).collect::<Vec<_>>().join(" | ");
    let cores = match sets(cpu::smt_siblings) {
        None => "cores unknown".to_owned(),
        Some(s) if s.iter().all(|s| s.len() == 1) => "one thread per core".to_owned(),
        Some(s) => format!("cores {}", lists(&s)),
    };
    let caches = match sets(cpu::shares_cache) {
        None => "caches unknown".to_owned(),
        Some(s) => format!("last-level cache {}", lists(&s)),
    };
    format!("{cores}; {caches}")
}

fn governor(online: &[u32]) -> Item {
    let (here, id, name) = (Section::Cpus, "cpus.governor", "frequency");
    let mut all: Vec<String> = online.iter().filter_map(|&c| cpu::governor(c)).collect();
    all.sort();
    all.dedup();
    match all.as_slice() {
        [] => Item::fact(here, id, name, "no governor: not the kernel's to choose here"),
        [one] if one == "performance" => Item::ok(here, id, name, "governor performance"),
        some => Item::missing(
            here,
            id,
            name,
            format!("governor {}", some.join(", ")),
            "a steady speed: it follows the load, and with it every time",
            "as root: cpupower frequency-set -g performance",
        ),
    }
}

/// `, 0.3 % of CPU time stolen since boot`; nothing where it isn't counted.
fn stolen() -> String {
    let Some(all) = cpu::steal() else { return String::new() };
    let (steal, total) = all.iter().fold((0, 0), |(s, t), c| (s + c.steal_ticks, t + c.total_ticks));
    if total == 0 {
        return String::new();
    }
    format!(", {:.1} % of CPU time stolen since boot", 100.0 * steal as f64 / total as f64)
}

#[cfg(test)]
mod tests;
