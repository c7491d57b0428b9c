//! Completion results, and io-wq workers: punting, overflow, errors, short reads.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Result, ensure};
use io_uring::{opcode, squeue, types};

use crate::load::{BLOCK, Target, blocking, groups};
use crate::network::{pipe, socketpair, write_all};
use crate::ring::{DEFER, Flag, Ring};
use crate::run::{Run, Scenario, Unsupported, c_path};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "punted",
        about: "openat with O_CREAT, buffered write, fsync, statx: each is handed to io-wq; close is not",
        finding: Some("punted"),
        allowed: &[],
        count: 500,
        run: punted,
    },
    Scenario {
        name: "punted_twice",
        about: "reads of empty sockets with IOSQE_ASYNC: a worker finds nothing, and each is handed over again when it is ready",
        finding: Some("punted"),
        allowed: &["reordered", "kick_storm"],
        count: 300,
        run: punted_twice,
    },
    Scenario {
        name: "punted_chains",
        about: "chains of two cached reads with IOSQE_ASYNC: the worker that is handed the first goes on with the second",
        finding: Some("punted"),
        allowed: &["reordered"],
        count: 1_000,
        run: punted_chains,
    },
    Scenario {
        name: "iowq_fanout",
        about: "32 splices from empty pipes at once: each blocks an io-wq worker of its own",
        finding: Some("iowq_fanout"),
        allowed: &["punted", "reordered", "kick_storm"],
        count: 1_600,
        run: iowq_fanout,
    },
    Scenario {
        name: "cq_overflow",
        about: "64 no-ops for a completion queue of 16: 48 wait in the kernel each time",
        finding: Some("cq_overflow"),
        allowed: &[],
        count: 6_400,
        run: cq_overflow,
    },
    Scenario {
        name: "cq_overflow_mixed",
        about: "of 64 cached reads, no-ops and writes of no file for a completion queue of 16, 48 wait in the kernel each time; some reads \
                are short",
        finding: Some("cq_overflow"),
        allowed: &["short_reads", "errors"],
        count: 6_400,
        run: cq_overflow_mixed,
    },
    Scenario {
        name: "iopoll_without_queues",
        about: "IOPOLL on a device without poll queues: each read ends with EOPNOTSUPP",
        finding: Some("iopoll_without_queues"),
        allowed: &["errors", "iowq_fanout"],
        count: 1_600,
        run: iopoll_without_queues,
    },
    Scenario {
        name: "iopoll_refused_few",
        about: "the same of 60 reads",
        finding: Some("iopoll_without_queues"),
        allowed: &["errors", "iowq_fanout"],
        count: 60,
        run: iopoll_without_queues,
    },
    Scenario {
        name: "short_reads",
        about: "cached reads of which one in 4 meets the end of the file, and one in 8 lies beyond it",
        finding: Some("short_reads"),
        allowed: &[],
        count: 8_000,
        run: short_reads,
    },
    Scenario {
        name: "skipped",
        about: "of 8 no-ops, 6 have no completion, as they ask for; a read of no file asks for it too, and has one",
        finding: Some("errors"),
        allowed: &[],
        count: 8_000,
        run: skipped,
    },
    Scenario {
        name: "chains_cancelled",
        about: "of 8, two chains of a read of no file, which asks for no completion if it succeeds, and a no-op: that one is cancelled \
                and has none",
        finding: Some("errors"),
        allowed: &[],
        count: 8_000,
        run: chains_cancelled,
    },
    Scenario {
        name: "resized",
        about: "no-ops on a ring of 8 and 16 entries, which is given 64 and 256 at its end",
        finding: None,
        allowed: &[],
        count: 8_000,
        run: resized,
    },
    Scenario {
        name: "errors",
        about: "of 8 cached reads: one of no file, one of a wrong address, one refused before it is submitted",
        finding: Some("errors"),
        allowed: &["bad_buffers"],
        count: 8_000,
        run: errors,
    },
];

