//! Restricts a child process before it executes the tool: another user, limits, a system call filter, separate file
//! systems. Only that child is affected, so nothing has to be restored.

use std::ffi::CStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::tool::{Place, is_root, run};

/// The user without privileges (nobody).
pub const NOBODY: u32 = 65534;

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Runs the command as user nobody if this process is root; an ordinary user is already unprivileged.
pub fn unprivileged(command: &mut Command) -> &mut Command {
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Limits locked memory to this many bytes.
pub fn locked_memory(command: &mut Command, bytes: u64) -> &mut Command {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: setrlimit is async-signal-safe, and the limit is a copy.
    unsafe { command.pre_exec(move || check(libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit))) }
}

/// A rule of a system call filter.
#[derive(Clone, Copy)]
pub enum Rule {
    /// Makes the call fail with this error.
    Refuse(libc::c_long, libc::c_int),
    /// Makes the call fail with EPERM if the argument at this index requests write access.
    ReadOnly(libc::c_long, u32),
}

/// Installs a filter in the child, which permits calls without a rule.
pub fn filter<'a>(command: &'a mut Command, rules: &[Rule]) -> &'a mut Command {
    const DATA_NR: u32 = 0;
    const DATA_ARGS: u32 = 16;
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let load = |at: u32| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at);
    let answer = |k: u32| statement(libc::BPF_RET | libc::BPF_K, k);
    let jump = |test: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: (libc::BPF_JMP | test | libc::BPF_K) as u16,
        jt,
        jf,
        k,
    };
    let mut program = Vec::new();
    for rule in rules {
        program.push(load(DATA_NR));
        match *rule {
            Rule::Refuse(call, errno) => {
                program.push(jump(libc::BPF_JEQ, call as u32, 0, 1));
                program.push(answer(libc::SECCOMP_RET_ERRNO | errno as u32));
            }
            Rule::ReadOnly(call, argument) => {
                program.push(jump(libc::BPF_JEQ, call as u32, 0, 3));
                program.push(load(DATA_ARGS + 8 * argument)); // the low half, on little-endian machines
                program.push(jump(libc::BPF_JSET, libc::O_ACCMODE as u32, 0, 1));
                program.push(answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
            }
        }
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    // SAFETY: two prctl calls, which are async-signal-safe; the closure owns the program, which outlives them.
    unsafe {
        command.pre_exec(move || {
            let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            check(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter))
        })
    }
}

/// Installs a filter that rejects opening anything for writing, so that the tool cannot write to a device.
pub fn read_only(command: &mut Command) -> &mut Command {
    let rules = [
        Rule::ReadOnly(libc::SYS_openat, 2),
        #[cfg(target_arch = "x86_64")]
        Rule::ReadOnly(libc::SYS_open, 1),
        Rule::Refuse(libc::SYS_openat2, libc::ENOSYS),
        Rule::Refuse(libc::SYS_io_uring_setup, libc::EPERM),
    ];
    filter(command, &rules)
}

/// Mounts a file system of this type on `at`, which only the child sees and which disappears with it.
pub fn mounted<'a>(
    command: &'a mut Command,
    kind: &'static CStr,
    options: &'static CStr,
    at: &'static CStr,
) -> &'a mut Command {
    // SAFETY: geteuid and getegid take no arguments and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let maps = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("0 {user} 1")),
        (c"/proc/self/gid_map", format!("0 {group} 1")),
    ];
    let root = user == 0;
    // SAFETY: unshare, open, write, close and mount are plain system calls with prepared arguments.
    unsafe {
        command.pre_exec(move || {
            check(libc::unshare(libc::CLONE_NEWNS | if root { 0 } else { libc::CLONE_NEWUSER }))?;
            for (file, text) in maps.iter().filter(|_| !root) {
                let fd = libc::open(file.as_ptr(), libc::O_WRONLY);
                let written = libc::write(fd, text.as_ptr().cast(), text.len());
                libc::close(fd);
                check(if written == text.len() as isize { 0 } else { -1 })?;
            }
            let none = std::ptr::null();
            check(libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()))?;
            check(libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()))
        })
    }
}

/// Why a child cannot have a file system of its own on this machine; `None` if it can.
pub fn cannot_mount(kind: &'static CStr) -> Option<String> {
    let place = Place::new();
    std::fs::create_dir(place.join("at")).expect("a folder of our own");
    let mut command = place.command("true".as_ref(), [""; 0]);
    match mounted(&mut command, kind, c"", c"at").spawn() {
        Ok(child) => {
            crate::tool::end(child);
            None
        }
        Err(e) => Some(format!("no {} of its own for a child process: {e}", kind.to_string_lossy())),
    }
}

/// Why a child cannot install a filter on this machine; `None` if it can.
pub fn cannot_filter() -> Option<String> {
    let place = Place::new();
    let mut command = place.command("true".as_ref(), [""; 0]);
    match filter(&mut command, &[Rule::Refuse(libc::SYS_io_uring_setup, libc::EPERM)]).spawn() {
        Ok(child) => {
            crate::tool::end(child);
            None
        }
        Err(e) => Some(format!("no system-call filter for a child process: {e}")),
    }
}

/// A copy of the tool that every user can execute, because the build directory may be inaccessible to others.
pub fn public_copy(place: &Place) -> std::path::PathBuf {
    let copy = place.join("iotrail");
    // A separate process makes the copy: a child that another test starts meanwhile would inherit this process's
    // writable descriptor, and exec would fail with ETXTBSY.
    run(&mut place.command("cp".as_ref(), [crate::tool::BINARY.as_ref(), copy.as_os_str()])).ok();
    copy
}

/// Runs the copy as an ordinary user.
pub fn run_unprivileged(place: &Place, options: &str) -> crate::tool::Ended {
    let copy = public_copy(place);
    run(unprivileged(&mut place.command(&copy, options.split_whitespace())))
}
