//! Helpers shared by all screens: width, wrapping, tables, colour, and sanitising untrusted text.

use std::fmt;

use comfy_table::{Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width, presets};
use textwrap::core::display_width;

use super::style::{Hue, Style};
use iotrail_base::plain::sanitise;

/// Maximum line width in columns.
pub const WIDTH: usize = 80;

/// Indent of the continuation lines of a sentence.
const HANGING: usize = 2;

/// Width of the labels on the left.
const LABEL: usize = 13;

/// Non-breaking space placeholder, replaced before printing.
const TIED: char = '\u{a0}';

/// Keeps numbers and their units on one line.
fn with_units(text: &str) -> String {
    const UNITS: [&str; 16] =
        ["k", "M", "G", "%", "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "TiB", "IOPS", "min", "hours"];
    let is_number = |word: &str| word.chars().next_back().is_some_and(|c| c.is_ascii_digit());
    let is_unit = |word: &str| {
        let word = word.trim_end_matches([')', ',', ';', '.', ':']);
        UNITS.contains(&word.strip_suffix("/s").unwrap_or(word))
    };
    let mut out = String::with_capacity(text.len());
    let mut before = "";
    for (i, word) in text.split(' ').enumerate() {
        if i > 0 {
            out.push(if is_number(before) && is_unit(word) { TIED } else { ' ' });
        }
        out.push_str(word);
        before = word;
    }
    out
}

/// Truncates the text to this many columns.
pub fn cut(text: &str, columns: usize) -> String {
    if display_width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if display_width(&kept) + display_width(c.encode_utf8(&mut [0; 4])) + 2 > columns {
            break;
        }
        kept.push(c);
    }
    // Cuts between words if possible, never within a number.
    match kept.rfind(' ').filter(|at| *at > kept.len() / 2) {
        Some(at) => format!("{} …", kept[..at].trim_end_matches([' ', ',', ';', '·', '(', ':'])),
        None => kept + "…",
    }
}

/// The same for a command: keeps its beginning and its end, where the options are that distinguish it.
fn cut_middle(text: &str, columns: usize) -> String {
    if display_width(text) <= columns {
        return text.to_owned();
    }
    let head = cut(text, columns / 2);
    let room = columns.saturating_sub(display_width(&head) + 1);
    let mut tail = "";
    for (at, _) in text.char_indices().rev().filter(|(_, c)| *c == ' ') {
        if display_width(&text[at + 1..]) > room {
            break;
        }
        tail = &text[at + 1..];
    }
    if tail.is_empty() { cut(text, columns) } else { format!("{head} {tail}") }
}

/// Text that is safe to print on a terminal. Only the methods below extend it; they treat all text as untrusted, so it
/// cannot contain control sequences or line ends. No line is longer than [`WIDTH`], except preformatted lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    text: String,
    style: Style,
}

/// A column: heading, width, and whether it is numeric.
pub struct Column {
    heading: String,
    width: u16,
    number: bool,
}

impl Column {
    /// Line ends in a fixed heading are kept.
    pub fn number(heading: &'static str, width: u16) -> Self {
        Self { heading: heading.into(), width, number: true }
    }

    pub fn words(heading: &'static str, width: u16) -> Self {
        Self { heading: heading.into(), width, number: false }
    }

    /// With an untrusted heading.
    pub fn named(heading: &str, width: u16, number: bool) -> Self {
        Self { heading: sanitise(heading), width, number }
    }
}

/// A table cell.
pub struct Cell {
    text: String,
    hue: Option<Hue>,
}

impl Cell {
    /// Several lines.
    pub fn lines<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> Self {
        let lines: Vec<String> = lines.into_iter().map(|line| sanitise(line.as_ref())).collect();
        Self { text: lines.join("\n"), hue: None }
    }

    /// Coloured if the terminal supports it. Colour is never the only sign.
    pub fn in_hue(self, hue: Option<Hue>) -> Self {
        Self { hue, ..self }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: sanitise(text.as_ref()), hue: None }
    }
}

impl Screen {
    pub fn new(style: Style) -> Self {
        Self { text: String::new(), style }
    }

