//! The traced programs as text for a scrape: OpenMetrics 1.0, or Prometheus's format 0.0.4.
//!
//! **Series are bounded**: [`RINGS`] rings and contexts by number, the others together as `ring="others"`; [`OPCODES`] opcodes of
//! each, and [`SITES`] sites of IPIs, with their `others`; interrupts by vector and CPU, or, if these are more than
//! [`INTERRUPTS`], by vector. Units are seconds and bytes, as Prometheus recommends.

mod families;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use self::families::{families, scrapes};
use iotrail_base::plain::sanitise;
use iotrail_schema::metric_family::{Family, Kind, Labels, Scraped, Value};

pub const RINGS: usize = 64;
pub const OPCODES: usize = 16;
pub const SITES: usize = 32;
pub const INTERRUPTS: usize = 256;

/// The format of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Prometheus,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Selects the format by the `Accept` header. The default is Prometheus's format, which browsers display.
    pub fn accepted(header: &str) -> Self {
        let best = |kind: &str| {
            let of_kind = header.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                if !parts.next()?.eq_ignore_ascii_case(kind) {
                    return None;
                }
                let quality = parts.find_map(|p| p.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse::<f64>().ok());
                quality.filter(|q| *q > 0.0)
            });
            of_kind.reduce(f64::max)
        };
        match (best("application/openmetrics-text"), best("text/plain")) {
            (Some(open), plain) if plain.is_none_or(|plain| open >= plain) => Format::OpenMetrics,
            _ => Format::Prometheus,
        }
    }
}

/// Outcomes of previous scrapes, part of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answered {
    pub served: u64,
    /// Invalid requests, and requests before the first data.
    pub refused: u64,
    /// Clients that were too slow, and connections above the limit.
    pub dropped: u64,
}

/// Formats each scrape. Programs update the counts while they are read, so one read can return a larger value than the
/// next (`Watch::look`). Counters never decrease here, because readers would interpret that as a restart.
#[derive(Debug, Default)]
pub struct Exposition {
    told: HashMap<String, u64>,
}

impl Exposition {
    pub fn text(&mut self, scraped: &Scraped, answered: Answered, format: Format) -> String {
        let mut out = String::with_capacity(16 << 10);
        let made;
        let all = match scraped {
            Scraped::Trace(record) => {
                made = families(record);
                &made
            }
            Scraped::Monitor(families) => families,
        };
        for family in all.iter().chain([&scrapes(answered)]).filter(|f| !f.samples.is_empty()) {
            self.family(&mut out, family, format);
        }
        if format == Format::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }

    fn family(&mut self, out: &mut String, family: &Family, format: Format) {
        let name = format!("iotrail_{}", family.name);
        // In Prometheus's format, a counter's family has the name of its sample.
        let of_family = match (format, family.kind) {
            (Format::Prometheus, Kind::Counter) => format!("{name}_total"),
            _ => name.clone(),
        };
        out.push_str(&format!("# TYPE {of_family} {}\n", family.kind.name()));
        if let (Format::OpenMetrics, Some(unit)) = (format, family.unit()) {
            out.push_str(&format!("# UNIT {of_family} {unit}\n"));
        }
        out.push_str(&format!("# HELP {of_family} {}\n", family.help));
        for (labels, value) in &family.samples {
            match value {
                Value::Count(n) => self.count(out, &format!("{name}_total"), labels, &[], *n, 1.0),
                Value::Nanoseconds(n) => self.count(out, &format!("{name}_total"), labels, &[], *n, 1e9),
                Value::Now(x) => {
                    out.push_str(&format!("{name}{} {}\n", braces(labels, &[]), plain(*x)));
                }
                Value::Buckets(b) => {
                    let mut so_far = 0;
                    for (i, n) in b.counts.iter().enumerate() {
                        so_far += n;
                        let bound = iotrail_schema::metrics_record::BOUNDS_NS.get(i).map(|ns| plain(*ns as f64 / 1e9));
                        let bound = bound.unwrap_or("+Inf".into());
                        self.count(out, &format!("{name}_bucket"), labels, &[("le", &bound)], so_far, 1.0);
                    }
                    self.count(out, &format!("{name}_sum"), labels, &[], b.sum_ns, 1e9);
                    self.count(out, &format!("{name}_count"), labels, &[], b.count, 1.0);
                }
            }
        }
    }

    /// A counter; `per`: counts per unit.
    fn count(&mut self, out: &mut String, name: &str, labels: &Labels, more: &[(&str, &str)], n: u64, per: f64) {
        let series = format!("{name}{}", braces(labels, more));
        let n = match self.told.get_mut(&series) {
            Some(told) => {
                *told = n.max(*told);
                *told
            }
            None => {
                self.told.insert(series.clone(), n);
                n
            }
        };
        let value = if per == 1.0 { n.to_string() } else { plain(n as f64 / per) };
        out.push_str(&format!("{series} {value}\n"));
    }
}

fn braces(labels: &Labels, more: &[(&str, &str)]) -> String {
    let all = labels.iter().map(|(name, value)| (*name, value.as_str())).chain(more.iter().copied());
    let all: Vec<String> = all.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

/// Escapes the characters that a label value must not contain.
fn escaped(text: &str) -> String {
    // A program's name must not control the terminal on which a scrape is displayed.
    sanitise(text).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// With a decimal point, as OpenMetrics requires for bucket bounds.
fn plain(x: f64) -> String {
    format!("{x:?}")
}
