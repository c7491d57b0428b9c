//! NVMe passthrough: commands through a namespace's generic character device (`/dev/ng0n1`), without the
//! block layer's bios, schedulers and file systems (IORING_OP_URING_CMD, Linux 5.19; with registered buffers and IOPOLL 6.1).
//!
//! A drive completes a read or write either fully or not at all. The result is 0, a positive NVMe status, or a negated
//! errno from the kernel.

use std::fs::{self, File};
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use linux_raw_sys::io_uring as sys;

use super::entry::{Common, Entry};
use super::{Completions, Queue, open_for};
use crate::engine::capabilities::{self, Engine, Failure, Nop, RingUse, TargetKind};
use crate::engine::nvme::command::{self, Range};
use crate::engine::nvme::identify::{self, Namespace};
use crate::engine::nvme::status::Status;
use crate::engine::{Completion, Io, Op, Opened, Opening, Passage, Reaper, Wait, last_error};
use iotrail_base::error::Result;
use iotrail_host::io_uring;
use iotrail_host::refusal::{Circumstances, Refusal};

pub static ENGINE: Engine = Engine {
    name: "io_uring_cmd",
    help: Some("NVMe passthrough"),
    fio: &["io_uring_cmd"],
    target: TargetKind::Generic,
    ring: Some(RingUse { big_entries: true, iopoll_may_be_ignored: true }),
    nop: Nop::Refused,
    completions: capabilities::Completions::Ring,
    completes_in_queue: false,
    one_in_flight: None,
    sleeps: true,
    synchronous_if_buffered: None,
    here: |circumstances| here(circumstances, io_uring::ring(circumstances), &generic_devices()),
    remedy,
};

/// Device files of NVMe namespaces, named as in the kernel.
fn generic_devices() -> Vec<PathBuf> {
    let named = fs::read_dir("/sys/class/nvme-generic").into_iter().flatten().flatten();
    let mut devices: Vec<PathBuf> = named.map(|e| Path::new("/dev").join(e.file_name())).collect();
    devices.sort();
    devices
}

fn here(
    circumstances: &Circumstances,
    ring: std::result::Result<(), Refusal>,
    devices: &[PathBuf],
) -> std::result::Result<String, Refusal> {
    ring?;
    io_uring::big_entries(circumstances)?;
    let Some(first) = devices.first() else {
        return Err(Refusal {
            why: "no NVMe namespace has a generic device here".into(),
            restore: "an NVMe drive bound to the kernel driver (Linux 5.13 or later)".into(),
        });
    };
    let opened = devices.iter().find(|d| File::open(d).is_ok());
    let opened = opened
        .ok_or_else(|| Refusal { why: format!("cannot open {}", first.display()), restore: "run as root".into() })?;
    Ok(format!("NVMe passthrough: {}", opened.display()))
}

fn remedy(failure: &Failure) -> Option<&'static str> {
    match failure.errno {
        libc::EINVAL | libc::EOPNOTSUPP => Some(
            "use a smaller --bs (a command's limit is in queue/max_hw_sectors_kb); registered buffers and iopoll need Linux 6.1",
        ),
        libc::EACCES => Some("run as root: before Linux 6.2, only root may send passthrough commands"),
        _ => None,
    }
}

/// linux/nvme_ioctl.h: struct nvme_uring_cmd, and nvme_passthru_cmd, whose last word is the result.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// An entry of SQE128: the command starts 16 bytes before the end of a small entry.
#[repr(C)]
struct BigEntry {
    small: [u8; 48],
    command: Command,
    rest: [u8; 8],
}

const _: () = assert!(size_of::<Command>() == 72 && size_of::<BigEntry>() == 2 * size_of::<sys::io_uring_sqe>());

const fn ioctl(direction: u32, number: u32, bytes: usize) -> u32 {
    direction << 30 | (bytes as u32) << 16 | (b'N' as u32) << 8 | number
}

const READ_WRITE: u32 = 3;
const NVME_IOCTL_ID: u32 = ioctl(0, 0x40, 0);
const NVME_IOCTL_ADMIN_CMD: u32 = ioctl(READ_WRITE, 0x41, size_of::<Command>());
const NVME_URING_CMD_IO: u32 = ioctl(READ_WRITE, 0x80, size_of::<Command>());

