//! Native AIO, using raw system calls.
//!
//! When blocking, completions come from `io_getevents`. When peeking, they are read without a system call from the
//! completion ring that the kernel maps into the process, provided that the ring has the expected magic number.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::capabilities::{Completions, Engine, Nop, TargetKind, no_other_remedy};
use super::{Completion, Io, Memory, Op, Opened, Opening, Queued, Reaper, Submitter, Wait, last_error, time_left};
use iotrail_base::error::{Error, Result};
use iotrail_host::aio;

pub static ENGINE: Engine = Engine {
    name: "libaio",
    help: None,
    fio: &["libaio"],
    target: TargetKind::File,
    ring: None,
    nop: Nop::Refused,
    completions: Completions::Aio,
    completes_in_queue: false,
    one_in_flight: None,
    sleeps: true,
    synchronous_if_buffered: Some((
        "libaio_buffered",
        "native aio through the page cache is synchronous: io_submit itself waits for the data",
    )),
    here: |circumstances| aio::native(circumstances).map(|()| "native aio: a context can be created".into()),
    remedy: no_other_remedy,
};

/// linux/aio_abi.h: struct iocb (little-endian field order).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Iocb {
    pub data: u64,
    pub key: u32,
    pub rw_flags: i32,
    pub opcode: u16,
    pub reqprio: i16,
    pub fd: u32,
    pub buf: u64,
    pub nbytes: u64,
    pub offset: i64,
    pub reserved2: u64,
    pub flags: u32,
    pub resfd: u32,
}

/// linux/aio_abi.h: struct io_event.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Event {
    pub data: u64,
    pub obj: u64,
    pub res: i64,
    pub res2: i64,
}

/// fs/aio.c: struct aio_ring, the header of the mapped completion ring.
#[repr(C)]
struct RingHead {
    id: u32,
    nr: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compat_features: u32,
    incompat_features: u32,
    header_length: u32,
}

const _: () = assert!(size_of::<Iocb>() == 64 && size_of::<Event>() == 32 && size_of::<RingHead>() == 32);

const RING_MAGIC: u32 = 0xa10a_10a1;
const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;

/// A context, destroyed (after waiting for requests in flight) when both halves are dropped.
///
/// Its value is the address of the completion ring, which io_destroy unmaps.
struct Context(u64);

impl Context {
    fn ring(&self) -> *const RingHead {
        self.0 as *const RingHead
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: an owned context that is no longer in use.
        let done = unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
        debug_assert_eq!(done, 0);
    }
}

/// Sets up a context for as many I/Os as there are slots.
pub fn open(at: &Opening) -> Result<Opened<Submit, Reap>> {
    let (fd, memory) = (at.target()?, at.job.memory);
    let slots = memory.slots;
    let mut id = 0u64;
    // SAFETY: the kernel writes a context ID, which must be 0 before.
    if unsafe { libc::syscall(libc::SYS_io_setup, slots, &mut id) } != 0 {
        return Err(refused(slots, last_error()));
    }
    let context = Arc::new(Context(id));
    // SAFETY: the context's value is the address of its ring, which is mapped and readable while the context exists.
    let magic = unsafe { (*context.ring()).magic };
    if magic != RING_MAGIC {
        return Err(Error::machine(
            format!("this kernel's native-aio ring has an unknown layout ({magic:#x})"),
            "use --engine io_uring",
        ));
    }
    let submit = Submit {
        context: Arc::clone(&context),
        fd,
        memory,
        blocks: vec![Iocb::default(); slots as usize],
        queued: Vec::with_capacity(slots as usize),
        syscalls: 0,
    };
    let reap = Reap { context, events: vec![Event::default(); slots as usize], syscalls: 0 };
    Ok(Opened::ringless(submit, reap))
}

fn refused(slots: u32, cause: io::Error) -> Error {
    let what = format!("cannot set up native aio for {slots} I/Os in flight");
    match cause.raw_os_error() {
        Some(libc::EAGAIN) => Error::machine(
            format!("{what}: over the system-wide limit"),
            "as root: sysctl fs.aio-max-nr=1048576, or use a smaller --depth",
        ),
        Some(libc::ENOSYS) => Error::machine(format!("{what}: not supported by this kernel"), "use --engine io_uring"),
        _ => Error::machine(what, "use a smaller --depth, or --engine io_uring").because(cause),
    }
}

/// The submitting half.
pub struct Submit {
    context: Arc<Context>,
    fd: RawFd,
    memory: Memory,
    /// One iocb per slot; the kernel copies it on submission.
    blocks: Vec<Iocb>,
    /// Addresses of the queued iocbs, in order. Never more than there are slots, so the vector is never reallocated.
    queued: Vec<*const Iocb>,
    syscalls: u64,
}

