//! Renders runs as a single HTML page that needs no network access: the question, the answer, then the figures behind
//! it, each with its table. Sentences are the same as on the terminal (`answer`); numbers come from the store.
//!
//! | file | responsible for |
//! |---|---|
//! | `view` | the runs in the form that figures need: cells, groups, and the cells of the answer |
//! | `figure`, `figures/`, `rows` | tables and the marks drawn from them |
//! | `fleet` | the page of a fleet: machines × situations |
//! | `history` | the page of `track`: one experiment's runs over time |
//! | `draw/` | figures as SVG |
//! | `paths` | the colour of each delivery path |
//! | `words` | sentences about a run: the answer, its machine, its losses |
//! | `safe` | escapes text and scripts |
//! | `page.html`, `page.css`, `page.js` | the page; its script shows hover text, tables and CSV |
//!
//! Text from outside reaches the page in two ways: escaped, by the template or in a figure's elements; or in the JSON from which the page's
//! script creates text nodes.

mod draw;
mod figure;
mod figures;
mod fleet;
mod history;
mod paths;
mod rows;
mod safe;
mod trace;
mod view;
mod words;

use askama::Template as _;
use serde::Serialize;

use self::draw::Drawn;
pub use self::draw::escaped;
use self::figure::{Figure, Place};
use self::view::View;
use self::words::{About, CellWords, Sentence, Tally};
use iotrail_answer::compare::Histograms;
use iotrail_answer::summary::{Head, forest, of_comparisons};
use iotrail_answer::verdicts::side_by_side;
use iotrail_base::error::{Error, Result};
use iotrail_schema::comparison::Comparison;
use iotrail_schema::run_record::RunRecord;

/// A run, with data that its record lacks.
pub struct Source<'a> {
    /// `run 3`, or its file's name.
    pub name: String,
    pub record: &'a RunRecord,
    pub histograms: Histograms<'a>,
    /// Pairs of cell and repeat in measurement order; `None` if unknown.
    pub order: Option<Vec<(u32, u32)>>,
    /// The command that repeats the run.
    pub command: Option<String>,
}

/// Conclusions on the second run compared with the first.
pub struct Against<'a> {
    pub comparisons: &'a [Comparison],
    /// Sentences that list cells without a counterpart.
    pub left_over: &'a [String],
}

pub use self::fleet::page as fleet;
pub use self::history::page as history;
pub use self::trace::page as trace;

fn unfit(e: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::machine("cannot write the page", "report this with the command").because(e)
}

/// The first bytes of every page, which identify iotrail pages.
pub const MARK: &str = "<!DOCTYPE html>\n<!-- iotrail report -->\n";

/// Whether a file is an iotrail page; `None` if it cannot be read.
pub fn is_page(path: &std::path::Path) -> bool {
    use std::io::Read as _;
    let mut beginning = vec![0; MARK.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && beginning == MARK.as_bytes()
}

#[derive(askama::Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: String,
    /// The heading: the answer of the run or comparison; the title if nothing was measured.
    answer: String,
    policy: String,
    css: &'static str,
    script: &'static str,
    data: &'a str,
    runs: Vec<About>,
    /// A single item if all runs have the same question.
    questions: Vec<&'a str>,
    between_title: &'static str,
    between: Vec<Sentence>,
    glance: Vec<Tally>,
    left_over: &'a [String],
    first: Vec<Shown<'a>>,
    beside: Vec<Shown<'a>>,
    open: Vec<Shown<'a>>,
    folded: Vec<Shown<'a>>,
    cells: Vec<CellWords>,
    parameters: Vec<String>,
    emulated: bool,
    version: &'static str,
}

/// A figure of the page.
struct Shown<'a> {
    /// Its index in the data.
    index: usize,
    figure: &'a Figure,
    panels: Vec<Drawn>,
}

/// Draws the figures of one part of the page.
fn shown(figures: &[Figure], place: Place) -> Vec<Shown<'_>> {
    let all = figures.iter().enumerate().filter(|(_, f)| f.place == place);
    all.map(|(index, figure)| Shown { index, figure, panels: draw::figure(figure) }).collect()
}

