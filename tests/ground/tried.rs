//! Programs to be run with ring flags that they do not request. Each waits in its own way and verifies every byte that
//! it reads. They are unlisted; tests/kernel/tried.rs has the expectations per flag. `facts` contains the flags that
//! the program observed.

use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use anyhow::{Result, ensure};
use io_uring::{IoUring, opcode, types};

use crate::load::BLOCK;
use crate::ring::placed;
use crate::run::{Run, Scenario};

const fn scenario(name: &'static str, about: &'static str, run: fn(&mut Run) -> Result<()>) -> Scenario {
    Scenario { name, about, finding: None, allowed: &[], count: 200, run }
}

pub const SCENARIOS: &[Scenario] = &[
    scenario("tried_enter", "direct reads at depth 4, waited for in io_uring_enter", |run| alone(run, Wait::Enter)),
    scenario("tried_peek", "the same, waited for by looking at the ring", |run| alone(run, Wait::Peek)),
    scenario("tried_poll", "the same, waited for by poll(2) on the ring", |run| alone(run, Wait::Poll)),
    scenario("tried_eventfd", "the same, waited for by reading an eventfd", |run| alone(run, Wait::Eventfd)),
    scenario("tried_deaf", "the same with enter, a pause before each, blind to IORING_SQ_NEED_WAKEUP", |run| {
        alone(run, Wait::Deaf)
    }),
    scenario("tried_disabled", "the same with a ring that starts disabled", disabled),
    scenario("tried_threads", "the same, one ring of three threads", threads),
    scenario("tried_children", "the same in three children, a ring each", children),
    scenario("tried_many", "count rings, one after another, 4 reads each", many),
    scenario("tried_none", "no ring: count reads by pread", none),
];

#[derive(Clone, Copy, PartialEq)]
enum Wait {
    Enter,
    Peek,
    Poll,
    Eventfd,
    /// Like a program with its own system calls that does not know SQPOLL.
    Deaf,
}

/// Block i of the file starts with its own number.
fn numbered(run: &mut Run) -> Result<std::path::PathBuf> {
    let path = run.folder()?.join("numbered");
    let mut bytes = vec![0; 1 << 20];
    for (i, block) in bytes.chunks_mut(BLOCK).enumerate() {
        block[..8].copy_from_slice(&(i as u64 + 7).to_ne_bytes());
    }
    std::fs::write(&path, &bytes)?;
    std::fs::File::open(&path)?.sync_all()?;
    Ok(path)
}

fn open(path: &std::path::Path) -> Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    Ok(std::fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)?)
}

#[repr(align(4096))]
struct Buffers([[u8; BLOCK]; 4]);

/// Makes this many verified reads at depth 4 through this ring.
fn reads(ring: &mut IoUring, file: &std::fs::File, count: u32, wait: Wait) -> Result<()> {
    let mut buffers = Box::new(Buffers([[0; BLOCK]; 4]));
    let event = if wait == Wait::Eventfd {
        // SAFETY: creates a descriptor.
        let fd = unsafe { libc::eventfd(0, 0) };
        ensure!(fd >= 0, "eventfd");
        ring.submitter().register_eventfd(fd)?;
        Some(fd)
    } else {
        None
    };
    let sqpoll = ring.params().is_setup_sqpoll();
    let (mut sent, mut done) = (0, 0);
    let mut free: Vec<u32> = (0..4).collect();
    while done < count {
        let mut queued = 0;
        while sent < count && !free.is_empty() {
            let slot = free.pop().expect("not empty");
            let block = u64::from(sent) % 256;
            let buffer = buffers.0[slot as usize].as_mut_ptr();
            let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), buffer, BLOCK as u32)
                .offset(block * BLOCK as u64)
                .build()
                .user_data(block << 8 | u64::from(slot));
            // SAFETY: the buffer and the file live until the completion.
            placed(sqpoll, || unsafe { ring.submission().push(&entry) })?;
            sent += 1;
            queued += 1;
        }
        match wait {
            Wait::Enter => _ = ring.submit_and_wait(1)?,
            Wait::Deaf => {
                // An SQPOLL thread with an idle time of 1 ms stays awake for up to three ticks of at most 10 ms.
                std::thread::sleep(std::time::Duration::from_millis(40));
                // SAFETY: passes no argument.
                unsafe { ring.submitter().enter::<libc::sigset_t>(queued, 1, 1, None) }?;
            }
            Wait::Peek => _ = ring.submit()?,
            Wait::Poll => {
                ring.submit()?;
                let mut fd = libc::pollfd { fd: ring.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                // SAFETY: one live structure.
                ensure!(unsafe { libc::poll(&mut fd, 1, -1) } == 1, "poll");
            }
            Wait::Eventfd => {
                ring.submit()?;
                let mut count = 0u64;
                // SAFETY: eight live bytes.
                let n = unsafe { libc::read(event.expect("made above"), (&raw mut count).cast(), 8) };
                ensure!(n == 8, "read of an eventfd");
            }
        }
        for cqe in ring.completion() {
            ensure!(cqe.result() == BLOCK as i32, "a read of {}", cqe.result());
            let (slot, block) = (cqe.user_data() as u8, cqe.user_data() >> 8);
            let number = u64::from_ne_bytes(buffers.0[slot as usize][..8].try_into()?);
            ensure!(number == block + 7, "block {block} holds {number}");
            free.push(slot.into());
            done += 1;
        }
    }
    Ok(())
}

