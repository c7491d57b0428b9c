//! Parses a job file as fio 3 does: `[global]` and job sections, `key=value` and bare keys, comments from `;` or `#` to
//! the end of the line.

use std::collections::BTreeMap;

use super::Fault;

/// An option in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub line: usize,
    /// `None`: a bare key.
    pub value: Option<String>,
}

/// One job including preceding global options. Job options override them, and later options override earlier ones.
#[derive(Debug, Default)]
pub struct Job {
    /// Keyed by the canonical name in fio's manual.
    pub settings: BTreeMap<String, Setting>,
}

/// Option aliases.
const ALIASES: &[(&str, &str)] = &[
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("iodepth_batch_complete", "iodepth_batch_complete_min"),
    ("io_limit", "io_size"),
    ("timeout", "runtime"),
    ("nr_files", "nrfiles"),
    ("fileoffset", "offset"),
    ("blocksize_range", "bsrange"),
    ("blockalign", "ba"),
];

pub fn read(text: &str) -> Result<Job, Fault> {
    let mut job = Job::default();
    // Line and name of each job section.
    let mut jobs: Vec<(usize, &str)> = Vec::new();
    let (mut in_section, mut in_job) = (false, false);
    for (i, raw) in text.lines().enumerate() {
        let line = i + 1;
        let content = raw.split([';', '#']).next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let Some(name) = rest.strip_suffix(']') else {
                return Err(Fault::line(line, "a section's name ends with ']'"));
            };
            // As in fio, any name with this prefix is global.
            (in_section, in_job) = (true, !name.starts_with("global"));
            if in_job {
                jobs.push((line, name));
            }
            continue;
        }
        if !in_section {
            return Err(Fault::line(line, format!("'{content}' precedes the first [section]")));
        }
        if content == "include" || content.starts_with("include ") {
            return Err(Fault::line(line, "include is not supported: copy the lines here"));
        }
        if content.contains("${") {
            return Err(Fault::line(line, format!("'{content}' uses an environment variable: write its value")));
        }
        let (key, value) = match content.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim().to_owned())),
            None => (content, None),
        };
        // fio's keywords: $jobname, $ncpus, $pagesize, $mb_memory.
        if value.as_deref().is_some_and(|v| v.contains('$')) {
            return Err(Fault::line(line, format!("'{content}' uses a keyword of fio: write its value")));
        }
        // A [global] section after a job only applies to later jobs.
        if jobs.is_empty() || jobs.len() == 1 && in_job {
            let name = ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, name)| name);
            job.settings.insert(name.to_owned(), Setting { line, value });
        }
    }
    match jobs.as_slice() {
        [_] => Ok(job),
        [] => Err(Fault { line: None, what: "it has no job section".into() }),
        [_, (line, _), ..] => {
            let names: Vec<&str> = jobs.iter().map(|(_, name)| *name).collect();
            Err(Fault::line(*line, format!("it has {} jobs ({}): keep one", jobs.len(), names.join(", "))))
        }
    }
}

impl Setting {
    fn text(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }

    /// The value of a Boolean option; a bare key is true.
    pub fn flag(&self) -> Option<bool> {
        match self.value.as_deref() {
            None | Some("1") => Some(true),
            Some("0") => Some(false),
            Some(_) => None,
        }
    }

    /// A number with an optional size suffix; `kb_base`: the value of `k`.
    pub fn number(&self, kb_base: u64) -> Option<u64> {
        number(self.text(), kb_base)
    }

    /// A time in microseconds; `seconds`: numbers without a unit are in seconds.
    pub fn span_us(&self, seconds: bool) -> Option<u64> {
        let text = self.text().to_ascii_lowercase();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let unit = match &text[digits..] {
            "" => {
                if seconds {
                    1_000_000
                } else {
                    1
                }
            }
            "us" | "usec" => 1,
            "ms" | "msec" => 1000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return None,
        };
        text[..digits].parse::<u64>().ok()?.checked_mul(unit)
    }
}

/// fio's sizes: with the default `kb_base` of 1024, `4k` is 4096 and `4kib` is 4000; with 1000 it is the reverse.
pub fn number(text: &str, kb_base: u64) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None => (text.as_str(), 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let other = if kb_base == 1000 { 1024 } else { 1000 };
    let powers = |unit: &str| "kmgtp".find(unit).map(|n| n as u32 + 1);
    let unit = match &digits[end..] {
        "" | "b" => 1u64,
        suffix => {
            let (letter, rest) = suffix.split_at_checked(1)?;
            let base = match rest {
                "" | "b" => kb_base,
                "ib" => other,
                _ => return None,
            };
            base.checked_pow(powers(letter)?)?
        }
    };
    u64::from_str_radix(&digits[..end], radix).ok()?.checked_mul(unit)
}

pub(super) fn no_value(name: &str, s: &Setting, wanted: &str) -> Fault {
    match &s.value {
        Some(value) => Fault::line(s.line, format!("{name}={value}: not {wanted}")),
        None => Fault::line(s.line, format!("{name} needs {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_with_fio_suffixes() {
        for (text, bytes) in [
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("4kb", 4096),
            ("4kib", 4000),
            ("1m", 1 << 20),
            ("2MiB", 2_000_000),
            ("3g", 3 << 30),
            ("1t", 1 << 40),
            ("0x1000", 4096),
        ] {
            assert_eq!(number(text, 1024), Some(bytes), "{text}");
        }
        assert_eq!((number("4k", 1000), number("4kib", 1000)), (Some(4000), Some(4096)));
        for bad in ["", "k", "4x", "4kk", "50%", "-1", "1.5g", "99999999999t", "4µ", "(4*1024)"] {
            assert_eq!(number(bad, 1024), None, "{bad}");
        }
    }

    #[test]
    fn times_are_parsed_with_fio_units() {
        let us = |text: &str, seconds| Setting { line: 1, value: Some(text.into()) }.span_us(seconds);
        assert_eq!((us("30", true), us("30", false)), (Some(30_000_000), Some(30)));
        assert_eq!(
            (us("10s", false), us("2m", true), us("5ms", true)),
            (Some(10_000_000), Some(120_000_000), Some(5000))
        );
        assert_eq!((us("1 day", true), us("99999999999999999999", true), us("", true)), (None, None, None));
    }
}
