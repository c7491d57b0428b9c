//! Three call sites: 3 no-ops, 1 read of a closed descriptor and 2 sleeps per turn.
use std::ffi::{c_int, c_long, c_void};
use std::time::Duration;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn mmap(at: *mut c_void, bytes: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut u8;
}

mod store {
    use super::*;
    const SETUP: c_long = 425;
    const ENTER: c_long = 426;

    pub struct Ring {
        fd: c_int,
        rings: *mut u8,
        entries: *mut [u64; 8],
        offsets: [u32; 30],
    }

    impl Ring {
        pub fn new() -> Ring {
            let mut offsets = [0u32; 30];
            unsafe {
                let fd = syscall(SETUP, 8, offsets.as_mut_ptr()) as c_int;
                assert!(fd >= 0, "io_uring_setup");
                let rings = mmap(std::ptr::null_mut(), 4096, 3, 0x8001, fd, 0);
                let entries = mmap(std::ptr::null_mut(), 4096, 3, 0x8001, fd, 0x1000_0000).cast();
                Ring { fd, rings, entries, offsets }
            }
        }

        fn word(&self, field: usize) -> *mut u32 {
            unsafe { self.rings.add(self.offsets[field] as usize).cast() }
        }

        #[inline(always)]
        fn next(&self, opcode: u64, of: i32) {
            static BYTES: [u8; 64] = [0; 64];
            unsafe {
                let tail = self.word(11).read_volatile();
                let i = tail & 7;
                let first = opcode | (of as u32 as u64) << 32;
                self.entries.add(i as usize).write([first, 0, BYTES.as_ptr() as u64, 1, 0, 0, 0, 0]);
                self.word(16).add(i as usize).write(i);
                self.word(20).write_volatile(self.word(21).read_volatile());
                self.word(11).write_volatile(tail + 1);
            }
        }

        #[inline(never)]
        pub fn submits(&self) {
            self.next(0, -1);
            unsafe { syscall(ENTER, self.fd, 1, 1, 1, 0usize, 0usize) };
        }

        #[inline(never)]
        pub fn fails(&self) {
            self.next(22, 999);
            unsafe { syscall(ENTER, self.fd, 1, 1, 1, 0usize, 0usize) };
        }
    }
}

// Work after the last call keeps it from being a tail call, which leaves no frame.
#[inline(never)]
fn blocks() -> u32 {
    std::thread::sleep(Duration::from_micros(300));
    std::hint::black_box(1)
}

#[inline(never)]
fn naps() -> u32 {
    std::thread::sleep(Duration::from_micros(100));
    std::hint::black_box(2)
}

fn main() {
    let turns = std::env::args().nth(1).map_or(1000, |n| n.parse().unwrap());
    let ring = store::Ring::new();
    for _ in 0..turns {
        (0..3).for_each(|_| ring.submits());
        ring.fails();
        blocks();
        naps();
    }
}
