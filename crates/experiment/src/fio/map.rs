//! Maps a job's options to those of `bench`. Reports options without a counterpart, unless they do not affect the load.

use toml::Value;

use iotrail_load::engine::capabilities::{Engine, TargetKind};

use super::job::{Job, Setting, no_value, number};
use super::passed_over::{ONLY, SAYS_NOTHING};
use super::{Fault, Imported};

pub(super) struct Mapping {
    job: Job,
    pub(super) kb_base: u64,
    pub(super) out: Imported,
}

pub(super) fn map(job: Job) -> Result<Imported, Fault> {
    let mut m = Mapping { job, kb_base: 1024, out: Imported::default() };
    if let Some(s) = m.take("kb_base") {
        m.kb_base = match s.number(1024) {
            Some(base @ (1000 | 1024)) => base,
            _ => return Err(Fault::line(s.line, "kb_base is 1024 or 1000")),
        };
    }
    let engine = m.engine()?;
    let rw = m.pattern()?;
    let jobs = m.number("numjobs")?.map_or(1, |(_, n)| n);
    m.set_number("jobs", None, jobs)?;
    if jobs > 1 && (rw == "read" || rw == "write") {
        m.note("fio's jobs all use the same part of the file; the jobs of this load use separate parts");
    }
    let bs = m.block_size(&rw)?;
    m.depth(engine)?;
    m.ring(engine)?;
    let size = m.target()?;
    m.cache(engine)?;
    m.length(jobs, bs, size)?;
    m.cpus(jobs);
    m.pace(&rw, jobs)?;
    m.verify();
    m.rest();
    let mut out = m.out;
    out.unmapped.sort();
    Ok(out)
}

impl Mapping {
    pub(super) fn take(&mut self, name: &str) -> Option<Setting> {
        self.job.settings.remove(name)
    }

    pub(super) fn set(&mut self, option: &str, value: impl Into<Value>) {
        self.out.options.insert(option.to_owned(), value.into());
    }

    pub(super) fn set_number(&mut self, option: &str, line: Option<usize>, n: u64) -> Result<(), Fault> {
        let n = i64::try_from(n).map_err(|_| Fault { line, what: format!("{n} is too large") })?;
        self.set(option, n);
        Ok(())
    }

    pub(super) fn note(&mut self, text: &str) {
        self.out.notes.push(text.to_owned());
    }

    pub(super) fn unmapped(&mut self, name: &str, setting: &Setting, why: &str) {
        let value = setting.value.as_ref().map_or_else(String::new, |v| format!("={v}"));
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        self.out.unmapped.push((setting.line, format!("{name}{value}{why}")));
    }

