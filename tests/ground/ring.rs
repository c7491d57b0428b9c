//! A ring that counts its submissions by opcode, and its completions.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Mutex;

use anyhow::{Context, Result};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use crate::report::{Op, Order, RingReport};

/// Setup flags; only requested ones are set.
#[derive(Clone, Copy)]
pub enum Flag {
    CoopTaskrun,
    DeferTaskrun,
    SingleIssuer,
    Iopoll,
    /// Idle time in milliseconds, and the thread's CPU.
    Sqpoll(u32, Option<usize>),
    CqSize(u32),
}

pub const DEFER: [Flag; 2] = [Flag::DeferTaskrun, Flag::SingleIssuer];

pub struct Ring {
    pub uring: IoUring,
    pub tally: Tally,
    sqpoll: bool,
    setup: RingReport,
}

/// Waits for a completion of a ring shared by threads; returns the number of available completions.
///
/// # Safety
///
/// No other thread may use the completion queue meanwhile.
pub unsafe fn wait_shared(uring: &IoUring, tally: &Mutex<Tally>) -> Result<u32> {
    // SAFETY: passes no argument.
    let waited = unsafe { uring.submitter().enter::<libc::sigset_t>(0, 1, EnterFlags::GETEVENTS.bits(), None) };
    if let Err(error) = waited
        && error.kind() != io::ErrorKind::Interrupted
    {
        return Err(error).context("io_uring_enter");
    }
    let mut tally = tally.lock().expect("not poisoned");
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { uring.completion_shared() }.map(|cqe| tally.take(&cqe)).count() as u32)
}

/// A decoded CQE.
pub struct Done {
    /// 1-based number of its request.
    pub number: u32,
    pub result: i32,
    pub flags: u32,
}

/// The counts; separate from the ring, so that threads can share one.
#[derive(Default)]
pub struct Tally {
    ops: BTreeMap<u8, Op>,
    order: Order,
    next: u32,
    newest: u32,
}

/// Queues an entry.
pub fn placed(sqpoll: bool, mut push: impl FnMut() -> Result<(), squeue::PushError>) -> Result<()> {
    given_back(sqpoll, || push().ok()).context("the submission ring is full")
}

/// Retries for some time with SQPOLL, because a completion may arrive before the SQPOLL thread releases its entry: for
/// requests that complete during submission, the kernel posts the completion before it advances the head
/// (io_submit_sqes).
fn given_back<T>(sqpoll: bool, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = std::time::Instant::now();
    loop {
        match look() {
            None if sqpoll && began.elapsed().as_secs() < 5 => std::thread::yield_now(),
            seen => return seen,
        }
    }
}

impl Ring {
    pub fn open(entries: u32, flags: &[Flag]) -> Result<Ring> {
        let mut builder = IoUring::builder();
        let mut names = Vec::new();
        let mut sqpoll = false;
        for flag in flags {
            let name = match *flag {
                Flag::CoopTaskrun => (builder.setup_coop_taskrun(), "coop_taskrun").1,
                Flag::DeferTaskrun => (builder.setup_defer_taskrun(), "defer_taskrun").1,
                Flag::SingleIssuer => (builder.setup_single_issuer(), "single_issuer").1,
                Flag::Iopoll => (builder.setup_iopoll(), "iopoll").1,
                Flag::CqSize(size) => (builder.setup_cqsize(size), "cqsize").1,
                Flag::Sqpoll(idle, cpu) => {
                    sqpoll = true;
                    builder.setup_sqpoll(idle);
                    if let Some(cpu) = cpu {
                        builder.setup_sqpoll_cpu(cpu as u32);
                        names.push("sq_aff".to_string());
                    }
                    "sqpoll"
                }
            };
            names.push(name.to_string());
        }
        let uring = builder.build(entries).with_context(|| format!("io_uring_setup with {names:?}"))?;
        let setup = RingReport {
            tgid: std::process::id(),
            // SAFETY: gettid takes no arguments and cannot fail.
            tid: unsafe { libc::gettid() } as u32,
            fd: uring.as_raw_fd(),
            flags: names,
            sq_entries: uring.params().sq_entries(),
            cq_entries: uring.params().cq_entries(),
            ..Default::default()
        };
        Ok(Ring { uring, tally: Tally::default(), sqpoll, setup })
    }

    /// Queues a request. `asked`: maximum number of bytes that it transfers, 0 if none.
    pub fn push(&mut self, entry: squeue::Entry, asked: u32) {
        let entry = self.tally.stamp(entry, asked);
        // SAFETY: callers keep files, buffers and arguments until the request's last completion.
        placed(self.sqpoll, || unsafe { self.uring.submission().push(&entry) }).expect("the submission ring has room");
    }

