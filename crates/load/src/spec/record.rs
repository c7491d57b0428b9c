//! The plan in the form that a measurement records.

use super::{LoadSpec, ReaperKind};
use iotrail_schema::measurement::{LoadRecord, Ring};

impl LoadSpec {
    /// `granted`: the ring flags that the kernel returned.
    pub fn record(&self, granted: &[String]) -> LoadRecord {
        let ring = &self.ring;
        let registered = [
            ("files", ring.register_files),
            ("buffers", ring.register_buffers),
            ("ring", ring.register_ring),
            ("wait", ring.waits.registered),
        ];
        LoadRecord {
            engine: self.engine.engine().name.into(),
            ring: Ring { requested: ring.setup.names(), granted: granted.to_vec() },
            sq_cpu: ring.sq_cpu,
            sq_idle_ms: ring.sq_idle_ms,
            register: registered.iter().filter(|(_, on)| *on).map(|(name, _)| name.to_string()).collect(),
            force_async: ring.force_async,
            rw: self.rw.to_string().as_str().into(),
            commit: self.commit.to_string().as_str().into(),
            bs: u64::from(self.block_bytes),
            depth: self.depth,
            batch: self.batch,
            jobs: self.jobs,
            cpus_requested: self.cpus_requested.clone(),
            cpus: self.cpus.clone(),
            wait: self.wait.to_string().as_str().into(),
            reaper: match self.reaper {
                ReaperKind::Same => "same".into(),
                ReaperKind::Thread { cpu: None } => "thread".into(),
                ReaperKind::Thread { cpu: Some(cpu) } => format!("thread:{cpu}").as_str().into(),
            },
            min_wait_ns: (ring.waits.min_us > 0).then(|| u64::from(ring.waits.min_us) * 1000),
            no_iowait: ring.waits.no_iowait,
            think_ns: self.think_ns,
            scratch: self.scratch.to_string(),
            neighbour: if self.neighbours == 0 { "none".into() } else { format!("busy:{}", self.neighbours) },
            file: self.file.as_ref().map(|p| p.display().to_string()),
            size: self.size,
            direct: self.direct,
            runtime_ns: self.end.span().map(|span| span.as_nanos() as u64),
            count: self.end.ios(),
            warmup_ns: self.warmup.as_nanos() as u64,
            rate: self.rate,
            verify: self.verify,
            seed: self.seed,
            trace: self.trace.to_string().as_str().into(),
        }
    }
}
