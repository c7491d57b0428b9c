//! Native AIO: the system calls used by libaio.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Result, ensure};

use crate::load::{BLOCK, Target, groups};
use crate::report::Op;
use crate::results::odd_file;
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
        name: "libaio_buffered",
        about: "cached reads through io_submit, 8 at a time: each is done before io_submit returns",
        finding: None,
        allowed: &[],
        count: 8_000,
        run: libaio_buffered,
    },
    Scenario {
        name: "libaio_writes",
        about: "7 direct writes and an fsync at a time, through io_submit",
        finding: None,
        allowed: &[],
        count: 800,
        run: libaio_writes,
    },
    Scenario {
        name: "libaio_results",
        about: "of 8 cached reads one meets the end of the file, one lies beyond it, one is direct and not aligned, one has two \
                buffers; the last is refused by io_submit",
        finding: Some("errors"),
        allowed: &["short_reads"],
        count: 8_000,
        run: libaio_results,
    },
    Scenario {
        name: "libaio_same_block",
        about: "one control block, submitted 8 times with growing lengths before the results are reaped: cached reads, then direct ones",
        finding: None,
        allowed: &[],
        count: 800,
        run: libaio_same_block,
    },
    Scenario {
        name: "libaio_user_ring",
        about: "cached reads through io_submit, whose results are taken from the ring in memory without a system call",
        finding: None,
        allowed: &[],
        count: 8_000,
        run: libaio_user_ring,
    },
];
const DEPTH: u32 = 8;
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const PREADV: u16 = 7;

/// `struct io_event` of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

/// The event ring that the kernel maps into the program: `struct aio_ring` in fs/aio.c.
#[repr(C)]
struct EventRing {
    id: u32,
    entries: u32,
    head: u32,
    tail: u32,
    magic: u32,
    others: [u32; 3],
}

/// A native AIO context.
struct Context {
    id: libc::c_ulong,
    ops: BTreeMap<String, Op>,
}

impl Context {
    fn open() -> Result<Context> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: the call writes the context to the passed address.
        let failed = unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &mut id) };
        if failed != 0 {
            return Err(Unsupported(format!("io_setup: {}", std::io::Error::last_os_error())).into());
        }
        Ok(Context { id, ops: BTreeMap::new() })
    }

    /// Submits all but the last `refused` iocbs, which the kernel must reject, and reaps the submitted ones. The iocbs'
    /// buffers must live until then.
    fn perform(&mut self, blocks: &mut [libc::iocb], refused: usize) -> Result<()> {
        let accepted = self.submit(blocks, refused)?;
        self.events(accepted)?.iter().for_each(|event| self.reaped(event, blocks));
        Ok(())
    }

    fn events(&self, accepted: usize) -> Result<Vec<Event>> {
        let mut events = [Event::default(); DEPTH as usize];
        // SAFETY: there is space for the requested number of events.
        let ended = unsafe {
            let nobody = std::ptr::null::<libc::timespec>();
            libc::syscall(libc::SYS_io_getevents, self.id, accepted, accepted, events.as_mut_ptr(), nobody)
        };
        ensure!(ended as usize == accepted, "io_getevents gave {ended} of {accepted}");
        Ok(events[..accepted].to_vec())
    }

    fn submit(&mut self, blocks: &mut [libc::iocb], refused: usize) -> Result<usize> {
        for (index, block) in blocks.iter_mut().enumerate() {
            block.aio_data = index as u64;
        }
        let accepted = blocks.len() - refused;
        let pointers: Vec<*mut libc::iocb> = blocks.iter_mut().map(std::ptr::from_mut).collect();
        // SAFETY: the iocbs and their buffers live until all are complete, for which the caller waits.
        let taken = unsafe { libc::syscall(libc::SYS_io_submit, self.id, pointers.len(), pointers.as_ptr()) };
        ensure!(taken as usize == accepted, "io_submit took {taken} of {}, not {accepted}", blocks.len());
        for block in &blocks[..accepted] {
            self.op(block).requests += 1;
        }
        Ok(accepted)
    }

    fn reaped(&mut self, event: &Event, blocks: &[libc::iocb]) {
        let block = &blocks[event.data as usize];
        let asked = match block.aio_lio_opcode {
            PREAD | PWRITE => block.aio_nbytes as u32,
            PREADV => 2 * BLOCK as u32,
            _ => 0,
        };
        self.op(block).add(event.result as i32, asked);
    }

    /// Takes results directly from the ring, as the kernel would.
    fn take(&mut self, results: usize, blocks: &[libc::iocb]) {
        let ring = self.id as *mut EventRing;
        for _ in 0..results {
            // SAFETY: the context's ID is the address of its ring, which has `entries` events after its header. It has
            // no other reader, and the kernel writes no event between head and tail.
            unsafe {
                while (&raw const (*ring).tail).read_volatile() == (*ring).head {
                    std::hint::spin_loop();
                }
                let event = *ring.add(1).cast::<Event>().add((*ring).head as usize);
                (&raw mut (*ring).head).write_volatile(((*ring).head + 1) % (*ring).entries);
                self.reaped(&event, blocks);
            }
        }
    }

    fn op(&mut self, block: &libc::iocb) -> &mut Op {
        let name = match block.aio_lio_opcode {
            PREAD => "pread",
            PWRITE => "pwrite",
            FSYNC => "fsync",
            _ => "preadv",
        };
        self.ops.entry(name.into()).or_default()
    }

    fn close(self, run: &mut Run) {
        // SAFETY: an owned context with nothing in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
        run.report.others.insert("libaio", self.ops);
    }
}

