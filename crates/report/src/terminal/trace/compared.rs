//! A comparison of two traces.

use crate::terminal::layout::{Cell, Column, Screen, cut};
use crate::terminal::style::{Hue, Style};
use iotrail_answer::trace_comparison::{FigureChange, FindingChange, TraceComparison, in_order};
use iotrail_answer::traced::label;
use iotrail_base::distinct::distinct;
use iotrail_base::words::{UNKNOWN, list, plural, span};

/// Maximum number of lines per part without `--full`.
const FINDINGS: usize = 2;
const TIME: usize = 3;
const COUNTS: usize = 4;
const LATENCIES: usize = 2;

/// `again`: the command that prints the full comparison.
pub fn screen(c: &TraceComparison, full: bool, again: &str, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let o = &mut out;
    o.heading(&c.answer);
    let most = |n: usize| if full { usize::MAX } else { n };
    let mut left_out = 0;
    for (label, all) in [("  new   ", &c.came), ("  gone  ", &c.went)] {
        for FindingChange { code, text } in all.iter().take(most(FINDINGS)) {
            let text = format!("{code}: {text}");
            o.paragraph(label, &if full { text } else { cut(&text, 140) });
        }
        left_out += all.len().saturating_sub(most(FINDINGS));
    }
    if full && !c.stayed.is_empty() {
        o.paragraph("  both  ", &list(&c.stayed));
    }
    left_out += table(o, "share of", &c.account.iter().collect::<Vec<_>>(), most(TIME), c, &|_| "");
    left_out += table(o, "count of", &in_order(&c.counts), most(COUNTS), c, &|change| match change.changed {
        Some(true) => "",
        _ => "within the interval",
    });
    left_out += latencies(o, c, most(LATENCIES));
    o.blank();
    o.paragraph("", "Shares of time and latencies come from one trace each and have no verdict.");
    if left_out > 0 {
        o.paragraph("", &format!("details: {again} --full ({} more)", plural(left_out, "line")));
    }
    out
}

/// Returns the number of omitted lines.
fn table(
    o: &mut Screen,
    of: &str,
    all: &[&FigureChange],
    most: usize,
    c: &TraceComparison,
    remark: &dyn Fn(&FigureChange) -> &'static str,
) -> usize {
    if all.is_empty() {
        return 0;
    }
    o.blank();
    let columns = [
        Column::named(of, 38, false),
        Column::named(&c.a, 9, true),
        Column::named(&c.b, 9, true),
        Column::words("", 19),
    ];
    let row = |change: &&FigureChange| -> Vec<Cell> {
        let hue = (change.changed.is_none() && !remark(change).is_empty()).then_some(Hue::Doubt);
        vec![
            cut(&label(&change.scope, &change.figure), 38).into(),
            change.a_text.clone().into(),
            change.b_text.clone().into(),
            Cell::from(remark(change)).in_hue(hue),
        ]
    };
    o.table(&columns, all.iter().take(most).map(row).collect());
    all.len().saturating_sub(most)
}

/// The entire trace on the first line, then one line per opcode.
fn latencies(o: &mut Screen, c: &TraceComparison, most: usize) -> usize {
    let scopes = distinct(c.latency.iter().map(|l| l.scope.as_str()));
    let of = |scope: &str, figure: &str| {
        let found = c.latency.iter().find(|l| l.scope == scope && l.figure == figure);
        let text = |x: Option<f64>| x.map_or(UNKNOWN.to_owned(), span);
        found.map_or([UNKNOWN.to_owned(), UNKNOWN.to_owned()], |l| [text(l.a), text(l.b)])
    };
    let row = |scope: &&str| {
        let name = scope.strip_prefix("opcode.").unwrap_or("all requests").to_owned();
        let [p50_a, p50_b] = of(scope, "latency_p50");
        let [p99_a, p99_b] = of(scope, "latency_p99");
        vec![name, p50_a, p50_b, p99_a, p99_b]
    };
    if scopes.is_empty() {
        return 0;
    }
    let head = |quantile: &str, name: &str| format!("{quantile} {}", cut(name, 7));
    let names = [head("p50", &c.a), head("p50", &c.b), head("p99", &c.a), head("p99", &c.b)];
    let numbers = names.iter().map(|name| Column::named(name, 11, true));
    let columns: Vec<Column> = std::iter::once(Column::words("latency of", 22)).chain(numbers).collect();
    o.blank();
    o.table(&columns, scopes.iter().take(most).map(row).collect());
    scopes.len().saturating_sub(most)
}
