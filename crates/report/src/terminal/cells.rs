//! The table of a group of cells: medians over the repeats, or every measurement.

use super::layout::{Cell, Column, Screen};
use iotrail_answer::group::Group;
use iotrail_answer::table::{self, Table};
use iotrail_schema::run_record::RunRecord;

pub fn of_group(out: &mut Screen, run: &RunRecord, group: &Group<'_>, rows: Option<&str>) {
    let table = Table::of(run);
    let shown = table.columns(run);
    let mut columns = Vec::new();
    if table.row > 0 {
        columns.push(Column::named(rows.unwrap_or(""), table.row, table.row < 10));
    }
    columns.push(Column::words("arm", table.arm));
    columns.extend(table.each_run.then(|| Column::number("run", 3)));
    columns.extend(shown.iter().map(column));
    let mut lines = Vec::new();
    for row in &group.rows {
        for (i, cell) in row.cells.iter().enumerate() {
            let value = (table.row > 0).then(|| Cell::from(if i == 0 { row.value.as_str() } else { "" }));
            let all = cell.measurements.all();
            if all.is_empty() && (cell.untestable.is_some() || table.each_run) {
                let why = cell.untestable.as_ref().map(|_| "untested");
                let arm = Cell::lines([cell.arm()].into_iter().chain(why));
                lines.push(value.into_iter().chain([arm]).collect());
                continue;
            }
            if !table.each_run {
                let figures = shown.iter().map(|c| Cell::lines(c.lines(&all)));
                lines.push(value.into_iter().chain([cell.arm().into()]).chain(figures).collect());
                continue;
            }
            for (repeat, m) in all.chunks(1).enumerate() {
                let arm = if repeat == 0 { cell.arm() } else { "" };
                let figures = shown.iter().map(|c| Cell::lines(c.lines(m)));
                lines.push(
                    [arm.into(), (repeat + 1).to_string().into()].into_iter().chain(figures).collect::<Vec<Cell>>(),
                );
            }
        }
    }
    out.table(&columns, lines);
}

fn column(of: &table::Column) -> Column {
    if of.is_number() { Column::number(of.heading, of.width) } else { Column::words(of.heading, of.width) }
}
