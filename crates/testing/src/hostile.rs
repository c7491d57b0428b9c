//! Names that mislead programs which print them unmodified.

/// A misleading name: sequences that clear the screen, set the title, write to the clipboard, and create a link; the
/// same in C1 form; bell, carriage return, backspace, line feed; a changed writing direction; invisible characters;
/// bytes that are not UTF-8.
pub const HOSTILE: &str = "x\x1b[2J\x1b[1;31m\x1b]0;t\x07\x1b]52;c;eA==\x07\x1b]8;;http://a\x1b\\\u{9b}31m\u{9d}0;t\u{9c}\
     \r\u{8}\x7f\nwarning: forged\n\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\u{e0041}\u{ad}\u{fffd}";
