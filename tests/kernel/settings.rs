//! Host settings are actually changed, and restored after each cell, at the end, and by `iotrail restore` after
//! SIGKILL.
//!
//! The settings are the scheduler and `nr_requests` of the build's disk, the affinity of a movable interrupt (a network
//! queue's, if available), and a CPU quota. This binary runs itself as the process that is killed.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use iotrail_host::{block, irq};
use iotrail_schema::measurement::{Target, TargetInterrupt};
use iotrail_settings::{Conditions, Settings};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::trial;

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");
/// Set for the process to be killed; its value is ignored.
const DRIVER: &str = "IOTRAIL_TEST_SETTINGS";
const ROUNDS: u32 = 30;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("a_setting_takes_effect_and_is_restored", set_and_put_back),
        ("a_quota_limits_this_process_and_is_removed", quota),
        ("all_settings_are_restored_after_a_kill_at_any_moment", killed),
        ("only_one_run_at_a_time_may_change_settings", one_at_a_time),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("settings::{name}"), test)).collect()
}

pub fn is_driver() -> bool {
    std::env::var_os(DRIVER).is_some()
}

/// Repeatedly changes and restores settings until it is killed.
pub fn drive() -> ! {
    // A shell starts background jobs with SIGINT ignored, which children inherit.
    // SAFETY: this sets no handler.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    let target = target();
    let mut settings = Settings::open().expect("the tests have a state folder of their own");
    loop {
        for cell in cells(&target) {
            settings.set(&cell, Some(&target)).expect("what was set before can be set again");
            if cell.cpu_quota.is_some() {
                // A process that outlives this one in its cgroup. It exits by itself.
                let child = Command::new("sleep").arg("3").stdout(Stdio::null()).spawn().expect("sleep starts");
                std::thread::spawn(move || { child }.wait());
            }
        }
        assert_eq!(settings.restore().expect("the journal can be written"), [""; 0]);
        drop(settings);
        settings = Settings::open().expect("nothing is left");
    }
}

fn conditions(toml: &str) -> Conditions {
    toml::from_str(toml).expect("conditions")
}

/// Consecutive cells differ in all settings or in one.
fn cells(target: &Target) -> Vec<Conditions> {
    let [one, other] = two_schedulers(target);
    let quiet = "cpu-quota = 0.5";
    [
        format!("scheduler = '{one}'\nnr-requests = 64\nirq-affinity = 0"),
        format!("scheduler = '{one}'\nnr-requests = 32\nirq-affinity = 0"),
        format!("scheduler = '{other}'\nirq-affinity = '0-1'\n{quiet}"),
        "nr-requests = 16\ncpu-quota = 0.25".into(),
        String::new(),
        quiet.into(),
    ]
    .iter()
    .map(|toml| conditions(toml))
    .collect()
}

/// The disk that the build is on, with an interrupt that can be moved.
fn target() -> Target {
    let target = block::target(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("the build's folder");
    let rows = irq::snapshot().expect("/proc/interrupts").rows;
    let movable = |row: &irq::Row| irq::affinity(row.irq()?).movable.filter(|m| *m).map(|_| row.name.clone());
    let mut found: Vec<(u32, String)> = rows.iter().filter_map(|r| Some((r.irq()?, movable(r)?))).collect();
    // Queues of a network card come last alphabetically.
    found.sort_by_key(|(_, name)| ["rx", "tx", "input", "output"].iter().any(|n| name.contains(n)));
    let (irq, name) = found.pop().expect("an interrupt that can be moved");
    Target { interrupts: vec![TargetInterrupt { irq, name, cpus: vec![] }], ..target }
}

fn queue(target: &Target) -> PathBuf {
    let device = target.device.as_deref().expect("the build is on a disk");
    Path::new("/sys/block").join(device.split('+').next().expect("one at least")).join("queue")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).trim().to_owned()
}

fn two_schedulers(target: &Target) -> [String; 2] {
    let text = read(&queue(target).join("scheduler"));
    let mut names = text.split_whitespace().map(|w| w.trim_matches(['[', ']']).to_owned());
    [names.next().expect("a scheduler"), names.next().expect("a second scheduler")]
}

