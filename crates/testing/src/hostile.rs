//! Names that mislead who prints them as they are.

/// Contents of a misleading name: sequences that clear the screen, set the title, write to the clipboard, create a link; their
/// forms in C1; a bell, a return, a backspace, a line feed; changed direction of writing; invisible characters; bytes that were not
/// UTF-8.
pub const HOSTILE: &str = "x\x1b[2J\x1b[1;31m\x1b]0;t\x07\x1b]52;c;eA==\x07\x1b]8;;http://a\x1b\\\u{9b}31m\u{9d}0;t\u{9c}\
     \r\u{8}\x7f\nwarning: forged\n\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\u{e0041}\u{ad}\u{fffd}";
