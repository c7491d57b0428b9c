//! A run's measurements without what no report of a run reads, and packed, so that long runs fit into little memory. In the store they are
//! whole, and so is what is exported.
//!
//! A cell's first measurement stays as it is: its options are the command that measures the cell again. A report that is to read more of
//! the others takes its field off this list; `terminal::tests::of_lean` compares what is printed of both.

use std::sync::Arc;

use iotrail_schema::measurement::{Circumstances, CpuSamples, Host, LoadRecord, Measurement};
use iotrail_schema::measurements::Measurements;
use iotrail_schema::packed::{Packer, Unpacked};
use iotrail_schema::shared::Shared;

#[derive(Debug, Default)]
pub struct Lean {
    cell: Packer,
    // What the measurements so far have in common: each of these is held once.
    loads: Vec<Shared<LoadRecord>>,
    hosts: Vec<Shared<Host>>,
    unpacked: Arc<Unpacked>,
}

impl Lean {
    /// The next measurement of a cell.
    pub fn take(&mut self, mut m: Measurement) {
        m.host.join(&mut self.hosts);
        if !self.cell.is_empty() {
            strip(&mut m);
            m.load.join(&mut self.loads);
        }
        self.cell.push(m);
    }

    /// The cell whose measurements were taken.
    pub fn end_cell(&mut self) -> Measurements {
        self.cell.end(&self.unpacked).map(Measurements::from).unwrap_or_default()
    }

    /// Which of these cells are unpacked.
    pub fn unpacked(&self) -> &Unpacked {
        &self.unpacked
    }
}

fn strip(m: &mut Measurement) {
    m.load.seed = None;
    if let Some(c) = &mut m.circumstances {
        // What two that are compared must not differ in.
        *c = Shared::from(Circumstances {
            page_cache: c.page_cache.take(),
            frequency_khz: c.frequency_khz.take(),
            interrupts_after: std::mem::take(&mut c.interrupts_after),
            ..Circumstances::default()
        });
    }
    if let Some(s) = &mut m.cpu_samples {
        *s = Shared::from(CpuSamples { period_ns: s.period_ns, ..CpuSamples::default() });
    }
    if let Some(server) = m.net.as_mut().and_then(|net| net.server.as_mut()) {
        server.seconds = Vec::new();
        // Whether there are any.
        server.threads.truncate(1);
    }
    if let Some(stages) = &mut m.stages {
        stages.runnable = None;
    }
    (m.errors_by, m.followed) = (None, None);
    m.task_work_batches = Vec::new();
    m.probe.programs = Vec::new();
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::measurement::{ErrorCount, Followed, Punts, Throughput, Warning};
    use iotrail_schema::program_record::{OwnFigure, ProgramRecord, ProgramRing};
    use iotrail_testing::{sample, trace};

    /// One of each kind; every list holds something in one of them.
    fn every_kind() -> Vec<Measurement> {
        let mut followed = sample::measurement();
        sample::delivered(&mut followed, 7, 3);
        followed.stages = trace::ring(0).stages.map(Box::new);
        followed.followed = Some(Followed { one_in: 4, completions: 125, ..Followed::default() }.into());
        followed.punts = Some(Punts::default());
        followed.errors_by = Some(vec![ErrorCount { error: "EIO".into(), count: 3 }]);
        let mut net = sample::measurement();
        sample::echo(&mut net, 1000, 10, 0.5);
        let both = net.net.as_mut().unwrap();
        both.sender_host = Some((*net.host).clone());
        let server = both.server.as_mut().unwrap();
        server.seconds = vec![server.total.clone(); 3];
        server.options.insert("napi_ns".into(), 50_000.into());
        server.options.insert("buffers".into(), serde_json::json!([0.1, "x", null, { "of": u64::MAX }]));
        let rings = vec![ProgramRing { asked: vec!["sqpoll".into()], proven: Some(true), ..ProgramRing::default() }];
        let figures = vec![OwnFigure { name: "tps".into(), value: 1.0 / 3.0, less_is_better: false }];
        let program = ProgramRecord { argv: vec!["fio".into()], rings, figures, ..ProgramRecord::default() };
        let mut unlike = sample::measurement();
        unlike.host.hostname = "another".into();
        unlike.load.seed = Some(1);
        unlike.circumstances = Some(
            Circumstances {
                throughput: Some(Throughput { interval_ns: 1, ios: vec![u64::MAX] }),
                ..Circumstances::default()
            }
            .into(),
        );
        unlike.warnings = vec![Warning::new("code", "a text of its own", ""); 3];
        let watched = Measurement { program: Some(program.into()), ..sample::measurement() };
        vec![sample::measurement(), followed, net, watched, unlike, Measurement::default()]
    }

    #[test]
    fn what_is_packed_is_unpacked_the_same() {
        let all = every_kind();
        assert!(all[1].stages.as_ref().is_some_and(|s| s.completions > 0));
        // The first of a cell is not packed: each kind stands behind it.
        let mut packer = Packer::default();
        [&all[0]].into_iter().chain(&all).for_each(|m| packer.push(m.clone()));
        let packed = Measurements::from(packer.end(&Arc::default()).unwrap());
        assert!(packed.is_packed() && packer.is_empty());
        assert_eq!(packed.all()[1..], all);
        let open = Measurements::from(packed.all().to_vec());
        assert_eq!(serde_json::to_value(&packed).unwrap(), serde_json::to_value(&open).unwrap());
        assert_eq!(packed.first(), Some(&all[0]));
        assert!(packed.set_up().eq(packed.all().iter().map(|m| (&*m.host, &*m.load))));
        assert!(packed.each().map(|m| m.iops).eq(packed.all().iter().map(|m| m.iops)));
        let mut opened = packed.clone();
        opened.open().pop();
        assert_eq!((opened.len(), opened.is_packed(), packed.len()), (6, false, 7));
        assert!(packer.end(&Arc::default()).is_none());
    }
}
