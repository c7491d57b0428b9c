//! Makes external text safe for a terminal (names of files, devices, programs, hosts and kernels, titles of
//! experiments), and prints lines to standard error. All text with such names passes through here, so that no name can
//! control a terminal or imitate an iotrail message.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::sanitise::is_plain;
pub use crate::sanitise::sanitise;

/// Escapes control characters in JSON strings by number, which does not change the JSON's meaning.
pub fn json(text: String) -> String {
    let steers = |c: char| !is_plain(c) && c != '\n';
    if !text.contains(steers) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match steers(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
            false => out.push(c),
        }
    }
    out
}

/// Like [`json`], but in ASCII if it goes to a terminal with an ASCII locale.
pub fn json_shown(text: String) -> String {
    let text = json(text);
    if text.is_ascii() || !std::io::stdout().is_terminal() || !is_ascii_alone(Stream::Stdout) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii() {
            true => out.push(c),
            false => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out
}

/// Destination of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Characters that the user's programs can read and display (locale(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locale {
    Utf8,
    /// `C`, `POSIX`, or a locale that is not UTF-8.
    Other,
    /// No locale is specified, as in services and containers, whose logs accept UTF-8.
    Unset,
}

/// `variable`: an environment variable's value if it is set and not empty.
pub fn locale(variable: impl Fn(&str) -> Option<OsString>) -> Locale {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(&variable);
    match named.map(|name| name.to_string_lossy().to_ascii_lowercase()) {
        None => Locale::Unset,
        Some(name) if name.contains("utf-8") || name.contains("utf8") => Locale::Utf8,
        Some(_) => Locale::Other,
    }
}

/// Whether text must be ASCII: with a locale that is not UTF-8, or on a terminal without a locale.
fn is_ascii_alone(stream: Stream) -> bool {
    match locale(|name| std::env::var_os(name).filter(|v| !v.is_empty())) {
        Locale::Utf8 => false,
        Locale::Other => true,
        Locale::Unset => match stream {
            Stream::Stdout => std::io::stdout().is_terminal(),
            Stream::Stderr => std::io::stderr().is_terminal(),
        },
    }
}

/// Text in the characters of the user's locale. iotrail's own symbols are replaced by similar ASCII, other characters
/// by their number.
pub fn for_locale(text: &str, stream: Stream) -> Cow<'_, str> {
    if text.is_ascii() || !is_ascii_alone(stream) { Cow::Borrowed(text) } else { Cow::Owned(to_ascii(text)) }
}

/// Whether output on a terminal must be ASCII.
pub fn stdout_is_ascii() -> bool {
    is_ascii_alone(Stream::Stdout)
}

/// Like [`to_ascii`], for a single character of the same width.
pub fn one_of_ascii(c: char) -> char {
    match c {
        _ if c.is_ascii() => c,
        _ => nearest(c).and_then(|near| near.chars().next()).unwrap_or('?'),
    }
}

pub(crate) fn to_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match nearest(c) {
            _ if c.is_ascii() => out.push(c),
            Some(near) => out.push_str(near),
            None => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// As wide as the original if possible, so that tables stay aligned.
fn nearest(c: char) -> Option<&'static str> {
    Some(match c {
        'µ' | 'μ' => "u",
        '×' => "x",
        '·' => "|",
        '–' | '—' | '−' | '─' => "-",
        '…' => "...",
        '±' => "+-",
        '→' => "->",
        '←' => "<",
        '↑' | '└' | '├' | '│' => "|",
        '↓' | '↘' | '▼' => "v",
        '▲' => "^",
        '━' | '╸' | '█' => "#",
        '░' => ".",
        '▒' => "=",
        '√' => "sqrt ",
        '≥' => ">=",
        '≤' => "<=",
        '≈' => "~",
        '÷' => "/",
        '²' => "^2",
        '³' => "^3",
        '⁶' => "^6",
        '⁹' => "^9",
        '’' | '‘' => "'",
        '“' | '”' => "\"",
        _ => return None,
    })
}

/// Set before main if standard output was closed at startup.
static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Must be called before the standard library opens /dev/null in place of a closed descriptor.
pub fn note_closed_stdout() {
    let is_closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
    STDOUT_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Fails if standard output was closed at startup, in which case a result would be lost silently.
pub fn stdout_is_open() -> Result<()> {
    match STDOUT_CLOSED.load(Ordering::Relaxed) {
        false => Ok(()),
        true => Err(Error::machine(
            "cannot write to standard output: it is closed",
            "redirect it to a file or to /dev/null",
        )),
    }
}

/// Writes one sanitised line to standard error. A failure cannot be reported anywhere, so it is ignored.
pub fn say(line: &str) {
    let line = sanitise(line);
    writeln!(std::io::stderr().lock(), "{}", for_locale(&line, Stream::Stderr)).unwrap_or(());
}

#[cfg(test)]
pub mod tests {
    use iotrail_testing::hostile::HOSTILE;

    use super::*;

    #[test]
    fn control_and_invisible_characters_are_escaped() {
        let plain = sanitise(HOSTILE);
        assert!(plain.starts_with("x\\u{1b}[2J\\u{1b}[1;31m\\u{1b}]0;t\\u{7}"), "{plain}");
        assert!(
            plain.contains("\\u{9b}31m") && plain.contains("\\u{d}\\u{8}\\u{7f}\\u{a}warning: forged\\u{a}\\u{202e}")
        );
        assert!(plain.ends_with("\\u{2066}\\u{200b}\\u{feff}\\u{2028}\\u{e0041}\\u{ad}\u{fffd}"), "{plain}");
        assert_eq!(sanitise(&plain), plain);
    }

    #[test]
    fn printable_unicode_text_is_unchanged() {
        for text in ["a b~", "größer – 10 µs · ±5 % …", "世界", "e\u{301}", "नमस्ते", "עברית", "🚀", "\u{fe0f}☎"]
        {
            assert_eq!(sanitise(text), text);
        }
    }

    #[test]
    fn sanitized_json_has_the_same_content() {
        let value = serde_json::json!({"name": HOSTILE, "世": 1});
        let text = json(serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| c == '\n' || is_plain(c)), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn the_locale_is_the_first_nonempty_variable() {
        let of = |set: &[(&str, &str)]| {
            locale(|name| set.iter().find(|(n, v)| *n == name && !v.is_empty()).map(|(_, v)| v.into()))
        };
        assert_eq!(of(&[]), Locale::Unset);
        assert_eq!(of(&[("LC_ALL", ""), ("LANG", "de_DE.UTF-8")]), Locale::Utf8);
        assert_eq!(of(&[("LC_CTYPE", "C.utf8"), ("LANG", "C")]), Locale::Utf8);
        assert_eq!(of(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]), Locale::Other);
        assert_eq!(of(&[("LANG", "de_DE")]), Locale::Other);
    }

    #[test]
    fn symbols_have_an_ascii_form_and_other_characters_are_escaped() {
        assert_eq!(to_ascii("größer – 10 µs · ±5 % … ×2 → ━━╸"), "gr\\u{f6}\\u{df}er - 10 us | +-5 % ... x2 -> ###");
        assert_eq!("ö – µ … ≥".chars().map(one_of_ascii).collect::<String>(), "? - u . >");
    }
}
