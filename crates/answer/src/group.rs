//! Layout of a run's cells: groups that vary in a single parameter, one row per value, with the row's arms side by
//! side.

use serde_json::Value;

use iotrail_base::grouped::grouped;
use iotrail_base::words::span;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{DeliveryPathCount, Measurement};
use iotrail_schema::run_record::{ARM, CONTROL, CellRecord, RunRecord, VARIANT, value_text};

/// Cells that agree in all parameters except the arm and the row parameter.
pub struct Group<'a> {
    /// `cpus irq · wait peek`; empty if there is one group.
    pub title: String,
    pub rows: Vec<Row<'a>>,
}

/// Cells that differ only in the arm, in arm order.
pub struct Row<'a> {
    /// The row parameter's value; empty without a row parameter.
    pub value: String,
    pub cells: Vec<&'a CellRecord>,
}

/// The row parameter of a table: the parameter with the most values, the later one on a tie. If another parameter
/// varies, variants are groups instead of rows, because they differ in more than one option.
pub fn row_axis(run: &RunRecord) -> Option<&str> {
    let axes = run.axes.iter().filter(|a| *a != ARM);
    axes.max_by_key(|a| {
        let values = run.values(a).len();
        (values > 1 && *a != VARIANT, values)
    })
    .map(String::as_str)
}

/// A parameter's value in its usual notation, with the option's unit.
fn text(axis: &str, value: &Value) -> String {
    match (axis, value.as_f64()) {
        ("think", Some(0.0)) => "none".into(),
        ("think", Some(ns)) => span(ns),
        _ => value_text(value),
    }
}

/// All cells except the control arm's, in plan order. `rows`: the row parameter; without it, each group is a single
/// row.
pub fn groups<'a>(run: &'a RunRecord, rows: Option<&str>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for cell in run.cells.iter().filter(|c| c.arm() != CONTROL) {
        let text = |axis: &str| cell.params.get(axis).map(|v| text(axis, v)).unwrap_or_default();
        let shared = run.axes.iter().filter(|a| *a != ARM && Some(a.as_str()) != rows);
        let title = shared.map(|a| format!("{a} {}", text(a))).collect::<Vec<_>>().join(" · ");
        let value = rows.map(text).unwrap_or_default();
        let group = match groups.iter().position(|g| g.title == title) {
            Some(i) => &mut groups[i],
            None => {
                groups.push(Group { title, rows: Vec::new() });
                let last = groups.len() - 1;
                &mut groups[last]
            }
        };
        match group.rows.iter_mut().find(|r| r.value == value) {
            Some(row) => row.cells.push(cell),
            None => group.rows.push(Row { value, cells: vec![cell] }),
        }
    }
    groups
}

/// Each delivery path's share of the completions of all repeats, largest first; empty if nothing was traced.
pub fn vehicle_shares(measurements: &[Measurement]) -> Vec<(DeliveryPath, f64)> {
    shares_of(measurements.iter().flat_map(|m| &m.vehicles))
}

/// Share of each delivery path, the largest first.
pub fn shares_of<'a>(vehicles: impl IntoIterator<Item = &'a DeliveryPathCount>) -> Vec<(DeliveryPath, f64)> {
    let counts = grouped(vehicles.into_iter().map(|v| (v.vehicle, v.completions))).into_iter();
    let mut shares: Vec<(DeliveryPath, u64)> =
        counts.map(|(v, n)| (v, n.iter().sum())).filter(|(_, n)| *n > 0).collect();
    let total: u64 = shares.iter().map(|(_, n)| n).sum();
    shares.sort_by_key(|(vehicle, n)| (std::cmp::Reverse(*n), *vehicle));
    shares.into_iter().map(|(v, n)| (v, n as f64 / total as f64)).collect()
}

/// Cells that this host could not run, grouped by reason: (reason, their common parameters, number of cells).
pub fn untestable(run: &RunRecord) -> Vec<(String, String, usize)> {
    let cells = run.cells.iter().filter(|c| c.arm() != CONTROL);
    let reasons = grouped(cells.filter_map(|c| Some((c.untestable.clone()?, c))));
    let common = |cells: &[&CellRecord]| {
        let same = |axis: &&String| {
            let of = |c: &CellRecord| c.params.get(axis.as_str()).cloned().unwrap_or(Value::Null);
            run.values(axis).len() > 1 && cells.iter().all(|c| of(c) == of(cells[0]))
        };
        let text = |axis: &String| cells[0].params.get(axis).map(|v| format!("{axis} {}", self::text(axis, v)));
        run.axes.iter().filter(same).filter_map(text).collect::<Vec<_>>().join(" · ")
    };
    reasons.into_iter().map(|(reason, cells)| (reason, common(&cells), cells.len())).collect()
}
