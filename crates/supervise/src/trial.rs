//! Tests whether this kernel grants a ring with given flags, by creating and closing the smallest possible one.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::change::Params;
use iotrail_schema::setup_flag::bits;

/// Flags that refer to something in the program: its memory, its ring table, another ring's workers.
const OF_THE_PROGRAM: u32 = bits(&["attach_wq", "no_mmap", "registered_fd_only"]);

/// struct io_uring_params: the input, and space for the output.
#[repr(C)]
struct Whole {
    asked: Params,
    rest: [u32; 25],
}

/// Errors that reject the flags themselves. Others (ENOMEM, EMFILE) are temporary.
const REFUSALS: [i32; 4] = [libc::EINVAL, libc::EPERM, libc::ENOSYS, libc::EOPNOTSUPP];

/// Results by flags and SQPOLL CPU.
type Answers = HashMap<(u32, u32), Option<i32>>;

/// The kernel's results, cached for the life of this process: rings are created in a plan's runs with probes, not in
/// timed runs.
static ANSWERS: Mutex<Option<Answers>> = Mutex::new(None);

/// The error with which the kernel rejects these flags; `None` if it grants them or fails only temporarily.
///
/// Sizes are ignored. A ring counts against RLIMIT_MEMLOCK of its user, who may also be the program's user. Therefore
/// the smallest ring is created, and its memory is released before this returns.
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
        // SAFETY: the kernel has just created this descriptor.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Maximum time to wait for the kernel to free a ring.
const FREED_WITHIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Closes the ring and waits until the kernel has freed its memory. This happens with a delay, just after the release
/// of registered files.
fn give_back(ring: OwnedFd) {
    const REGISTER_FILES: u32 = 2;
    let Ok((reader, writer)) = io::pipe() else { return };
    let file = writer.as_raw_fd();
    // SAFETY: the kernel reads one live integer.
    let done = unsafe {
        libc::syscall(libc::SYS_io_uring_register, ring.as_raw_fd(), REGISTER_FILES, std::ptr::from_ref(&file), 1)
    };
    drop((ring, writer));
    if done == 0 {
        // After a timeout, the program may reach its limit.
        let _ = poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&FREED_WITHIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::setup_flag::bit;

    #[test]
    fn the_returned_params_structure_is_large_enough() {
        assert_eq!(size_of::<Whole>(), 120);
    }

    #[test]
    fn exclusive_flags_are_rejected_for_all_ring_sizes() {
        let of = |flags| refusal(&Params { flags, cq_entries: u32::MAX, ..Params::default() });
        assert!(of(0).is_none() && of(bit("cqsize")).is_none() && of(bit("sqpoll")).is_none());
        let refused = of(bit("defer_taskrun")).unwrap();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL), "without single_issuer");
        assert_eq!(granted(0, &Params::default()).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    /// A limit of three pages permits a single smallest ring; since Linux 6.14 a second one would fail.
    #[test]
    fn a_trial_ring_releases_its_locked_memory() {
        // SAFETY: takes no arguments.
        if unsafe { libc::geteuid() } != 0 {
            // Another user may have other rings, and then cannot create one so close to the limit.
            return;
        }
        if std::env::var_os(LIMITED).is_none() {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            let name = "trial::tests::a_trial_ring_releases_its_locked_memory";
            let out = again.args(["--exact", name, "--nocapture"]).env(LIMITED, "1").output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
            return;
        }
        // SAFETY: system calls without pointers to owned data. root's rings count against no limit, so this process
        // switches to a user without other processes.
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
