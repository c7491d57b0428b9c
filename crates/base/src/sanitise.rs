//! Text from outside, as it may be shown.

/// Removes characters that control a terminal, change the direction of writing, are invisible, or end the line; their
/// number is shown instead. Combining marks stay.
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

/// The standard library knows non-printable characters: control and format characters, line ends, spaces except the usual one, and
/// code points that Unicode has not assigned.
pub fn is_plain(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // A combining mark is allowed after a letter.
    let mut buffer = [b'a'; 5];
    let end = 1 + c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..end]).is_ok_and(|s| s.escape_debug().nth(1) == Some(c))
}