    /// A numeric option with its line.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<(usize, u64)>, Fault> {
        let Some(s) = self.take(name) else { return Ok(None) };
        match s.number(self.kb_base) {
            Some(n) => Ok(Some((s.line, n))),
            None => Err(no_value(name, &s, "a number")),
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, Fault> {
        let Some(s) = self.take(name) else { return Ok(None) };
        s.flag().map(Some).ok_or_else(|| no_value(name, &s, "0 or 1"))
    }

    fn pattern(&mut self) -> Result<String, Fault> {
        let Some(s) = self.take("rw") else {
            self.set("rw", "read");
            return Ok("read".into());
        };
        let value = s.value.clone().unwrap_or_default();
        let (name, sequence) = value.split_once(':').map_or((value.as_str(), None), |(n, rest)| (n, Some(rest)));
        if !["read", "write", "randread", "randwrite", "randrw"].contains(&name) {
            return Err(Fault::line(
                s.line,
                format!(
                    "rw={value} has no counterpart: the supported patterns are read, write, randread, randwrite and randrw"
                ),
            ));
        }
        if sequence.is_some() {
            let why = match name {
                "read" | "write" => "a sequential load accesses consecutive blocks",
                _ => "each offset is random, without sequential accesses after it",
            };
            self.unmapped("rw", &s, why);
        }
        self.set("rw", name);
        Ok(name.to_owned())
    }

    /// The value of fio's `reads,writes,trims` that the pattern uses. `None` if it uses two different values.
    fn of_direction(s: &Setting, rw: &str) -> Option<String> {
        let value = s.value.clone().unwrap_or_default();
        let mut parts = value.split(',');
        let reads = parts.next().unwrap_or_default().trim().to_owned();
        let writes = parts.next().map_or_else(|| reads.clone(), |w| w.trim().to_owned());
        match rw {
            "randrw" => (reads == writes).then_some(reads),
            "write" | "randwrite" => Some(writes),
            _ => Some(reads),
        }
    }

    fn block_size(&mut self, rw: &str) -> Result<u64, Fault> {
        let mut bs = 4096;
        if let Some(s) = self.take("bs") {
            match Self::of_direction(&s, rw) {
                Some(text) => {
                    bs = number(&text, self.kb_base)
                        .filter(|n| *n > 0)
                        .ok_or_else(|| no_value("bs", &s, "a size above 0"))?;
                }
                None => self.unmapped("bs", &s, "reads and writes have the same block size; 4k is used"),
            }
        }
        self.set_number("bs", None, bs)?;
        Ok(bs)
    }

    /// The file; returns how much of it is used.
    fn target(&mut self) -> Result<Option<u64>, Fault> {
        let directory = self.take("directory");
        match self.take("filename") {
            Some(s) => {
                let names = split_unescaped(s.value.as_deref().unwrap_or_default());
                match (names.as_slice(), &directory) {
                    ([name], Some(d)) if !name.starts_with('/') => {
                        let folder = d.value.as_deref().unwrap_or_default().trim_end_matches('/');
                        self.set("file", format!("{folder}/{name}"));
                    }
                    ([name], _) => self.set("file", name.clone()),
                    _ => self.unmapped("filename", &s, "a load has a single file"),
                }
            }
            None => {
                if let Some(d) = &directory {
                    self.unmapped("directory", d, "fio chooses a file name in this directory: set filename");
                }
                self.note(
                    "without filename, fio creates one file per job; this load uses one file for all jobs: specify it with --file",
                );
            }
        }
        let Some(s) = self.take("size") else { return Ok(None) };
        if s.value.as_deref().is_some_and(|v| v.ends_with('%')) {
            self.unmapped("size", &s, "a share of the target: specify bytes");
            return Ok(None);
        }
        let size = s.number(self.kb_base).ok_or_else(|| no_value("size", &s, "a size"))?;
        self.set_number("size", Some(s.line), size)?;
        Ok(Some(size))
    }

    fn cache(&mut self, engine: &Engine) -> Result<(), Fault> {
        let line = |s: &Option<Setting>| s.as_ref().map_or(0, |s| s.line);
        let (direct, buffered) = (self.take("direct"), self.take("buffered"));
        let value = |name: &str, s: &Option<Setting>| match s {
            None => Ok(None),
            Some(s) => s.flag().map(Some).ok_or_else(|| no_value(name, s, "0 or 1")),
        };
        let (is_direct, is_buffered) = (value("direct", &direct)?, value("buffered", &buffered)?);
        // The later of the two applies; without either, fio uses the page cache.
        let by_buffered = is_buffered.is_some() && line(&buffered) > line(&direct);
        let direct = if by_buffered { is_buffered == Some(false) } else { is_direct.unwrap_or(false) };
        self.set(if direct { "direct" } else { "buffered" }, true);
        let invalidate = self.flag("invalidate")?.unwrap_or(true);
        if !direct && invalidate && engine.target != TargetKind::Nothing {
            self.note(
                "fio drops the file's pages from the page cache before it starts (invalidate=1); this load does not",
            );
        }
        Ok(())
    }

    /// When the load ends: fio ends by time, by number, or after `size` bytes, whichever comes first.
    fn length(&mut self, jobs: u64, bs: u64, size: Option<u64>) -> Result<(), Fault> {
        let span = |m: &mut Self, name: &str| match m.take(name) {
            None => Ok(None),
            Some(s) => s.span_us(true).map(|us| Some((s.clone(), us))).ok_or_else(|| no_value(name, &s, "a time")),
        };
        let ramp = span(self, "ramp_time")?.map_or(0, |(_, us)| us);
        self.set("warmup", span_text(ramp));
        let time_based = self.flag("time_based")?.unwrap_or(false);
        let runtime = span(self, "runtime")?.filter(|(_, us)| *us > 0);
        let number_ios = self.number("number_ios")?.filter(|(_, n)| *n > 0);
        let io_size = self.take("io_size");
        let io_bytes = io_size.as_ref().and_then(|s| s.number(self.kb_base)).filter(|n| *n > 0);
        if let (Some(s), None) = (&io_size, io_bytes) {
            self.unmapped("io_size", s, "give bytes");
        }
        let count = number_ios.map(|(_, n)| n).or(io_bytes.map(|bytes| bytes / bs));
        match (runtime, count) {
            (Some((_, us)), None) => {
                self.set("runtime", span_text(us));
                if !time_based {
                    self.note("without time_based, fio ends before its runtime after `size` bytes; this load does not");
                }
            }
            (Some((_, us)), Some(_)) if time_based => {
                self.set("runtime", span_text(us));
                self.note("a load ends by time or by number of I/Os: with time_based, it ends by time");
            }
            (runtime, Some(n)) => {
                if let Some((s, _)) = runtime {
                    self.unmapped("runtime", &s, "a load ends by time or by number of I/Os, and a number is set");
                }
                self.set_count(n, jobs)?;
            }
            (None, None) => match size {
                Some(bytes) => self.set_count(bytes / bs, jobs)?,
                None => self.note(
                    "without runtime and size, fio accesses the entire target once; this load ends after 5 s, the default of bench",
                ),
            },
        }
        Ok(())
    }

    fn set_count(&mut self, of_each: u64, jobs: u64) -> Result<(), Fault> {
        let all = of_each.checked_mul(jobs).filter(|n| *n > 0);
        let all =
            all.ok_or_else(|| Fault { line: None, what: format!("{jobs} jobs of {of_each} I/Os are too many") })?;
        self.set_number("count", None, all)
    }

    fn cpus(&mut self, jobs: u64) {
        let policy = self.take("cpus_allowed_policy");
        let Some(s) = self.take("cpus_allowed") else { return };
        let list = s.value.clone().unwrap_or_default().replace(':', ",");
        let split = policy.is_some_and(|p| p.value.as_deref() == Some("split"));
        if !split && (jobs > 1 || list.contains(['-', ','])) {
            self.note(
                "fio's jobs may run on all CPUs of cpus_allowed (unless cpus_allowed_policy=split); this load binds each job to one of these CPUs, round-robin",
            );
        }
        self.set("cpus", list);
    }

    fn pace(&mut self, rw: &str, jobs: u64) -> Result<(), Fault> {
        if let Some(s) = self.take("rate_iops") {
            match Self::of_direction(&s, rw).map(|text| number(&text, self.kb_base)) {
                Some(Some(0)) => {}
                Some(Some(n)) => {
                    self.set("rate", n as f64 * jobs as f64);
                    self.note(
                        "fio's rate is per job, and its latency counts from submission; this load's rate covers all jobs, and its latency counts from the intended time",
                    );
                }
                Some(None) => return Err(no_value("rate_iops", &s, "a number")),
                None => self.unmapped("rate_iops", &s, "reads and writes have the same rate"),
            }
        }
        let span = |m: &mut Self, name: &str| match m.take(name) {
            None => Ok(None),
            Some(s) => s.span_us(false).map(|us| Some((s.clone(), us))).ok_or_else(|| no_value(name, &s, "a time")),
        };
        let spin = span(self, "thinktime_spin")?;
        if let Some((s, us)) = span(self, "thinktime")?.filter(|(_, us)| *us > 0) {
            let computing = spin.map_or(0, |(_, us)| us).min(us);
            if computing < us {
                self.unmapped(
                    "thinktime",
                    &s,
                    "fio sleeps during think time, except for thinktime_spin; this load computes",
                );
            }
            if computing > 0 {
                self.set_number("think", Some(s.line), computing.saturating_mul(1000))?;
                self.note("fio thinks after each submitted I/O; this load thinks once between reaping and submitting");
            }
        }
        Ok(())
    }

    fn verify(&mut self) {
        match self.take("verify") {
            Some(s) if !matches!(s.value.as_deref(), Some("0" | "none" | "null") | None) => {
                self.set("verify", true);
                self.note("blocks are verified with iotrail's own header and checksum, regardless of verify");
            }
            _ => {}
        }
    }

    /// Reports options that were not mapped.
    fn rest(&mut self) {
        for (name, setting) in std::mem::take(&mut self.job.settings) {
            if SAYS_NOTHING.contains(&name.as_str()) {
                continue;
            }
            let mut only = ONLY.iter().filter(|(n, ..)| *n == name).peekable();
            let why = only.peek().map_or("", |(_, _, why)| why);
            if !only.any(|(_, value, _)| setting.value.as_deref() == Some(value)) {
                self.unmapped(&name, &setting, why);
            }
        }
    }
}

fn span_text(us: u64) -> String {
    if us.is_multiple_of(1_000_000) { format!("{}s", us / 1_000_000) } else { format!("{us}us") }
}

/// fio's file names, separated by unescaped ':'.
fn split_unescaped(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        // The list starts with one empty name.
        let Some(last) = names.last_mut() else { break };
        match c {
            '\\' => last.extend(chars.next()),
            ':' => names.push(String::new()),
            c => last.push(c),
        }
    }
    names
}
