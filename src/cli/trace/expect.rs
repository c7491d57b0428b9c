//! `--expect`: limits on the trace's metrics, and where to write their outcomes. `--expect-save`: limits from several
//! runs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use iotrail_answer::budget::{self, BudgetOutcome, JudgedLimit, Limit};
use iotrail_answer::callsites;
use iotrail_base::error::{Error, Result};
use iotrail_base::input;
use iotrail_base::output::{self, Existing, Reserved};
use iotrail_base::words::so_many;
use iotrail_host::cpu;
use iotrail_load::neighbour::Neighbours;
use iotrail_report::html::escaped;
use iotrail_report::terminal;
use iotrail_schema::trace_record::TraceRecord;

/// Maximum size of a budget file in bytes.
const LONGEST: u64 = 1 << 20;
/// Environment variable in which GitHub passes the path of a job summary.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

#[derive(Debug, clap::Args)]
pub struct ExpectArgs {
    /// Exit 1 if a figure is outside its limits in this TOML file (see docs/ci.md), 4 if one cannot be evaluated. Implies --exact. If
    /// GITHUB_STEP_SUMMARY is set, a table is appended to the file that it names
    #[arg(long, value_name = "FILE", conflicts_with = "windows")]
    pub expect: Option<PathBuf>,

    /// Write the outcomes of --expect as JUnit XML
    #[arg(long, value_name = "FILE", requires = "expect")]
    pub junit: Option<PathBuf>,

    /// Run CMD --expect-runs times, with busy processes on all CPUs in every second run, and write a budget that all runs meet
    #[arg(long, value_name = "FILE", requires = "command", conflicts_with_all = ["expect", "windows", "record", "slowest", "metrics", "json", "full", "fail_on", "duration", "hist"])]
    pub expect_save: Option<PathBuf>,

    /// Runs of CMD for --expect-save
    #[arg(long, value_name = "N", default_value_t = 10, requires = "expect_save", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub expect_runs: u32,
}

/// A budget, and where its outcomes are written.
pub struct Budget {
    limits: Vec<Limit>,
    name: String,
    junit: Option<Reserved>,
}

impl Budget {
    /// Called before the trace, to report unreadable or unwritable files early.
    pub fn read(args: &ExpectArgs, existing: Existing) -> Result<Option<Self>> {
        let Some(path) = &args.expect else { return Ok(None) };
        let shown = path.display();
        let text = input::text(path, LONGEST)
            .map_err(|e| Error::input(format!("cannot read {shown}"), "specify a budget with --expect").because(e))?;
        let limits = budget::parse(&text)
            .map_err(|why| Error::input(format!("{shown}: {why}"), "docs/ci.md describes budgets"))?;
        let junit = args.junit.as_deref().map(|path| Reserved::new(path, existing, "--junit")?.apart()).transpose()?;
        Ok(Some(Self { limits, name: shown.to_string(), junit }))
    }

    pub fn judge(&self, t: &TraceRecord) -> Vec<JudgedLimit> {
        budget::judge(&self.limits, t)
    }

    /// Writes the outcomes to files.
    pub fn write(self, judged: &[JudgedLimit]) -> Result<()> {
        if let Some(junit) = self.junit {
            output::write(junit, junit_xml(&self.name, judged).as_bytes())?;
        }
        if let Some(path) = std::env::var_os(SUMMARY).filter(|path| !path.is_empty()) {
            let appended = std::fs::File::options().append(true).create(true).open(&path);
            let written = appended.and_then(|mut file| file.write_all(markdown(&self.name, judged).as_bytes()));
            if let Err(e) = written {
                terminal::say(&format!("iotrail: warning: no summary in {}: {e}", Path::new(&path).display()));
            }
        }
        Ok(())
    }
}

fn word(outcome: BudgetOutcome) -> &'static str {
    match outcome {
        BudgetOutcome::Kept => "kept",
        BudgetOutcome::Broken => "BROKEN",
        BudgetOutcome::NotEvaluated => "not evaluated",
    }
}

