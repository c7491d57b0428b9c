//! The status of a completed command: status code type and status code, with their names.

use std::fmt;

/// The status of a completion (NVM Express Base Specification, "Status Field"), in the kernel's format: the bits above
/// the phase tag, without *do not retry* and *more*.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Status(u16);

/// Negated results from here on are NVMe statuses; errnos are below 4096.
const BASE: i32 = 0x1_0000;

const CODE_AND_TYPE: u16 = 0x7ff;

impl Status {
    /// Parses the 15 bits above the phase tag. `None` on success.
    pub fn of_field(field: u16) -> Option<Self> {
        Some(Self(field & CODE_AND_TYPE)).filter(|s| s.0 != 0)
    }

    pub fn code_type(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub fn code(self) -> u8 {
        self.0 as u8
    }

    /// The status as an I/O result ([`Completion::result`](crate::engine::Completion::result)).
    pub fn result(self) -> i32 {
        -(BASE + i32::from(self.0))
    }

    /// The status of a negated result; `None` if the result is an errno.
    pub fn of_negated(result: i32) -> Option<Self> {
        let field = u16::try_from(result.checked_sub(BASE)?).ok()?;
        Self::of_field(field)
    }

    /// The specification's name; `None` for vendor-specific statuses, or those newer than this program.
    pub fn name(self) -> Option<&'static str> {
        let known = NAMES.iter().find(|(field, _)| *field == self.0);
        known.map(|(_, name)| *name)
    }
}

/// `Unrecovered Read Error (NVMe status 2/0x81)`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name().unwrap_or(if self.code_type() == 7 { "vendor's own" } else { "unknown" });
        write!(f, "{name} (NVMe status {}/{:#04x})", self.code_type(), self.code())
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Status codes of reads, writes and flushes, and of creating and deleting queues: Base Specification 2.0, NVM and Zoned Namespace
/// Command Sets.
#[rustfmt::skip]
const NAMES: &[(u16, &str)] = &[
    (0x001, "Invalid Command Opcode"),
    (0x002, "Invalid Field in Command"),
    (0x003, "Command ID Conflict"),
    (0x004, "Data Transfer Error"),
    (0x005, "Commands Aborted due to Power Loss Notification"),
    (0x006, "Internal Error"),
    (0x007, "Command Abort Requested"),
    (0x008, "Command Aborted due to SQ Deletion"),
    (0x00b, "Invalid Namespace or Format"),
    (0x00c, "Command Sequence Error"),
    (0x013, "PRP Offset Invalid"),
    (0x015, "Operation Denied"),
    (0x01d, "Sanitize In Progress"),
    (0x020, "Namespace is Write Protected"),
    (0x021, "Command Interrupted"),
    (0x022, "Transient Transport Error"),
    (0x080, "LBA Out of Range"),
    (0x081, "Capacity Exceeded"),
    (0x082, "Namespace Not Ready"),
    (0x083, "Reservation Conflict"),
    (0x084, "Format In Progress"),
    (0x100, "Completion Queue Invalid"),
    (0x101, "Invalid Queue Identifier"),
    (0x102, "Invalid Queue Size"),
    (0x10c, "Invalid Queue Deletion"),
    (0x180, "Conflicting Attributes"),
    (0x181, "Invalid Protection Information"),
    (0x182, "Attempted Write to Read Only Range"),
    (0x1b8, "Zone Boundary Error"),
    (0x1b9, "Zone Is Full"),
    (0x1ba, "Zone Is Read Only"),
    (0x1bb, "Zone Is Offline"),
    (0x1bc, "Zone Invalid Write"),
    (0x1bd, "Too Many Active Zones"),
    (0x1be, "Too Many Open Zones"),
    (0x280, "Write Fault"),
    (0x281, "Unrecovered Read Error"),
    (0x282, "End-to-end Guard Check Error"),
    (0x283, "End-to-end Application Tag Check Error"),
    (0x284, "End-to-end Reference Tag Check Error"),
    (0x286, "Access Denied"),
    (0x287, "Deallocated or Unwritten Logical Block"),
    (0x300, "Internal Path Error"),
    (0x301, "Asymmetric Access Persistent Loss"),
    (0x302, "Asymmetric Access Inaccessible"),
    (0x303, "Asymmetric Access Transition"),
    (0x360, "Controller Pathing Error"),
    (0x370, "Host Pathing Error"),
    (0x371, "Command Aborted By Host"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_nvme_status_is_encoded_outside_the_errno_range() {
        let unread = Status::of_field(0x4281).unwrap();
        assert_eq!((unread.code_type(), unread.code()), (2, 0x81));
        assert_eq!(unread.to_string(), "Unrecovered Read Error (NVMe status 2/0x81)");
        assert!(unread.result() < -4096);
        assert_eq!(Status::of_negated(-unread.result()), Some(unread));
        assert_eq!(Status::of_negated(libc::EIO), None);
        assert_eq!(Status::of_field(0x4000), None, "do not retry is no failure by itself");
    }

    #[test]
    fn an_unnamed_nvme_status_is_printed_with_its_code() {
        assert_eq!(Status::of_field(0x7c1).unwrap().to_string(), "vendor's own (NVMe status 7/0xc1)");
        assert_eq!(Status::of_field(0x0ff).unwrap().to_string(), "unknown (NVMe status 0/0xff)");
        assert!(NAMES.is_sorted_by_key(|(field, _)| *field));
    }
}
