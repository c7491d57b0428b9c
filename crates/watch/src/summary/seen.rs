//! Data about a trace that does not come from the probes.

use crate::files::Names;
use crate::processes::{CpuTime, SqThread};
use crate::rings::SeenRing;
use iotrail_schema::measurement::{Host, Warning};
use iotrail_schema::trace_record::{ProcessRecord, Subject};

/// Data about a trace that does not come from the probes.
#[derive(Debug)]
pub struct Span {
    pub started_unix_s: u64,
    pub elapsed_ns: u64,
    pub subject: Subject,
    pub host: Host,
    pub cpu: Option<CpuTime>,
    pub processes: Vec<ProcessRecord>,
    pub most_workers: Option<u64>,
    pub workers_cpu_ns: Option<u64>,
    pub warnings: Vec<Warning>,
}

/// Data from /proc about the rings and their threads.
pub struct ProcView<'a> {
    pub rings: Vec<&'a SeenRing>,
    /// By process and thread.
    pub sq_thread: &'a dyn Fn(u32, u32) -> Option<SqThread>,
    pub files: &'a Names,
}
