//! The experiments of a search: all candidates as its arms, and the confirmation of one of them.

use toml::{Table, Value};

use super::candidates::{NOW, Proposed};
use crate::experiment::cell;
use crate::experiment::file::parse;
use crate::experiment::load::Kind;
use crate::experiment::plan::{Facts, Plan, Target, plan};
use iotrail_base::error::{Error, Result};
use iotrail_schema::search_record::SearchRecord;

/// Blocks of a search, at most.
const BLOCKS: u32 = 40;
/// Of a confirmation.
const FRESH: u32 = 12;
/// What the experiments are called.
pub const SEARCH: &str = "advise";
const CONFIRM: &str = "advise-confirm";

/// What is searched in.
#[derive(Debug)]
pub struct Subject {
    pub kind: Kind,
    pub load: Table,
    pub proposed: Vec<Proposed>,
    /// What the search goes by.
    pub search: SearchRecord,
    pub metrics: Vec<String>,
}

impl Subject {
    pub fn new(kind: Kind, load: Table, proposed: Vec<Proposed>, search: SearchRecord, metrics: Vec<String>) -> Self {
        let candidates = proposed.iter().map(|p| p.candidate.clone()).collect();
        Self { kind, load, proposed, search: SearchRecord { candidates, ..search }, metrics }
    }

    /// The search, or the confirmation of one candidate.
    pub fn plan(&self, chosen: Option<&str>) -> Result<Plan> {
        let experiment = parse(&self.text(chosen)?, "iotrail advise")?;
        let facts = Facts { online_cpus: iotrail_host::cpu::online()?, below: &cell::target_of };
        let mut plan = plan(&experiment, false, &Target::default(), &facts, &|host, target| host.refusal(target))?;
        plan.search = chosen.is_none().then(|| self.search.clone());
        Ok(plan)
    }

    /// The experiment as its file says it.
    pub fn text(&self, chosen: Option<&str>) -> Result<String> {
        let mut file = Table::new();
        let mut say = |name: &str, value: Value| _ = file.insert(name.into(), value);
        say("name", if chosen.is_some() { CONFIRM } else { SEARCH }.into());
        say(
            "title",
            match chosen {
                Some(chosen) => format!("{chosen} against what there was").into(),
                None => "The best legal configuration".into(),
            },
        );
        say("question", "Which configuration serves best?".into());
        say("expect", "".into());
        match self.kind {
            Kind::Storage => {}
            Kind::Net => {
                say("kind", "net".into());
                say("table", "net".into());
            }
            Kind::Program => say("kind", "program".into()),
        }
        say("metrics", Value::from(self.metrics.clone()));
        say("repeats", i64::from(if chosen.is_some() { FRESH } else { BLOCKS }).into());
        say("control", false.into());
        let mut load = self.load.clone();
        match (self.kind == Kind::Program, chosen) {
            (true, _) => {}
            // What the probes cost is in no figure; a second round with them tells the reasons.
            (false, None) => _ = load.insert("trace".into(), "off".into()),
            (false, Some(_)) => {
                let matrix: Table = [("trace".to_owned(), Value::from(vec!["off", "auto"]))].into_iter().collect();
                say("matrix", matrix.into());
            }
        }
        let arms =
            self.proposed.iter().filter(|p| chosen.is_none_or(|c| c == p.candidate.name || p.candidate.name == NOW));
        let arms = arms.map(|p| {
            let mut arm = p.options.clone();
            arm.insert("name".into(), p.candidate.name.clone().into());
            Value::Table(arm)
        });
        say("load", load.into());
        say("arm", Value::Array(arms.collect()));
        toml::to_string(&file).map_err(|e| Error::internal(format!("an experiment cannot be written: {e}")))
    }
}
