//! Options of commands that sample the CPUs, and the files written from the samples.

use std::path::PathBuf;

use clap::Args;

use super::one_of;
use iotrail_base::error::{OrFail, Result};
use iotrail_base::output::{self, Existing, Reserved};
use iotrail_path::sample::Sample;
use iotrail_probe::profile::{DEFAULT_HZ, MAX_HZ};
use iotrail_probe::sampling::{Clock, Sampling};
use iotrail_report::export::flamegraph;
use iotrail_report::export::folded::{self, Under};
use iotrail_schema::measurement::CpuSamples;

#[derive(Debug, Clone, Args)]
pub struct ProfileArgs {
    /// Sample the CPUs to show how much time goes to copying, the block layer, task work …
    #[arg(long)]
    profile: bool,

    /// Take N samples per second per CPU
    #[arg(long, value_name = "HZ", default_value_t = DEFAULT_HZ, requires = "profile",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_HZ)))]
    profile_hz: u32,

    /// Sample by time (includes idle time, misses code that runs with interrupts disabled) or by the hardware cycle counter (includes such
    /// code, but not idle time)
    #[arg(long, value_parser = one_of(&[("time", Clock::Time), ("cycles", Clock::Cycles)]), default_value = "time", requires = "profile")]
    profile_by: Clock,

    /// Draw the sampled kernel stacks as a flame graph (SVG)
    #[arg(long, value_name = "FILE", requires = "profile")]
    flamegraph: Option<PathBuf>,

    /// Write the sampled kernel stacks as folded stacks
    #[arg(long, value_name = "FILE", requires = "profile")]
    folded: Option<PathBuf>,

    /// Include these stacks in --flamegraph and --folded: all, or only those in task work
    #[arg(long, value_parser = one_of(&[("all", Under::All), ("task-work", Under::TaskWork)]), default_value = "all", requires = "profile")]
    stacks: Under,
}

impl ProfileArgs {
    /// `None` if samples are not requested.
    pub fn sampling(&self) -> Option<Sampling> {
        self.profile.then_some(Sampling { clock: self.profile_by, hz: self.profile_hz })
    }

    /// The requested files; checks that they are writable before the measurement.
    pub fn files(&self, existing: Existing) -> Result<Files> {
        let reserve = |path: &Option<PathBuf>, option| {
            path.as_deref().map(|path| Reserved::new(path, existing, option)?.apart()).transpose()
        };
        Ok(Files {
            flamegraph: reserve(&self.flamegraph, "--flamegraph")?,
            folded: reserve(&self.folded, "--folded")?,
            stacks: self.stacks,
        })
    }
}

/// The files for samples.
pub struct Files {
    flamegraph: Option<Reserved>,
    folded: Option<Reserved>,
    stacks: Under,
}

impl Files {
    /// Writes the files.
    pub fn write(self, samples: &[Sample], how: &CpuSamples) -> Result<()> {
        let of = match self.stacks {
            Under::All => "CPU samples",
            Under::TaskWork => "CPU samples under task work",
        };
        if self.folded.is_none() && self.flamegraph.is_none() {
            return Ok(());
        }
        let lines = folded::lines(samples, self.stacks);
        if let Some(file) = self.folded {
            let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
            output::write(file, text.as_bytes())?;
        }
        if let Some(file) = self.flamegraph {
            let subtitle = format!("kernel stacks by thread, {} samples per second per CPU, {} lost", how.hz, how.lost);
            let svg = flamegraph::svg(&lines, of, &subtitle).or_machine(
                format_args!("cannot draw {}", file.path().display()),
                "measure longer, or specify other --stacks",
            )?;
            output::write(file, &svg)?;
        }
        Ok(())
    }
}
