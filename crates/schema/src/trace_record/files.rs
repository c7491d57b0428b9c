//! What requests did with files.

use serde::{Deserialize, Serialize};

use super::estimates::Estimate;
use crate::file::Kind;
use crate::measurement::Latency;

/// What followed requests did with one file, whoever opened it; of what has no inode of its own (sockets, pipes, eventfds), with one
/// descriptor of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    /// What kind of file it is.
    pub kind: Kind,
    /// Its path; null: it has none, or none is known.
    pub path: Option<String>,
    /// False: the last part alone, as the kernel had it.
    pub path_is_whole: bool,
    /// It had no name any more.
    pub deleted: bool,
    /// Major and minor number: as stat(2) shows them where the path is whole. Else as the kernel has them.
    pub device: Option<String>,
    /// Inode number; null: not known.
    pub inode: Option<u64>,
    /// Type of the file system that it is on; null: a device, or not known.
    #[serde(default)]
    pub filesystem: Option<String>,
    /// The block device whose queue takes its requests; null: none, or not known.
    #[serde(default)]
    pub queue_device: Option<String>,
    /// Logical block of that device in bytes, to which direct I/O is aligned; null: not known.
    #[serde(default)]
    pub logical_block_bytes: Option<u64>,
    /// Request tags of that device's queue; null: not known.
    #[serde(default)]
    pub nr_requests: Option<u32>,
    /// The process; null: several.
    pub tgid: Option<u32>,
    /// How many processes, 256 at most.
    pub processes: u64,
    /// What it was named by, 8 at most: `fd 7`, or `fixed 7` (index of a registered file).
    pub descriptors: Vec<String>,
    /// How many more there were.
    pub more_descriptors: u64,
    /// Followed requests.
    pub followed: u64,
    /// Reads, estimated for all requests; null: none was followed.
    pub reads: Option<FileRequests>,
    /// Writes, estimated for all requests; null: none was followed.
    pub writes: Option<FileRequests>,
    /// Other requests, estimated; null: none was followed.
    pub others: Option<FileRequests>,
    /// Latency of these requests, waits included.
    pub latency_ns: Latency,
}

/// Requests of one sort to one file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FileRequests {
    /// Followed requests.
    pub followed: u64,
    /// How many requests.
    pub requests: Estimate,
    /// Sum of their results; null: they move none.
    pub bytes: Option<Estimate>,
}

/// Files that are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OtherFiles {
    /// How many files; of more than 512 at a time, one that was met again counts again.
    pub files: u64,
    /// Followed requests to them.
    pub followed: u64,
    /// How many requests.
    pub requests: Estimate,
}
