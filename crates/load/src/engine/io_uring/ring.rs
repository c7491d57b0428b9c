//! A ring: its descriptor, its two mappings and the three system calls, using the kernel's structures.
//!
//! No library is used, so that the setup flags are exactly the requested ones.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use linux_raw_sys::io_uring as sys;
use rustix::mm::MapFlags;

use crate::engine::last_error;
use iotrail_base::mapping::Mapping;

/// Features that the engine requires: a single mapping for both queues (5.4), completions kept on overflow (5.5), wait
/// timeouts (5.11).
pub(crate) const FEATURES: u32 = sys::IORING_FEAT_SINGLE_MMAP | sys::IORING_FEAT_NODROP | sys::IORING_FEAT_EXT_ARG;

const PAGE: usize = 4096;

/// A ring shared by its two halves (`Arc`); unmapped and closed when the last one is dropped.
///
/// The kernel also writes to the mapped memory: the submission head, the flags, the completion tail and the completion
/// entries. This process writes the submission tail, the submission entries from head to tail, and the completion head.
pub struct Ring {
    fd: OwnedFd,
    queues: Mapping,
    entries: Mapping,
    /// Holds wait arguments, if registered for that ([`Ring::register_waits`]).
    waits: Option<Mapping>,
    /// log2 of the submission entry size relative to the normal size: 0 or 1.
    sqe_shift: u32,
    cqe_shift: u32,
    pub params: sys::io_uring_params,
}

// SAFETY: the raw pointers refer to mappings that live as long as the ring. The submitting half writes the submission
// tail and entries, the reaping half writes the completion head, and everything else is only read. Each half runs on a
// single thread.
unsafe impl Send for Ring {}
// SAFETY: as above; shared fields are accessed as atomics only.
unsafe impl Sync for Ring {}

