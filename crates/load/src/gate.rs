//! The barrier between a load's stages. A thread that failed counts as arrived at every stage, and all threads learn
//! that the load is cancelled.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::usage::{self, Usage};
use iotrail_base::error::{Error, Result};

#[derive(Debug, Default)]
struct State {
    /// Threads waiting at the gate.
    standing: usize,
    /// Threads that ended before the load.
    gone: usize,
    /// Number of times that the gate was opened.
    opened: u64,
    off: bool,
}

/// A gate for `parties` waiting threads; the calling thread opens it.
#[derive(Debug)]
pub struct Gate {
    parties: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    pub fn new(parties: usize) -> Self {
        Self { parties, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state consists of plain numbers, so a panic cannot leave it inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the gate opens; called by a worker. Returns false if the load is cancelled.
    pub fn stand(&self) -> bool {
        let mut state = self.state();
        let stage = state.opened;
        state.standing += 1;
        if state.standing + state.gone >= self.parties {
            self.changed.notify_all();
        }
        while state.opened == stage {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.off
    }

    /// Called by a worker that ends and will not wait at the gate again.
    pub fn leave(&self) {
        self.state().gone += 1;
        self.changed.notify_all();
    }

    /// Waits at most `span` for all workers; returns true once each of them waits or has ended.
    pub fn all_stand(&self, span: Duration) -> bool {
        let state = self.state();
        let waiting = |s: &mut State| s.standing + s.gone < self.parties;
        let (state, _) = self.changed.wait_timeout_while(state, span, waiting).unwrap_or_else(PoisonError::into_inner);
        state.standing + state.gone >= self.parties
    }

    /// Whether a worker ended early.
    pub fn someone_left(&self) -> bool {
        self.state().gone > 0
    }

    /// Releases all workers; with `off`, they end instead of continuing.
    pub fn open(&self, off: bool) {
        let mut state = self.state();
        state.standing = 0;
        state.opened += 1;
        state.off |= off;
        drop(state);
        self.changed.notify_all();
    }
}

/// Calls `leave` on drop, so that no thread waits for a failed one.
pub struct AtGate<'a>(pub &'a Gate);

impl Drop for AtGate<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A stage of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Warmup,
    Measured,
}

/// Takes one of a load's threads through its stages. `run` does a stage's work and leaves nothing in flight. `None` if
/// the load was cancelled before the measured stage.
pub fn stages(gate: &Gate, mut run: impl FnMut(Stage) -> Result<()>) -> Result<Option<Usage>> {
    if !gate.stand() {
        return Ok(None); // ready
    }
    run(Stage::Warmup)?;
    let before = usage::before()?;
    if !gate.stand() {
        return Ok(None); // quiet: nothing is in flight in any thread
    }
    run(Stage::Measured)?;
    let passed = gate.stand(); // quiet again
    // The futex wait between the readings takes a few microseconds; the measured span contains none.
    let after = usage::after()?;
    Ok(passed.then(|| after.since(before)))
}

/// The load was cancelled before its measured stage.
pub fn called_off() -> Error {
    Error::machine("the load was cancelled", "")
}

/// Whether the error only results from another job's failure.
pub fn is_called_off(e: &Error) -> bool {
    e.what == called_off().what
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_releases_all_threads_together_or_on_failure() {
        let gate = Gate::new(3);
        std::thread::scope(|s| {
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    s.spawn(|| {
                        let first = gate.stand();
                        (first, gate.stand())
                    })
                })
                .collect();
            assert!(!gate.all_stand(Duration::from_millis(10)), "the third has not come");
            let third = s.spawn(|| {
                let passed = gate.stand();
                gate.leave();
                passed
            });
            assert!(gate.all_stand(Duration::from_secs(10)));
            gate.open(false);
            assert!(third.join().unwrap());
            assert!(gate.all_stand(Duration::from_secs(10)));
            assert!(gate.someone_left());
            gate.open(true);
            for worker in workers {
                assert_eq!(worker.join().unwrap(), (true, false));
            }
        });
    }
}
