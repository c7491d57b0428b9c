//! Zero-copy receive: pages in which the kernel places received data, and the refill queue that returns them
//! (IORING_REGISTER_ZCRX_IFQ). No network device is registered, so the kernel copies (ZCRX_REG_NODEV, 7.1).

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use linux_raw_sys::io_uring as sys;

use crate::server::spec::PAGE;
use iotrail_load::buffers::Buffers;
use iotrail_load::engine::io_uring::ring::Ring;

const REG_NODEV: u32 = 2;
const REGISTER_ZCRX_CTRL: u32 = 36;
/// ZCRX_CTRL_FLUSH_RQ.
const FLUSH: u32 = 0;

/// `struct zcrx_ctrl`.
#[repr(C)]
#[derive(Default)]
struct Control {
    queue: u32,
    op: u32,
    reserved: [u64; 8],
}
/// The bits of a position within the area.
const IN_AREA: u64 = (1 << sys::IORING_ZCRX_AREA_SHIFT) - 1;

pub struct Area {
    pages: Buffers,
    count: u32,
    refill: Buffers,
    offsets: sys::io_uring_zcrx_offsets,
    tail: u32,
    /// Identifies the pages in a refill entry.
    token: u64,
    /// Identifies the queue in a receive.
    pub queue: u32,
}

impl Area {
    /// `count`: a power of two.
    pub fn register(with: &Ring, count: u32) -> io::Result<Self> {
        let pages = Buffers::new(count, PAGE as u32)?;
        // The queue's head and tail precede its entries.
        let refill = Buffers::new(1, (PAGE + count as usize * size_of::<sys::io_uring_zcrx_rqe>()) as u32)?;
        // SAFETY: plain C structures, valid when zeroed.
        let (mut area, mut region, mut what): (
            sys::io_uring_zcrx_area_reg,
            sys::io_uring_region_desc,
            sys::io_uring_zcrx_ifq_reg,
        ) = unsafe { std::mem::zeroed() };
        (area.addr, area.len) = (pages.memory().address(0) as u64, u64::from(count) * PAGE as u64);
        region.user_addr = refill.memory().address(0) as u64;
        region.size = refill.memory().stride as u64;
        region.flags = sys::IORING_MEM_REGION_TYPE_USER as u32;
        (what.rq_entries, what.flags) = (count, REG_NODEV);
        (what.area_ptr, what.region_ptr) = ((&raw mut area) as u64, (&raw mut region) as u64);
        // SAFETY: live structures, which the kernel also fills; both memories stay mapped as long as `self`, which
        // outlives the ring's use.
        unsafe {
            let op = sys::io_uring_register_op::IORING_REGISTER_ZCRX_IFQ;
            with.register(op, (&raw mut what).cast(), 1)?;
        }
        let (token, queue) = (area.rq_area_token, what.zcrx_id);
        Ok(Self { pages, count, refill, offsets: what.offsets, tail: 0, token, queue })
    }

    /// `n` received bytes that were not returned. `at`: their position, from the completion.
    #[inline]
    pub fn bytes(&self, at: u64, n: usize) -> &[u8] {
        let at = (at & IN_AREA) as usize;
        assert!(at + n <= self.count as usize * PAGE);
        // SAFETY: within this process's mapping, initialised at creation. The kernel writes to it again only after it
        // is returned, which requires another borrow of `self`.
        unsafe { std::slice::from_raw_parts(self.pages.memory().address(0).add(at), n) }
    }

    /// Returns received bytes to the kernel at the next [`Area::publish`].
    #[inline]
    pub fn give_back(&mut self, at: u64, n: usize) {
        let index = (self.tail & (self.count - 1)) as usize;
        let entries = self.refill.memory().address(0).wrapping_add(self.offsets.rqes as usize);
        let off = at & IN_AREA | self.token;
        let entry = sys::io_uring_zcrx_rqe { off, len: n as u32, __pad: 0 };
        // SAFETY: within the mapping and beyond the tail known to the kernel: the queue has an entry for each page.
        unsafe { entries.cast::<sys::io_uring_zcrx_rqe>().add(index).write(entry) };
        self.tail = self.tail.wrapping_add(1);
    }

    fn shared(&self, offset: u32) -> &AtomicU32 {
        let at = self.refill.memory().address(0).wrapping_add(offset as usize).cast::<AtomicU32>();
        // SAFETY: 4-byte aligned, within the mapping, and only accessed atomically.
        unsafe { &*at }
    }

    /// Shows the kernel what was returned. Without a device, it takes the pages only when told to; this happens once
    /// half of them are returned. The result is whether it took a system call.
    #[inline]
    pub fn publish(&self, ring: &Ring) -> io::Result<bool> {
        // Release: the entries are written before.
        self.shared(self.offsets.tail).store(self.tail, Ordering::Release);
        let returned = self.tail.wrapping_sub(self.shared(self.offsets.head).load(Ordering::Acquire));
        if returned == 0 || returned < self.count / 2 {
            return Ok(false);
        }
        let flush = Control { queue: self.queue, op: FLUSH, ..Control::default() };
        // SAFETY: one live structure.
        unsafe { ring.register_by_number(REGISTER_ZCRX_CTRL, (&raw const flush).cast(), 0)? };
        Ok(true)
    }

    /// Leaks the memory permanently, because an unreaped receive may still write to it.
    pub fn leak(self) {
        self.pages.leak();
        self.refill.leak();
    }
}
