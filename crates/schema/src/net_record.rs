//! The network's side of a measurement, `Measurement.net`: what was sent, what the server counted, what the sender took. Part of the JSON
//! schema `iotrail.measurement/1` (`docs/formats.md`). Unknown is null, never 0; units are in the names.

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::warning::Warning;

/// A network load, seen from both sides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetRecord {
    /// The server's, as the sender reached it.
    pub address: String,
    /// What lay between the two: `namespaces`, `loopback`, `unix`, `hosts`.
    pub between: String,
    pub asked: Asked,
    pub sender: SenderRecord,
    /// The sender's machine, where it is not the server's, which is `host`; null: it is.
    #[serde(default)]
    pub sender_host: Option<Host>,
    /// Null: the server is none of ours, or went away without a word.
    pub server: Option<ServerRecord>,
}

/// What the sender was to do, as resolved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    pub connections: u32,
    /// Requests in flight on each.
    pub window: u32,
    pub request_bytes: u32,
    pub response_bytes: u32,
    pub threads: u32,
    /// Null: not bound.
    pub cpus: Option<Vec<u32>>,
    /// Requests per second over all connections; null: closed loop.
    pub rate: Option<f64>,
    pub burst: u32,
    pub reconnect_after: Option<u64>,
    /// A connection that breaks is opened again; else the load ends there.
    #[serde(default)]
    pub reconnect: bool,
    pub idle_connections: u32,
    /// `full` or `size`.
    pub check: String,
    /// Of what was sent; null: of a version that did not keep it.
    #[serde(default)]
    pub seed: Option<u32>,
}

/// What the sender did in the measured span, and what it took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderRecord {
    pub requests: u64,
    pub responses: u64,
    /// Sent, and never answered: their connection broke, or the time to give up came. In a run that is whole it is 0.
    pub unanswered: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    /// The share of its wall time that the busiest thread was on a CPU, or waited for one. Near 1 the sender may be the bottleneck.
    pub busiest_thread: Option<f64>,
    /// Connections opened in the measured span, and connections that broke.
    pub reconnects: u64,
    pub broken: u64,
    /// Open loop: requests whose time came and that were not sent; the worst delay of one that was.
    pub unsent: Option<u64>,
    pub worst_lag_ns: Option<u64>,
}

/// The server and what it counted in the measured span.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    pub version: String,
    pub engine: String,
    /// Engine options by name, as resolved.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Sum over the threads.
    pub total: ServerCounts,
    pub threads: Vec<ServerCounts>,
    /// Second by second, over all threads.
    pub seconds: Vec<ServerCounts>,
    pub memory: Option<Memory>,
}

/// Of one server thread, or of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCounts {
    /// Wall time of the span; for all threads together it is the span too, not its multiple.
    pub wall_ns: u64,
    /// CPU time; the split is sampled at each timer tick by most kernels. Null where the kernel keeps none.
    pub user_ns: Option<u64>,
    pub system_ns: Option<u64>,
    /// Neither on a CPU nor waiting for one: `wall_ns` (times the threads) less CPU time and time in the run queue.
    pub idle_ns: Option<u64>,
    #[serde(flatten)]
    pub counts: Counts,
}

impl ServerCounts {
    /// The span that follows this one; what is not known of one is not known of both.
    pub fn add(&mut self, next: &ServerCounts) {
        self.wall_ns += next.wall_ns;
        let both = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        self.user_ns = both(self.user_ns, next.user_ns);
        self.system_ns = both(self.system_ns, next.system_ns);
        self.idle_ns = both(self.idle_ns, next.idle_ns);
        self.counts.add(&next.counts);
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Events that a server thread counts.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Counts {
            /// Another thread's, or another span's, on top.
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)+
            }

            /// Connections that were accepted and have not ended.
            pub fn open(&self) -> u64 {
                self.accepted.saturating_sub(self.closed + self.reset + self.garbage + self.cut_off)
            }

            pub fn since(&self, before: &Counts) -> Counts {
                Counts { $($name: self.$name.saturating_sub(before.$name),)+ }
            }
        }

        /// The same, while one thread counts and others look.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct LiveCounts {
            $(pub $name: std::sync::atomic::AtomicU64,)+
        }

        impl LiveCounts {
            pub fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(std::sync::atomic::Ordering::Relaxed),)+ }
            }
        }
    };
}

counts! {
    /// Answered, the last byte of the response handed to the kernel's send or to its queue.
    requests,
    bytes_in,
    bytes_out,
    /// Waits for events or completions.
    loops,
    /// Events or completions that these brought.
    completions,
    receives,
    sends,
    /// Sends that took less than they were given.
    short_sends,
    /// Of `sends`: zero-copy ones; and those of them that the kernel copied all the same.
    zero_copy_sends,
    zero_copy_copied,
    accepted,
    /// Ended by the peer in good order.
    closed,
    /// Ended by an error of the connection.
    reset,
    /// Ended because what came was no request.
    garbage,
    /// Ended by the peer in the middle of a request.
    cut_off,
    /// Accepts that failed for want of file descriptors or memory.
    accept_failures,
    /// Completions that did not fit into the ring's completion queue.
    cq_overflows,
    /// Receives that found no provided buffer.
    buffers_exhausted,
    /// System calls of the loop: epoll_wait, epoll_ctl, recv, send, accept, io_uring_enter …
    syscalls,
}

/// One more of something; the thread is the only one that writes.
#[inline]
pub fn bump(counter: &std::sync::atomic::AtomicU64, by: u64) {
    use std::sync::atomic::Ordering::Relaxed;
    counter.store(counter.load(Relaxed) + by, Relaxed);
}

pub const SERVER_SCHEMA: &str = "iotrail.net_server/1";

/// A server's whole life: what `net serve --json` prints at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServedRecord {
    pub schema: String,
    pub version: String,
    pub started_unix_s: u64,
    pub address: String,
    /// Null: without one.
    pub control: Option<String>,
    pub engine: String,
    /// Engine options by name, as resolved.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Ring flags that the kernel granted.
    pub granted: Vec<String>,
    pub total: ServerCounts,
    pub threads: Vec<ServerCounts>,
    pub memory: Option<Memory>,
    /// Spans that were measured for a sender to their end, and those that ended before it: the sender vanished, or the server was
    /// stopped.
    pub spans: u64,
    pub broken_spans: u64,
    /// Control connections that were refused.
    pub refused: u64,
    pub host: Host,
    pub warnings: Vec<Warning>,
}

/// The server's memory at the end of the measured span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident, of the whole process.
    pub resident_bytes: u64,
    /// Before the first connection.
    pub resident_before_bytes: u64,
    pub connections: u64,
}
