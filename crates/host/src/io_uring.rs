//! Tests which io_uring features this process can use on this kernel: setup flags, opcodes, registrations.
//!
//! Nothing is submitted, and every ring is closed immediately.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use linux_raw_sys::io_uring as sys;
use rustix::mm::MapFlags;

use super::kernel::Version;
use super::refusal::{self, Circumstances, Refusal};
use iotrail_base::mapping::Mapping;
use iotrail_schema::opcode;
use iotrail_schema::setup_flag::{self, SetupFlag};
use iotrail_schema::uring::{self, Name};

/// A setup flag and the kernel's response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    pub name: &'static str,
    /// Its purpose.
    pub purpose: &'static str,
    pub answer: Result<(), Refusal>,
}

/// A registration and the kernel's response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    pub name: &'static str,
    pub purpose: &'static str,
    pub answer: Result<(), Refusal>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opcode {
    pub name: &'static str,
    pub answer: Result<(), Refusal>,
}

/// Opcodes that iotrail knows by name, and the number of other opcodes that the kernel supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opcodes {
    pub known: Vec<Opcode>,
    pub unnamed: usize,
}

/// Flags that require more than their bit: a ring with shared workers, program memory, a CPU.
const NOT_TRIED: [&str; 4] = ["sq_aff", "attach_wq", "no_mmap", "registered_fd_only"];

fn tried() -> impl Iterator<Item = &'static SetupFlag> {
    setup_flag::ALL.iter().filter(|f| !NOT_TRIED.contains(&f.name))
}

/// Creates a ring without any flag.
pub fn ring(circumstances: &Circumstances) -> Result<(), Refusal> {
    setup(0).map(drop).map_err(|e| circumstances.ring(errno(&e)))
}

/// Names of the setup flags that [`flags`] tests, in its order.
pub fn flag_names() -> impl Iterator<Item = &'static str> {
    tried().map(|f| f.name)
}

/// Tests each setup flag together with the flags that it requires. Only meaningful if [`ring`] succeeds.
pub fn flags(circumstances: &Circumstances) -> Vec<Flag> {
    let since = |f: &SetupFlag| (f.since.0, f.since.1, 0);
    let ask = |f: &'static SetupFlag| Flag {
        name: f.name,
        purpose: f.purpose,
        answer: setup_again(f.bit | f.with).map(drop).map_err(|e| circumstances.flag(errno(&e), since(f))),
    };
    tried().map(ask).collect()
}

/// Creates a ring with SQEs and CQEs of twice the size, as required for device passthrough.
pub fn big_entries(circumstances: &Circumstances) -> Result<(), Refusal> {
    let flags = sys::IORING_SETUP_SQE128 | sys::IORING_SETUP_CQE32;
    setup_again(flags).map(drop).map_err(|e| circumstances.flag(errno(&e), (5, 19, 0)))
}

/// All opcodes, from IORING_REGISTER_PROBE (5.6).
pub fn opcodes(circumstances: &Circumstances) -> Result<Opcodes, Refusal> {
    let ring = setup_again(0).map_err(|e| circumstances.ring(errno(&e)))?;
    let supported = probe(&ring).map_err(|e| circumstances.register(errno(&e), (5, 6, 0)))?;
    Ok(named(&supported))
}

/// `supported`: indexed by opcode number.
fn named(supported: &[bool]) -> Opcodes {
    let known = opcode::ALL.iter().enumerate().map(|(number, o)| Opcode {
        name: o.name,
        answer: match supported.get(number) {
            Some(true) => Ok(()),
            // Known but rejected: disabled in the kernel configuration (network, epoll, futexes).
            Some(false) => Err(Refusal::new(
                "this kernel was built without it",
                format!("{}, built with the subsystem it belongs to", refusal::or_later((o.since.0, o.since.1, 0))),
            )),
            None => Err(Refusal::new("not supported by this kernel", refusal::or_later((o.since.0, o.since.1, 0)))),
        },
    });
    Opcodes { known: known.collect(), unnamed: supported.iter().skip(opcode::ALL.len()).filter(|&&s| s).count() }
}

/// Tests registration of files, buffers and the ring's own descriptor.
pub fn registrations(circumstances: &Circumstances) -> Vec<Registration> {
    let on_a_ring = |since: Version, register: fn(&OwnedFd) -> io::Result<()>| {
        let ring = setup_again(0).map_err(|e| circumstances.ring(errno(&e)))?;
        register(&ring).map_err(|e| circumstances.register(errno(&e), since))
    };
    vec![
        Registration {
            name: "files",
            purpose: "requests without file look-ups",
            answer: on_a_ring((5, 1, 0), register_file),
        },
        Registration {
            name: "buffers",
            purpose: "requests without pinning pages",
            answer: on_a_ring((5, 1, 0), register_buffer),
        },
        Registration {
            name: "ring",
            purpose: "system calls without ring look-ups",
            answer: on_a_ring((5, 18, 0), register_ring),
        },
    ]
}

