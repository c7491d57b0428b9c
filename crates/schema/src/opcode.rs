//! What is known of operations by their names.

/// Reads, writes and sends that name a length of their own, and are to move it whole: a receive takes what is there.
pub fn asks_for_a_length(opcode: &str) -> bool {
    ["read", "write", "read_fixed", "write_fixed", "pread", "pwrite", "aio_read", "aio_write", "send", "send_zc"]
        .contains(&opcode)
}

/// Operations that the kernel hands to io-wq whatever they are asked to do; those that it does for some flags alone (openat, fadvise)
/// are none.
pub fn always_by_a_worker(opcode: &str) -> bool {
    const ALWAYS: [&str; 18] = [
        "fsync",
        "sync_file_range",
        "fallocate",
        "splice",
        "tee",
        "renameat",
        "unlinkat",
        "mkdirat",
        "symlinkat",
        "linkat",
        "fsetxattr",
        "setxattr",
        "fgetxattr",
        "getxattr",
        "statx",
        "madvise",
        "ftruncate",
        "shutdown",
    ];
    ALWAYS.contains(&opcode)
}

/// Operations whose result is a number of bytes.
pub fn counts_bytes(opcode: &str) -> bool {
    let verbs = ["read", "write", "send", "recv", "splice", "tee", "pread", "pwrite", "aio_read", "aio_write"];
    verbs.iter().any(|verb| opcode.starts_with(verb))
}

/// Operations whose preparation may set REQ_F_FORCE_ASYNC, as IOSQE_ASYNC does (io_uring/{sync,splice,fs,xattr,net,statx,truncate,
/// openclose}.c): of these it is not told whether the program asked for a worker.
pub fn may_force_a_worker(opcode: &str) -> bool {
    always_by_a_worker(opcode) || ["fadvise", "waitid", "openat", "openat2"].contains(&opcode)
}
