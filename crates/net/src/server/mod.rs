//! The server: threads that accept, receive and answer, all through the same engine.
//!
//! | file | responsible for |
//! |---|---|
//! | `spec` | the options, checked |
//! | `connection` | one connection's state, common to all engines |
//! | `epoll` | readiness: epoll_wait, recv, send |
//! | `io_uring` | completions: receives, sends and accepts in a ring |
//! | `seat` | the environment of a thread of any engine, and its stop signal |
//! | `counted` | counts and CPU time of the threads between two samples |
//! | `record` | the options by name, as in a measurement |

mod connection;
pub mod counted;
mod epoll;
mod io_uring;
mod record;
mod seat;
pub mod spec;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::options::ServerEngine;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_load::{cpus, usage};
use iotrail_schema::net_record::{Counts, LiveCounts};
use seat::{Seat, Shared};
use spec::ServerSpec;

/// A server that runs until it is stopped or dropped.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    address: Address,
    started: Instant,
}

impl Server {
    /// Listens and starts the threads; on return the server accepts connections. Fails if the address is unavailable,
    /// or if the kernel rejects an engine or flag.
    pub fn start(spec: ServerSpec, address: &Address) -> Result<Self> {
        let (first, at) = address.listen(false)?;
        if spec.threads > 1 && at.port().is_some() {
            // Not earlier, so that another server's address is rejected instead of shared.
            let cannot =
                |e| Error::machine(format!("cannot share {at} among the threads"), "use one thread").because(e);
            first.set_reuse_port(true).map_err(cannot)?;
        }
        let mut listeners = vec![first];
        for _ in 1..spec.threads {
            // On a TCP address, the kernel distributes connections; a UNIX socket has a single queue for all threads.
            listeners.push(match &at {
                Address::Tcp(_) => at.listen(true)?.0,
                Address::Unix(_) => {
                    listeners[0].try_clone().or_machine("cannot share the listening socket", "raise ulimit -n")?
                }
            });
        }
        let shared = Arc::new(Shared::new(spec)?);
        let mut server = Server { shared, threads: vec![], address: at, started: Instant::now() };
        for (number, listener) in listeners.into_iter().enumerate() {
            let shared = Arc::clone(&server.shared);
            let thread = std::thread::Builder::new().name(format!("serve-{number}"));
            let spawned = thread.spawn(move || {
                let seat = Seat { shared: &shared, number, listener };
                let ended = serve(&seat);
                shared.left(ended);
            });
            match spawned {
                Ok(thread) => server.threads.push(thread),
                Err(e) => {
                    let remedy = "raise ulimit -u, or use fewer --server-threads";
                    return Err(Error::machine("cannot start a server thread", remedy).because(e));
                }
            }
        }
        server.shared.wait_until_all_serve()?;
        Ok(server)
    }

    /// Its address, including a port chosen by the kernel.
    pub fn address(&self) -> &Address {
        &self.address
    }

    pub fn spec(&self) -> &ServerSpec {
        &self.shared.spec
    }

    /// Ring flags that the kernel granted.
    pub fn granted(&self) -> Vec<String> {
        self.shared.granted()
    }

    /// The sample before the start, with all counts 0.
    pub fn start_look(&self) -> counted::Look {
        counted::Look::at_start(self.started, self.shared.spec.threads)
    }

    /// Counts and CPU time of its threads so far.
    pub fn look(&self) -> counted::Look {
        counted::look(&self.shared)
    }

    /// Counts of its threads since the start.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.shared.counts.iter().for_each(|c| sum.add(&c.read()));
        sum
    }

    /// CPU time so far of the rings' SQPOLL threads; `None` if there are none, or if one is unknown.
    pub fn sqpoll_ns(&self) -> Option<u64> {
        let tids = self.shared.sq_tids.iter().map(|tid| tid.load(Ordering::Relaxed));
        tids.map(|tid| if tid == 0 { None } else { usage::of_tid(tid) }).sum()
    }

    /// Waits until every thread sleeps with nothing to do; returns false on a timeout. If no connection has anything in
    /// flight, the counts do not change afterwards.
    pub fn settle(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let counts = || self.shared.counts.iter().map(LiveCounts::read).collect::<Vec<_>>();
        loop {
            // A thread that sleeps in two samples with equal counts sleeps in its wait.
            let before = counts();
            let asleep = self.shared.tids.iter().all(|tid| usage::sleeps(tid.load(Ordering::Relaxed)));
            if asleep && before == counts() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// The engine failure that ended a thread, if any.
    pub fn failure(&self) -> Option<Error> {
        self.shared.take_failure()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A thread that failed has reported its error.
            let _ = thread.join();
        }
        if let Address::Unix(path) = &self.address {
            // The file may already be gone.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn serve(seat: &Seat<'_>) -> Result<()> {
    let spec = &seat.shared.spec;
    seat.shared.tids[seat.number].store(usage::tid(), Ordering::Relaxed);
    if let Some(&cpu) = spec.cpus.get(seat.number % spec.cpus.len().max(1)) {
        cpus::bind(cpu)?;
    }
    match spec.options.engine {
        ServerEngine::Epoll => epoll::serve(seat),
        ServerEngine::IoUring => io_uring::serve(seat),
    }
}

#[cfg(test)]
mod tests;
