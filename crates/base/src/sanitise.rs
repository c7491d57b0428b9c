//! Text from outside, as it may be shown.

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
pub fn is_plain(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // After a letter, where a combining mark may stand.
    let mut buffer = [b'a'; 5];
    let end = 1 + c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..end]).is_ok_and(|s| s.escape_debug().nth(1) == Some(c))
}
