//! A server thread's environment, and its stop signal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use socket2::Socket;

use super::spec::ServerSpec;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_schema::net_record::LiveCounts;

/// State shared by all threads.
pub struct Shared {
    pub spec: ServerSpec,
    pub counts: Vec<LiveCounts>,
    /// 0 if not started yet.
    pub tids: Vec<AtomicI32>,
    /// Thread IDs of the rings' SQPOLL threads; 0 if none.
    pub sq_tids: Vec<AtomicI32>,
    stopping: AtomicBool,
    /// Readable once the server should stop.
    stop: Vec<OwnedFd>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    serving: usize,
    left: usize,
    granted: Vec<String>,
    failure: Option<Error>,
}

impl Shared {
    pub fn new(spec: ServerSpec) -> Result<Self> {
        let of_each = || (0..spec.threads).map(|_| AtomicI32::new(0)).collect();
        let stop = (0..spec.threads).map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK));
        let stop = stop.collect::<std::result::Result<_, _>>().map_err(io::Error::from);
        let stop = stop.or_machine("cannot create an eventfd", "raise ulimit -n")?;
        Ok(Self {
            counts: (0..spec.threads).map(|_| LiveCounts::default()).collect(),
            tids: of_each(),
            sq_tids: of_each(),
            stopping: AtomicBool::new(false),
            stop,
            state: Mutex::default(),
            changed: Condvar::new(),
            spec,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Plain values, which a panic cannot leave inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn granted(&self) -> Vec<String> {
        self.state().granted.clone()
    }

    pub fn take_failure(&self) -> Option<Error> {
        self.state().failure.take()
    }

    /// Called when a thread stops serving.
    pub fn left(&self, ended: Result<()>) {
        let mut state = self.state();
        state.left += 1;
        if let Err(e) = ended {
            state.failure.get_or_insert(e);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until every thread serves; returns the failure of a thread that cannot.
    pub fn wait_until_all_serve(&self) -> Result<()> {
        let mut state = self.state();
        while state.serving + state.left < self.spec.threads {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.failure.take() {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for fd in &self.stop {
            // A full counter is already readable, so this failure has no effect.
            rustix::io::write(fd, &1u64.to_ne_bytes()).unwrap_or(0);
        }
    }
}

/// The environment of one thread.
pub struct Seat<'a> {
    pub shared: &'a Shared,
    pub number: usize,
    pub listener: Socket,
}

impl Seat<'_> {
    pub fn counts(&self) -> &LiveCounts {
        &self.shared.counts[self.number]
    }

    /// Called once, when setup is complete and connections are accepted.
    pub fn serves(&self, granted: Vec<String>) {
        let mut state = self.shared.state();
        state.serving += 1;
        state.granted = granted;
        drop(state);
        self.shared.changed.notify_all();
    }

    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// Readable once [`Seat::is_stopping`]; never read, so that it stays readable.
    pub fn stop_fd(&self) -> BorrowedFd<'_> {
        self.shared.stop[self.number].as_fd()
    }
}
