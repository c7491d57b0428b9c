//! CPUs: which are online, shared hardware, isolation, and steal time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::files::{self, ROOT};
use super::procfs::ticks_to_ns;
use iotrail_base::error::{Error, Result};

const CPU: &str = "sys/devices/system/cpu";

/// Numbers of the online CPUs, ascending.
pub fn online() -> Result<Vec<u32>> {
    online_in(Path::new(ROOT))
}

fn online_in(root: &Path) -> Result<Vec<u32>> {
    let cannot = || {
        Error::machine(
            "the online CPUs are unknown: /sys/devices/system/cpu/online is not readable",
            "mount sysfs on /sys",
        )
    };
    let text = files::text(root, format!("{CPU}/online")).ok_or_else(cannot)?;
    match parse_list(&text) {
        Ok(cpus) if !cpus.is_empty() => Ok(cpus),
        Ok(_) => Err(cannot()),
        Err(why) => Err(cannot().because(why)),
    }
}

/// Parses the kernel's list format: `0,2-3` is 0, 2, 3. Ascending without duplicates; an empty text is an empty list.
pub fn parse_list(text: &str) -> std::result::Result<Vec<u32>, String> {
    // Above any kernel's limit (CONFIG_NR_CPUS is at most 8192), so that `0-4294967295` cannot exhaust memory.
    const MOST: u32 = 65_535;
    let number = |s: &str| -> std::result::Result<u32, String> {
        match s.trim().parse() {
            Ok(n) if n <= MOST => Ok(n),
            _ => Err(format!("'{}' is not a CPU number: write a list such as 0,2-3", s.trim())),
        }
    };
    let mut cpus = BTreeSet::new();
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    for part in text.trim().split(',') {
        match part.split_once('-') {
            None => {
                cpus.insert(number(part)?);
            }
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last {
                    return Err(format!("'{}' is in descending order: write {last}-{first}", part.trim()));
                }
                cpus.extend(first..=last);
            }
        }
    }
    Ok(cpus.into_iter().collect())
}

