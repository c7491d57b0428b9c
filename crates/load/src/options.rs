//! The load's options as specified: on `bench`'s command line and in an experiment's TOML, with the same names.
//!
//! The same struct serves both. It contains the request; `spec` turns it into the validated
//! [`LoadSpec`](super::spec::LoadSpec) once. No later code parses options or chooses defaults.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::engine::capabilities::TargetKind;
pub use crate::engine::registry::EngineKind;
use iotrail_base::units::{Bytes, Span};

/// Access pattern and direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Rw {
    RandRead,
    Read,
    RandWrite,
    Write,
    /// Sequential writes that extend the file, as for a write-ahead log.
    Append,
    RandRw,
    /// io_uring's no-op.
    Nop,
}

impl Rw {
    pub fn writes(self) -> bool {
        self.only_writes() || self == Rw::RandRw
    }

    pub fn only_writes(self) -> bool {
        matches!(self, Rw::Write | Rw::RandWrite | Rw::Append)
    }

    /// Whether each job has blocks of its own, in sequential order.
    pub fn is_sequential(self) -> bool {
        matches!(self, Rw::Read | Rw::Write | Rw::Append)
    }
}

/// The method that makes writes durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Commit {
    #[default]
    None,
    /// fsync(2) or IORING_OP_FSYNC after each batch of writes.
    Fsync,
    /// fdatasync(2), or IORING_OP_FSYNC with IORING_FSYNC_DATASYNC, after each batch of writes.
    Fdatasync,
    /// RWF_DSYNC on each write.
    Dsync,
    /// IORING_OP_FSYNC with IORING_FSYNC_DATASYNC, linked to each write.
    Linked,
}

impl Commit {
    /// Whether one sync makes a batch of writes durable.
    pub fn is_of_batch(self) -> bool {
        matches!(self, Commit::Fsync | Commit::Fdatasync)
    }
}

/// How a job waits for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Wait {
    /// In the kernel.
    Block,
    /// By polling the ring from user space; no system calls except those that the ring flags require.
    Peek,
}

/// Bookkeeping memory that the load touches as it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Scratch {
    None,
    Lazy,
    Prefault,
}

/// Whether the probes watch the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Trace {
    /// Load them if possible, otherwise print a warning.
    Auto,
    /// Fail if they cannot be loaded.
    On,
    Off,
}

/// Prints a value by its command-line name.
#[macro_export]
macro_rules! names {
    ($t:ty) => {
        impl std::fmt::Display for $t {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                // Every variant has a name, because none is skipped.
                f.pad(clap::ValueEnum::to_possible_value(self).expect("a named variant").get_name())
            }
        }
    };
}
names!(EngineKind);
names!(Rw);
names!(Commit);
names!(Wait);
names!(Scratch);
names!(Trace);

