//! `--when`: a condition on exported metrics, such as `unreaped > 100` or `rate(stalls{trigger="overflow"}) >= 0.5`.
//! Pure.

use std::collections::BTreeMap;
use std::str::FromStr;

use iotrail_schema::metric_family::{Family, Labels, Value};

/// `METRIC`, `METRIC{LABEL="TEXT",…}` or `rate(METRIC…)`, followed by `>`, `>=`, `<` or `<=` and a number. True if any
/// series satisfies it.
#[derive(Debug, Clone, PartialEq)]
pub struct When {
    pub text: String,
    metric: String,
    labels: Vec<(String, String)>,
    is_rate: bool,
    than: Than,
    number: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Than {
    More,
    MoreOrSame,
    Less,
    LessOrSame,
}

/// A series that satisfies the condition, and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Met {
    pub labels: Labels,
    pub value: f64,
}

const WRITE: &str = "write METRIC > NUMBER, as 'unreaped > 100', or 'rate(stalls{trigger=\"overflow\"}) >= 0.5'";

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A label value may contain any character.
        let at = text.rfind(['<', '>']).ok_or(WRITE)?;
        let (left, right) = (text[..at].trim(), &text[at..]);
        let (than, number) = match (right.strip_prefix(">="), right.strip_prefix('>'), right.strip_prefix("<=")) {
            (Some(rest), ..) => (Than::MoreOrSame, rest),
            (_, Some(rest), _) => (Than::More, rest),
            (.., Some(rest)) => (Than::LessOrSame, rest),
            _ => (Than::Less, &right[1..]),
        };
        let number = number.trim();
        let number =
            number.parse::<f64>().ok().filter(|x| x.is_finite()).ok_or(format!("'{number}' is not a number"))?;
        let rate = left.strip_prefix("rate(").and_then(|rest| rest.strip_suffix(')'));
        let series = rate.unwrap_or(left).trim();
        let (metric, labels) = match series.split_once('{') {
            None => (series, vec![]),
            Some((metric, rest)) => (metric, labels(rest.strip_suffix('}').ok_or(WRITE)?)?),
        };
        let metric = metric.trim().strip_prefix("iotrail_").unwrap_or(metric.trim());
        let metric = metric.strip_suffix("_total").unwrap_or(metric);
        if metric.is_empty() || !metric.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(WRITE.into());
        }
        let metric = metric.to_owned();
        Ok(When { text: text.trim().to_owned(), metric, labels, is_rate: rate.is_some(), than, number })
    }
}

/// Parses `a="b",c="d"`; quotes are optional.
fn labels(text: &str) -> Result<Vec<(String, String)>, String> {
    let one = |part: &str| {
        let (name, value) = part.split_once('=').ok_or(WRITE)?;
        Ok((name.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(one).collect()
}

/// Values of all series at one time, by metric name and labels.
pub type Values = BTreeMap<(&'static str, Labels), f64>;

pub fn values(families: &[Family]) -> Values {
    let number = |value: &Value| match value {
        Value::Count(n) => *n as f64,
        Value::Nanoseconds(ns) => *ns as f64 / 1e9,
        Value::Now(x) => *x,
        Value::Buckets(b) => b.count as f64,
    };
    let each = |f: &Family| {
        let name = f.name;
        f.samples.iter().map(move |(labels, value)| ((name, labels.clone()), number(value))).collect::<Vec<_>>()
    };
    families.iter().flat_map(each).collect()
}

impl When {
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// The series that satisfies the condition and is furthest from the number. A rate is per second since `before`.
    pub fn met(&self, now: &Values, before: &Values, seconds: f64) -> Option<Met> {
        let fits =
            |labels: &Labels| self.labels.iter().all(|(n, v)| labels.iter().any(|(name, text)| name == n && text == v));
        let of = |(key, value): (&(&'static str, Labels), &f64)| {
            let value = match self.is_rate {
                false => *value,
                true => (value - before.get(key)?) / seconds.max(1e-9),
            };
            Some(Met { labels: key.1.clone(), value })
        };
        let series = now.iter().filter(|((name, labels), _)| *name == self.metric && fits(labels)).filter_map(of);
        let is_met = |met: &Met| match self.than {
            Than::More => met.value > self.number,
            Than::MoreOrSame => met.value >= self.number,
            Than::Less => met.value < self.number,
            Than::LessOrSame => met.value <= self.number,
        };
        let distance = |met: &Met| (met.value - self.number).abs();
        series.filter(is_met).max_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn when(text: &str) -> When {
        text.parse().unwrap()
    }

    fn at(unreaped: f64, overflows: f64) -> Values {
        let of = |trigger: &str| vec![("trigger", trigger.to_owned())];
        BTreeMap::from([
            (("unreaped", vec![]), unreaped),
            (("stalls", of("overflow")), overflows),
            (("stalls", of("fsync")), 7.0),
        ])
    }

    #[test]
    fn a_condition_compares_a_metric_or_its_rate_with_a_number() {
        let (now, before) = (at(5.0, 9.0), at(0.0, 3.0));
        let is_met = |text: &str| when(text).met(&now, &before, 2.0).is_some();
        let value = |text: &str| when(text).met(&now, &before, 2.0).map(|met| met.value);
        assert!(is_met("unreaped>4.5") && is_met("iotrail_unreaped >= 5") && !is_met("unreaped > 5"));
        assert!(is_met("unreaped < 6") && !is_met("unreaped <= 4"));
        assert_eq!(value("stalls > 1"), Some(9.0), "the furthest");
        assert_eq!(value("iotrail_stalls_total{trigger=\"fsync\"} > 1"), Some(7.0));
        assert_eq!(value("rate(stalls{trigger=overflow}) > 1"), Some(3.0));
        assert_eq!(value("rate(stalls) > 3"), None);
        assert_eq!(value("rate(unknown) < 3"), None, "unknown is not zero");
    }

    #[test]
    fn invalid_conditions_are_rejected() {
        for wrong in
            ["", "unreaped", "unreaped > many", "> 3", "a b > 3", "a{b > 3", "a{b} > 3", "a > nan", "rate(a > 3"]
        {
            assert!(wrong.parse::<When>().is_err(), "{wrong}");
        }
    }
}
