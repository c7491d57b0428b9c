//! Sentences about a run: the answer, the expectations, the machine, the losses.

use super::Source;
use super::view::View;
use iotrail_answer::compare::{Metric, compared_on};
use iotrail_answer::conclude::{Conclusion, conclude};
use iotrail_answer::drift;
use iotrail_answer::expectation::{self, Judged, judge};
use iotrail_answer::summary::Head;
use iotrail_answer::unit::Unit;
use iotrail_answer::warnings;
use iotrail_answer::warnings::losses::losses;
use iotrail_base::distinct::distinct;
use iotrail_base::grouped::grouped;
use iotrail_base::words::{UNKNOWN, count, plural, span};
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_schema::measurement::{Host, Target};
use iotrail_schema::run_record::{RunRecord, value_text};

/// One run, in words.
pub struct About {
    pub name: String,
    pub experiment: String,
    pub title: String,
    pub expect: String,
    /// `96 of 96 measurements`.
    pub measured: String,
    /// The seed, and the times of start and end.
    pub state: Vec<String>,
    /// Whether anything was measured.
    pub is_empty: bool,
    pub glance: Vec<Tally>,
    /// `None` if nothing was measured.
    pub head: Option<Answer>,
    pub conclusions: Vec<ConclusionText>,
    pub judged: Vec<Outcome>,
    /// Name and value of each known fact.
    pub facts: Vec<(String, String)>,
    pub losses: Vec<(String, String)>,
    pub warnings: Vec<Sentence>,
    pub command: Option<String>,
}

/// The first lines of the run, as on the terminal.
pub struct Answer {
    pub sentence: String,
    /// Lines by label: when, why, do, each (of two objectives), also.
    pub lines: Vec<(&'static str, String)>,
    pub notes: Vec<String>,
}

impl Answer {
    fn new(head: &Head) -> Self {
        let lines = [("when", &head.when), ("why", &head.why), ("do", &head.advice)];
        let also = head.also.iter().map(|text| ("also", text.clone()));
        let front = head.front.iter().flat_map(|front| front.lines()).map(|text| ("each", text));
        Self {
            sentence: head.answer.clone(),
            lines: lines
                .into_iter()
                .filter_map(|(label, text)| Some((label, text.clone()?)))
                .chain(front)
                .chain(also)
                .collect(),
            notes: head.notes.clone(),
        }
    }
}

/// CSS class of a verdict; the table cell also contains its word or sign.
fn badge(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster | Verdict::Equivalent => "met",
        Verdict::Slower => "unmet",
        Verdict::Inconclusive | Verdict::NotComparable => "open",
    }
}

/// A conclusion, and a short form if it is long.
pub struct ConclusionText {
    pub about: String,
    pub sentences: Vec<Sentence>,
}

impl ConclusionText {
    fn new(c: Conclusion) -> Self {
        Self { about: c.about, sentences: c.sentences.into_iter().map(Sentence::new).collect() }
    }
}

pub struct Sentence {
    /// The sentence without long parentheses; `None` if it is short already.
    pub short: Option<String>,
    pub whole: String,
}

/// Maximum length of a sentence shown in full, and of parentheses kept in longer sentences, in characters.
const AT_ONCE: usize = 260;
const ASIDE: usize = 70;

impl Sentence {
    pub fn new(whole: String) -> Self {
        let short = (whole.chars().count() > AT_ONCE).then(|| without_asides(&whole)).filter(|s| *s != whole);
        Self { short, whole }
    }
}

/// Replaces parentheses of more than [`ASIDE`] characters by `(…)`.
fn without_asides(text: &str) -> String {
    let (mut out, mut depth, mut aside) = (String::new(), 0, String::new());
    for c in text.chars() {
        depth += usize::from(c == '(');
        if depth > 0 {
            aside.push(c);
        } else {
            out.push(c);
        }
        if c == ')' && depth > 0 {
            depth -= 1;
            if depth == 0 {
                let aside = std::mem::take(&mut aside);
                out.push_str(if aside.chars().count() > ASIDE { "(…)" } else { &aside });
            }
        }
    }
    // The parenthesis is never closed.
    out + &aside
}

