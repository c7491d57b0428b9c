//! The parameters of a call in the memory of the thread that waits in it.

use std::io;

use crate::change::Params;

/// How much of struct io_uring_params goes in.
const LENGTH: usize = size_of::<Params>();

fn whole(moved: isize) -> io::Result<()> {
    match usize::try_from(moved) {
        Ok(LENGTH) => Ok(()),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn there(at: u64) -> libc::iovec {
    libc::iovec { iov_base: at as *mut libc::c_void, iov_len: LENGTH }
}

pub fn read(tid: u32, at: u64) -> io::Result<Params> {
    let mut params = Params::default();
    let here = libc::iovec { iov_base: (&raw mut params).cast(), iov_len: LENGTH };
    // SAFETY: writes into `params` alone, which is plain numbers; the other address is checked by the kernel.
    whole(unsafe { libc::process_vm_readv(tid as libc::pid_t, &here, 1, &there(at), 1, 0) })?;
    Ok(params)
}

pub fn write(tid: u32, at: u64, params: &Params) -> io::Result<()> {
    let here = libc::iovec { iov_base: std::ptr::from_ref(params).cast_mut().cast(), iov_len: LENGTH };
    // SAFETY: reads `params` alone; the other address is checked by the kernel, and is that of what the call is to read.
    whole(unsafe { libc::process_vm_writev(tid as libc::pid_t, &here, 1, &there(at), 1, 0) })
}
