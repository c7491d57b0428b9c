//! The experiments of a search: one with all candidates as arms, and the confirmation of some of them.

use toml::{Table, Value};

use super::candidates::{NOW, Proposed};
use crate::file::parse;
use crate::load::Kind;
use crate::plan::{Plan, Target, plan_here};
use iotrail_answer::summary::advice;
use iotrail_base::error::{Error, Result};
use iotrail_base::words::list;
use iotrail_schema::search_record::SearchRecord;

/// Maximum number of blocks in a search.
const BLOCKS: u32 = 40;
/// Maximum number of blocks in a confirmation.
const FRESH: u32 = advice::FRESH as u32;
/// Names of the experiments.
pub const SEARCH: &str = "advise";
const CONFIRM: &str = "advise-confirm";

/// The object of a search.
#[derive(Debug)]
pub struct Subject {
    pub kind: Kind,
    pub load: Table,
    pub proposed: Vec<Proposed>,
    /// The criteria of the search.
    pub search: SearchRecord,
    pub metrics: Vec<String>,
}

impl Subject {
    pub fn new(kind: Kind, load: Table, proposed: Vec<Proposed>, search: SearchRecord, metrics: Vec<String>) -> Self {
        let candidates = proposed.iter().map(|p| p.candidate.clone()).collect();
        Self { kind, load, proposed, search: SearchRecord { candidates, ..search }, metrics }
    }

    /// Maximum measurements per confirmation block, and how many of them use probes.
    pub fn fresh(&self) -> (u32, u32) {
        let arms = if self.search.second.is_some() { 4 } else { 2 };
        if self.kind == Kind::Program { (arms, 0) } else { (2 * arms, arms) }
    }

    /// The search, or the confirmation of `chosen`.
    pub fn plan(&self, chosen: Option<&[String]>) -> Result<Plan> {
        let experiment = parse(&self.text(chosen)?, "iotrail advise")?;
        let allow_write = self.load.get("allow-write") == Some(&Value::Boolean(true));
        let target = Target { allow_write, ..Target::default() };
        let mut plan = plan_here(&experiment, false, &target)?;
        plan.search = chosen.is_none().then(|| self.search.clone());
        Ok(plan)
    }

    /// The experiment file's text.
    pub fn text(&self, chosen: Option<&[String]>) -> Result<String> {
        let mut file = Table::new();
        let mut say = |name: &str, value: Value| _ = file.insert(name.into(), value);
        say("name", if chosen.is_some() { CONFIRM } else { SEARCH }.into());
        say(
            "title",
            match chosen {
                Some(chosen) => format!("{} against the current configuration", list(chosen)).into(),
                None => "The best legal configuration".into(),
            },
        );
        say("question", "Which configuration is best?".into());
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
            // Without probes, no metric includes their cost; a second round with probes explains the result.
            (false, None) => _ = load.insert("trace".into(), "off".into()),
            (false, Some(_)) => {
                let matrix: Table = [("trace".to_owned(), Value::from(vec!["off", "auto"]))].into_iter().collect();
                say("matrix", matrix.into());
            }
        }
        let arms = self
            .proposed
            .iter()
            .filter(|p| chosen.is_none_or(|c| c.contains(&p.candidate.name) || p.candidate.name == NOW));
        let arms = arms.map(|p| {
            let mut arm = p.options.clone();
            arm.insert("name".into(), p.candidate.name.clone().into());
            Value::Table(arm)
        });
        say("load", load.into());
        say("arm", Value::Array(arms.collect()));
        toml::to_string(&file).map_err(|e| Error::internal(format!("cannot format the experiment: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::storage::{HostContext, of_load};
    use iotrail_load::options::{LoadOptions, Rw};

    #[test]
    fn a_confirmation_compares_all_selected_candidates_with_the_current_one() {
        let base = LoadOptions { rw: Rw::Nop, depth: 16, ..LoadOptions::default() };
        let load: Table = [("rw", "nop".into()), ("runtime", "40ms".into())]
            .map(|(name, value): (&str, Value)| (name.into(), value))
            .into_iter()
            .collect();
        let around = HostContext { placements: &[], online: &[0, 1], target: None, queue: None, refusal: &|_, _| None };
        let (proposed, left_out) = of_load(&base, &load, &around);
        let (candidates, found) = (vec![], None);
        let (objective, second) = ("iops".to_owned(), Some("cpu_per_io".to_owned()));
        let search =
            SearchRecord { objective, second, constraints: vec![], budget_s: 1.0, candidates, left_out, found };
        let metrics = vec!["iops".into(), "cpu_per_io".into()];
        let subject = Subject::new(Kind::Storage, load, proposed, search, metrics);
        let arms = |chosen: Option<&[String]>| -> (Table, Vec<String>) {
            let file: Table = subject.text(chosen).unwrap().parse().unwrap();
            let name = |arm: &Value| arm["name"].as_str().unwrap().to_owned();
            let names = file["arm"].as_array().unwrap().iter().map(name).collect();
            (file, names)
        };
        let (file, all) = arms(None);
        assert_eq!((all.len(), file["repeats"].as_integer()), (subject.proposed.len(), Some(i64::from(BLOCKS))));
        let (file, some) = arms(Some(&["sqpoll".into(), "batch 8".into()]));
        assert_eq!(some, [NOW, "sqpoll", "batch 8"]);
        assert_eq!(file["title"].as_str(), Some("sqpoll and batch 8 against the current configuration"));
        assert_eq!((file["name"].as_str(), file["repeats"].as_integer()), (Some(CONFIRM), Some(i64::from(FRESH))));
    }
}
