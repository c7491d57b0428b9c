//! Many rings, children and threads. They are not in the list of scenarios, because they have neither a finding nor
//! facts about a single ring, only sums that depend on `--count`.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::{Condvar, Mutex};

use anyhow::{Context, Result, ensure};
use io_uring::{IoUring, opcode, types};

use crate::run::{Run, Scenario};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "rings_in_turn",
        about: "count rings, one after another, 2 no-ops each",
        finding: None,
        allowed: &[],
        count: 3_000,
        run: rings_in_turn,
    },
    Scenario {
        name: "rings_at_once",
        about: "count rings, all open at once, 3 no-ops each; the last one goes on to 3000",
        finding: None,
        allowed: &[],
        count: 1_500,
        run: rings_at_once,
    },
    Scenario {
        name: "operations_of_rings",
        about: "count rings, all open at once, each with 600 no-ops, reads of /dev/zero, writes to /dev/null and polls of it",
        finding: None,
        allowed: &[],
        count: 500,
        run: operations_of_rings,
    },
    Scenario {
        name: "forks",
        about: "count children that do nothing, every 50th a no-op in a ring of its own; then 1000 no-ops of the parent",
        finding: None,
        allowed: &[],
        count: 3_000,
        run: forks,
    },
    Scenario {
        name: "children_with_rings",
        about: "count children, three at a time, each 500 no-ops in a ring of its own; then the parent stands still for a second",
        finding: None,
        allowed: &[],
        count: 160,
        run: children_with_rings,
    },
    Scenario {
        name: "threads_in_turn",
        about: "count threads, one after another, each with one no-op in a ring of all; then 300 sleeps of 200 us",
        finding: None,
        allowed: &[],
        count: 3_000,
        run: threads_in_turn,
    },
    Scenario {
        name: "threads_take_turns",
        about: "24 threads, of which each in its turn does one no-op in a ring of all, count in all",
        finding: None,
        allowed: &[],
        count: 2_400,
        run: threads_take_turns,
    },
    Scenario {
        name: "one_ring_of_processes",
        about: "count no-ops in one ring: a sixth by the process that made it, the rest by two children, a third and a half",
        finding: None,
        allowed: &[],
        count: 3_000,
        run: one_ring_of_processes,
    },
    Scenario {
        name: "unwaited_children",
        about: "a no-op; count children that compute for 50 ms each, of which nobody wants to hear (SIGCHLD is ignored)",
        finding: None,
        allowed: &[],
        count: 10,
        run: unwaited_children,
    },
    Scenario {
        name: "killed_in_flight",
        about: "a child that is killed while count reads of an empty pipe are in flight, after 10 no-ops",
        finding: None,
        allowed: &[],
        count: 50,
        run: killed_in_flight,
    },
    Scenario {
        name: "closed_in_flight",
        about: "three rings, the last with DEFER_TASKRUN, each closed while count reads of an empty pipe are in flight, after 10 no-ops; it ends once the \
                kernel has ended the reads",
        finding: None,
        allowed: &[],
        count: 50,
        run: closed_in_flight,
    },
];

/// Forks a child that only runs `work`.
fn child(work: impl FnOnce() -> Result<()>) -> Result<libc::pid_t> {
    // SAFETY: this process has a single thread, so the child may do everything that the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()).context("fork"),
        0 => {
            let failed = work().inspect_err(|e| eprintln!("ground: {e:#}")).is_err();
            // SAFETY: exits the child without the parent's clean-up.
            unsafe { libc::_exit(i32::from(failed)) }
        }
        pid => Ok(pid),
    }
}

/// Waits for a child; returns its status as in waitpid(2).
fn wait_for(pid: libc::pid_t) -> Result<i32> {
    let mut status = 0;
    // SAFETY: waits for an own child; the call writes the status.
    let ended = unsafe { libc::waitpid(pid, &mut status, 0) };
    ensure!(ended == pid, "child {pid}: {}", std::io::Error::last_os_error());
    Ok(status)
}

fn ended_well(pid: libc::pid_t) -> Result<()> {
    let status = wait_for(pid)?;
    ensure!(status == 0, "child {pid} ended with status {status}");
    Ok(())
}

