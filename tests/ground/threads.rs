//! Threads that delay each other: one waits for its CPU, one waits for another thread's submissions.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use io_uring::{EnterFlags, opcode, types};

use crate::cores;
use crate::load::spin;
use crate::network::{MESSAGE, pipe, read_all, socketpair, write_all};
use crate::ring::{DEFER, Flag, Ring, placed, wait_shared};
use crate::run::{Run, Scenario, Unsupported};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "waiting_for_cpu",
        about: "DEFER_TASKRUN, a recv that another CPU makes ready, waited for on a CPU that two busy threads have",
        finding: Some("waiting_for_cpu"),
        allowed: &[],
        count: 300,
        run: waiting_for_cpu,
    },
    Scenario {
        name: "cpu_of_its_own",
        about: "the same without the busy threads",
        finding: None,
        allowed: &[],
        count: 300,
        run: cpu_of_its_own,
    },
    Scenario {
        name: "reaped_elsewhere",
        about: "no flags, one thread submits 8 recvs and sleeps in a futex, another one waits in io_uring_enter for them",
        finding: Some("reaped_elsewhere"),
        // A thread woken on the sender's CPU waits until the sender sleeps.
        allowed: &["reordered", "waiting_for_cpu"],
        count: 2_400,
        run: reaped_elsewhere,
    },
    Scenario {
        name: "reaped_elsewhere_sqpoll",
        about: "the same with SQPOLL: its thread posts them, whoever waits",
        finding: None,
        allowed: &["reordered", "sqpoll_spinning", "sqpoll_napping"],
        count: 2_400,
        run: reaped_elsewhere_sqpoll,
    },
];

/// Unlisted, because the ring has two records, one per process that uses it.
pub const ACROSS: &[Scenario] = &[Scenario {
    name: "reaped_by_a_child",
    about: "no flags, a process submits a recv and sleeps in read(2), its child waits for it in io_uring_enter",
    finding: Some("reaped_elsewhere"),
    allowed: &[],
    count: 200,
    run: reaped_by_a_child,
}];

fn two_cpus() -> Result<(usize, usize)> {
    match cores::allowed()?[..] {
        [here, .., there] => Ok((here, there)),
        _ => Err(Unsupported("there is one CPU only".into()).into()),
    }
}

fn waiting_for_cpu(run: &mut Run) -> Result<()> {
    received_beside(run, &["busy-a", "busy-b"])
}

fn cpu_of_its_own(run: &mut Run) -> Result<()> {
    received_beside(run, &[])
}

