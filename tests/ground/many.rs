//! Many rings, children and threads. These are no scenarios of the list: they hold no finding and no single ring's truth, only sums
//! that follow from `--count`.

use std::sync::Mutex;

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
        name: "forks",
        about: "count children that do nothing, every 50th a no-op in a ring of its own; then 1000 no-ops of the parent",
        finding: None,
        allowed: &[],
        count: 3_000,
        run: forks,
    },
    Scenario {
        name: "threads_in_turn",
        about: "count threads, one after another, each with one no-op in a ring of all; then 300 sleeps of 200 us",
        finding: None,
        allowed: &[],
        count: 3_000,
        run: threads_in_turn,
    },
];

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

fn rings_at_once(run: &mut Run) -> Result<()> {
    let limit = libc::rlimit { rlim_cur: u64::from(run.count) + 64, rlim_max: u64::from(run.count) + 64 };
    // SAFETY: a live structure, only read.
    ensure!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } == 0, "so many descriptors are not allowed");
    let mut rings: Vec<IoUring> = (0..run.count).map(|_| IoUring::new(2)).collect::<Result<_, _>>()?;
    run.start()?;
    for _ in 0..3 {
        rings.iter_mut().try_for_each(|ring| nops(ring, 1))?;
    }
    nops(rings.last_mut().context("at least one ring")?, 2997)
}

fn forks(run: &mut Run) -> Result<()> {
    run.start()?;
    for i in 0..run.count {
        // SAFETY: this process has one thread, so the child may do whatever the parent may.
        match unsafe { libc::fork() } {
            -1 => return Err(std::io::Error::last_os_error()).context("fork"),
            0 => {
                let done = i % 50 != 0 || IoUring::new(2).is_ok_and(|mut ring| nops(&mut ring, 1).is_ok());
                // SAFETY: ends the child without the parent's clean-up.
                unsafe { libc::_exit(i32::from(!done)) }
            }
            pid => {
                let mut status = 0;
                // SAFETY: waits for our own child; the status is written by the call.
                let ended = unsafe { libc::waitpid(pid, &mut status, 0) };
                ensure!(ended == pid && status == 0, "child {pid} ended with status {status}");
            }
        }
    }
    nops(&mut IoUring::new(2)?, 1000)
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
        // SAFETY: the time outlives the request, which is waited for.
        unsafe { ring.submission().push(&opcode::Timeout::new(&time).build()) }
            .context("the submission ring has room")?;
        ring.submit_and_wait(1)?;
        ensure!(ring.completion().count() == 1, "one completion each");
    }
    Ok(())
}
