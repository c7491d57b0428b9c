//! Charts with two numeric axes: latency curves and points. More than two series get one small chart each, so that none
//! hides another; each chart repeats the first series' curve in the background for comparison. A course shows all its
//! levels in one chart.

use super::markup::{Markup, Percent};
use super::{Scale, extent};
use crate::html::figure::{Figure, Panel, Series};

/// Height in pixels.
const HIGH: f64 = 210.0;
const SMALL: f64 = 110.0;
/// Height of charts of points, which are wide.
const FLAT: f64 = 70.0;

/// A point of a curve: x in percent, y in pixels, and its row.
type Point = (f64, f64, usize);

/// A series in its chart's coordinates.
type Curve<'a> = (&'a Series, Vec<Point>);

/// Tick labels: the share of slower I/Os, and the corresponding quantile.
const QUANTILES: [(f64, &str); 5] = [(1.0, "all"), (0.1, "p90"), (0.01, "p99"), (0.001, "p99.9"), (0.0001, "p99.99")];

pub fn curves(out: &mut Markup, figure: &Figure, panel: &Panel, alike: &[&Panel]) {
    let e = extent(figure, alike, |p| vec![p.x_column]);
    let least = extent(figure, alike, |p| vec![p.y_column]).least.min(0.1);
    let x = Scale::new(&panel.x, super::Extent { lo: e.lo, hi: e.hi * 1.1, least: e.least / 1.1 });
    let several = panel.series.len() > 2;
    let height = if several { SMALL } else { HIGH };
    let down = |slower: f64| height * (slower.ln() / (least * 0.9).ln()).clamp(0.0, 1.0);
    let shown = QUANTILES.iter().filter(|(slower, _)| *slower >= least * 0.99);
    let y: Vec<(f64, String)> = shown.map(|(slower, name)| (down(*slower), (*name).to_owned())).collect();
    let curve = |s: &Series| -> Vec<Point> {
        let at = |row: &usize| Some((figure.number(*row, panel.x_column)?, figure.number(*row, panel.y_column)?, *row));
        s.rows.iter().filter_map(at).map(|(ns, slower, row)| (x.of(ns), down(slower), row)).collect()
    };
    let all: Vec<Curve<'_>> = panel.series.iter().map(|s| (s, curve(s))).collect();
    let chart = |out: &mut Markup, title: &str, own: &[usize], ghost: Option<usize>| {
        framed(out, title, height, &x, &y, |out| {
            out.open(
                "svg",
                &[
                    ("viewBox", &format!("0 0 1000 {height}")),
                    ("preserveAspectRatio", &"none"),
                    ("width", &"100%"),
                    ("height", &height),
                ],
            );
            if let Some(i) = ghost {
                path(out, "ghost", &all[i].1);
            }
            for i in own {
                path(out, &format!("line {}", all[*i].0.class), &all[*i].1);
            }
            out.close("svg");
            own.iter().for_each(|i| spots(out, all[*i].0.class, &all[*i].1, &y));
            if let [a, b] = own {
                labels(out, [&all[*a], &all[*b]], height);
            }
        });
    };
    out.open("div", &[("class", &"charts")]);
    match (&all[..], several) {
        ([one], _) => chart(out, name(one.0), &[0], None),
        (_, false) => chart(out, "", &[0, 1], None),
        (_, true) => {
            for i in 0..all.len() {
                let beside = if i == 0 { String::new() } else { format!(" (grey: {})", all[0].0.name) };
                chart(out, &format!("{}{beside}", all[i].0.name), &[i], (i > 0).then_some(0));
            }
        }
    }
    out.close("div");
    caption(out, panel);
}

