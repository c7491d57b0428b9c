//! The CPUs.

use iotrail_host::cpu::{self, format_list};
use iotrail_report::check::{Cpus, Item, Section};

pub(in crate::cli::check) fn cpus(cpus: &Cpus, virtualisation: Option<&str>) -> Vec<Item> {
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
                    "none: every CPU handles interrupts of the target",
                    "--cpus non-irq: a load on a CPU without the target's interrupts",
                    "more CPUs than disk queues, or movable interrupts",
                )
            } else {
                Item::ok(HERE, "cpus.non_irq", without, format!("CPU {}", listed(free)))
            });
        }
        _ => items.push(Item::unknown(
            HERE,
            "cpus.irq",
            with,
            "no interrupts of the target are visible",
            "specify a file on a disk: --file PATH",
        )),
    }
    items.push(isolation(cpus));
    items.push(Item::fact(HERE, "cpus.shared", "shared", shared(&cpus.online)));
    items.push(governor(&cpus.online));
    items.push(match virtualisation {
        Some("none") => Item::ok(HERE, "cpus.virtualisation", "bare metal", "no hypervisor"),
        Some(name) => {
            let text = format!("{name}{}: times include hypervisor overhead; compare pairs, not single runs", stolen());
            Item::fact(HERE, "cpus.virtualisation", "virtual machine", text)
        }
        None => Item::unknown(
            HERE,
            "cpus.virtualisation",
            "virtual machine",
            "neither the processor nor the firmware reports one",
            "mount sysfs on /sys",
        ),
    });
    items
}

pub(super) fn isolation(cpus: &Cpus) -> Item {
    let (here, id, name) = (Section::Cpus, "cpus.isolated", "isolated");
    match cpus.isolated.as_deref() {
        None => Item::unknown(here, id, name, "can't be read", "mount sysfs on /sys"),
        Some([]) => {
            let tickless = if cpus.nohz_full.is_some() { " and nohz_full=LIST" } else { "" };
            Item::missing(
                here,
                id,
                name,
                "no CPU is isolated from other tasks",
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

/// CPUs that share a core or a cache, which determines where completions run and what they cost there.
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

pub(super) fn governor(online: &[u32]) -> Item {
    let (here, id, name) = (Section::Cpus, "cpus.governor", "frequency");
    let mut all: Vec<String> = online.iter().filter_map(|&c| cpu::governor(c)).collect();
    all.sort();
    all.dedup();
    match all.as_slice() {
        [] => Item::fact(here, id, name, "no governor: the kernel does not control the frequency here"),
        [one] if one == "performance" => Item::ok(here, id, name, "governor performance"),
        some => Item::missing(
            here,
            id,
            name,
            format!("governor {}", some.join(", ")),
            "a constant CPU frequency: frequency and times vary with the load",
            "as root: cpupower frequency-set -g performance",
        ),
    }
}

/// `, 0.3 % of CPU time stolen since boot`; empty if steal is not counted.
fn stolen() -> String {
    let Some(all) = cpu::steal() else { return String::new() };
    let (steal, total) = all.iter().fold((0, 0), |(s, t), c| (s + c.steal_ticks, t + c.total_ticks));
    if total == 0 {
        return String::new();
    }
    format!(", {:.1} % of CPU time stolen since boot", 100.0 * steal as f64 / total as f64)
}
