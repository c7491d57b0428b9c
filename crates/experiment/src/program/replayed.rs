//! A recording as the program: runs `iotrail replay --once`, and uses its measurement.

use std::path::PathBuf;

use hdrhistogram::Histogram;

use super::figure::json_values;
use crate::replay::Once;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_schema::measurement::Measurement;
use iotrail_stats::histogram;

/// The options of `replay` under `[load]`. Ring flags are set by `ring`, as for any program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replayed {
    /// `None` if the load is not a replay.
    pub recording: Option<PathBuf>,
    /// Names and values.
    options: Vec<(&'static str, String)>,
}

impl Replayed {
    /// Fails on a value that `replay` rejects.
    pub(super) fn new(
        recording: Option<PathBuf>,
        options: Vec<(&'static str, String)>,
    ) -> std::result::Result<Self, String> {
        for (name, value) in &options {
            let known: &[&str] = match *name {
                "engine" => &["io_uring", "libaio", "sync"],
                "speed" => &["think", "none", "timestamps"],
                "register" => &["files", "buffers", "none", "files,buffers"],
                "map" if !value.contains('=') => return Err(format!("'{value}' is not OLD=NEW")),
                _ if value == "0" => return Err("it must be at least 1".into()),
                _ => continue,
            };
            if !known.contains(&&value[..]) {
                return Err(format!("'{value}' is not one of {}", known.join(", ")));
            }
        }
        Ok(Self { recording, options })
    }

    /// The command; `None` if the load is not a replay.
    pub(super) fn argv(&self) -> Option<Vec<String>> {
        let recording = self.recording.as_ref()?;
        let iotrail = std::env::current_exe().map_or("iotrail".into(), |path| path.display().to_string());
        let fixed = [&iotrail, "replay", "--once", "--json"].map(String::from);
        let options = self.options.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]);
        Some(fixed.into_iter().chain(options).chain(["--".into(), recording.display().to_string()]).collect())
    }

    /// Fails on an unreadable recording, or on options without a recording.
    pub fn check(&self) -> Result<()> {
        match (&self.recording, self.options.first()) {
            (None, Some((name, _))) => {
                Err(Error::input(format!("'{name}' is a replay option"), "add replay = \"FILE\", or omit it"))
            }
            (None, None) => Ok(()),
            (Some(path), _) => std::fs::File::open(path).map(drop).or_input(
                format_args!("cannot read the recording {}", path.display()),
                "record it with `iotrail trace --record FILE --for-replay`",
            ),
        }
    }

    /// Copies the load's metrics from the replay's output. Returns the latencies.
    pub(super) fn take(&self, m: &mut Measurement, output: &str) -> Result<Histogram<u64>> {
        let measured = json_values(output).filter_map(|value| serde_json::from_value::<Once>(value).ok()).last();
        let once = measured.or_machine("the replay printed no measurement", "run it by hand")?;
        let own = once.measurement;
        (m.elapsed_ns, m.ios, m.bytes, m.errors) = (own.elapsed_ns, own.ios, own.bytes, own.errors);
        (m.errors_by, m.short_ios, m.iops) = (own.errors_by, own.short_ios, own.iops);
        (m.latency_ns, m.cpu) = (own.latency_ns, own.cpu);
        let mut latencies = histogram::new();
        once.latency_histogram.into_iter().for_each(|(ns, n)| latencies.saturating_record_n(ns, n));
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replay_options_become_command_line_options() {
        let of = |options: &[(&'static str, &str)]| {
            Replayed::new(Some("r".into()), options.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
        };
        let argv = of(&[("engine", "libaio"), ("depth", "4"), ("map", "/a=/b")]).unwrap().argv().unwrap();
        assert_eq!(argv[1..].join(" "), "replay --once --json --engine libaio --depth 4 --map /a=/b -- r");
        assert_eq!(of(&[("engine", "posix_aio")]).unwrap_err(), "'posix_aio' is not one of io_uring, libaio, sync");
        assert_eq!(of(&[("depth", "0")]).unwrap_err(), "it must be at least 1");
        assert_eq!(of(&[("map", "/a")]).unwrap_err(), "'/a' is not OLD=NEW");
        assert!(Replayed::new(None, vec![("depth", "4".into())]).unwrap().check().is_err());
    }
}
