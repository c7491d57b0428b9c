//! Makes external text safe to display.

/// Replaces characters that control a terminal, change the writing direction, are invisible or end the line by their
/// number. Keeps combining marks.
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

/// Based on the standard library's non-printable characters: control and format characters, line ends, spaces except
/// U+0020, and unassigned code points.
pub fn is_plain(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // A combining mark is allowed after a letter.
    let mut buffer = [b'a'; 5];
    let end = 1 + c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..end]).is_ok_and(|s| s.escape_debug().nth(1) == Some(c))
}
