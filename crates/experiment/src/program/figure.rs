//! A metric printed by the program: where to find it in the output, and its direction.

use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use regex_lite::Regex;
use serde_json::Value;

use super::direction::less_is_better;
use super::limited::{LIMIT, limited};
use super::number::{longer, number};
use iotrail_base::words::{bytes, quoted};
use iotrail_schema::program_record::OwnFigure;

/// `tps=/tps = ([0-9.]+)/`, `p99=$.jobs[0].read.clat_ns.percentile."99.000000":less`.
#[derive(Debug, Clone)]
pub struct OwnMetric {
    pub name: String,
    /// The specification as written.
    text: String,
    place: Place,
    pub less_is_better: bool,
    /// The direction was guessed from the name.
    is_guessed: bool,
}

/// Maximum size of a program's stored output; its end is kept.
pub(super) const KEPT_OUTPUT: u64 = 16 << 20;

#[derive(Debug, Clone)]
enum Place {
    /// The first group of the last match.
    Match(Regex),
    /// A JSON path as written, and as a pointer into the last JSON value in the output that contains it.
    Json { path: String, pointer: String },
}

impl PartialEq for OwnMetric {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl FromStr for OwnMetric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once('=').ok_or_else(|| format!("'{text}' is not NAME=REGEX"))?;
        let name = name.trim();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./%".contains(c)) {
            return Err(format!("'{name}' is not a name: use letters, digits, _ - . / %"));
        }
        let (rest, said) = match (rest.strip_suffix(":less"), rest.strip_suffix(":more")) {
            (Some(rest), _) => (rest, Some(true)),
            (_, Some(rest)) => (rest, Some(false)),
            _ => (rest, None),
        };
        let place = match rest.strip_prefix('$') {
            Some(path) => {
                let pointer = pointer(path);
                let pointer = pointer.ok_or_else(|| format!("'{rest}' is not a JSON path such as $.a[0].\"b\""))?;
                Place::Json { path: rest.into(), pointer }
            }
            None => {
                let pattern = rest.strip_prefix('/').and_then(|r| r.strip_suffix('/')).unwrap_or(rest);
                if pattern.is_empty() {
                    return Err(format!("'{text}' has no regular expression"));
                }
                let regex = Regex::new(pattern).map_err(|e| format!("'{pattern}' is not a regular expression: {e}"))?;
                if regex.captures_len() < 2 {
                    return Err(format!("'{pattern}' has no group: put the number in one, as in 'tps = ([0-9.]+)'"));
                }
                Place::Match(regex)
            }
        };
        let less_is_better = said.unwrap_or_else(|| less_is_better(name));
        Ok(Self { name: name.into(), text: text.into(), place, less_is_better, is_guessed: said.is_none() })
    }
}

/// `.jobs[0].read."99.000000"` → `/jobs/0/read/99.000000`.
fn pointer(path: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (step, after) = if let Some(inner) = rest.strip_prefix('[') {
            let (inner, after) = inner.split_once(']')?;
            (inner.trim_matches(['\'', '"']), after)
        } else if let Some(quoted) = rest.strip_prefix(".\"") {
            quoted.split_once('"')?
        } else {
            let name = rest.strip_prefix('.')?;
            name.split_at(name.find(['.', '[']).unwrap_or(name.len()))
        };
        if step.is_empty() {
            return None;
        }
        out += &format!("/{}", step.replace('~', "~0").replace('/', "~1"));
        rest = after;
    }
    (!out.is_empty()).then_some(out)
}

/// `tps: more is better; add :less if it is not`: lists metrics without an explicit direction. `None` if there are
/// none.
pub fn guessed(metrics: &[OwnMetric]) -> Option<String> {
    let way = |less: bool| if less { "less" } else { "more" };
    let of = |m: &OwnMetric| format!("{}: {} is better", m.name, way(m.less_is_better));
    let guessed: Vec<&OwnMetric> = metrics.iter().filter(|m| m.is_guessed).collect();
    match &guessed[..] {
        [] => None,
        [one] => Some(format!("{}; add :{} if it is not", of(one), way(!one.less_is_better))),
        several => {
            let each: Vec<String> = several.iter().map(|m| of(m)).collect();
            Some(format!("{}; add :less or :more to override", each.join(", ")))
        }
    }
}