/// A page whose answer and figures do not belong to a single run.
struct Answered {
    title: String,
    answer: String,
    /// Prefix of saved files' names.
    name: String,
    between_title: &'static str,
    between: Vec<Sentence>,
    figures: Vec<Figure>,
}

impl Answered {
    fn page(self) -> Result<String> {
        let Answered { title, answer, name, between_title, between, figures } = self;
        let data = Data { name, parameters: &[], figures: &figures, cells: Vec::new() };
        let data = safe::json(&data).map_err(|e| unfit(e.into()))?;
        let script = include_str!("page.js");
        let page = Page {
            title,
            answer,
            policy: safe::policy(&[script]),
            css: include_str!("page.css"),
            script,
            data: &data,
            runs: Vec::new(),
            questions: Vec::new(),
            between_title,
            between,
            glance: Vec::new(),
            left_over: &[],
            first: shown(&figures, Place::First),
            beside: shown(&figures, Place::Beside),
            open: shown(&figures, Place::Open),
            folded: shown(&figures, Place::Folded),
            cells: Vec::new(),
            parameters: Vec::new(),
            emulated: false,
            version: env!("CARGO_PKG_VERSION"),
        };
        page.render().map_err(|e| unfit(e.into()))
    }
}

/// The data for the page's script.
#[derive(Serialize)]
struct Data<'a> {
    /// Prefix of saved files' names.
    name: String,
    parameters: &'a [String],
    figures: &'a [Figure],
    cells: Vec<DataCell<'a>>,
}

#[derive(Serialize)]
struct DataCell<'a> {
    label: &'a str,
    command: Option<&'a str>,
}

/// The page of one run, or of two runs compared.
pub fn page(sources: &[Source<'_>], against: Option<&Against<'_>>) -> Result<String> {
    let view = View::new(sources);
    // Two runs are compared with each other, so comparisons within each run may be missing.
    let has_head = |s: &&Source<'_>| s.record.done() > 0 && (against.is_none() || !s.record.comparisons.is_empty());
    let head = |s| Some(s).filter(has_head).map(|s| Head::of_run(s.record, true));
    let heads: Vec<Option<Head>> = sources.iter().map(head).collect();
    let forest = match (against, sources) {
        (Some(against), [first, ..]) => forest::of_two(first.record, against.comparisons),
        _ => heads.iter().flatten().find_map(|h| h.forest.clone()),
    };
    let figures = figures::all(&view, forest.as_ref(), against);
    let shown = |place| shown(&figures, place);
    let data = Data {
        name: format!("iotrail-{}", sources.iter().map(|s| safe::file_name(&s.name)).collect::<Vec<_>>().join("-")),
        parameters: &view.axes,
        figures: &figures,
        cells: view.cells.iter().map(|c| DataCell { label: &c.label, command: c.command.as_deref() }).collect(),
    };
    let data = safe::json(&data).map_err(|e| unfit(e.into()))?;
    let script = include_str!("page.js");
    let between = against
        .map_or_else(Vec::new, |a| side_by_side(a.comparisons, view.unit).into_iter().map(Sentence::new).collect());
    let glance = against.map_or_else(Vec::new, |a| words::glance(a.comparisons, view.unit));
    let title = words::title(sources);
    let answer = match against {
        Some(against) if !against.comparisons.is_empty() => Some(of_comparisons(against.comparisons, view.unit).0),
        Some(_) => None,
        None => heads.iter().flatten().next().map(|h| h.answer.clone()),
    };
    let page = Page {
        answer: answer.unwrap_or_else(|| title.clone()),
        title,
        policy: safe::policy(&[script]),
        css: include_str!("page.css"),
        script,
        data: &data,
        runs: sources.iter().zip(&heads).map(|(s, head)| About::new(s, head.as_ref())).collect(),
        questions: words::questions(sources),
        between_title: "The second run compared with the first",
        between,
        glance,
        left_over: against.map_or(&[], |a| a.left_over),
        first: shown(Place::First),
        beside: shown(Place::Beside),
        open: shown(Place::Open),
        folded: shown(Place::Folded),
        cells: words::cells(&view),
        parameters: view.columns().into_iter().map(|c| c.name).collect(),
        emulated: sources.iter().any(|s| s.record.is_emulated()),
        version: env!("CARGO_PKG_VERSION"),
    };
    page.render().map_err(|e| unfit(e.into()))
}