fn iocb(command: u16, fd: RawFd, buffer: *mut u8, bytes: usize, offset: u64) -> libc::iocb {
    // SAFETY: a zeroed iocb is valid; the fields that matter are set.
    let mut iocb: libc::iocb = unsafe { std::mem::zeroed() };
    iocb.aio_lio_opcode = command;
    iocb.aio_fildes = fd as u32;
    iocb.aio_buf = buffer as u64;
    iocb.aio_nbytes = bytes as u64;
    iocb.aio_offset = offset as i64;
    iocb
}

/// Reads complete blocks in groups, calling `done` after each group.
fn libaio_reads(
    run: &mut Run,
    mut target: Target,
    done: fn(&mut Context, &mut [libc::iocb]) -> Result<()>,
) -> Result<()> {
    let mut context = Context::open()?;
    run.start()?;
    groups(run.count, DEPTH, |group| {
        let read = |_| iocb(PREAD, target.fd(), target.buffer(), BLOCK, target.offset());
        done(&mut context, &mut (0..group).map(read).collect::<Vec<_>>())
    })?;
    context.close(run);
    Ok(())
}

fn libaio(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let target = run.direct()?;
    libaio_reads(run, target, |context, blocks| context.perform(blocks, 0))?;
    run.report.mostly("irq_direct", 0.95);
    Ok(())
}

fn libaio_buffered(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let target = run.cached()?;
    libaio_reads(run, target, |context, blocks| context.perform(blocks, 0))?;
    run.report.all("inline");
    Ok(())
}

fn libaio_writes(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let path = run.folder()?.join("written");
    // Written first: a write into a hole is completed by a kernel worker, or is not asynchronous at all.
    std::fs::write(&path, vec![1; 64 * BLOCK])?;
    let file = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&path)?;
    file.sync_all()?;
    let mut memory = run.direct()?;
    let mut context = Context::open()?;
    run.start()?;
    groups(run.count, DEPTH, |group| {
        let one = |index| match index {
            0 => iocb(FSYNC, file.as_raw_fd(), std::ptr::null_mut(), 0, 0),
            n => iocb(PWRITE, file.as_raw_fd(), memory.buffer(), BLOCK, u64::from(n) * BLOCK as u64),
        };
        context.perform(&mut (0..group).map(one).collect::<Vec<_>>(), 0)
    })?;
    let syncs = context.ops["fsync"].completions;
    context.close(run);
    // An fsync is executed invisibly by a kernel worker, unless it completes before io_submit returns. A write
    // completes in the interrupt or in such a worker.
    let all = run.report.completions();
    run.report.between("unknown", syncs - syncs / 10, syncs + all / 50);
    run.report.expected.other.max = all;
    Ok(())
}

fn libaio_results(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = odd_file(run)?;
    let mut direct = run.direct()?;
    let mut context = Context::open()?;
    run.start()?;
    groups(run.count, DEPTH, |group| {
        let vectors =
            [target.buffer(), target.buffer()].map(|buffer| libc::iovec { iov_base: buffer.cast(), iov_len: BLOCK });
        let one = |index| {
            let (offset, buffer) = (target.offset(), target.buffer());
            match index {
                0 => iocb(PREAD, target.fd(), buffer, BLOCK, 10 * BLOCK as u64),
                1 => iocb(PREAD, target.fd(), buffer, BLOCK, 20 * BLOCK as u64),
                2 => iocb(PREAD, direct.fd(), direct.buffer(), BLOCK, 1),
                3 => iocb(PREADV, target.fd(), vectors.as_ptr().cast_mut().cast(), vectors.len(), 0),
                _ => iocb(PREAD, target.fd(), buffer, BLOCK, offset),
            }
        };
        let mut blocks: Vec<libc::iocb> = (0..group).map(one).collect();
        blocks[group as usize - 1].aio_fildes = -1i32 as u32;
        context.perform(&mut blocks, 1)
    })?;
    context.close(run);
    run.report.all("inline");
    Ok(())
}

fn libaio_same_block(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut targets = [run.cached()?, run.direct()?];
    let mut context = Context::open()?;
    run.start()?;
    let mut round = 0;
    groups(run.count, DEPTH, |group| {
        let target = &mut targets[round % 2];
        round += 1;
        let mut block = [iocb(PREAD, target.fd(), target.buffer(), BLOCK, 0)];
        for n in 1..=group as usize {
            // Direct I/O requires complete blocks of the disk.
            block[0].aio_nbytes = (BLOCK / DEPTH as usize * n) as u64;
            context.submit(&mut block, 0)?;
        }
        for event in context.events(group as usize)? {
            context.op(&block[0]).add(event.result as i32, event.result as u32);
        }
        Ok(())
    })?;
    context.close(run);
    run.report.expected.other.max = run.report.completions();
    Ok(())
}

fn libaio_user_ring(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let target = run.cached()?;
    libaio_reads(run, target, |context, blocks| {
        let accepted = context.submit(blocks, 0)?;
        context.take(accepted, blocks);
        Ok(())
    })?;
    run.report.all("inline");
    Ok(())
}
