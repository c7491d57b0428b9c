//! A run's progress, on standard error if that is a terminal.
//!
//! The thread that starts measurements draws it, between measurements and while the target is created; nothing is drawn
//! during a load.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use iotrail_answer::compare;
use iotrail_answer::summary::Head;
use iotrail_base::plain::{Stream, for_locale};
use iotrail_base::words::{bytes, span};
use iotrail_experiment::execute::{Started, Step};
use iotrail_experiment::plan::Plan;
use iotrail_load::{self, Doing};
use iotrail_report::terminal::{self, sanitise, say};
use iotrail_schema::run_record::{ARM, CONTROL};

/// Smaller errors of an estimate are not corrected.
const SOME: Duration = Duration::from_secs(10);

pub struct Progress {
    bar: ProgressBar,
    began: Instant,
    /// Measurements done before this process started.
    before: usize,
    /// Planned duration of one measurement.
    each: Duration,
    /// Duration of all measurements, and the block in which the run began; `None` if unknown.
    estimate: Option<(Duration, u32)>,
    /// Reasons already printed. A reason often applies to many cells, and the report lists them all.
    told: Vec<String>,
    /// Maximum duration.
    budget: Option<Duration>,
    /// A search's progress.
    search: Option<String>,
    /// Measurements per block of a search; `None` if their duration is not estimated, or has been corrected.
    to_correct: Option<usize>,
}

