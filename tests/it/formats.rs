//! docs/formats.md: the tables of fields are generated from the printed types and their doc comments, the list of
//! findings from the rules. `IOTRAIL_GOLDEN=1` writes them.

mod source;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use iotrail_answer::diagnose::{Matter, RULES, Rule};

use self::source::{Shape, Source};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("formats::the_tables_in_docs_formats_match_the_types", tables),
    ("formats::each_printed_type_has_a_table", complete),
    ("formats::table_cells_in_docs_formats_are_short", narrow),
];

/// Followed by the types whose tables are generated: `Latency`, or `top_record::VehicleShare=RateShare` for a different
/// title.
const BEGIN: &str = "<!-- types: ";
const END: &str = "<!-- end of types -->";
/// The list of findings.
const RULES_BEGIN: &str = "<!-- rules -->";

/// Maximum number of characters in a table cell.
const CELL: usize = 100;

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/formats.md")
}

/// A type's name in the source, and its title in the document.
#[derive(Clone)]
struct Named {
    name: String,
    title: String,
}

fn listed(line: &str) -> Vec<Named> {
    let names = line.trim_start_matches(BEGIN).trim_end_matches("-->").split_whitespace();
    let one = |word: &str| {
        let (name, title) = word.split_once('=').unwrap_or((word, word));
        Named { name: name.to_owned(), title: title.to_owned() }
    };
    names.map(one).collect()
}

fn all_listed(text: &str) -> Vec<Named> {
    text.lines().filter(|l| l.starts_with(BEGIN)).flat_map(listed).collect()
}

fn tables() -> End {
    let source = Source::read();
    let text = std::fs::read_to_string(document()).expect("docs/formats.md");
    let all = all_listed(&text);
    let (mut made, mut faults) = (String::new(), Vec::new());
    let mut skipping = false;
    for line in text.lines() {
        if line == END {
            skipping = false;
        }
        if skipping {
            continue;
        }
        made += line;
        made.push('\n');
        if line.starts_with(BEGIN) {
            skipping = true;
            listed(line).iter().for_each(|named| made += &section(&source, named, &all, &mut faults));
            made.push('\n');
        } else if line == RULES_BEGIN {
            skipping = true;
            made += &format!("\n{}\n", RULES.iter().map(finding).collect::<String>());
        }
    }
    assert!(
        faults.is_empty(),
        "the first sentence of a doc comment takes 1 to {CELL} characters:\n{}",
        faults.join("\n")
    );
    if std::env::var_os("IOTRAIL_GOLDEN").is_some() {
        std::fs::write(document(), &made).expect("docs/formats.md is ours");
        return End::Passed;
    }
    if let Some((is, ought)) = text.lines().zip(made.lines()).find(|(is, ought)| is != ought) {
        panic!(
            "docs/formats.md has\n  {is}\nand the types say\n  {ought}\nwrite it anew: IOTRAIL_GOLDEN=1 cargo test --test it formats::"
        );
    }
    assert_eq!(text.len(), made.len());
    End::Passed
}

fn finding(rule: &Rule) -> String {
    let mark = match rule.matter {
        _ if !rule.is_of_traces() => " (of `bench` and `net`)",
        Matter::Data => " (a failure)",
        Matter::Time => " (weighs times)",
        Matter::Work => "",
    };
    format!("- `{}`{mark}: {}\n", rule.code, rule.about)
}