/// Inverse of [`parse_list`]: 0, 1, 2, 5 becomes `0-2,5`.
pub fn format_list(cpus: &[u32]) -> String {
    let sorted: BTreeSet<u32> = cpus.iter().copied().collect();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for cpu in sorted {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let text = |&(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Name of the CPU from /proc/cpuinfo, or from the device tree if that has none.
pub fn model() -> Option<String> {
    model_in(Path::new(ROOT))
}

fn model_in(root: &Path) -> Option<String> {
    let info = files::text(root, "proc/cpuinfo")?;
    ["model name", "Model", "cpu model", "cpu"]
        .iter()
        .find_map(|key| cpuinfo(&info, key))
        .or_else(|| files::text(root, "proc/device-tree/model").map(|m| m.trim_end_matches('\0').to_owned()))
}

/// Value of the first line with this key in /proc/cpuinfo.
pub(super) fn cpuinfo(info: &str, key: &str) -> Option<String> {
    info.lines().filter_map(|l| l.split_once(':')).find(|(k, _)| k.trim() == key).map(|(_, v)| v.trim().to_owned())
}

/// CPU isolation set at boot. `None` if unreadable; an empty list if no CPU is isolated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Isolation {
    /// CPUs excluded from scheduling (`isolcpus=`, or an isolated cpuset partition).
    pub isolated: Option<Vec<u32>>,
    /// CPUs without a tick while they run a single task (`nohz_full=`). The file requires CONFIG_NO_HZ_FULL.
    pub nohz_full: Option<Vec<u32>>,
}

pub fn isolation() -> Isolation {
    isolation_in(Path::new(ROOT))
}

fn isolation_in(root: &Path) -> Isolation {
    let list = |name: &str| {
        let text = files::text(root, format!("{CPU}/{name}"))?;
        // The kernel prints an empty mask as nothing, or as `(null)` if it is not allocated.
        if text == "(null)" { Some(Vec::new()) } else { parse_list(&text).ok() }
    };
    Isolation { isolated: list("isolated"), nohz_full: list("nohz_full") }
}

/// Frequency governor of a CPU; `None` if the kernel or hypervisor does not allow a choice of frequency.
pub fn governor(cpu: u32) -> Option<String> {
    files::text(Path::new(ROOT), format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"))
}

/// Hardware threads of a CPU's core, including the CPU itself.
pub fn smt_siblings(cpu: u32) -> Option<Vec<u32>> {
    siblings_in(Path::new(ROOT), cpu)
}

fn siblings_in(root: &Path, cpu: u32) -> Option<Vec<u32>> {
    // `core_cpus_list` exists since 5.4; the older name `thread_siblings_list` still exists.
    ["core_cpus_list", "thread_siblings_list"]
        .iter()
        .find_map(|f| parse_list(&files::text(root, format!("{CPU}/cpu{cpu}/topology/{f}"))?).ok())
}

/// CPUs that share a CPU's last-level cache, including the CPU itself. The kernel uses this to steer completions
/// (`rq_affinity` 1: to the submitter's cache, not its CPU).
pub fn shares_cache(cpu: u32) -> Option<Vec<u32>> {
    shares_cache_in(Path::new(ROOT), cpu)
}

fn shares_cache_in(root: &Path, cpu: u32) -> Option<Vec<u32>> {
    let cache = format!("{CPU}/cpu{cpu}/cache");
    let last = files::entries(root, &cache)
        .into_iter()
        .filter(|e| e.starts_with("index"))
        .filter_map(|e| Some((files::number::<u32>(root, format!("{cache}/{e}/level"))?, e)))
        .max()?;
    parse_list(&files::text(root, format!("{cache}/{}/shared_cpu_list", last.1))?).ok()
}

/// Time since boot in which the hypervisor ran something else while this CPU had work, from /proc/stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steal {
    pub cpu: u32,
    /// In /proc/stat ticks (100 per second, independent of CONFIG_HZ).
    pub steal_ticks: u64,
    /// Total time of this CPU in /proc/stat including idle, in the same unit.
    pub total_ticks: u64,
}

/// Steal time per online CPU; `None` if /proc/stat lacks it.
pub fn steal() -> Option<Vec<Steal>> {
    parse_steal(&files::text(Path::new(ROOT), "proc/stat")?)
}

fn parse_steal(stat: &str) -> Option<Vec<Steal>> {
    let mut all = Vec::new();
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        let Some(cpu) = words.next().and_then(|w| w.strip_prefix("cpu")).and_then(|n| n.parse().ok()) else { continue };
        let ticks = ticks(words)?;
        all.push(Steal { cpu, steal_ticks: ticks[7], total_ticks: ticks.iter().sum() });
    }
    if all.is_empty() { None } else { Some(all) }
}

/// Total busy time of all CPUs, of which only differences are meaningful; `None` if /proc/stat lacks it. Computed as
/// the complement of idle time, which the kernel measures exactly. The other times in /proc/stat are sampled at ticks,
/// which miss work shortly after a tick. `now_ns` may be from any steady clock.
pub fn busy_ns(now_ns: u64) -> Option<u64> {
    parse_busy(&files::text(Path::new(ROOT), "proc/stat")?, now_ns)
}

/// Resolution of `busy_ns`: one tick for each of the subtracted idle times.
pub fn busy_resolution_ns() -> u64 {
    3 * ticks_to_ns(1)
}

fn parse_busy(stat: &str, now_ns: u64) -> Option<u64> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let [_, _, _, idle, iowait, _, _, steal] = ticks(all.split_whitespace())?;
    let cpus = parse_steal(stat)?.len() as u64;
    // A CPU that was offline has less. Only differences count, and they wrap.
    Some((cpus * now_ns).wrapping_sub(ticks_to_ns(idle + iowait + steal)))
}

/// Busy time per CPU without interrupts, in ns; `user_only`: only user mode. Only differences are meaningful, and they
/// wrap.
pub(crate) fn busy_of_programs(stat: &str, now_ns: u64, user_only: bool) -> Option<BTreeMap<u32, u64>> {
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let [user, nice, _, idle, iowait, irq, softirq, steal] = ticks(words)?;
        let not = ticks_to_ns(idle + iowait + irq + softirq + steal);
        Some((cpu, if user_only { ticks_to_ns(user + nice) } else { now_ns.wrapping_sub(not) }))
    };
    Some(stat.lines().filter_map(of).collect()).filter(|all: &BTreeMap<u32, u64>| !all.is_empty())
}