/// All settings that the cells change, directly or as a side effect.
fn values(target: &Target) -> BTreeMap<PathBuf, String> {
    let queue = queue(target);
    let own = ["scheduler", "nr_requests", "wbt_lat_usec", "read_ahead_kb"].map(|n| queue.join(n));
    let parameters = std::fs::read_dir(queue.join("iosched")).into_iter().flatten().flatten().map(|e| e.path());
    let irqs = target.interrupts.iter().map(|i| format!("/proc/irq/{}/smp_affinity_list", i.irq).into());
    let there = own.into_iter().filter(|p| p.exists());
    let mut values: BTreeMap<PathBuf, String> =
        there.chain(parameters).chain(irqs).map(|p| (p.clone(), read(&p))).collect();
    values.insert("cgroups".into(), format!("{:?}", cgroups()));
    values
}

/// All cgroups named `iotrail-*`.
fn cgroups() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with("iotrail-") {
                    found.push(entry.path());
                }
                folders.push(entry.path());
            }
        }
    }
    found
}

/// Values that no kernel chooses by itself, so that values changed together with the scheduler have to be restored; the
/// original values are set at the end.
struct Unusual(Vec<(PathBuf, String)>);

impl Unusual {
    fn set(target: &Target) -> Self {
        let queue = queue(target);
        let mut old = Vec::new();
        for (name, value) in [("nr_requests", "200"), ("iosched/fifo_batch", "11")] {
            let path = queue.join(name);
            if path.exists() {
                old.push((path.clone(), read(&path)));
                std::fs::write(&path, value).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            }
        }
        Self(old)
    }
}

impl Drop for Unusual {
    fn drop(&mut self) {
        for (path, value) in &self.0 {
            std::fs::write(path, value).unwrap_or_else(|e| eprintln!("{}: {e}", path.display()));
        }
    }
}

/// A separate state directory. However a test ends, the changes in its journal are restored.
struct State(tempfile::TempDir);

impl State {
    fn new() -> Self {
        Self(
            tempfile::Builder::new()
                .prefix("state-")
                .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
                .expect("a folder of our own"),
        )
    }

    fn journal(&self) -> PathBuf {
        self.0.path().join("iotrail/settings.journal")
    }

    /// The tool's exit status, JSON and standard error.
    fn tool(&self, args: &[&str]) -> (i32, Value, String) {
        let out = self.command(TOOL.as_ref()).args(args).output().expect("the built binary starts");
        let json = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
        (out.status.code().expect("it exits"), json, String::from_utf8_lossy(&out.stderr).into_owned())
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("XDG_STATE_HOME", self.0.path());
        command
    }

    /// Runs this binary as the process that changes settings.
    fn driver(&self) -> Driver {
        let this = std::env::current_exe().expect("this binary");
        Driver(self.command(&this).env(DRIVER, "1").stdout(Stdio::null()).spawn().expect("it starts"))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.journal().exists() {
            self.tool(&["restore", "--force"]);
        }
    }
}

struct Driver(Child);

impl Driver {
    fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends the signal, and returns the signal that killed the process.
    fn end(&mut self, signal: libc::c_int) -> Option<i32> {
        // SAFETY: an unreaped child.
        unsafe { libc::kill(self.id() as libc::pid_t, signal) };
        self.0.wait().expect("our own child").signal()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.end(libc::SIGKILL);
        }
    }
}

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < Duration::from_secs(120), "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn set_and_put_back() -> Result<(), Failed> {
    let (state, target) = (State::new(), target());
    let _unusual = Unusual::set(&target);
    let before = values(&target);
    for cell in cells(&target) {
        let refused = cell.refusal(Some(&target));
        assert!(refused.is_none(), "{cell:?}: {}", refused.expect("just seen"));
    }
    let mut child = state.driver();
    let file = queue(&target).join("nr_requests");
    for wanted in ["64", "32", "16", "200"] {
        wait_until(&format!("nr_requests of {wanted}"), || read(&file) == wanted);
    }
    // SIGINT without a handler must leave the same state as SIGKILL.
    assert_eq!(child.end(libc::SIGINT), Some(libc::SIGINT));
    let (status, json, stderr) = state.tool(&["restore", "--json"]);
    assert_eq!(status, 0, "{json:#} {stderr}");
    assert_eq!(values(&target), before);
    Ok(())
}

