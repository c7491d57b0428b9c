//! Turns figures into SVG inside an HTML frame, at the time the page is written. Positions along an axis are
//! percentages, so a chart fills the available width while its text keeps the page's size. The style sheet defines the
//! colours.
//!
//! | file | responsible for |
//! |---|---|
//! | `markup` | elements, with escaped text |
//! | `scale` | numbers → positions, with readable ticks |
//! | `lines` | panels with one line per name: levels, ratios, dots, bars |
//! | `grid` | panels with one line per name and one field per column |
//! | `plane` | panels with two numeric axes: curves and points |

mod grid;
mod lines;
mod markup;
mod plane;
mod scale;

use self::markup::Markup;
pub use self::markup::escaped;
use self::scale::{Extent, Scale};
use super::figure::{Figure, Kind, Panel, Unit};
use iotrail_base::words::{UNKNOWN, count, per_io, percent, plural, span, three_digits};

/// A panel of the page.
pub struct Drawn {
    pub title: String,
    pub markup: String,
}

/// Panels of one kind in one column share a scale.
pub fn figure(figure: &Figure) -> Vec<Drawn> {
    let draw = |panel: &Panel| {
        let alike = |p: &&Panel| (p.kind, p.x_column, p.y_column) == (panel.kind, panel.x_column, panel.y_column);
        let alike: Vec<&Panel> = figure.panels.iter().filter(alike).collect();
        let mut out = Markup::default();
        let class = match panel.kind {
            Kind::Curves => "plot plane",
            Kind::Points | Kind::Course => "plot plane flat",
            Kind::Levels | Kind::Ratios | Kind::Dots | Kind::Bars => "plot lines",
            Kind::Grid => "plot lines fields",
        };
        out.open(
            "div",
            &[("class", &class), ("role", &"img"), ("tabindex", &0), ("aria-label", &words(figure, panel))],
        );
        match panel.kind {
            Kind::Curves => plane::curves(&mut out, figure, panel, &alike),
            Kind::Points => plane::points(&mut out, figure, panel, &alike),
            Kind::Course => plane::course(&mut out, figure, panel),
            Kind::Grid => grid::draw(&mut out, figure, panel),
            Kind::Levels | Kind::Ratios | Kind::Dots | Kind::Bars => lines::draw(&mut out, figure, panel, &alike),
        }
        out.close("div");
        Drawn { title: panel.title.clone(), markup: out.finish() }
    };
    figure.panels.iter().map(draw).collect()
}

/// Text for screen readers.
fn words(figure: &Figure, panel: &Panel) -> String {
    let title = if panel.title.is_empty() { String::new() } else { format!(", {}", panel.title) };
    let series: Vec<&str> = panel.series.iter().map(|s| s.name.as_str()).collect();
    let lines = panel.lines.iter().filter(|l| !l.says.is_empty()).map(|l| format!("; {}: {}", l.name, l.says));
    format!(
        "{}{title}: {}; {}{}. Arrow keys select the marks.",
        figure.title,
        plural(panel.marks(), "mark"),
        series.join(", "),
        lines.take(LINES_SAID).collect::<String>()
    )
}

/// Further lines appear only in the table.
const LINES_SAID: usize = 12;

fn extent(figure: &Figure, panels: &[&Panel], columns: impl Fn(&Panel) -> Vec<Option<usize>>) -> Extent {
    let rows = |p: &Panel| p.series.iter().flat_map(|s| s.rows.clone()).collect::<Vec<_>>();
    let of = |p: &&Panel| {
        let columns = columns(p);
        rows(p).into_iter().flat_map(move |row| columns.clone().into_iter().map(move |c| (row, c))).collect::<Vec<_>>()
    };
    Extent::of(panels.iter().flat_map(of).filter_map(|(row, column)| figure.number(row, column)))
}

/// A number next to its mark.
fn text(x: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => span(x),
        Unit::Share => percent(x),
        Unit::Ratio => format!("×{}", three_digits(x)),
        Unit::Number if x < 1000.0 => per_io(x),
        Unit::Number => count(x),
        Unit::PerSecond | Unit::Text if x < 1000.0 => count(x.round()),
        Unit::PerSecond | Unit::Text => count(x),
    }
}

pub fn known(x: Option<f64>, unit: Unit) -> String {
    x.map_or(UNKNOWN.into(), |x| text(x, unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::figure::{Axis, Column, Line, Place, Scale as Wanted};
    use serde_json::json;

    fn of(kind: Kind, names: &[&str]) -> String {
        let x = Axis::new("latency", Unit::Ns, Wanted::Log);
        let mut panel = Panel::new("", kind, x, Axis::new("share", Unit::Share, Wanted::Log));
        (panel.x_column, panel.y_column) = (Some(0), Some(1));
        let mut rows = Vec::new();
        for (at, name) in names.iter().enumerate() {
            panel.lines.push(Line { name: (*name).to_owned(), ..Line::default() });
            for (ns, slower) in [(1e5, 1.0), (3e5, 0.1), (2e6, 0.01)] {
                panel.series(name, "arm").mark(rows.len(), at);
                rows.push(vec![json!(ns), json!(slower)]);
            }
        }
        let columns = vec![Column::new("latency_ns", Unit::Ns), Column::new("share_slower", Unit::Share)];
        let cells = vec![None; rows.len()];
        let (id, title) = ("x".into(), "T".into());
        let (reads, place) = (String::new(), Place::Open);
        let panels = vec![panel];
        figure(&Figure { id, title, reads, is_of_time: true, place, columns, rows: rows.into(), cells, panels })[0]
            .markup
            .clone()
    }

    #[test]
    fn eleven_arms_do_not_overlap() {
        let names: Vec<String> = (1..=11).map(|i| format!("arm {i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let curves = of(Kind::Curves, &names);
        assert_eq!(curves.matches("<svg class=\"field\"").count(), 11);
        assert_eq!(curves.matches("<path class=\"line arm\"").count(), 11);
        assert_eq!(curves.matches("<path class=\"ghost\"").count(), 10, "the first arm, behind each of the others");
        assert_eq!(of(Kind::Points, &names).matches("<svg class=\"field\"").count(), 11);
        let dots = of(Kind::Dots, &names);
        assert_eq!((dots.matches("class=\"strip\"").count(), dots.matches("<circle").count()), (11, 33));
    }

    #[test]
    fn two_curves_are_labelled_directly() {
        let curves = of(Kind::Curves, &["default", "coop"]);
        assert_eq!(curves.matches("<svg class=\"field\"").count(), 1);
        assert!(curves.contains(">default</text>") && curves.contains(">coop</text>"), "{curves}");
        assert!(curves.contains(">p99</text>") && curves.contains(">1 ms</text>"), "{curves}");
    }

    #[test]
    fn bar_parts_show_their_name_and_size() {
        let bars = of(Kind::Bars, &["<b>"]);
        assert!(bars.contains("&lt;b&gt; </span><strong>2.40 ms</strong>"), "{bars}");
        assert_eq!(bars.matches("<rect").count(), 3);
    }
}