impl Progress {
    pub fn new(plan: &Plan, started: &Started) -> Self {
        let bar = ProgressBar::with_draw_target(Some(started.planned as u64), terminal::progress_target());
        let template = for_locale("{bar:20} {pos}/{len} · {wide_msg}", Stream::Stderr);
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars(&for_locale("██░", Stream::Stderr)));
        }
        let planned = u32::try_from(started.planned).unwrap_or(u32::MAX).max(1);
        let estimate = plan.estimate();
        let here = estimate.stated.mul_f64(started.slots.len() as f64 / f64::from(planned));
        let is_known = estimate.counted_ios == 0 && estimate.runs == 0 && plan.searches().is_none();
        Self {
            bar,
            began: Instant::now(),
            before: started.planned - started.slots.len(),
            each: estimate.stated / planned,
            estimate: started.slots.first().filter(|_| is_known).map(|slot| (here, slot.repeat)),
            told: Vec::new(),
            budget: plan.time_limit(),
            search: None,
            to_correct: plan.searches().filter(|_| estimate.counted_ios == 0).map(|_| plan.testable().count()),
        }
    }

    /// Prints, once, that a search's estimate is off by more than a third and by more than [`SOME`].
    fn correct_search(&mut self, done: usize, planned: usize) {
        let here = done.saturating_sub(self.before);
        if self.to_correct.is_none_or(|block| here < block.max(1)) {
            return;
        }
        let (each, all) = (self.began.elapsed() / here as u32, planned.saturating_sub(self.before) as u32);
        let is_near = each * 4 >= self.each * 3 && each * 3 <= self.each * 4;
        if is_near || (each * all).abs_diff(self.each * all) < SOME {
            return;
        }
        self.to_correct = None;
        let most = minutes((each * all).min(self.budget.unwrap_or(Duration::MAX)));
        let [each, estimate] = [each, self.each].map(|time| span(time.as_nanos() as f64));
        let text = format!("a measurement takes {each} (estimate: {estimate}); all measurements take at most {most}");
        self.bar.suspend(|| say(&text));
    }

    pub fn show(&mut self, step: &Step<'_>) {
        match step {
            Step::Begins { done, planned, repeat, cell } => {
                self.correct_search(*done, *planned);
                let left = self.left(*done, *planned);
                self.correct(self.began.elapsed(), left, *repeat);
                self.bar.set_position(*done as u64);
                self.bar.set_message(format!(
                    "{}{} left · repeat {repeat} · {}",
                    self.search.as_deref().unwrap_or_default(),
                    minutes(left),
                    sanitise(&cell.label)
                ));
                self.bar.tick();
            }
            Step::Again { done, planned, repeat, cell } => {
                let left = self.left(*done, *planned);
                self.bar.set_message(format!(
                    "{} left · repeat {repeat} again after a disturbance · {}",
                    minutes(left),
                    sanitise(&cell.label)
                ));
                self.bar.tick();
            }
            Step::Added { planned, repeats, of_plan } => {
                self.bar.set_length(*planned as u64);
                let text = format!(
                    "most of the repeated measurements were disturbed again: {repeats} repeats per cell instead of {of_plan}"
                );
                self.bar.suspend(|| say(&text));
            }
            Step::SoFar { record, repeats } if !self.bar.is_hidden() => {
                let mut record = (*record).clone();
                record.comparisons = compare::of_run(&record, &|_, _| None);
                if !record.comparisons.is_empty() {
                    let answer = Head::of_run(&record, false).answer;
                    self.bar.suspend(|| say(&format!("after 2 of {repeats} repeats: {}", sanitise(&answer))));
                }
            }
            Step::SoFar { .. } => {}
            Step::Left { left, leader } => {
                self.search = Some(format!("{left} candidates left, {} leads · ", sanitise(leader)));
            }
            Step::Untestable { cell, reason } => {
                let reason = reason.to_string();
                if !self.told.contains(&reason) {
                    let label = sanitise(&cell.label);
                    let is_control = cell.params.get(ARM).and_then(|arm| arm.as_str()) == Some(CONTROL);
                    let note = if is_control { " (the first arm, measured again)" } else { "" };
                    self.bar.suspend(|| say(&format!("cannot measure {label}{note}: {reason}")));
                    self.told.push(reason);
                }
            }
        }
    }

    /// After a block, prints a corrected estimate if it is off by more than a third, and replaces it.
    fn correct(&mut self, spent: Duration, left: Duration, repeat: u32) {
        let Some((estimate, first)) = self.estimate.filter(|(_, first)| repeat > *first) else { return };
        if let Some(text) = corrected(estimate, spent, left) {
            self.estimate = Some((spent + left, first));
            self.bar.suspend(|| say(&text));
        }
    }

    /// Reports only one phase of a load: the layout of the target, before the load starts.
    pub fn load(&self, at: &iotrail_load::Progress) {
        if let (Doing::LayingOut, Some(total)) = (at.doing, at.total) {
            self.bar.set_message(format!("creating the target: {} of {}", bytes(at.done), bytes(total)));
            self.bar.tick();
        }
    }

    /// Based on this process's own pace, once known.
    fn left(&self, done: usize, planned: usize) -> Duration {
        let here = done.saturating_sub(self.before) as u32;
        let each = if here == 0 { self.each } else { self.began.elapsed() / here };
        let all = each * planned.saturating_sub(done) as u32;
        self.budget.map_or(all, |budget| all.min(budget.saturating_sub(self.began.elapsed())))
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// `takes about 4 min 53 s (estimate: 2 min 0 s); 4 min 4 s left`, if they differ by more than a third and by 2 s.
fn corrected(estimate: Duration, spent: Duration, left: Duration) -> Option<String> {
    const THIRD: f64 = 4.0 / 3.0;
    let all = spent + left;
    let off = all > estimate.mul_f64(THIRD) || all.mul_f64(THIRD) < estimate;
    (off && all.abs_diff(estimate) >= Duration::from_secs(2))
        .then(|| format!("takes about {} (estimate: {}); {} left", minutes(all), minutes(estimate), minutes(left)))
}

/// `45 s`, `12 min 5 s`, `2 h 3 min`.
pub fn minutes(span: Duration) -> String {
    match (span + Duration::from_millis(500)).as_secs() {
        s if s < 60 => format!("{s} s"),
        s if s < 3600 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_off_by_more_than_a_third_is_corrected() {
        let of = |estimate, spent, left| {
            let [estimate, spent, left] = [estimate, spent, left].map(Duration::from_secs);
            corrected(estimate, spent, left)
        };
        let text = "takes about 4 min 53 s (estimate: 2 min 0 s); 4 min 4 s left";
        assert_eq!(of(120, 49, 244).as_deref(), Some(text));
        assert_eq!([of(120, 20, 135), of(120, 10, 85), of(3, 1, 3)], [None, None, None]);
        assert_eq!(of(120, 10, 70).as_deref(), Some("takes about 1 min 20 s (estimate: 2 min 0 s); 1 min 10 s left"));
    }

    #[test]
    fn durations_are_printed_in_minutes_and_seconds() {
        let of = |ms| minutes(Duration::from_millis(ms));
        assert_eq!([of(400), of(45_000), of(725_000), of(7_380_000)], ["0 s", "45 s", "12 min 5 s", "2 h 3 min"]);
    }
}