/// The requested load. Defaults are the contract's.
#[derive(Debug, Clone, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadOptions {
    /// I/O interface
    #[arg(long, value_enum, default_value_t = EngineKind::IoUring)]
    pub engine: EngineKind,

    /// Set exactly these ring setup flags: coop_taskrun, taskrun_flag, defer_taskrun, single_issuer, sqpoll, iopoll,
    /// hybrid_iopoll, submit_all, no_sqarray, cqsize=N
    #[arg(long, value_name = "FLAGS", default_value = "", hide_default_value = true)]
    pub ring: String,

    /// Bind the SQPOLL thread to this CPU
    #[arg(long, value_name = "CPU")]
    pub sq_cpu: Option<u32>,

    /// Let the SQPOLL thread sleep after this many milliseconds without work
    #[arg(long, value_name = "MS")]
    pub sq_idle: Option<u32>,

    /// Register these with the ring: files, buffers, ring, wait (wait arguments, Linux 6.13)
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub register: String,

    /// Send every request to an io-wq worker (IOSQE_ASYNC)
    #[arg(long)]
    pub force_async: bool,

    /// Access pattern
    #[arg(long, value_enum, default_value_t = Rw::RandRead)]
    pub rw: Rw,

    /// Make writes durable: fsync or fdatasync after each batch, RWF_DSYNC on each write, or a linked fsync (io_uring)
    #[arg(long, value_enum, default_value_t = Commit::None)]
    pub commit: Commit,

    /// Block size
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    pub bs: Bytes,

    /// I/Os in flight per job
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub depth: u32,

    /// I/Os per submission
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub batch: u32,

    /// Number of threads, each with its own ring or context
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub jobs: u32,

    /// Pin the jobs to CPUs, round-robin: a list (0,2-3), irq (CPUs that take the target's interrupts) or non-irq
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,

    /// Wait for completions in the kernel (block), or poll the ring from user space (peek)
    #[arg(long, value_enum, default_value_t = Wait::Block)]
    pub wait: Wait,

    /// Wait this long for a full batch of completions, then for at least one (min_wait_usec, Linux 6.12)
    #[arg(long, value_name = "TIME")]
    pub min_wait: Option<Span>,

    /// Do not count waits for completions as iowait (IORING_ENTER_NO_IOWAIT, Linux 6.15)
    #[arg(long)]
    pub no_iowait: bool,

    /// Reap on the submitting thread (same) or another one (thread, thread:CPU, thread:irq, thread:non-irq)
    #[arg(long, value_name = "WHO", default_value = "same")]
    pub reaper: String,

    /// Compute for this many nanoseconds in user space between reaping and submitting
    #[arg(long, value_name = "NS", default_value_t = 0)]
    pub think: u64,

    /// Touch a new memory page every 512 I/Os, faulted in lazily or in advance
    #[arg(long, value_enum, default_value_t = Scratch::None)]
    pub scratch: Scratch,

    /// Run CPU-bound processes alongside the load: none, or busy:N for N on each of its CPUs
    #[arg(long, value_name = "WHAT", default_value = "none")]
    pub neighbour: String,

    /// Target: a file or block device; for io_uring_cmd, an NVMe generic device (/dev/ng0n1); for nvme_user, the drive's PCI address
    /// (0000:00:04.0, followed by /N for namespace N)
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,

    /// Use this much of the target; if the file is missing, create and lay it out with this size
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,

    /// Use O_DIRECT (the default)
    #[arg(long, conflicts_with = "buffered")]
    pub direct: bool,

    /// Use the page cache
    #[arg(long)]
    pub buffered: bool,

    /// Measure for this time (default 5s)
    #[arg(long, value_name = "TIME", conflicts_with = "count")]
    pub runtime: Option<Span>,

    /// Measure this many I/Os across all jobs
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,

    /// Run the load for this time before measuring
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub warmup: Span,

    /// Submit at this rate (I/Os per second across all jobs, open loop); latency counts from the intended submission time
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,

    /// Write an offset and a checksum into each block, and verify them on reads
    #[arg(long)]
    pub verify: bool,

    /// Seed the offsets and the read/write mix; the same seed gives the same I/Os in the same order (default: random; printed and stored)
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,

    /// Allow writing to an existing file or device
    #[arg(long)]
    pub allow_write: bool,

    /// The probes
    #[arg(long, value_enum, default_value_t = Trace::Auto)]
    pub trace: Trace,
}

impl LoadOptions {
    /// A no-op has no target, regardless of its engine.
    pub fn uses_target(&self) -> bool {
        self.engine.engine().target != TargetKind::Nothing && self.rw != Rw::Nop
    }
}

/// Command-line names of the options, without dashes.
pub fn names_of<T: Args>() -> Vec<String> {
    T::augment_args(clap::Command::new("options"))
        .get_arguments()
        .filter_map(|a| a.get_long().map(str::to_owned))
        .collect()
}

/// Defaults are only defined for the command line; experiments need them in every cell.
#[macro_export]
macro_rules! defaults_of_the_command_line {
    ($t:ty) => {
        impl Default for $t {
            fn default() -> Self {
                #[derive(clap::Parser)]
                struct Only {
                    #[command(flatten)]
                    these: $t,
                }
                static DEFAULTS: std::sync::LazyLock<$t> =
                    std::sync::LazyLock::new(|| <Only as clap::Parser>::parse_from(["iotrail"]).these);
                DEFAULTS.clone()
            }
        }
    };
}
defaults_of_the_command_line!(LoadOptions);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn default_load_options_match_the_documented_contract() {
        let o = LoadOptions::default();
        assert_eq!((o.engine, o.rw, o.wait, o.trace), (EngineKind::IoUring, Rw::RandRead, Wait::Block, Trace::Auto));
        assert_eq!((o.bs, o.depth, o.batch, o.jobs), (Bytes(4096), 16, 1, 1));
        assert_eq!((o.warmup, o.runtime, o.count), (Span(Duration::from_millis(500)), None, None));
    }

    #[test]
    fn toml_accepts_the_same_option_names_and_rejects_others() {
        let o: LoadOptions =
            toml::from_str("bs = \"8k\"\nsq-cpu = 1\nwarmup = \"1s\"\nrw = \"randrw\"\nengine = \"posix_aio\"")
                .unwrap();
        assert_eq!((o.bs, o.sq_cpu, o.warmup), (Bytes(8192), Some(1), Span(Duration::from_secs(1))));
        assert_eq!((o.rw, o.engine), (Rw::RandRw, EngineKind::PosixAio));
        assert!(toml::from_str::<LoadOptions>("dpeth = 3").unwrap_err().to_string().contains("dpeth"));
    }
}
