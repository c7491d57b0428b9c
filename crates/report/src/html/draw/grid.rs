//! A heat map with one row per name and one field per column. Series determine the colour; ratios farther from 1 are
//! stronger. Fields that are wide enough show the ratio.

use super::markup::{Markup, Percent};
use crate::html::figure::{Figure, Panel};
use iotrail_base::words::three_digits;

/// Up to this number of columns, fields are wide enough for numbers, and headings may have this many letters.
const WITH_NUMBERS: usize = 12;
const WITH_NAMES: usize = 6;
const LETTERS: usize = 15;

/// Opacity of the weakest and the strongest field.
const WEAKEST: f64 = 0.18;
const STRONGEST: f64 = 0.6;
/// Factors of at least this size get full strength. With a limit of 10, differences of a few percent would look alike.
const MOST: f64 = 2.0;

pub fn draw(out: &mut Markup, figure: &Figure, panel: &Panel) {
    let columns = panel.heads.len().max(1);
    let numbered = columns > WITH_NAMES || panel.heads.iter().any(|h| h.chars().count() > LETTERS);
    let wide = 100.0 / columns as f64;
    head(out, panel, numbered, wide);
    let all = panel.series.iter().flat_map(|s| &s.rows);
    let size = |row: usize| figure.number(row, panel.y_column).filter(|r| *r > 0.0).map_or(0.0, |r| r.ln().abs());
    let most = all.map(|row| size(*row)).fold(0.0, f64::max).min(MOST.ln());
    for (i, line) in panel.lines.iter().enumerate() {
        out.text("span", &[("class", &"name")], &line.name);
        out.open("svg", &[("class", &"strip")]);
        for series in &panel.series {
            let here = series.rows.iter().zip(&series.at).filter(|(_, at)| **at == i);
            for (row, _) in here {
                let Some(column) = figure.number(*row, panel.x_column) else { continue };
                let strength = if most > 0.0 { (size(*row) / most).min(1.0) } else { 0.0 };
                let opacity = WEAKEST + (STRONGEST - WEAKEST) * strength;
                let opacity = (opacity * 100.0).round() / 100.0;
                out.empty(
                    "rect",
                    &[
                        ("class", &format!("tile {}", series.class)),
                        ("data-row", row),
                        ("x", &Percent(wide * column)),
                        ("width", &Percent(wide)),
                        ("y", &"4%"),
                        ("height", &"92%"),
                        ("fill-opacity", &opacity),
                    ],
                );
                if let Some(ratio) = figure.number(*row, panel.y_column).filter(|_| columns <= WITH_NUMBERS) {
                    let x = Percent(wide * (column + 0.5));
                    out.text("text", &[("class", &"in"), ("x", &x), ("y", &"50%"), ("dy", &".35em")], &short(ratio));
                }
            }
        }
        out.close("svg");
        out.text("span", &[("class", &"says")], &line.says);
    }
    if numbered {
        let names: Vec<String> = panel.heads.iter().enumerate().map(|(i, name)| format!("{}: {name}", i + 1)).collect();
        out.text("span", &[("class", &"key")], &names.join(" · "));
    }
}

fn head(out: &mut Markup, panel: &Panel, numbered: bool, wide: f64) {
    out.text("span", &[("class", &"name head")], &panel.y.title);
    out.open("svg", &[("class", &"axis")]);
    for (i, name) in panel.heads.iter().enumerate() {
        let x = Percent(wide * (i as f64 + 0.5));
        let number = (i + 1).to_string();
        out.text("text", &[("class", &"tick"), ("x", &x), ("y", &13)], if numbered { &number } else { name });
    }
    out.close("svg");
    out.text("span", &[("class", &"says head")], &panel.x.title);
}

/// `+12 %`, `−30 %`, `×4.5`.
fn short(ratio: f64) -> String {
    match ratio {
        r if !(0.5..2.0).contains(&r) => format!("×{}", three_digits(r)),
        r if r >= 1.0 => format!("+{:.0} %", (r - 1.0) * 100.0),
        r => format!("−{:.0} %", (1.0 - r) * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_cells_show_their_difference_from_1() {
        assert_eq!([short(1.124), short(0.7), short(4.53), short(0.068)], ["+12 %", "−30 %", "×4.53", "×0.068"]);
    }
}
