//! Programs with unusual system calls or requests: 32-bit system calls, drains, opcodes that do not exist.

use std::os::fd::AsRawFd;

use anyhow::{Result, ensure};
use io_uring::{opcode, squeue, types};

use crate::network::pipe;
use crate::ring::Ring;
use crate::run::{Run, Scenario, Unsupported};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "int80",
        about: "reads of a pipe that a write by int 0x80 answers: each completes on the way out of that call",
        finding: None,
        allowed: &["chatty_poller"],
        count: 1_000,
        run: int80,
    },
    Scenario {
        name: "drained",
        about: "of 4 no-ops the last drains the ring: io-wq does it",
        finding: Some("punted"),
        allowed: &["reordered"],
        count: 1_600,
        run: drained,
    },
    Scenario {
        name: "invalid_opcode",
        about: "requests of an opcode that this kernel has not: refused, and no no-ops",
        finding: Some("requests_fail"),
        allowed: &[],
        count: 200,
        run: invalid_opcode,
    },
    Scenario {
        name: "small_calls",
        about: "no ring, read(2) of one byte of a cached file at a time",
        finding: Some("small_calls"),
        allowed: &[],
        count: 400_000,
        run: small_calls,
    },
];

/// A system call through the 32-bit table, with pointers below 4 GiB.
#[cfg(target_arch = "x86_64")]
fn call_i386(nr: u32, first: u32, second: u32, third: u32) -> i32 {
    let result: i32;
    // SAFETY: the kernel uses only the numbers and preserves all other registers; LLVM reserves rbx.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {first:r}", "int 0x80", "xchg rbx, {first:r}",
            first = inout(reg) u64::from(first) => _,
            inlateout("eax") nr => result, in("ecx") second, in("edx") third,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    result
}

/// Below 2 GiB, on architectures whose 32-bit calls need that.
#[cfg(target_arch = "x86_64")]
const LOW: i32 = libc::MAP_32BIT;
#[cfg(not(target_arch = "x86_64"))]
const LOW: i32 = 0;

#[cfg(not(target_arch = "x86_64"))]
fn call_i386(_: u32, _: u32, _: u32, _: u32) -> i32 {
    -libc::ENOSYS
}

/// A kernel without support (CONFIG_IA32_EMULATION, ia32_emulation=) kills the caller, so a child tries it.
fn takes_i386_calls() -> bool {
    const GETPID: u32 = 20;
    // SAFETY: the child only makes system calls.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let known = call_i386(GETPID, 0, 0, 0) > 0;
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!known)) };
    }
    let mut status = 0;
    // SAFETY: `status` is live.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    waited == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn int80(run: &mut Run) -> Result<()> {
    const WRITE: u32 = 4;
    run.pin_if_asked()?;
    if !takes_i386_calls() {
        return Err(Unsupported("the kernel takes no system calls of the 32-bit table".into()).into());
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | LOW;
    // SAFETY: a new mapping, which stays mapped until the process exits.
    let low = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    ensure!(low != libc::MAP_FAILED, "no memory in the first 2 GiB");
    let (reader, writer) = pipe()?;
    let mut buffer = [0u8; 8];
    let mut ring = Ring::open(4, &[])?;
    run.start()?;
    for _ in 0..run.count {
        ring.push(opcode::Read::new(types::Fd(reader.as_raw_fd()), buffer.as_mut_ptr(), 8).build(), 8);
        ring.submit()?;
        let written = call_i386(WRITE, writer.as_raw_fd() as u32, low as u32, 8);
        ensure!(written == 8, "write by int 0x80: {written}");
        ring.wait(1)?;
    }
    run.finish(ring);
    run.report.mostly("syscall_exit", 0.9);
    run.report.between("syscall_exit:write (i386)", u64::from(run.count) * 9 / 10, run.count.into());
    Ok(())
}

fn drained(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut ring = Ring::open(4, &[])?;
    run.start()?;
    for _ in 0..run.count / 4 {
        for _ in 0..3 {
            ring.push(opcode::Nop::new().build(), 0);
        }
        ring.push(opcode::Nop::new().build().flags(squeue::Flags::IO_DRAIN), 0);
        ring.submit()?;
        ring.wait(4)?;
    }
    run.finish(ring);
    run.report.expected.other.max = run.report.completions();
    Ok(())
}

fn invalid_opcode(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut ring = Ring::open(4, &[])?;
    run.start()?;
    for _ in 0..run.count {
        ring.push_of(250)?;
        ring.submit()?;
        ring.wait(1)?;
    }
    ring.refused(u64::from(run.count));
    run.finish(ring);
    run.report.all("inline");
    Ok(())
}

fn small_calls(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let target = run.cached()?;
    // SAFETY: a live descriptor.
    ensure!(unsafe { libc::lseek(target.fd(), 0, libc::SEEK_SET) } == 0, "lseek");
    run.start()?;
    for _ in 0..run.count {
        let mut byte = 0u8;
        // SAFETY: one byte, which is live.
        let n = unsafe { libc::read(target.fd(), (&raw mut byte).cast(), 1) };
        ensure!(n == 1, "read of one byte: {n}");
    }
    Ok(())
}