impl OwnMetric {
    /// Searches the program's output. Errors contain the pattern. `stop` aborts the search with an error.
    pub fn find(&self, output: &str, stop: &AtomicBool) -> Result<OwnFigure, String> {
        let value = match &self.place {
            Place::Match(pattern) => matched(pattern, output, LIMIT, stop),
            Place::Json { path, pointer } => json_number(path, pointer, output),
        };
        let value = value.map_err(|why| match output.len() as u64 >= KEPT_OUTPUT {
            true => format!("{why}; only the last {} of the output are kept", bytes(KEPT_OUTPUT)),
            false => why,
        })?;
        Ok(OwnFigure { name: self.name.clone(), value, less_is_better: self.less_is_better })
    }
}

/// The ranges of the last match and of its first group; `None` without a match.
type LastMatch = Option<(Range<usize>, Range<usize>)>;

fn last_match(pattern: &Regex, output: &str, limit: Duration, stop: &AtomicBool) -> Result<LastMatch, String> {
    limited(pattern, output, limit, stop, |pattern, text, given_up| {
        let last = pattern.captures_iter(text).take_while(|_| !given_up.load(Ordering::Relaxed)).last();
        last.and_then(|c| Some((c.get(0)?.range(), c.get(1)?.range())))
    })
}

/// The number in the last match.
fn matched(pattern: &Regex, output: &str, limit: Duration, stop: &AtomicBool) -> Result<f64, String> {
    let found = last_match(pattern, output, limit, stop)?;
    let (whole, its) = found.ok_or_else(|| format!("nothing in the output matches /{pattern}/"))?;
    let text = &output[its.clone()];
    let value = number(text).ok_or_else(|| format!("/{pattern}/ matches '{}', {}", quoted(text), no_number(text)))?;
    let open = (whole.start == its.start, whole.end == its.end);
    match longer(output, &its, open) {
        None => Ok(value),
        Some(longer) => Err(format!(
            "/{pattern}/ splits a number at '{}': extend the group to the full number, such as ([0-9.]+[kKMGT]?i?), or match the text after it",
            quoted(longer)
        )),
    }
}

fn no_number(text: &str) -> &'static str {
    match text.contains(',') {
        true => "which is not a number: commas separate thousands; for a decimal point, run it with LC_ALL=C",
        false => "which is not a number",
    }
}

/// The value at a JSON pointer in the last JSON value in the output that contains it.
fn json_number(path: &str, pointer: &str, output: &str) -> Result<f64, String> {
    let (mut any, mut found) = (false, None);
    for value in json_values(output) {
        any = true;
        found = value.pointer(pointer).cloned().or(found);
    }
    let found = match found {
        Some(found) => found,
        None if any => return Err(format!("the JSON has no value at {path}")),
        None => return Err(format!("the output contains no JSON{}", invalid(output))),
    };
    let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    let why = if found.is_string() { no_number(&text) } else { "which is not a number" };
    number(&text).ok_or_else(|| format!("{path} is {}, {why}", quoted(&text)))
}

/// The parser's error in the first line that starts an object or an array.
fn invalid(output: &str) -> String {
    let mut lines =
        output.split_inclusive('\n').scan(0, |at, line| Some((std::mem::replace(at, *at + line.len()), line)));
    let begins = lines.find(|(_, line)| line.starts_with(['{', '[']));
    let error = begins.and_then(|(at, _)| serde_json::from_str::<Value>(&output[at..]).err());
    error.map(|e| format!(": {e} of its first object or list")).unwrap_or_default()
}

/// The top-level JSON objects and arrays in the output, ignoring text around them.
pub(super) fn json_values(output: &str) -> impl Iterator<Item = Value> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(start) = output[at..].find(['{', '[']).map(|i| at + i) {
            let rest = &output[start..];
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let end = match values.next() {
                Some(Ok(value)) => {
                    at = start + values.byte_offset();
                    // Part of an invalid value, such as one with a NaN, is not a top-level value.
                    let before = output[..start].trim_end();
                    if before.ends_with([',', '[']) || before.ends_with("\":") {
                        continue;
                    }
                    return Some(value);
                }
                // Parts of a truncated value are not top-level values either.
                Some(Err(e)) if e.is_eof() => output.len(),
                Some(Err(e)) => start + place(rest, e.line(), e.column()).max(1),
                None => output.len(),
            };
            at = (end..=output.len()).find(|i| output.is_char_boundary(*i)).unwrap_or(output.len());
        }
        None
    })
}

