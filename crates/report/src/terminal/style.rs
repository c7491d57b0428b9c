//! What the terminal can show: colours, and the lines that bars are made of.

use std::ffi::OsString;
use std::io::IsTerminal as _;

use iotrail_base::plain::{self, Locale};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Lines may be coloured; never as the only sign of anything.
    pub colour: bool,
    /// Bars may be made of box-drawing lines.
    pub lines: bool,
}

/// What a colour says beside the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hue {
    Good,
    Bad,
    Doubt,
}

impl Style {
    /// Of a terminal that shows letters alone.
    pub const PLAIN: Style = Style { colour: false, lines: false };

    pub fn of_stdout() -> Self {
        Self::of(std::io::stdout().is_terminal(), |name| std::env::var_os(name).filter(|v| !v.is_empty()))
    }

    /// `variable`: its value where it is set and not empty. NO_COLOR (no-color.org) refuses colours, and CLICOLOR_FORCE
    /// (bixense.com/clicolors) wants them wherever the text goes; else a terminal gets them that has them. Lines need a
    /// locale of UTF-8.
    fn of(terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let forced = variable("CLICOLOR_FORCE").is_some_and(|v| v != "0");
        let has_colours = terminal && variable("TERM").is_none_or(|t| t != "dumb");
        Self {
            colour: variable("NO_COLOR").is_none() && (forced || has_colours),
            lines: plain::locale(&variable) == Locale::Utf8,
        }
    }

    /// Whether standard error is a terminal on which a line may be drawn again and again.
    pub fn moves_cursor() -> bool {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        std::io::stderr().is_terminal() && set("TERM").is_some_and(|t| t != "dumb") && set("NO_COLOR").is_none()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn style(terminal: bool, set: &[(&str, &str)]) -> Style {
        Style::of(terminal, |name| set.iter().find(|(n, v)| *n == name && !v.is_empty()).map(|(_, v)| v.into()))
    }

    #[test]
    fn colours_are_for_a_terminal_that_wants_them() {
        let colour = |terminal, set: &[_]| style(terminal, set).colour;
        assert!(colour(true, &[]) && colour(true, &[("NO_COLOR", "")]));
        assert!(!colour(false, &[]) && !colour(true, &[("NO_COLOR", "1")]) && !colour(true, &[("TERM", "dumb")]));
        assert!(colour(false, &[("CLICOLOR_FORCE", "1")]) && !colour(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!colour(true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    }

    #[test]
    fn bars_are_of_lines_where_the_locale_has_them() {
        let lines = |set: &[_]| style(false, set).lines;
        assert!(lines(&[("LANG", "de_DE.UTF-8")]) && lines(&[("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!lines(&[]) && !lines(&[("LC_ALL", "POSIX"), ("LANG", "de_DE.UTF-8")]));
    }
}
