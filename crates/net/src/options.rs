//! Options of a server and of a sender, with the same names on the command line and in an experiment.

use std::sync::LazyLock;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use iotrail_base::units::{Bytes, Span};
use iotrail_load::options::{Trace, names_of};
use iotrail_load::{defaults_of_the_command_line, names};

/// How a server waits for its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum ServerEngine {
    Epoll,
    IoUring,
}

/// When epoll says that a connection can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Trigger {
    /// As long as it is readable.
    Level,
    /// When it becomes readable (EPOLLET).
    Edge,
}

/// How io_uring receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Receive {
    /// One request per receive, into its own buffer.
    Single,
    /// One request per receive, into a provided buffer.
    Provided,
    /// One request for all receives, into provided buffers.
    Multishot,
    /// Like multishot, but one completion may fill several buffers (6.10).
    Bundle,
    /// One zero-copy request for all receives, without a network device: the kernel copies (7.1).
    Zcrx,
}

/// How io_uring accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Accept {
    Single,
    Multishot,
}

/// How a sender checks responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Check {
    /// The length, the number and every byte.
    Full,
    /// Only the length, for servers that send other bytes.
    Size,
}

/// Where the two ends of `net bench` are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Between {
    /// Namespaces if they can be created, otherwise loopback; the measurement records which.
    Auto,
    /// Two network namespaces connected by a veth pair.
    Namespaces,
    Loopback,
    /// A UNIX socket.
    Unix,
    /// The server on another node of a Slurm job.
    #[value(hide = true)]
    Hosts,
}

names!(ServerEngine);
names!(Trigger);
names!(Receive);
names!(Accept);
names!(Check);
names!(Between);

/// The server's side.
#[derive(Debug, Clone, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServerOptions {
    /// Wait for connections with this engine
    #[arg(long, value_enum, default_value_t = ServerEngine::IoUring)]
    pub engine: ServerEngine,

    /// Run N threads, each with its own epoll instance or ring (default: one per server CPU)
    #[arg(long, value_name = "N")]
    pub server_threads: Option<u32>,

    /// Pin the server's threads to CPUs, round-robin: 0,2-3 (default: not pinned)
    #[arg(long, value_name = "LIST")]
    pub server_cpus: Option<String>,

    /// Use level- or edge-triggered notification (epoll)
    #[arg(long, value_enum, default_value_t = Trigger::Level)]
    pub trigger: Trigger,

    /// Set exactly these ring setup flags: coop_taskrun, taskrun_flag, defer_taskrun, single_issuer, sqpoll, submit_all,
    /// no_sqarray, cqsize=N
    #[arg(long, value_name = "FLAGS", default_value = "", hide_default_value = true)]
    pub ring: String,

    /// Bind the SQPOLL thread to this CPU
    #[arg(long, value_name = "CPU")]
    pub sq_cpu: Option<u32>,

    /// Let the SQPOLL thread sleep after this many milliseconds without work
    #[arg(long, value_name = "MS")]
    pub sq_idle: Option<u32>,

    /// Register these with the ring: files (accepted connections are direct descriptors), ring, wait (wait arguments,
    /// Linux 6.13)
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub register: String,

    /// Receive this way (io_uring)
    #[arg(long, value_enum, default_value_t = Receive::Multishot)]
    pub receive: Receive,

    /// Accept this way (io_uring)
    #[arg(long, value_enum, default_value_t = Accept::Multishot)]
    pub accept: Accept,

    /// Provide N buffers per thread, a power of two
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub buffers: u32,

    /// Set the size of each receive buffer, in bytes
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    pub buffer_size: Bytes,

    /// Use zero-copy sends for responses of at least this size (io_uring, 6.0); a response is sent in parts if its request exceeds one receive buffer
    #[arg(long, value_name = "SIZE")]
    pub zero_copy: Option<Bytes>,

    /// Busy-poll the network device for this time before sleeping (io_uring 6.9; epoll 6.9)
    #[arg(long, value_name = "TIME")]
    pub napi: Option<Span>,

    /// Wait for N completions at a time (io_uring)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub wait_for: u32,

    /// Wait at most this long when waiting for more than one completion
    #[arg(long, value_name = "TIME")]
    pub wait_timeout: Option<Span>,

    /// Wait this long for all completions of --wait-for; after that, the first one ends the wait (io_uring 6.12)
    #[arg(long, value_name = "TIME")]
    pub min_wait: Option<Span>,

    /// Do not count waits for completions as iowait (io_uring 6.15)
    #[arg(long)]
    pub no_iowait: bool,
}