    /// Queues a no-op under another opcode number, which need not exist.
    pub fn push_of(&mut self, code: u8) -> Result<()> {
        let nop = self.tally.stamp(opcode::Nop::new().build(), 0);
        self.tally.ops.entry(code).or_default().requests += 1;
        self.tally.ops.get_mut(&opcode::Nop::CODE).expect("it was just stamped").requests -= 1;
        let data = u64::from(code) << 56 | u64::from(self.tally.next);
        // SAFETY: an entry is a plain 64-byte structure that starts with the opcode.
        let entry = unsafe {
            let mut bytes: [u8; 64] = std::mem::transmute(nop.user_data(data));
            bytes[0] = code;
            std::mem::transmute::<[u8; 64], squeue::Entry>(bytes)
        };
        // SAFETY: the entry refers to no memory.
        unsafe { self.uring.submission().push(&entry) }.context("the submission ring is full")
    }

    /// The same with the previous request's user data.
    pub fn push_alike(&mut self, entry: squeue::Entry, asked: u32) {
        self.tally.next -= 1;
        self.push(entry, asked);
    }

    /// Queues a request that requests no completion on success; `succeeds`: whether it will succeed.
    pub fn push_skipping(&mut self, entry: squeue::Entry, asked: u32, succeeds: bool) {
        let op = self.tally.ops.entry(entry.get_opcode() as u8).or_default();
        op.skips += 1;
        op.skipped += u64::from(succeeds);
        self.push(entry.flags(squeue::Flags::SKIP_SUCCESS), asked);
    }

    /// Queues a request that is cancelled without a completion, because its predecessor in the chain fails.
    pub fn push_cancelled(&mut self, entry: squeue::Entry) {
        let op = self.tally.ops.entry(entry.get_opcode() as u8).or_default();
        op.skipped += 1;
        op.unposted += 1;
        self.push(entry, 0);
    }

    /// Resizes the ring (IORING_REGISTER_RESIZE_RINGS). Afterwards, the kernel uses memory that this program has not
    /// mapped, so the ring must not be used.
    pub fn resize(&mut self, sq_entries: u32, cq_entries: u32) -> io::Result<()> {
        const RESIZE_RINGS: u32 = 33;
        const CQSIZE: u32 = 1 << 3;
        // struct io_uring_params: 120 bytes, which start with sq_entries, cq_entries and flags.
        let mut params = [0u32; 30];
        (params[0], params[1], params[2]) = (sq_entries, cq_entries, CQSIZE);
        let fd = self.uring.as_raw_fd();
        // SAFETY: a live structure, which is as long as the kernel assumes.
        let failed = unsafe { libc::syscall(libc::SYS_io_uring_register, fd, RESIZE_RINGS, params.as_mut_ptr(), 1) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        (self.setup.sq_entries, self.setup.cq_entries) = (sq_entries, cq_entries);
        Ok(())
    }

    /// One io_uring_enter, which waits if `wait` is not 0. Returns the number of submitted requests.
    pub fn enter(&mut self, submit: u32, wait: u32) -> Result<u32> {
        let flags = if wait > 0 { EnterFlags::GETEVENTS } else { EnterFlags::empty() };
        self.enter_with(submit, wait, flags)
    }

    pub fn enter_with(&mut self, submit: u32, wait: u32, flags: EnterFlags) -> Result<u32> {
        self.setup.enters += 1;
        // SAFETY: passes no argument; callers guarantee the requests' memory.
        match unsafe { self.uring.submitter().enter::<libc::sigset_t>(submit, wait, flags.bits(), None) } {
            Ok(taken) => Ok(taken as u32),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error).context("io_uring_enter"),
        }
    }

    /// Submits all queued requests: with one enter, or more if the kernel stops at a request; with SQPOLL, without an
    /// enter unless the thread sleeps.
    pub fn submit(&mut self) -> Result<()> {
        if self.sqpoll {
            if self.uring.submission().need_wakeup() {
                self.setup.sq_wakeups += 1;
                self.enter_with(0, 0, EnterFlags::SQ_WAKEUP)?;
            }
            return Ok(());
        }
        loop {
            let queued = self.uring.submission().len() as u32;
            if queued == 0 {
                return Ok(());
            }
            self.enter(queued, 0)?;
        }
    }

    /// Reaps and counts all available completions without entering the kernel.
    pub fn reap(&mut self) -> u32 {
        self.reap_each(|_| ())
    }

