//! The options of a load, as resolved.

use serde::{Deserialize, Serialize};

use crate::load_options::{Commit, Engine, Reaper, Rw, Trace, Wait};

/// The load's options as resolved. An option is null if it was not specified and has no default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// The I/O interface. For a network load, of the server: `epoll`, `io_uring`, or `unknown` if it is not measured.
    pub engine: Engine,
    /// Ring setup flags.
    pub ring: Ring,
    /// CPU of the SQPOLL thread.
    pub sq_cpu: Option<u32>,
    /// Idle time after which the SQPOLL thread goes to sleep.
    pub sq_idle_ms: Option<u32>,
    /// Registered with the ring: `files`, `buffers`, `ring`, `wait` (wait arguments).
    pub register: Vec<String>,
    /// Whether every request is punted to io-wq (IOSQE_ASYNC).
    pub force_async: bool,
    /// `randread`, `read`, `randwrite`, `write`, `append`, `randrw`, `nop`; `echo` for a network load.
    pub rw: Rw,
    /// How each write is made durable: `none`, `fsync`, `fdatasync`, `dsync`, `linked`. Empty in older records: `none`.
    #[serde(default)]
    pub commit: Commit,
    /// Block size, bytes. For a network load: bytes of a request.
    pub bs: u64,
    /// I/Os in flight per job. For a network load: connections × window.
    pub depth: u32,
    /// I/Os per submission. For a network load: the burst.
    pub batch: u32,
    /// Threads. For a network load: of the server.
    pub jobs: u32,
    /// `irq`, `non-irq` or a list, as requested; null: not pinned.
    pub cpus_requested: Option<String>,
    /// The CPU of each job, in order; empty: not pinned.
    pub cpus: Vec<u32>,
    /// How a job waits: `block` or `peek`.
    pub wait: Wait,
    /// Time to wait for all completions of a batch before the first one ends the wait; null: no limit.
    #[serde(default)]
    pub min_wait_ns: Option<u64>,
    /// Whether waits for completions do not count as iowait (IORING_ENTER_NO_IOWAIT).
    #[serde(default)]
    pub no_iowait: bool,
    /// The thread that reaps: `same`, `thread` or `thread:CPU`.
    pub reaper: Reaper,
    /// Computation in user mode between reaping and submitting.
    pub think_ns: u64,
    /// Fresh memory touched per I/O: `none`, `lazy`, `prefault`.
    pub scratch: String,
    /// Computing processes on the load's CPUs: `none` or `busy:N`.
    pub neighbour: String,
    /// The target; null: none.
    pub file: Option<String>,
    /// Number of bytes of the target that are used.
    pub size: Option<u64>,
    /// O_DIRECT; false: the page cache.
    pub direct: bool,
    /// Set if the load ends after a time.
    pub runtime_ns: Option<u64>,
    /// Set if the load ends after a number of I/Os.
    pub count: Option<u64>,
    /// Time before the measured interval, with the same load.
    pub warmup_ns: u64,
    /// I/Os per second over all jobs; null: closed loop.
    pub rate: Option<f64>,
    /// Whether written blocks contain a checksum that reads verify.
    pub verify: bool,
    /// Seed for the offsets and for the mix of reads and writes. The same seed produces the same I/Os in the same order. Omitted
    /// in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// `auto`, `on` or `off`, as requested.
    pub trace: Trace,
}

/// Ring setup flags requested, and those the kernel granted. Empty for other engines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ring {
    /// Requested flags, by the names of `--ring`.
    pub requested: Vec<String>,
    /// Flags that the kernel granted.
    pub granted: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_names_unknown_to_this_release() {
        for name in ["io_uring", "program", "", "ublk"] {
            let mut value = serde_json::to_value(LoadRecord::default()).unwrap();
            value["engine"] = name.into();
            let record: LoadRecord = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(record.engine.name(), name);
            assert_eq!(serde_json::to_value(&record).unwrap(), value);
        }
        assert_eq!((Engine::from("sync"), Rw::from("echo")), (Engine::Sync, Rw::Echo));
        assert_eq!(Reaper::from("thread:3"), Reaper::Other("thread:3".into()));
    }
}
