//! The file that a request went to, as the kernel had it, and what the program named it by.

use serde::{Deserialize, Serialize};

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// A pipe or a FIFO.
    Pipe,
    /// A socket.
    Socket,
    /// An eventfd.
    Eventfd,
    /// A timerfd.
    Timerfd,
    /// A signalfd.
    Signalfd,
    /// An epoll instance.
    Epoll,
    /// A ring.
    IoUring,
    /// An inotify instance.
    Inotify,
    /// A pidfd.
    Pidfd,
    /// Another of the kernel's kinds without an inode of its own.
    Anonymous,
    /// Only what the program named it by is known.
    Unknown,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::BlockDevice => "block_device",
            Kind::CharacterDevice => "character_device",
            Kind::Pipe => "pipe",
            Kind::Socket => "socket",
            Kind::Eventfd => "eventfd",
            Kind::Timerfd => "timerfd",
            Kind::Signalfd => "signalfd",
            Kind::Epoll => "epoll",
            Kind::IoUring => "io_uring",
            Kind::Inotify => "inotify",
            Kind::Pidfd => "pidfd",
            Kind::Anonymous => "anonymous",
            Kind::Unknown => "unknown",
        }
    }

    /// It has a name and an inode of its own.
    pub fn is_named(self) -> bool {
        matches!(self, Kind::File | Kind::Directory | Kind::BlockDevice | Kind::CharacterDevice)
    }

    /// By the type in its mode (S_IFMT).
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

    /// By the beginning of what the kernel calls it (the names that anon_inode_getfile is given).
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

/// What the program named its file by.
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
    /// What kind of file it is.
    pub kind: Kind,
    /// The kernel's device number (20 bits of minor number). That of stat(2) may be another one (btrfs, overlayfs).
    pub device: u32,
    /// Inode number; 0 of what has none of its own.
    pub inode: u64,
    /// Generation of the inode.
    pub generation: u32,
    /// It had no name any more.
    pub deleted: bool,
}
