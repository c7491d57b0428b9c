//! Messages in both directions, one JSON value per line.

use serde::{Deserialize, Serialize};

use super::PROTOCOL;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::net_record::{SenderPlan, ServerCounts, ServerRecord};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromSender {
    Hello(Hello),
    Begin,
    End,
    Bye,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    /// iotrail's.
    pub version: String,
    pub asked: SenderPlan,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromServer {
    Welcome(Box<Welcome>),
    /// Supported by every protocol version.
    Refused {
        why: String,
    },
    Begun,
    Second(Box<ServerCounts>),
    Measured(Box<Measured>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    pub protocol: u32,
    pub version: String,
    pub kernel: String,
    pub engine: String,
    /// Engine options by name, as resolved.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Ring flags that the kernel granted.
    pub granted: Vec<String>,
    pub machine: Machine,
}

/// Determines whether two processes are on the same machine and in the same network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's boot ID; null if /proc does not report it.
    pub boot_id: Option<String>,
    /// The network namespace's inode.
    pub net_namespace: Option<String>,
}

impl Machine {
    pub fn of_this_process() -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let namespace = std::fs::read_link("/proc/thread-self/ns/net").ok();
        Machine {
            boot_id: boot_id.map(|id| id.trim().to_owned()),
            net_namespace: namespace.map(|link| link.to_string_lossy().into_owned()),
        }
    }

    /// The kind of connection between both, named as in a measurement.
    pub fn between(&self, other: &Machine) -> &'static str {
        match self {
            Machine { boot_id: Some(id), .. } if other.boot_id.as_ref() != Some(id) => "hosts",
            Machine { boot_id: None, .. } => "hosts",
            Machine { net_namespace, .. } if *net_namespace == other.net_namespace => "loopback",
            _ => "namespaces",
        }
    }
}

/// The server's half of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// False if the server was stopped before the sender ended the span.
    pub whole: bool,
    /// Lacks the sender's part: latency is empty, `net` is null.
    pub measurement: Measurement,
    pub server: ServerRecord,
}

/// The part of the first message, in either direction, that all protocol versions share.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FirstWord {
    #[serde(alias = "welcome")]
    Hello(Greeting),
}

#[derive(Debug, Deserialize)]
struct Greeting {
    protocol: u32,
    version: String,
}

/// Why a hello's protocol is not supported; `None` if it is supported, or if the line is not a hello.
pub fn other_protocol(line: &str) -> Option<String> {
    let FirstWord::Hello(them) = serde_json::from_str(line).ok()?;
    (them.protocol != PROTOCOL).then(|| {
        let ours = env!("CARGO_PKG_VERSION");
        format!(
            "iotrail {ours} speaks control protocol {PROTOCOL} and the other end, iotrail {}, speaks {}: use the same version on \
             both sides",
            them.version, them.protocol
        )
    })
}
