//! Several tasks: children and threads with rings of their own, and threads that share a ring.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Barrier, Condvar, Mutex};

use anyhow::{Context, Result, ensure};

use crate::load::{BLOCK, Target, blocking};
use crate::network::pipe;
use crate::report::RingReport;
use crate::ring::{DEFER, Ring, wait_shared};
use crate::run::{Run, Scenario};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "fork_children",
        about: "3 children with a ring each, which read count/6, count/3 and count/2 blocks",
        finding: None,
        allowed: &["wrong_core"],
        count: 3_000,
        run: fork_children,
    },
    Scenario {
        name: "threads",
        about: "4 threads with a ring each, depth 4",
        finding: None,
        allowed: &["reordered", "wrong_core"],
        count: 4_000,
        run: threads,
    },
    Scenario {
        name: "shared_ring_threads",
        about: "3 threads submit to one ring, a fourth waits for the completions",
        finding: None,
        // Each thread posts its own submissions, even if another thread's were ready earlier; the scheduler determines
        // how often that matters.
        allowed: &["delivered_out_of_order", "one_per_enter", "reaped_elsewhere", "reordered", "wrong_core"],
        count: 3_000,
        run: shared_ring_threads,
    },
];

struct Child {
    pid: libc::pid_t,
    /// A byte reports that the ring exists; then comes the report.
    from: File,
    /// A byte starts the child.
    to: File,
}

fn fork_children(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut children = Vec::new();
    for reads in [run.count / 6, run.count / 3, run.count / 2] {
        let target = run.direct()?;
        children.push(fork(target, reads)?);
    }
    for child in &mut children {
        child.from.read_exact(&mut [0]).context("a child has no ring")?;
    }
    run.start()?;
    for child in &mut children {
        child.to.write_all(&[0])?;
    }
    for mut child in children {
        let mut text = String::new();
        child.from.read_to_string(&mut text)?;
        let mut status = 0;
        // SAFETY: waits for this process's child; the call writes the status.
        let ended = unsafe { libc::waitpid(child.pid, &mut status, 0) };
        ensure!(ended == child.pid && status == 0, "child {} ended with status {status}", child.pid);
        run.report.rings.push(serde_json::from_str(&text).context("a child's report")?);
    }
    run.report.mostly("enter", 0.99);
    Ok(())
}

fn fork(target: Target, reads: u32) -> Result<Child> {
    let (ours, childs_out) = pipe()?;
    let (childs_in, to) = pipe()?;
    // SAFETY: this process has a single thread, so the child may do everything that the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()).context("fork"),
        0 => {
            // Closes the parent's ends, so that the parent's death is noticed.
            drop((ours, to));
            let failed = child(target, reads, childs_in, childs_out).inspect_err(|e| eprintln!("{e:#}")).is_err();
            // SAFETY: exits the child without the parent's clean-up.
            unsafe { libc::_exit(i32::from(failed)) }
        }
        pid => Ok(Child { pid, from: ours.into(), to: to.into() }),
    }
}

fn child(mut target: Target, reads: u32, start: OwnedFd, report: OwnedFd) -> Result<()> {
    let (mut start, mut report) = (File::from(start), File::from(report));
    let mut ring = Ring::open(1, &DEFER)?;
    report.write_all(&[0])?;
    start.read_exact(&mut [0])?;
    blocking(&mut ring, &mut target, reads, 1)?;
    report.write_all(serde_json::to_string(&ring.report())?.as_bytes())?;
    Ok(())
}

fn threads(run: &mut Run) -> Result<()> {
    const THREADS: u32 = 4;
    run.pin_if_asked()?;
    let targets: Vec<Target> = (0..THREADS).map(|_| run.direct()).collect::<Result<_>>()?;
    let (open, go) = (Barrier::new(THREADS as usize + 1), Barrier::new(THREADS as usize + 1));
    let reads = run.count / THREADS;
    let work = |mut target: Target| -> Result<RingReport> {
        let ring = Ring::open(4, &DEFER);
        open.wait();
        go.wait();
        let mut ring = ring?;
        blocking(&mut ring, &mut target, reads, 4)?;
        Ok(ring.report())
    };
    let work = &work;
    let rings = std::thread::scope(|scope| -> Result<Vec<RingReport>> {
        let threads: Vec<_> = targets.into_iter().map(|target| scope.spawn(move || work(target))).collect();
        open.wait();
        let started = run.start();
        go.wait();
        started?;
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    })?;
    run.report.rings.extend(rings);
    run.report.mostly("enter", 0.99);
    Ok(())
}

// SAFETY: a target owns its memory, which only the owning thread uses.
unsafe impl Send for Target {}

fn shared_ring_threads(run: &mut Run) -> Result<()> {
    const SUBMITTERS: u32 = 3;
    const IN_FLIGHT: u32 = 8;
    run.pin_if_asked()?;
    let targets: Vec<Target> = (0..SUBMITTERS).map(|_| run.direct()).collect::<Result<_>>()?;
    let mut ring = Ring::open(IN_FLIGHT, &[])?;
    let each = run.count / SUBMITTERS;
    let tally = Mutex::new(std::mem::take(&mut ring.tally));
    let (free, freed) = (Mutex::new(IN_FLIGHT), Condvar::new());
    let uring = &ring.uring;
    let submit = |mut target: Target| -> Result<()> {
        for _ in 0..each {
            {
                let mut free =
                    freed.wait_while(free.lock().expect("not poisoned"), |free| *free == 0).expect("as above");
                *free -= 1;
            }
            // The owner of the tally also owns the submission ring.
            let mut tally = tally.lock().expect("not poisoned");
            let read = tally.stamp(target.read(), BLOCK as u32);
            // SAFETY: this thread owns the submission queue; the target outlives its reads, for which the thread waits.
            unsafe {
                uring.submission_shared().push(&read).expect("the submission ring has room");
                uring.submitter().enter::<libc::sigset_t>(1, 0, 0, None)?;
            }
        }
        // This thread must run its reads' task work until the last one has completed.
        drop(freed.wait_while(free.lock().expect("not poisoned"), |free| *free < IN_FLIGHT).expect("as above"));
        Ok(())
    };
    let submit = &submit;
    run.start()?;
    let enters = std::thread::scope(|scope| -> Result<u64> {
        let submitters: Vec<_> = targets.into_iter().map(|target| scope.spawn(move || submit(target))).collect();
        let (mut done, mut enters) = (0, 0);
        while done < each * SUBMITTERS {
            enters += 1;
            // SAFETY: this thread owns the completion queue.
            let found = unsafe { wait_shared(uring, &tally) }?;
            done += found;
            *free.lock().expect("not poisoned") += found;
            freed.notify_all();
        }
        for submitter in submitters {
            submitter.join().expect("no thread panics")?;
        }
        Ok(enters)
    })?;
    ring.tally = tally.into_inner().expect("not poisoned");
    ring.count_enters(enters + u64::from(each * SUBMITTERS));
    run.finish(ring);
    // Each thread posts its own submissions when it next leaves the kernel: from io_uring_enter or its futex.
    run.report.mostly("syscall_exit", 0.5);
    Ok(())
}
