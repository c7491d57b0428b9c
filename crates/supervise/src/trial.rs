//! Whether this kernel grants a ring with these parameters: one is made here, and closed.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::change::Params;
use iotrail_schema::setup_flag::bits;

/// Flags that speak of other things of the program's: its memory, its table of rings, another ring's workers.
const OF_THE_PROGRAM: u32 = bits(&["attach_wq", "no_mmap", "registered_fd_only"]);

/// struct io_uring_params: what goes in, and room for what comes back.
#[repr(C)]
struct Whole {
    asked: Params,
    rest: [u32; 25],
}

pub fn granted(entries: u32, params: &Params) -> io::Result<()> {
    let asked = Params { flags: params.flags & !OF_THE_PROGRAM, ..*params };
    let mut whole = Whole { asked, rest: [0; 25] };
    // SAFETY: a live structure of the size that the kernel expects (120 bytes).
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, &raw mut whole) };
    match fd {
        0.. => {
            // SAFETY: a descriptor that the kernel has just made for us.
            drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
            Ok(())
        }
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_has_room() {
        assert_eq!(size_of::<Whole>(), 120);
    }

    #[test]
    fn flags_that_exclude_each_other_are_refused() {
        let of = |flags| granted(4, &Params { flags, ..Params::default() });
        of(0).unwrap();
        // defer_taskrun without single_issuer.
        assert_eq!(of(1 << 13).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(granted(0, &Params::default()).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