/// A category of names, and the kernel's response for each name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    pub name: &'static str,
    /// Whether this is a flags word, which may have bits without a name.
    pub is_flags: bool,
    pub known: Vec<(Name, Result<(), Refusal>)>,
    /// Numbers or bits that the kernel has but the table lacks.
    pub unnamed: Vec<u32>,
}

impl Kind {
    fn of(name: &'static str, table: &[Name], is_flags: bool, bits: u64) -> Self {
        let answer = |number: usize, n: &Name| match bits >> number & 1 {
            1 => Ok(()),
            _ => Err(Refusal::new("not supported by this kernel", refusal::or_later((n.since.0, n.since.1, 0)))),
        };
        let known = table.iter().enumerate().map(|(number, n)| (*n, answer(number, n))).collect();
        let rest = uring::unnamed(table, bits);
        Self { name, is_flags, known, unnamed: (0..u64::BITS).filter(|bit| rest >> bit & 1 == 1).collect() }
    }
}

/// Category of the names that [`flags`] tests.
pub const SETUP_FLAGS: &str = "setup flags reported";

/// Names that the kernel reports through IORING_REGISTER_QUERY (6.18), which requires no ring.
pub fn kinds(circumstances: &Circumstances) -> Result<Vec<Kind>, Refusal> {
    let q = query().map_err(|e| circumstances.register(errno(&e), (6, 18, 0)))?;
    let below = |n: u32| 1u64.checked_shl(n).map_or(u64::MAX, |bit| bit - 1);
    let setup: Vec<Name> = setup_flag::by_bit();
    Ok(vec![
        Kind::of("register operations", uring::REGISTER_OPS, false, below(q.nr_register_opcodes)),
        Kind::of("enter flags", uring::ENTER_FLAGS, true, q.enter_flags),
        Kind::of("entry flags", uring::SQE_FLAGS, true, q.sqe_flags),
        Kind::of("features", uring::FEATURES, true, q.feature_flags),
        Kind::of(SETUP_FLAGS, &setup, true, q.ring_setup_flags),
    ])
}

/// `struct io_uring_query_opcode` in include/uapi/linux/io_uring/query.h, as of 6.18.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct QueryOpcode {
    nr_request_opcodes: u32,
    nr_register_opcodes: u32,
    feature_flags: u64,
    ring_setup_flags: u64,
    enter_flags: u64,
    sqe_flags: u64,
}

fn query() -> io::Result<QueryOpcode> {
    /// `struct io_uring_query_hdr`.
    #[repr(C)]
    struct Header {
        next_entry: u64,
        query_data: u64,
        query_op: u32,
        size: u32,
        result: i32,
        reserved: [u32; 3],
    }
    const REGISTER_QUERY: u32 = 35;
    const OPCODES: u32 = 0;
    let mut answer = QueryOpcode::default();
    let mut header = Header {
        next_entry: 0,
        query_data: (&raw mut answer) as u64,
        query_op: OPCODES,
        size: size_of::<QueryOpcode>() as u32,
        result: 0,
        reserved: [0; 3],
    };
    let arg: *mut Header = &raw mut header;
    // SAFETY: the header and the buffer that it refers to are live; the kernel writes at most `size` bytes, and only
    // during the call.
    let rc = unsafe { libc::syscall(libc::SYS_io_uring_register, -1, REGISTER_QUERY, arg, 0) };
    match (rc, header.result) {
        (0, 0) => Ok(answer),
        (0, error) => Err(io::Error::from_raw_os_error(-error)),
        _ => Err(io::Error::last_os_error()),
    }
}

fn errno(e: &io::Error) -> i32 {
    // All errors here are those of the last system call.
    e.raw_os_error().unwrap_or(libc::EIO)
}

/// Whether IORING_ENTER_NO_IOWAIT is available (IORING_FEAT_NO_IOWAIT); `None` if this process may not create rings.
pub fn has_no_iowait() -> Option<bool> {
    let (_ring, params) = again(|| setup_params(0)).ok()?;
    Some(params.features & sys::IORING_FEAT_NO_IOWAIT != 0)
}

fn setup(flags: u32) -> io::Result<OwnedFd> {
    setup_params(flags).map(|(ring, _)| ring)
}

fn setup_params(flags: u32) -> io::Result<(OwnedFd, sys::io_uring_params)> {
    // SAFETY: io_uring_params contains only integers; all zeros is the documented default.
    let mut params: sys::io_uring_params = unsafe { std::mem::zeroed() };
    params.flags = flags;
    if flags & sys::IORING_SETUP_CQSIZE != 0 {
        params.cq_entries = 16;
    }
    // SAFETY: the structure is live and writable; the kernel accesses it only during the call.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 8, &raw mut params) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor; nothing else owns it.
    Ok((unsafe { OwnedFd::from_raw_fd(fd as i32) }, params))
}

/// [`setup`] after other rings were created.
fn setup_again(flags: u32) -> io::Result<OwnedFd> {
    again(|| setup(flags))
}

/// The kernel releases the locked memory of a closed ring with a delay. Until then the rings created here may seem to
/// exhaust the limit, so ENOMEM within half a second is ignored.
fn again<T>(ask: impl Fn() -> io::Result<T>) -> io::Result<T> {
    const TRIES: u32 = 50;
    for _ in 0..TRIES {
        match ask() {
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) => std::thread::sleep(Duration::from_millis(10)),
            answer => return answer,
        }
    }
    ask()
}

