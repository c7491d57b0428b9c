//! Seccomp filters. The first passes io_uring_setup to the listener and allows all other calls. The second has the same
//! instructions but allows all calls, so that both cost the same per call.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::{sock_filter, sock_fprog};

/// AUDIT_ARCH_X86_64 and AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64 and AUDIT_ARCH_ARM: io_uring_setup has the same number in
/// all of them.
#[cfg(target_arch = "x86_64")]
const ARCHS: [u32; 2] = [0xc000_003e, 0x4000_0003];
#[cfg(target_arch = "aarch64")]
const ARCHS: [u32; 2] = [0xc000_00b7, 0x4000_0028];

/// Bit in the numbers of x32 calls, which share x86-64's AUDIT_ARCH.
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

/// `at_setup`: action for io_uring_setup.
const fn program(at_setup: u32) -> [sock_filter; 8] {
    [
        step(LOAD, ARCH_AT, 0, 0),
        step(IF_EQUAL, ARCHS[0], 1, 0),
        step(IF_EQUAL, ARCHS[1], 0, 4),
        step(LOAD, NR, 0, 0),
        step(IF_EQUAL, libc::SYS_io_uring_setup as u32, 1, 0),
        step(IF_EQUAL, libc::SYS_io_uring_setup as u32 | X32, 0, 1),
        step(RETURN, at_setup, 0, 0),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    ]
}

static ASKS: [sock_filter; 8] = program(libc::SECCOMP_RET_USER_NOTIF);
static ALLOWS: [sock_filter; 8] = program(libc::SECCOMP_RET_ALLOW);

fn set_filter(program: &'static [sock_filter], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let program = sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the filter outlives the call, and the kernel only reads it.
    match unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) } {
        result @ 0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Retries with no_new_privs, without which only a process with CAP_SYS_ADMIN may install a filter.
fn without_new_rights<T>(install: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match install() {
        Err(e) if e.raw_os_error() == Some(libc::EACCES) => {
            rustix::thread::set_no_new_privs(true)?;
            install()
        }
        other => other,
    }
}

/// Like [`install`], but allows io_uring_setup.
pub fn install_unasked() -> io::Result<()> {
    without_new_rights(|| set_filter(&ALLOWS, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW)).map(drop)
}

/// Installs the filter on the calling thread and its future children. Only makes system calls, because it runs between
/// fork and exec.
pub fn install() -> io::Result<OwnedFd> {
    let listen = |flags: libc::c_ulong| -> io::Result<OwnedFd> {
        let fd = set_filter(&ASKS, flags)?;
        // SAFETY: the kernel has just created this descriptor; nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    // Without SPEC_ALLOW, kernels before 5.16 slow down a filtered program's memory accesses
    // (spec_store_bypass_disable=seccomp).
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // Frequent signals that a program sends to its own threads, as Go's runtime does, would interrupt a call while it
    // is being answered.
    let undisturbed = listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    without_new_rights(|| match listen(undisturbed) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => listen(listener),
        other => other,
    })
}