pub fn points(out: &mut Markup, figure: &Figure, panel: &Panel, alike: &[&Panel]) {
    let x = Scale::new(&panel.x, extent(figure, alike, |p| vec![p.x_column]));
    let y = Scale::new(&panel.y, extent(figure, alike, |p| vec![p.y_column]));
    let down = |at: f64| FLAT * (1.0 - at / 100.0);
    let ticks: Vec<(f64, String)> =
        y.ticks.iter().filter(|t| !t.is_spare).map(|t| (down(t.at), t.text.clone())).collect();
    out.open("div", &[("class", &"charts")]);
    for series in &panel.series {
        framed(out, name(series), FLAT, &x, &ticks, |out| {
            let of = |(row, a, b)| (x.of(a), down(y.of(b)), row);
            circles(out, series.class, placed(figure, panel, series).map(of));
        });
    }
    out.close("div");
    caption(out, panel);
}

/// Each series is a level: its points, and a horizontal line at their geometric mean.
pub fn course(out: &mut Markup, figure: &Figure, panel: &Panel) {
    let x = Scale::new(&panel.x, extent(figure, &[panel], |p| vec![p.x_column]));
    let y = Scale::new(&panel.y, extent(figure, &[panel], |p| vec![p.y_column]));
    let down = |at: f64| SMALL * (1.0 - at / 100.0);
    let ticks: Vec<(f64, String)> =
        y.ticks.iter().filter(|t| !t.is_spare).map(|t| (down(t.at), t.text.clone())).collect();
    out.open("div", &[("class", &"charts")]);
    framed(out, "", SMALL, &x, &ticks, |out| {
        for series in &panel.series {
            let points: Vec<_> = placed(figure, panel, series).collect();
            if let ([(_, first, _), ..], [.., (_, last, _)]) = (&points[..], &points[..]) {
                let mean = (points.iter().map(|(.., b)| b.ln()).sum::<f64>() / points.len() as f64).exp();
                let at = (down(y.of(mean)) * 10.0).round() / 10.0;
                let (x1, x2) = (Percent(x.of(*first)), Percent(x.of(*last)));
                let class = format!("across {}", series.class);
                out.empty("line", &[("class", &class), ("x1", &x1), ("x2", &x2), ("y1", &at), ("y2", &at)]);
            }
            circles(out, series.class, points.into_iter().map(|(row, a, b)| (x.of(a), down(y.of(b)), row)));
        }
    });
    out.close("div");
    caption(out, panel);
}

/// The rows of a series with both numbers known.
fn placed<'a>(
    figure: &'a Figure,
    panel: &'a Panel,
    series: &'a Series,
) -> impl Iterator<Item = (usize, f64, f64)> + 'a {
    let at = |row: &usize| Some((*row, figure.number(*row, panel.x_column)?, figure.number(*row, panel.y_column)?));
    series.rows.iter().filter_map(at)
}

fn circles(out: &mut Markup, class: &str, points: impl Iterator<Item = Point>) {
    let class = format!("point {class}");
    for (x, y, row) in points {
        let (cx, cy) = (Percent(x), (y * 10.0).round() / 10.0);
        out.empty("circle", &[("class", &class), ("data-row", &row), ("cx", &cx), ("cy", &cy), ("r", &3.5)]);
    }
}

fn name(series: &Series) -> &str {
    if series.name == "measured" { "" } else { &series.name }
}

/// The titles of the axes.
fn caption(out: &mut Markup, panel: &Panel) {
    out.text("span", &[("class", &"caption")], &format!("→ {} · ↑ {}", panel.x.title, panel.y.title));
}

/// A chart with its axes; `inside` draws its content, with x in percent and y in pixels.
fn framed(
    out: &mut Markup,
    title: &str,
    height: f64,
    x: &Scale,
    y: &[(f64, String)],
    inside: impl FnOnce(&mut Markup),
) {
    out.open("div", &[("class", &"chart")]);
    if !title.is_empty() {
        out.text("span", &[("class", &"of")], title);
    }
    out.open("svg", &[("class", &"field"), ("height", &(height + 20.0))]);
    for tick in &x.ticks {
        let at = Percent(tick.at);
        out.empty("line", &[("class", &"g"), ("x1", &at), ("x2", &at), ("y2", &height)]);
        let class = if tick.is_spare { "tick spare" } else { "tick" };
        out.text("text", &[("class", &class), ("x", &at), ("y", &(height + 15.0))], &tick.text);
    }
    for (down, text) in y {
        let down = down.round();
        out.empty("line", &[("class", &"g"), ("x2", &"100%"), ("y1", &down), ("y2", &down)]);
        out.text("text", &[("class", &"tick left"), ("x", &-6), ("y", &(down + 4.0))], text);
    }
    inside(out);
    out.close("svg");
    out.close("div");
}