    pub fn style(&self) -> Style {
        self.style
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// An empty line.
    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    /// A preformatted line.
    pub fn line(&mut self, text: &str) {
        self.text.push_str(sanitise(text).trim_end());
        self.text.push('\n');
    }

    /// Appends another screen.
    pub fn append(&mut self, other: &Screen) {
        self.text.push_str(&other.text);
    }

    /// Wrapped text; `first` precedes the first line and the others are indented by its width.
    pub fn paragraph(&mut self, first: &str, text: &str) {
        self.wrapped(first, 0, text, |_, line| line.to_owned());
    }

    /// Wrapped text that may contain quotations. Only the first line, which begins with iotrail's own words, starts at
    /// the left edge.
    pub fn sentence(&mut self, text: &str) {
        self.wrapped("", HANGING, text, |_, line| line.to_owned());
    }

    /// A sentence in the style of a heading.
    pub fn heading(&mut self, text: &str) {
        self.wrapped("", HANGING, text, |style, line| style.bold(line));
    }

    /// A paragraph, coloured if it is a warning; `mark` is its label.
    pub fn note(&mut self, mark: &str, text: &str, warns: bool) {
        self.wrapped(mark, 0, text, |style, line| if warns { style.warning(line) } else { line.to_owned() });
    }

    /// A heading with `first` before its first line.
    pub fn heading_after(&mut self, first: &str, text: &str) {
        self.wrapped(first, 0, text, |style, line| style.bold(line));
    }

    fn wrapped(&mut self, first: &str, least: usize, text: &str, paint: impl Fn(Style, &str) -> String) {
        let first = sanitise(first);
        let rest = " ".repeat(display_width(&first).max(least));
        let options = textwrap::Options::new(WIDTH).initial_indent(&first).subsequent_indent(&rest);
        for line in textwrap::wrap(&with_units(&sanitise(text)), options) {
            self.text.push_str(&paint(self.style, &line.trim_end().replace(TIED, " ")));
            self.text.push('\n');
        }
    }

    /// A labelled list of items separated by ` · `; lines break between items if possible.
    pub fn field(&mut self, label: &str, items: &[String]) {
        let room = WIDTH - LABEL;
        let mut lines: Vec<String> = Vec::new();
        for item in items.iter().map(|i| sanitise(i)).filter(|i| !i.is_empty()) {
            match lines.last_mut() {
                Some(line) if display_width(line) + 3 + display_width(&item) <= room => {
                    line.push_str(" · ");
                    line.push_str(&item);
                }
                _ => lines.extend(textwrap::wrap(&item, room).into_iter().map(|l| l.into_owned())),
            }
        }
        for (i, line) in lines.iter().enumerate() {
            let label = format!("{:LABEL$}", if i == 0 { sanitise(label) } else { String::new() });
            self.text.push_str(&self.style.bold(&label));
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    /// Same as [`field`](Self::field) on at most this many lines. Cuts the middle of the first item, a command.
    pub fn field_in_lines(&mut self, label: &str, items: &[String], most: usize) {
        let room = WIDTH - LABEL;
        let lines = |items: &[String]| {
            let mut form = Screen::new(Style::PLAIN);
            form.field(label, items);
            form.text.lines().count()
        };
        let mut items: Vec<String> = items.iter().map(|item| sanitise(item)).collect();
        let whole = items.first().cloned().unwrap_or_default();
        for columns in (room..=most * room).rev() {
            if lines(&items) <= most {
                break;
            }
            items[0] = cut_middle(&whole, columns);
        }
        self.field(label, &items);
    }

    /// Same as [`field`](Self::field) on one line, with a sign for omitted text. Cuts the middle of the first item
    /// if that suffices, as for a command; otherwise omits the last items.
    pub fn field_in_a_line(&mut self, label: &str, items: &[String]) {
        const LEAST: usize = 20;
        const SIGN: &str = " · …";
        let room = WIDTH - LABEL;
        let items: Vec<String> = items.iter().map(|i| sanitise(i)).filter(|i| !i.is_empty()).collect();
        let Some((first, rest)) = items.split_first() else { return };
        let end: String = rest.iter().map(|item| format!(" · {item}")).collect();
        let line = match room.checked_sub(display_width(&end)).filter(|columns| *columns >= LEAST) {
            Some(columns) => cut_middle(first, columns) + &end,
            None => {
                let room = room - display_width(SIGN);
                let mut line = cut(first, room);
                let fits = |line: &str, item: &&String| display_width(line) + 3 + display_width(item) <= room;
                for item in rest {
                    if !fits(&line, &item) {
                        break;
                    }
                    line = format!("{line} · {item}");
                }
                line + SIGN
            }
        };
        self.field(label, &[line]);
    }

    /// The legend of a table: lines break between its items if possible, so that a sign stays with its meaning.
    pub fn legend(&mut self, items: &[String]) {
        let mut line = String::new();
        for item in items {
            if !line.is_empty() && HANGING + display_width(&line) + 2 + display_width(item) > WIDTH {
                self.paragraph("  ", &std::mem::take(&mut line));
            }
            let gap = if line.is_empty() { "" } else { "  " };
            line = format!("{line}{gap}{item}");
        }
        self.paragraph("  ", &line);
    }

    /// A table with fixed column widths and no rules, which leaves most of the width for numbers.
    pub fn table<C: Into<Cell>>(&mut self, columns: &[Column], rows: Vec<Vec<C>>) {
        let mut table = self.empty();
        let heading = columns.iter().map(|c| self.bold(&c.heading));
        table.set_header(heading.collect::<Vec<_>>());
        self.fill(table, columns, rows);
    }

    /// Same as [`table`](Self::table), without headings.
    pub fn rows<C: Into<Cell>>(&mut self, columns: &[Column], rows: Vec<Vec<C>>) {
        self.fill(self.empty(), columns, rows);
    }

    fn empty(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(WIDTH as u16 + 1);
        match self.style.colour {
            true => table.enforce_styling(),
            false => table.force_no_tty(),
        };
        table
    }

    fn bold(&self, heading: &str) -> comfy_table::Cell {
        // Empty cells must not be bold.
        let cell = comfy_table::Cell::new(heading);
        if heading.is_empty() { cell } else { cell.add_attribute(Attribute::Bold) }
    }

    fn fill<C: Into<Cell>>(&mut self, mut table: Table, columns: &[Column], rows: Vec<Vec<C>>) {
        for row in rows {
            table.add_row(row.into_iter().enumerate().map(|(i, cell)| {
                let Cell { text, hue } = cell.into();
                let cell = comfy_table::Cell::new(match columns.get(i) {
                    Some(column) if i == 0 => hanging(&text, column.width),
                    _ => text,
                });
                match hue {
                    None => cell,
                    Some(hue) => cell.add_attribute(Attribute::Bold).fg(match hue {
                        Hue::Good => Color::Green,
                        Hue::Bad => Color::Red,
                        Hue::Doubt => Color::Yellow,
                    }),
                }
            }));
        }
        for (column, c) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, 1));
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(c.width + 1)));
            if c.number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.to_string().lines() {
            self.text.push_str(&trimmed(line));
            self.text.push('\n');
        }
    }
}

/// Wraps text at the left edge, and indents continuation lines so that later text cannot start a line.
fn hanging(text: &str, width: u16) -> String {
    let later = " ".repeat(text.len() - text.trim_start_matches(' ').len() + 1);
    let options = textwrap::Options::new(width.into()).subsequent_indent(&later);
    text.split('\n').flat_map(|line| textwrap::wrap(line, &options)).collect::<Vec<_>>().join("\n")
}

/// Removes trailing spaces, which may precede the codes that end a colour.
fn trimmed(line: &str) -> String {
    let mut kept = line.trim_end();
    let mut codes = String::new();
    while let Some((before, code)) =
        kept.rsplit_once('\x1b').filter(|(_, code)| code.ends_with('m') && !code.contains(' '))
    {
        codes.insert_str(0, &format!("\x1b{code}"));
        kept = before.trim_end();
    }
    format!("{kept}{codes}")
}

impl fmt::Display for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
