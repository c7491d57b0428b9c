//! Names of the operation numbers in record.h.

use iotrail_schema::opcode::{ALL, NATIVE_AIO, Opcode, POSIX_AIO};

/// Name of an operation; an unknown one is its number.
pub fn opcode(number: u32) -> String {
    let name = |table: &[Opcode], position: u32, prefix: &str, n: u32| {
        table.get(position as usize).map_or_else(|| format!("{prefix}{n}"), |o| o.name.to_owned())
    };
    match number {
        OPCODE_NONE => "unknown".into(),
        INVALID_OPCODE => "invalid".into(),
        POSIX_AIO_OPCODES.. => name(POSIX_AIO, number - POSIX_AIO_OPCODES, "op_", number),
        NATIVE_AIO_OPCODES.. => name(NATIVE_AIO, number - NATIVE_AIO_OPCODES, "aio_op_", number - NATIVE_AIO_OPCODES),
        _ => name(ALL, number, "op_", number),
    }
}

/// `OPCODE_NONE`, `OPCODE_INVALID`, `OPCODES_AIO` and `OPCODES_POSIX_AIO` in record.h.
pub const OPCODE_NONE: u32 = 127;
pub const INVALID_OPCODE: u32 = 126;
const NATIVE_AIO_OPCODES: u32 = 96;
pub const POSIX_AIO_OPCODES: u32 = 112;