fn path(out: &mut Markup, class: &str, points: &[Point]) {
    use std::fmt::Write as _;
    let mut d = String::new();
    for (i, (x, y, _)) in points.iter().enumerate() {
        let step = if i == 0 { 'M' } else { 'L' };
        write!(d, "{step}{:.0} {:.1}", x * 10.0, y).expect("writing to a string cannot fail");
    }
    out.empty("path", &[("class", &class), ("d", &d)]);
}

/// Selectable points where a curve crosses its grid lines.
fn spots(out: &mut Markup, class: &str, points: &[Point], y: &[(f64, String)]) {
    let class = format!("spot {class}");
    for (down, _) in y {
        let Some((x, at, row)) = points.iter().find(|(_, at, _)| *at >= down - 0.5) else { continue };
        out.empty(
            "circle",
            &[("class", &class), ("data-row", row), ("cx", &Percent(*x)), ("cy", &at.round()), ("r", &4)],
        );
    }
}

/// Width of a label next to a curve, in percent.
const ROOM: f64 = 30.0;
/// Half the height of a label, in pixels.
const HALF: f64 = 9.0;

/// Position of a curve's label, and whether the label ends there instead of starting there.
type Label = (f64, bool);

/// Where a segment crosses a height.
fn crossing(from: &Point, to: &Point, down: f64) -> Option<f64> {
    let ((x0, y0, _), (x1, y1, _)) = (from, to);
    (*y0 <= down && down <= *y1 && y1 > y0).then(|| x0 + (x1 - x0) * (down - y0) / (y1 - y0))
}

/// Labels two curves where they are farthest apart.
fn labels(out: &mut Markup, two: [&Curve<'_>; 2], height: f64) {
    let at = |i: usize, down: f64| two[i].1.windows(2).find_map(|s| crossing(&s[0], &s[1], down));
    // Curves fall, so a label on the right must clear the curve at the label's top, and a label on the left at its
    // bottom.
    let beside = |i: usize, down: f64| Some((at(i, down - HALF)?, at(i, down + HALF)?));
    let mut best: Option<(f64, f64, [Label; 2])> = None;
    for (step, left) in (2..20).flat_map(|step| [(step, 0), (step, 1)]) {
        let down = height * f64::from(step) / 20.0;
        let (Some((l0, l1)), Some((r0, r1))) = (beside(left, down), beside(1 - left, down)) else { continue };
        let gap = r0 - l1;
        let places = match () {
            () if gap < 0.0 => continue,
            () if l0 >= ROOM && r1 <= 100.0 - ROOM => [(l0, true), (r1, false)],
            () if l0 >= ROOM && gap >= ROOM => [(l0, true), (r0, true)],
            () if r1 <= 100.0 - ROOM && gap >= ROOM => [(l1, false), (r1, false)],
            () if gap >= 2.0 * ROOM => [(l1, false), (r0, true)],
            () => continue,
        };
        if best.is_none_or(|(g, ..)| gap > g) {
            let [l, r] = places;
            best = Some((gap, down, if left == 0 { [l, r] } else { [r, l] }));
        }
    }
    // Without enough space, the names go into the corner that falling curves leave empty.
    let (down, places, step) = match best {
        Some((_, down, places)) => (down + 4.0, places, 0.0),
        None => (14.0, [(99.0, true), (99.0, true)], 16.0),
    };
    for (i, ((series, _), (x, ends))) in two.into_iter().zip(places).enumerate() {
        let class = format!("label {} {}", if ends { "end" } else { "start" }, series.class);
        let (aside, y) = (if ends { -8 } else { 8 }, down + step * i as f64);
        out.text("text", &[("class", &class), ("x", &Percent(x)), ("dx", &aside), ("y", &y)], &series.name);
    }
}