/// Receives one message at a time from the other CPU, next to busy threads with these names on this CPU.
fn received_beside(run: &mut Run, busy: &[&str]) -> Result<()> {
    let (here, there) = two_cpus()?;
    run.pin(here)?;
    let (ours, theirs) = socketpair(libc::SOCK_STREAM)?;
    let mut buffer = [0u8; MESSAGE];
    let mut ring = Ring::open(1, &DEFER)?;
    let (armed, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let count = run.count;
    run.start()?;
    std::thread::scope(|scope| -> Result<()> {
        let sender = scope.spawn(|| {
            cores::pin(there)?;
            send_to_sleepers(&theirs, count, &armed)
        });
        for name in busy {
            let busy = || {
                // They inherit this thread's CPU.
                while !over.load(Ordering::Relaxed) {
                    spin(1_000);
                }
            };
            std::thread::Builder::new().name((*name).into()).spawn_scoped(scope, busy)?;
        }
        if !busy.is_empty() {
            // A thread that slept may preempt others, unless its policy does not preempt and its weight is smaller than
            // theirs.
            interrupts_nobody()?;
            nice(10)?;
        }
        let received = (1..=count).try_for_each(|number| -> Result<()> {
            let recv = opcode::Recv::new(types::Fd(ours.as_raw_fd()), buffer.as_mut_ptr(), MESSAGE as u32);
            ring.push(recv.build(), MESSAGE as u32);
            ring.submit()?;
            armed.store(number, Ordering::Release);
            ring.wait(1).map(drop)
        });
        over.store(true, Ordering::Relaxed);
        received?;
        sender.join().expect("the sender does not panic")
    })?;
    run.finish(ring);
    run.fact("busy_threads", busy.len() as u64);
    // If the thread lost its CPU before it slept, the message was there first.
    run.report.mostly("enter", 0.9);
    Ok(())
}

/// Sends one message per receive, after it is armed and its thread has had time to sleep (the thread may lose its CPU
/// before).
fn send_to_sleepers(socket: &OwnedFd, count: u32, armed: &AtomicU32) -> Result<()> {
    (1..=count).try_for_each(|number| {
        while armed.load(Ordering::Acquire) < number {
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_millis(1));
        write_all(socket.as_raw_fd(), &[7; MESSAGE])
    })
}

fn reaped_by_a_child(run: &mut Run) -> Result<()> {
    let (ours, theirs) = socketpair(libc::SOCK_STREAM)?;
    let ((go, goes), (done, is_done)) = (pipe()?, pipe()?);
    let mut buffer = [0u8; MESSAGE];
    let mut ring = Ring::open(1, &[])?;
    // SAFETY: this process has a single thread, and its child only makes system calls.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(std::io::Error::last_os_error()).context("fork"),
        0 => {
            drop((goes, done));
            let mut waited = || -> Result<()> {
                loop {
                    read_all(go.as_raw_fd(), &mut [0])?;
                    ring.enter(0, 1)?;
                    write_all(is_done.as_raw_fd(), &[0])?;
                }
            };
            drop(waited());
            // SAFETY: exits the child without the parent's clean-up.
            unsafe { libc::_exit(0) }
        }
        child => child,
    };
    drop((go, is_done));
    let armed = AtomicU32::new(0);
    let count = run.count;
    run.start()?;
    std::thread::scope(|scope| -> Result<()> {
        let sender = scope.spawn(|| send_to_sleepers(&theirs, count, &armed));
        for number in 1..=count {
            let recv = opcode::Recv::new(types::Fd(ours.as_raw_fd()), buffer.as_mut_ptr(), MESSAGE as u32);
            ring.push(recv.build(), MESSAGE as u32);
            ring.submit()?;
            write_all(goes.as_raw_fd(), &[0])?;
            armed.store(number, Ordering::Release);
            read_all(done.as_raw_fd(), &mut [0])?;
            ring.reap();
        }
        sender.join().expect("the sender does not panic")
    })?;
    drop(goes);
    let mut status = 0;
    // SAFETY: waits for this process's child; the call writes the status.
    ensure!(unsafe { libc::waitpid(child, &mut status, 0) } == child && status == 0, "the child ended with {status}");
    run.finish(ring);
    run.fact("child", child as u64);
    run.report.mostly("syscall_exit", 0.8);
    Ok(())
}

/// SCHED_BATCH for this thread, which needs no privileges: after a wake-up, this thread waits until the others' time
/// slice ends.
fn interrupts_nobody() -> Result<()> {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the struct outlives the call; 0 is the calling thread.
    let failed = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &priority) };
    ensure!(failed == 0, std::io::Error::last_os_error());
    Ok(())
}

fn nice(value: libc::c_int) -> Result<()> {
    // SAFETY: plain numbers; 0 is the calling thread.
    let failed = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) };
    ensure!(failed == 0, std::io::Error::last_os_error());
    Ok(())
}

fn reaped_elsewhere(run: &mut Run) -> Result<()> {
    submitted_and_reaped(run, &[])?;
    // The submitter is woken in its futex for it.
    run.report.mostly("syscall_exit", 0.8);
    Ok(())
}

fn reaped_elsewhere_sqpoll(run: &mut Run) -> Result<()> {
    submitted_and_reaped(run, &[Flag::Sqpoll(1_000, None)])?;
    run.report.all("sqpoll");
    Ok(())
}

