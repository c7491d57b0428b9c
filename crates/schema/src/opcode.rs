//! Operations: the only table of them and of their traits.

use std::collections::HashMap;
use std::sync::LazyLock;

/// An operation of io_uring, of native or of POSIX AIO.
#[derive(Debug)]
pub struct Opcode {
    /// The name in JSON.
    pub name: &'static str,
    /// The first kernel whose io_uring has it: major and minor.
    pub since: (u32, u32),
    traits: u32,
}

/// Its result is the number of bytes read or received.
pub const READS: u32 = 1;
/// Its result is the number of bytes written or sent.
pub const WRITES: u32 = 1 << 1;
/// It has one length and should transfer all of it; a receive does not have this trait, since it takes the available data.
pub const SIZED: u32 = 1 << 2;
/// It does not have a length.
pub const UNSIZED: u32 = 1 << 3;
/// It names a vector of lengths.
pub const VECTORED: u32 = 1 << 4;
/// It reads from one file and writes to another, both of which it names.
pub const SPLICES: u32 = 1 << 5;
/// It concerns a socket.
pub const SOCKET: u32 = 1 << 6;
/// It posts a notification after its result.
pub const ZERO_COPY: u32 = 1 << 7;
/// It makes data durable, allocates blocks, or is a command of the device.
pub const STORES: u32 = 1 << 8;
/// A ring with IOPOLL accepts it (`iopoll` of io_uring/opdef.c).
pub const POLLED: u32 = 1 << 9;
/// It names a registered buffer by index.
pub const INDEXED: u32 = 1 << 10;
/// It names memory by address or a registered buffer by index (IORING_RECVSEND_FIXED_BUF, IORING_URING_CMD_FIXED).
pub const MAYBE_INDEXED: u32 = 1 << 11;
/// It only waits, and not for work to be done.
pub const WAITS: u32 = 1 << 12;
/// io_uring does not take a file for it (`needs_file` of io_uring/opdef.c).
pub const NO_FILE: u32 = 1 << 13;
/// The kernel always passes it to io-wq.
pub const WORKER: u32 = 1 << 14;
/// Its preparation may set REQ_F_FORCE_ASYNC, as IOSQE_ASYNC does (io_uring/{sync,splice,fs,xattr,net,statx,truncate,openclose}.c).
/// In this case it is unknown whether the program requested a worker.
pub const MAY_FORCE_WORKER: u32 = 1 << 15;
/// It waits for a time.
pub const TIMERS: u32 = 1 << 16;
/// It is a command of the file's own driver.
pub const PASSTHROUGH: u32 = 1 << 17;
/// It writes earlier data to the device.
pub const SYNCS: u32 = 1 << 18;

/// The zero-copy receive.
pub const RECV_ZC: &str = "recv_zc";

const ALWAYS: u32 = WORKER | MAY_FORCE_WORKER;
const READ: u32 = READS | POLLED;
const WRITE: u32 = WRITES | POLLED;
const SEND: u32 = WRITES | SOCKET;
const RECV: u32 = READS | SOCKET;

const fn op(name: &'static str, since: (u32, u32), traits: u32) -> Opcode {
    Opcode { name, since, traits }
}