fn nops(ring: &mut IoUring, count: usize) -> Result<()> {
    for _ in 0..count {
        // SAFETY: a no-op names no memory.
        unsafe { ring.submission().push(&opcode::Nop::new().build()) }.context("the submission ring has room")?;
        ring.submit_and_wait(1)?;
        ensure!(ring.completion().count() == 1, "one completion each");
    }
    Ok(())
}

fn rings_in_turn(run: &mut Run) -> Result<()> {
    run.start()?;
    for _ in 0..run.count {
        nops(&mut IoUring::new(2)?, 2)?;
    }
    Ok(())
}

fn open_at_once(count: u32) -> Result<Vec<IoUring>> {
    let limit = libc::rlimit { rlim_cur: u64::from(count) + 64, rlim_max: u64::from(count) + 64 };
    // SAFETY: a live structure, only read.
    ensure!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } == 0, "so many descriptors are not allowed");
    Ok((0..count).map(|_| IoUring::new(4)).collect::<Result<_, _>>()?)
}

fn operations_of_rings(run: &mut Run) -> Result<()> {
    let (zero, null) = (File::open("/dev/zero")?, File::options().write(true).open("/dev/null")?);
    let mut rings = open_at_once(run.count)?;
    run.start()?;
    let mut buffer = [0u8; 64];
    let (zero, null) = (types::Fd(zero.as_raw_fd()), types::Fd(null.as_raw_fd()));
    for _ in 0..600 {
        for ring in &mut rings {
            let each = [
                opcode::Nop::new().build(),
                opcode::Read::new(zero, buffer.as_mut_ptr(), 64).build(),
                opcode::Write::new(null, buffer.as_ptr(), 64).build(),
                opcode::PollAdd::new(null, libc::POLLOUT as u32).build(),
            ];
            // SAFETY: the buffer outlives the requests, for which this waits.
            unsafe { ring.submission().push_multiple(&each) }.context("the submission ring has room")?;
            ring.submit_and_wait(4)?;
            ensure!(ring.completion().all(|c| c.result() >= 0), "each succeeds");
        }
        // Slow enough for all requests to be traced.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    run.pause();
    Ok(())
}

fn rings_at_once(run: &mut Run) -> Result<()> {
    let mut rings = open_at_once(run.count)?;
    run.start()?;
    for _ in 0..3 {
        rings.iter_mut().try_for_each(|ring| nops(ring, 1))?;
    }
    nops(rings.last_mut().context("at least one ring")?, 2997)?;
    run.pause();
    Ok(())
}

fn forks(run: &mut Run) -> Result<()> {
    run.start()?;
    for i in 0..run.count {
        ended_well(child(|| if i % 50 == 0 { nops(&mut IoUring::new(2)?, 1) } else { Ok(()) })?)?;
    }
    nops(&mut IoUring::new(2)?, 1000)
}

fn children_with_rings(run: &mut Run) -> Result<()> {
    run.start()?;
    let mut living = std::collections::VecDeque::new();
    for _ in 0..run.count {
        if living.len() == 3 {
            ended_well(living.pop_front().context("three are living")?)?;
        }
        living.push_back(child(|| nops(&mut IoUring::new(8)?, 500))?);
    }
    living.into_iter().try_for_each(ended_well)?;
    std::thread::sleep(std::time::Duration::from_secs(1));
    Ok(())
}

fn threads_in_turn(run: &mut Run) -> Result<()> {
    let ring = Mutex::new(IoUring::new(2)?);
    run.start()?;
    for _ in 0..run.count {
        std::thread::scope(|scope| {
            let one = || nops(&mut ring.lock().expect("not poisoned"), 1);
            scope.spawn(one).join().expect("no thread panics")
        })?;
    }
    let mut ring = ring.into_inner().expect("not poisoned");
    let time = types::Timespec::new().nsec(200_000);
    for _ in 0..300 {
        // SAFETY: the timespec outlives the request, for which this waits.
        unsafe { ring.submission().push(&opcode::Timeout::new(&time).build()) }
            .context("the submission ring has room")?;
        ring.submit_and_wait(1)?;
        ensure!(ring.completion().count() == 1, "one completion each");
    }
    Ok(())
}

fn threads_take_turns(run: &mut Run) -> Result<()> {
    const THREADS: u32 = 24;
    let (turn, turned) = (Mutex::new((IoUring::new(2)?, 0)), Condvar::new());
    run.start()?;
    let rounds = run.count / THREADS;
    std::thread::scope(|scope| {
        let (turn, turned) = (&turn, &turned);
        let one = move |thread| {
            for round in 0..rounds {
                let waiting = turn.lock().expect("not poisoned");
                let mut mine =
                    turned.wait_while(waiting, |(_, next)| *next != round * THREADS + thread).expect("not poisoned");
                nops(&mut mine.0, 1)?;
                mine.1 += 1;
                turned.notify_all();
            }
            Ok(())
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || one(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
}

fn one_ring_of_processes(run: &mut Run) -> Result<()> {
    let mut ring = IoUring::new(2)?;
    run.start()?;
    let count = run.count as usize;
    nops(&mut ring, count / 6)?;
    for share in [count / 3, count / 2] {
        ended_well(child(|| nops(&mut ring, share))?)?;
    }
    Ok(())
}

fn unwaited_children(run: &mut Run) -> Result<()> {
    run.start()?;
    nops(&mut IoUring::new(2)?, 1)?;
    // SAFETY: this installs no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    for _ in 0..run.count {
        child(|| {
            let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            while (used.tv_sec, used.tv_nsec) < (0, 50_000_000) {
                // SAFETY: a live structure, which the call fills.
                unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut used) };
            }
            Ok(())
        })?;
    }
    // SAFETY: waits for this process's children; returns when none is left.
    while unsafe { libc::wait(std::ptr::null_mut()) } > 0 {}
    Ok(())
}

/// Keeps `count` reads of a pipe in flight, which never complete.
fn reads(ring: &mut IoUring, pipe: &impl AsRawFd, buffer: &mut [u8; 8], count: u32) -> Result<()> {
    for _ in 0..count {
        let read = opcode::Read::new(types::Fd(pipe.as_raw_fd()), buffer.as_mut_ptr(), 8).build();
        // SAFETY: no data arrives in the pipe, so the kernel writes nothing to the buffer.
        unsafe { ring.submission().push(&read) }.context("the submission ring has room")?;
    }
    ring.submit()?;
    Ok(())
}

fn closed_in_flight(run: &mut Run) -> Result<()> {
    run.start()?;
    let mut buffer = [0u8; 8];
    for is_deferred in [false, false, true] {
        let (reader, writer) = crate::network::pipe()?;
        let mut builder = IoUring::builder();
        if is_deferred {
            builder.setup_single_issuer().setup_defer_taskrun();
        }
        let mut ring = builder.build(run.count.next_power_of_two())?;
        nops(&mut ring, 10)?;
        reads(&mut ring, &reader, &mut buffer, run.count)?;
        drop(ring);
        drop(reader);
        // The pipe has no reader once the last read has ended.
        let mut broken = libc::pollfd { fd: writer.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one live entry.
        let ready = unsafe { libc::poll(&raw mut broken, 1, 2_000) };
        ensure!(ready == 1 && broken.revents & libc::POLLERR != 0, "the kernel has ended the reads: {ready}");
    }
    Ok(())
}

fn killed_in_flight(run: &mut Run) -> Result<()> {
    let (reader, writer) = crate::network::pipe()?;
    let (mut told, tell) = std::io::pipe()?;
    run.start()?;
    let count = run.count;
    let pid = child(|| {
        let mut ring = IoUring::new(count.next_power_of_two())?;
        nops(&mut ring, 10)?;
        reads(&mut ring, &reader, &mut [0u8; 8], count)?;
        (&tell).write_all(&[1])?;
        loop {
            std::thread::park();
        }
    })?;
    told.read_exact(&mut [0])?;
    // SAFETY: an unreaped child.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    wait_for(pid)?;
    drop(writer);
    Ok(())
}
