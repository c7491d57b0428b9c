//! Whether this kernel grants a ring with these flags: the smallest one is created here, and closed.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::change::Params;
use iotrail_schema::setup_flag::bits;

/// Flags that concern other things of the program: its memory, its table of rings, another ring's workers.
const OF_THE_PROGRAM: u32 = bits(&["attach_wq", "no_mmap", "registered_fd_only"]);

/// struct io_uring_params: the input, and space for the output.
#[repr(C)]
struct Whole {
    asked: Params,
    rest: [u32; 25],
}

/// The errors with which the kernel refuses flags. Others (ENOMEM, EMFILE) concern the moment.
const REFUSALS: [i32; 4] = [libc::EINVAL, libc::EPERM, libc::ENOSYS, libc::EOPNOTSUPP];

/// By flags and the CPU of the SQPOLL thread.
type Answers = HashMap<(u32, u32), Option<i32>>;

/// The kernel's answers, kept for the life of this process: the ring is created in a plan's runs with probes, not in its timed
/// runs.
static ANSWERS: Mutex<Option<Answers>> = Mutex::new(None);

/// The error with which the kernel refuses these flags; `None`: it grants them, or refuses only temporarily.
///
/// Sizes are left out. A ring counts against RLIMIT_MEMLOCK of its user, who may be the program's: the smallest ring is
/// created, and its memory is released before this returns.
pub fn refusal(params: &Params) -> Option<io::Error> {
    let mut answers = ANSWERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let answers = answers.get_or_insert_default();
    let key = (params.flags, params.sq_thread_cpu);
    if let Some(known) = answers.get(&key) {
        return known.map(io::Error::from_raw_os_error);
    }
    let asked = Params { sq_entries: 1, cq_entries: 2, ..*params };
    match granted(1, &asked).map_err(|e| e.raw_os_error()) {
        Ok(ring) => {
            give_back(ring);
            answers.insert(key, None);
            None
        }
        Err(Some(errno)) if REFUSALS.contains(&errno) => {
            answers.insert(key, Some(errno));
            Some(io::Error::from_raw_os_error(errno))
        }
        Err(_) => None,
    }
}

pub fn granted(entries: u32, params: &Params) -> io::Result<OwnedFd> {
    let asked = Params { flags: params.flags & !OF_THE_PROGRAM, ..*params };
    let mut whole = Whole { asked, rest: [0; 25] };
    // SAFETY: a live structure of the size that the kernel expects (120 bytes).
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, &raw mut whole) };
    match fd {
        // SAFETY: a descriptor that the kernel has just created.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Maximum wait while the kernel frees a ring.
const FREED_WITHIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Closes the ring, and waits until the kernel has freed its memory: it does so some time after the close, and lets go of the
/// registered files just before.
fn give_back(ring: OwnedFd) {
    const REGISTER_FILES: u32 = 2;
    let Ok((reader, writer)) = io::pipe() else { return };
    let file = writer.as_raw_fd();
    // SAFETY: the kernel reads one live number.
    let done = unsafe {
        libc::syscall(libc::SYS_io_uring_register, ring.as_raw_fd(), REGISTER_FILES, std::ptr::from_ref(&file), 1)
    };
    drop((ring, writer));
    if done == 0 {
        // Past the time, it is the program's own limit that decides.
        let _ = poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&FREED_WITHIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::setup_flag::bit;

    #[test]
    fn the_returned_structure_is_large_enough() {
        assert_eq!(size_of::<Whole>(), 120);
    }

    #[test]
    fn exclusive_flags_are_rejected_for_all_sizes() {
        let of = |flags| refusal(&Params { flags, cq_entries: u32::MAX, ..Params::default() });
        assert!(of(0).is_none() && of(bit("cqsize")).is_none() && of(bit("sqpoll")).is_none());
        let refused = of(bit("defer_taskrun")).unwrap();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL), "without single_issuer");
        assert_eq!(granted(0, &Params::default()).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    /// A limit of three pages holds one smallest ring; since Linux 6.14 a second one would fail.
    #[test]
    fn a_tried_ring_releases_its_locked_memory() {
        // SAFETY: only asks.
        if unsafe { libc::geteuid() } != 0 {
            // A user who has other rings meanwhile cannot have one so close to the limit.
            return;
        }
        if std::env::var_os(LIMITED).is_none() {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            let name = "trial::tests::a_tried_ring_releases_its_locked_memory";
            let out = again.args(["--exact", name, "--nocapture"]).env(LIMITED, "1").output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
            return;
        }
        // SAFETY: plain calls. Rings of root count against no limit, so this process becomes another user of no other process.
        unsafe {
            assert_eq!(libc::setresuid(USER, USER, USER), 0);
            let bytes = 3 * rustix::param::page_size() as u64;
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
            assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit), 0);
        }
        let of = |name| Params { flags: bit(name), ..Params::default() };
        assert!(refusal(&of("coop_taskrun")).is_none() && refusal(&of("submit_all")).is_none());
        drop(granted(1, &Params::default()).unwrap());
    }

    const LIMITED: &str = "IOTRAIL_TEST_LIMITED";
    const USER: libc::uid_t = 64_321;
}