/// Byte offset at which the parser stopped; lines are 1-based, columns are bytes.
fn place(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    (before + column).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(metric: &str, output: &str) -> Result<(f64, bool), String> {
        let metric: OwnMetric = metric.parse()?;
        metric.find(output, &AtomicBool::new(false)).map(|f| (f.value, f.less_is_better))
    }

    #[test]
    fn a_metric_is_the_last_regex_match_or_a_json_path() {
        assert_eq!(found("tps=/tps = ([0-9.]+)/", "tps = 10.5 now\ntps = 12.5 in all"), Ok((12.5, false)));
        assert_eq!(found("p99=p99: *([0-9.]+)", "p99: 7"), Ok((7.0, true)));
        assert_eq!(found("iops=/IOPS=([0-9.]+[kM]?)/", "read: IOPS=58.1k, BW=227MiB/s"), Ok((58_100.0, false)));
        let json = "fio: note\n{\n \"jobs\": [ {\"read\": {\"percentile\": {\"99.000000\": 41728}}} ]\n}\n";
        assert_eq!(found("p99=$.jobs[0].read.percentile.\"99.000000\"", json), Ok((41_728.0, true)));
        assert_eq!(found("x=$.jobs[0]['read'].percentile.\"99.000000\":more", json), Ok((41_728.0, false)));
    }

    #[test]
    fn the_direction_is_specified_or_inferred_and_reported() {
        let less = |metric: &str| metric.parse::<OwnMetric>().unwrap().less_is_better;
        assert!(less("lat_avg=/(x)/") && less("elapsed_s=/(x)/") && !less("qps=/(x)/") && !less("bandwidth=/(x)/"));
        // Rates in any unit.
        assert!(
            !less("req_per_s=/(x)/") && !less("mb_per_sec=/(x)/") && less("errors_per_s=/(x)/") && less("wall_s=/(x)/")
        );
        assert!(!less("lat=/(x)/:more") && less("tps=/(x)/:less"));
        let said = |metrics: &[&str]| guessed(&metrics.iter().map(|m| m.parse().unwrap()).collect::<Vec<OwnMetric>>());
        assert_eq!(said(&["tps=/(x)/"]).as_deref(), Some("tps: more is better; add :less if it is not"));
        assert_eq!(
            said(&["tps=/(x)/", "p99=/(x)/", "y=/(x)/:less"]).as_deref(),
            Some("tps: more is better, p99: less is better; add :less or :more to override")
        );
        assert_eq!(said(&["tps=/(x)/:more"]), None);
    }

    #[test]
    fn a_number_is_read_completely_or_rejected() {
        let of = |metric: &str, output: &str| found(metric, output).map(|(x, _)| x);
        let said = of("riops=/IOPS=([0-9.]+)/", "IOPS=10.2k, BW").unwrap_err();
        assert!(
            said.starts_with("/IOPS=([0-9.]+)/ splits a number at '10.2k': extend the group to the full number"),
            "{said}"
        );
        assert_eq!(of("riops=/IOPS=([0-9.]+)/", "IOPS=9950, BW"), Ok(9950.0));
        let whole = "riops=/IOPS=([0-9.]+[kKMGT]?i?)/";
        assert_eq!((of(whole, "IOPS=10.2k, BW"), of(whole, "IOPS=9950, BW")), (Ok(10_200.0), Ok(9950.0)));
        assert_eq!(of("bw=/BW=([0-9.]+[kKMGT]?i?)/", "BW=12.5MiB/s (13.1MB/s)"), Ok(12.5 * 1024.0 * 1024.0));
        assert!(of("req=/.*([0-9.]+) req/", "1523 req").unwrap_err().contains("at '1523'"));
        assert!(of("t=/took (.*) s/", "took 0,998213 s").unwrap_err().contains("LC_ALL=C"));
        // A pattern that matches the text after the number is intentional.
        assert_eq!(of("row=/^([0-9]+),/", "1523,77,12"), Ok(1523.0));
        assert_eq!(of("row=/^[0-9]+,([0-9]+)/", "1523,77 ms"), Ok(77.0));
    }

    #[test]
    fn a_missing_metric_is_reported() {
        let said = |metric: &str, output: &str| found(metric, output).unwrap_err();
        assert_eq!(said("tps=/tps = ([0-9.]+)/", "none"), "nothing in the output matches /tps = ([0-9.]+)/");
        assert_eq!(said("tps=/tps = (.*)/", "tps = many"), "/tps = (.*)/ matches 'many', which is not a number");
        assert_eq!(said("p99=$.a.b", "{\"a\": 1}"), "the JSON has no value at $.a.b");
        assert_eq!(said("p99=$.a", "no json"), "the output contains no JSON");
        assert_eq!(said("p99=$.a", "{\"a\": [1, 2]}"), "$.a is [1,2], which is not a number");
        let long = "y\n".repeat(KEPT_OUTPUT as usize / 2);
        assert_eq!(
            said("p99=$.a", &long),
            "the output contains no JSON; only the last 16.0 MiB of the output are kept"
        );
        assert_eq!(said("tps", ""), "'tps' is not NAME=REGEX");
        assert!(said("tps=/(/", "").starts_with("'(' is not a regular expression"));
        assert!(said("p99=$..", "").contains("is not a JSON path"));
    }

    #[test]
    fn a_json_path_matches_the_last_complete_json_value_that_has_it() {
        let of = |output: &str| found("m=$.tps", output).map(|(x, _)| x);
        for output in [
            r#"{"tps": 1000, "warm": {"tps": 5}}"#,
            "{\n\"warm\":\n{\"tps\": 5},\n\"tps\": 1000\n}",
            "{\n\"runs\": [\n{\"tps\": 5},\n{\"tps\": 6}\n],\n\"tps\": 1000}",
            "[info] started {pid 7}\nresult: {\"tps\": 1000} [done]",
            "{\"tps\": 5}\n{\"tps\": 1000}\n{\"other\": 1}\n",
            "{\"tps\": 5}{\"tps\": 1000}",
            "größe [ä] {\"tps\": \"1,000\"}",
            "50 % [####    ] \r100 % [########]\r{\"tps\": 1000}\nbye [",
        ] {
            assert_eq!(of(output), Ok(1000.0), "{output}");
        }
        const NAN: &str = "the output contains no JSON: expected value at line 1 column 7 of its first object or list";
        const CUT: &str =
            "the output contains no JSON: EOF while parsing a string at line 1 column 22 of its first object or list";
        for (output, why) in [
            ("{\"a\": NaN, \"b\": {\"tps\": 5}, \"c\": [{\"tps\": 5}]}", NAN),
            ("{\"b\": {\"tps\": 5}, \"cut", CUT),
            ("[{\"tps\": 5}]", "the JSON has no value at $.tps"),
        ] {
            assert_eq!(of(output).unwrap_err(), why, "{output}");
        }
        // A quadratic algorithm would take hours.
        assert!(of(&"[".repeat(2 << 20)).is_err() && of(&"{ [x".repeat(1 << 18)).is_err());
    }

    #[test]
    fn a_regular_expression_without_a_group_is_rejected() {
        let said = "tps=/tps = [0-9]+/".parse::<OwnMetric>().unwrap_err();
        assert_eq!(said, "'tps = [0-9]+' has no group: put the number in one, as in 'tps = ([0-9.]+)'");
        assert!("tps=/(?:tps) 1/".parse::<OwnMetric>().is_err());
    }

    #[test]
    fn a_regex_match_has_a_time_limit_and_can_be_stopped() {
        // A match with 2,500 states at each of 100,000 bytes takes seconds.
        let pattern = Regex::new("((?:a{0,50}){50})b").unwrap();
        let output = "a".repeat(100_000);
        let at = |limit, stop| matched(&pattern, &output, limit, &AtomicBool::new(stop)).unwrap_err();
        assert_eq!(at(LIMIT, true), "it was stopped");
        assert_eq!(
            at(Duration::from_millis(1), false),
            "/((?:a{0,50}){50})b/ takes longer than 1ms on 97.7 KiB of output; match more of its line"
        );
    }

    #[test]
    fn quotes_in_error_messages_are_truncated() {
        let long = "x".repeat(300_000);
        for metric in ["m=/a(.*)/", "m=$.a"] {
            let said = found(metric, &format!("a{long}\n{{\"a\": \"{long}\"}}")).unwrap_err();
            assert!(said.len() < 300, "{} bytes", said.len());
        }
    }
}
