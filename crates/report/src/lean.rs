//! A run's measurements without what no report of a run reads, so that long runs fit into little memory. In the store they are whole, and so
//! is what is exported.
//!
//! A cell's first measurement stays as it is: its options are the command that measures the cell again. A report that is to read more of
//! the others takes its field off this list; `terminal::tests::of_lean` compares what is printed of both.

use iotrail_schema::measurement::{Circumstances, CpuSamples, Host, LoadRecord, Measurement};
use iotrail_schema::shared::Shared;

/// What the measurements so far have in common: each of these is held once.
#[derive(Debug, Default)]
pub struct Lean {
    cell: Option<u32>,
    loads: Vec<Shared<LoadRecord>>,
    hosts: Vec<Shared<Host>>,
    circumstances: Vec<Shared<Circumstances>>,
    samples: Vec<Shared<CpuSamples>>,
}

impl Lean {
    /// Measurements come cell by cell.
    pub fn take(&mut self, cell: u32, m: &mut Measurement) {
        m.host.join(&mut self.hosts);
        if self.cell.replace(cell) == Some(cell) {
            self.strip(m);
        }
    }

    fn strip(&mut self, m: &mut Measurement) {
        m.load.seed = None;
        m.load.join(&mut self.loads);
        if let Some(c) = &mut m.circumstances {
            // What two that are compared must not differ in.
            *c = Shared::from(Circumstances {
                page_cache: c.page_cache.take(),
                frequency_khz: c.frequency_khz.take(),
                interrupts_after: std::mem::take(&mut c.interrupts_after),
                ..Circumstances::default()
            });
            c.join(&mut self.circumstances);
        }
        if let Some(s) = &mut m.cpu_samples {
            *s = Shared::from(CpuSamples { period_ns: s.period_ns, ..CpuSamples::default() });
            s.join(&mut self.samples);
        }
        if let Some(server) = m.net.as_mut().and_then(|net| net.server.as_mut()) {
            server.seconds = Vec::new();
            // Whether there are any.
            server.threads.truncate(1);
            server.threads.shrink_to_fit();
        }
        if let Some(stages) = &mut m.stages {
            stages.runnable = None;
        }
        (m.errors_by, m.followed) = (None, None);
        m.task_work_batches = Vec::new();
        m.probe.programs = Vec::new();
        // Lists that were read have room for as many again.
        m.vehicles.shrink_to_fit();
        m.mode_switches.shrink_to_fit();
        m.interrupts.shrink_to_fit();
        m.ipis.shrink_to_fit();
        m.warnings.shrink_to_fit();
        if let Some(shares) = &mut m.cpu_shares {
            shares.shrink_to_fit();
        }
    }
}
