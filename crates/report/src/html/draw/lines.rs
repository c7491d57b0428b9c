//! One line per name: the name, its marks on a shared axis, and the result in words.

use super::markup::{Markup, Percent};
use super::{Extent, Scale, extent, known, text};
use crate::html::figure::{Figure, Kind, Panel, Unit};

/// A mark of a line.
struct Mark {
    row: usize,
    class: &'static str,
    series: usize,
}

pub fn draw(out: &mut Markup, figure: &Figure, panel: &Panel, alike: &[&Panel]) {
    let scale = scale(figure, panel, alike);
    grid(out, &scale, panel.kind == Kind::Ratios);
    head(out, panel, &scale);
    for (i, line) in panel.lines.iter().enumerate() {
        let mut marks = Vec::new();
        for (series, s) in panel.series.iter().enumerate() {
            let here = s.rows.iter().zip(&s.at).filter(|(_, at)| **at == i);
            marks.extend(here.map(|(row, _)| Mark { row: *row, class: s.class, series }));
        }
        out.text("span", &[("class", &"name")], &line.name);
        out.open("svg", &[("class", &"strip")]);
        match panel.kind {
            Kind::Bars => bar(out, figure, panel, &scale, &marks),
            _ => {
                marks.iter().for_each(|mark| dot(out, figure, panel, &scale, mark));
                for x in &line.across {
                    let x = Percent(scale.of(*x));
                    let (y1, y2) = if panel.kind == Kind::Dots { ("12%", "88%") } else { ("25%", "75%") };
                    out.empty("line", &[("class", &"across"), ("x1", &x), ("x2", &x), ("y1", &y1), ("y2", &y2)]);
                }
            }
        }
        out.close("svg");
        let says = match (line.says.is_empty(), panel.kind, &marks[..]) {
            (true, Kind::Levels | Kind::Ratios, [one]) => known(figure.number(one.row, panel.x_column), panel.x.unit),
            _ => line.says.clone(),
        };
        out.text("span", &[("class", &"says")], &says);
        if panel.kind == Kind::Bars {
            parts(out, figure, panel, &marks);
        }
    }
}

fn scale(figure: &Figure, panel: &Panel, alike: &[&Panel]) -> Scale {
    if panel.kind == Kind::Bars && panel.x.unit != Unit::Share {
        let most = alike.iter().flat_map(|p| (0..p.lines.len()).map(move |at| sum(figure, p, at))).fold(0.0, f64::max);
        return Scale::from_0(most, panel.x.unit);
    }
    // Each metric has its own scale.
    let alike = if panel.kind == Kind::Ratios { &[panel][..] } else { alike };
    let marks = extent(figure, alike, |p| vec![p.x_column, p.lo_column, p.hi_column]);
    let middles = Extent::of(alike.iter().flat_map(|p| p.lines.iter().flat_map(|l| l.across.clone())));
    let all =
        Extent { lo: marks.lo.min(middles.lo), hi: marks.hi.max(middles.hi), least: marks.least.min(middles.least) };
    Scale::new(&panel.x, all)
}

fn sum(figure: &Figure, panel: &Panel, at: usize) -> f64 {
    let rows = panel.series.iter().flat_map(|s| s.rows.iter().zip(&s.at));
    rows.filter(|(_, place)| **place == at).filter_map(|(row, _)| figure.number(*row, panel.x_column)).sum()
}

/// Drawn behind all lines.
fn grid(out: &mut Markup, scale: &Scale, of_ratios: bool) {
    out.open("svg", &[("class", &"grid")]);
    for tick in &scale.ticks {
        let at = Percent(tick.at);
        let class = if of_ratios && tick.text == "1" { "one" } else { "g" };
        out.empty("line", &[("class", &class), ("x1", &at), ("x2", &at), ("y1", &18), ("y2", &"100%")]);
    }
    out.close("svg");
}

fn head(out: &mut Markup, panel: &Panel, scale: &Scale) {
    let log = if scale.is_log() && panel.x.unit != Unit::Ratio { "log scale" } else { "" };
    let words = [panel.y.title.as_str(), log].into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>();
    out.text("span", &[("class", &"name head")], &words.join(", "));
    out.open("svg", &[("class", &"axis")]);
    for tick in &scale.ticks {
        let class = if tick.is_spare { "tick spare" } else { "tick" };
        out.text("text", &[("class", &class), ("x", &Percent(tick.at)), ("y", &13)], &tick.text);
    }
    out.close("svg");
    out.text("span", &[("class", &"says head")], "");
}

fn dot(out: &mut Markup, figure: &Figure, panel: &Panel, scale: &Scale, mark: &Mark) {
    let at = |column| figure.number(mark.row, column).map(|x| Percent(scale.of(x)));
    let Some(x) = at(panel.x_column) else { return };
    if let (Some(lo), Some(hi)) = (at(panel.lo_column), at(panel.hi_column)) {
        let class = format!("ci {}", mark.class);
        out.empty("line", &[("class", &class), ("x1", &lo), ("x2", &hi), ("y1", &"50%"), ("y2", &"50%")]);
    }
    let (class, r) = (format!("point {}", mark.class), if panel.kind == Kind::Dots { 3.5 } else { 5.0 });
    out.empty("circle", &[("class", &class), ("data-row", &mark.row), ("cx", &x), ("cy", &"50%"), ("r", &r)]);
}

/// A stacked bar.
fn bar(out: &mut Markup, figure: &Figure, panel: &Panel, scale: &Scale, marks: &[Mark]) {
    let mut sum = 0.0;
    for mark in marks {
        let part = figure.number(mark.row, panel.x_column).unwrap_or(0.0);
        let (from, to) = (scale.of(sum), scale.of(sum + part));
        sum += part;
        let (class, width) = (format!("bar {}", mark.class), Percent((to - from).max(0.2)));
        out.empty(
            "rect",
            &[
                ("class", &class),
                ("data-row", &mark.row),
                ("x", &Percent(from)),
                ("width", &width),
                ("y", &"14%"),
                ("height", &"72%"),
            ],
        );
    }
}

/// Smaller parts appear only in the table.
const SHOWN: f64 = 0.005;

/// Name, size and colour of each part, below its bar.
fn parts(out: &mut Markup, figure: &Figure, panel: &Panel, marks: &[Mark]) {
    let of = |series: usize| {
        let here = marks.iter().filter(|m| m.series == series);
        here.filter_map(|m| figure.number(m.row, panel.x_column)).sum::<f64>()
    };
    let total: f64 = (0..panel.series.len()).map(of).sum();
    out.open("span", &[("class", &"parts")]);
    for (i, series) in panel.series.iter().enumerate() {
        let value = of(i);
        if value > 0.0 && value >= SHOWN * total {
            out.open("span", &[("class", &format!("part {}", series.class))]);
            out.text("span", &[], &format!("{} ", series.name));
            out.text("strong", &[], &text(value, panel.x.unit));
            out.close("span");
        }
    }
    out.close("span");
}