/// A metric's comparisons counted by verdict.
pub struct Tally {
    /// `IOPS: coop against default`
    pub what: String,
    pub verdicts: Vec<(&'static str, String)>,
}

/// Up to this number of arms, each has a line of its own.
const FEW: usize = 3;

pub fn glance(comparisons: &[Comparison], unit: Unit) -> Vec<Tally> {
    let each = [Verdict::Faster, Verdict::Slower, Verdict::Equivalent, Verdict::Inconclusive, Verdict::NotComparable]
        .map(|verdict| (verdict, badge(verdict)));
    let mut all = Vec::new();
    for metric in compared_on(comparisons) {
        let of_metric = || comparisons.iter().filter(|c| c.metric == metric.name());
        let arms = distinct(of_metric().map(|c| (c.b.as_str(), c.a.as_str())));
        let tally = |what: String, is: &dyn Fn(&Comparison) -> bool| {
            let count = |v: Verdict| of_metric().filter(|c| is(c) && c.verdict == v).count();
            let known = each.iter().map(|(v, class)| (*v, *class, count(*v))).filter(|(_, _, n)| *n > 0);
            let verdicts = known.map(|(v, class, n)| (class, format!("{} {n}", verdict_words(v)))).collect();
            Tally { what: format!("{}: {what}", metric.words(unit)), verdicts }
        };
        match &arms[..] {
            [(_, first), .., (_, last)] if arms.len() > FEW && first == last => {
                all.push(tally(format!("{} arms against {first}", arms.len()), &|_| true));
            }
            some => {
                all.extend(some.iter().map(|(b, a)| tally(format!("{b} against {a}"), &|c| c.b == *b && c.a == *a)))
            }
        }
    }
    all
}

/// "Better" and "worse", because not all metrics are speeds.
pub fn verdict_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "better",
        Verdict::Slower => "worse",
        Verdict::Equivalent | Verdict::Inconclusive | Verdict::NotComparable => verdict.words(),
    }
}

/// An expectation and its outcome in words, because colour must not be the only sign.
pub struct Outcome {
    pub word: &'static str,
    pub class: &'static str,
    pub text: String,
}

impl Outcome {
    fn new(j: Judged) -> Self {
        let (word, class) = match j.outcome {
            expectation::Outcome::Met => ("met", "met"),
            expectation::Outcome::NotMet => ("not met", "unmet"),
            expectation::Outcome::Open => ("open", "open"),
        };
        Self { word, class, text: j.text }
    }
}

pub fn title(sources: &[Source<'_>]) -> String {
    match sources {
        [a, b] if a.record.title == b.record.title => format!("{}: {} against {}", a.record.title, b.name, a.name),
        [a, b] => format!("{} against {}: {} and {}", b.name, a.name, b.record.title, a.record.title),
        _ => sources.iter().map(|s| s.record.title.clone()).collect(),
    }
}

pub fn questions<'a>(sources: &[Source<'a>]) -> Vec<&'a str> {
    let mut all: Vec<&str> = sources.iter().map(|s| s.record.question.trim()).collect();
    all.dedup();
    all
}

impl About {
    /// `head`: `None` if nothing was measured.
    pub fn new(source: &Source<'_>, head: Option<&Head>) -> Self {
        let run = source.record;
        let known = |n: Option<u64>| n.map_or(UNKNOWN.into(), |n| n.to_string());
        let done = run.done();
        let warnings = warnings::each_once(run).into_iter().map(|(w, n)| warnings::sentence(&w, n, done));
        let drifts = drift::warnings(run).into_iter().map(|w| format!("{}; {}", w.text, w.remedy));
        let quick = if run.quick { " (quick)" } else { "" };
        Self {
            name: source.name.clone(),
            experiment: format!("{}{quick}", run.experiment),
            title: run.title.clone(),
            expect: run.expect.trim().to_owned(),
            measured: format!("{} of {}", run.done(), plural(run.planned(), "measurement")),
            state: state(run),
            is_empty: done == 0,
            glance: glance(&run.comparisons, Unit::of_run(run)),
            head: head.map(Answer::new),
            conclusions: conclude(run).into_iter().map(ConclusionText::new).collect(),
            judged: judge(run).into_iter().map(Outcome::new).collect(),
            facts: facts(run),
            losses: losses(run).into_iter().map(|(name, n)| (name.to_owned(), known(n))).collect(),
            warnings: warnings.chain(drifts).map(Sentence::new).collect(),
            command: source.command.clone(),
        }
    }
}

fn state(run: &RunRecord) -> Vec<String> {
    let mut state = Vec::new();
    if run.as_single().is_none() {
        state.push(format!("seed {}", run.seed));
    }
    state.push(format!("begun {}", utc(run.started_unix_s)));
    state.push(run.finished_unix_s.map_or_else(|| "not finished".into(), |s| format!("ended {}", utc(s))));
    state
}

