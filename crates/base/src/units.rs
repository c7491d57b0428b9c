//! Parses sizes and durations as written on the command line and in experiment files.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// A size in bytes; accepts `4k`, `1M`, `2g` (powers of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let s = s.trim();
        let digits = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
        let wrong = || format!("'{s}' is not a size: write 4096, 4k or 1m");
        let unit: u64 = match s[digits..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            "t" | "tb" | "tib" => 1 << 40,
            _ if digits == 0 => return Err(wrong()),
            other => return Err(format!("'{other}' is not a unit of size: use k, m, g or t")),
        };
        let n: u64 = s[..digits].parse().map_err(|_| wrong())?;
        n.checked_mul(unit).map(Bytes).ok_or_else(|| format!("'{s}' exceeds 64 bits"))
    }
}

/// A duration; accepts `5s`, `500ms`, `20us`, `100ns`, `2m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let s = s.trim();
        let digits = s.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(s.len());
        let wrong = || format!("'{s}' is not a duration: write 5s or 500ms");
        let ns = match s[digits..].trim() {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            "" if s == "0" => 1.0,
            "" => return Err(format!("'{s}' has no unit of time: write {s}s or {s}ms")),
            _ if digits == 0 => return Err(wrong()),
            other => return Err(format!("'{other}' is not a unit of time: use ns, us, ms, s, m or h")),
        };
        let n: f64 = s[..digits].parse().map_err(|_| wrong())?;
        Ok(Span(Duration::from_nanos((n * ns).round() as u64)))
    }
}

macro_rules! in_toml_as_text_or_number {
    ($t:ty) => {
        impl<'de> Deserialize<'de> for $t {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                #[serde(untagged)]
                enum Either {
                    Number(u64),
                    Text(String),
                }
                let text = match Either::deserialize(d)? {
                    Either::Number(n) => n.to_string(),
                    Either::Text(s) => s,
                };
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
in_toml_as_text_or_number!(Bytes);
in_toml_as_text_or_number!(Span);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_parsed_with_units() {
        assert_eq!("4k".parse(), Ok(Bytes(4096)));
        assert_eq!("1GiB".parse(), Ok(Bytes(1 << 30)));
        assert_eq!("-1".parse::<Span>().unwrap_err(), "'-1' is not a duration: write 5s or 500ms");
        assert_eq!("-1".parse::<Bytes>().unwrap_err(), "'-1' is not a size: write 4096, 4k or 1m");
        assert!("4x".parse::<Bytes>().is_err() && "k".parse::<Bytes>().is_err());
        assert!("99999999999t".parse::<Bytes>().is_err());
        assert_eq!("1.5s".parse(), Ok(Span(Duration::from_millis(1500))));
        assert_eq!("0".parse(), Ok(Span(Duration::ZERO)));
        assert!("5".parse::<Span>().unwrap_err().contains("unit"));
    }
}