/// # Safety
/// `arg` is of the type that `opcode` expects, with `count` elements, valid for the call and as long as the kernel keeps it.
unsafe fn register(ring: &OwnedFd, opcode: u32, arg: *mut libc::c_void, count: u32) -> io::Result<i64> {
    // SAFETY: the descriptor is an open ring; the rest is the caller's promise.
    let rc = unsafe { libc::syscall(libc::SYS_io_uring_register, ring.as_raw_fd(), opcode, arg, count) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

/// Whether each opcode is supported, by number, up to the kernel's last opcode.
fn probe(ring: &OwnedFd) -> io::Result<Vec<bool>> {
    const MOST: usize = 256;
    // struct io_uring_probe with its flexible array member.
    #[repr(C)]
    struct Probe {
        last_op: u8,
        ops_len: u8,
        reserved: [u16; 7],
        ops: [sys::io_uring_probe_op; MOST],
    }
    // SAFETY: integers only; the kernel requires all zeros.
    let mut probe: Probe = unsafe { std::mem::zeroed() };
    // SAFETY: the buffer has MOST entries after its 16-byte header; the kernel writes no more, and only during the
    // call.
    unsafe {
        register(ring, sys::io_uring_register_op::IORING_REGISTER_PROBE as u32, (&raw mut probe).cast(), MOST as u32)?
    };
    let known = usize::from(probe.last_op) + 1;
    Ok(probe.ops[..known].iter().map(|op| u32::from(op.flags) & sys::IO_URING_OP_SUPPORTED != 0).collect())
}

fn register_file(ring: &OwnedFd) -> io::Result<()> {
    let file = std::fs::File::open("/dev/null")?;
    let mut fds = [file.as_raw_fd()];
    // SAFETY: one descriptor, read during the call. The ring keeps its own file reference until it is closed.
    unsafe { register(ring, sys::io_uring_register_op::IORING_REGISTER_FILES as u32, fds.as_mut_ptr().cast(), 1)? };
    Ok(())
}

fn register_buffer(ring: &OwnedFd) -> io::Result<()> {
    // A separate mapping, because the kernel charges a buffer's full folio, and the heap may be in a huge one.
    const LENGTH: usize = 4096;
    let page = Mapping::anonymous(LENGTH, MapFlags::PRIVATE)?;
    let mut one = libc::iovec { iov_base: page.base().as_ptr().cast(), iov_len: LENGTH };
    let arg: *mut libc::c_void = (&raw mut one).cast();
    // SAFETY: one iovec for the mapping, read during the call. The kernel keeps its own references to the pages until
    // the ring is closed; no request uses them.
    again(|| unsafe { register(ring, sys::io_uring_register_op::IORING_REGISTER_BUFFERS as u32, arg, 1) }).map(drop)
}

fn register_ring(ring: &OwnedFd) -> io::Result<()> {
    // SAFETY: integers only; all zeros is valid.
    let mut update: sys::io_uring_rsrc_update = unsafe { std::mem::zeroed() };
    update.offset = u32::MAX; // The kernel chooses the slot and writes it here.
    update.data = ring.as_raw_fd() as u64;
    let arg: *mut libc::c_void = (&raw mut update).cast();
    // SAFETY: one update, read and written during the call.
    unsafe { register(ring, sys::io_uring_register_op::IORING_REGISTER_RING_FDS as u32, arg, 1)? };
    // A release identifies the slot only by its offset.
    update.data = 0;
    // SAFETY: as above. The slot belongs to this thread and was never used.
    unsafe {
        register(ring, sys::io_uring_register_op::IORING_UNREGISTER_RING_FDS as u32, (&raw mut update).cast(), 1)?
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_and_unnamed_opcodes_are_reported() {
        let mut supported = vec![true; opcode::ALL.len()];
        supported[13] = false;
        supported.extend([true, false, true]);
        let got = named(&supported);
        assert_eq!(got.unnamed, 2);
        let accept = got.known[13].answer.as_ref().unwrap_err();
        assert!(got.known[13].name == "accept" && accept.why.contains("built without"));
        assert_eq!(got.known.iter().filter(|o| o.answer.is_ok()).count(), opcode::ALL.len() - 1);
        let old = named(&[true; 8]);
        assert_eq!(old.known[8].answer.as_ref().unwrap_err().restore, "Linux 5.2 or later");
    }

    #[test]
    fn missing_flags_are_named_and_unnamed_flags_numbered() {
        let kind = Kind::of("enter flags", uring::ENTER_FLAGS, true, 0x7f | 1 << 8 | 1 << 63);
        assert_eq!(kind.unnamed, [8, 63]);
        let missing: Vec<_> =
            kind.known.iter().filter_map(|(n, answer)| Some((n.name, answer.as_ref().err()?))).collect();
        assert_eq!(missing.len(), 1);
        assert_eq!((missing[0].0, missing[0].1.restore.as_str()), ("no_iowait", "Linux 6.15 or later"));
    }
}
