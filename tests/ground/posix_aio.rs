//! POSIX AIO (glibc's threads), and synchronous I/O.

use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Barrier;

use anyhow::{Result, ensure};

use crate::load::{BLOCK, groups};
use crate::report::Op;
use crate::results::odd_file;
use crate::run::{Run, Scenario};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "posix_aio",
        about: "direct reads through glibc's aio_read, 4 at a time: its threads do them",
        finding: Some("posix_aio_serial"),
        allowed: &[],
        count: 2_000,
        run: posix_aio,
    },
    Scenario {
        name: "posix_aio_results",
        about: "aio_write, aio_fsync, lio_listio, reads that meet the end of the file, and one of no file",
        finding: Some("errors"),
        allowed: &["short_reads", "calls_fail"],
        count: 1_600,
        run: posix_aio_results,
    },
    Scenario {
        name: "posix_aio_threads",
        about: "cached reads through glibc's aio_read by 4 threads that begin at the same moment",
        finding: None,
        allowed: &["posix_aio_serial"],
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
        allowed: &["synchronous_calls"],
        count: 500,
        run: synchronous,
    },
];

/// Waits for a request's result and takes it.
fn returned(block: &mut libc::aiocb) -> i32 {
    let waiting = [std::ptr::from_ref(&*block)];
    // SAFETY: the control block was passed to glibc, and its result has not been taken.
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
    // SAFETY: a zeroed control block is valid; the fields that matter are set.
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
            // SAFETY: the control block does not move, and lives until the request completes below.
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
                // SAFETY: the control block does not move, and lives until the request completes below.
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
        // SAFETY: the control block does not move, and lives until aio_error reports its completion.
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
        // SAFETY: no control block or buffer moves, and all requests complete below.
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
