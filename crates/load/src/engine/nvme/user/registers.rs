//! The controller's registers, mapped (NVM Express Base Specification, "Controller Properties").
//!
//! A removed device reads as all ones. The kernel also removes the mapping, so that an access raises SIGBUS; the
//! handler replaces the mapping by memory filled with ones. Later reads then find the device gone, and the process
//! survives.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use iotrail_base::mapping::Mapping;

const CAP: usize = 0x00;
const INTMS: usize = 0x0c;
const CC: usize = 0x14;
const CSTS: usize = 0x1c;
const AQA: usize = 0x24;
const ASQ: usize = 0x28;
const ACQ: usize = 0x30;
const DOORBELLS: usize = 0x1000;

/// Size of the registers with one pair of doorbells, in bytes: a smaller region is not an NVMe controller.
const LEAST: usize = DOORBELLS + 8;

/// A controller's capabilities (CAP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Maximum number of entries per queue.
    pub fn queue_entries(self) -> u32 {
        (self.0 as u16 as u32) + 1
    }

    /// Maximum time for the controller to become ready, or not ready.
    pub fn patience(self) -> Duration {
        Duration::from_millis(500) * (self.0 >> 24 & 0xff).max(1) as u32
    }

    /// Distance between two doorbells in bytes.
    pub fn stride(self) -> usize {
        4 << (self.0 >> 32 & 0xf)
    }

    /// Whether the controller has the NVM command set.
    pub fn nvm(self) -> bool {
        self.0 >> 37 & 1 != 0
    }

    /// log2 of the minimum page size in bytes.
    pub fn least_page_shift(self) -> u32 {
        12 + (self.0 >> 48 & 0xf) as u32
    }
}

/// Offset of a doorbell of queue `id`.
pub fn doorbell_at(id: u16, completions: bool, stride: usize) -> usize {
    DOORBELLS + (2 * usize::from(id) + usize::from(completions)) * stride
}

/// A controller's state (CSTS).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(u32);

impl State {
    pub fn gone(self) -> bool {
        self.0 == u32::MAX
    }

    pub fn ready(self) -> bool {
        self.0 & 1 != 0
    }

    pub fn fatal(self) -> bool {
        self.0 & 2 != 0
    }

    pub fn shut_down(self) -> bool {
        self.0 >> 2 & 3 == 2
    }
}

/// The mapped BAR0.
///
/// Registers are accessed by single volatile reads and writes. Each has a fixed writer: the admin queue's owner writes
/// the controller registers, and each queue's owner writes its own doorbells.
pub struct Registers {
    mapping: Mapping,
}

impl Registers {
    /// Maps `bytes` of `file` at `offset`.
    pub fn map(file: &File, offset: u64, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        if bytes < LEAST {
            return Err(io::Error::other(format!("its registers have {bytes} bytes, fewer than NVMe's")));
        }
        let mapping = Mapping::shared(file, offset, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        vanish::watch(mapping.base().as_ptr() as usize, bytes)?;
        Ok(Self { mapping })
    }

    fn place(&self, at: usize) -> *mut u32 {
        assert!(at + 4 <= self.mapping.bytes() && at.is_multiple_of(4), "a register outside of the mapping");
        self.mapping.base().as_ptr().wrapping_add(at).cast()
    }

    fn read(&self, at: usize) -> u32 {
        // SAFETY: within the mapping, and aligned.
        unsafe { self.place(at).read_volatile() }
    }

    fn write(&self, at: usize, value: u32) {
        // SAFETY: as above.
        unsafe { self.place(at).write_volatile(value) }
    }

    fn write_wide(&self, at: usize, value: u64) {
        self.write(at, value as u32);
        self.write(at + 4, (value >> 32) as u32);
    }

    pub fn capabilities(&self) -> Capabilities {
        Capabilities(u64::from(self.read(CAP)) | u64::from(self.read(CAP + 4)) << 32)
    }

    pub fn state(&self) -> State {
        State(self.read(CSTS))
    }

    /// CC.EN.
    pub fn enabled(&self) -> bool {
        self.read(CC) & 1 != 0
    }

    pub fn disable(&self) {
        self.write(CC, self.read(CC) & !1);
    }

    /// Entries of 64 and 16 bytes, 4 KiB pages, NVM command set, round-robin arbitration.
    pub fn enable(&self) {
        self.write(CC, 4 << 20 | 6 << 16 | 1);
    }

    /// Announces a power loss, so that the controller saves its data.
    pub fn shut_down(&self) {
        self.write(CC, (self.read(CC) & !(3 << 14)) | 1 << 14);
    }

    pub fn mask_interrupts(&self) {
        self.write(INTMS, u32::MAX);
    }

    /// Sets the admin queues: `entries` each, at these device addresses.
    pub fn set_admin_queues(&self, entries: u32, submissions: u64, completions: u64) {
        self.write(AQA, (entries - 1) << 16 | (entries - 1));
        self.write_wide(ASQ, submissions);
        self.write_wide(ACQ, completions);
    }

    /// Whether queue `id`'s doorbells are within the mapping.
    pub fn has_doorbells(&self, id: u16, stride: usize) -> bool {
        doorbell_at(id, true, stride) + 4 <= self.mapping.bytes()
    }

    /// Writes the doorbell at offset `at` ([`doorbell_at`]).
    #[inline]
    pub fn ring(&self, at: usize, value: u32) {
        self.write(at, value);
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // Must precede the unmapping.
        vanish::forget();
    }
}

/// The mapping that may vanish, at most one per process.
mod vanish {
    use super::*;

