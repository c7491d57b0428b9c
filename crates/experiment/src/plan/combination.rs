//! Combinations of parameters: one point per axis.

use serde_json::{Map, Value};

use crate::file::{Options, Point, Scale, overlay, to_json};
use crate::load::Kind;
use iotrail_base::error::{Error, Result};
use iotrail_schema::run_record::value_text;

/// One point per axis, with the axis name.
pub(super) type Combination<'a> = [(&'a str, &'a Point)];

/// Calls `f` for every combination; the last axis varies fastest.
pub(super) fn each_combination(scale: &Scale, f: &mut dyn FnMut(&Combination<'_>) -> Result<()>) -> Result<()> {
    let mut at = vec![0; scale.axes.len()];
    loop {
        let points: Vec<(&str, &Point)> =
            scale.axes.iter().zip(&at).map(|(a, &i)| (a.name.as_str(), &a.points[i])).collect();
        f(&points)?;
        let mut axis = at.len();
        loop {
            if axis == 0 {
                return Ok(());
            }
            axis -= 1;
            at[axis] += 1;
            if at[axis] < scale.axes[axis].points.len() {
                break;
            }
            at[axis] = 0;
        }
    }
}

/// A combination's options: the fixed options, overridden by those of each point. Points do not override each other.
pub(super) fn merged(scale: &Scale, points: &Combination<'_>) -> Options {
    let set = points.iter().flat_map(|(_, point)| point.options.clone()).collect();
    let mut options = scale.load.clone();
    overlay(&mut options, &set);
    options
}

pub(super) fn label(params: &Map<String, Value>, axes: &Combination<'_>) -> String {
    let one = |(name, _): &(&str, &Point)| format!("{name} {}", value_text(&params[*name]));
    axes.iter().map(one).collect::<Vec<_>>().join(" · ")
}

pub(super) fn refuse_combination(kind: Kind, points: &Combination<'_>, why: &dyn std::fmt::Display) -> Error {
    let params = params(points);
    let what = format!("the combination '{}' is impossible: {why}", label(&params, points));
    Error { place: place(points), ..Error::input(what, kind.remedy()) }
}

/// Same as [`refuse_combination`], for an error with a remedy of its own.
pub(super) fn refuse_in(points: &Combination<'_>, e: Error) -> Error {
    Error { place: place(points), what: format!("{}: {}", label(&params(points), points), e.what), ..e }
}

/// A combination's last point is its arm.
fn place(points: &Combination<'_>) -> Option<String> {
    points.last().map(|(_, point)| point.at.clone())
}

pub(super) fn params(points: &Combination<'_>) -> Map<String, Value> {
    points.iter().map(|(name, p)| ((*name).to_owned(), to_json(&p.value))).collect()
}
