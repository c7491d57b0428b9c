//! Counts and CPU time of the server's threads between two samples.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::seat::Shared;
use iotrail_load::usage::{self, ThreadUsage};
use iotrail_schema::net_record::{Counts, ServerCounts};

/// Counts and CPU time of a thread; `None` if unknown.
type Thread = (Counts, Option<ThreadUsage>);

/// A sample of the server.
#[derive(Debug, Clone)]
pub struct Look {
    at: Instant,
    threads: Vec<Thread>,
}

pub fn look(shared: &Shared) -> Look {
    let threads = shared.counts.iter().zip(&shared.tids);
    Look {
        at: Instant::now(),
        threads: threads.map(|(c, tid)| (c.read(), usage::taken_by(tid.load(Ordering::Relaxed)))).collect(),
    }
}

impl Look {
    /// The sample before the threads existed.
    pub fn at_start(at: Instant, threads: usize) -> Self {
        let nothing = ThreadUsage { user_ns: 0, system_ns: 0, run_queue_wait_ns: 0 };
        Look { at, threads: vec![(Counts::default(), Some(nothing)); threads] }
    }

    /// Differences between an earlier sample and this one, per thread and in total.
    pub fn since(&self, before: &Look) -> (Vec<ServerCounts>, ServerCounts) {
        let wall_ns = self.at.duration_since(before.at).as_nanos() as u64;
        let of_thread = |((counts, taken), (earlier, taken_earlier)): (&Thread, &Thread)| {
            let took = taken.zip(*taken_earlier).map(|(now, then)| now.since(then));
            ServerCounts {
                wall_ns,
                user_ns: took.map(|t| t.user_ns),
                system_ns: took.map(|t| t.system_ns),
                idle_ns: took.map(|t| wall_ns.saturating_sub(t.user_ns + t.system_ns + t.run_queue_wait_ns)),
                counts: counts.since(earlier),
            }
        };
        let threads: Vec<ServerCounts> = self.threads.iter().zip(&before.threads).map(of_thread).collect();
        let sum = |of: fn(&ServerCounts) -> Option<u64>| threads.iter().map(of).sum::<Option<u64>>();
        let mut counts = Counts::default();
        threads.iter().for_each(|t| counts.add(&t.counts));
        let total = ServerCounts {
            wall_ns,
            user_ns: sum(|t| t.user_ns),
            system_ns: sum(|t| t.system_ns),
            idle_ns: sum(|t| t.idle_ns),
            counts,
        };
        (threads, total)
    }
}
