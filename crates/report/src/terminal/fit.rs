//! A 20-line screen: parts are shortened or omitted, least important first, until it fits.

use super::layout::{Screen, WIDTH};
use super::style::Style;
use iotrail_base::words::list;

/// Maximum number of lines without --full; a 24-line terminal also shows the command and the prompt.
const LINES: usize = 20;

/// The order in which parts are shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// Further findings are reduced to one line.
    OtherFindings,
    /// Omits the bar; the line above contains its shares.
    Bar,
    /// Reduces the load's description to one line, and a program's command to three.
    Subject,
    /// Omits empty lines.
    Space,
    PerIo,
    /// Omits the time of kernel threads.
    KernelThreads,
    /// Reduces the second limit to its name.
    SecondLimit,
    Cpu,
    /// Reduces the program's command to two lines.
    Command,
    /// Omits the first limit's remedy.
    Remedies,
    DeliveredBy,
    Time,
    /// Omits the time of the program's threads.
    Threads,
    /// Omits the load's description, which the user knows.
    Run,
    /// Reduces all limits to their names.
    LimitNames,
    /// Cuts off the end of a finding; no known finding is that long.
    Endings,
}

/// A part of a screen, in decreasing lengths.
pub struct Part {
    name: &'static str,
    style: Style,
    /// Each form with the step that introduces it; the first applies from the start.
    forms: Vec<(Option<Turn>, Screen)>,
    shown: usize,
}

impl Part {
    /// From this step on, `form` replaces the part.
    pub fn or(&mut self, turn: Turn, make: impl FnOnce(&mut Screen)) -> &mut Self {
        let mut form = Screen::new(self.style);
        make(&mut form);
        self.forms.push((Some(turn), form));
        self
    }

    /// From this step on, the part is omitted.
    pub fn gives_way(&mut self, turn: Turn) -> &mut Self {
        self.or(turn, |_| ())
    }

    fn lines(&self, form: usize) -> usize {
        self.forms[form].1.as_str().lines().count()
    }
}

/// A screen with a limited number of lines.
pub struct Brief {
    style: Style,
    parts: Vec<Part>,
    /// The last line if nothing was omitted.
    closing: String,
    /// The command or option that prints omitted parts.
    rest: String,
}

impl Brief {
    pub fn new(style: Style, closing: &str, rest: &str) -> Self {
        Self { style, parts: Vec::new(), closing: closing.to_owned(), rest: rest.to_owned() }
    }

    /// Adds a part. `name`: its name in the list of omitted parts; empty to exclude it from the list.
    pub fn part(&mut self, name: &'static str, make: impl FnOnce(&mut Screen)) -> &mut Part {
        let mut whole = Screen::new(self.style);
        make(&mut whole);
        self.parts.push(Part { name, style: self.style, forms: vec![(None, whole)], shown: 0 });
        self.parts.last_mut().expect("one was pushed")
    }

    pub fn field(&mut self, label: &'static str, items: &[String]) -> &mut Part {
        self.part(label, |o| o.field(label, items))
    }

    /// The load's description, reduced to one line if necessary.
    pub fn subject(&mut self, label: &'static str, items: &[String]) -> &mut Part {
        self.subject_or(label, items, items)
    }

    /// Same as [`subject`](Self::subject), with `shortly` as the one-line form.
    pub fn subject_or(&mut self, label: &'static str, items: &[String], shortly: &[String]) -> &mut Part {
        self.field(label, items).or(Turn::Subject, |o| o.field_in_a_line(label, shortly)).gives_way(Turn::Run)
    }

    /// A command, reduced to three lines, to two and to one, with `shortly` as its short form.
    pub fn command(&mut self, label: &'static str, items: &[String], shortly: &[String]) -> &mut Part {
        self.field(label, items)
            .or(Turn::Subject, |o| o.field_in_lines(label, shortly, 3))
            .or(Turn::Command, |o| o.field_in_lines(label, shortly, 2))
            .or(Turn::Run, |o| o.field_in_a_line(label, shortly))
            .gives_way(Turn::Run)
    }

    pub fn blank(&mut self) {
        self.part("", Screen::blank).gives_way(Turn::Space);
    }

    /// Shortens the screen until it fits.
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
        // A small part that was omitted early may fit again after a large part was omitted.
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
            let closing = with_legend(closing, out.as_str());
            if out.as_str().lines().count() + 2 <= LINES {
                out.blank();
            }
            out.paragraph("", &closing);
        }
        out
    }
}

/// Appends the meaning of the marks in a text to the last line, if the line has space.
fn with_legend(closing: String, text: &str) -> String {
    let estimated = text.contains(" ~").then_some("~ estimated");
    let unknown = text.lines().any(|line| line.ends_with(" –") || line.contains(" – ")).then_some("– unknown");
    let marks: Vec<&str> = [estimated, unknown].into_iter().flatten().collect();
    let with = format!("{closing}  ({})", marks.join(", "));
    if marks.is_empty() || (closing.chars().count() <= WIDTH && with.chars().count() > WIDTH) { closing } else { with }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize) -> impl FnOnce(&mut Screen) {
        move |o| (0..n).for_each(|i| o.line(&format!("row {i}")))
    }

    #[test]
    fn the_least_important_parts_are_omitted_first_and_listed() {
        let mut b = Brief::new(Style::PLAIN, "all of it", "--full");
        b.part("", rows(15));
        b.part("time", rows(3)).or(Turn::Bar, rows(2)).gives_way(Turn::Time);
        assert_eq!(b.lines(), 20, "with its closing line and an empty one before it");
        b.part("CPU", rows(1)).gives_way(Turn::Cpu);
        let text = b.fit().to_string();
        assert_eq!(text.lines().count(), LINES);
        assert!(text.ends_with("row 2\nrow 0\nall of it\n"), "the empty line is omitted first: {text}");
    }

    #[test]
    fn omitted_parts_that_fit_are_restored() {
        let mut b = Brief::new(Style::PLAIN, "", "--full");
        b.part("", rows(17));
        b.part("per I/O", rows(1)).gives_way(Turn::PerIo);
        b.part("CPU", rows(3)).gives_way(Turn::Cpu);
        let text = b.fit().to_string();
        // Without one row 21 lines remain, which is one too many; without three rows the screen fits.
        assert_eq!(text.lines().count(), LINES, "{text}");
        assert!(text.ends_with("row 16\nrow 0\n\nleft out (--full): CPU\n"), "{text}");
    }
}