/// The namespace of an open generic device. Fails if it is not one (ENOTTY), without permission (EACCES: before Linux
/// 6.2, only root has it), or if the drive rejects the command or reports an unsupported format (`Other`).
pub fn namespace(fd: RawFd) -> io::Result<Namespace> {
    // SAFETY: the request takes no argument and returns a number.
    let id = match unsafe { libc::ioctl(fd, NVME_IOCTL_ID.into()) } {
        id if id > 0 => id as u32,
        0 => return Err(io::Error::from_raw_os_error(libc::ENOTTY)),
        _ => return Err(last_error()),
    };
    let mut page = [0u8; identify::PAGE];
    let mut asked = Command {
        opcode: command::admin::IDENTIFY,
        nsid: id,
        address: page.as_mut_ptr() as u64,
        data_bytes: identify::PAGE as u32,
        cdw10: identify::NAMESPACE,
        ..Command::default()
    };
    // SAFETY: a live command of the request's size, whose address is a page that the kernel may write to.
    match unsafe { libc::ioctl(fd, NVME_IOCTL_ADMIN_CMD.into(), &raw mut asked) } {
        0 => Namespace::parse(id, &page).ok_or_else(|| io::Error::other("the drive reports no format for it")),
        failed if failed > 0 => Err(io::Error::other(match Status::of_field(failed as u16) {
            Some(status) => format!("the drive rejects the identify command: {status}"),
            None => format!("the drive rejects the identify command: {failed:#x}"),
        })),
        _ => Err(last_error()),
    }
}

/// Builds passthrough entries.
pub struct Passthrough {
    common: Common,
    namespace: Namespace,
}

impl Entry for Passthrough {
    #[inline]
    unsafe fn fill(&self, at: *mut sys::io_uring_sqe, io: &Io) {
        let Self { common, namespace } = self;
        let memory = &common.memory;
        // SAFETY: the caller owns the entry, which has the ring's size (SQE128); plain C structures, valid when zeroed.
        let (sqe, command) = unsafe {
            at.write_bytes(0, 2);
            (&mut *at, &raw mut (*at.cast::<BigEntry>()).command)
        };
        common.fill(sqe, io);
        let opcode = match io.op {
            Op::Nop => return,
            Op::Read => command::io::READ,
            Op::Write => command::io::WRITE,
        };
        sqe.opcode = sys::io_uring_op::IORING_OP_URING_CMD as u8;
        sqe.__bindgen_anon_1.__bindgen_anon_1.cmd_op = NVME_URING_CMD_IO;
        if common.fixed_buffers {
            sqe.__bindgen_anon_3.uring_cmd_flags = sys::IORING_URING_CMD_FIXED;
            // At most 16,384 buffers can be registered; otherwise `open` failed.
            sqe.__bindgen_anon_4.buf_index = io.slot as u16;
        }
        let Range { cdw10, cdw11, cdw12 } = Range::new(io.offset, memory.block_bytes, namespace.block_shift);
        let filled = Command {
            opcode,
            nsid: namespace.id,
            address: memory.address(io.slot) as u64,
            data_bytes: memory.block_bytes,
            cdw10,
            cdw11,
            cdw12,
            ..Command::default()
        };
        // SAFETY: as above. The command overlaps the end of the small entry, which passthrough uses for nothing else.
        unsafe { command.write_unaligned(filled) };
    }
}

/// The reaping half, which converts results.
pub struct Commands {
    completions: Completions,
    block_bytes: i32,
}

/// A load's ring on the generic device, with all requested registrations.
pub fn open(at: &Opening) -> Result<Opened<Queue<Passthrough>, Commands>> {
    let Some(&Passage::Generic(namespace)) = at.passage else { return Err(at.no_target()) };
    let (config, job) = (at.ring, &at.job);
    let opened = open_for(config, job, Passthrough { common: Common::new(config, job), namespace })?;
    let reaper = Commands { completions: opened.reaper, block_bytes: job.memory.block_bytes as i32 };
    Ok(Opened { submitter: opened.submitter, reaper, granted: opened.granted, sq_tid: opened.sq_tid })
}

/// Converts the result of a completion entry.
fn result(said: i32, block_bytes: i32) -> i32 {
    match said {
        0 => block_bytes,
        errno if errno < 0 => errno,
        field => Status::of_field(field as u16).map_or(-libc::EIO, Status::result),
    }
}

impl Reaper for Commands {
    fn start(&mut self) -> io::Result<()> {
        self.completions.start()
    }

