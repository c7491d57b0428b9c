//! Lists the available studies.

use serde::Serialize;

use iotrail_base::error::Result;
use iotrail_base::words::plural;
use iotrail_experiment::studies;
use iotrail_report::terminal::{self, Screen, Style};

/// The output of `--json`.
#[derive(Serialize)]
struct Studies {
    /// `iotrail.studies/1`.
    schema: &'static str,
    /// The studies that can be reproduced.
    studies: Vec<OneStudy>,
}

/// A study that can be reproduced.
#[derive(Serialize)]
struct OneStudy {
    /// Its name, for `iotrail reproduce`.
    study: String,
    /// Title of the publication.
    title: String,
    /// Where it was published.
    citation: String,
    /// Names of its parts, for `--only`.
    parts: Vec<String>,
    /// Number of its published values.
    figures: usize,
}

pub fn show(as_json: bool) -> Result<()> {
    let one = |name| {
        let study = studies::find(name)?;
        Ok(OneStudy {
            parts: study.part.iter().map(|p| p.name.clone()).collect(),
            figures: study.claim.len(),
            study: study.name,
            title: study.title,
            citation: study.citation,
        })
    };
    let all = studies::names().into_iter().map(one).collect::<Result<Vec<_>>>()?;
    if as_json {
        return terminal::print_json(&Studies { schema: "iotrail.studies/1", studies: all });
    }
    let mut out = Screen::new(Style::of_stdout());
    let width = all.iter().map(|s| s.study.len()).max().unwrap_or(0);
    for s in &all {
        let figures = plural(s.figures, "published figure");
        let text = format!("{}. {}. {figures}; parts: {}", s.title, s.citation, s.parts.join(", "));
        out.paragraph(&format!("iotrail reproduce {:width$}  ", s.study), &text);
    }
    terminal::show(&out)
}
