//! Numbers as text. An unknown number is [`UNKNOWN`], never 0.

use crate::sanitise::sanitise;

/// Printed in place of an unknown number.
pub const UNKNOWN: &str = "–";

/// From here on, numbers have an exponent: a program's own metric may have 300 digits.
const HUGE: f64 = 1e15;

/// Three significant digits, without an exponent between 0.001 and 10¹⁵.
pub fn three_digits(x: f64) -> String {
    match x.abs() {
        a if a >= HUGE => format!("{x:.2e}"),
        a if a >= 99.95 => format!("{x:.0}"),
        a if a >= 9.995 => format!("{x:.1}"),
        a if a >= 0.9995 || a == 0.0 => format!("{x:.2}"),
        a if a >= 0.001 => format!("{x:.3}"),
        _ => format!("{x:.1e}"),
    }
}

fn scaled(x: f64, step: f64, units: &[&str]) -> String {
    let mut x = x;
    let mut i = 0;
    // Switches before the value would round up to a fourth digit.
    while x.abs() >= 0.9995 * step && i + 1 < units.len() {
        x /= step;
        i += 1;
    }
    // A value without a unit prefix is a count, printed as an integer.
    let number = if i == 0 && x.fract() == 0.0 { format!("{x:.0}") } else { three_digits(x) };
    if units[i].is_empty() { number } else { format!("{number} {}", units[i]) }
}

/// A rate per second or a count: `250`, `9.81 k`, `1.10 M`.
pub fn count(x: f64) -> String {
    if x.abs() >= HUGE { three_digits(x) } else { scaled(x, 1e3, &["", "k", "M", "G"]) }
}

/// A duration: `812 ns`, `101 µs`, `4.00 ms`, `1.20 s`.
pub fn span(ns: f64) -> String {
    scaled(ns, 1e3, &["ns", "µs", "ms", "s"])
}

/// A duration that may be unknown.
pub fn known_span(ns: Option<u64>) -> String {
    ns.map_or(UNKNOWN.into(), |ns| span(ns as f64))
}

/// A size: `4 KiB`, `1.50 GiB`.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]).replace(".00 ", " ")
}

/// A share of 1 in percent. Only exact values are printed as 0 % or 100 %.
pub fn percent(share: f64) -> String {
    let p = share * 100.0;
    match p {
        p if p > 0.0 && p < 0.1 => "<0.1 %".into(),
        p if p > 99.9 && p < 100.0 => ">99.9 %".into(),
        p if (p > 0.0 && p < 0.995) || (99.0..100.0).contains(&p) => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// A number per I/O, with two decimals: smaller differences do not matter.
pub fn per_io(x: f64) -> String {
    if x > 0.0 && x < 0.005 { "<0.01".into() } else { format!("{x:.2}") }
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// `0,2,3`: CPUs or descriptors as options accept them.
pub fn numbers(of: &[u32]) -> String {
    of.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// " and 3 descendants", to follow the name of a process.
pub fn and_descendants(n: usize) -> String {
    if n == 0 { String::new() } else { format!(" and {}", plural(n, "descendant")) }
}

/// `1 repeat`, `2 repeats`.
pub fn plural(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// The same for large counts: `80.0 k completions`.
pub fn so_many(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", count(n as f64)) }
}

/// `SIGSEGV`, or `signal 40`.
pub fn signal_name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(signal - 1).ok().and_then(|at| NAMES.get(at));
    name.map_or_else(|| format!("signal {signal}"), |name| format!("SIG{name}"))
}

/// A line of another program's output for use in a message: one sanitised line of at most 200 characters.
pub fn quoted(line: &str) -> String {
    const MOST: usize = 200;
    let end = line.char_indices().nth(MOST).map(|(i, _)| i);
    let plain = sanitise(&line[..end.unwrap_or(line.len())]);
    if end.is_some() || plain.chars().count() > MOST {
        return plain.chars().take(MOST - 1).chain(['…']).collect();
    }
    plain
}

/// The last non-empty line, [`quoted`]; `None` if there is none.
pub fn last_line(text: &str) -> Option<String> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_last_nonempty_one() {
        assert_eq!(last_line("a\n b \n \n\n").as_deref(), Some("b"));
        assert_eq!(last_line(" \n"), None);
    }

    #[test]
    fn a_quoted_line_is_escaped_and_has_at_most_200_characters() {
        assert_eq!(quoted("disk\x1b[2J full"), "disk\\u{1b}[2J full");
        assert_eq!(quoted(&"ü".repeat(200)), "ü".repeat(200));
        for long in ["ü".repeat(300_000), "\x1b".repeat(150)] {
            let line = last_line(&long).unwrap();
            assert!(line.chars().count() == 200 && line.ends_with('…'), "{line}");
        }
    }

    #[test]
    fn numbers_are_printed_with_three_digits_and_a_unit() {
        assert_eq!(
            [0.0, 250.0, 999.0, 999.6, 9812.0, 1.1e6].map(count),
            ["0", "250", "999", "1.00 k", "9.81 k", "1.10 M"]
        );
        assert_eq!(count(99.96), "100");
        assert_eq!([812.0, 100_900.0, 3_998_123.0, 1.2e9].map(span), ["812 ns", "101 µs", "4.00 ms", "1.20 s"]);
        assert_eq!([512, 4096, 1 << 30, 3 << 29].map(bytes), ["512 B", "4 KiB", "1 GiB", "1.50 GiB"]);
        assert_eq!(
            [0.0, 0.0001, 0.004, 0.5, 0.994, 0.9996, 1.0].map(percent),
            ["0 %", "<0.1 %", "0.4 %", "50 %", "99.4 %", ">99.9 %", "100 %"]
        );
        assert_eq!([0.0256, 1.154, 12.34, 387.9].map(three_digits), ["0.026", "1.15", "12.3", "388"]);
        assert_eq!([1.002e300, -2e20, 1e-300].map(count), ["1.00e300", "-2.00e20", "1.0e-300"]);
        assert_eq!([9.9e14, 1e15].map(count), ["990000 G", "1.00e15"]);
    }

    #[test]
    fn lists_and_plurals_are_formatted_as_prose() {
        let of = |s: &[&str]| list(&s.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            (of(&[]), of(&["a"]), of(&["a", "b"]), of(&["a", "b", "c"])),
            ("".into(), "a".into(), "a and b".into(), "a, b and c".into())
        );
        assert_eq!((plural(1, "repeat"), plural(2, "repeat")), ("1 repeat".into(), "2 repeats".into()));
    }
}
