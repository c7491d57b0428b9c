//! Several disks and devices in one run: each cell has its own conditions, placement and checks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iotrail_host::block;
use libtest_mimic::Failed;
use serde_json::Value;

use super::Test;

pub const TESTS: &[(&str, Test)] = &[
    ("each_cell_sets_only_the_scheduler_of_its_own_device", each_cells_own_device),
    ("a_file_on_a_loop_mount_is_reported_with_the_loop_device_and_its_disk", loop_mounted),
    ("equal_seeds_produce_equal_offsets_in_equal_order", same_offsets),
];

/// A loop device on a test file, detached on drop.
struct Loop {
    device: String,
    _file: tempfile::NamedTempFile,
}

impl Loop {
    fn new() -> Self {
        let file = tempfile::Builder::new()
            .prefix("loop-")
            .tempfile_in(env!("CARGO_TARGET_TMPDIR"))
            .expect("a file of our own");
        std::fs::write(file.path(), vec![0x5a; 8 << 20]).expect("room for it");
        let out = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().expect("losetup");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let device = String::from_utf8(out.stdout).expect("a path").trim().to_owned();
        Self { device, _file: file }
    }

    fn name(&self) -> &str {
        self.device.rsplit('/').next().expect("a path has a name")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        match Command::new("losetup").args(["-d", &self.device]).status() {
            Ok(status) if status.success() => {}
            other => eprintln!("{} stays: {other:?}", self.device),
        }
    }
}

fn scheduler(device: &str) -> String {
    let path = Path::new("/sys/block").join(device).join("queue/scheduler");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text.trim(), |(name, _)| name).to_owned()
}

/// Runs an experiment with a separate state directory and store, and calls `look` repeatedly meanwhile.
fn run(text: &str, more: &[&str], look: &(dyn Fn(&Path) + Sync)) -> (i32, Value, String) {
    let folder = tempfile::Builder::new().prefix("run-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    std::fs::write(at("x.toml"), text).expect("written");
    let over = AtomicBool::new(false);
    let out = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                look(&at("iotrail/settings.journal"));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let out = Command::new(env!("CARGO_BIN_EXE_iotrail"))
            .args(["run", "--json", "--store"])
            .arg(at("s.db"))
            .arg(at("x.toml"))
            .args(more)
            .env("XDG_STATE_HOME", folder.path())
            .env("XDG_CACHE_HOME", folder.path())
            .output();
        over.store(true, Ordering::Relaxed);
        out.expect("the built binary starts")
    });
    let json = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
    (out.status.code().expect("it exits"), json, String::from_utf8_lossy(&out.stderr).into_owned())
}

fn each_cells_own_device() -> Result<(), Failed> {
    let (one, other) = (Loop::new(), Loop::new());
    let below = block::target(Path::new(&one.device)).expect("it is there");
    let disk = below.device.clone().expect("the build is on a disk");
    let names = [one.name(), other.name(), disk.as_str()];
    let before = names.map(scheduler);
    let text = format!(
        "name = \"two-devices\"\ntitle = \"t\"\nquestion = \"q\"\nexpect = \"e\"\nrepeats = 2\ncontrol = false\n\
         [load]\nruntime = \"200ms\"\nwarmup = \"10ms\"\ndepth = 4\ncpus = \"irq\"\n\
         [[arm]]\nname = \"one\"\nfile = \"{}\"\nscheduler = \"kyber\"\n\
         [[arm]]\nname = \"other\"\nfile = \"{}\"\nscheduler = \"mq-deadline\"\n",
        one.device, other.device
    );
    let seen = std::sync::Mutex::new((BTreeSet::new(), BTreeSet::new()));
    let (status, json, stderr) = run(&text, &[], &|journal| {
        let mut seen = seen.lock().expect("no looker panics");
        seen.0.insert(names.map(scheduler));
        let text = std::fs::read_to_string(journal).unwrap_or_default();
        seen.1.extend(names.map(|n| n.to_owned()).into_iter().filter(|n| text.contains(&format!("block/{n}/queue"))));
    });
    assert_eq!(status, 0, "{stderr}");
    let (schedulers, journalled) = seen.into_inner().expect("no looker panics");
    let [a, b, of_disk] = before.clone();
    let set = |one: &str, other: &str| [one.to_owned(), other.to_owned(), of_disk.clone()];
    assert!(schedulers.contains(&set("kyber", &b)) && schedulers.contains(&set(&a, "mq-deadline")), "{schedulers:?}");
    assert!(schedulers.iter().all(|s| s[2] == of_disk), "{disk} was changed: {schedulers:?}");
    assert!(schedulers.iter().all(|s| s[0] == a || s[1] == b), "both at once: {schedulers:?}");
    assert_eq!(journalled.iter().map(String::as_str).collect::<BTreeSet<_>>(), names[..2].iter().copied().collect());
    assert_eq!(names.map(scheduler), before, "put back");
    // Each measurement names its target: the loop device's queue, and the disk's interrupts.
    let cells = json["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    let mut cpus: Vec<u32> = below.interrupts.iter().flat_map(|i| i.cpus.iter().copied()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for (cell, (name, wanted)) in cells.iter().zip([(names[0], "kyber"), (names[1], "mq-deadline")]) {
        assert_eq!(cell["measurements"].as_array().map(Vec::len), Some(2), "{cell}");
        for m in cell["measurements"].as_array().expect("measurements") {
            let target = &m["host"]["target"];
            assert_eq!((&target["queue_device"], &target["scheduler"]), (&name.into(), &wanted.into()), "{target}");
            assert_eq!(target["device"], disk.as_str());
            assert!(cpus.contains(&(m["load"]["cpus"][0].as_u64().expect("a CPU") as u32)), "{cpus:?}: {}", m["load"]);
        }
    }
    Ok(())
}

