//! Opens and closes the windows.

use std::time::{Duration, Instant};

use super::taking::PERIOD;
use crate::light::Light;
use crate::recorder;
use crate::windows::{Schedule, Step, Windows};
use iotrail_base::error::Result;
use iotrail_probe::watch::Watch;
use iotrail_schema::trace_record::{self, TraceRecord};

/// Everything is traced again once completions are this many times rarer than when the trace switched to windows, in
/// several consecutive windows. In a single window the program may just have had no CPU.
const QUIET: f64 = 10.0;
const QUIET_WINDOWS: u32 = 3;

/// State of the windows.
pub(super) struct Opening {
    windows: Windows,
    schedule: Schedule,
    /// If cost is the reason for the windows: the cost of full tracing, and completions per second at that time.
    light: Option<(Light, f64)>,
    /// The window that is currently open.
    open: Option<Open>,
    /// Total time in which closed windows selected requests, and in which they only finished them.
    choosing: Duration,
    finishing: Duration,
    opened: u64,
    /// Number of consecutive quiet windows.
    quiet: u32,
    /// Total time in which everything was traced.
    whole: Duration,
}

#[derive(Clone, Copy)]
struct Open {
    since: Instant,
    /// Number of completions before the window.
    before: u64,
    /// Time since which no requests are selected.
    finishing_since: Option<Instant>,
    is_whole: bool,
}

impl Opening {
    pub fn new(windows: Windows, now: Instant) -> Self {
        Opening::of(windows, Schedule::new(windows, now, recorder::now().monotonic_ns))
    }

    /// Switches a trace that counted everything so far to windows.
    pub fn instead(light: Light, began: Instant, watch: &mut Watch<'_>) -> Self {
        let mut opening = Opening::of(light.windows, Schedule::whole(began, recorder::now().monotonic_ns));
        opening.opened = 1;
        opening.open = Some(Open { since: began, before: 0, finishing_since: None, is_whole: true });
        watch.lighten(began.elapsed(), light.cost);
        opening.close_whole(light, watch);
        opening
    }

    fn of(windows: Windows, schedule: Schedule) -> Self {
        Opening {
            windows,
            schedule,
            light: None,
            open: None,
            choosing: Duration::ZERO,
            finishing: Duration::ZERO,
            opened: 0,
            quiet: 0,
            whole: Duration::ZERO,
        }
    }

    /// Whether everything is currently traced.
    pub fn is_whole(&self) -> bool {
        self.schedule.is_whole()
    }

    /// Switches from full tracing to windows.
    pub fn close_whole(&mut self, light: Light, watch: &Watch<'_>) {
        let now = Instant::now();
        let rate = self.open.map_or(0.0, |open| rate(open, now, watch));
        self.windows = light.windows;
        self.quiet = 0;
        // Keeps the cost that was measured first.
        let first = self.light.map_or(light, |(first, _)| first);
        self.light = Some((Light { cost: first.cost, ..light }, rate));
        self.schedule.close(light.windows, now);
    }

    /// Performs the step that is due. Returns whether a window is about to close.
    pub fn turn(&mut self, watch: &mut Watch<'_>, scale: &mut u32) -> Result<bool> {
        let unfinished = if self.schedule.is_finishing() { watch.finish_window() } else { 0 };
        match self.schedule.step(Instant::now(), unfinished) {
            Some(Step::Open) => {
                let before = watch.completions();
                watch.open_window()?;
                let now = Instant::now();
                self.schedule.opened(now);
                self.open = Some(Open { since: now, before, finishing_since: None, is_whole: false });
                self.opened += 1;
            }
            Some(Step::Finish) if self.stays_quiet(watch) => {
                self.schedule.stay();
                watch.stay()?;
                if let Some(open) = &mut self.open {
                    // The counts so far belong to a window.
                    let now = Instant::now();
                    self.choosing += now - open.since;
                    (open.is_whole, open.since) = (true, now);
                }
                *scale = 1;
            }
            Some(Step::Finish) => {
                watch.finish_window();
                self.open.iter_mut().for_each(|open| open.finishing_since = Some(Instant::now()));
            }
            Some(Step::Close) => {
                self.close(watch)?;
                if self.light.is_some() {
                    *scale = self.windows.period.div_duration_f64(self.windows.open).round() as u32;
                }
            }
            None => {}
        }
        Ok(self.open.is_some() && self.schedule.rest(Instant::now()) <= PERIOD)
    }

    /// Time until the next step.
    pub fn rest(&self) -> Duration {
        self.schedule.rest(Instant::now())
    }

    /// Whether the program is so idle that everything can be traced.
    fn stays_quiet(&mut self, watch: &Watch<'_>) -> bool {
        let Some(((_, busy), open)) = self.light.zip(self.open) else { return false };
        let is_quiet = !open.is_whole && rate(open, Instant::now(), watch) * QUIET < busy;
        self.quiet = if is_quiet { self.quiet + 1 } else { 0 };
        self.quiet >= QUIET_WINDOWS
    }

    fn close(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        if let Some(open) = self.open.take() {
            let now = Instant::now();
            // A window that the end of the trace closes does not wait for its requests.
            let finishes = open.finishing_since.unwrap_or(now);
            self.choosing += finishes - open.since;
            self.finishing += now - finishes;
            if open.is_whole {
                self.whole += now - open.since;
            }
        }
        watch.close_window()
    }

    /// Sums over all windows.
    pub fn end(mut self, watch: &mut Watch<'_>, began: Instant) -> Result<trace_record::Windows> {
        if self.open.is_some() {
            self.close(watch)?;
        }
        let span = began.elapsed();
        let light = self.light.map(|(light, _)| light);
        let windows = trace_record::Windows {
            open_ns: self.windows.open.as_nanos() as u64,
            period_ns: self.windows.period.as_nanos() as u64,
            opened: self.opened,
            span_ns: span.as_nanos() as u64,
            choosing_ns: Some(self.choosing.as_nanos() as u64),
            finishing_ns: Some(self.finishing.as_nanos() as u64),
            whole_ns: light.map(|_| self.whole.as_nanos() as u64),
            cost: light.map(|light| light.cost),
            posted: None,
            posted_is_all: None,
            user_ns: None,
            system_ns: None,
        };
        Ok(windows)
    }
}

/// Completions per second in the open window so far.
fn rate(open: Open, now: Instant, watch: &Watch<'_>) -> f64 {
    (watch.completions() - open.before) as f64 / (now - open.since).as_secs_f64().max(1e-3)
}

/// Removes /proc data that covers the full trace, because the counts do not.
pub(super) fn of_windows(record: &mut TraceRecord, windows: trace_record::Windows, came_later: u64) {
    record.total.windows = Some(windows);
    record.total.followed.came_later = Some(came_later);
    if windows.whole_ns.is_some() {
        // They cover only the windows, and their weights are products of two factors.
        (record.total.followed.requests_estimated, record.total.followed.requests_ci95) = (None, None);
        return;
    }
    for ring in &mut record.rings {
        ring.active_ns = None;
        if let Some(sqpoll) = &mut ring.sqpoll {
            (sqpoll.elapsed_ns, sqpoll.cpu_ns, sqpoll.work_ns, sqpoll.wakeups) = (None, None, None, None);
        }
    }
}
