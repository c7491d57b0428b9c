//! Parameters of a waiting call, in the memory of its process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use crate::change::Params;

const LENGTH: usize = size_of::<Params>();

/// Memory of one process. After the process has exited, nothing is read or written, even if its PID is reused.
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// Opens the memory of a thread's process; `tid` is in iotrail's PID namespace.
    pub fn of(tid: u32) -> io::Result<Self> {
        if !proc_is_ours() {
            return Err(io::Error::other("iotrail's PID namespace has no /proc of its own (mount -t proc proc /proc)"));
        }
        OpenOptions::new().read(true).write(true).open(format!("/proc/{tid}/mem")).map(Self)
    }

    pub fn read(&self, at: u64) -> io::Result<Params> {
        let mut bytes = [0; LENGTH];
        self.0.read_exact_at(&mut bytes, at)?;
        // SAFETY: integers only, for which all bytes are valid.
        Ok(unsafe { std::mem::transmute::<[u8; LENGTH], Params>(bytes) })
    }

    pub fn write(&self, at: u64, params: &Params) -> io::Result<()> {
        // SAFETY: integers only, without padding.
        self.0.write_all_at(&unsafe { std::mem::transmute::<Params, [u8; LENGTH]>(*params) }, at)
    }
}

/// A process has one PID per namespace from that of /proc inwards to its own, so this process has one if both are the
/// same.
fn proc_is_ours() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status.lines().find_map(|l| l.strip_prefix("NSpid:")).is_some_and(|pids| pids.split_whitespace().count() == 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of this process that sleeps until it is killed. The caller chooses its PID if `number` is given.
    fn copy(number: Option<i32>) -> io::Result<i32> {
        // SAFETY: all zeros is a valid argument; the child only makes system calls.
        unsafe {
            let mut args: libc::clone_args = std::mem::zeroed();
            args.exit_signal = libc::SIGCHLD as u64;
            if let Some(number) = &number {
                (args.set_tid, args.set_tid_size) = (std::ptr::from_ref(number) as u64, 1);
            }
            match libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) {
                0 => loop {
                    libc::pause();
                },
                -1 => Err(io::Error::last_os_error()),
                child => Ok(child as i32),
            }
        }
    }

    fn end(child: i32) {
        // SAFETY: a child that was not waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }

    #[test]
    fn memory_of_a_process_with_a_reused_pid_is_not_written() {
        let here = Box::new(Params { sq_entries: 7, ..Params::default() });
        let at = std::ptr::from_ref(here.as_ref()) as u64;
        let changed = Params { flags: 256, ..*here };
        let first = copy(None).unwrap();
        let memory = Memory::of(first as u32).unwrap();
        memory.write(at, &changed).unwrap();
        assert_eq!((memory.read(at).unwrap(), here.flags), (changed, 0));
        end(first);
        // Choosing a PID needs CAP_CHECKPOINT_RESTORE; without it only an exited process is tested.
        let second = copy(Some(first));
        let (written, read) = (memory.write(at, &changed), memory.read(at));
        let of_second = second.as_ref().ok().map(|tid| Memory::of(*tid as u32).and_then(|memory| memory.read(at)));
        second.into_iter().for_each(end);
        assert!(written.is_err() && read.is_err(), "{written:?} {read:?}");
        assert!(of_second.is_none_or(|params| params.unwrap() == *here));
    }
}