fn quota() -> Result<(), Failed> {
    let (state, target) = (State::new(), target());
    let before = cgroups();
    let mut child = state.driver();
    let own = |id: u32| {
        let mut lines = std::fs::read_to_string(format!("/proc/{id}/cgroup")).unwrap_or_default();
        lines.retain(|c| c != '\n');
        lines
    };
    let id = child.id();
    wait_until("a cgroup of the driver's own", || own(id).contains("iotrail-"));
    wait_until("its end", || !own(id).contains("iotrail-"));
    wait_until("another", || own(id).contains("iotrail-"));
    child.end(libc::SIGKILL);
    let (status, json, _) = state.tool(&["restore", "--json"]);
    assert_eq!((status, cgroups()), (0, before), "{json:#}");
    assert!(values(&target).len() > 3);
    Ok(())
}

/// Sends SIGKILL at times spread evenly over several rounds of the driver; afterwards, the original values are restored
/// each time.
fn killed() -> Result<(), Failed> {
    let (state, target) = (State::new(), target());
    let _unusual = Unusual::set(&target);
    let before = values(&target);
    let (mut told, mut put_back, mut round) = (0, 0, 0);
    // A slow machine has not started by then, so it gets more time until enough kills have left settings changed.
    let mut longest = Duration::from_millis(200);
    while round < ROUNDS || told <= ROUNDS / 2 && round < 10 * ROUNDS {
        round += 1;
        let mut child = state.driver();
        // In an order without a pattern.
        std::thread::sleep(longest * (round * 7919 % 1000) / 1000);
        child.end(libc::SIGKILL);
        let changed = values(&target) != before;
        let (status, _, stderr) = state.tool(&["list", "--json"]);
        assert_eq!(status, 0);
        let says = format!(
            "settings changed by a killed run (process {}) are still in place: run iotrail restore",
            child.id()
        );
        assert!(stderr.contains(&says) || !changed, "round {round}: changed, and said is: {stderr:?}");
        told += u32::from(stderr.contains(&says));
        if told * 2 < round {
            longest = (longest * 5 / 4).min(Duration::from_secs(10));
        }
        let (status, json, stderr) = state.tool(&["restore", "--json"]);
        assert_eq!((status, stderr.as_str()), (0, ""), "round {round}: {json:#}");
        assert_eq!(json["schema"], "iotrail.restore/1");
        put_back += json["settings"].as_array().map_or(0, |s| s.iter().filter(|s| s["outcome"] == "put_back").count());
        assert_eq!(values(&target), before, "round {round}: {json:#}");
        let (status, json, _) = state.tool(&["restore", "--json"]);
        assert_eq!((status, &json["tgid"]), (0, &Value::Null), "nothing is left: {json:#}");
    }
    eprintln!("{round} kills: {told} left something, {put_back} values were put back");
    assert!(told > ROUNDS / 2 && put_back > told as usize, "{told} of {round} kills left something, {put_back} values");
    Ok(())
}

fn one_at_a_time() -> Result<(), Failed> {
    let state = State::new();
    let mut child = state.driver();
    wait_until("the journal", || state.journal().exists());
    let (status, _, stderr) = state.tool(&["list", "--json"]);
    assert_eq!((status, stderr.as_str()), (0, ""), "a run that goes on is no killed one");
    // The lock is free between two rounds, so only some attempts find it taken.
    wait_until("a refusal", || {
        let (status, _, stderr) = state.tool(&["restore"]);
        status == 3
            && stderr.contains(&format!("another iotrail process (process {}) has changed host settings", child.id()))
    });
    child.end(libc::SIGKILL);
    assert_eq!(state.tool(&["restore"]).0, 0);
    Ok(())
}
