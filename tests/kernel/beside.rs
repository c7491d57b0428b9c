//! Activity next to a test: an iotrail load that runs until it is stopped or the test ends, and waits for a condition.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use iotrail_schema::measurement::Measurement;
use libtest_mimic::Failed;

/// Polls the condition every few milliseconds until it is true.
#[track_caller]
pub fn within_a_minute(what: &str, happened: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Killed on drop.
pub struct Beside(Option<Child>);

impl Beside {
    /// Starts `bench` on a file without probes; returns once its load has started.
    pub fn bench(file: &Path, options: &str) -> Result<Self, Failed> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotrail"));
        command.args(["bench", "--json", "--trace", "off", "--warmup", "0", "--runtime", "1h"]);
        command.args(options.split_whitespace()).arg("--file").arg(file).stdout(Stdio::piped());
        let beside = Self(Some(command.spawn()?));
        let began = Instant::now();
        while !beside.is_at_work() {
            if began.elapsed() > Duration::from_secs(120) {
                return Err("the load beside does not begin".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(beside)
    }

    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("it was not waited for").id()
    }

    /// Whether one of the load's threads has used more CPU time than setup needs.
    fn is_at_work(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id())).into_iter().flatten().flatten();
        tasks.into_iter().any(|task| {
            let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let ran_ns = read("schedstat").split(' ').next().and_then(|n| n.parse::<u64>().ok());
            read("comm").starts_with("load-") && ran_ns.is_some_and(|n| n > 20_000_000)
        })
    }

    /// Stops the load with SIGINT; returns its measurement so far.
    pub fn stop(mut self) -> Result<Measurement, Failed> {
        let child = self.0.take().expect("it was not waited for");
        // SAFETY: a signal to an unreaped child; the call does not access memory.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
        let ended = child.wait_with_output()?;
        assert_eq!(ended.status.code(), Some(1), "the load beside was interrupted: {}", ended.status);
        Ok(serde_json::from_slice(&ended.stdout)?)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let ended = child.kill().and_then(|()| child.wait());
            assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
        }
    }
}
