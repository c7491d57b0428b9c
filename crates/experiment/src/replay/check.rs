//! The self-check: an unchanged replay that is recorded like the program was. Both recordings include the cost of
//! recording, so their difference is the replay's error.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{ReplayOptions, SPEEDS, name};
use iotrail_base::error::{Error, Result};
use iotrail_base::ourselves;
use iotrail_replay::compile::Compiler;
use iotrail_replay::files::Files;
use iotrail_replay::observed::Observed;
use iotrail_schema::replay_log::ReplayEvent;
use iotrail_watch::replay_recording::ReplayReader;
use rustix::process::Signal;

/// The recorded replays of the self-check.
#[derive(Default)]
pub(super) struct Checks {
    pub observed: Vec<Observed>,
    /// Why there are none.
    pub failed: Option<String>,
}

/// A command that replays the unchanged recording once on these files.
pub(super) struct Check {
    arguments: Vec<String>,
    targets: Vec<PathBuf>,
    /// The recording of this replay; removed at the end.
    file: tempfile::TempPath,
}

impl Check {
    pub fn new(recording: &Path, files: &Files, options: &ReplayOptions, folder: &Path) -> Result<Self> {
        let no_file = |e| Error::machine("cannot create a file for the self-check", "free space there").because(e);
        let file = tempfile::Builder::new().prefix("replay-").tempfile_in(folder).map_err(no_file)?.into_temp_path();
        let mut arguments: Vec<String> = ["replay", "--once"].map(String::from).to_vec();
        let mut targets = Vec::new();
        for (old, new) in files.targets() {
            if old != new {
                arguments.extend(["--map".into(), format!("{}={}", old.display(), new.display())]);
            }
            targets.push(std::fs::canonicalize(new).unwrap_or_else(|_| new.clone()));
        }
        let speed = options.speed.map(|speed| name(&SPEEDS, speed));
        arguments.extend(speed.into_iter().flat_map(|speed| ["--speed".into(), speed.into()]));
        // The mapped files are copies of this process, or files that the user allows to be overwritten.
        arguments.extend(["--allow-write".into(), "--requests".into(), options.requests.to_string()]);
        arguments.extend(["--".into(), recording.display().to_string()]);
        Ok(Self { arguments, targets, file })
    }

    /// Records one replay. Fails like `trace`.
    pub fn run(&self, files: &Files, stop: &AtomicBool) -> Result<Observed> {
        files.reset()?;
        let mut command = ourselves::command(Signal::TERM, || Ok(()));
        command.args([ourselves::OPTION, "trace", "--for-replay", "--no-store", "--force", "--record"]);
        command.arg(&*self.file).args(["--", "/proc/self/exe"]).args(&self.arguments);
        let said = Arc::new(Mutex::new(String::new()));
        let first = Arc::clone(&said);
        // The replay's own error precedes the lines of `trace`.
        let line = move |text: &str| {
            let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = text.strip_prefix("iotrail: ").filter(|_| first.is_empty()) {
                error.clone_into(&mut first);
            }
        };
        let (status, error) =
            ourselves::run(command, line, &mut || stop.load(Ordering::Relaxed).then_some(Signal::TERM))?;
        if let Some(e) = error {
            return Err(e);
        }
        if !status.success() {
            let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
            return Err(Error::machine(
                format!("the recorded replay failed: {said}"),
                "fix this, or use --trace off, which omits the self-check",
            ));
        }
        let mut compiler = Compiler::new(u64::MAX);
        for event in ReplayReader::open(&self.file)? {
            let mut event = event?;
            if let ReplayEvent::File(file) = &mut event {
                // Files that the replay itself uses, such as the recording, are not part of the load.
                file.replayable &= self.targets.iter().any(|target| target.as_os_str() == file.path.as_str());
            }
            let _ = compiler.take(&event);
        }
        Ok(compiler.finish()?.observed)
    }
}