/// In the order of `enum io_uring_op` (include/uapi/linux/io_uring.h of Linux 7.0): the position is the opcode.
#[rustfmt::skip]
pub const ALL: &[Opcode] = &[
    op("nop", (5, 1), NO_FILE),
    op("readv", (5, 1), READ | VECTORED),
    op("writev", (5, 1), WRITE | VECTORED),
    op("fsync", (5, 1), SYNCS | STORES | ALWAYS),
    op("read_fixed", (5, 1), READ | SIZED | INDEXED),
    op("write_fixed", (5, 1), WRITE | SIZED | INDEXED),
    op("poll_add", (5, 1), WAITS),
    op("poll_remove", (5, 1), NO_FILE),
    op("sync_file_range", (5, 2), SYNCS | STORES | ALWAYS),
    op("sendmsg", (5, 3), SEND),
    op("recvmsg", (5, 3), RECV),
    op("timeout", (5, 4), WAITS | NO_FILE | TIMERS),
    op("timeout_remove", (5, 5), NO_FILE),
    op("accept", (5, 5), WAITS | SOCKET),
    op("async_cancel", (5, 5), NO_FILE),
    op("link_timeout", (5, 5), WAITS | NO_FILE | TIMERS),
    op("connect", (5, 5), SOCKET),
    op("fallocate", (5, 6), STORES | ALWAYS),
    op("openat", (5, 6), NO_FILE | MAY_FORCE_WORKER),
    op("close", (5, 6), NO_FILE),
    op("files_update", (5, 6), NO_FILE),
    op("statx", (5, 6), NO_FILE | ALWAYS),
    op("read", (5, 6), READ | SIZED),
    op("write", (5, 6), WRITE | SIZED),
    op("fadvise", (5, 6), MAY_FORCE_WORKER),
    op("madvise", (5, 6), NO_FILE | ALWAYS),
    op("send", (5, 6), SEND | SIZED),
    op("recv", (5, 6), RECV),
    op("openat2", (5, 6), NO_FILE | MAY_FORCE_WORKER),
    op("epoll_ctl", (5, 6), NO_FILE),
    op("splice", (5, 7), WRITES | SPLICES | ALWAYS),
    op("provide_buffers", (5, 7), NO_FILE),
    op("remove_buffers", (5, 7), NO_FILE),
    op("tee", (5, 8), WRITES | SPLICES | ALWAYS),
    op("shutdown", (5, 11), ALWAYS),
    op("renameat", (5, 11), NO_FILE | ALWAYS),
    op("unlinkat", (5, 11), NO_FILE | ALWAYS),
    op("mkdirat", (5, 15), NO_FILE | ALWAYS),
    op("symlinkat", (5, 15), NO_FILE | ALWAYS),
    op("linkat", (5, 15), NO_FILE | ALWAYS),
    op("msg_ring", (5, 18), 0),
    op("fsetxattr", (5, 19), ALWAYS),
    op("setxattr", (5, 19), NO_FILE | ALWAYS),
    op("fgetxattr", (5, 19), ALWAYS),
    op("getxattr", (5, 19), NO_FILE | ALWAYS),
    op("socket", (5, 19), NO_FILE),
    op("uring_cmd", (5, 19), PASSTHROUGH | STORES | POLLED | MAYBE_INDEXED),
    op("send_zc", (6, 0), SEND | SIZED | ZERO_COPY | MAYBE_INDEXED),
    op("sendmsg_zc", (6, 1), SEND | ZERO_COPY | MAYBE_INDEXED),
    op("read_multishot", (6, 7), READS | UNSIZED),
    op("waitid", (6, 7), WAITS | NO_FILE | MAY_FORCE_WORKER),
    op("futex_wait", (6, 7), WAITS | NO_FILE),
    op("futex_wake", (6, 7), NO_FILE),
    op("futex_waitv", (6, 7), WAITS | NO_FILE),
    op("fixed_fd_install", (6, 8), 0),
    op("ftruncate", (6, 9), ALWAYS),
    op("bind", (6, 11), 0),
    op("listen", (6, 11), 0),
    op(RECV_ZC, (6, 15), RECV | UNSIZED),
    op("epoll_wait", (6, 15), WAITS | NO_FILE),
    op("readv_fixed", (6, 15), READ | VECTORED | INDEXED),
    op("writev_fixed", (6, 15), WRITE | VECTORED | INDEXED),
    op("pipe", (6, 16), NO_FILE),
    op("nop128", (6, 19), NO_FILE),
    op("uring_cmd128", (6, 19), PASSTHROUGH | STORES | POLLED | MAYBE_INDEXED),
];

const fn aio(name: &'static str, traits: u32) -> Opcode {
    op(name, (0, 0), traits)
}

/// `IOCB_CMD_…` of include/uapi/linux/aio_abi.h, by number.
pub const NATIVE_AIO: &[Opcode] = &[
    aio("pread", READS | SIZED),
    aio("pwrite", WRITES | SIZED),
    aio("fsync", SYNCS | STORES),
    aio("fdsync", SYNCS | STORES),
    aio("aio_op_4", 0),
    aio("poll", 0),
    aio("noop", 0),
    aio("preadv", READS | VECTORED),
    aio("pwritev", WRITES | VECTORED),
];

/// By the numbers in record.h.
pub const POSIX_AIO: &[Opcode] =
    &[aio("aio_read", READS | SIZED), aio("aio_write", WRITES | SIZED), aio("aio_fsync", SYNCS | STORES)];

fn traits(name: &str) -> Option<u32> {
    // io_uring is last, so that `fsync` means its operation.
    static TRAITS: LazyLock<HashMap<&str, u32>> =
        LazyLock::new(|| POSIX_AIO.iter().chain(NATIVE_AIO).chain(ALL).map(|o| (o.name, o.traits)).collect());
    TRAITS.get(name).copied()
}

/// Whether the operation of this name has one of these traits. A name outside the tables has none.
pub fn is(name: &str, any_of: u32) -> bool {
    traits(name).is_some_and(|traits| traits & any_of != 0)
}

/// Whether an operation has this name.
pub fn exists(name: &str) -> bool {
    traits(name).is_some()
}

/// io_uring does not take a file for it. Also true for a number without a name.
pub fn has_no_file(name: &str) -> bool {
    is(name, NO_FILE) || name.starts_with("op_") || matches!(name, "unknown" | "invalid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcode_numbers_match_the_kernel_header() {
        // include/uapi/linux/io_uring.h
        for (number, name) in [
            (5, "write_fixed"),
            (16, "connect"),
            (22, "read"),
            (46, "uring_cmd"),
            (57, "listen"),
            (62, "pipe"),
            (63, "nop128"),
            (64, "uring_cmd128"),
        ] {
            assert_eq!(ALL[number].name, name);
        }
        assert!(ALL.is_sorted_by_key(|o| o.since));
    }

    #[test]
    fn opcode_traits_are_found_by_name() {
        assert!(is("read_multishot", READS) && !is("read_multishot", POLLED | WRITES));
        assert!(is("fsync", WORKER), "io_uring's");
        assert!(!is("op_70", u32::MAX) && has_no_file("op_70") && !has_no_file("aio_op_4"));
    }
}