// SAFETY: the addresses point into the heap allocation of `blocks`, which stays in place when the value moves.
unsafe impl Send for Submit {}

impl Submitter for Submit {
    fn queue(&mut self, io: &Io) -> Queued {
        let opcode = match io.op {
            Op::Read => IOCB_CMD_PREAD,
            Op::Write => IOCB_CMD_PWRITE,
            Op::Nop => return Queued::Completed(-libc::EOPNOTSUPP),
        };
        let block = &mut self.blocks[io.slot as usize];
        *block = Iocb {
            data: u64::from(io.slot),
            opcode,
            fd: self.fd as u32,
            buf: self.memory.address(io.slot) as u64,
            nbytes: u64::from(self.memory.block_bytes),
            offset: io.offset as i64,
            ..Iocb::default()
        };
        self.queued.push(std::ptr::from_ref(block));
        Queued::Queued
    }

    fn submit(&mut self) -> io::Result<()> {
        while !self.queued.is_empty() {
            self.syscalls += 1;
            // SAFETY: `queued` contains addresses of live iocbs, whose buffers the load keeps.
            let taken =
                unsafe { libc::syscall(libc::SYS_io_submit, self.context.0, self.queued.len(), self.queued.as_ptr()) };
            match taken {
                n if n > 0 => {
                    self.queued.drain(..n as usize);
                }
                0 => break,
                _ => match last_error() {
                    e if e.raw_os_error() == Some(libc::EINTR) => {}
                    e if e.raw_os_error() == Some(libc::EAGAIN) => break, // reap first
                    e => return Err(e),
                },
            }
        }
        Ok(())
    }

    fn pending(&self) -> u32 {
        self.queued.len() as u32
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }
}

/// The reaping half.
pub struct Reap {
    context: Arc<Context>,
    events: Vec<Event>,
    syscalls: u64,
}

impl Reap {
    /// Reads the events in the mapped ring, and advances its head.
    fn look(&self, out: &mut Vec<Completion>) -> u32 {
        // SAFETY: mapped while the context exists. The kernel writes `tail` and the events before it; this process
        // writes `head`.
        let ring = unsafe { &*self.context.ring() };
        let mut head = ring.head.load(Ordering::Relaxed);
        // Acquire: the events up to the tail have been written.
        let tail = ring.tail.load(Ordering::Acquire);
        // SAFETY: the events follow the header within the mapping.
        let events = unsafe { self.context.ring().cast::<u8>().add(ring.header_length as usize).cast::<Event>() };
        let mut count = 0;
        while head != tail && out.len() < out.capacity() {
            // SAFETY: head is below `nr`, the number of events in the ring, and the event has been written.
            let e = unsafe { events.add(head as usize).read() };
            out.push(Completion { slot: e.data as u32, result: e.res as i32 });
            head = if head + 1 >= ring.nr { 0 } else { head + 1 };
            count += 1;
        }
        if count > 0 {
            // Release: the events are read before the kernel may overwrite them.
            ring.head.store(head, Ordering::Release);
        }
        count
    }

    fn get_events(&mut self, min: u32, deadline: Option<Instant>, out: &mut Vec<Completion>) -> io::Result<()> {
        let room = (out.capacity() - out.len()).min(self.events.len());
        let timeout = deadline.map(time_left);
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        self.syscalls += 1;
        // SAFETY: memory for `room` events, and a null or live timeout.
        let count = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context.0,
                i64::from(min),
                room,
                self.events.as_mut_ptr(),
                timeout,
            )
        };
        if count < 0 {
            return match last_error() {
                e if e.raw_os_error() == Some(libc::EINTR) => Ok(()),
                e => Err(e),
            };
        }
        let found = &self.events[..count as usize];
        out.extend(found.iter().map(|e| Completion { slot: e.data as u32, result: e.res as i32 }));
        Ok(())
    }
}

impl Reaper for Reap {
    fn poll(&mut self, min: u32, wait: Wait, deadline: Option<Instant>, out: &mut Vec<Completion>) -> io::Result<()> {
        match wait {
            // Polling would cost a system call that a blocking application does not make.
            Wait::Block if min == 0 => Ok(()),
            Wait::Block => self.get_events(min, deadline, out),
            Wait::Peek => {
                let (mut found, mut looks) = (self.look(out), 0u32);
                while found < min {
                    std::hint::spin_loop();
                    found += self.look(out);
                    looks = looks.wrapping_add(1);
                    if looks.is_multiple_of(8) && deadline.is_some_and(|d| Instant::now() >= d) {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }
}