    #[inline]
    fn poll(&mut self, min: u32, wait: Wait, deadline: Option<Instant>, out: &mut Vec<Completion>) -> io::Result<()> {
        let before = out.len();
        let polled = self.completions.poll(min, wait, deadline, out);
        for c in &mut out[before..] {
            c.result = result(c.result, self.block_bytes);
        }
        polled
    }

    #[inline]
    fn clear(&mut self) {
        self.completions.clear();
    }

    fn syscalls(&self) -> Option<u64> {
        self.completions.syscalls()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use crate::engine::{Job, Memory};

    fn entry(fixed: bool, io: &Io) -> (sys::io_uring_sqe, Command) {
        let memory = Memory { base: std::ptr::NonNull::dangling(), stride: 4096, block_bytes: 4096, slots: 8 };
        let config = Config { register_buffers: fixed, ..Config::default() };
        let common = Common::new(&config, &Job { memory, fd: Some(5), batch: 1, commit: crate::options::Commit::None });
        let namespace = Namespace { id: 3, blocks: 1 << 40, block_shift: 9, metadata_bytes: 0 };
        let mut place = [u64::MAX; 16];
        let at: *mut sys::io_uring_sqe = place.as_mut_ptr().cast();
        // SAFETY: 128 owned bytes, aligned to 8.
        unsafe {
            Passthrough { common, namespace }.fill(at, io);
            (at.read(), (*at.cast::<BigEntry>()).command)
        }
    }

    #[test]
    fn ioctl_numbers_match_the_kernel_headers() {
        assert_eq!((NVME_IOCTL_ID, NVME_IOCTL_ADMIN_CMD, NVME_URING_CMD_IO), (0x4e40, 0xc048_4e41, 0xc048_4e80));
    }

    #[test]
    fn an_sqe_contains_the_nvme_command() {
        let (sqe, command) = entry(false, &Io { op: Op::Write, slot: 2, offset: 1 << 42 });
        // SAFETY: the fields that passthrough uses of these unions.
        let (op, flags) =
            unsafe { (sqe.__bindgen_anon_1.__bindgen_anon_1.cmd_op, sqe.__bindgen_anon_3.uring_cmd_flags) };
        assert_eq!((sqe.opcode, sqe.fd, sqe.user_data, op, flags), (46, 5, 2, NVME_URING_CMD_IO, 0));
        assert_eq!((command.opcode, command.nsid, command.data_bytes), (1, 3, 4096));
        assert_eq!((command.cdw10, command.cdw11, command.cdw12), (0, 2, 7));
        assert_eq!(command.address % 4096, std::ptr::NonNull::<u8>::dangling().as_ptr() as u64);
        assert_eq!((command.metadata, command.timeout_ms, command.result), (0, 0, 0));
    }

    #[test]
    fn a_registered_buffer_is_identified_by_its_slot() {
        let (sqe, command) = entry(true, &Io { op: Op::Read, slot: 7, offset: 0 });
        // SAFETY: as above.
        let (flags, index) = unsafe { (sqe.__bindgen_anon_3.uring_cmd_flags, sqe.__bindgen_anon_4.buf_index) };
        assert_eq!((flags, index, command.opcode), (1, 7, 2));
    }

    #[test]
    fn passthrough_requires_a_ring_with_big_entries_and_a_device() {
        let circumstances = Circumstances::read();
        let says = |ring, devices: &[PathBuf]| here(&circumstances, ring, devices).map_err(|r| r.why);
        assert_eq!(says(Err(Refusal { why: "w".into(), restore: "r".into() }), &["/dev/null".into()]), Err("w".into()));
        assert_eq!(says(Ok(()), &[]), Err("no NVMe namespace has a generic device here".into()));
        let devices = ["/no/such".into(), "/dev/null".into()];
        assert_eq!(says(Ok(()), &devices), Ok("NVMe passthrough: /dev/null".into()));
        let refusal = here(&circumstances, Ok(()), &["/no/such".into()]).unwrap_err();
        assert_eq!((refusal.why.as_str(), refusal.restore.as_str()), ("cannot open /no/such", "run as root"));
    }

    #[test]
    fn a_passthrough_result_is_a_byte_count_a_status_or_an_errno() {
        assert_eq!(result(0, 4096), 4096);
        assert_eq!(result(-libc::EINTR, 4096), -libc::EINTR);
        let status = Status::of_negated(-result(0x4281, 4096)).unwrap();
        assert_eq!(status.name(), Some("Unrecovered Read Error"));
    }
}
