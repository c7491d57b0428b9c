//! Draws the screen on a terminal of any size; omits parts that do not fit, rows last.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Clear, Paragraph, Row as TableRow, Table, TableState};

use super::bar;
use super::columns::{Column, OF_PROCESSES, Row, fit};
use super::lines;
use super::screen::{Page, Screen};
use crate::terminal::{self, sanitise};
use iotrail_base::plain::one_of_ascii;
use iotrail_base::words::{percent, plural, span};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::top_record::DeliveryPathShare;

const HELP: [(&str, &str); 10] = [
    ("q", "quit"),
    ("↑ ↓ PgUp PgDn", "select a row, or scroll"),
    ("Enter", "open the ring, or the process's rings"),
    ("Esc", "back"),
    ("← →", "sort by the next column; the sort column is always shown"),
    ("r", "reverse the order"),
    ("f", "freeze or continue"),
    ("p", "show processes or rings"),
    ("i", "show or hide idle ones"),
    ("?", "this"),
];

impl Screen {
    pub fn draw(&self, frame: &mut Frame<'_>) {
        self.draw_all(frame);
        if self.ascii {
            for cell in &mut frame.buffer_mut().content {
                if let Some(sign) = cell.symbol().chars().next().filter(|sign| !sign.is_ascii()) {
                    cell.set_char(one_of_ascii(sign));
                }
            }
        }
    }

    fn draw_all(&self, frame: &mut Frame<'_>) {
        let mut area = frame.area();
        if area.height >= 2 {
            let title = take_top(&mut area, 1);
            frame.render_widget(self.title(), title);
        }
        if area.height >= 3 {
            let keys = take_bottom(&mut area, 1);
            frame.render_widget(self.keys(), keys);
        }
        if self.help {
            return self.draw_help(frame, area);
        }
        match self.page() {
            Page::Ring(ring) => self.draw_ring(frame, area, ring),
            _ => self.draw_list(frame, area),
        }
    }

