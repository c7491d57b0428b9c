//! What the screens have in common: width, wrapping, tables, colour, and the taming of text from outside.

use std::io::IsTerminal as _;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

/// Columns of a line, at most.
pub const WIDTH: usize = 80;

/// Whether lines may be coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub colour: bool,
}

impl Style {
    /// Colour on a terminal, unless <https://no-color.org> is asked for or the terminal has none.
    pub fn of_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        Self { colour: !refused && std::io::stdout().is_terminal() }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn warning(self, text: &str) -> String {
        self.paint("33", text)
    }
}

/// Text from outside (file names, device and process names) without the characters that steer a terminal or turn the
/// direction of writing; these are shown by their number.
pub fn sanitise(text: &str) -> String {
    let steers = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if steers(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
        out
    })
}

/// Adds `text`, sanitised and wrapped; the first line begins with `first`, the others with as many spaces.
pub fn paragraph(out: &mut String, first: &str, text: &str) {
    let rest = " ".repeat(textwrap::core::display_width(first));
    let options = textwrap::Options::new(WIDTH).initial_indent(first).subsequent_indent(&rest);
    for line in textwrap::wrap(&sanitise(text), options) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Columns of the labels on the left.
const LABEL: usize = 13;

/// A labelled line of items, ` · ` between them; what does not fit goes to the next line, items whole where they can be.
pub fn field(out: &mut String, style: Style, label: &str, items: &[String]) {
    let room = WIDTH - LABEL;
    let mut lines: Vec<String> = Vec::new();
    for item in items.iter().map(|i| sanitise(i)).filter(|i| !i.is_empty()) {
        match lines.last_mut() {
            Some(line) if textwrap::core::display_width(line) + 3 + textwrap::core::display_width(&item) <= room => {
                line.push_str(" · ");
                line.push_str(&item);
            }
            _ => lines.extend(textwrap::wrap(&item, room).into_iter().map(|l| l.into_owned())),
        }
    }
    for (i, line) in lines.iter().enumerate() {
        let label = format!("{:LABEL$}", if i == 0 { label } else { "" });
        out.push_str(&style.bold(&label));
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// A column: its heading, its width, whether numbers stand in it.
pub struct Column<'a> {
    pub heading: &'a str,
    pub width: u16,
    pub number: bool,
}

/// A table of fixed columns without lines, which leaves most of the width to the numbers.
pub fn table(columns: &[Column<'_>], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH as u16 + 1);
    table.set_header(columns.iter().map(|c| c.heading));
    for row in rows {
        table.add_row(row.iter().map(|c| sanitise_lines(c)));
    }
    for (column, c) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 1));
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(c.width + 1)));
        if c.number {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Line ends within a cell are ours.
fn sanitise_lines(cell: &str) -> String {
    cell.split('\n').map(sanitise).collect::<Vec<_>>().join("\n")
}
