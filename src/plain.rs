//! Text from outside (names of files, devices, programs, hosts and kernels, titles of experiments) as a terminal may show it, and
//! the lines on standard error. What makes text of such names shows it by these functions, so that no name steers a terminal or
//! passes for a line of ours.

use std::io::Write as _;

/// Without what steers a terminal, turns the direction of writing, cannot be seen, or ends the line; such characters are shown by their
/// number. Marks that combine with a letter stay.
pub fn sanitise(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_plain(c) {
            true => out.push(c),
            false => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// The standard library knows what cannot be printed: control and format characters, line ends, spaces other than the usual one, and
/// what Unicode has not assigned.
fn is_plain(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // After a letter, where a combining mark may stand.
    let mut buffer = [b'a'; 5];
    let end = 1 + c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..end]).is_ok_and(|s| s.escape_debug().nth(1) == Some(c))
}

/// JSON whose strings hold no character that steers a terminal: those are written by their number, which JSON takes for the same.
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

/// Writes one line to standard error, plain whatever is in it. Where even that fails nobody can be told, and the work goes on.
pub fn say(line: &str) {
    writeln!(std::io::stderr().lock(), "{}", sanitise(line)).unwrap_or(());
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What a name can hold to mislead: sequences that clear the screen, set the title, write to the clipboard, make a link; their
    /// forms in C1; a bell, a return, a backspace, a line of its own; turned writing; nothing to be seen; bytes that were no UTF-8.
    pub const HOSTILE: &str = "x\x1b[2J\x1b[1;31m\x1b]0;t\x07\x1b]52;c;eA==\x07\x1b]8;;http://a\x1b\\\u{9b}31m\u{9d}0;t\u{9c}\
         \r\u{8}\x7f\nwarning: forged\n\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\u{e0041}\u{ad}\u{fffd}";

    #[test]
    fn nothing_that_steers_or_hides_is_left() {
        let plain = sanitise(HOSTILE);
        assert!(plain.starts_with("x\\u{1b}[2J\\u{1b}[1;31m\\u{1b}]0;t\\u{7}"), "{plain}");
        assert!(
            plain.contains("\\u{9b}31m") && plain.contains("\\u{d}\\u{8}\\u{7f}\\u{a}warning: forged\\u{a}\\u{202e}")
        );
        assert!(plain.ends_with("\\u{2066}\\u{200b}\\u{feff}\\u{2028}\\u{e0041}\\u{ad}\u{fffd}"), "{plain}");
        assert_eq!(sanitise(&plain), plain);
    }

    #[test]
    fn what_people_write_stays() {
        for text in ["a b~", "größer – 10 µs · ±5 % …", "世界", "e\u{301}", "नमस्ते", "עברית", "🚀", "\u{fe0f}☎"]
        {
            assert_eq!(sanitise(text), text);
        }
    }

    #[test]
    fn json_says_the_same_in_other_letters() {
        let value = serde_json::json!({"name": HOSTILE, "世": 1});
        let text = json(serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| c == '\n' || is_plain(c)), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
