//! Names that mislead who prints them as they are.

/// What a name can hold to mislead: sequences that clear the screen, set the title, write to the clipboard, make a link; their
/// forms in C1; a bell, a return, a backspace, a line of its own; turned writing; nothing to be seen; bytes that were no UTF-8.
pub const HOSTILE: &str = "x\x1b[2J\x1b[1;31m\x1b]0;t\x07\x1b]52;c;eA==\x07\x1b]8;;http://a\x1b\\\u{9b}31m\u{9d}0;t\u{9c}\
     \r\u{8}\x7f\nwarning: forged\n\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\u{e0041}\u{ad}\u{fffd}";
