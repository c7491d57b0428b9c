//! Values of a load's options in records.

use serde::{Deserialize, Serialize};

use crate::name::Name;

/// Values by their JSON names. `Other` keeps a name of a newer release; empty: the record does not have this option.
macro_rules! names {
    ($($(#[$doc:meta])* $type:ident { $($variant:ident = $name:literal),+ })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(from = "Name", into = "Name")]
        pub enum $type {
            $($variant,)+
            Other(Name),
        }

        impl $type {
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Other(name) => name,
                }
            }
        }

        impl From<&str> for $type {
            fn from(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)+
                    other => Self::Other(other.into()),
                }
            }
        }

        impl From<Name> for $type {
            fn from(name: Name) -> Self {
                name.as_str().into()
            }
        }

        impl From<$type> for Name {
            fn from(value: $type) -> Self {
                value.name().into()
            }
        }

        impl Default for $type {
            fn default() -> Self {
                "".into()
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    )+};
}

names! {
    /// The I/O interface.
    Engine {
        IoUring = "io_uring", IoUringCmd = "io_uring_cmd", Libaio = "libaio", PosixAio = "posix_aio", Sync = "sync",
        Null = "null", NvmeUser = "nvme_user", Epoll = "epoll", Program = "program", Unknown = "unknown"
    }
    /// Access pattern and direction.
    Rw {
        RandRead = "randread", Read = "read", RandWrite = "randwrite", Write = "write", Append = "append",
        RandRw = "randrw", Nop = "nop", Echo = "echo"
    }
    /// Method to make writes durable; empty in older records: none.
    Commit { None = "none", Fsync = "fsync", Fdatasync = "fdatasync", Dsync = "dsync", Linked = "linked" }
    /// How a job waits.
    Wait { Block = "block", Peek = "peek" }
    /// The thread that reaps; `thread:CPU` is an `Other`.
    Reaper { Same = "same", Thread = "thread" }
    /// Whether the probes were requested.
    Trace { Auto = "auto", On = "on", Off = "off" }
}

impl Engine {
    /// Its requests go through a ring.
    pub fn has_ring(&self) -> bool {
        matches!(self, Engine::IoUring | Engine::IoUringCmd)
    }
}

impl Commit {
    pub fn is_durable(&self) -> bool {
        !matches!(self, Commit::None) && !self.name().is_empty()
    }

    /// One sync makes a batch of writes durable.
    pub fn is_of_batch(&self) -> bool {
        matches!(self, Commit::Fsync | Commit::Fdatasync)
    }
}

impl Rw {
    /// It writes and does not read.
    pub fn only_writes(&self) -> bool {
        matches!(self, Rw::Write | Rw::RandWrite | Rw::Append)
    }

    pub fn writes(&self) -> bool {
        self.only_writes() || *self == Rw::RandRw
    }
}
