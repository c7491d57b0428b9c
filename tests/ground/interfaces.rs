//! Asynchronous I/O without a ring: libaio's system calls, and glibc's POSIX AIO; and I/O that is not asynchronous.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Barrier;

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
    Scenario {
        name: "posix_aio",
        about: "direct reads through glibc's aio_read, 4 at a time: its threads do them",
        finding: None,
        allowed: &[],
        count: 2_000,
        run: posix_aio,
    },
    Scenario {
        name: "posix_aio_results",
        about: "aio_write, aio_fsync, lio_listio, reads that meet the end of the file, and one of no file",
        finding: Some("errors"),
        allowed: &["short_reads"],
        count: 1_600,
        run: posix_aio_results,
    },
    Scenario {
        name: "posix_aio_threads",
        about: "cached reads through glibc's aio_read by 4 threads that begin at the same moment",
        finding: None,
        allowed: &[],
        count: 400,
        run: posix_aio_threads,
    },
    Scenario {
        name: "posix_aio_unreturned",
        about: "reads through glibc's aio_read whose end aio_error tells, and nobody calls aio_return",
        finding: None,
        allowed: &[],
        count: 200,
        run: posix_aio_unreturned,
    },
    Scenario {
        name: "synchronous",
        about: "direct reads by pread64: nothing asynchronous",
        finding: None,
        allowed: &[],
        count: 500,
        run: synchronous,
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

/// The ring of events that the kernel maps into the program: `struct aio_ring` of fs/aio.c.
#[repr(C)]
struct EventRing {
    id: u32,
    entries: u32,
    head: u32,
    tail: u32,
    magic: u32,
    others: [u32; 3],
}

/// A context of native aio.
struct Context {
    id: libc::c_ulong,
    ops: BTreeMap<String, Op>,
}

impl Context {
    fn open() -> Result<Context> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: the call writes the context that it is given.
        let failed = unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &mut id) };
        if failed != 0 {
            return Err(Unsupported(format!("io_setup: {}", std::io::Error::last_os_error())).into());
        }
        Ok(Context { id, ops: BTreeMap::new() })
    }

    /// Submits all but the last `refused`, which the kernel must not take, and reaps what was submitted. The control blocks'
    /// buffers must live as long.
    fn perform(&mut self, blocks: &mut [libc::iocb], refused: usize) -> Result<()> {
        let accepted = self.submit(blocks, refused)?;
        self.events(accepted)?.iter().for_each(|event| self.reaped(event, blocks));
        Ok(())
    }

    fn events(&self, accepted: usize) -> Result<Vec<Event>> {
        let mut events = [Event::default(); DEPTH as usize];
        // SAFETY: there is room for as many events as are asked for.
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
        // SAFETY: the control blocks and their buffers live until all have ended, for which the caller waits.
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

    /// Takes results out of the ring itself, as the kernel would.
    fn take(&mut self, results: usize, blocks: &[libc::iocb]) {
        let ring = self.id as *mut EventRing;
        for _ in 0..results {
            // SAFETY: the context's id is the address of its ring, which holds `entries` events after its header. Nobody else
            // takes from it, and the kernel writes no event between head and tail.
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
        // SAFETY: the context is ours and nothing is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
        run.report.others.insert("libaio", self.ops);
    }
}

fn iocb(command: u16, fd: RawFd, buffer: *mut u8, bytes: usize, offset: u64) -> libc::iocb {
    // SAFETY: all zeroes is a valid control block; the fields that matter are set.
    let mut iocb: libc::iocb = unsafe { std::mem::zeroed() };
    iocb.aio_lio_opcode = command;
    iocb.aio_fildes = fd as u32;
    iocb.aio_buf = buffer as u64;
    iocb.aio_nbytes = bytes as u64;
    iocb.aio_offset = offset as i64;
    iocb
}

/// Reads of whole blocks in groups; each group is `done` before the next.
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
    // Laid out first: a write into a hole is finished by a kernel worker, or not at all asynchronously.
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
    // An fsync is a kernel worker's, of which nothing is seen, unless it is done before io_submit returns; a write ends in the
    // interrupt or in such a worker.
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
            // What is direct is whole blocks of the disk.
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

/// Waits for the result of a request that was made, and takes it.
fn returned(block: &mut libc::aiocb) -> i32 {
    let waiting = [std::ptr::from_ref(&*block)];
    // SAFETY: the control block was given to glibc, and its result has not been taken.
    unsafe {
        while libc::aio_error(block) == libc::EINPROGRESS {
            libc::aio_suspend(waiting.as_ptr(), 1, std::ptr::null());
        }
        let error = libc::aio_error(block);
        match libc::aio_return(block) {
            result if error == 0 => result as i32,
            _ => -error,
        }
    }
}

fn aiocb(fd: RawFd, buffer: *mut u8, offset: u64) -> libc::aiocb {
    // SAFETY: all zeroes is a valid control block; the fields that matter are set.
    let mut block: libc::aiocb = unsafe { std::mem::zeroed() };
    block.aio_fildes = fd;
    block.aio_buf = buffer.cast();
    block.aio_nbytes = BLOCK;
    block.aio_offset = offset as i64;
    block
}

fn posix_aio(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.direct()?;
    let mut op = Op::default();
    run.start()?;
    groups(run.count, 4, |group| {
        let read = |_| aiocb(target.fd(), target.buffer(), target.offset());
        let mut blocks: Vec<libc::aiocb> = (0..group).map(read).collect();
        for block in &mut blocks {
            // SAFETY: the control block does not move and lives until it has ended, below.
            ensure!(unsafe { libc::aio_read(block) } == 0, std::io::Error::last_os_error());
        }
        op.requests += u64::from(group);
        blocks.iter_mut().for_each(|block| op.add(returned(block), BLOCK as u32));
        Ok(())
    })?;
    run.report.others.insert("posix_aio", [("aio_read".into(), op)].into());
    run.report.all("thread");
    Ok(())
}

fn posix_aio_threads(run: &mut Run) -> Result<()> {
    const THREADS: u32 = 4;
    run.pin_if_asked()?;
    let path = run.cached()?;
    let together = Barrier::new(THREADS as usize);
    run.start()?;
    let (fd, each) = (path.fd(), run.count / THREADS);
    let mut op = Op::default();
    std::thread::scope(|scope| {
        let reads = || {
            let mut page = vec![0u8; BLOCK];
            together.wait();
            let one = |n| {
                let mut block = aiocb(fd, page.as_mut_ptr(), u64::from(n) * BLOCK as u64);
                // SAFETY: the control block does not move and lives until it has ended, below.
                ensure!(unsafe { libc::aio_read(&mut block) } == 0, std::io::Error::last_os_error());
                Ok(returned(&mut block))
            };
            (0..each).map(one).collect::<Result<Vec<i32>>>()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(reads)).collect();
        for thread in threads {
            for result in thread.join().expect("it does not panic")? {
                op.requests += 1;
                op.add(result, BLOCK as u32);
            }
        }
        anyhow::Ok(())
    })?;
    run.report.others.insert("posix_aio", [("aio_read".into(), op)].into());
    run.report.all("thread");
    Ok(())
}

fn posix_aio_unreturned(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.cached()?;
    let mut op = Op::default();
    run.start()?;
    for _ in 0..run.count {
        let mut block = aiocb(target.fd(), target.buffer(), target.offset());
        // SAFETY: the control block does not move and lives until it has ended, which aio_error tells.
        unsafe {
            ensure!(libc::aio_read(&mut block) == 0, std::io::Error::last_os_error());
            while libc::aio_error(&block) == libc::EINPROGRESS {
                std::hint::spin_loop();
            }
        }
        op.requests += 1;
    }
    run.report.others.insert("posix_aio", [("aio_read".into(), op)].into());
    Ok(())
}

fn posix_aio_results(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = odd_file(run)?;
    let path = run.folder()?.join("written");
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
    let [mut reads, mut writes, mut syncs] = [(); 3].map(|()| Op::default());
    run.start()?;
    groups(run.count, 8, |_| {
        let written = |n: u64| aiocb(file.as_raw_fd(), std::ptr::dangling_mut(), n * BLOCK as u64);
        let mut blocks = [
            aiocb(target.fd(), target.buffer(), 10 * BLOCK as u64),
            aiocb(target.fd(), target.buffer(), 20 * BLOCK as u64),
            aiocb(-1, target.buffer(), 0),
            aiocb(target.fd(), target.buffer(), target.offset()),
            written(0),
            written(1),
            written(2),
            written(0),
        ];
        blocks[3].aio_lio_opcode = libc::LIO_READ;
        for block in &mut blocks[4..7] {
            (block.aio_lio_opcode, block.aio_buf) = (libc::LIO_WRITE, target.buffer().cast());
        }
        // SAFETY: none of the control blocks and buffers moves, and all have ended below.
        unsafe {
            for block in &mut blocks[..3] {
                ensure!(libc::aio_read(block) == 0, std::io::Error::last_os_error());
            }
            ensure!(libc::aio_write(&mut blocks[6]) == 0, std::io::Error::last_os_error());
            let list = [&raw mut blocks[3], std::ptr::null_mut(), &raw mut blocks[4], &raw mut blocks[5]];
            let nobody = std::ptr::null_mut();
            let failed = libc::lio_listio(libc::LIO_NOWAIT, list.as_ptr(), list.len() as i32, nobody);
            ensure!(failed == 0, std::io::Error::last_os_error());
            ensure!(libc::aio_fsync(libc::O_SYNC, &mut blocks[7]) == 0, std::io::Error::last_os_error());
        }
        for (index, block) in blocks.iter_mut().enumerate() {
            let (op, asked) = match index {
                0..4 => (&mut reads, BLOCK as u32),
                4..7 => (&mut writes, BLOCK as u32),
                _ => (&mut syncs, 0),
            };
            op.requests += 1;
            op.add(returned(block), asked);
        }
        Ok(())
    })?;
    let ops = [("aio_read", reads), ("aio_write", writes), ("aio_fsync", syncs)];
    run.report.others.insert("posix_aio", ops.map(|(name, op)| (name.to_owned(), op)).into());
    run.report.all("thread");
    Ok(())
}

fn synchronous(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.direct()?;
    run.start()?;
    for _ in 0..run.count {
        target.read_one()?;
    }
    run.fact("pread_calls", run.count.into());
    Ok(())
}
