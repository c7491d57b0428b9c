//! Writes page elements in order, and escapes all text.

use std::fmt::{Display, Write as _};

#[derive(Default)]
pub struct Markup {
    out: String,
}

pub type Attributes<'a> = &'a [(&'static str, &'a dyn Display)];

impl Markup {
    pub fn open(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.begin(name, attributes);
        self.out.push('>');
    }

    pub fn close(&mut self, name: &'static str) {
        self.put(format_args!("</{name}>"));
    }

    /// An element without content.
    pub fn empty(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.begin(name, attributes);
        self.out.push_str("/>");
    }

    pub fn text(&mut self, name: &'static str, attributes: Attributes<'_>, text: &str) {
        self.open(name, attributes);
        escape(text, &mut self.out);
        self.close(name);
    }

    pub fn finish(self) -> String {
        self.out
    }

    fn begin(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.put(format_args!("<{name}"));
        for (key, value) in attributes {
            self.put(format_args!(" {key}=\""));
            escape(&value.to_string(), &mut self.out);
            self.out.push('"');
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("writing to a string cannot fail");
    }
}

/// Same as [`escape`]; XML needs the same escaping.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(text, &mut out);
    out
}

/// The result cannot end an element or attribute, or change the direction of subsequent text.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

/// A position or a length in percent of the axis.
pub struct Percent(pub f64);

impl Display for Percent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%", (self.0 * 100.0).round() / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped_in_markup() {
        let mut m = Markup::default();
        m.open("g", &[("class", &"\"><script>")]);
        m.text("text", &[("x", &Percent(33.3333))], "a</text><b>&\u{202e}\u{1b}");
        m.empty("rect", &[]);
        m.close("g");
        assert_eq!(
            m.finish(),
            "<g class=\"&quot;&gt;&lt;script&gt;\"><text x=\"33.33%\">a&lt;/text&gt;&lt;b&gt;&amp;\u{fffd}\u{fffd}</text><rect/></g>"
        );
    }
}
