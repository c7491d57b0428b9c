//! The file of a request as the kernel identifies it, and the number by which the program named it.

use serde::{Deserialize, Serialize};

crate::named! {
    /// The kind of file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Kind {
        /// A regular file.
        File = "file",
        /// A directory.
        Directory = "directory",
        /// A block device.
        BlockDevice = "block_device",
        /// A character device.
        CharacterDevice = "character_device",
        /// A pipe or a FIFO.
        Pipe = "pipe",
        /// A socket.
        Socket = "socket",
        /// An eventfd.
        Eventfd = "eventfd",
        /// A timerfd.
        Timerfd = "timerfd",
        /// A signalfd.
        Signalfd = "signalfd",
        /// An epoll instance.
        Epoll = "epoll",
        /// A ring.
        IoUring = "io_uring",
        /// An inotify instance.
        Inotify = "inotify",
        /// A pidfd.
        Pidfd = "pidfd",
        /// Another kind of anonymous inode.
        Anonymous = "anonymous",
        /// Only the descriptor or index is known.
        Unknown = "unknown",
    }
}

impl Kind {
    /// The file has a name and an inode of its own.
    pub fn is_named(self) -> bool {
        matches!(self, Kind::File | Kind::Directory | Kind::BlockDevice | Kind::CharacterDevice)
    }

    /// The kind by the file type in the mode (S_IFMT).
    pub fn of_mode(mode: u32) -> Kind {
        match mode & libc::S_IFMT {
            libc::S_IFREG => Kind::File,
            libc::S_IFDIR => Kind::Directory,
            libc::S_IFBLK => Kind::BlockDevice,
            libc::S_IFCHR => Kind::CharacterDevice,
            libc::S_IFIFO => Kind::Pipe,
            libc::S_IFSOCK => Kind::Socket,
            _ => Kind::Anonymous,
        }
    }

    /// The kind by the prefix of the kernel's name for it (the name passed to anon_inode_getfile).
    pub fn of_anonymous(name: &[u8]) -> Kind {
        const NAMES: [(&str, Kind); 7] = [
            ("[eventfd]", Kind::Eventfd),
            ("[timerfd]", Kind::Timerfd),
            ("[signalfd]", Kind::Signalfd),
            ("[eventpoll]", Kind::Epoll),
            ("[io_uring]", Kind::IoUring),
            ("inotify", Kind::Inotify),
            ("[pidfd]", Kind::Pidfd),
        ];
        let name = name.split(|b| *b == 0).next().unwrap_or_default();
        let is = |known: &str| known.as_bytes().get(..name.len().min(8)) == Some(name) && name.len() >= 7;
        NAMES.iter().find(|(known, _)| is(known)).map_or(Kind::Anonymous, |(_, kind)| *kind)
    }
}

/// The number by which the program named its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Descriptor {
    /// A file descriptor.
    Fd(i32),
    /// Index of a registered file (IOSQE_FIXED_FILE).
    Fixed(u32),
}

impl std::fmt::Display for Descriptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Descriptor::Fd(fd) => write!(f, "fd {fd}"),
            Descriptor::Fixed(index) => write!(f, "fixed {index}"),
        }
    }
}

/// The file as the kernel had it when the completion was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSeen {
    /// The kind of file.
    pub kind: Kind,
    /// The kernel's device number (20-bit minor). stat(2) may show a different one (btrfs, overlayfs).
    pub device: u32,
    /// Inode number; 0: the file has no inode of its own.
    pub inode: u64,
    /// Generation of the inode.
    pub generation: u32,
    /// The file no longer had a name.
    pub deleted: bool,
    /// O_APPEND moved the write from its offset to the end of the file; omitted if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub appended: bool,
}