/// The sender's side.
#[derive(Debug, Clone, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SenderOptions {
    /// Open N connections across all threads
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub connections: u32,

    /// Keep N requests in flight on each connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub window: u32,

    /// Set the size of each request body, in bytes (an 8-byte header precedes it)
    #[arg(long, value_name = "SIZE", default_value = "64")]
    pub request: Bytes,

    /// Set the size of each response, in bytes
    #[arg(long, value_name = "SIZE", default_value = "64")]
    pub response: Bytes,

    /// Send from N threads (default: one)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub sender_threads: u32,

    /// Pin the sender's threads to CPUs, round-robin: 0,2-3 (default: not pinned)
    #[arg(long, value_name = "LIST")]
    pub sender_cpus: Option<String>,

    /// Send at this rate (requests per second across all connections, open loop); latency counts from the intended send time
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,

    /// Send N requests at a time on each connection in turn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub burst: u32,

    /// Close each connection after N responses and open another
    #[arg(long, value_name = "N")]
    pub reconnect_after: Option<u64>,

    /// Reopen a broken connection; its requests in flight stay unanswered (default: end the load)
    #[arg(long)]
    pub reconnect: bool,

    /// Open N more connections that stay idle
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub idle_connections: u32,

    /// Check each response this way
    #[arg(long, value_enum, default_value_t = Check::Full)]
    pub check: Check,

    /// Give up on a connection that delivers no response for this time
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub give_up: Span,

    /// Measure for this time (default 5s)
    #[arg(long, value_name = "TIME", conflicts_with = "count")]
    pub runtime: Option<Span>,

    /// Measure this many requests across all connections
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,

    /// Run the load for this time before measuring
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub warmup: Span,

    /// Seed of the sent data; `None`: drawn. The commands' own option, or their run's.
    #[arg(skip)]
    #[serde(skip)]
    pub seed: Option<u32>,
}

/// Both sides, as `net bench` and an experiment have them.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct NetOptions {
    #[command(flatten)]
    pub server: ServerOptions,

    #[command(flatten)]
    pub sender: SenderOptions,

    /// Connect the server and the sender this way
    #[arg(long, value_enum, default_value_t = Between::Auto)]
    pub between: Between,

    /// Trace the server with the probes
    #[arg(long, value_enum, default_value_t = Trace::Auto)]
    pub trace: Trace,
}

impl NetOptions {
    /// Options by name, as in an experiment; unspecified options have their defaults.
    pub fn from_table(mut options: toml::Table) -> Result<Self, toml::de::Error> {
        fn taken<T: serde::de::DeserializeOwned>(
            options: &mut toml::Table,
            names: &[String],
        ) -> Result<T, toml::de::Error> {
            let of_these = names.iter().filter_map(|name| options.remove_entry(name)).collect();
            T::deserialize(toml::Value::Table(of_these))
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        struct Rest {
            between: Option<Between>,
            trace: Option<Trace>,
        }
        static OF_SERVER: LazyLock<Vec<String>> = LazyLock::new(names_of::<ServerOptions>);
        static OF_SENDER: LazyLock<Vec<String>> = LazyLock::new(names_of::<SenderOptions>);
        let server = taken(&mut options, &OF_SERVER)?;
        let sender = taken(&mut options, &OF_SENDER)?;
        let rest = Rest::deserialize(toml::Value::Table(options))?;
        let (between, trace) = (rest.between.unwrap_or(Between::Auto), rest.trace.unwrap_or(Trace::Auto));
        Ok(Self { server, sender, between, trace })
    }
}

defaults_of_the_command_line!(ServerOptions);
defaults_of_the_command_line!(SenderOptions);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_options_have_the_names_and_defaults_of_the_command_line() {
        let server: ServerOptions =
            toml::from_str("engine = \"epoll\"\ntrigger = \"edge\"\nbuffer-size = 512").unwrap();
        assert_eq!((server.engine, server.trigger, server.buffer_size.0), (ServerEngine::Epoll, Trigger::Edge, 512));
        assert_eq!(server.receive, ServerOptions::default().receive);
        let sender: SenderOptions = toml::from_str("connections = 64\nwindow = 2").unwrap();
        assert_eq!((sender.connections, sender.window, sender.request), (64, 2, Bytes(64)));
        assert!(toml::from_str::<SenderOptions>("conections = 64").is_err());
    }
}
