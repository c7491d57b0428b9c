//! The network's side of a measurement, `Measurement.net`: what was sent, what the server counted, what the sender took. Part of the JSON
//! schema `iotrail.measurement/1` (`docs/formats.md`). Unknown is null, never 0; units are in the names.

use crate::load_options::Engine;
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::warning::Warning;

/// A network load, seen from both sides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetRecord {
    /// Address of the server, as the sender reached it.
    pub address: String,
    /// What lay between the two: `namespaces`, `loopback`, `unix`, `hosts`.
    pub between: String,
    /// What the sender was to do.
    pub asked: SenderPlan,
    /// What the sender did.
    pub sender: SenderRecord,
    /// The sender's machine, where it is not the server's; null: it is.
    #[serde(default)]
    pub sender_host: Option<Host>,
    /// The server's side; null: not measured. A server that was lost has told its seconds alone: `total` is their sum, `threads` is
    /// empty.
    pub server: Option<ServerRecord>,
}

/// What the sender was to do, as resolved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderPlan {
    /// Connections over all threads.
    pub connections: u32,
    /// Requests in flight on each connection.
    pub window: u32,
    /// Bytes of a request's body.
    pub request_bytes: u32,
    /// Bytes of a response.
    pub response_bytes: u32,
    /// Sending threads.
    pub threads: u32,
    /// CPUs of the sending threads; null: not bound.
    pub cpus: Option<Vec<u32>>,
    /// Requests per second over all connections; null: closed loop.
    pub rate: Option<f64>,
    /// Requests sent at once on a connection.
    pub burst: u32,
    /// Responses after which a connection is replaced; null: never.
    pub reconnect_after: Option<u64>,
    /// A connection that breaks is opened again; else the load ends there.
    #[serde(default)]
    pub reconnect: bool,
    /// Further connections that stay silent.
    pub idle_connections: u32,
    /// What of a response is checked: `full` or `size`.
    pub check: String,
    /// Seed of what was sent; null in older records. In a run it is the same in all arms of a block.
    #[serde(default)]
    pub seed: Option<u32>,
}

/// What the sender did in the measured span, and what it took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderRecord {
    /// Requests sent.
    pub requests: u64,
    /// Responses received.
    pub responses: u64,
    /// Requests that were never answered: their connection broke or was given up. 0 in a run that is whole.
    pub unanswered: u64,
    /// User time of the sending threads.
    pub user_ns: u64,
    /// System time of the sending threads.
    pub system_ns: u64,
    /// Share of its time that the busiest thread was on a CPU or waited for one. Near 1 the sender may be the bottleneck.
    pub busiest_thread: Option<f64>,
    /// Connections opened in the measured span.
    pub reconnects: u64,
    /// Connections that broke.
    pub broken: u64,
    /// Requests whose time came and that were not sent; null in a closed loop.
    pub unsent: Option<u64>,
    /// The worst delay of one that was sent; null in a closed loop.
    pub worst_lag_ns: Option<u64>,
}

/// The server and what it counted in the measured span.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// Version of the iotrail that served.
    pub version: String,
    /// `epoll` or `io_uring`.
    pub engine: Engine,
    /// Options that mean something to the engine, by name, as resolved.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Over all threads.
    pub total: ServerCounts,
    /// Each thread.
    pub threads: Vec<ServerCounts>,
    /// Each second, over all threads. They sum to the total; the last one is shorter.
    pub seconds: Vec<ServerCounts>,
    /// Memory of the process; null where it is not known.
    pub memory: Option<Memory>,
}

/// Of one server thread, or of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCounts {
    /// Wall time of the span; of all threads together it is the span too.
    pub wall_ns: u64,
    /// User time. The split from system time is sampled at each timer tick by most kernels. Null where the kernel keeps none.
    pub user_ns: Option<u64>,
    /// System time.
    pub system_ns: Option<u64>,
    /// Neither on a CPU nor waiting for one. Of all threads together, so up to `wall_ns` times their number.
    pub idle_ns: Option<u64>,
    /// What a thread counts.
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
    /// Requests answered. The last byte of the response was handed to the kernel's send, or to its queue.
    requests,
    /// Bytes received.
    bytes_in,
    /// Bytes sent.
    bytes_out,
    /// Waits for events or completions.
    loops,
    /// Events or completions that these brought.
    completions,
    /// Receives.
    receives,
    /// Sends.
    sends,
    /// Sends that took less than they were given.
    short_sends,
    /// Zero-copy sends.
    zero_copy_sends,
    /// Zero-copy sends that the kernel copied all the same.
    zero_copy_copied,
    /// Connections accepted.
    accepted,
    /// Connections that the peer ended in good order.
    closed,
    /// Connections ended by an error.
    reset,
    /// Connections ended because what came was no request.
    garbage,
    /// Connections that the peer ended in the middle of a request.
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
    /// `iotrail.net_server/1`.
    pub schema: String,
    /// Version of the iotrail that served.
    pub version: String,
    /// Wall-clock start.
    pub started_unix_s: u64,
    /// Where it listened.
    pub address: String,
    /// Its control address; null: none.
    pub control: Option<String>,
    /// `epoll` or `io_uring`.
    pub engine: Engine,
    /// Options that mean something to the engine, by name, as resolved.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Ring flags that the kernel granted.
    pub granted: Vec<String>,
    /// Over all threads, from the start of the server.
    pub total: ServerCounts,
    /// Each thread.
    pub threads: Vec<ServerCounts>,
    /// Memory of the process; null where it is not known.
    pub memory: Option<Memory>,
    /// Spans that were measured for a sender to their end.
    pub spans: u64,
    /// Spans that ended before: the sender vanished, or the server was stopped.
    pub broken_spans: u64,
    /// Control connections that were refused.
    pub refused: u64,
    /// The machine.
    pub host: Host,
    /// What puts the numbers in doubt.
    pub warnings: Vec<Warning>,
}

/// The server's memory at the end of the measured span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident memory of the process.
    pub resident_bytes: u64,
    /// The same before the first connection, the probes' own memory added.
    pub resident_before_bytes: u64,
    /// Open connections.
    pub connections: u64,
}
