//! Provided buffers: a ring from which the kernel selects (IORING_REGISTER_PBUF_RING, 5.19), refilled in batches.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use linux_raw_sys::io_uring as sys;

use iotrail_load::buffers::Buffers;
use iotrail_load::engine::io_uring::ring::Ring;

/// The only buffer group.
pub const GROUP: u16 = 0;

pub struct Provided {
    /// `count` buffer descriptors, which the kernel reads between its head and this tail.
    ring: Buffers,
    data: Buffers,
    /// A power of two.
    count: usize,
    size: usize,
    tail: u16,
    /// The buffer described by each ring entry, and the entry that last described each buffer.
    order: Vec<u16>,
    place: Vec<u16>,
}

impl Provided {
    pub fn register(with: &Ring, count: usize, size: usize) -> io::Result<Self> {
        let too_much = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let ring = Buffers::new(1, (count * size_of::<sys::io_uring_buf>()) as u32)?;
        let data = Buffers::new(1, u32::try_from(count * size).map_err(too_much)?)?;
        let ring_addr = ring.memory().address(0) as u64;
        let what = sys::io_uring_buf_reg { ring_addr, ring_entries: count as u32, bgid: GROUP, flags: 0, resv: [0; 3] };
        // SAFETY: one live structure, whose pages stay mapped as long as `self`, which outlives the ring's use.
        unsafe {
            let op = sys::io_uring_register_op::IORING_REGISTER_PBUF_RING;
            with.register(op, (&raw const what).cast(), 1)?;
        }
        let mut new = Self { ring, data, count, size, tail: 0, order: vec![0; count], place: vec![0; count] };
        (0..count).for_each(|id| new.give_back(id as u16));
        new.publish();
        Ok(new)
    }

    fn address(&self, id: u16) -> *mut u8 {
        self.data.memory().address(0).wrapping_add(usize::from(id) * self.size)
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// The first `n` bytes of a buffer that the kernel has filled and that was not returned.
    #[inline]
    pub fn bytes(&self, id: u16, n: usize) -> &[u8] {
        debug_assert!(usize::from(id) < self.count && n <= self.size);
        // SAFETY: within this process's mapping, initialised at creation. The kernel writes to it again only after it
        // is returned, which requires another borrow of `self`.
        unsafe { std::slice::from_raw_parts(self.address(id), n) }
    }

    /// The buffer that the kernel uses after this one.
    pub fn next(&self, id: u16) -> u16 {
        self.order[(usize::from(self.place[usize::from(id)]) + 1) & (self.count - 1)]
    }

    /// Returns the buffer to the kernel at the next [`Provided::publish`].
    #[inline]
    pub fn give_back(&mut self, id: u16) {
        let at = usize::from(self.tail) & (self.count - 1);
        let entry = self.ring.memory().address(0).cast::<sys::io_uring_buf>().wrapping_add(at);
        // SAFETY: within the mapping and beyond the tail known to the kernel, so owned here. The tail is stored in the
        // last two bytes of the first entry, which is why no complete entry is written.
        unsafe {
            (*entry).addr = self.address(id) as u64;
            (*entry).len = self.size as u32;
            (*entry).bid = id;
        }
        self.order[at] = id;
        self.place[usize::from(id)] = at as u16;
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline]
    pub fn publish(&self) {
        const TAIL: usize = std::mem::offset_of!(sys::io_uring_buf_ring__bindgen_ty_1__bindgen_ty_1, tail);
        let tail = self.ring.memory().address(0).wrapping_add(TAIL).cast::<AtomicU16>();
        // SAFETY: 2-byte aligned, within the mapping, and only accessed atomically. Release: the entries are written
        // before.
        unsafe { (*tail).store(self.tail, Ordering::Release) };
    }

    /// Leaks the memory permanently, because an unreaped receive may still write to it.
    pub fn leak(self) {
        self.ring.leak();
        self.data.leak();
    }
}