fn punted(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let folder = run.folder()?;
    let path = c_path(&folder.join("made"));
    let block = [7u8; BLOCK];
    // SAFETY: a zeroed statx is valid; the kernel fills it.
    let mut status = Box::<libc::statx>::new(unsafe { std::mem::zeroed() });
    let mut ring = Ring::open(4, &[])?;
    run.start()?;
    let one = |ring: &mut Ring, entry, asked| -> Result<i32> {
        ring.push(entry, asked);
        ring.submit()?;
        let mut result = 0;
        while ring.reap_each(|cqe| result = cqe.result) == 0 {
            ring.enter(0, 1)?;
        }
        ensure!(result >= 0, std::io::Error::from_raw_os_error(-result));
        Ok(result)
    };
    for _ in 0..run.count / 5 {
        let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr());
        let fd = types::Fd(one(&mut ring, open.flags(libc::O_RDWR | libc::O_CREAT).mode(0o600).build(), 0)?);
        one(&mut ring, opcode::Write::new(fd, block.as_ptr(), BLOCK as u32).build(), BLOCK as u32)?;
        one(&mut ring, opcode::Fsync::new(fd).build(), 0)?;
        let into = std::ptr::from_mut(&mut *status).cast();
        let stat = opcode::Statx::new(fd, c"".as_ptr(), into).flags(libc::AT_EMPTY_PATH).mask(libc::STATX_SIZE);
        one(&mut ring, stat.build(), 0)?;
        one(&mut ring, opcode::Close::new(fd).build(), 0)?;
    }
    for code in [opcode::OpenAt::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::Statx::CODE] {
        ring.punted(code);
    }
    run.finish(ring);
    let rounds = u64::from(run.count / 5);
    run.report.exactly("iowq", 4 * rounds);
    run.report.exactly("inline", rounds);
    Ok(())
}

fn punted_chains(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.cached()?;
    let mut ring = Ring::open(4, &[])?;
    run.start()?;
    groups(run.count / 2, 1, |_| {
        for flags in [squeue::Flags::ASYNC | squeue::Flags::IO_LINK, squeue::Flags::ASYNC] {
            let read = target.read().flags(flags);
            ring.push(read, BLOCK as u32);
        }
        ring.submit()?;
        ring.wait(2)
    })?;
    run.finish(ring);
    let all = run.report.completions();
    run.fact("requests_punted", all);
    run.report.exactly("iowq", all);
    Ok(())
}

fn punted_twice(run: &mut Run) -> Result<()> {
    const SOCKETS: u32 = 20;
    run.pin_if_asked()?;
    let pairs: Vec<(OwnedFd, OwnedFd)> = (0..SOCKETS).map(|_| socketpair(libc::SOCK_STREAM)).collect::<Result<_>>()?;
    let mut buffers = [[0u8; 8]; SOCKETS as usize];
    let mut ring = Ring::open(SOCKETS, &[])?;
    run.start()?;
    groups(run.count, SOCKETS, |group| {
        for ((ours, _), buffer) in pairs.iter().zip(&mut buffers).take(group as usize) {
            let read = opcode::Read::new(types::Fd(ours.as_raw_fd()), buffer.as_mut_ptr(), 8).offset(u64::MAX);
            ring.push(read.build().flags(squeue::Flags::ASYNC), 8);
        }
        ring.submit()?;
        // Enough time for the workers to have tried all requests.
        std::thread::sleep(std::time::Duration::from_millis(20));
        pairs.iter().take(group as usize).try_for_each(|(_, theirs)| write_all(theirs.as_raw_fd(), &[7; 8]))?;
        ring.wait(group)
    })?;
    run.finish(ring);
    run.fact("requests_punted", u64::from(run.count));
    run.report.expected.other.max = run.report.completions();
    Ok(())
}

