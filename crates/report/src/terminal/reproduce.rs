//! A published study compared with measurements on this machine: the answer and the disagreements; with `--full` all
//! figures.

use super::layout::{Cell, Column, Screen};
use super::style::{Hue, Style};
use iotrail_answer::reproduce::{answer, shown};
use iotrail_base::grouped::grouped;
use iotrail_base::words::{UNKNOWN, plural, three_digits};
use iotrail_schema::reproduction::{Band, LineOutcome, Reproduction, StudyLine};

/// How a study is shown.
#[derive(Debug, Clone, Copy)]
pub struct Reproduced<'a> {
    pub full: bool,
    /// The command that shows the study again.
    pub again: &'a str,
}

/// Maximum number of lines without `--full`.
const LINES: usize = 20;
/// Lines reserved below the figures.
const FOOT: usize = 5;

const LEGEND: &str = "here: measured value with its 95 % interval. An effect agrees if the interval is between half and twice the published effect \
     (logarithmically), a count if it is within a fifth or 0.05, a knee if it is within one step of the curve. docs/reproduce.md gives the exact \
     rule.";

pub fn screen(r: &Reproduction, how: Reproduced<'_>, style: Style) -> Screen {
    let mut out = Screen::new(style);
    out.heading(&answer(r));
    if how.full {
        full(&mut out, r);
        return out;
    }
    let of = |outcome| r.lines.iter().filter(move |l| l.outcome == outcome);
    let mut left = 0;
    for (mark, outcome) in
        [("  disagrees     ", LineOutcome::Disagrees), ("  inconclusive  ", LineOutcome::Inconclusive)]
    {
        for line in of(outcome) {
            let mut one = Screen::new(style);
            one.note(mark, &sentence(line), outcome == LineOutcome::Disagrees);
            // After the first figure that does not fit, all later ones are omitted, so that the printed ones are a
            // prefix of the list.
            match left == 0 && lines(&out) + lines(&one) + FOOT <= LINES {
                true => out.append(&one),
                false => left += 1,
            }
        }
    }
    if left > 0 {
        out.paragraph("                ", &format!("and {left} more"));
    }
    let reasons: Vec<&str> = of(LineOutcome::CannotBeTested).filter_map(|l| l.reason.as_deref()).collect();
    if let (Some(first), true) = (reasons.first(), r.tally.tested() == 0) {
        out.paragraph("  reason  ", first);
    }
    out.blank();
    let runs: Vec<String> = r.parts.iter().filter_map(|p| p.run).map(|run| run.to_string()).collect();
    if !runs.is_empty() {
        let noun = if runs.len() == 1 { "run" } else { "runs" };
        out.paragraph("", &format!("{noun} {} of the store (iotrail report RUN)", runs.join(", ")));
    }
    out.paragraph("", &format!("every figure with its source and reason: {} --full", how.again));
    out
}

fn lines(of: &Screen) -> usize {
    of.as_str().lines().count()
}

/// `kicks per I/O at depth 4: 0.958 published, 0.31 here (0.30–0.32)`.
fn sentence(line: &StudyLine) -> String {
    let here = shown(line).unwrap_or_else(|| UNKNOWN.into());
    format!("{}: published {}, here {here}", line.says, line.published)
}

fn full(out: &mut Screen, r: &Reproduction) {
    out.paragraph("  study  ", &format!("{} ({})", r.title, r.citation));
    out.paragraph("  measured there on  ", &r.machine);
    if let Some(repository) = &r.repository {
        let commit = r.commit.as_ref().map_or_else(String::new, |c| format!(", version {c}"));
        out.paragraph("  figures  ", &format!("{repository}{commit}"));
    }
    for part in &r.parts {
        let lines: Vec<&StudyLine> = r.lines.iter().filter(|l| l.part.as_ref() == Some(&part.part)).collect();
        if lines.is_empty() {
            continue;
        }
        out.blank();
        let run = part.run.map_or_else(String::new, |run| format!(", run {run}"));
        out.heading(&format!("{}: {}{run}", part.part, part.title));
        table(out, &lines);
    }
    let none: Vec<&StudyLine> = r.lines.iter().filter(|l| l.part.is_none()).collect();
    if !none.is_empty() {
        out.blank();
        out.heading(&format!("{} that no part tests", plural(none.len(), "published figure")));
        table(out, &none);
    }
    out.blank();
    out.paragraph("", LEGEND);
}

fn table(out: &mut Screen, lines: &[&StudyLine]) {
    let columns = [
        Column::words("published figure", 26),
        Column::words("published", 11),
        Column::words("agrees", 11),
        Column::words("here", 14),
        Column::words("outcome", 12),
    ];
    let row = |line: &&StudyLine| -> Vec<Cell> {
        let hue = (line.outcome == LineOutcome::Disagrees).then_some(Hue::Bad);
        vec![
            line.says.as_str().into(),
            line.published.as_str().into(),
            line.band.map_or_else(|| UNKNOWN.into(), band).into(),
            shown(line).unwrap_or_else(|| UNKNOWN.into()).into(),
            Cell::from(line.outcome.words()).in_hue(hue),
        ]
    };
    out.table(&columns, lines.iter().map(row).collect());
    let apart = lines.iter().filter(|l| matches!(l.outcome, LineOutcome::Disagrees | LineOutcome::Inconclusive));
    for line in apart {
        let depends = line.depends.as_ref().map(|d| format!("it depends on {d}"));
        let said: Vec<String> = line.reason.clone().into_iter().chain(depends).collect();
        if !said.is_empty() {
            out.paragraph("  ", &format!("{} {}: {}", line.says, line.outcome.words(), said.join("; ")));
        }
    }
    let none = lines.iter().filter(|l| l.outcome == LineOutcome::CannotBeTested);
    for (why, of) in grouped(none.filter_map(|l| Some((l.reason.as_deref()?, ())))) {
        let figures = if of.len() == lines.len() { String::new() } else { format!("{} ", plural(of.len(), "figure")) };
        out.paragraph("  ", &format!("{figures}cannot be tested here: {why}"));
    }
    let mut sources: Vec<&str> = lines.iter().map(|l| l.source.as_str()).collect();
    sources.dedup();
    for source in sources {
        out.paragraph("  source: ", source);
    }
}

/// `0.8–1.2`, `from 3`.
fn band(band: Band) -> String {
    match (band.at_least, band.at_most) {
        (Some(lo), Some(hi)) => format!("{}–{}", three_digits(lo), three_digits(hi)),
        (Some(lo), None) => format!("from {}", three_digits(lo)),
        (None, Some(hi)) => format!("to {}", three_digits(hi)),
        (None, None) => UNKNOWN.into(),
    }
}
