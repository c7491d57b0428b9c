//! A machine's capabilities, for `check`: the items, their JSON (`iotrail.check/1`) and their terminal text.

use serde::Serialize;

use crate::terminal::{Cell, Column, Hue, Screen, Style};
use iotrail_base::distinct::distinct;
use iotrail_schema::measurement::Host;

pub const SCHEMA: &str = "iotrail.check/1";

/// One object with all items; this struct is the JSON schema.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `iotrail.check/1`.
    pub schema: &'static str,
    /// Version of the iotrail that checked.
    pub version: &'static str,
    /// The machine.
    pub host: Host,
    /// CPU numbers.
    pub cpus: Cpus,
    /// The kernel's tick; null: not known.
    pub tick_hz: Option<u32>,
    /// Capabilities, present and missing.
    pub items: Vec<Item>,
}

/// Lists of CPU numbers; null: not readable.
#[derive(Debug, Default, Serialize)]
pub struct Cpus {
    /// Online CPUs.
    pub online: Vec<u32>,
    /// Isolated CPUs; null: not readable.
    pub isolated: Option<Vec<u32>>,
    /// CPUs without a tick; null: not readable.
    pub nohz_full: Option<Vec<u32>>,
    /// Online CPUs that handle the target's interrupts; null: the target has none.
    pub with_target_interrupts: Option<Vec<u32>>,
    /// Online CPUs without these interrupts; null: the target has none.
    pub without_target_interrupts: Option<Vec<u32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is available.
    Ok,
    /// It is missing.
    Missing,
    /// Not known.
    Unknown,
}

iotrail_schema::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Section {
        /// Rights of the process.
        Privileges = "privileges",
        /// The kernel.
        Kernel = "kernel",
        /// Rings, flags and operations.
        IoUring = "io_uring",
        /// I/O interfaces.
        Engines = "engines",
        /// BPF programs.
        Probes = "probes",
        /// Clocks and the tick.
        Clock = "clock",
        /// The target.
        Target = "target",
        /// CPUs.
        Cpus = "CPUs",
    }
}

/// One capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// Stable name: `io_uring.flag.defer_taskrun`.
    pub id: String,
    /// Its section.
    pub section: Section,
    /// Its name on the screen.
    pub name: String,
    /// Whether it is available.
    pub state: State,
    /// The observed value.
    pub text: String,
    /// Features that require it; null: nothing is missing.
    pub lost: Option<String>,
    /// How to make it available; null: nothing is missing.
    pub restore: Option<String>,
    /// Items of one group and one state share one row of the terminal.
    #[serde(skip)]
    pub group: Option<&'static str>,
    /// A description of the machine that cannot be missing: no marker on the terminal.
    #[serde(skip)]
    pub fact: bool,
}

impl Item {
    pub fn ok(section: Section, id: &str, name: &str, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            section,
            name: name.into(),
            state: State::Ok,
            text: text.into(),
            lost: None,
            restore: None,
            group: None,
            fact: false,
        }
    }

    pub fn fact(section: Section, id: &str, name: &str, text: impl Into<String>) -> Self {
        Self { fact: true, ..Self::ok(section, id, name, text) }
    }

    pub fn missing(
        section: Section,
        id: &str,
        name: &str,
        text: impl Into<String>,
        lost: impl Into<String>,
        restore: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Missing,
            lost: Some(lost.into()),
            restore: Some(restore.into()),
            ..Self::ok(section, id, name, text)
        }
    }

    /// `restore`: the change that makes the item known.
    pub fn unknown(
        section: Section,
        id: &str,
        name: &str,
        text: impl Into<String>,
        restore: impl Into<String>,
    ) -> Self {
        Self { state: State::Unknown, restore: Some(restore.into()), ..Self::ok(section, id, name, text) }
    }

    pub fn in_group(self, group: &'static str) -> Self {
        Self { group: Some(group), ..self }
    }
}

/// On a terminal, longer name lists are shown as a count; the JSON contains all names.
const MOST_NAMES: usize = 20;
const MOST_LOST: usize = 5;

