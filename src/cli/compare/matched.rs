//! Pairs the cells of both sides: those whose parameters agree, apart from fixed ones.

use serde_json::{Map, Value};

use super::given::{Cell, Input};
use iotrail_base::error::{Error, Result};
use iotrail_schema::run_record::value_text;

pub struct Matched<'a> {
    pub pairs: Vec<Pair<'a>>,
    /// Cells without a counterpart, as text.
    pub left_over: Vec<String>,
}

pub struct Pair<'a> {
    pub a: &'a Cell,
    pub b: &'a Cell,
    /// The parameters common to both cells.
    pub at: Map<String, Value>,
}

type Params = Map<String, Value>;

pub fn matched<'a>(a: &'a Input, b: &'a Input) -> Result<Matched<'a>> {
    if a.is_of_one_run_with(b) && a.cells == b.cells {
        return Err(Error::input(
            format!("'{}' and '{}' are the same measurements", a.text, b.text),
            "specify two runs, or select cells of one run: 12:arm=default 12:arm=coop",
        ));
    }
    // If each side has one cell, the user wants to compare them, however they differ.
    if let ([one], [other]) = (&a.cells[..], &b.cells[..]) {
        let shared = one.params.iter().filter(|(name, value)| other.params.get(*name) == Some(value));
        let at = shared.map(|(name, value)| (name.clone(), value.clone())).collect();
        return Ok(Matched { pairs: vec![Pair { a: one, b: other, at }], left_over: Vec::new() });
    }
    let fixed: Vec<&str> = a.fixed.iter().chain(&b.fixed).map(|(name, _)| name.as_str()).collect();
    let key = |cell: &Cell| -> Params {
        cell.params
            .iter()
            .filter(|(name, _)| !fixed.contains(&name.as_str()))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect()
    };
    for side in [a, b] {
        for (i, cell) in side.cells.iter().enumerate() {
            if let Some(twin) = side.cells[..i].iter().find(|c| key(c) == key(cell)) {
                let differ = cell.params.iter().find(|(name, value)| twin.params.get(*name) != Some(value));
                let name = differ.map_or("a parameter", |(name, _)| name);
                return Err(Error::input(
                    format!("'{}' has several values of {name} where the other side has one", side.text),
                    format!(
                        "select one: {}{}{name}={}",
                        side.text,
                        if side.fixed.is_empty() { ":" } else { "," },
                        differ.map_or_else(String::new, |(_, v)| value_text(v))
                    ),
                ));
            }
        }
    }
    let pairs: Vec<Pair<'_>> = (a.cells.iter())
        .filter_map(|one| Some(Pair { a: one, b: b.cells.iter().find(|c| key(c) == key(one))?, at: key(one) }))
        .collect();
    if pairs.is_empty() {
        return Err(Error::input(
            format!("no cell of '{}' has the same parameters as a cell of '{}'", a.text, b.text),
            format!("the first has {}, the second {}", words(&key(&a.cells[0])), words(&key(&b.cells[0]))),
        ));
    }
    let alone = |side: &Input, is_there: &dyn Fn(&Cell) -> bool| {
        let cells: Vec<String> = side.cells.iter().filter(|c| !is_there(c)).map(|c| words(&key(c))).collect();
        (!cells.is_empty()).then(|| format!("only in '{}', and not compared: {}", side.text, cells.join("; ")))
    };
    let left_over = [
        alone(a, &|c| pairs.iter().any(|p| std::ptr::eq(p.a, c))),
        alone(b, &|c| pairs.iter().any(|p| std::ptr::eq(p.b, c))),
    ];
    Ok(Matched { left_over: left_over.into_iter().flatten().collect(), pairs })
}

/// `depth 4, arm coop`
fn words(params: &Params) -> String {
    let all: Vec<String> = params.iter().map(|(name, value)| format!("{name} {}", value_text(value))).collect();
    if all.is_empty() { "no parameters".into() } else { all.join(", ") }
}
