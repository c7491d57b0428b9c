//! The first lines of a run: the answer, its conditions and reason, the remedy, one table, and the commands for
//! details.

use super::layout::{Cell, Column, Screen};
use super::style::Hue;
use iotrail_answer::summary::{Front, Head, Mark, Member, Situations};
use iotrail_base::words::plural;
use iotrail_schema::comparison::Verdict;

/// Maximum number of lines for limits.
const NOTES: usize = 4;

/// Width of the situation names, and of each mark.
const NAMES: u16 = 34;
const MARK: u16 = 13;
/// Width of the names with four marks.
const NARROW_NAMES: u16 = 22;

/// Width of a front's members, and of each objective.
const MEMBERS: u16 = 32;
const FIGURE: u16 = 22;

/// The commands that print details.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Print all sections, not only the answer.
    pub full: bool,
    /// The command that prints the run again: `iotrail report 12`; empty if the run is not stored.
    pub again: &'a str,
}

pub fn of(out: &mut Screen, head: &Head) {
    out.heading(&head.answer);
    let lines = [("when", &head.when), ("why", &head.why), ("do", &head.advice)];
    for (label, text) in lines.into_iter().filter_map(|(label, text)| Some((label, text.as_ref()?))) {
        out.paragraph(&format!("  {label:<5} "), text);
    }
    for (i, text) in head.also.iter().enumerate() {
        out.paragraph(if i == 0 { "  also  " } else { "        " }, text);
    }
    if let Some(table) = &head.table {
        out.blank();
        situations(out, table);
    }
    if let Some(found) = &head.front {
        out.blank();
        front(out, found);
    }
    if !head.notes.is_empty() || head.on.is_some() {
        out.blank();
    }
    for (i, note) in head.notes.iter().take(NOTES).enumerate() {
        out.paragraph(if i == 0 { "note  " } else { "      " }, note);
    }
    if let Some(on) = &head.on {
        out.paragraph("on    ", on);
    }
}

/// Prints the commands for details below the answer.
pub fn more(out: &mut Screen, view: View<'_>) {
    if view.again.is_empty() {
        return;
    }
    out.blank();
    // One complete command per line, for copying.
    out.line(&format!("details: {} --full", view.again));
    out.line(&format!("page:    {} -o r.html", view.again));
}

fn situations(out: &mut Screen, table: &Situations) {
    // A single column leaves space for both arms' medians.
    let levels = table.columns.len() <= 1;
    let mut columns = vec![Column::words("", if table.columns.len() > 3 { NARROW_NAMES } else { NAMES })];
    let names = if table.columns.is_empty() { vec![String::new()] } else { table.columns.clone() };
    columns.extend(names.iter().map(|name| Column::named(name, MARK, false)));
    if levels {
        columns.push(Column::words("", 24));
    }
    let row = |name: &str, marks: &[Option<Mark>]| -> Vec<Cell> {
        let mut cells = vec![Cell::from(format!("  {name}"))];
        cells.extend(
            marks.iter().map(|m| m.as_ref().map_or(Cell::from(""), |m| Cell::from(m.text()).in_hue(hue(m.verdict)))),
        );
        if levels {
            cells.push(Cell::from(marks.iter().flatten().find_map(|m| m.levels.clone()).unwrap_or_default()));
        }
        cells
    };
    let rows: Vec<Vec<Cell>> = table.rows.iter().map(|r| row(&r.name, &r.marks)).collect();
    match table.columns.iter().all(String::is_empty) {
        true => out.rows(&columns, rows),
        false => out.table(&columns, rows),
    }
    if table.more > 0 {
        out.line(&format!("  … and {} with smaller differences (--full)", plural(table.more, "row")));
    }
    out.legend(&table.legend());
}

/// The current configuration, and the configurations confirmed against it.
fn front(out: &mut Screen, front: &Front) {
    let mut columns = vec![Column::words("", MEMBERS)];
    columns.extend(front.objectives.iter().map(|name| Column::named(name, FIGURE, false)));
    let row = |m: &Member| -> Vec<Cell> {
        let figures = m.figures.iter().map(|f| Cell::from(f.marked()).in_hue(hue(f.verdict)));
        [Cell::from(format!("  {}", m.title()))].into_iter().chain(figures).collect()
    };
    out.table(&columns, front.members.iter().map(row).collect());
    out.paragraph("  ", &front.legend());
}

fn hue(verdict: Verdict) -> Option<Hue> {
    match verdict {
        Verdict::Slower => Some(Hue::Bad),
        Verdict::Faster => Some(Hue::Good),
        Verdict::Equivalent => None,
        Verdict::Inconclusive | Verdict::NotComparable => Some(Hue::Doubt),
    }
}
