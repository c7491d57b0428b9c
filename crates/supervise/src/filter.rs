//! The seccomp filter: io_uring_setup is passed to the listener, all other calls are allowed.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::{sock_filter, sock_fprog};

/// AUDIT_ARCH_X86_64 and AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64 and AUDIT_ARCH_ARM: io_uring_setup has one number in all of them.
#[cfg(target_arch = "x86_64")]
const ARCHS: [u32; 2] = [0xc000_003e, 0x4000_0003];
#[cfg(target_arch = "aarch64")]
const ARCHS: [u32; 2] = [0xc000_00b7, 0x4000_0028];

/// Set in the numbers of x32's calls; a call with it is none of another architecture's.
const X32: u32 = 0x4000_0000;

/// Offsets in struct seccomp_data.
const NR: u32 = 0;
const ARCH_AT: u32 = 4;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn step(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

static PROGRAM: [sock_filter; 8] = [
    step(LOAD, ARCH_AT, 0, 0),
    step(IF_EQUAL, ARCHS[0], 1, 0),
    step(IF_EQUAL, ARCHS[1], 0, 4),
    step(LOAD, NR, 0, 0),
    step(IF_EQUAL, libc::SYS_io_uring_setup as u32, 1, 0),
    step(IF_EQUAL, libc::SYS_io_uring_setup as u32 | X32, 0, 1),
    step(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0, 0),
    step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
];

/// Installs the filter on the calling thread and its future children. Only system calls: it runs between fork and exec.
pub fn install() -> io::Result<OwnedFd> {
    let program = sock_fprog { len: PROGRAM.len() as u16, filter: PROGRAM.as_ptr().cast_mut() };
    let listen = |flags: libc::c_ulong| {
        // SAFETY: a filter that lives as long as the program; the kernel only reads it.
        let fd = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
        match fd {
            // SAFETY: the kernel has just created this descriptor for this process.
            0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // Without the latter, kernels before 5.16 slow a filtered program's memory accesses down (spec_store_bypass_disable=seccomp).
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // Signals that a program sends to its own threads all the time (Go's) would break off a call that is being answered.
    let undisturbed = listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let either = || match listen(undisturbed) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => listen(listener),
        other => other,
    };
    match either() {
        // Without CAP_SYS_ADMIN only a process that gains no rights any more may have a filter.
        Err(e) if e.raw_os_error() == Some(libc::EACCES) => {
            rustix::thread::set_no_new_privs(true)?;
            either()
        }
        other => other,
    }
}
