//! Options of a server and of a sender: on the command line, and in an experiment by the same names.

use std::sync::LazyLock;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use iotrail_base::units::{Bytes, Span};
use iotrail_load::names;
use iotrail_load::options::{Trace, names_of};

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
    /// As long as it can.
    Level,
    /// When it becomes so (EPOLLET).
    Edge,
}

/// How io_uring receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Receive {
    /// One request per receive, into its own buffer.
    Single,
    /// One request for each, into a provided buffer.
    Provided,
    /// One request for all, into provided buffers.
    Multishot,
    /// The same, and one completion may fill several buffers (6.10).
    Bundle,
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
    /// Length, number, every byte.
    Full,
    /// Only the length: for servers with their own response bytes.
    Size,
}

/// Where the two ends of `net bench` are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Between {
    /// Namespaces if they can be created, otherwise loopback; the measurement records which.
    Auto,
    /// Two network namespaces with a veth pair between them.
    Namespaces,
    Loopback,
    /// A UNIX socket.
    Unix,
    /// The server on another node of a job of Slurm's.
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
    /// Wait for connections through this engine
    #[arg(long, value_enum, default_value_t = ServerEngine::IoUring)]
    pub engine: ServerEngine,

    /// Run N threads, each with an epoll instance or ring of its own (default: one per CPU of the server)
    #[arg(long, value_name = "N")]
    pub server_threads: Option<u32>,

    /// Pin the server's threads to CPUs, round-robin: 0,2-3 (default: not pinned)
    #[arg(long, value_name = "LIST")]
    pub server_cpus: Option<String>,

    /// epoll: report connections level- or edge-triggered
    #[arg(long, value_enum, default_value_t = Trigger::Level)]
    pub trigger: Trigger,

    /// Set exactly these ring setup flags: coop_taskrun, taskrun_flag, defer_taskrun, single_issuer, sqpoll, submit_all,
    /// no_sqarray, cqsize=N
    #[arg(long, value_name = "FLAGS", default_value = "", hide_default_value = true)]
    pub ring: String,

    /// Bind the SQPOLL thread to this CPU
    #[arg(long, value_name = "CPU")]
    pub sq_cpu: Option<u32>,

    /// Let the SQPOLL thread sleep after this idle time, milliseconds
    #[arg(long, value_name = "MS")]
    pub sq_idle: Option<u32>,

    /// Register these with the ring: files (accepted connections are direct descriptors), ring
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub register: String,

    /// io_uring: receive this way
    #[arg(long, value_enum, default_value_t = Receive::Multishot)]
    pub receive: Receive,

    /// io_uring: accept this way
    #[arg(long, value_enum, default_value_t = Accept::Multishot)]
    pub accept: Accept,

    /// Provide N buffers per thread, a power of two
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub buffers: u32,

    /// Size each receive buffer, bytes
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    pub buffer_size: Bytes,

    /// io_uring: use zero-copy sends from this size on (6.0); a response is sent in parts where its request exceeds one receive buffer
    #[arg(long, value_name = "SIZE")]
    pub zero_copy: Option<Bytes>,

    /// Busy-poll the network device for this time before sleeping (io_uring 6.9; epoll 6.9)
    #[arg(long, value_name = "TIME")]
    pub napi: Option<Span>,

    /// Wait for N completions at a time (io_uring)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub wait_for: u32,

    /// Wait this long at most, where it waits for more than one
    #[arg(long, value_name = "TIME")]
    pub wait_timeout: Option<Span>,
}

/// The sender's side.
#[derive(Debug, Clone, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SenderOptions {
    /// Open N connections, over all threads
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub connections: u32,

    /// Keep N requests in flight on each connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub window: u32,

    /// Size a request's body, bytes (a header of 8 bytes comes before it)
    #[arg(long, value_name = "SIZE", default_value = "64")]
    pub request: Bytes,

    /// Size a response, bytes
    #[arg(long, value_name = "SIZE", default_value = "64")]
    pub response: Bytes,

    /// Send from N threads (default: one)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub sender_threads: u32,

    /// Pin the sender's threads to CPUs, round-robin: 0,2-3 (default: not pinned)
    #[arg(long, value_name = "LIST")]
    pub sender_cpus: Option<String>,

    /// Send at this rate (requests per second over all connections, open loop); latency counts from the intended time
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,

    /// Send N requests at once on a connection, before the next has its turn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub burst: u32,

    /// Close a connection after N responses and open another
    #[arg(long, value_name = "N")]
    pub reconnect_after: Option<u64>,

    /// Open a broken connection again; what was in flight on it stays unanswered (default: the load ends)
    #[arg(long)]
    pub reconnect: bool,

    /// Open N more connections that stay silent
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub idle_connections: u32,

    /// Check this of each response
    #[arg(long, value_enum, default_value_t = Check::Full)]
    pub check: Check,

    /// Give up a connection that has no answer for this time
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub give_up: Span,

    /// Measure for this time (default 5s)
    #[arg(long, value_name = "TIME", conflicts_with = "count")]
    pub runtime: Option<Span>,

    /// Measure this many requests, over all connections
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

    /// Connect the two ends this way
    #[arg(long, value_enum, default_value_t = Between::Auto)]
    pub between: Between,

    /// Watch the server with the probes
    #[arg(long, value_enum, default_value_t = Trace::Auto)]
    pub trace: Trace,
}

impl NetOptions {
    /// Options by their names, as an experiment has them; defaults where it does not speak.
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

macro_rules! defaults_of_the_command_line {
    ($t:ty) => {
        impl Default for $t {
            fn default() -> Self {
                #[derive(clap::Parser)]
                struct Only {
                    #[command(flatten)]
                    these: $t,
                }
                // The command line's defaults are the only ones; an experiment asks for them in every cell.
                static DEFAULTS: LazyLock<$t> = LazyLock::new(|| <Only as clap::Parser>::parse_from(["iotrail"]).these);
                DEFAULTS.clone()
            }
        }
    };
}
defaults_of_the_command_line!(ServerOptions);
defaults_of_the_command_line!(SenderOptions);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_takes_the_command_lines_names_and_defaults() {
        let server: ServerOptions =
            toml::from_str("engine = \"epoll\"\ntrigger = \"edge\"\nbuffer-size = 512").unwrap();
        assert_eq!((server.engine, server.trigger, server.buffer_size.0), (ServerEngine::Epoll, Trigger::Edge, 512));
        assert_eq!(server.receive, ServerOptions::default().receive);
        let sender: SenderOptions = toml::from_str("connections = 64\nwindow = 2").unwrap();
        assert_eq!((sender.connections, sender.window, sender.request), (64, 2, Bytes(64)));
        assert!(toml::from_str::<SenderOptions>("conections = 64").is_err());
    }
}