/// Both queues have a scheduler: iotrail names that of the queue which receives the requests.
fn loop_mounted() -> Result<(), Failed> {
    let device = Loop::new();
    let disk = block::target(Path::new(&device.device)).expect("it is there").device.expect("the build is on a disk");
    let queue = Path::new("/sys/block").join(device.name()).join("queue/scheduler");
    // Different from the disk's value, to distinguish the two; it disappears with the device.
    let wanted = if scheduler(&disk) == "none" { "mq-deadline" } else { "none" };
    let before = scheduler(device.name());
    std::fs::write(&queue, wanted)?;
    let folder = tempfile::Builder::new().prefix("mount-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let bench = |more: &str| -> Result<String, Failed> {
        // The mount disappears with its namespace.
        let script = "mount \"$1\" \"$2\" && head -c 2097152 /dev/zero >\"$2/f\" && sync && \
                      exec \"$3\" bench --trace off --warmup 0 --count 5000 --file \"$2/f\" $4";
        let out = Command::new("unshare")
            .args(["-m", "sh", "-c", script, "sh", &device.device])
            .arg(folder.path())
            .args([env!("CARGO_BIN_EXE_iotrail"), more])
            .output()?;
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Ok(String::from_utf8(out.stdout)?)
    };
    let made = Command::new("mkfs.ext4").args(["-q", "-F", &device.device]).output()?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let said = (bench("")?, bench("--json")?);
    std::fs::write(&queue, before)?;
    let (screen, json) = (said.0, serde_json::from_str::<Value>(&said.1)?);
    let target = &json["host"]["target"];
    assert_eq!(
        (&target["queue_device"], &target["device"]),
        (&device.name().into(), &disk.as_str().into()),
        "{target}"
    );
    assert_eq!((&target["scheduler"], &target["filesystem"]), (&wanted.into(), &"ext4".into()), "{target}");
    // A line may break between any two words.
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    for shown in [format!("{} (scheduler {wanted})", device.name()), format!("on {disk} (")] {
        assert!(words.contains(&shown), "{shown}: {screen}");
    }
    assert_eq!(words.matches("scheduler").count(), 1, "{screen}");
    // By default, a loop device reads its file through the page cache.
    let warnings = json["warnings"].as_array().expect("warnings");
    let cached = warnings.iter().find(|w| w["code"] == "not_from_device").ok_or("the disk moved little")?;
    let text = cached["text"].as_str().expect("a text");
    assert!(text.contains(&format!(" on {}, the underlying disk {disk} transferred ", device.name())), "{text}");
    Ok(())
}

/// A load's reads and writes per job according to strace; the measured ones are each thread's last `count`.
fn offsets(options: &str, count: usize) -> Vec<Vec<String>> {
    let folder = tempfile::Builder::new().prefix("strace-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = folder.path().join("x");
    let log = folder.path().join("log");
    std::fs::write(&file, vec![0; 4 << 20]).expect("room for it");
    let out = Command::new("strace")
        .args(["-f", "-e", "trace=pread64,pwrite64", "-o"])
        .arg(&log)
        .arg(env!("CARGO_BIN_EXE_iotrail"))
        .args([
            "bench",
            "--engine",
            "sync",
            "--depth",
            "1",
            "--trace",
            "off",
            "--buffered",
            "--allow-write",
            "--jobs",
            "2",
        ])
        .args(["--count", &(2 * count).to_string(), "--file"])
        .arg(&file)
        .args(options.split_whitespace())
        .output()
        .expect("strace");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(&log).expect("strace wrote it");
    let mut threads: Vec<(&str, Vec<String>)> = Vec::new();
    for line in text.lines().filter(|l| l.contains(", 4096, ")) {
        let (tid, call) = line.split_once(' ').expect("strace -f begins with the thread");
        let (call, end) = (call.trim_start(), call.rsplit(", ").next().expect("the offset comes last"));
        // strace prints a call interleaved with another thread's on two lines.
        let name = call.strip_prefix("<... ").unwrap_or(call);
        let op = name.split(['(', ' ']).next().expect("a name");
        let offset = end.split([')', ' ']).next().expect("digits");
        match threads.iter_mut().find(|(t, _)| *t == tid) {
            Some((_, ios)) => ios.push(format!("{op} {offset}")),
            None => threads.push((tid, vec![format!("{op} {offset}")])),
        }
    }
    assert_eq!(threads.len(), 2, "two jobs");
    let mut jobs: Vec<Vec<String>> = threads.into_iter().map(|(_, ios)| ios[ios.len() - count..].to_vec()).collect();
    jobs.sort();
    jobs
}

fn same_offsets() -> Result<(), Failed> {
    const COUNT: usize = 40;
    let one = offsets("--rw randrw --seed 7 --warmup 0", COUNT);
    assert_ne!(one[0], one[1], "each job has its own");
    assert!(one.iter().flatten().any(|io| io.starts_with("pread64")), "{one:?}");
    assert!(one.iter().flatten().any(|io| io.starts_with("pwrite64")), "{one:?}");
    // The length of the warm-up does not matter.
    assert_eq!(offsets("--rw randrw --seed 7 --warmup 50ms", COUNT), one);
    assert_ne!(offsets("--rw randrw --seed 8 --warmup 0", COUNT), one);
    Ok(())
}
