//! Submits the jobs: all or none. From the first job on, the data for collecting them is stored, in case this process
//! is killed before the last one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Work;
use super::second::Second;
use super::submitted::{self, Submitted};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_schema::fleet_record::FleetRecord;
use iotrail_slurm::script::{self, Program, Script};
use iotrail_slurm::{control, queue, submit};
use iotrail_store::Store;

pub struct SubmitOptions<'a> {
    pub work: &'a Work<'a>,
    /// One job per node.
    pub nodes: &'a [String],
    /// The second node of the only node's job.
    pub second: Option<&'a Second>,
    /// sbatch options.
    pub more: &'a [String],
    pub shared: Option<&'a Path>,
    pub ship: bool,
}

impl SubmitOptions<'_> {
    pub fn submit(&self, record: FleetRecord, store: &mut Store, stop: &AtomicBool) -> Result<Submitted> {
        let folder = self.shared.map(submitted::make_shared).transpose()?;
        let program = self.program(folder.as_deref());
        let program = program.inspect_err(|_| _ = folder.as_ref().map(std::fs::remove_dir_all))?;
        let submitted = Submitted {
            command: self.work.command.to_owned(),
            job: 0,
            jobs: Vec::new(),
            fleet: 0,
            nodes: self.nodes.to_vec(),
            second: self.second.cloned(),
            program,
            shared: folder,
            queue: queue::options(self.more, &|name| std::env::var(name).ok()),
            user: Some(rustix::process::geteuid().as_raw()),
        };
        Submission { given: self, record, submitted, store }.all(stop)
    }

    /// The path from which the nodes run iotrail; copies it to the shared directory if necessary.
    fn program(&self, shared: Option<&Path>) -> Result<Program> {
        let ours = std::env::current_exe().or_machine("cannot find the iotrail binary", "start it again")?;
        Ok(match (shared, self.ship) {
            (Some(folder), true) => {
                let copy = folder.join("iotrail");
                std::fs::copy(&ours, &copy)
                    .or_machine("cannot copy iotrail to the --shared directory", "check its free space")?;
                Program::At(copy)
            }
            (None, true) => Program::Comes,
            (_, false) => Program::Installed(ours),
        })
    }
}

struct Submission<'a> {
    given: &'a SubmitOptions<'a>,
    record: FleetRecord,
    submitted: Submitted,
    store: &'a mut Store,
}

impl Submission<'_> {
    fn all(mut self, stop: &AtomicBool) -> Result<Submitted> {
        match self.each(stop) {
            Ok(()) => Ok(self.submitted),
            Err(e) => Err(self.undo(e)),
        }
    }

    fn each(&mut self, stop: &AtomicBool) -> Result<()> {
        for (task, node) in (1..).zip(self.given.nodes) {
            go_on(stop)?;
            let script = self.script(task);
            let job = match self.given.second {
                Some(second) => submit::pair(node, &second.node, &script, self.given.more),
                None => submit::alone(node, &script, self.given.more),
            };
            self.keep(job?)?;
        }
        go_on(stop)
    }

    fn script(&self, task: u32) -> String {
        let Work { text, options, within, .. } = self.given.work;
        let work = text.map_or(script::Work::Command(options), |text| script::Work::Experiment { text, options });
        let server = self.given.second.map(|second| second.address.as_str());
        let Submitted { program, shared, .. } = &self.submitted;
        Script { program, task, work, within: within.as_deref(), server, shared: shared.as_deref() }.text()
    }

    /// The first job's number names all of them.
    fn keep(&mut self, job: u64) -> Result<()> {
        self.submitted.jobs.push(job);
        if let [job] = self.submitted.jobs[..] {
            self.submitted.job = job;
            self.record.name = format!("slurm {job}");
            self.submitted.fleet = self.store.begin_fleet(&self.record)?;
        }
        self.submitted.keep(self.store.path())
    }

    /// Undoes the submission; keeps its data only if a job remains.
    fn undo(self, e: Error) -> Error {
        let Self { submitted, store, .. } = self;
        if let Err(failure) = control::cancel(&submitted.jobs) {
            let jobs: Vec<String> = submitted.jobs.iter().map(u64::to_string).collect();
            let why = e.source.as_ref().map_or_else(String::new, |why| format!("{why}; "));
            let cause = format!("{why}the submitted jobs cannot be cancelled: {failure}");
            return Error { remedy: format!("cancel it: scancel {}", jobs.join(" ")), ..e }.because(cause);
        }
        let path = store.path().to_owned();
        if submitted.fleet != 0 {
            _ = store.forget_fleet(submitted.fleet);
        }
        submitted.forget(&path);
        e
    }
}

fn go_on(stop: &AtomicBool) -> Result<()> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Error::disturbed("interrupted during submission", "the submitted jobs were cancelled")),
        false => Ok(()),
    }
}