/// Each fact with its values over all measurements: a run resumed on another machine has several.
fn facts(run: &RunRecord) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        let fact = value.filter(|v| !v.is_empty()).map(|value| (name.to_owned(), value));
        found.extend(fact.filter(|fact| !found.contains(fact)));
    };
    for m in run.measurements() {
        of_host(&m.host, &mut add);
        if let Some(net) = &m.net {
            add("between the two ends", Some(net.between.clone()));
            if let Some(host) = &net.sender_host {
                add("the sender's host", Some(format!("{}, Linux {}", host.hostname, host.kernel)));
            }
        }
        add("iotrail", Some(m.version.to_string()));
        add("probes", Some(m.probe.mode.to_string()));
    }
    grouped(found).into_iter().map(|(name, values)| (name, values.join("; "))).collect()
}

fn of_host(host: &Host, add: &mut impl FnMut(&str, Option<String>)) {
    add("host", Some(host.hostname.clone()));
    add("kernel", Some(format!("Linux {}", host.kernel)));
    add("processor", Some(format!("{}, {}", host.cpu_model, plural(host.cpus as usize, "CPU"))));
    add("virtualisation", host.virtualisation.clone());
    add("clock source", host.clock_source.clone());
    add("lockdown", host.lockdown.clone());
    if let Some(target) = &host.target {
        of_target(target, add);
    }
}

fn of_target(t: &Target, add: &mut impl FnMut(&str, Option<String>)) {
    let on = t.filesystem.as_ref().map_or_else(String::new, |fs| format!(" ({fs})"));
    add("target", Some(format!("{}{on}", t.path)));
    let driver = t.driver.as_ref().map_or_else(String::new, |d| format!(" ({d})"));
    add("device", t.device.as_ref().map(|d| format!("{d}{driver}")));
    add("device that queues the requests", t.queue_device.clone());
    add("hardware queues", t.queues.map(|n| n.to_string()));
    add("polled queues", t.poll_queues.map(|n| n.to_string()));
    add("scheduler", t.scheduler.clone());
    let interrupts: Vec<String> = t.interrupts.iter().map(ToString::to_string).collect();
    add("its interrupts", Some(interrupts.join(", ")));
}

/// A line of the table of cells.
pub struct CellWords {
    pub identity: Vec<String>,
    pub repeats: usize,
    pub iops: String,
    pub mean: String,
    pub p99: String,
    pub command: Option<String>,
    pub untestable: Option<String>,
}

pub fn cells(view: &View<'_>) -> Vec<CellWords> {
    let one = |cell: &super::view::Cell<'_>| {
        let level = |metric, text: fn(f64) -> String| cell.level(metric).map_or(UNKNOWN.into(), |l| text(l.value));
        let identity =
            view.identity(cell).into_iter().map(|v| if v.is_null() { UNKNOWN.into() } else { value_text(&v) });
        CellWords {
            identity: identity.collect(),
            repeats: cell.record.measurements.len(),
            iops: level(Metric::Iops, count),
            mean: level(Metric::LatencyMean, span),
            p99: level(Metric::LatencyP99, span),
            command: cell.command.clone(),
            untestable: cell.record.untestable.clone().filter(|_| cell.record.measurements.is_empty()),
        }
    };
    view.cells.iter().map(one).collect()
}

/// `2026-03-01 12:00:00 UTC`, using Howard Hinnant's `civil_from_days`.
fn utc(unix_s: u64) -> String {
    let (days, seconds) = (unix_s / 86_400, unix_s % 86_400);
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_parentheses_are_omitted_from_the_short_form() {
        let reasons = "a reason (1 of 4), ".repeat(20);
        let long = format!("IOPS: lower at depth 1 (×0.5, 0.4–0.6); not comparable at depth 4 ({reasons}).");
        let s = Sentence::new(long.clone());
        assert_eq!(s.short.unwrap(), "IOPS: lower at depth 1 (×0.5, 0.4–0.6); not comparable at depth 4 (…).");
        assert_eq!(s.whole, long);
        assert!(Sentence::new("Short (with an aside).".into()).short.is_none());
        let open = format!("({}", "x".repeat(300));
        assert!(Sentence::new(open).short.is_none(), "an open parenthesis is kept");
    }

    #[test]
    fn unix_time_becomes_a_utc_date() {
        // date -u -d @N
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_868_799), "2000-02-29 23:59:59 UTC");
        assert_eq!(utc(1_772_366_400), "2026-03-01 12:00:00 UTC");
        assert_eq!(utc(1_798_761_599), "2026-12-31 23:59:59 UTC");
    }
}
