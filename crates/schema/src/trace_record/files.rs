//! What requests did with files.

use serde::{Deserialize, Serialize};

use super::estimates::Estimate;
use crate::file::Kind;
use crate::measurement::Latency;

/// What followed requests did with one file, whoever opened it; of what has no inode of its own (sockets, pipes, eventfds), with one
/// descriptor of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    pub kind: Kind,
    /// Null: it has none, or none is known.
    pub path: Option<String>,
    /// As /proc had it; false: the last part alone, as the kernel had it.
    pub path_is_whole: bool,
    /// It had no name any more.
    pub deleted: bool,
    /// Major and minor number; where the path is whole as stat(2) shows them, else as the kernel has them.
    pub device: Option<String>,
    pub inode: Option<u64>,
    /// Null: of several processes.
    pub tgid: Option<u32>,
    /// So many, 256 at most.
    pub processes: u64,
    /// What it was named by, `fd 7` or `fixed 7` (index of a registered file), 8 at most; how many more there were.
    pub descriptors: Vec<String>,
    pub more_descriptors: u64,
    /// Requests that these are of.
    pub followed: u64,
    /// Null: none was followed.
    pub reads: Option<FileRequests>,
    pub writes: Option<FileRequests>,
    pub others: Option<FileRequests>,
    pub latency_ns: Latency,
}

/// Requests of one sort to one file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FileRequests {
    pub followed: u64,
    pub requests: Estimate,
    /// Sum of their results; null: they move none.
    pub bytes: Option<Estimate>,
}

/// Files that are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OtherFiles {
    /// So many; where there were more than 512 at a time, one that was met again counts again.
    pub files: u64,
    pub followed: u64,
    pub requests: Estimate,
}
