//! Terminal capabilities: colours, and box-drawing characters for bars.

use std::ffi::OsString;
use std::io::IsTerminal as _;

use iotrail_base::plain::{self, Locale};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Colours are available; they are never the only sign.
    pub colour: bool,
    /// Box-drawing characters are available.
    pub lines: bool,
}

/// The meaning of a colour. The text always contains it as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hue {
    Good,
    Bad,
    Doubt,
}

impl Style {
    /// A terminal that supports neither.
    pub const PLAIN: Style = Style { colour: false, lines: false };

    pub fn of_stdout() -> Self {
        Self::of(std::io::stdout().is_terminal(), |name| std::env::var_os(name).filter(|v| !v.is_empty()))
    }

    /// `variable` returns the value of an environment variable if it is set and not empty. NO_COLOR (no-color.org)
    /// disables colours, and CLICOLOR_FORCE (bixense.com/clicolors) enables them for any output; otherwise the terminal
    /// decides. Box drawing requires a UTF-8 locale.
    fn of(terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let forced = variable("CLICOLOR_FORCE").is_some_and(|v| v != "0");
        let has_colours = terminal && variable("TERM").is_none_or(|t| t != "dumb");
        Self {
            colour: variable("NO_COLOR").is_none() && (forced || has_colours),
            lines: plain::locale(&variable) == Locale::Utf8,
        }
    }

    /// Whether standard error is a terminal on which a line can be redrawn.
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
    fn colours_depend_on_terminal_and_environment() {
        let colour = |terminal, set: &[_]| style(terminal, set).colour;
        assert!(colour(true, &[]) && colour(true, &[("NO_COLOR", "")]));
        assert!(!colour(false, &[]) && !colour(true, &[("NO_COLOR", "1")]) && !colour(true, &[("TERM", "dumb")]));
        assert!(colour(false, &[("CLICOLOR_FORCE", "1")]) && !colour(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!colour(true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    }

    #[test]
    fn bars_use_box_drawing_in_utf8_locales() {
        let lines = |set: &[_]| style(false, set).lines;
        assert!(lines(&[("LANG", "de_DE.UTF-8")]) && lines(&[("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!lines(&[]) && !lines(&[("LC_ALL", "POSIX"), ("LANG", "de_DE.UTF-8")]));
    }
}