    static BASE: AtomicUsize = AtomicUsize::new(0);
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    /// The previous SIGBUS action.
    static BEFORE: Mutex<Option<libc::sigaction>> = Mutex::new(None);

    extern "C" fn on_bus_error(signal: libc::c_int, info: *const libc::siginfo_t, _context: *const libc::c_void) {
        let (base, bytes) = (BASE.load(Ordering::Acquire), BYTES.load(Ordering::Acquire));
        // SAFETY: with SA_SIGINFO, the kernel passes a live structure, and SIGBUS has an address.
        let at = unsafe { (*info).si_addr() } as usize;
        if base == 0 || !(base..base + bytes).contains(&at) {
            // Not this mapping: the access faults again and triggers the default action.
            // SAFETY: async-signal-safe, with a valid action.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
            return;
        }
        // SAFETY: replaces an owned mapping, whose device has vanished, by memory of the same size; mmap is a plain
        // system call.
        let new = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(base as *mut libc::c_void, bytes, access, MapFlags::PRIVATE | MapFlags::FIXED)
        };
        match new {
            // SAFETY: just mapped, writable.
            Ok(new) => unsafe { new.cast::<u8>().write_bytes(0xff, bytes) },
            Err(_) => {
                // SAFETY: as above.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
        }
    }

    pub fn watch(base: usize, bytes: usize) -> io::Result<()> {
        let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        BYTES.store(bytes, Ordering::Release);
        BASE.store(base, Ordering::Release);
        // SAFETY: an all-zero sigaction is a valid one.
        let (mut action, mut old): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_bus_error as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: both structures live during the call, and the handler is async-signal-safe.
        if unsafe { libc::sigaction(libc::SIGBUS, &action, &mut old) } != 0 {
            return Err(io::Error::last_os_error());
        }
        *before = Some(old);
        Ok(())
    }

    pub fn forget() {
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            // SAFETY: the previously installed action.
            let done = unsafe { libc::sigaction(libc::SIGBUS, &before, std::ptr::null_mut()) };
            debug_assert_eq!(done, 0);
        }
        BASE.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_capabilities_of_a_controller_are_decoded() {
        // QEMU: 2048 entries, contiguous, 7.5 s, NVM.
        let cap = Capabilities(0x0040_0020_0f01_07ff | 1 << 37);
        assert_eq!((cap.queue_entries(), cap.stride(), cap.least_page_shift()), (2048, 4, 12));
        assert_eq!(cap.patience(), Duration::from_millis(7500));
        assert!(cap.nvm());
        assert_eq!(Capabilities(2 << 32).stride(), 16);
        assert!(!Capabilities(0).nvm());
    }

    #[test]
    fn doorbell_offsets_depend_on_queue_and_stride() {
        assert_eq!((doorbell_at(0, false, 4), doorbell_at(0, true, 4)), (0x1000, 0x1004));
        assert_eq!((doorbell_at(3, false, 4), doorbell_at(3, true, 4)), (0x1018, 0x101c));
        assert_eq!((doorbell_at(1, false, 16), doorbell_at(1, true, 16)), (0x1020, 0x1030));
    }

    #[test]
    fn a_register_value_of_all_ones_means_a_removed_device() {
        assert!(State(u32::MAX).gone() && !State(1).gone());
        assert!(State(1).ready() && State(2).fatal() && State(9).shut_down() && !State(5).shut_down());
    }

    /// A file truncated below its mapping behaves like a removed device: SIGBUS.
    #[test]
    fn a_revoked_register_mapping_reads_as_all_ones() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[0; 0x2000]).unwrap();
        let registers = Registers::map(&file, 0, 0x2000).unwrap();
        assert!(!registers.state().gone());
        file.set_len(0).unwrap();
        assert!(registers.state().gone());
        registers.ring(doorbell_at(1, false, 4), 7);
        assert!(registers.state().gone());
        drop(registers);
        assert!(Registers::map(&file, 0, 0x800).is_err());
    }
}
