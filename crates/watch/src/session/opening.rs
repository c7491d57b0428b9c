//! Windows as they open and close.

use std::time::{Duration, Instant};

use super::taking::PERIOD;
use crate::recorder;
use crate::windows::{Schedule, Step, Windows};
use iotrail_base::error::Result;
use iotrail_probe::watch::Watch;
use iotrail_schema::trace_record::{self, TraceRecord};

/// Windows as they open and close.
pub(super) struct Opening {
    windows: Windows,
    schedule: Schedule,
    open_since: Option<Instant>,
    /// From then on no requests are chosen.
    finishing_since: Option<Instant>,
    /// How long requests were chosen in those that are over, and how long these finished then.
    choosing: Duration,
    finishing: Duration,
    opened: u64,
}

impl Opening {
    pub fn new(windows: Windows, now: Instant) -> Self {
        let seed = recorder::now().monotonic_ns;
        Opening {
            windows,
            schedule: Schedule::new(windows, now, seed),
            open_since: None,
            finishing_since: None,
            choosing: Duration::ZERO,
            finishing: Duration::ZERO,
            opened: 0,
        }
    }

    /// Does what is due. Whether a window is about to close.
    pub fn turn(&mut self, watch: &mut Watch<'_>) -> Result<bool> {
        let unfinished = if self.schedule.is_finishing() { watch.finish_window() } else { 0 };
        match self.schedule.step(Instant::now(), unfinished) {
            Some(Step::Open) => {
                watch.open_window()?;
                let now = Instant::now();
                self.schedule.opened(now);
                self.open_since = Some(now);
                self.opened += 1;
            }
            Some(Step::Finish) => {
                watch.finish_window();
                self.finishing_since = Some(Instant::now());
            }
            Some(Step::Close) => self.close(watch)?,
            None => {}
        }
        Ok(self.open_since.is_some() && self.schedule.rest(Instant::now()) <= PERIOD)
    }

    /// How long nothing is to be done.
    pub fn rest(&self) -> Duration {
        self.schedule.rest(Instant::now())
    }

    fn close(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        if let Some(since) = self.open_since.take() {
            let now = Instant::now();
            // One that the watch's end closes need not finish.
            let finishes = self.finishing_since.take().unwrap_or(now);
            self.choosing += finishes - since;
            self.finishing += now - finishes;
        }
        watch.close_window()
    }

    /// What there was of them.
    pub fn end(mut self, watch: &mut Watch<'_>, began: Instant) -> Result<trace_record::Windows> {
        if self.open_since.is_some() {
            self.close(watch)?;
        }
        let windows = trace_record::Windows {
            open_ns: self.windows.open.as_nanos() as u64,
            period_ns: self.windows.period.as_nanos() as u64,
            opened: self.opened,
            span_ns: began.elapsed().as_nanos() as u64,
            choosing_ns: Some(self.choosing.as_nanos() as u64),
            finishing_ns: Some(self.finishing.as_nanos() as u64),
        };
        Ok(windows)
    }
}

/// What /proc says is of all the time, and is left out beside counts that are not.
pub(super) fn of_windows(record: &mut TraceRecord, windows: trace_record::Windows, came_later: u64) {
    record.total.windows = Some(windows);
    record.total.followed.came_later = Some(came_later);
    for ring in &mut record.rings {
        ring.active_ns = None;
        if let Some(sqpoll) = &mut ring.sqpoll {
            (sqpoll.elapsed_ns, sqpoll.cpu_ns, sqpoll.work_ns, sqpoll.wakeups) = (None, None, None, None);
        }
    }
}
