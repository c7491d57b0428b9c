//! Tests native aio and glibc's POSIX AIO by using each once.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::refusal::{Circumstances, Refusal, unexplained};

/// Creates and destroys a native aio context.
pub fn native(circumstances: &Circumstances) -> Result<(), Refusal> {
    let mut context: libc::c_ulong = 0;
    // SAFETY: the kernel writes the context ID to a live, writable word, which must be 0 before the call.
    let rc = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) };
    if rc < 0 {
        return Err(circumstances.native_aio(last_errno()));
    }
    // SAFETY: the context was created above, has no requests, and is not used afterwards.
    let rc = unsafe { libc::syscall(libc::SYS_io_destroy, context) };
    if rc < 0 { Err(circumstances.native_aio(last_errno())) } else { Ok(()) }
}

/// Reads one byte through glibc's helper thread.
pub fn posix() -> Result<(), Refusal> {
    let refused = |e: io::Error| match e.raw_os_error() {
        Some(libc::EAGAIN) => Refusal::new(
            "glibc cannot create its helper thread: too many processes",
            "raise the limit: ulimit -u, or this process's pids cgroup limit",
        ),
        Some(errno) => unexplained("a read by POSIX AIO failed", errno),
        None => unexplained("a read by POSIX AIO failed", libc::EIO),
    };
    let file = File::open("/dev/zero").map_err(refused)?;
    let mut byte = [0u8; 1];
    // SAFETY: integers and pointers only; all zeros is the documented initial state. It would request a signal
    // (SIGEV_SIGNAL with signal 0), which is replaced below.
    let mut request: libc::aiocb = unsafe { std::mem::zeroed() };
    request.aio_fildes = file.as_raw_fd();
    request.aio_buf = byte.as_mut_ptr().cast();
    request.aio_nbytes = byte.len();
    request.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
    // SAFETY: request, buffer and file live until the request is done, because only then the loop ends.
    unsafe {
        if libc::aio_read(&mut request) != 0 {
            return Err(refused(io::Error::last_os_error()));
        }
        let list = [&raw const request];
        while libc::aio_error(&request) == libc::EINPROGRESS {
            libc::aio_suspend(list.as_ptr(), 1, std::ptr::null());
        }
        let error = libc::aio_error(&request);
        if libc::aio_return(&mut request) == 1 { Ok(()) } else { Err(refused(io::Error::from_raw_os_error(error))) }
    }
}

/// Whether a process has a native aio context, from the event rings among its mappings; true if these are unreadable.
pub fn has_context(tgid: u32) -> bool {
    // A path may contain any bytes.
    std::fs::read(format!("/proc/{tgid}/maps"))
        .map_or(true, |maps| maps.split(|b| *b == b'\n').any(|line| line.ends_with(b"/[aio] (deleted)")))
}

fn last_errno() -> i32 {
    // Must be called right after the failed system call.
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_native_aio_context_is_detected_by_its_mapping() {
        let here = std::process::id();
        // Other tests in this process may have contexts.
        let mut other = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        assert!(!super::has_context(other.id()));
        other.kill().and_then(|()| other.wait()).unwrap();
        let mut context: libc::c_ulong = 0;
        // SAFETY: as in `native`; the context is destroyed below.
        assert_eq!(unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) }, 0);
        assert!(super::has_context(here));
        // SAFETY: the context was created above.
        assert_eq!(unsafe { libc::syscall(libc::SYS_io_destroy, context) }, 0);
        assert!(super::has_context(u32::MAX), "not known");
    }

    #[test]
    fn glibc_posix_aio_reads_a_byte() {
        assert_eq!(super::posix(), Ok(()));
    }
}
