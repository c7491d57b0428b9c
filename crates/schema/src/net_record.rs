//! The network side of a measurement, `Measurement.net`: the requests sent, the server's counts, the sender's costs. Part of the
//! JSON schema `iotrail.measurement/1` (`docs/formats.md`). Unknown is null, never 0; units are in the names.

use crate::load_options::Engine;
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::warning::Warning;

/// A network load, seen from both sides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetRecord {
    /// Address of the server, as the sender reached it.
    pub address: String,
    /// Path between the two ends: `namespaces`, `loopback`, `unix`, `hosts`.
    pub between: String,
    /// The sender's plan.
    pub asked: SenderPlan,
    /// The sender's results.
    pub sender: SenderRecord,
    /// The sender's machine, if it is not the server's; null: the same machine.
    #[serde(default)]
    pub sender_host: Option<Host>,
    /// The server's side; null: not measured. If the server was lost, only `seconds` is known: `total` is their sum,
    /// `threads` is empty.
    pub server: Option<ServerRecord>,
}

/// The sender's plan, as resolved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderPlan {
    /// Connections over all threads.
    pub connections: u32,
    /// Requests in flight on each connection.
    pub window: u32,
    /// Size of a request's body in bytes.
    pub request_bytes: u32,
    /// Size of a response in bytes.
    pub response_bytes: u32,
    /// Sending threads.
    pub threads: u32,
    /// CPUs of the sending threads; null: not bound.
    pub cpus: Option<Vec<u32>>,
    /// Requests per second over all connections; null: closed loop.
    pub rate: Option<f64>,
    /// Requests sent together on a connection.
    pub burst: u32,
    /// Responses after which a connection is replaced; null: never.
    pub reconnect_after: Option<u64>,
    /// Whether a broken connection is reopened; false: it ends the load.
    #[serde(default)]
    pub reconnect: bool,
    /// Additional connections that stay idle.
    pub idle_connections: u32,
    /// How responses are checked: `full` or `size`.
    pub check: String,
    /// Seed for the sent data; null in older records. In a run, it is the same in all arms of a block.
    #[serde(default)]
    pub seed: Option<u32>,
}

/// The sender's results and CPU time in the measured interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderRecord {
    /// Requests sent.
    pub requests: u64,
    /// Responses received.
    pub responses: u64,
    /// Unanswered requests: their connection broke or was abandoned. 0 in a complete run.
    pub unanswered: u64,
    /// User time of the sending threads.
    pub user_ns: u64,
    /// System time of the sending threads.
    pub system_ns: u64,
    /// Share of time that the busiest thread was running or runnable. Near 1, the sender may be the bottleneck.
    pub busiest_thread: Option<f64>,
    /// Connections opened in the measured span.
    pub reconnects: u64,
    /// Connections that broke.
    pub broken: u64,
    /// Requests that were due but not sent; null in a closed loop.
    pub unsent: Option<u64>,
    /// Maximum delay of a sent request; null in a closed loop.
    pub worst_lag_ns: Option<u64>,
}

/// The server and its counts in the measured interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// iotrail version that served.
    pub version: String,
    /// `epoll` or `io_uring`.
    pub engine: Engine,
    /// Options that apply to the engine, by name, as resolved.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Totals over all threads.
    pub total: ServerCounts,
    /// Each thread.
    pub threads: Vec<ServerCounts>,
    /// Counts per second, over all threads. Their sum is the total; the last one covers less than a second.
    pub seconds: Vec<ServerCounts>,
    /// Memory of the process; null if not known.
    pub memory: Option<Memory>,
}

/// Counts for one server thread, or for all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCounts {
    /// Wall time of the interval; the same value if the counts are for all threads.
    pub wall_ns: u64,
    /// User time. Most kernels sample its split from system time at each timer tick. Null: not accounted by the kernel.
    pub user_ns: Option<u64>,
    /// System time.
    pub system_ns: Option<u64>,
    /// Time spent neither running nor runnable. For all threads together, at most `wall_ns` times their number.
    pub idle_ns: Option<u64>,
    /// Counts of a thread.
    #[serde(flatten)]
    pub counts: Counts,
}

impl ServerCounts {
    /// Adds the span that follows this one. A value that is unknown in one is unknown in the sum.
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
            /// Adds the counts of another thread or span.
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)+
            }

            /// Accepted connections that are still open.
            pub fn open(&self) -> u64 {
                self.accepted.saturating_sub(self.closed + self.reset + self.garbage + self.cut_off)
            }

            pub fn since(&self, before: &Counts) -> Counts {
                Counts { $($name: self.$name.saturating_sub(before.$name),)+ }
            }
        }

        /// The counts while one thread writes and others read.
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
    /// Requests answered. The last byte of the response was passed to send(2) or to its queue.
    requests,
    /// Bytes received.
    bytes_in,
    /// Bytes sent.
    bytes_out,
    /// Waits for events or completions.
    loops,
    /// Events or completions that the waits returned.
    completions,
    /// Receives.
    receives,
    /// Sends.
    sends,
    /// Sends that accepted fewer bytes than requested.
    short_sends,
    /// Zero-copy sends.
    zero_copy_sends,
    /// Zero-copy sends whose data the kernel copied.
    zero_copy_copied,
    /// Connections accepted.
    accepted,
    /// Connections that the peer closed normally.
    closed,
    /// Connections closed because of an error.
    reset,
    /// Connections closed because the received data was not a request.
    garbage,
    /// Connections that the peer closed in the middle of a request.
    cut_off,
    /// Accepts that failed for lack of file descriptors or memory.
    accept_failures,
    /// Completions that did not fit into the ring's completion queue.
    cq_overflows,
    /// Receives that found no provided buffer.
    buffers_exhausted,
    /// System calls of the loop: epoll_wait, epoll_ctl, recv, send, accept, io_uring_enter …
    syscalls,
}

/// Adds to a counter; only the owning thread writes it.
#[inline]
pub fn bump(counter: &std::sync::atomic::AtomicU64, by: u64) {
    use std::sync::atomic::Ordering::Relaxed;
    counter.store(counter.load(Relaxed) + by, Relaxed);
}

pub const SERVER_SCHEMA: &str = "iotrail.net_server/1";

/// The complete run of a server, which `net serve --json` prints at the end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServedRecord {
    /// `iotrail.net_server/1`.
    pub schema: String,
    /// iotrail version that served.
    pub version: String,
    /// Wall-clock start.
    pub started_unix_s: u64,
    /// Address on which it listened.
    pub address: String,
    /// Its control address; null: none.
    pub control: Option<String>,
    /// `epoll` or `io_uring`.
    pub engine: Engine,
    /// Options that apply to the engine, by name, as resolved.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Ring flags that the kernel granted.
    pub granted: Vec<String>,
    /// Totals over all threads since the server started.
    pub total: ServerCounts,
    /// Each thread.
    pub threads: Vec<ServerCounts>,
    /// Memory of the process; null if not known.
    pub memory: Option<Memory>,
    /// Intervals that were completely measured for a sender.
    pub spans: u64,
    /// Intervals that ended early: the sender disappeared, or the server was stopped.
    pub broken_spans: u64,
    /// Control connections that were refused.
    pub refused: u64,
    /// The machine.
    pub host: Host,
    /// Conditions that make the numbers doubtful.
    pub warnings: Vec<Warning>,
}

/// The server's memory at the end of the measured interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident memory of the process.
    pub resident_bytes: u64,
    /// The same before the first connection, plus the probes' own memory.
    pub resident_before_bytes: u64,
    /// Open connections.
    pub connections: u64,
}