/// Progress of the three threads.
#[derive(Default)]
struct Progress {
    submitted: u32,
    reaped: u32,
}

fn submitted_and_reaped(run: &mut Run, flags: &[Flag]) -> Result<()> {
    const AT_ONCE: u32 = 8;
    run.pin_if_asked()?;
    let pairs: Vec<(OwnedFd, OwnedFd)> = (0..AT_ONCE).map(|_| socketpair(libc::SOCK_STREAM)).collect::<Result<_>>()?;
    let buffers = [[0u8; MESSAGE]; AT_ONCE as usize];
    let count = run.count / AT_ONCE * AT_ONCE;
    let mut ring = Ring::open(AT_ONCE, flags)?;
    let tally = Mutex::new(std::mem::take(&mut ring.tally));
    let (progress, moved) = (Mutex::new(Progress::default()), Condvar::new());
    let (uring, polled) = (&ring.uring, !flags.is_empty());
    let until = |reached: &dyn Fn(&Progress) -> bool| {
        drop(moved.wait_while(progress.lock().expect("not poisoned"), |p| !reached(p)).expect("as above"));
    };
    let submit = || -> Result<()> {
        for before in (0..count).step_by(AT_ONCE as usize) {
            {
                let mut tally = tally.lock().expect("not poisoned");
                for ((ours, _), buffer) in pairs.iter().zip(&buffers) {
                    let into = buffer.as_ptr().cast_mut();
                    let recv = opcode::Recv::new(types::Fd(ours.as_raw_fd()), into, MESSAGE as u32);
                    let recv = tally.stamp(recv.build(), MESSAGE as u32);
                    // SAFETY: this thread owns the submission queue; the buffers are not read, and outlive their use by
                    // the ring.
                    placed(polled, || unsafe { uring.submission_shared().push(&recv) })?;
                }
            }
            // SAFETY: no argument is passed; with SQPOLL the need for a wake-up was checked.
            unsafe {
                if !polled {
                    uring.submitter().enter::<libc::sigset_t>(AT_ONCE, 0, 0, None)?;
                } else if uring.submission_shared().need_wakeup() {
                    uring.submitter().enter::<libc::sigset_t>(0, 0, EnterFlags::SQ_WAKEUP.bits(), None)?;
                }
            }
            progress.lock().expect("not poisoned").submitted = before + AT_ONCE;
            moved.notify_all();
            until(&|p| p.reaped == before + AT_ONCE);
        }
        Ok(())
    };
    let send = || -> Result<()> {
        for before in (0..count).step_by(AT_ONCE as usize) {
            until(&|p| p.submitted == before + AT_ONCE);
            // Gives the other threads time to fall asleep.
            std::thread::sleep(Duration::from_micros(500));
            pairs.iter().try_for_each(|(_, theirs)| write_all(theirs.as_raw_fd(), &[7; MESSAGE]))?;
        }
        Ok(())
    };
    run.start()?;
    // If a thread fails, threads that wait for it would never return.
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        std::process::exit(1);
    }));
    let (submit, send) = (|| submit().expect("submitted"), || send().expect("sent"));
    let (submit, send) = (&submit, &send);
    let mut waits = 0;
    std::thread::scope(|scope| {
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        thread("submitter").spawn_scoped(scope, submit).expect("a thread");
        thread("sender").spawn_scoped(scope, send).expect("a thread");
        let mut done = 0;
        while done < count {
            waits += 1;
            // SAFETY: this thread owns the completion queue.
            let found = unsafe { wait_shared(uring, &tally) }.expect("waited");
            done += found;
            progress.lock().expect("not poisoned").reaped = done;
            moved.notify_all();
        }
    });
    ring.tally = tally.into_inner().expect("not poisoned");
    run.finish(ring);
    // The kernel does not count a wait whose completions are already available.
    run.fact("waits_at_most", waits);
    run.fact("submitted_elsewhere", count.into());
    Ok(())
}
