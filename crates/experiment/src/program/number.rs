//! Parses numbers as programs print them: `1234.5`, `1,234`, `58.1k`, `12.5Mi`.

use std::ops::Range;

/// Decimal prefixes; a following `i` turns them into powers of 1024.
const PREFIXES: [(char, i32); 5] = [('k', 1), ('K', 1), ('M', 2), ('G', 3), ('T', 4)];

/// Units that may follow a prefix: `10.2k`, `227MB/s`, `58kIOPS`.
const UNITS: [&str; 15] =
    ["", "b", "bit", "bits", "bps", "byte", "bytes", "ops", "iops", "req", "reqs", "rps", "tps", "qps", "hz"];
/// As above, with an `i` that belongs to the prefix.
const BINARY: [&str; 5] = ["i", "ib", "ibit", "ibps", "ibytes"];

/// Returns `None` if the text is not a number. Commas separate thousands.
pub fn number(text: &str) -> Option<f64> {
    let (digits, factor) = prefixed(text.trim());
    let parsed: Result<f64, _> = match digits.contains(',') {
        true => without_commas(digits)?.parse(),
        false => digits.parse(),
    };
    parsed.ok().filter(|x| x.is_finite()).map(|x| x * factor)
}

/// The number before the prefix, and the prefix's factor.
fn prefixed(text: &str) -> (&str, f64) {
    let (rest, step): (&str, f64) = text.strip_suffix('i').map_or((text, 1000.0), |rest| (rest, 1024.0));
    let of = |(prefix, power): &(char, i32)| Some((rest.strip_suffix(*prefix)?.trim_end(), step.powi(*power)));
    PREFIXES.iter().find_map(of).unwrap_or((text, 1.0))
}

/// `None` if the commas do not separate thousands. A decimal comma is ambiguous: `1,523` is parsed as 1523.
fn without_commas(text: &str) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (first, groups) = whole.trim_start_matches(['-', '+']).split_once(',')?;
    let is_first = (1..=3).contains(&first.len()) && !first.starts_with('0');
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let is_group = |group: &str| group.len() == 3 && all_digits(group);
    let parts_thousands = is_first && groups.split(',').all(is_group) && all_digits(fraction);
    parts_thousands.then(|| text.replace(',', ""))
}

/// The longer number that contains the match at `its`; `None` if the match is complete. `open`: whether the pattern
/// leaves the text before and after the match unmatched.
pub fn longer<'o>(output: &'o str, its: &Range<usize>, open: (bool, bool)) -> Option<&'o str> {
    let text = output[its.clone()].trim();
    let start = its.end - output[its.clone()].trim_start().len();
    let end = start + text.len();
    let (before, behind) = (&output[..start], &output[end..]);
    if !(began_before(before, open.0) || open.1 && goes_on(text, behind)) {
        return None;
    }
    let of_number = |c: char| c.is_ascii_digit() || ".,".contains(c);
    let from = before.trim_end_matches(of_number).len();
    let rest = behind.trim_start_matches(|c: char| of_number(c) || c.is_ascii_alphabetic());
    Some(output[from..output.len() - rest.len()].trim_matches(['.', ',']))
}

/// Whether a number matched here actually starts earlier. If the pattern itself matched up to a comma, the number is
/// separate.
fn began_before(before: &str, is_open: bool) -> bool {
    let mut back = before.chars().rev();
    match (back.next(), back.next()) {
        (Some(c), _) if c.is_ascii_digit() => true,
        (Some(','), Some(c)) => is_open && c.is_ascii_digit(),
        // Leader dots between a name and its value do not count.
        (Some('.'), c) => c.is_none_or(|c| c != '.' && !c.is_alphabetic()),
        _ => false,
    }
}

/// Whether the number continues after the match: digits, an exponent, or a prefix.
fn goes_on(text: &str, behind: &str) -> bool {
    let mut next = behind.chars();
    match (next.next(), next.next()) {
        (Some(c), _) if c.is_ascii_digit() => true,
        (Some('.' | ','), Some(c)) => c.is_ascii_digit(),
        (Some('e' | 'E'), Some(c)) if c.is_ascii_digit() || "+-".contains(c) => true,
        _ => prefix_is_cut(text, behind),
    }
}

/// Whether the match cuts off a prefix: in `12.5MiB/s` it must include `Mi`.
fn prefix_is_cut(text: &str, behind: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    let held = text.len() - text.trim_end_matches(is_letter).len();
    let letters = behind.len() - behind.trim_start_matches(is_letter).len();
    let unit = format!("{}{}", &text[text.len() - held..], &behind[..letters]);
    let mut rest = unit.chars();
    if !rest.next().is_some_and(|first| PREFIXES.iter().any(|(prefix, _)| *prefix == first)) {
        return false;
    }
    let rest = rest.as_str().to_ascii_lowercase();
    let needed = match rest.as_str() {
        rest if UNITS.contains(&rest) => 1,
        rest if BINARY.contains(&rest) => 2,
        _ => 0,
    };
    held < needed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_accept_thousands_separators_and_unit_prefixes() {
        let known = [
            ("1234.5", 1234.5),
            (" 58.1k ", 58_100.0),
            ("12.5 M", 12.5e6),
            ("2Ki", 2048.0),
            ("1.5T", 1.5e12),
            ("1,523", 1523.0),
            ("-1,234,567.25", -1_234_567.25),
            ("1e-3", 0.001),
        ];
        for (text, x) in known {
            assert_eq!(number(text), Some(x), "{text}");
        }
        for text in
            ["0,998213", "1,00213", "1,23", "12,3456", "1234,567", ",123", "1.523,7", "many", "", "inf", "5i", "k"]
        {
            assert_eq!(number(text), None, "{text}");
        }
    }

    /// `[` and `]` delimit the match.
    fn cut(text: &str) -> Option<String> {
        let (from, to) = (text.find('[').unwrap(), text.find(']').unwrap() - 1);
        longer(&text.replace(['[', ']'], ""), &(from..to), (true, true)).map(str::to_owned)
    }

    #[test]
    fn a_match_of_part_of_a_number_is_rejected() {
        for (text, whole) in [
            ("IOPS=[10.2]k, BW", "10.2k"),
            ("BW=[12.5]MiB/s", "12.5MiB"),
            ("BW=[12.5M]iB/s", "12.5MiB"),
            ("BW=[227]MB/s", "227MB"),
            ("152[3] req", "1523"),
            ("1,[523] req", "1,523"),
            ("0.[998] s", "0.998"),
            ("[1],523 req", "1,523"),
            ("[0],998213 s", "0,998213"),
            ("[1523].75", "1523.75"),
            ("[1.5]e+06", "1.5e"),
            ("[995]0 ops", "9950"),
        ] {
            assert_eq!(cut(text).as_deref(), Some(whole), "{text}");
        }
        for text in [
            "IOPS=[10.2k], BW",
            "BW=[12.5Mi]B/s",
            "[5] MiB/s",
            "lat=[5]ms",
            "[4] Threads",
            "[4]Threads",
            "[7]",
            "a, [7], b",
            "in all [1523]. Then",
            "p99 ....[7]",
            "took 2m[1.5]s",
            "[ 12.5 ]",
        ] {
            assert_eq!(cut(text), None, "{text}");
        }
        // A column of a table, where the pattern matches the previous column.
        let table = "1523,77,12";
        assert_eq!(
            (longer(table, &(5..7), (false, false)), longer(table, &(5..7), (true, false))),
            (None, Some(table))
        );
    }
}