/// The report as a terminal screen.
pub fn screen(report: &Report, style: Style) -> Screen {
    let mut out = Screen::new(style);
    out.heading(&verdict(report));
    for section in Section::ALL {
        let rows = rows(report.items.iter().filter(|i| i.section == section));
        if rows.is_empty() {
            continue;
        }
        out.blank();
        out.heading(section.name());
        let columns = [Column::words("", 6), Column::words("", 19), Column::words("", 52)];
        out.rows(&columns, rows.iter().map(cells).collect());
    }
    let count = |state| report.items.iter().filter(|i| i.state == state).count();
    let (missing, unknown) = (count(State::Missing), count(State::Unknown));
    out.blank();
    out.line(&match (missing, unknown) {
        (0, 0) => "Nothing is missing.".to_owned(),
        (m, 0) => format!("{m} missing."),
        (0, u) => format!("Nothing is known to be missing; {u} could not be determined."),
        (m, u) => format!("{m} missing, {u} could not be determined."),
    });
    out
}

/// Whether completions can be traced on this machine; if not, the obstacles.
fn verdict(report: &Report) -> String {
    let of = |section| report.items.iter().filter(move |i| i.section == section);
    let probes = of(Section::Probes).count();
    let loads = of(Section::Probes).filter(|i| i.state == State::Ok).count();
    let missing = report.items.iter().filter(|i| i.state == State::Missing).count();
    let others = |n: usize| match n {
        0 => "nothing is missing".to_owned(),
        1 => "1 feature is missing".to_owned(),
        n => format!("{n} features are missing"),
    };
    let ring = of(Section::IoUring).find(|i| i.id == "io_uring.ring").filter(|i| i.state == State::Missing);
    if let Some(ring) = ring {
        return format!("not ready: no io_uring here: {}", ring.text);
    }
    if 2 * loads < probes {
        let first = of(Section::Privileges).chain(of(Section::Kernel)).chain(of(Section::Probes));
        let why = first.filter(|i| i.state == State::Missing).map(|i| i.text.clone()).next().unwrap_or_default();
        return format!("not ready: completions cannot be traced ({loads} of {probes} probes load): {why}");
    }
    if probes == 0 {
        return format!("probes were not tried; {}", others(missing));
    }
    format!("ready: completions can be traced ({loads} of {probes} probes load); {}", others(missing))
}

struct Line {
    state: State,
    fact: bool,
    name: String,
    texts: Vec<String>,
}

/// Joins the items of a group by state; a group with a single state is one row.
fn rows<'a>(items: impl Iterator<Item = &'a Item>) -> Vec<Line> {
    let items: Vec<&Item> = items.collect();
    let mut lines = Vec::new();
    let mut done = vec![false; items.len()];
    for i in 0..items.len() {
        if done[i] {
            continue;
        }
        let first = items[i];
        let alike = |other: &&Item| match (first.group, first.state) {
            (None, _) => false,
            (group, State::Ok) => other.group == group && other.state == State::Ok,
            (group, state) => {
                other.group == group
                    && other.state == state
                    && other.text == first.text
                    && other.restore == first.restore
            }
        };
        let mut members = vec![first];
        for j in i + 1..items.len() {
            if alike(&items[j]) {
                done[j] = true;
                members.push(items[j]);
            }
        }
        let of = first.group.map(|g| items.iter().filter(|i| i.group == Some(g)).count());
        lines.push(line(&members, of));
    }
    lines
}

/// `of`: number of items in the group, over all states.
fn line(members: &[&Item], of: Option<usize>) -> Line {
    let first = members[0];
    let mut texts = Vec::new();
    if let Some(of) = of {
        let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
        let listed = if names.len() <= MOST_NAMES && (names.len() < of || of <= MOST_NAMES) {
            names.join(", ")
        } else if names.len() == of {
            format!("all {of}")
        } else {
            format!("{} of {of}", names.len())
        };
        texts.push(if first.state == State::Ok { listed } else { format!("{listed}: {}", first.text) });
    } else {
        texts.push(first.text.clone());
    }
    let lost = distinct(members.iter().filter_map(|m| m.lost.as_deref()));
    if lost.len() > MOST_LOST {
        let more = lost.len() - MOST_LOST;
        texts.push(format!("lost: {}; and {more} more (--json names all)", lost[..MOST_LOST].join("; ")));
    } else if !lost.is_empty() {
        texts.push(format!("lost: {}", lost.join("; ")));
    }
    if let Some(restore) = &first.restore {
        let verb = if first.state == State::Unknown { "to know" } else { "to restore" };
        texts.push(format!("{verb}: {restore}"));
    }
    let name = first.group.map_or_else(|| first.name.clone(), str::to_owned);
    Line { state: first.state, fact: first.fact, name, texts }
}

