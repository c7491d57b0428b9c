//! A run that changes host settings is killed repeatedly: no measurement is lost, all settings are restored, and the
//! run completes.

use std::collections::BTreeMap;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use iotrail_host::block;
use iotrail_store::Store;
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::bench::file;
use crate::trial;

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");
const KILLS: u32 = 20;
/// Minimum number of kills that must leave a setting changed.
const LEFT: u32 = 3;
/// Maximum number of the 36 measurements made before each kill.
const EACH: usize = 3;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("run::a_run_killed_at_any_moment_is_resumed_without_loss", killed),
        trial::test("run::host_settings_are_restored_when_the_terminal_closes", lost_terminal),
    ]
}

/// The disk's interrupts, the CPUs and the flag as in `irq-placement`, plus all changeable settings of the disk.
const EXPERIMENT: &str = r#"
name = "killed"
title = "t"
question = "q"
expect = "e"
repeats = 3
[load]
bs = "512"
runtime = "60ms"
warmup = "10ms"
[matrix]
nr-requests = [32, 64]
cpus = ["irq", "non-irq"]
[[arm]]
name = "default"
[[arm]]
name = "coop"
ring = "coop_taskrun"
"#;

struct Place {
    folder: tempfile::TempDir,
    queue: PathBuf,
}

impl Place {
    fn tool(&self, args: &[&str]) -> Command {
        let mut command = Command::new(TOOL);
        command.args(args).env("XDG_STATE_HOME", self.folder.path()).current_dir(self.folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the run, or resumes it after a kill, even if no measurement has been stored.
    fn run(&self) -> Command {
        let resume = self.store().is_some_and(|s| s.last_unfinished("killed").expect("its runs").is_some());
        let file = file().to_str().expect("a plain name");
        let mut args = vec!["run", "e.toml", "--store", "s.db", "--seed", "1", "--file", file, "--json"];
        if resume {
            args.retain(|a| *a != "--seed" && *a != "1");
            args.push("--resume");
        }
        self.tool(&args)
    }

    fn store(&self) -> Option<Store> {
        Store::open(&self.folder.path().join("s.db")).expect("a store that can be read")
    }

    /// Pairs of cell and repeat of the stored measurements; empty if the store does not exist yet.
    fn done(&self) -> Vec<(u32, u32)> {
        let mut done: Vec<_> = self.store().iter().flat_map(|s| s.done(1).expect("its measurements")).collect();
        done.sort_unstable();
        done
    }

    /// Number of stored measurements, not guaranteed: a store cannot be read while it is being created.
    fn stored(&self) -> usize {
        let store = Store::open(&self.folder.path().join("s.db")).ok().flatten();
        store.and_then(|s| s.done(1).ok()).map_or(0, |done| done.len())
    }

    fn settings(&self) -> BTreeMap<&'static str, String> {
        let read = |name: &str| std::fs::read_to_string(self.queue.join(name)).unwrap_or_default();
        ["scheduler", "nr_requests", "wbt_lat_usec"].into_iter().map(|name| (name, read(name))).collect()
    }
}

fn place() -> Result<Place, Failed> {
    let disk = block::target(file())?.device.ok_or("the file is on a disk")?;
    let disk = disk.split('+').next().unwrap_or_default().to_owned();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    std::fs::write(folder.path().join("e.toml"), EXPERIMENT)?;
    Ok(Place { folder, queue: Path::new("/sys/block").join(disk).join("queue") })
}

/// Both the kernel and the shell send SIGHUP.
fn lost_terminal() -> Result<(), Failed> {
    let place = place()?;
    let before = place.settings();
    let mut run = place.run();
    // The tests may be running under nohup(1).
    // SAFETY: a single system call.
    unsafe {
        run.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            Ok(())
        })
    };
    let mut child = run.spawn()?;
    while place.settings() == before && child.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..2 {
        // SAFETY: a child that has not been reaped.
        unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGHUP) };
    }
    let ended = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status.code(), place.settings()), (Some(1), before), "{said}");
    Ok(())
}

fn killed() -> Result<(), Failed> {
    let place = place()?;
    let before = place.settings();
    let mut random = u64::from(std::process::id()) | 1;
    let (mut killed, mut left, mut rounds) = (0, 0, 0);
    // A slow machine has stored nothing by then, so it gets more time.
    let mut longest = Duration::from_secs(1);
    while rounds < KILLS || left < LEFT && rounds < 5 * KILLS {
        rounds += 1;
        let before_it = place.done().len();
        let mut child: Child = place.run().spawn()?;
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let until = Instant::now() + longest * (50 + (random % 950) as u32) / 1000;
        // A fast machine would store too many measurements for the remaining kills.
        while Instant::now() < until && place.stored() < before_it + EACH && child.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Measurements stored by now are permanent.
        let stored = place.done();
        if stored.len() == before_it {
            longest = (longest * 5 / 4).min(Duration::from_secs(20));
        }
        child.kill()?;
        let ended = child.wait_with_output()?;
        killed += u32::from(ended.status.signal() == Some(libc::SIGKILL));
        let now = place.done();
        assert!(stored.iter().all(|slot| now.contains(slot)), "{stored:?} were stored, and {now:?} are");
        let said = place.tool(&["list", "--store", "s.db"]).output()?;
        let notice = String::from_utf8_lossy(&said.stderr).contains("iotrail restore");
        assert!(notice || place.settings() == before, "{:?} is not said", place.settings());
        left += u32::from(place.settings() != before);
        let restored = place.tool(&["restore"]).output()?;
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        assert_eq!(place.settings(), before);
        if ended.status.success() {
            break;
        }
    }
    // Fewer kills would prove little.
    assert!(killed >= 5 && left >= LEFT, "{killed} were killed, {left} of them left something");
    let end: Output = place.run().output()?;
    assert!(end.status.success() || place.done().len() == 36, "{}", String::from_utf8_lossy(&end.stderr));
    assert_eq!(place.done().len(), 36, "4 places, 3 arms with the control, 3 blocks");
    if end.status.success() {
        let run: Value = serde_json::from_slice(&end.stdout)?;
        assert!(run["finished_unix_s"].is_u64());
    }
    assert_eq!(place.settings(), before);
    Ok(())
}