/// user nice system idle iowait irq softirq steal; user and nice include guest and guest_nice.
fn ticks<'a>(words: impl Iterator<Item = &'a str>) -> Option<[u64; 8]> {
    words.take(8).map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    #[test]
    fn cpu_lists_are_parsed_and_formatted() {
        assert_eq!(parse_list("0,2-3"), Ok(vec![0, 2, 3]));
        assert_eq!(parse_list(" 3,1-2,2\n"), Ok(vec![1, 2, 3]));
        assert_eq!(parse_list(""), Ok(vec![]));
        assert_eq!(format_list(&[5, 0, 1, 2]), "0-2,5");
        assert_eq!(format_list(&[]), "");
        for bad in ["x", "1-", "-1", "0,,1", "0-4294967295", "1 2"] {
            assert!(parse_list(bad).unwrap_err().contains("not a CPU number"), "{bad}");
        }
        assert_eq!(parse_list("3-1").unwrap_err(), "'3-1' is in descending order: write 1-3");
    }

    #[test]
    fn offline_cpus_are_not_listed_as_online() {
        let t = Tree::new().file("sys/devices/system/cpu/online", "0,2-3\n");
        assert_eq!(online_in(t.root()).unwrap(), [0, 2, 3]);
        assert_eq!(online_in(Tree::new().root()).unwrap_err().exit_status(), 3);
    }

    #[test]
    fn no_isolated_cpus_are_distinguished_from_unknown_isolation() {
        let t = Tree::new().file("sys/devices/system/cpu/isolated", "2-3\n");
        assert_eq!(isolation_in(t.root()), Isolation { isolated: Some(vec![2, 3]), nohz_full: None });
        let t = t.file("sys/devices/system/cpu/isolated", "\n").file("sys/devices/system/cpu/nohz_full", "  (null)\n");
        assert_eq!(isolation_in(t.root()), Isolation { isolated: Some(vec![]), nohz_full: Some(vec![]) });
    }

    #[test]
    fn the_last_level_cache_is_the_highest_level_not_the_last_index() {
        let c = "sys/devices/system/cpu/cpu1/cache";
        let t = Tree::new()
            .file(&format!("{c}/index2/level"), "3\n")
            .file(&format!("{c}/index2/shared_cpu_list"), "0-7\n")
            .file(&format!("{c}/index3/level"), "2\n")
            .file(&format!("{c}/index3/shared_cpu_list"), "1,5\n");
        assert_eq!(shares_cache_in(t.root(), 1), Some((0..8).collect()));
        assert_eq!(shares_cache_in(t.root(), 0), None);
    }

    #[test]
    fn smt_siblings_are_read_from_the_older_file_name() {
        let t = Tree::new().file("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4\n");
        assert_eq!(siblings_in(t.root(), 0), Some(vec![0, 4]));
    }

    #[test]
    fn steal_time_is_parsed_per_cpu() {
        let stat = "cpu  9 0 9 9 0 0 0 9 0 0\ncpu0 100 1 50 800 9 0 10 30 7 0\ncpu2 1 2 3 4 5 6 7 8 0 0\nintr 5\n";
        let got = parse_steal(stat).unwrap();
        assert_eq!(got[0], Steal { cpu: 0, steal_ticks: 30, total_ticks: 1000 });
        assert_eq!(got[1], Steal { cpu: 2, steal_ticks: 8, total_ticks: 36 });
        assert_eq!(got.len(), 2);
        assert_eq!(parse_steal("cpu0 1 2 3\n"), None);
        assert_eq!(parse_steal("intr 5\n"), None);
    }

    #[test]
    fn busy_time_is_the_complement_of_idle_time() {
        let two = "cpu  100 1 50 800 9 2 10 30 7 0\ncpu0 1 1 1 1 1 1 1 1\ncpu1 1 1 1 1 1 1 1 1\n";
        assert_eq!(parse_busy(two, 10_000_000_000), Some(20_000_000_000 - 8_390_000_000));
        assert_eq!((parse_busy("cpu  1 2 3\n", 5), parse_busy("intr 5\n", 5)), (None, None));
        let per = |user_only| busy_of_programs(two, 10_000_000_000, user_only).unwrap();
        assert_eq!((per(false)[&1], per(true)[&1]), (9_950_000_000, 20_000_000));
        let began = std::time::Instant::now();
        let now = || began.elapsed().as_nanos() as u64;
        let before = busy_ns(now()).unwrap();
        while now() < 200_000_000 {}
        // At least this CPU was busy, whatever the others did.
        assert!(busy_ns(now()).unwrap().wrapping_sub(before) + busy_resolution_ns() >= 150_000_000);
    }

    #[test]
    fn the_cpu_model_is_read_from_cpuinfo_or_the_device_tree() {
        let t = Tree::new().file("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\n");
        assert_eq!(model_in(t.root()).as_deref(), Some("AMD EPYC"));
        let t = Tree::new().file("proc/cpuinfo", "processor\t: 0\n").file("proc/device-tree/model", "Board 4\0");
        assert_eq!(model_in(t.root()).as_deref(), Some("Board 4"));
    }
}