/// Lists broken limits first, and only counts those that are met.
pub fn lines(judged: &[JudgedLimit]) -> Vec<String> {
    let of = |outcome| judged.iter().filter(move |j| j.outcome == outcome);
    let kept = of(BudgetOutcome::Kept).count();
    let others = of(BudgetOutcome::Broken).chain(of(BudgetOutcome::NotEvaluated));
    let from = |j: &JudgedLimit| (!j.from.is_empty()).then(|| format!("        from: {}", callsites::text(&j.from)));
    let line = |j: &JudgedLimit| format!("budget  {}: {}", word(j.outcome), j.text);
    let mut lines: Vec<String> = others.flat_map(|j| [Some(line(j)), from(j)]).flatten().collect();
    lines.push(format!("budget  {kept} of {} kept", so_many(judged.len() as u64, "limit")));
    lines
}

/// The outcome, with call sites if the limit is broken.
fn with_sites(j: &JudgedLimit) -> String {
    if j.from.is_empty() { j.text.clone() } else { format!("{}; from: {}", j.text, callsites::text(&j.from)) }
}

fn junit_xml(name: &str, judged: &[JudgedLimit]) -> String {
    let count = |outcome| judged.iter().filter(|j| j.outcome == outcome).count();
    let (broken, open) = (count(BudgetOutcome::Broken), count(BudgetOutcome::NotEvaluated));
    let name = escaped(name);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"{name}\" tests=\"{}\" failures=\"{broken}\" errors=\"{open}\">\n",
        judged.len()
    );
    for j in judged {
        let scope = if j.scope.is_empty() { "trace" } else { &j.scope };
        let text = escaped(&with_sites(j));
        let inner = match j.outcome {
            BudgetOutcome::Kept => String::new(),
            BudgetOutcome::Broken => format!("<failure message=\"{text}\"/>"),
            BudgetOutcome::NotEvaluated => format!("<error message=\"{text}\"/>"),
        };
        let (scope, figure) = (escaped(scope), escaped(&j.figure));
        writeln!(out, "<testcase classname=\"{scope}\" name=\"{figure}\">{inner}</testcase>")
            .expect("a string takes it");
    }
    out + "</testsuite>\n</testsuites>\n"
}

fn markdown(name: &str, judged: &[JudgedLimit]) -> String {
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let mut out = format!("### iotrail: {}\n\n| limit | outcome |\n|---|---|\n", cell(name));
    for j in judged {
        let sign = if j.outcome == BudgetOutcome::Kept { "" } else { "**" };
        writeln!(out, "| {} | {sign}{}{sign} |", cell(&with_sites(j)), word(j.outcome)).expect("a string takes it");
    }
    out + "\n"
}

/// Processes that compute on all CPUs until they are dropped.
pub fn busy_cpus() -> Result<Neighbours> {
    Neighbours::start(1, &cpu::online()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged() -> Vec<JudgedLimit> {
        let one = |figure: &str, outcome| JudgedLimit {
            scope: String::new(),
            figure: figure.into(),
            value: Some(2.0),
            ci95: None,
            at_least: None,
            at_most: Some(1.0),
            outcome,
            text: format!("{figure}: 2, at most <1> | \"x\""),
            from: vec![],
        };
        vec![
            one("errors", BudgetOutcome::Broken),
            one("kicks", BudgetOutcome::NotEvaluated),
            one("bytes", BudgetOutcome::Kept),
        ]
    }

    #[test]
    fn budget_outcomes_are_printed_as_lines_junit_xml_and_markdown() {
        let lines = lines(&judged());
        assert_eq!(lines[0], "budget  BROKEN: errors: 2, at most <1> | \"x\"");
        assert_eq!(lines.last().map(String::as_str), Some("budget  1 of 3 limits kept"));
        let xml = junit_xml("b.toml", &judged());
        assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"1\""), "{xml}");
        assert!(xml.contains("<failure message=\"errors: 2, at most &lt;1&gt; | &quot;x&quot;\"/>"), "{xml}");
        let table = markdown("b.toml", &judged());
        assert!(table.contains("| errors: 2, at most <1> \\| \"x\" | **BROKEN** |"), "{table}");
    }
}
