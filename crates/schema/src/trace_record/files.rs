//! Requests by file.

use serde::{Deserialize, Serialize};

use super::estimates::Estimate;
use crate::file::Kind;
use crate::measurement::Latency;

/// Traced requests to one file, by all processes that opened it. A file without an inode of its own (socket, pipe,
/// eventfd) is identified by one descriptor of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The kind of file.
    pub kind: Kind,
    /// Its path; null: it has none, or not known.
    pub path: Option<String>,
    /// False: `path` is only the last component, from the kernel.
    pub path_is_whole: bool,
    /// The file no longer had a name.
    pub deleted: bool,
    /// Major and minor number. If the path is complete, they are those from stat(2), otherwise the kernel's.
    pub device: Option<String>,
    /// Inode number; null: not known.
    pub inode: Option<u64>,
    /// Type of its file system; null: a device, or not known.
    #[serde(default)]
    pub filesystem: Option<String>,
    /// The block device whose queue takes its requests; null: none, or not known.
    #[serde(default)]
    pub queue_device: Option<String>,
    /// Logical block size of that device in bytes, the alignment of direct I/O; null: not known.
    #[serde(default)]
    pub logical_block_bytes: Option<u64>,
    /// Request tags of that device's queue; null: not known.
    #[serde(default)]
    pub nr_requests: Option<u32>,
    /// The process; null: several.
    pub tgid: Option<u32>,
    /// Number of processes, at most 256.
    pub processes: u64,
    /// Descriptors of the file, at most 8: `fd 7`, or `fixed 7` (index of a registered file).
    pub descriptors: Vec<String>,
    /// Number of further descriptors.
    pub more_descriptors: u64,
    /// Number of traced requests.
    pub followed: u64,
    /// Reads, estimated for all requests; null: none was traced.
    pub reads: Option<FileRequests>,
    /// Writes, estimated for all requests; null: none was traced.
    pub writes: Option<FileRequests>,
    /// Other requests, estimated; null: none was traced.
    pub others: Option<FileRequests>,
    /// Latency of these requests, including waits.
    pub latency_ns: Latency,
    /// Traced writes that O_APPEND moved from their offset to the end of the file; omitted if 0.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub appended: u64,
}

/// Requests of one kind to one file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FileRequests {
    /// Number of traced requests.
    pub followed: u64,
    /// Estimated number of requests.
    pub requests: Estimate,
    /// Sum of their results; null: they do not move data.
    pub bytes: Option<Estimate>,
}

/// Files that are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OtherFiles {
    /// Number of files. With more than 512 at a time, a file that is used again later counts again.
    pub files: u64,
    /// Traced requests to them.
    pub followed: u64,
    /// Estimated number of requests.
    pub requests: Estimate,
}