fn cells(line: &Line) -> Vec<Cell> {
    let (mark, hue) = match line.state {
        State::Ok if line.fact => ("", None),
        State::Ok => (" yes", Some(Hue::Good)),
        State::Missing => (" no", Some(Hue::Bad)),
        State::Unknown => (" ?", Some(Hue::Doubt)),
    };
    vec![Cell::from(mark).in_hue(hue), Cell::from(&line.name), Cell::lines(&line.texts)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(items: Vec<Item>) -> Report {
        Report { schema: SCHEMA, version: "0", host: Host::default(), cpus: Cpus::default(), tick_hz: Some(250), items }
    }

    fn text(report: &Report) -> String {
        screen(report, Style::PLAIN).to_string()
    }

    fn flag(name: &str) -> Item {
        Item::ok(Section::IoUring, &format!("io_uring.flag.{name}"), name, "").in_group("setup flags")
    }

    #[test]
    fn each_group_has_one_row_per_answer() {
        let late = |name: &str, lost: &str| Item {
            state: State::Missing,
            text: "this kernel does not have it".into(),
            lost: Some(lost.into()),
            restore: Some("Linux 6.1 or later".into()),
            ..flag(name)
        };
        let text = text(&report(vec![flag("a"), late("b", "x"), flag("c"), late("d", "y")]));
        assert_eq!(
            text,
            "probes were not tried; 2 features are missing\n\n\
             io_uring\n \
             yes   setup flags         a, c\n \
             no    setup flags         b, d: this kernel does not have it\n                           \
             lost: x; y\n                           \
             to restore: Linux 6.1 or later\n\n\
             2 missing.\n"
        );
    }

    #[test]
    fn long_groups_are_printed_as_counts() {
        let names: Vec<String> = (0..30).map(|n| format!("o{n}")).collect();
        let mut items: Vec<Item> = names.iter().map(|n| flag(n)).collect();
        assert!(text(&report(items.clone())).contains("yes   setup flags         all 30\n"));
        let missing = |i: &Item| Item { state: State::Missing, lost: Some(format!("use of {}", i.name)), ..i.clone() };
        let none = text(&report(items.iter().map(missing).collect()));
        assert!(none.contains("no    setup flags         all 30:") && none.contains("and 25 more"), "{none}");
        items[3] = Item { state: State::Unknown, text: "why".into(), ..flag("o3") };
        let text = text(&report(items));
        assert!(text.contains("yes   setup flags         29 of 30\n"), "{text}");
        assert!(text.contains("?     setup flags         o3: why\n"), "{text}");
    }

    #[test]
    fn lines_have_at_most_80_columns_and_colour_is_optional() {
        let long = "word ".repeat(60);
        let item = Item::missing(Section::Kernel, "kernel.x", "a name that is long", &long, &long, &long);
        let plain = text(&report(vec![item.clone()]));
        assert!(plain.lines().all(|l| l.chars().count() <= 80), "{plain}");
        assert!(!plain.contains('\u{1b}'));
        let coloured = screen(&report(vec![item]), Style { colour: true, ..Style::PLAIN });
        assert!(coloured.as_str().contains('\u{1b}'));
    }

    #[test]
    fn json_items_have_named_states_and_null_fields() {
        let json = serde_json::to_value(report(vec![flag("a")])).unwrap();
        assert_eq!(json["schema"], "iotrail.check/1");
        let item = &json["items"][0];
        assert_eq!((item["section"].as_str(), item["state"].as_str()), (Some("io_uring"), Some("ok")));
        assert!(item["lost"].is_null() && item.get("lost").is_some());
    }
}
