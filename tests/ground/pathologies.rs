//! Bad delivery: late, with too many interrupts, on the wrong CPU, one at a time. Also a program without any problem.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::cores;
use crate::load::{BLOCK, Memory, Target, blocking, blocking_ascending, faults, groups, peeking, spin};
use crate::readiness::{eventfd, poll, reset, signal};
use crate::ring::{DEFER, Flag, Ring};
use crate::run::{Run, Scenario, Unsupported};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "stranded_until_tick",
        about: "COOP_TASKRUN, 8 direct reads in flight, looked for from user mode on a CPU without the interrupt",
        finding: Some("stranded"),
        allowed: &["reordered", "wrong_core"],
        count: 2_000,
        run: stranded_until_tick,
    },
    Scenario {
        name: "kick_storm",
        about: "no flags, 32 polls of eventfds that another CPU makes ready one by one, looked for from user mode",
        finding: Some("kick_storm"),
        allowed: &[],
        count: 30_000,
        run: kick_storm,
    },
    Scenario {
        name: "kick_bursts",
        about: "no flags, 32 direct reads in flight, looked for from user mode: the disk ends many at once, per kick",
        finding: None,
        allowed: &["reordered", "wrong_core"],
        count: 20_000,
        run: kick_bursts,
    },
    Scenario {
        name: "wrong_core",
        about: "DEFER_TASKRUN, one direct read at a time, waiting on a CPU without the interrupt: another CPU wakes it",
        finding: Some("wrong_core"),
        allowed: &[],
        count: 3_000,
        run: wrong_core,
    },
    Scenario {
        name: "wrong_core_threads",
        about: "the same by 3 threads with a ring each: no single CPU is the right one for them",
        finding: Some("wrong_core"),
        allowed: &[],
        count: 3_000,
        run: wrong_core_threads,
    },
    Scenario {
        name: "one_per_enter",
        about: "16 requests at hand, each submitted with an io_uring_enter of its own",
        finding: Some("one_per_enter"),
        // Requests that a fast disk completes before their submission returns overtake waiting ones.
        allowed: &["reordered", "delivered_out_of_order"],
        count: 4_000,
        run: one_per_enter,
    },
    Scenario {
        name: "faulting_poller",
        about: "a polling loop on the interrupt's CPU that touches 4 fresh pages per read",
        finding: Some("faulting_poller"),
        allowed: &[],
        count: 3_000,
        run: faulting_poller,
    },
    Scenario {
        name: "chatty_poller",
        about: "a polling loop on the interrupt's CPU with 4 stray system calls per read",
        finding: Some("chatty_poller"),
        allowed: &[],
        count: 3_000,
        run: chatty_poller,
    },
    Scenario {
        name: "idle_poller",
        about: "a polling loop on the interrupt's CPU that continues for 4 ms after each read, with nothing in flight",
        finding: Some("idle_poller"),
        allowed: &[],
        count: 100,
        run: idle_poller,
    },
    Scenario {
        name: "clean",
        about: "DEFER_TASKRUN, batches of 16 direct reads in ascending order, waited for: nothing to find",
        finding: None,
        allowed: &[],
        count: 4_000,
        run: clean,
    },
    Scenario {
        name: "clean_random",
        about: "the same at random offsets: the block layer sorts them, which is its task",
        finding: None,
        allowed: &["reordered"],
        count: 4_000,
        run: clean_random,
    },
];

fn stranded_until_tick(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_without_interrupt(&mut target)?;
    let mut ring = Ring::open(8, &[Flag::CoopTaskrun])?;
    run.start()?;
    peeking(&mut ring, &mut target, run.count, 8, || spin(1))?;
    run.finish(ring);
    run.report.mostly("timer_tick", 0.8);
    Ok(())
}

fn kick_storm(run: &mut Run) -> Result<()> {
    const POLLS: usize = 32;
    let mut fds = Vec::new();
    for _ in 0..POLLS {
        fds.push(eventfd()?);
    }
    let allowed = cores::allowed()?;
    let (&[here, .., there], asked) = (&allowed[..], run.cpu()) else {
        return Err(Unsupported("there is one CPU only".into()).into());
    };
    run.pin(asked.unwrap_or(here))?;
    let there = if asked == Some(there) { here } else { there };
    let mut ring = Ring::open(POLLS as u32, &[])?;
    let count = run.count as usize;
    let armed = AtomicUsize::new(0);
    run.start()?;
    std::thread::scope(|scope| -> Result<()> {
        let waker = scope.spawn(|| -> Result<()> {
            cores::pin(there)?;
            for index in 0..count {
                while armed.load(Ordering::Acquire) <= index {
                    spin(1);
                }
                // Gives the last kick time to arrive, otherwise this request would need none.
                spin(200);
                signal(&fds[index % POLLS])?;
            }
            Ok(())
        });
        let (mut pushed, mut done) = (0, 0);
        while done < count {
            // Once all are reaped, all are armed again with one enter, so that none arrives during a system call.
            if done == pushed {
                let more = POLLS.min(count - pushed);
                for index in pushed..pushed + more {
                    let fd = &fds[index % POLLS];
                    if index >= POLLS {
                        reset(fd)?;
                    }
                    ring.push(poll(fd), 0);
                }
                ring.submit()?;
                pushed += more;
                armed.store(pushed, Ordering::Release);
            }
            done += ring.reap() as usize;
        }
        waker.join().expect("the waker does not panic")
    })?;
    run.finish(ring);
    run.report.mostly("resched_ipi", 0.8);
    Ok(())
}

