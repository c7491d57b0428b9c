//! A screen in 20 lines: its parts give way, those that are needed least first, until it fits.

use super::layout::Screen;
use super::style::Style;
use iotrail_base::words::list;

/// Lines of a screen that is not in full: a terminal of 24 has room for the command and the prompt beside them.
const LINES: usize = 20;

/// What gives way, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// Findings beside the answer go into one line.
    OtherFindings,
    /// The bar goes: its shares stand above it.
    Bar,
    /// What was run goes into one line.
    Subject,
    /// Empty lines go.
    Space,
    PerIo,
    /// Where the time of kernel threads went.
    KernelThreads,
    /// The second limit is told by its name.
    SecondLimit,
    Cpu,
    /// The first limit is told without what to do about it.
    Remedies,
    DeliveredBy,
    Time,
    /// Where the time of the program's threads went.
    Threads,
    /// What was run goes: whoever ran it knows.
    Run,
    /// All limits are told by their names.
    LimitNames,
    /// No finding is known that is so long: its end goes.
    Endings,
}

/// A part of a screen, in full and in shorter forms.
pub struct Part {
    name: &'static str,
    style: Style,
    /// When each takes the place of the one before. The first is there from the beginning.
    forms: Vec<(Option<Turn>, Screen)>,
    shown: usize,
}

impl Part {
    /// When it is its turn, this takes its place.
    pub fn or(&mut self, turn: Turn, make: impl FnOnce(&mut Screen)) -> &mut Self {
        let mut form = Screen::new(self.style);
        make(&mut form);
        self.forms.push((Some(turn), form));
        self
    }

    /// When it is its turn, it is left out.
    pub fn gives_way(&mut self, turn: Turn) -> &mut Self {
        self.or(turn, |_| ())
    }

    fn lines(&self, form: usize) -> usize {
        self.forms[form].1.as_str().lines().count()
    }
}

/// A screen that is to fit.
pub struct Brief {
    style: Style,
    parts: Vec<Part>,
    /// The last line, where nothing is left out.
    closing: String,
    /// How to see what is left out.
    rest: String,
}

impl Brief {
    pub fn new(style: Style, closing: &str, rest: &str) -> Self {
        Self { style, parts: Vec::new(), closing: closing.to_owned(), rest: rest.to_owned() }
    }

    /// The next part. `name`: what it is called where it is left out; empty: nothing is missing then.
    pub fn part(&mut self, name: &'static str, make: impl FnOnce(&mut Screen)) -> &mut Part {
        let mut whole = Screen::new(self.style);
        make(&mut whole);
        self.parts.push(Part { name, style: self.style, forms: vec![(None, whole)], shown: 0 });
        self.parts.last_mut().expect("one was pushed")
    }

    pub fn field(&mut self, label: &'static str, items: &[String]) -> &mut Part {
        self.part(label, |o| o.field(label, items))
    }

    /// What was run: in one line where there is no room for more.
    pub fn subject(&mut self, label: &'static str, items: &[String]) -> &mut Part {
        self.subject_or(label, items, items)
    }

    /// As [`subject`](Self::subject), with these in that one line.
    pub fn subject_or(&mut self, label: &'static str, items: &[String], shortly: &[String]) -> &mut Part {
        self.field(label, items).or(Turn::Subject, |o| o.field_in_a_line(label, shortly)).gives_way(Turn::Run)
    }

    pub fn blank(&mut self) {
        self.part("", Screen::blank).gives_way(Turn::Space);
    }

    /// As much of it as there is room for.
    pub fn fit(mut self) -> Screen {
        let forms =
            |(i, part): (usize, &Part)| (1..part.forms.len()).map(|form| (part.forms[form].0, i, form)).collect();
        let mut turns: Vec<(Option<Turn>, usize, usize)> =
            self.parts.iter().enumerate().flat_map::<Vec<_>, _>(forms).collect();
        turns.sort_by_key(|(turn, ..)| *turn);
        let mut gave = Vec::new();
        for (_, i, form) in turns {
            if self.lines() <= LINES {
                break;
            }
            let part = &mut self.parts[i];
            if part.lines(form) < part.lines(part.shown) {
                gave.push((i, std::mem::replace(&mut part.shown, form)));
            }
        }
        // What gave way first may have been little: there is room for it beside what gave way last.
        for (i, before) in gave.into_iter().rev() {
            let after = std::mem::replace(&mut self.parts[i].shown, before);
            if self.lines() > LINES {
                self.parts[i].shown = after;
            }
        }
        self.screen()
    }

    fn lines(&self) -> usize {
        self.screen().as_str().lines().count()
    }

    fn screen(&self) -> Screen {
        let mut out = Screen::new(self.style);
        self.parts.iter().for_each(|part| out.append(&part.forms[part.shown].1));
        let is_left_out = |part: &&Part| !part.name.is_empty() && part.lines(0) > 0 && part.lines(part.shown) == 0;
        let left_out: Vec<String> = self.parts.iter().filter(is_left_out).map(|part| part.name.to_owned()).collect();
        let closing = match left_out.as_slice() {
            [] => self.closing.clone(),
            names => format!("left out ({}): {}", self.rest, list(names)),
        };
        if !closing.is_empty() {
            if out.as_str().lines().count() + 2 <= LINES {
                out.blank();
            }
            out.paragraph("", &closing);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize) -> impl FnOnce(&mut Screen) {
        move |o| (0..n).for_each(|i| o.line(&format!("row {i}")))
    }

    #[test]
    fn what_is_needed_least_gives_way_first_and_is_named() {
        let mut b = Brief::new(Style::PLAIN, "all of it", "--full");
        b.part("", rows(15));
        b.part("time", rows(3)).or(Turn::Bar, rows(2)).gives_way(Turn::Time);
        assert_eq!(b.lines(), 20, "with its closing line and an empty one before it");
        b.part("CPU", rows(1)).gives_way(Turn::Cpu);
        let text = b.fit().to_string();
        assert_eq!(text.lines().count(), LINES);
        assert!(text.ends_with("row 2\nrow 0\nall of it\n"), "the empty line is the least: {text}");
    }

    #[test]
    fn what_there_is_room_for_comes_back() {
        let mut b = Brief::new(Style::PLAIN, "", "--full");
        b.part("", rows(17));
        b.part("per I/O", rows(1)).gives_way(Turn::PerIo);
        b.part("CPU", rows(3)).gives_way(Turn::Cpu);
        let text = b.fit().to_string();
        // Without one row 21 are left, one too many; without the three there is room for it.
        assert_eq!(text.lines().count(), LINES, "{text}");
        assert!(text.ends_with("row 16\nrow 0\n\nleft out (--full): CPU\n"), "{text}");
    }
}
