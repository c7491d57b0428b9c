//! The view's state, and the keys that change it. No side effects.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::columns::{Column, Row};
use iotrail_schema::top_record::{ProcessRates, RingRates, TopRecord};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Rings,
    Processes,
    /// The rings of one process.
    RingsOf(u32),
    Ring(u32),
}

#[derive(Debug)]
pub struct Screen {
    /// The traced processes, in words.
    pub(super) subject: String,
    pub(super) colour: bool,
    /// The terminal only supports ASCII.
    pub(super) ascii: bool,
    /// The displayed record.
    pub(super) shown: Option<TopRecord>,
    /// The latest record, if a different one is displayed.
    newest: Option<TopRecord>,
    pub(super) frozen: bool,
    pub(super) sort: Column,
    pub(super) reversed: bool,
    /// Whether idle rows are shown.
    pub(super) idle: bool,
    pub(super) help: bool,
    /// Stack of open pages, of which the last is displayed; never empty.
    pages: Vec<Page>,
    /// ID of the selected ring or process; `None` for the first row.
    selected: Option<u32>,
    /// First visible line of a ring's page.
    pub(super) scroll: u16,
}

impl Screen {
    pub fn new(subject: String, colour: bool, ascii: bool) -> Self {
        Screen {
            subject,
            colour,
            ascii,
            shown: None,
            newest: None,
            frozen: false,
            sort: Column::Completions,
            reversed: false,
            idle: false,
            help: false,
            pages: vec![Page::Rings],
            selected: None,
            scroll: 0,
        }
    }

    pub fn take(&mut self, record: TopRecord) {
        *(if self.frozen && self.shown.is_some() { &mut self.newest } else { &mut self.shown }) = Some(record);
    }

    pub(super) fn page(&self) -> Page {
        *self.pages.last().unwrap_or(&Page::Rings)
    }

    /// In display order.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let Some(record) = &self.shown else { return vec![] };
        let mut rows: Vec<Row<'_>> = match self.page() {
            Page::Processes => record.processes.iter().map(Row::of_process).collect(),
            Page::RingsOf(tgid) => record.rings.iter().filter(|r| r.tgid == tgid).map(Row::of_ring).collect(),
            Page::Rings | Page::Ring(_) => record.rings.iter().map(Row::of_ring).collect(),
        };
        rows.retain(|row| self.idle || !row.is_idle());
        rows.sort_by(|a, b| self.sort.order(a, b));
        if self.reversed {
            rows.reverse();
        }
        rows
    }

    /// Index of the selected row.
    pub(super) fn place(&self, rows: &[Row<'_>]) -> usize {
        rows.iter().position(|row| Some(number(row)) == self.selected).unwrap_or(0)
    }

    /// The selected process, or the process whose rings are displayed.
    pub(super) fn process(&self) -> Option<&ProcessRates> {
        let tgid = match self.page() {
            Page::RingsOf(tgid) => tgid,
            Page::Processes => {
                let rows = self.rows();
                rows.get(self.place(&rows))?.tgid
            }
            _ => return None,
        };
        self.shown.as_ref()?.processes.iter().find(|p| p.tgid == tgid)
    }

    /// The ring of a page, if it still exists.
    pub(super) fn ring(&self, ring: u32) -> Option<&RingRates> {
        self.shown.as_ref()?.rings.iter().find(|r| r.ring == ring)
    }

    /// Returns `false` to quit.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return true;
        }
        let is_ring = matches!(self.page(), Page::Ring(_));
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char(_) if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {}
            KeyCode::Char('q') => return false,
            _ if self.help => self.help = false,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('f' | ' ') => self.freeze(),
            KeyCode::Esc | KeyCode::Backspace => self.back(),
            KeyCode::Up | KeyCode::Char('k') if is_ring => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') if is_ring => self.scroll = self.scroll.saturating_add(1),
            _ if is_ring => {}
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-10),
            KeyCode::PageDown => self.go(10),
            KeyCode::Home => self.go(isize::MIN),
            KeyCode::End => self.go(isize::MAX),
            KeyCode::Left | KeyCode::Char('<') => self.sort_by_next(Column::SORTABLE.len() - 1),
            KeyCode::Right | KeyCode::Char('>') => self.sort_by_next(1),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('i') => self.idle = !self.idle,
            KeyCode::Char('p') => {
                let next = if self.page() == Page::Processes { Page::Rings } else { Page::Processes };
                self.pages = vec![next];
                self.selected = None;
            }
            KeyCode::Enter => self.open(),
            _ => {}
        }
        true
    }

    fn freeze(&mut self) {
        self.frozen = !self.frozen;
        if let Some(newest) = self.newest.take_if(|_| !self.frozen) {
            self.shown = Some(newest);
        }
    }

    fn sort_by_next(&mut self, steps: usize) {
        let sortable = Column::SORTABLE;
        let at = sortable.iter().position(|c| *c == self.sort).unwrap_or(0);
        self.sort = sortable[(at + steps) % sortable.len()];
    }

    fn go(&mut self, steps: isize) {
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else { return };
        let to = self.place(&rows).saturating_add_signed(steps).min(last);
        self.selected = Some(number(&rows[to]));
    }

    fn open(&mut self) {
        let rows = self.rows();
        let Some(row) = rows.get(self.place(&rows)) else { return };
        let (selected, page) = match row.ring {
            Some(ring) => (Some(ring), Page::Ring(ring)),
            None => (None, Page::RingsOf(row.tgid)),
        };
        (self.selected, self.scroll) = (selected, 0);
        self.pages.push(page);
    }

    fn back(&mut self) {
        if self.pages.len() > 1 {
            let left = self.pages.pop();
            self.selected = match left {
                Some(Page::Ring(number) | Page::RingsOf(number)) => Some(number),
                _ => None,
            };
        }
    }
}

fn number(row: &Row<'_>) -> u32 {
    row.ring.unwrap_or(row.tgid)
}
