//! Asynchronous I/O without a ring: libaio's system calls, and glibc's POSIX AIO.

use anyhow::{Result, ensure};

use crate::load::{BLOCK, Target, groups};
use crate::report::Op;
use crate::run::{Run, Scenario, Unsupported};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "libaio",
        about: "direct reads through io_submit and io_getevents, 8 at a time",
        finding: None,
        allowed: &["reordered"],
        count: 4_000,
        run: libaio,
    },
    Scenario {
        name: "posix_aio",
        about: "direct reads through glibc's aio_read, 4 at a time: its threads do them",
        finding: None,
        allowed: &["reordered"],
        count: 2_000,
        run: posix_aio,
    },
];

const DEPTH: u32 = 8;

/// `struct io_event` of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

fn libaio(run: &mut Run) -> Result<()> {
    const IOCB_CMD_PREAD: u16 = 0;
    run.pin_if_asked()?;
    let mut target = run.direct()?;
    let mut context: libc::c_ulong = 0;
    // SAFETY: the call writes the context that it is given.
    let failed = unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &mut context) };
    if failed != 0 {
        return Err(Unsupported(format!("io_setup: {}", std::io::Error::last_os_error())).into());
    }
    let mut op = Op::default();
    let mut submits = 0;
    run.start()?;
    groups(run.count, DEPTH, |group| {
        let mut iocbs: Vec<libc::iocb> = (0..group).map(|_| iocb(&mut target, IOCB_CMD_PREAD)).collect();
        let pointers: Vec<*mut libc::iocb> = iocbs.iter_mut().map(std::ptr::from_mut).collect();
        let mut events = [Event::default(); DEPTH as usize];
        let group = i64::from(group);
        // SAFETY: the control blocks, their buffers and the events live until all have ended, which is below.
        let ended = unsafe {
            let taken = libc::syscall(libc::SYS_io_submit, context, group, pointers.as_ptr());
            ensure!(taken == group, "io_submit took {taken} of {group}");
            let nobody = std::ptr::null::<libc::timespec>();
            libc::syscall(libc::SYS_io_getevents, context, group, group, events.as_mut_ptr(), nobody)
        };
        ensure!(ended == group, "io_getevents gave {ended} of {group}");
        submits += 1;
        op.requests += group as u64;
        events[..group as usize].iter().for_each(|event| op.add(event.result as i32, BLOCK as u32));
        Ok(())
    })?;
    // SAFETY: the context is ours and nothing is in flight.
    unsafe { libc::syscall(libc::SYS_io_destroy, context) };
    run.fact("io_submit_calls", submits);
    run.report.others.insert("libaio", op);
    run.report.mostly("irq_direct", 0.95);
    Ok(())
}

fn iocb(target: &mut Target, command: u16) -> libc::iocb {
    // SAFETY: all zeroes is a valid control block; the fields that matter are set.
    let mut iocb: libc::iocb = unsafe { std::mem::zeroed() };
    iocb.aio_lio_opcode = command;
    iocb.aio_fildes = target.fd() as u32;
    iocb.aio_buf = target.buffer() as u64;
    iocb.aio_nbytes = BLOCK as u64;
    iocb.aio_offset = target.offset() as i64;
    iocb
}

fn posix_aio(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.direct()?;
    let mut op = Op::default();
    run.start()?;
    groups(run.count, 4, |group| {
        // SAFETY: all zeroes is a valid control block; the fields that matter are set.
        let mut blocks: Vec<libc::aiocb> = (0..group).map(|_| unsafe { std::mem::zeroed() }).collect();
        for block in &mut blocks {
            block.aio_fildes = target.fd();
            block.aio_buf = target.buffer().cast();
            block.aio_nbytes = BLOCK;
            block.aio_offset = target.offset() as i64;
            // SAFETY: the control block does not move and lives until it has ended, below.
            ensure!(unsafe { libc::aio_read(block) } == 0, std::io::Error::last_os_error());
        }
        op.requests += u64::from(group);
        for block in &mut blocks {
            let waiting = [std::ptr::from_ref(&*block)];
            // SAFETY: the control block was given to aio_read and has not been returned.
            let result = unsafe {
                while libc::aio_error(block) == libc::EINPROGRESS {
                    libc::aio_suspend(waiting.as_ptr(), 1, std::ptr::null());
                }
                match libc::aio_error(block) {
                    0 => libc::aio_return(block) as i32,
                    error => -error,
                }
            };
            op.add(result, BLOCK as u32);
        }
        Ok(())
    })?;
    run.report.others.insert("posix_aio", op);
    run.report.all("thread");
    Ok(())
}