/// The kernel's answer: the flags in struct io_uring_params that the crate exposes.
fn told(run: &mut Run, ring: &IoUring) {
    let p = ring.params();
    run.fact("sqpoll", p.is_setup_sqpoll().into());
    run.fact("cq_entries", p.cq_entries().into());
}

fn alone(run: &mut Run, wait: Wait) -> Result<()> {
    let file = open(&numbered(run)?)?;
    run.start()?;
    let mut ring = IoUring::new(8)?;
    told(run, &ring);
    reads(&mut ring, &file, run.count, wait)?;
    run.fact("done", run.count.into());
    Ok(())
}

fn disabled(run: &mut Run) -> Result<()> {
    let file = open(&numbered(run)?)?;
    run.start()?;
    let mut ring = IoUring::builder().setup_r_disabled().build(8)?;
    ring.submitter().register_enable_rings()?;
    told(run, &ring);
    reads(&mut ring, &file, run.count, Wait::Enter)?;
    run.fact("done", run.count.into());
    Ok(())
}

fn threads(run: &mut Run) -> Result<()> {
    let file = open(&numbered(run)?)?;
    run.start()?;
    let ring = std::sync::Mutex::new(IoUring::new(8)?);
    let count = run.count;
    std::thread::scope(|scope| {
        let part = || reads(&mut ring.lock().expect("not poisoned"), &file, count / 4, Wait::Enter);
        // The threads alternate, so that each submits.
        let all: Vec<_> = (0..3).map(|_| scope.spawn(part)).collect();
        all.into_iter().try_for_each(|t| t.join().expect("no panic"))
    })?;
    run.fact("done", (count / 4 * 3).into());
    Ok(())
}

fn children(run: &mut Run) -> Result<()> {
    let path = numbered(run)?;
    run.start()?;
    let mut pids = vec![];
    for _ in 0..3 {
        // SAFETY: this process has a single thread.
        let pid = unsafe { libc::fork() };
        ensure!(pid >= 0, "fork");
        if pid == 0 {
            let part = || reads(&mut IoUring::new(8)?, &open(&path)?, run.count / 3, Wait::Enter);
            std::process::exit(i32::from(part().is_err()));
        }
        pids.push(pid);
    }
    for pid in pids {
        let mut status = 0;
        // SAFETY: a live address.
        ensure!(unsafe { libc::waitpid(pid, &mut status, 0) } == pid && status == 0, "a child failed");
    }
    run.fact("done", (run.count / 3 * 3).into());
    Ok(())
}

fn many(run: &mut Run) -> Result<()> {
    let file = open(&numbered(run)?)?;
    run.start()?;
    for _ in 0..run.count {
        reads(&mut IoUring::new(8)?, &file, 4, Wait::Enter)?;
    }
    run.fact("done", (run.count * 4).into());
    Ok(())
}

fn none(run: &mut Run) -> Result<()> {
    let file = std::fs::File::open(numbered(run)?)?;
    run.start()?;
    let mut block = [0; BLOCK];
    for i in 0..run.count {
        file.read_exact_at(&mut block, u64::from(i) % 256 * BLOCK as u64)?;
    }
    run.fact("done", run.count.into());
    Ok(())
}