fn iowq_fanout(run: &mut Run) -> Result<()> {
    const PIPES: u32 = 32;
    run.pin_if_asked()?;
    let pipes: Vec<(OwnedFd, OwnedFd)> = (0..PIPES).map(|_| pipe()).collect::<Result<_>>()?;
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    let mut ring = Ring::open(PIPES, &[])?;
    run.start()?;
    let mut most = 0;
    groups(run.count, PIPES, |group| {
        let pipes = &pipes[..group as usize];
        for (reader, _) in pipes {
            let (from, to) = (types::Fd(reader.as_raw_fd()), types::Fd(nowhere.as_raw_fd()));
            ring.push(opcode::Splice::new(from, -1, to, -1, 8).build(), 8);
        }
        ring.submit()?;
        // Each request has a worker before the first may continue.
        let mut workers = workers()?;
        for _ in 0..1_000 {
            if workers >= u64::from(group) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
            workers = self::workers()?;
        }
        most = workers.max(most);
        pipes.iter().try_for_each(|(_, writer)| write_all(writer.as_raw_fd(), &[7; 8]))?;
        ring.wait(group)
    })?;
    ring.punted(opcode::Splice::CODE);
    run.finish(ring);
    run.fact("workers", most);
    run.report.all("iowq");
    Ok(())
}

/// This process's io-wq workers.
fn workers() -> Result<u64> {
    let mut workers = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        // A worker may exit meanwhile.
        let name = std::fs::read_to_string(task?.path().join("comm")).unwrap_or_default();
        workers += u64::from(name.starts_with("iou-wrk-"));
    }
    Ok(workers)
}

fn cq_overflow(run: &mut Run) -> Result<()> {
    overflowing(run, |ring, _| ring.push(opcode::Nop::new().build(), 0))
}

fn cq_overflow_mixed(run: &mut Run) -> Result<()> {
    let mut target = odd_file(run)?;
    overflowing(run, move |ring, n| match n % 4 {
        0 => ring.push(opcode::Nop::new().build(), 0),
        1 => {
            let write = opcode::Write::new(types::Fd(-1), target.buffer(), BLOCK as u32);
            ring.push(write.build(), BLOCK as u32);
        }
        // The last block is incomplete.
        n => {
            let read = opcode::Read::new(types::Fd(target.fd()), target.buffer(), BLOCK as u32);
            let block = if n == 2 { 10 } else { 3 };
            ring.push(read.offset(block * BLOCK as u64).build(), BLOCK as u32);
        }
    })
}

/// Each time, four times as many requests as the completion queue holds; `push` gets each request's number.
fn overflowing(run: &mut Run, mut push: impl FnMut(&mut Ring, u32)) -> Result<()> {
    const QUEUE: u32 = 16;
    run.pin_if_asked()?;
    let mut ring = Ring::open(QUEUE, &[Flag::CqSize(QUEUE)])?;
    run.start()?;
    let mut overflows = 0;
    groups(run.count, 4 * QUEUE, |group| {
        groups(group, QUEUE, |part| {
            (0..part).for_each(|n| push(&mut ring, n));
            ring.submit()
        })?;
        overflows += u64::from(group.saturating_sub(QUEUE));
        ring.wait(group)
    })?;
    ring.overflowed(overflows);
    run.finish(ring);
    // A CQE that overflows causes the event io_uring_cqe_overflow instead of io_uring_complete.
    let all = run.report.completions();
    run.report.between("inline", all - overflows, all);
    Ok(())
}

fn iopoll_without_queues(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.direct()?;
    let mut ring = Ring::open(16, &[Flag::Iopoll])?;
    run.start()?;
    blocking(&mut ring, &mut target, run.count, 16)?;
    // The first attempt must not block and ends with EAGAIN; the worker then gets EOPNOTSUPP, which task work posts.
    ring.punted(opcode::Read::CODE);
    run.finish(ring);
    run.report.expected.other.max = run.report.completions();
    let read = &run.report.rings[0].opcodes["read"];
    if read.errnos.get(&libc::EOPNOTSUPP) != Some(&read.completions) {
        return Err(Unsupported("the device has poll queues: its reads succeed".into()).into());
    }
    Ok(())
}

