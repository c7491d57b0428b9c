//! Operations by their numbers in record.h.

/// The name of an operation; numbers that this version does not know keep their number.
pub fn opcode(number: u32) -> String {
    // include/uapi/linux/aio_abi.h: IOCB_CMD_…
    const NATIVE_AIO: [&str; 9] =
        ["pread", "pwrite", "fsync", "fdsync", "aio_op_4", "poll", "noop", "preadv", "pwritev"];
    const POSIX_AIO: [&str; 3] = ["aio_read", "aio_write", "aio_fsync"];
    let name = |names: &[&str], from| names.get((number - from) as usize).map(|name| (*name).to_owned());
    match number {
        OPCODE_NONE => "unknown".into(),
        INVALID_OPCODE => "invalid".into(),
        POSIX_AIO_OPCODES.. => name(&POSIX_AIO, POSIX_AIO_OPCODES).unwrap_or_else(|| format!("op_{number}")),
        NATIVE_AIO_OPCODES.. => {
            name(&NATIVE_AIO, NATIVE_AIO_OPCODES).unwrap_or_else(|| format!("aio_op_{}", number - NATIVE_AIO_OPCODES))
        }
        n => iotrail_host::io_uring::opcode_name(n).map_or_else(|| format!("op_{n}"), str::to_owned),
    }
}

/// `OPCODE_NONE`, `OPCODE_INVALID`, `OPCODES_AIO` and `OPCODES_POSIX_AIO` of record.h.
pub const OPCODE_NONE: u32 = 127;
pub const INVALID_OPCODE: u32 = 126;
const NATIVE_AIO_OPCODES: u32 = 96;
pub const POSIX_AIO_OPCODES: u32 = 112;