fn kick_bursts(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_without_interrupt(&mut target)?;
    let mut ring = Ring::open(32, &[])?;
    run.start()?;
    peeking(&mut ring, &mut target, run.count, 32, || spin(1))?;
    run.finish(ring);
    run.report.mostly("resched_ipi", 0.5);
    Ok(())
}

fn wrong_core(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_without_interrupt(&mut target)?;
    let mut ring = Ring::open(1, &DEFER)?;
    run.start()?;
    blocking(&mut ring, &mut target, run.count, 1)?;
    run.finish(ring);
    run.report.mostly("enter", 0.99);
    Ok(())
}

fn wrong_core_threads(run: &mut Run) -> Result<()> {
    const THREADS: u32 = 3;
    let mut first = run.direct()?;
    run.pin_without_interrupt(&mut first)?;
    let mut targets = vec![first];
    for _ in 1..THREADS {
        targets.push(run.direct()?);
    }
    let count = run.count / THREADS;
    let ready = Barrier::new(THREADS as usize + 1);
    let rings = std::thread::scope(|scope| -> Result<Vec<Ring>> {
        let threads: Vec<_> = targets
            .into_iter()
            .map(|mut target| {
                let ready = &ready;
                // The thread inherits the CPU.
                scope.spawn(move || -> Result<Ring> {
                    let ring = Ring::open(1, &DEFER);
                    ready.wait();
                    ready.wait();
                    let mut ring = ring?;
                    blocking(&mut ring, &mut target, count, 1)?;
                    Ok(ring)
                })
            })
            .collect();
        ready.wait();
        run.start()?;
        ready.wait();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })?;
    rings.into_iter().for_each(|ring| run.finish(ring));
    run.fact("threads", THREADS.into());
    run.report.mostly("enter", 0.99);
    Ok(())
}

fn one_per_enter(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_if_asked()?;
    let mut ring = Ring::open(16, &DEFER)?;
    run.start()?;
    let mut alone = 0;
    groups(run.count, 16, |group| {
        for _ in 0..group {
            let read = target.read();
            ring.push(read, BLOCK as u32);
            ring.submit()?;
            alone += 1;
        }
        ring.wait(group)
    })?;
    run.finish(ring);
    run.fact("enters_with_one_request", alone);
    run.report.mostly("enter", 0.99);
    Ok(())
}

/// Submits a read, computes briefly and calls `stray`, four times in total, then polls for the completion.
fn polling(run: &mut Run, mut stray: impl FnMut()) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_with_interrupt(&mut target)?;
    let mut ring = Ring::open(1, &[Flag::CoopTaskrun])?;
    run.start()?;
    for _ in 0..run.count {
        let read = target.read();
        ring.push(read, BLOCK as u32);
        ring.submit()?;
        let mut found = 0;
        for _ in 0..4 {
            spin(10);
            found += ring.reap();
            stray();
        }
        while found == 0 {
            found = ring.reap();
        }
    }
    run.finish(ring);
    // The four stray kernel entries come early, but some reads complete equally soon.
    run.report.mostly("device_irq", 0.6);
    Ok(())
}

fn faulting_poller(run: &mut Run) -> Result<()> {
    let pages = 4 * run.count as usize;
    let fresh = Memory::new(pages)?;
    let mut next = 0;
    let before = faults();
    polling(run, || {
        fresh.touch(next);
        next += 1;
    })?;
    ensure!(faults() - before >= pages as u64, "fewer page faults than fresh pages");
    run.fact("page_faults", pages as u64);
    Ok(())
}

fn chatty_poller(run: &mut Run) -> Result<()> {
    let mut calls = 0;
    polling(run, || {
        calls += 1;
        // SAFETY: getppid takes no arguments and cannot fail.
        unsafe { libc::getppid() };
    })?;
    run.fact("getppid_calls", calls);
    Ok(())
}

fn idle_poller(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_with_interrupt(&mut target)?;
    let mut ring = Ring::open(1, &[Flag::CoopTaskrun])?;
    run.start()?;
    for _ in 0..run.count {
        ring.push(target.read(), BLOCK as u32);
        ring.submit()?;
        while ring.reap() == 0 {}
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(4) {
            ensure!(ring.reap() == 0, "a completion without a request");
        }
    }
    run.finish(ring);
    run.report.mostly("device_irq", 0.6);
    Ok(())
}

fn clean(run: &mut Run) -> Result<()> {
    batches(run, blocking_ascending)
}

fn clean_random(run: &mut Run) -> Result<()> {
    batches(run, blocking)
}

fn batches(run: &mut Run, load: fn(&mut Ring, &mut Target, u32, u32) -> Result<()>) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_if_asked()?;
    let mut ring = Ring::open(16, &DEFER)?;
    run.start()?;
    load(&mut ring, &mut target, run.count, 16)?;
    run.finish(ring);
    run.report.mostly("enter", 0.99);
    Ok(())
}
