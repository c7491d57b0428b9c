//! Programs that leave completions in the completion queue, and programs that do not.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use io_uring::opcode;

use crate::load::{groups, nops};
use crate::readiness::{eventfd, poll, signal};
use crate::ring::{Flag, Ring};
use crate::run::{Run, Scenario};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "left_lying_asleep",
        about: "64 no-ops at once, whose completions the program takes after 800 ms of sleep",
        finding: Some("left_lying"),
        allowed: &[],
        count: 128,
        run: asleep,
    },
    Scenario {
        name: "left_lying_computing",
        about: "the same, but for 800 ms it computes, without a system call",
        finding: Some("left_lying"),
        allowed: &[],
        count: 128,
        run: computing,
    },
    Scenario {
        name: "left_lying_sqpoll",
        about: "the same with SQPOLL: another thread posts while the program sleeps",
        finding: Some("left_lying"),
        allowed: &["sqpoll_napping", "sqpoll_spinning"],
        count: 128,
        run: sqpoll,
    },
    Scenario {
        name: "left_lying_deep",
        about: "480 no-ops at once, in a completion queue for 8192, taken after 400 ms of sleep",
        finding: Some("left_lying"),
        allowed: &[],
        count: 960,
        run: deep,
    },
    Scenario {
        name: "left_lying_forever",
        about: "64 no-ops, whose completions nobody takes: after 400 ms of sleep the ring is closed",
        finding: Some("left_lying"),
        allowed: &[],
        count: 64,
        run: forever,
    },
    Scenario {
        name: "reaped_at_once",
        about: "no-ops, 8 at a time, taken as soon as they are there",
        finding: None,
        allowed: &[],
        count: 256,
        run: at_once,
    },
    Scenario {
        name: "waits_for_half",
        about: "32 polls of eventfds that another thread writes to every 3 ms; io_uring_enter waits for 16 of them at a time",
        finding: None,
        allowed: &["kick_storm"],
        count: 320,
        run: waits_for_half,
    },
];

const HELD: Duration = Duration::from_millis(800);

fn asleep(run: &mut Run) -> Result<()> {
    held(run, &[], 64, HELD, || std::thread::sleep(HELD))?;
    run.report.all("inline");
    Ok(())
}

fn computing(run: &mut Run) -> Result<()> {
    held(run, &[], 64, HELD, || {
        // The clock is read in user mode.
        let began = Instant::now();
        while began.elapsed() < HELD {
            std::hint::spin_loop();
        }
    })?;
    run.report.all("inline");
    Ok(())
}

fn sqpoll(run: &mut Run) -> Result<()> {
    held(run, &[Flag::Sqpoll(2_000, None)], 64, HELD, || std::thread::sleep(HELD))?;
    run.report.all("sqpoll");
    Ok(())
}

fn deep(run: &mut Run) -> Result<()> {
    let held_for = HELD / 2;
    held(run, &[Flag::CqSize(8_192)], 480, held_for, || std::thread::sleep(held_for))?;
    run.report.all("inline");
    Ok(())
}

/// Submits no-ops in groups, and reaps their completions only after `meanwhile` has returned.
fn held(run: &mut Run, flags: &[Flag], at_once: u32, held_for: Duration, meanwhile: impl Fn()) -> Result<()> {
    run.pin_if_asked()?;
    let mut ring = Ring::open(at_once, flags)?;
    run.start()?;
    let mut most = 0;
    groups(run.count, at_once, |group| {
        (0..group).for_each(|_| ring.push(opcode::Nop::new().build(), 0));
        ring.submit()?;
        meanwhile();
        // The kernel's own count, from fdinfo.
        most = most.max(lying(&ring)?);
        ring.wait(group)?;
        ensure!(lying(&ring)? == 0, "what was taken still lies there");
        Ok(())
    })?;
    run.finish(ring);
    run.fact("held_ms", held_for.as_millis() as u64);
    run.fact("lying", most);
    Ok(())
}

/// Completions in the queue, according to fdinfo.
fn lying(ring: &Ring) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", ring.uring.as_raw_fd()))?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).context("fdinfo has CqHead and CqTail")?;
        Ok::<u32, anyhow::Error>(line.trim().parse()?)
    };
    Ok(field("CqTail:")?.wrapping_sub(field("CqHead:")?).into())
}

fn at_once(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut ring = Ring::open(8, &[])?;
    run.start()?;
    nops(&mut ring, run.count, 8)?;
    run.finish(ring);
    run.fact("lying", 8);
    run.report.all("inline");
    Ok(())
}

fn waits_for_half(run: &mut Run) -> Result<()> {
    const POLLS: usize = 32;
    run.pin_if_asked()?;
    let fds: Vec<OwnedFd> = (0..POLLS).map(|_| eventfd()).collect::<Result<_>>()?;
    let mut ring = Ring::open(POLLS as u32, &[])?;
    run.start()?;
    let (count, mut next) = (run.count as usize, 0);
    let mut push = |ring: &mut Ring, n: usize| {
        for _ in 0..n {
            ring.push(poll(&fds[next % POLLS]), 0);
            next += 1;
        }
    };
    std::thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| -> Result<()> {
            for i in 0..count {
                std::thread::sleep(Duration::from_millis(3));
                signal(&fds[i % POLLS])?;
            }
            Ok(())
        });
        let (mut pushed, mut taken) = (POLLS.min(count), 0);
        push(&mut ring, pushed);
        ring.submit()?;
        while taken < count {
            let half = (POLLS / 2).min(count - taken);
            let got = ring.wait(half as u32)? as usize;
            for i in taken..taken + got {
                crate::readiness::reset(&fds[i % POLLS])?;
            }
            taken += got;
            let more = got.min(count - pushed);
            pushed += more;
            push(&mut ring, more);
            if more > 0 {
                ring.submit()?;
            }
        }
        writer.join().expect("it does not panic")
    })?;
    run.finish(ring);
    run.report.expected.other.max = run.report.completions();
    Ok(())
}

fn forever(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut ring = Ring::open(64, &[])?;
    run.start()?;
    (0..run.count).for_each(|_| ring.push(opcode::Nop::new().build(), 0));
    ring.submit()?;
    std::thread::sleep(HELD / 2);
    run.fact("held_ms", (HELD / 2).as_millis() as u64);
    run.fact("lying", lying(&ring)?);
    ring.leave();
    run.finish(ring);
    run.report.all("inline");
    Ok(())
}