    fn title(&self) -> Line<'static> {
        let mut text = format!("iotrail top · {}", sanitise(&self.subject));
        if let Some(record) = &self.shown {
            text.push_str(&format!(" · {}", span(record.elapsed_ns as f64)));
            text.push_str(&format!(" · {}", plural(record.rings.len(), "ring")));
            if let Some(others) = &record.other_rings {
                text.push_str(&format!(" and {} others", others.rings));
            }
        }
        let mut title = vec![Span::styled(text, Style::new().add_modifier(Modifier::BOLD))];
        if self.frozen {
            // If the line is cut off, this part remains.
            title.insert(0, Span::styled(" FROZEN ", Style::new().add_modifier(Modifier::REVERSED)));
            title.insert(1, Span::raw(" "));
        }
        Line::from(title)
    }

    fn keys(&self) -> Line<'static> {
        let text = match self.page() {
            _ if self.help => "any key: back",
            Page::Ring(_) => "q quit  Esc back  ↑↓ scroll  f freeze  ? help",
            Page::RingsOf(_) => "q quit  ? help  Esc back  ↑↓ Enter open  ←→ sort  r reverse  f freeze",
            _ => "q quit  ? help  ↑↓ Enter open  ←→ sort  r reverse  f freeze  p processes",
        };
        Line::styled(text, Style::new().add_modifier(Modifier::DIM))
    }

    fn draw_help(&self, frame: &mut Frame<'_>, area: Rect) {
        let mut text: Vec<Line<'_>> = HELP.iter().map(|(key, what)| Line::from(format!("{key:14} {what}"))).collect();
        text.push(Line::from(""));
        text.push(Line::from("P50, P99: latency; LATE50, LATE99: delivery delay (posted − ready)"));
        text.push(Line::from("Both cover traced requests; –: too few of them"));
        for vehicles in DeliveryPath::ALL.chunks(5) {
            let one = |v: &DeliveryPath| format!("{} {:13}", bar::letter(*v), v.name());
            text.push(Line::from(vehicles.iter().map(one).collect::<String>()));
        }
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(text), area);
    }

    fn draw_ring(&self, frame: &mut Frame<'_>, area: Rect, ring: u32) {
        let text = match self.ring(ring) {
            Some(r) => lines::ring(r, terminal::Style::PLAIN).to_string(),
            None => format!("ring {ring} no longer exists"),
        };
        // Scrolling stops when the last line is visible.
        let most = (text.lines().count() as u16).saturating_sub(1);
        frame.render_widget(Paragraph::new(text).scroll((self.scroll.min(most), 0)), area);
    }

    fn draw_list(&self, frame: &mut Frame<'_>, mut area: Rect) {
        let Some(record) = &self.shown else {
            frame.render_widget(Paragraph::new("watching …"), area);
            return;
        };
        if area.height >= 8 {
            let mut text = wrapped(&lines::heading(record), area.width.into());
            if let Some(process) = self.process() {
                text.extend(wrapped(&lines::threads(process), area.width.into()));
            }
            let height = (text.len() as u16).min(area.height - 6);
            frame.render_widget(Paragraph::new(text), take_top(&mut area, height));
        }
        if area.height >= 6 {
            let legend = take_bottom(&mut area, 1);
            frame.render_widget(self.legend(&record.total.rates.vehicles), legend);
        }
        let rows = self.rows();
        let without = if self.page() == Page::Processes { &[] } else { OF_PROCESSES };
        let columns = fit(area.width, self.sort, without);
        let table = Table::new(
            rows.iter().map(|row| self.table_row(row, &columns)),
            columns.iter().map(|(_, width)| Constraint::Length(*width)),
        );
        let table = table
            .header(TableRow::new(columns.iter().map(|(c, _)| self.heading(*c))))
            .column_spacing(1)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let selected = (!rows.is_empty()).then(|| self.place(&rows));
        frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(selected));
        if rows.is_empty() && area.height >= 2 {
            let text = if self.idle { "no rings" } else { "no active rings (i: show idle ones)" };
            frame.render_widget(Paragraph::new(text), Rect { y: area.y + 1, height: 1, ..area });
        }
    }

    fn heading(&self, column: Column) -> Cell<'static> {
        let text = match (column, self.page()) {
            (Column::Ring, Page::Processes) => "RNGS",
            _ => column.name(),
        };
        let style = match column == self.sort {
            true => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            false => Style::new().add_modifier(Modifier::BOLD),
        };
        Cell::from(Text::from(text).alignment(alignment(column))).style(style)
    }

    fn table_row(&self, row: &Row<'_>, columns: &[(Column, u16)]) -> TableRow<'static> {
        TableRow::new(columns.iter().map(|(column, width)| match column {
            Column::DeliveryPaths => Cell::from(self.bar(&row.rates.vehicles, *width)),
            _ => Cell::from(Text::from(column.text(row)).alignment(alignment(*column))),
        }))
    }

    fn bar(&self, vehicles: &[DeliveryPathShare], width: u16) -> Line<'static> {
        let part = |(vehicle, n): (DeliveryPath, usize)| {
            Span::styled(bar::letter(vehicle).to_string().repeat(n), self.style(vehicle))
        };
        Line::from(bar::letters(vehicles, width.into()).into_iter().map(part).collect::<Vec<_>>())
    }

    /// The letters with their delivery paths and total shares.
    fn legend(&self, vehicles: &[DeliveryPathShare]) -> Line<'static> {
        let one = |v: &DeliveryPathShare| {
            [
                Span::styled(bar::letter(v.vehicle).to_string(), self.style(v.vehicle)),
                Span::raw(format!(" {} {}  ", v.vehicle, percent(v.share))),
            ]
        };
        Line::from(vehicles.iter().flat_map(one).collect::<Vec<_>>())
    }

    /// Green: the thread entered the kernel for it. Blue: a separate thread or poll. Yellow: the thread was
    /// interrupted. Red: late or unknown.
    fn style(&self, vehicle: DeliveryPath) -> Style {
        let colour = match vehicle {
            DeliveryPath::Inline | DeliveryPath::Enter | DeliveryPath::SyscallExit => Color::Green,
            DeliveryPath::Sqpoll | DeliveryPath::Iopoll | DeliveryPath::Thread | DeliveryPath::Kworker => Color::Blue,
            DeliveryPath::Iowq => Color::Magenta,
            DeliveryPath::ReschedIpi | DeliveryPath::DeviceIrq | DeliveryPath::OtherIrq | DeliveryPath::IrqDirect => {
                Color::Yellow
            }
            DeliveryPath::TimerTick | DeliveryPath::PageFault | DeliveryPath::Unknown => Color::Red,
        };
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
}

fn alignment(column: Column) -> Alignment {
    if column.is_number() { Alignment::Right } else { Alignment::Left }
}

fn take_top(area: &mut Rect, height: u16) -> Rect {
    let height = height.min(area.height);
    let top = Rect { height, ..*area };
    (area.y, area.height) = (area.y + height, area.height - height);
    top
}

fn take_bottom(area: &mut Rect, height: u16) -> Rect {
    let height = height.min(area.height);
    area.height -= height;
    Rect { y: area.y + area.height, height, ..*area }
}

/// Items separated by ` · `, wrapped without splitting an item.
fn wrapped(items: &[String], width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<String> = vec![];
    for item in items {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 3 + item.chars().count() <= width => {
                line.push_str(&format!(" · {item}"));
            }
            _ => lines.push(item.clone()),
        }
    }
    lines.into_iter().map(Line::from).collect()
}