    pub fn reap_each(&mut self, mut each: impl FnMut(Done)) -> u32 {
        let mut reaped = 0;
        for cqe in self.uring.completion() {
            each(self.tally.take(&cqe));
            reaped += 1;
        }
        reaped
    }

    /// Counts all available completions without reaping them.
    pub fn leave(&mut self) {
        let mut queue = self.uring.completion();
        for cqe in &mut queue {
            self.tally.take(&cqe);
        }
        // Dropping it would advance the head.
        std::mem::forget(queue);
    }

    /// Waits in the kernel until at least `count` completions have been reaped; returns their number.
    pub fn wait(&mut self, count: u32) -> Result<u32> {
        let mut taken = self.reap();
        while taken < count {
            self.enter(0, count - taken)?;
            taken += self.reap();
        }
        Ok(taken)
    }

    pub fn count_enters(&mut self, enters: u64) {
        self.setup.enters += enters;
    }

    /// Records that all requests with this opcode are punted to io-wq.
    pub fn punted(&mut self, code: u8) {
        let requests = self.tally.ops.get(&code).map_or(0, |op| op.requests);
        self.setup.punted.insert(name(code).to_string(), requests);
    }

    pub fn refused(&mut self, requests: u64) {
        self.setup.refused += requests;
    }

    pub fn overflowed(&mut self, completions: u64) {
        self.setup.overflows += completions;
    }

    pub fn report(mut self) -> RingReport {
        let submission = given_back(self.sqpoll, || self.uring.submission().is_empty().then_some(()));
        submission.expect("all requests were submitted");
        let Tally { ops, order, .. } = self.tally;
        let ops: BTreeMap<u8, Op> = ops.into_iter().filter(|(_, op)| op.requests > 0).collect();
        for (code, op) in &ops {
            let finished = op.completions - op.more + op.skipped;
            assert_eq!(op.requests, finished, "requests and final completions of {}", name(*code));
        }
        let opcodes = ops.into_iter().map(|(code, op)| (name(code).to_string(), op)).collect();
        RingReport { opcodes, order, ..self.setup }
    }
}

impl Tally {
    /// Numbers a request. Its user data contains the opcode, the requested bytes, and the number.
    pub fn stamp(&mut self, entry: squeue::Entry, asked: u32) -> squeue::Entry {
        let code = entry.get_opcode() as u8;
        self.next += 1;
        self.ops.entry(code).or_default().requests += 1;
        assert!(asked < 1 << 24);
        entry.user_data(u64::from(code) << 56 | u64::from(asked) << 32 | u64::from(self.next))
    }

    pub fn take(&mut self, cqe: &cqueue::Entry) -> Done {
        let data = cqe.user_data();
        let (code, asked, seq) = ((data >> 56) as u8, (data >> 32) as u32 & 0xff_ffff, data as u32);
        let op = self.ops.get_mut(&code).expect("the completion is of a request that was pushed");
        let (more, notif) = (cqueue::more(cqe.flags()), cqueue::notif(cqe.flags()));
        if notif {
            op.completions += 1;
            op.copied += u64::from(cqe.result() < 0);
        } else {
            op.add(cqe.result(), asked);
        }
        op.more += u64::from(more);
        op.notif += u64::from(notif);
        if !more {
            self.order.completions += 1;
            if seq < self.newest {
                self.order.overtaken += 1;
                self.order.max_displacement = self.order.max_displacement.max(u64::from(self.newest - seq));
            }
            self.newest = self.newest.max(seq);
        }
        Done { number: seq, result: cqe.result(), flags: cqe.flags() }
    }
}

/// The kernel's name of an opcode, in lower case.
fn name(code: u8) -> &'static str {
    match code {
        opcode::Nop::CODE => "nop",
        opcode::Fsync::CODE => "fsync",
        opcode::PollAdd::CODE => "poll_add",
        opcode::Timeout::CODE => "timeout",
        opcode::OpenAt::CODE => "openat",
        opcode::Close::CODE => "close",
        opcode::Statx::CODE => "statx",
        opcode::Read::CODE => "read",
        opcode::ReadFixed::CODE => "read_fixed",
        opcode::Write::CODE => "write",
        opcode::Send::CODE => "send",
        opcode::Recv::CODE => "recv",
        opcode::Splice::CODE => "splice",
        opcode::SendZc::CODE => "send_zc",
        opcode::SendMsgZc::CODE => "sendmsg_zc",
        opcode::ProvideBuffers::CODE => "provide_buffers",
        250 => "invalid",
        _ => panic!("opcode {code} has no name here"),
    }
}