impl Ring {
    /// io_uring_setup(2) and the two mappings. `params`: the requested flags; contains the kernel's answer afterwards.
    pub fn open(sq_entries: u32, mut params: sys::io_uring_params) -> io::Result<Self> {
        let fd = setup(sq_entries, &mut params)?;
        if params.features & FEATURES != FEATURES {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        let array = if params.flags & sys::IORING_SETUP_NO_SQARRAY == 0 { params.sq_entries as usize } else { 0 };
        let sq = params.sq_off.array as usize + array * size_of::<u32>();
        let (sqe_shift, cqe_shift) = shifts(&params);
        let cq =
            params.cq_off.cqes as usize + (params.cq_entries as usize) * (size_of::<sys::io_uring_cqe>() << cqe_shift);
        let queues = Mapping::of_ring(&fd, sys::IORING_OFF_SQ_RING.into(), sq.max(cq))?;
        let bytes = params.sq_entries as usize * (size_of::<sys::io_uring_sqe>() << sqe_shift);
        let entries = Mapping::of_ring(&fd, sys::IORING_OFF_SQES.into(), bytes)?;
        let ring = Self { fd, queues, entries, waits: None, sqe_shift, cqe_shift, params };
        // Queue entry i always refers to submission entry i, as without the array.
        for i in 0..array as u32 {
            ring.shared(ring.params.sq_off.array + i * 4).store(i, Ordering::Relaxed);
        }
        Ok(ring)
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    fn shared(&self, offset: u32) -> &AtomicU32 {
        debug_assert!(offset as usize + 4 <= self.queues.bytes() && offset.is_multiple_of(4));
        // SAFETY: the kernel's offsets are within the mapping and 4-byte aligned, and the memory is only accessed
        // atomically. The mapping lives as long as `self`.
        unsafe { &*self.queues.base().as_ptr().add(offset as usize).cast::<AtomicU32>() }
    }

    pub fn sq_head(&self) -> &AtomicU32 {
        self.shared(self.params.sq_off.head)
    }

    pub fn sq_tail(&self) -> &AtomicU32 {
        self.shared(self.params.sq_off.tail)
    }

    pub fn sq_flags(&self) -> &AtomicU32 {
        self.shared(self.params.sq_off.flags)
    }

    pub fn cq_head(&self) -> &AtomicU32 {
        self.shared(self.params.cq_off.head)
    }

    pub fn cq_tail(&self) -> &AtomicU32 {
        self.shared(self.params.cq_off.tail)
    }

    /// Address of submission entry `index & mask`. Writable if head + entries > index ≥ tail.
    #[inline]
    pub fn sqe(&self, index: u32) -> *mut sys::io_uring_sqe {
        // The number of entries is a power of two.
        let at = ((index & (self.params.sq_entries - 1)) << self.sqe_shift) as usize;
        self.entries.base().as_ptr().cast::<sys::io_uring_sqe>().wrapping_add(at)
    }

    /// Number of completions that the kernel lost because it had no memory.
    pub fn cq_lost(&self) -> &AtomicU32 {
        self.shared(self.params.cq_off.overflow)
    }

    /// Contents of completion entry `index & mask`: user data, result and flags.
    ///
    /// # Safety
    /// `index` is between the completion head and a tail read with acquire ordering: the kernel has written the entry,
    /// and does not overwrite it before the head passes it.
    #[inline]
    pub unsafe fn cqe(&self, index: u32) -> (u64, i32, u32) {
        let at = ((index & (self.params.cq_entries - 1)) << self.cqe_shift) as usize;
        let cqes = self.queues.base().as_ptr().wrapping_add(self.params.cq_off.cqes as usize);
        let cqe = cqes.cast::<sys::io_uring_cqe>().wrapping_add(at);
        // SAFETY: within the mapping by the mask; written and stable by the caller's promise.
        unsafe { ((*cqe).user_data, (*cqe).res, (*cqe).flags) }
    }

    /// The second half of a 32-byte completion entry begins with this word.
    ///
    /// # Safety
    /// As for [`Ring::cqe`]; the ring has IORING_SETUP_CQE32.
    #[inline]
    pub unsafe fn second_half(&self, index: u32) -> u64 {
        debug_assert!(self.cqe_shift == 1);
        let at = ((index & (self.params.cq_entries - 1)) << self.cqe_shift) as usize;
        let cqes = self.queues.base().as_ptr().wrapping_add(self.params.cq_off.cqes as usize);
        // SAFETY: as in `cqe`.
        unsafe { *cqes.cast::<sys::io_uring_cqe>().wrapping_add(at + 1).cast::<u64>() }
    }

    /// io_uring_register(2).
    ///
    /// # Safety
    /// `arg` and `count` are valid for the operation, and `arg` points to live memory.
    pub unsafe fn register(
        &self,
        op: sys::io_uring_register_op,
        arg: *const libc::c_void,
        count: u32,
    ) -> io::Result<()> {
        // SAFETY: by the caller's promise.
        unsafe { self.register_by_number(op as u32, arg, count) }
    }

    /// The same for an operation that is newer than the kernel headers of the build.
    ///
    /// # Safety
    /// As for [`Ring::register`].
    pub unsafe fn register_by_number(&self, op: u32, arg: *const libc::c_void, count: u32) -> io::Result<()> {
        // SAFETY: by the caller's promise.
        let done = unsafe { libc::syscall(libc::SYS_io_uring_register, self.fd(), op, arg, count) };
        if done < 0 { Err(last_error()) } else { Ok(()) }
    }

    /// Registers memory for wait arguments (6.13) and enables the ring, which IORING_SETUP_R_DISABLED created.
    pub(crate) fn register_waits(&mut self) -> io::Result<()> {
        let page = Mapping::anonymous(PAGE, MapFlags::PRIVATE)?;
        let region = sys::io_uring_region_desc {
            user_addr: page.base().as_ptr() as u64,
            size: PAGE as u64,
            flags: sys::IORING_MEM_REGION_TYPE_USER as u32,
            id: 0,
            mmap_offset: 0,
            __resv: [0; 4],
        };
        let what = sys::io_uring_mem_region_reg {
            region_uptr: (&raw const region) as u64,
            flags: sys::IORING_MEM_REGION_REG_WAIT_ARG as u64,
            __resv: [0; 2],
        };
        // SAFETY: live structures; the page stays mapped as long as the ring.
        unsafe {
            self.register(sys::io_uring_register_op::IORING_REGISTER_MEM_REGION, (&raw const what).cast(), 1)?;
            self.register(sys::io_uring_register_op::IORING_REGISTER_ENABLE_RINGS, std::ptr::null(), 0)?;
        }
        self.params.flags &= !sys::IORING_SETUP_R_DISABLED;
        self.waits = Some(page);
        Ok(())
    }

    /// io_uring_enter(2) that waits for `min` completions, at most until the timeout. Only one thread of the ring may
    /// wait.
    #[inline]
    pub fn wait(
        &self,
        handle: Handle,
        (submit, min, flags): (u32, u32, u32),
        waits: Waits,
        timeout: Option<&libc::timespec>,
    ) -> Result<u32, i32> {
        let flags = flags | if waits.no_iowait { sys::IORING_ENTER_NO_IOWAIT } else { 0 };
        if let Some(page) = &self.waits {
            let ts = timeout.map_or((0, 0), |t| (t.tv_sec, t.tv_nsec));
            let arg = sys::io_uring_reg_wait {
                ts: sys::__kernel_timespec { tv_sec: ts.0, tv_nsec: ts.1 },
                min_wait_usec: waits.min_us,
                flags: if timeout.is_some() { sys::IORING_REG_WAIT_TS as u32 } else { 0 },
                sigmask: 0,
                sigmask_sz: 0,
                pad: [0; 3],
                pad2: [0; 2],
            };
            // SAFETY: within the page and aligned; the kernel reads it only during this thread's call.
            unsafe { page.base().cast().write(arg) };
            // The argument's offset in the memory.
            let flags = flags | sys::IORING_ENTER_EXT_ARG | sys::IORING_ENTER_EXT_ARG_REG;
            return handle.call(submit, min, flags, std::ptr::null(), size_of_val(&arg));
        }
        if timeout.is_none() && waits.min_us == 0 {
            return handle.enter(submit, min, flags);
        }
        let arg = sys::io_uring_getevents_arg {
            sigmask: 0,
            sigmask_sz: 0,
            min_wait_usec: waits.min_us,
            ts: timeout.map_or(0, |t| std::ptr::from_ref(t) as u64),
        };
        let bytes = size_of_val(&arg);
        handle.call(submit, min, flags | sys::IORING_ENTER_EXT_ARG, (&raw const arg).cast(), bytes)
    }
}

/// How waits are passed to the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// How long to wait for all completions of a batch before the first one ends the wait; 0 for no limit.
    pub min_us: u32,
    /// The wait does not count as iowait (IORING_ENTER_NO_IOWAIT).
    pub no_iowait: bool,
    /// In registered memory.
    pub registered: bool,
}

/// log2 of the submission and completion entry sizes relative to the normal sizes: 0 or 1.
fn shifts(params: &sys::io_uring_params) -> (u32, u32) {
    let has = |flag| u32::from(params.flags & flag != 0);
    (has(sys::IORING_SETUP_SQE128), has(sys::IORING_SETUP_CQE32))
}

/// io_uring_setup(2) only.
pub(crate) fn setup(sq_entries: u32, params: &mut sys::io_uring_params) -> io::Result<OwnedFd> {
    // SAFETY: `params` is a live structure of the size that the kernel reads and writes.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, sq_entries, params as *mut sys::io_uring_params) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Parameters with these flags, and otherwise zero.
pub(crate) fn params(flags: u32) -> sys::io_uring_params {
    // SAFETY: a plain C structure, valid when zeroed.
    let mut p: sys::io_uring_params = unsafe { std::mem::zeroed() };
    p.flags = flags;
    p
}

/// How a thread passes the ring to io_uring_enter: as a descriptor, or as an index that this thread registered.
#[derive(Debug, Clone, Copy)]
pub struct Handle {
    fd: i32,
    flags: u32,
}

impl Handle {
    pub fn by_descriptor(ring: &Ring) -> Self {
        Self { fd: ring.fd(), flags: 0 }
    }

    /// Registers the ring's descriptor for the calling thread (5.18). The handle is only valid on this thread.
    pub fn by_index(ring: &Ring) -> io::Result<Self> {
        let mut update = sys::io_uring_rsrc_update { offset: u32::MAX, resv: 0, data: ring.fd() as u64 };
        // SAFETY: one live structure, as REGISTER_RING_FDS takes; the kernel writes the index into `offset`.
        unsafe {
            let op = sys::io_uring_register_op::IORING_REGISTER_RING_FDS;
            ring.register(op, (&raw mut update).cast(), 1)?;
        }
        Ok(Self { fd: update.offset as i32, flags: sys::IORING_ENTER_REGISTERED_RING })
    }

    /// io_uring_enter(2). Returns the number of consumed entries, or the errno.
    #[inline]
    pub fn enter(self, submit: u32, min: u32, flags: u32) -> Result<u32, i32> {
        self.call(submit, min, flags, std::ptr::null(), 0)
    }

    /// `arg`: null or a live structure of `bytes`; with registered memory, an offset in it.
    #[inline]
    fn call(self, submit: u32, min: u32, flags: u32, arg: *const u8, bytes: usize) -> Result<u32, i32> {
        // SAFETY: the argument is valid as above; submitted entries refer to buffers that the load keeps until they are
        // reaped.
        let done =
            unsafe { libc::syscall(libc::SYS_io_uring_enter, self.fd, submit, min, flags | self.flags, arg, bytes) };
        // After -1, errno is always set.
        if done < 0 { Err(last_error().raw_os_error().unwrap_or(libc::EIO)) } else { Ok(done as u32) }
    }
}
