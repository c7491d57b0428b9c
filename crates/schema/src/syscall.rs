//! The system calls that are reported: the only table of them.

/// A system call.
#[derive(Debug)]
pub struct Call {
    pub name: &'static str,
    pub work: Option<Work>,
    pub wait: Option<Wait>,
}

/// The thread's work in the call, if it may block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// It submits: without anything to wait for, it should not block.
    Submits,
    /// It waits until data is on the device.
    Syncs,
}

/// How the call waits for completions, events or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Enter,
    Events,
    Epoll,
    Poll,
    Futex,
    Sleep,
}

use Wait::{Enter, Epoll, Events, Futex, Poll, Sleep};
use Work::{Submits, Syncs};

const fn call(name: &'static str, work: Option<Work>, wait: Option<Wait>) -> Call {
    Call { name, work, wait }
}

/// System calls that set up, submit, wait, read, write, sync and poll.
#[rustfmt::skip]
pub const ALL: [Call; 83] = [
    call("io_uring_setup", None, None),
    call("io_uring_enter", Some(Submits), Some(Enter)),
    call("io_uring_register", None, None),
    call("io_setup", None, None),
    call("io_submit", Some(Submits), None),
    call("io_getevents", None, Some(Events)),
    call("io_pgetevents", None, Some(Events)),
    call("io_cancel", None, None),
    call("io_destroy", None, None),
    call("epoll_create", None, None),
    call("epoll_create1", None, None),
    call("epoll_ctl", None, None),
    call("epoll_wait", None, Some(Epoll)),
    call("epoll_pwait", None, Some(Epoll)),
    call("epoll_pwait2", None, Some(Epoll)),
    call("poll", None, Some(Poll)),
    call("ppoll", None, Some(Poll)),
    call("select", None, Some(Events)),
    call("pselect6", None, Some(Events)),
    call("read", None, None),
    call("readv", None, None),
    call("pread64", None, None),
    call("preadv", None, None),
    call("preadv2", None, None),
    call("write", None, None),
    call("writev", None, None),
    call("pwrite64", None, None),
    call("pwritev", None, None),
    call("pwritev2", None, None),
    call("sendfile", None, None),
    call("splice", None, None),
    call("copy_file_range", None, None),
    call("recvfrom", None, None),
    call("recvmsg", None, None),
    call("recvmmsg", None, None),
    call("sendto", None, None),
    call("sendmsg", None, None),
    call("sendmmsg", None, None),
    call("socket", None, None),
    call("bind", None, None),
    call("listen", None, None),
    call("accept", None, None),
    call("accept4", None, None),
    call("connect", None, None),
    call("shutdown", None, None),
    call("close", None, None),
    call("fsync", Some(Syncs), None),
    call("fdatasync", Some(Syncs), None),
    call("sync", Some(Syncs), None),
    call("syncfs", Some(Syncs), None),
    call("sync_file_range", Some(Syncs), None),
    call("msync", Some(Syncs), None),
    call("fallocate", None, None),
    call("truncate", None, None),
    call("ftruncate", None, None),
    call("open", None, None),
    call("openat", None, None),
    call("openat2", None, None),
    call("stat", None, None),
    call("fstat", None, None),
    call("newfstatat", None, None),
    call("statx", None, None),
    call("lseek", None, None),
    call("fadvise64", None, None),
    call("fcntl", None, None),
    call("flock", None, None),
    call("futex", None, Some(Futex)),
    call("futex_wait", None, None),
    call("futex_waitv", None, None),
    call("nanosleep", None, Some(Sleep)),
    call("clock_nanosleep", None, Some(Sleep)),
    call("timerfd_create", None, None),
    call("timerfd_settime", None, None),
    call("eventfd2", None, None),
    call("inotify_init1", None, None),
    call("inotify_add_watch", None, None),
    call("pipe2", None, None),
    call("sched_yield", None, None),
    call("madvise", None, None),
    call("mlock", None, None),
    call("wait4", None, None),
    call("clone", None, None),
    call("clone3", None, None),
];

pub fn find(name: &str) -> Option<&'static Call> {
    ALL.iter().find(|call| call.name == name)
}

/// Whether its result is a number of bytes that it has read or written.
pub fn moves_bytes(name: &str) -> bool {
    const BY_NAME: [&str; 4] = ["sendfile", "splice", "tee", "copy_file_range"];
    let vector = |name: &str| ["read", "write"].iter().any(|of| name.trim_start_matches('p').starts_with(of));
    BY_NAME.contains(&name) || vector(name) || ["recvfrom", "recvmsg", "sendto", "sendmsg"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_call_is_listed_once() {
        let first = |call: &Call| ALL.iter().position(|other| other.name == call.name);
        assert!(ALL.iter().enumerate().all(|(i, call)| first(call) == Some(i)));
    }

    #[test]
    fn calls_that_return_a_byte_count_are_listed() {
        let moving: Vec<&str> = ALL.iter().map(|call| call.name).filter(|name| moves_bytes(name)).collect();
        let of_sockets = ["recvfrom", "recvmsg", "sendto", "sendmsg"];
        assert_eq!(moving[..10].join(" "), "read readv pread64 preadv preadv2 write writev pwrite64 pwritev pwritev2");
        assert_eq!(moving[10..13].join(" "), "sendfile splice copy_file_range");
        assert_eq!(&moving[13..], &of_sockets, "recvmmsg and sendmmsg return a number of messages");
    }
}