/// A heading, the type's description, one line per field, and the remaining sentences of long descriptions.
fn section(source: &Source, named: &Named, all: &[Named], faults: &mut Vec<String>) -> String {
    let shape = source.find(&named.name);
    let mut out = format!("\n#### {}\n\n", named.title);
    if !shape.doc.is_empty() {
        out += &format!("{}\n\n", shape.doc);
    }
    out += match shape.is_enum {
        true => "| value | meaning |\n|---|---|\n",
        false => "| field | type | meaning |\n|---|---|---|\n",
    };
    let mut more = Vec::new();
    for field in &shape.fields {
        let (first, rest) = sentences(&field.doc);
        let length = first.chars().count();
        if length == 0 || length > CELL {
            faults.push(format!("{}.{} has {length} characters: {first}", named.name, field.name));
        }
        let first = first.trim_end_matches('.').replace('|', "\\|");
        out += &match shape.is_enum && !field.name.contains('.') {
            true => format!("| `{}` | {first} |\n", field.name),
            false if shape.is_enum => format!("| `{}` ({}) | {first} |\n", field.name, plain(&field.json)),
            false if field.flat => format!("| … | the fields of {} | {first} |\n", linked(&field.json, named, all)),
            false => format!("| `{}` | {} | {first} |\n", field.name, linked(&field.json, named, all)),
        };
        more.extend((!rest.is_empty()).then(|| format!("- `{}`: {rest}\n", field.name)));
    }
    if !more.is_empty() {
        out.push('\n');
        out += &more.concat();
    }
    out
}

/// The first sentence, and the rest.
fn sentences(doc: &str) -> (&str, &str) {
    let is_end = |at: &(usize, &str)| {
        let next = doc[at.0 + 2..].chars().next();
        next.is_some_and(|c| c.is_uppercase() || c == '`' || c.is_ascii_digit())
    };
    match doc.match_indices(". ").find(is_end) {
        Some((at, _)) => (&doc[..=at], &doc[at + 2..]),
        None => (doc, ""),
    }
}

/// `list of [Stamp](#stamp)`: links types that have a table. If two types share a name, uses the one in `by`'s module.
fn linked(json: &str, by: &Named, all: &[Named]) -> String {
    let module = by.name.split_once("::").map_or("", |(module, _)| module);
    let find = |name: &str| {
        let own = format!("{module}::{name}");
        let other = format!("::{name}");
        all.iter().find(|n| n.name == own).or_else(|| all.iter().find(|n| n.name == name || n.name.ends_with(&other)))
    };
    let word = |word: &str| {
        let Some(name) = word.strip_prefix('@') else { return word.to_owned() };
        let (name, comma) = name.strip_suffix(',').map_or((name, ""), |name| (name, ","));
        match find(name) {
            Some(n) => format!("[{}](#{}){comma}", n.title, n.title.to_lowercase()),
            None => format!("{name}{comma}"),
        }
    };
    json.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn plain(json: &str) -> String {
    json.replace('@', "")
}

/// All types used by listed types are listed, too.
fn complete() -> End {
    let source = Source::read();
    let text = std::fs::read_to_string(document()).expect("docs/formats.md");
    let all = all_listed(&text);
    let known: BTreeSet<&str> =
        all.iter().flat_map(|n| [n.name.as_str(), n.name.rsplit("::").next().unwrap()]).collect();
    let mut missing = BTreeSet::new();
    for named in &all {
        let shape: &Shape = source.find(&named.name);
        let used = shape.fields.iter().flat_map(|f| f.json.split([' ', ',']).filter_map(|w| w.strip_prefix('@')));
        missing.extend(used.filter(|name| !known.contains(name)).map(|name| format!("{name} (in {})", named.name)));
    }
    assert!(missing.is_empty(), "without a table: {missing:?}");
    // Roots of the printed documents.
    for root in [
        "Measurement",
        "ServedRecord",
        "TraceRecord",
        "TopRecord",
        "Report",
        "RunRecord",
        "Comparison",
        "History",
        "Reproduction",
        "FleetAnswer",
        "Header",
        "Explained",
    ] {
        assert!(known.contains(root), "{root}");
    }
    let mut titles: Vec<String> = all.iter().map(|n| n.title.to_lowercase()).collect();
    titles.sort();
    assert!(titles.windows(2).all(|w| w[0] != w[1]), "two tables of one title");
    End::Passed
}

/// No cell is longer than [`CELL`].
fn narrow() -> End {
    let text = std::fs::read_to_string(document()).expect("docs/formats.md");
    let shown = |cell: &str| cell.trim().chars().count();
    let wide: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with('|'))
        .filter(|line| line.replace("\\|", "/").split('|').any(|cell| shown(cell) > CELL))
        .collect();
    assert!(wide.is_empty(), "cells over {CELL} characters:\n{}", wide.join("\n"));
    End::Passed
}
