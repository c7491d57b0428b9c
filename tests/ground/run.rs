//! A run of one scenario: its options, its file, its start, its report.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::Args;
use crate::cores::{self, Cores};
use crate::load::Target;
use crate::report::Report;
use crate::ring::Ring;

pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub finding: Option<&'static str>,
    pub allowed: &'static [&'static str],
    pub count: u32,
    pub run: fn(&mut Run) -> Result<()>,
}

/// This kernel or machine cannot produce the scenario.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

pub struct Run {
    pub count: u32,
    pub report: Report,
    args: Args,
    folder: Option<tempfile::TempDir>,
    started: Option<Instant>,
}

const FILE_BYTES: usize = 64 << 20;

impl Run {
    pub fn new(scenario: &Scenario, args: Args) -> Run {
        let report = Report {
            scenario: scenario.name,
            tgid: std::process::id(),
            finding: scenario.finding,
            allowed: scenario.allowed,
            ..Default::default()
        };
        Run { count: args.count.unwrap_or(scenario.count), report, args, folder: None, started: None }
    }

    pub fn perform(mut self, scenario: &Scenario) -> Result<Report> {
        if let Err(error) = (scenario.run)(&mut self) {
            let Unsupported(reason) = error.downcast::<Unsupported>()?;
            self.report.unsupported = Some(reason);
            self.report.finding = None;
        }
        if let Some(started) = self.started {
            self.report.elapsed_ms = started.elapsed().as_millis() as u64;
        }
        self.report.expected.completions = self.report.completions();
        Ok(self.report)
    }

    /// Called once the rings exist: waits for a tracer if there should be one, and starts the clock.
    pub fn start(&mut self) -> Result<()> {
        if self.args.start_on_stdin {
            eprintln!("ready");
            std::io::stdin().lock().read_line(&mut String::new()).context("waiting for a line on standard input")?;
        }
        self.pause();
        // SAFETY: alarm only sets a timer, so that a scenario that hangs ends with SIGALRM.
        unsafe { libc::alarm(120 + self.count / 1000) };
        self.started = Some(Instant::now());
        Ok(())
    }

    pub fn pause(&self) {
        if self.args.pause_ms > 0 {
            std::thread::sleep(Duration::from_millis(self.args.pause_ms));
        }
    }

    /// Adds the counts of a finished ring to the report.
    pub fn finish(&mut self, ring: Ring) {
        self.pause();
        self.report.rings.push(ring.report());
    }

    pub fn fact(&mut self, name: &'static str, value: u64) {
        self.report.facts.insert(name, value);
    }

    /// A directory on a disk, removed at the end.
    pub fn folder(&mut self) -> Result<PathBuf> {
        if self.folder.is_none() {
            self.folder = Some(tempfile::Builder::new().prefix("ground-").tempdir().context("a temporary folder")?);
        }
        Ok(self.folder.as_ref().expect("made above").path().to_path_buf())
    }

    fn path(&mut self) -> Result<PathBuf> {
        if let Some(path) = &self.args.file {
            return Ok(path.clone());
        }
        let path = self.folder()?.join("data");
        if !path.exists() {
            let mut file = File::create(&path)?;
            for block in 0..FILE_BYTES >> 20 {
                file.write_all(&vec![block as u8 + 1; 1 << 20]).context("writing the file to read from")?;
            }
            file.sync_all()?;
        }
        Ok(path)
    }

    /// A file for direct reads.
    pub fn direct(&mut self) -> Result<Target> {
        let path = self.path()?;
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
        let file = file.map_err(|e| Unsupported(format!("{} cannot be opened with O_DIRECT: {e}", path.display())))?;
        Target::new(file)
    }

    /// A file for buffered reads, in the page cache.
    pub fn cached(&mut self) -> Result<Target> {
        let path = self.path()?;
        let target = Target::new(File::open(&path).with_context(|| path.display().to_string())?)?;
        target.fill_cache()?;
        Ok(target)
    }

    /// A file for buffered reads that is not in the page cache and is read without read-ahead: the first read of each
    /// block is one device read.
    pub fn cold(&mut self) -> Result<Target> {
        let path = self.path()?;
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        file.sync_all()?;
        for advice in [libc::POSIX_FADV_DONTNEED, libc::POSIX_FADV_RANDOM] {
            // SAFETY: a live descriptor; no memory is involved.
            let error = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) };
            ensure!(error == 0, "posix_fadvise: {}", std::io::Error::from_raw_os_error(error));
        }
        Target::new(file)
    }

    /// Finds the CPUs that handle direct reads' interrupts.
    pub fn cores(&mut self, target: &mut Target) -> Result<Cores> {
        let cores = cores::find(target)?;
        self.report.irq_cpu = cores.with;
        Ok(cores)
    }

    /// Pins to a CPU that handles its own reads' interrupts.
    pub fn pin_with_interrupt(&mut self, target: &mut Target) -> Result<()> {
        let found = self.cores(target)?.with;
        self.pin(found.ok_or_else(|| Unsupported("no CPU takes the interrupts of its own reads".into()))?)
    }

    /// Pins to a CPU whose reads interrupt another CPU.
    pub fn pin_without_interrupt(&mut self, target: &mut Target) -> Result<()> {
        let found = self.cores(target)?.without;
        self.pin(found.ok_or_else(|| Unsupported("each CPU takes the interrupts of its own reads".into()))?)
    }

    /// The CPU specified by the caller.
    pub fn cpu(&self) -> Option<usize> {
        self.args.cpu
    }

    pub fn pin(&mut self, cpu: usize) -> Result<()> {
        let cpu = self.args.cpu.unwrap_or(cpu);
        self.report.cpu = Some(cpu);
        cores::pin(cpu)
    }

    /// Pins to the caller's CPU, if specified.
    pub fn pin_if_asked(&mut self) -> Result<()> {
        self.args.cpu.map_or(Ok(()), |cpu| self.pin(cpu))
    }
}

/// A path as a C string.
pub fn c_path(path: &Path) -> std::ffi::CString {
    std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("a path has no NUL")
}