/// A file of ten blocks and 1000 bytes, in the page cache.
pub fn odd_file(run: &mut Run) -> Result<Target> {
    let path = run.folder()?.join("odd");
    let mut file = File::create_new(&path)?;
    file.write_all(&[7; 10 * BLOCK + 1_000])?;
    file.sync_all()?;
    let target = Target::new(File::open(path)?)?;
    target.fill_cache()?;
    Ok(target)
}

fn short_reads(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = odd_file(run)?;
    let mut ring = Ring::open(8, &[])?;
    run.start()?;
    groups(run.count, 8, |group| {
        for index in 0..group {
            let offset = match index {
                0 | 1 => 10 * BLOCK as u64,
                2 => 20 * BLOCK as u64,
                _ => target.offset(),
            };
            let read = opcode::Read::new(types::Fd(target.fd()), target.buffer(), BLOCK as u32).offset(offset);
            ring.push(read.build(), BLOCK as u32);
        }
        ring.submit()?;
        ring.wait(group)
    })?;
    run.finish(ring);
    run.report.all("inline");
    Ok(())
}

fn skipped(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut buffer = [0u8; 8];
    let mut ring = Ring::open(8, &[])?;
    run.start()?;
    groups(run.count, 8, |group| {
        for index in 0..group {
            match index {
                0 => ring.push(opcode::Nop::new().build(), 0),
                1 => {
                    let of_no_file = opcode::Read::new(types::Fd(-1), buffer.as_mut_ptr(), 8);
                    ring.push_skipping(of_no_file.build(), 8, false);
                }
                _ => ring.push_skipping(opcode::Nop::new().build(), 0, true),
            }
        }
        ring.submit()?;
        ring.wait(group.min(2))
    })?;
    run.finish(ring);
    run.report.all("inline");
    Ok(())
}

fn chains_cancelled(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut buffer = [0u8; 8];
    let mut ring = Ring::open(8, &[])?;
    run.start()?;
    groups(run.count, 8, |group| {
        for _ in 0..group / 4 {
            let of_no_file = opcode::Read::new(types::Fd(-1), buffer.as_mut_ptr(), 8).build();
            ring.push_skipping(of_no_file.flags(squeue::Flags::IO_LINK), 8, false);
            ring.push_cancelled(opcode::Nop::new().build());
            ring.push(opcode::Nop::new().build(), 0);
            ring.push(opcode::Nop::new().build(), 0);
        }
        ring.submit()?;
        ring.wait(group / 4 * 3)
    })?;
    run.finish(ring);
    run.report.expected.other.max = run.report.completions();
    Ok(())
}

fn resized(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut ring = Ring::open(8, &[DEFER[0], DEFER[1], Flag::CqSize(16)])?;
    run.start()?;
    groups(run.count, 8, |group| {
        (0..group).for_each(|_| ring.push(opcode::Nop::new().build(), 0));
        ring.submit()?;
        ring.wait(group)
    })?;
    if let Err(e) = ring.resize(64, 256) {
        run.report.unsupported = Some(format!("the kernel does not resize rings: {e}"));
    }
    run.finish(ring);
    run.report.all("inline");
    Ok(())
}

fn errors(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = odd_file(run)?;
    let wrong_address = 8 as *mut u8;
    let mut ring = Ring::open(8, &DEFER)?;
    run.start()?;
    groups(run.count, 8, |group| {
        for index in 0..group {
            let (offset, buffer, file) = (target.offset(), target.buffer(), types::Fd(target.fd()));
            let read = match index {
                0 => opcode::Read::new(types::Fd(-1), buffer, BLOCK as u32),
                1 => opcode::Read::new(file, wrong_address, BLOCK as u32),
                // An invalid priority class.
                2 => opcode::Read::new(file, buffer, BLOCK as u32).ioprio(7 << 13),
                _ => opcode::Read::new(file, buffer, BLOCK as u32),
            };
            ring.push(read.offset(offset).build(), BLOCK as u32);
        }
        ring.refused(u64::from(group > 2));
        ring.submit()?;
        ring.wait(group)
    })?;
    run.finish(ring);
    run.report.all("inline");
    Ok(())
}
