//! Completions that become ready in an order chosen by this program, and their order in the queue. Inversions and
//! displacements are counted here pair by pair, directly by their definitions.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, ensure};
use io_uring::{cqueue, opcode, squeue, types};

use crate::load::groups;
use crate::network::{Buffers, MESSAGE, socketpair, write_all};
use crate::readiness::{eventfd, poll, reset, signal};
use crate::ring::{DEFER, Flag, Ring};
use crate::run::{Run, Scenario};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "order_defer",
        about: "DEFER_TASKRUN: polls and reads of 16 eventfds that another thread writes to in a shuffled order",
        finding: None,
        allowed: &["reordered"],
        count: 8_000,
        run: |run| shuffled(run, &DEFER),
    },
    Scenario {
        name: "order_coop",
        about: "the same with COOP_TASKRUN",
        finding: None,
        allowed: &["reordered"],
        count: 8_000,
        run: |run| shuffled(run, &[Flag::CoopTaskrun]),
    },
    Scenario {
        name: "order_default",
        about: "the same without flags",
        finding: None,
        allowed: &["reordered", "kick_storm"],
        count: 8_000,
        run: |run| shuffled(run, &[]),
    },
    Scenario {
        name: "order_two_threads",
        about: "COOP_TASKRUN, two threads submit to one ring: what the one submitted waits in it while the other's is posted",
        finding: Some("delivered_out_of_order"),
        allowed: &["chatty_poller"],
        count: 8_000,
        run: two_threads,
    },
    Scenario {
        name: "order_multishot",
        about: "multishot recv on 8 sockets that get 16 messages at a time in a shuffled order, each one at least",
        finding: None,
        allowed: &[],
        count: 8_000,
        run: multishot,
    },
    Scenario {
        name: "same_user_data",
        about: "two multishot recv with the same user data, which is all that their completions name",
        finding: None,
        allowed: &[],
        count: 800,
        run: same_user_data,
    },
];

const REQUESTS: usize = 16;

/// The activity so far, round by round; nothing is in flight between rounds.
#[derive(Default)]
struct Truth {
    /// For requests that do more than wait; `None` without such requests.
    order: Sum,
    waits: u64,
    delivery: Sum,
    without_ready: u64,
}

#[derive(Default)]
struct Sum {
    completions: u64,
    inversions: u64,
    max_displacement: u64,
}

impl Sum {
    /// `places`: each request's position in the other order, in queue order.
    fn round(&mut self, places: &[usize]) {
        self.completions += places.len() as u64;
        for (here, place) in places.iter().enumerate() {
            // The request overtook one that is later in this order but earlier in the other.
            self.inversions += u64::from(places[here + 1..].iter().any(|later| later < place));
            let before_there = places.iter().filter(|other| *other < place).count();
            self.max_displacement = self.max_displacement.max(here.abs_diff(before_there) as u64);
        }
    }
}

impl Truth {
    /// `found`: the requests in queue order, by their position among the submitted ones. `ready`: in the order in which
    /// they became ready. `is_wait`: requests without a position in the submission order.
    fn round(&mut self, found: &[usize], ready: &[usize], is_wait: impl Fn(usize) -> bool) {
        let others: Vec<usize> = found.iter().copied().filter(|request| !is_wait(*request)).collect();
        self.waits += (found.len() - others.len()) as u64;
        self.order.round(&others);
        self.delivery_round(found, ready);
    }

    fn delivery_round(&mut self, found: &[usize], ready: &[usize]) {
        let place = |request: &usize| ready.iter().position(|r| r == request).expect("it was made ready");
        self.delivery.round(&found.iter().map(place).collect::<Vec<_>>());
    }

    fn tell(self, run: &mut Run) {
        run.fact("order_waits", self.waits);
        run.fact("order_completions", self.order.completions);
        run.fact("order_inversions", self.order.inversions);
        run.fact("order_max_displacement", self.order.max_displacement);
        run.fact("delivery_completions", self.delivery.completions);
        run.fact("delivery_inversions", self.delivery.inversions);
        run.fact("delivery_max_displacement", self.delivery.max_displacement);
        run.fact("delivery_without_ready", self.without_ready);
    }
}

/// A fixed seed, so that every run uses the same shuffles.
struct Shuffle(u64);

impl Shuffle {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn shuffle<T>(&mut self, these: &mut [T]) {
        for last in (1..these.len()).rev() {
            these.swap(last, self.below(last + 1));
        }
    }
}

/// One poll or read per eventfd, alternately.
fn wait_for(fds: &[OwnedFd], which: usize, buffers: &mut [u64]) -> (squeue::Entry, u32) {
    if is_poll(which) {
        return (poll(&fds[which]), 0);
    }
    let buffer = (&raw mut buffers[which]).cast();
    (opcode::Read::new(types::Fd(fds[which].as_raw_fd()), buffer, 8).offset(u64::MAX).build(), 8)
}

fn is_poll(which: usize) -> bool {
    which.is_multiple_of(2)
}

/// A round's requests in queue order. User data numbers all requests of the ring.
fn found(ring: &mut Ring, before: u32) -> Vec<usize> {
    let mut found = vec![];
    ring.reap_each(|cqe| found.push((cqe.number - 1 - before) as usize));
    found
}

fn shuffled(run: &mut Run, flags: &[Flag]) -> Result<()> {
    run.pin_if_asked()?;
    let fds: Vec<OwnedFd> = (0..REQUESTS).map(|_| eventfd()).collect::<Result<_>>()?;
    let mut buffers = [0u64; REQUESTS];
    let mut ring = Ring::open(REQUESTS as u32, flags)?;
    let (mut truth, mut random) = (Truth::default(), Shuffle(1));
    // The latest round that the writer may do, and the latest that it has done.
    let (begun, done) = (AtomicU32::new(0), AtomicU32::new(0));
    let ready = Mutex::new(vec![]);
    run.start()?;
    let rounds = run.count / REQUESTS as u32;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<()> {
            for round in 1..=rounds {
                while begun.load(Ordering::Acquire) < round {
                    std::thread::yield_now();
                }
                for which in ready.lock().expect("nobody panics").iter() {
                    signal(&fds[*which])?;
                }
                done.store(round, Ordering::Release);
            }
            Ok(())
        });
        for round in 1..=rounds {
            let mut order: Vec<usize> = (0..REQUESTS).collect();
            random.shuffle(&mut order);
            ready.lock().expect("nobody panics").clone_from(&order);
            for which in 0..REQUESTS {
                let (entry, asked) = wait_for(&fds, which, &mut buffers);
                ring.push(entry, asked);
            }
            ring.submit()?;
            begun.store(round, Ordering::Release);
            // In every second round, the thread is in the kernel while requests become ready, otherwise in user mode.
            while round % 2 == 0 && done.load(Ordering::Acquire) < round {
                std::hint::spin_loop();
            }
            let mut queue = vec![];
            while queue.len() < REQUESTS {
                ring.enter(0, (REQUESTS - queue.len()) as u32)?;
                queue.extend(found(&mut ring, (round - 1) * REQUESTS as u32));
            }
            truth.round(&queue, &order, is_poll);
            fds.iter().step_by(2).try_for_each(reset)?;
        }
        writer.join().expect("the writer does not panic")
    })?;
    run.finish(ring);
    truth.tell(run);
    run.report.expected.other.max = run.report.completions();
    Ok(())
}

/// The second thread makes all requests ready. Its own submissions are posted at its calls' exits; the first thread
/// stays in user mode until then.
fn two_threads(run: &mut Run) -> Result<()> {
    const HALF: usize = REQUESTS / 2;
    run.pin_if_asked()?;
    let fds: Vec<OwnedFd> = (0..REQUESTS).map(|_| eventfd()).collect::<Result<_>>()?;
    let ring = Mutex::new(Ring::open(REQUESTS as u32, &[Flag::CoopTaskrun])?);
    let submit = |half: std::ops::Range<usize>| -> Result<()> {
        let mut ring = ring.lock().expect("nobody panics");
        fds[half].iter().for_each(|fd| ring.push(poll(fd), 0));
        ring.submit()
    };
    let mut truth = Truth::default();
    let ready = Mutex::new((0..REQUESTS).collect::<Vec<_>>());
    // Odd: it is the second thread's turn.
    let turn = AtomicU32::new(0);
    run.start()?;
    let rounds = run.count / REQUESTS as u32;
    std::thread::scope(|scope| {
        let second = scope.spawn(|| -> Result<()> {
            let mut random = Shuffle(2);
            for round in 0..rounds {
                while turn.load(Ordering::Acquire) < 2 * round + 1 {
                    std::thread::yield_now();
                }
                submit(HALF..REQUESTS)?;
                let mut order = ready.lock().expect("nobody panics");
                random.shuffle(&mut order);
                order.iter().try_for_each(|which| signal(&fds[*which]))?;
                drop(order);
                turn.store(2 * round + 2, Ordering::Release);
            }
            Ok(())
        });
        for round in 0..rounds {
            submit(0..HALF)?;
            turn.store(2 * round + 1, Ordering::Release);
            while turn.load(Ordering::Acquire) < 2 * round + 2 {
                std::hint::spin_loop();
            }
            let mut ring = ring.lock().expect("nobody panics");
            let mut queue = vec![];
            while queue.len() < REQUESTS {
                ring.enter(0, (REQUESTS - queue.len()) as u32)?;
                queue.extend(found(&mut ring, round * REQUESTS as u32));
            }
            // All are polls, which therefore count in the order.
            truth.round(&queue, &ready.lock().expect("nobody panics"), |_| false);
            fds.iter().try_for_each(reset)?;
        }
        second.join().expect("the second thread does not panic")
    })?;
    run.finish(ring.into_inner().expect("nobody panics"));
    truth.tell(run);
    run.report.expected.other.max = run.report.completions();
    Ok(())
}

/// A second message for a request that has already been woken does not wake it again: the run caused by the first
/// message finds both, and the time at which the second was ready is invisible.
fn multishot(run: &mut Run) -> Result<()> {
    const SOCKETS: usize = 8;
    const GROUP: u16 = 1;
    const BUFFERS: u16 = 32;
    run.pin_if_asked()?;
    let mut pairs: Vec<(OwnedFd, OwnedFd)> =
        (0..SOCKETS).map(|_| socketpair(libc::SOCK_SEQPACKET)).collect::<Result<_>>()?;
    let mut ring = Ring::open(u32::from(BUFFERS), &DEFER)?;
    let mut buffers = Buffers::register(&ring, GROUP, BUFFERS)?;
    (0..BUFFERS).for_each(|buffer| buffers.give(buffer));
    run.start()?;
    for (ours, _) in &pairs {
        ring.push(opcode::RecvMulti::new(types::Fd(ours.as_raw_fd()), GROUP).build(), 0);
    }
    ring.submit()?;
    let (mut truth, mut random) = (Truth::default(), Shuffle(3));
    let mut bytes = 0;
    groups(run.count, 2 * SOCKETS as u32, |group| {
        // One message per socket, and as many again for random sockets.
        let mut to: Vec<usize> =
            (0..group as usize).map(|n| if n < SOCKETS { n } else { random.below(SOCKETS) }).collect();
        random.shuffle(&mut to);
        to.iter().try_for_each(|socket| write_all(pairs[*socket].1.as_raw_fd(), &[7; MESSAGE]))?;
        let mut queue = vec![];
        while queue.len() < to.len() {
            ring.enter(0, (to.len() - queue.len()) as u32)?;
            ring.reap_each(|cqe| {
                queue.push(cqe.number as usize - 1);
                bytes += cqe.result.max(0) as u64;
                if let Some(buffer) = cqueue::buffer_select(cqe.flags) {
                    buffers.give(buffer);
                }
            });
        }
        truth.without_ready += (to.len() - firsts(&to).len()) as u64;
        truth.delivery_round(&firsts(&queue), &firsts(&to));
        Ok(())
    })?;
    // Closing a socket's peer ends its request.
    let mut last: Vec<usize> = (0..SOCKETS).collect();
    random.shuffle(&mut last);
    for socket in &last {
        // A new pair takes its place, so that only the peer's end is closed now.
        let (ours, theirs) = socketpair(libc::SOCK_SEQPACKET)?;
        drop(std::mem::replace(&mut pairs[*socket].1, theirs));
        drop(ours);
    }
    let mut queue = vec![];
    while queue.len() < SOCKETS {
        ring.enter(0, (SOCKETS - queue.len()) as u32)?;
        queue.extend(found(&mut ring, 0));
    }
    truth.delivery_round(&queue, &last);
    ensure!(queue.len() == SOCKETS, "more completions than requests are left");
    run.finish(ring);
    run.report.rings[0].opcodes.get_mut("recv").expect("some were pushed").bytes = bytes;
    truth.tell(run);
    run.report.all("enter");
    Ok(())
}

fn same_user_data(run: &mut Run) -> Result<()> {
    const GROUP: u16 = 1;
    run.pin_if_asked()?;
    let pairs = [socketpair(libc::SOCK_SEQPACKET)?, socketpair(libc::SOCK_SEQPACKET)?];
    let mut ring = Ring::open(8, &DEFER)?;
    let mut buffers = Buffers::register(&ring, GROUP, 8)?;
    (0..8).for_each(|buffer| buffers.give(buffer));
    run.start()?;
    let receive = |(ours, _): &(OwnedFd, OwnedFd)| opcode::RecvMulti::new(types::Fd(ours.as_raw_fd()), GROUP).build();
    ring.push(receive(&pairs[0]), 0);
    ring.push_alike(receive(&pairs[1]), 0);
    ring.submit()?;
    let mut bytes = 0;
    groups(run.count, 2, |group| {
        pairs.iter().take(group as usize).try_for_each(|(_, theirs)| write_all(theirs.as_raw_fd(), &[7; MESSAGE]))?;
        let mut done = 0;
        while done < group {
            ring.enter(0, group - done)?;
            done += ring.reap_each(|cqe| {
                bytes += cqe.result.max(0) as u64;
                cqueue::buffer_select(cqe.flags).into_iter().for_each(|buffer| buffers.give(buffer));
            });
        }
        Ok(())
    })?;
    for (_, theirs) in pairs {
        drop(theirs);
        ring.wait(1)?;
    }
    run.finish(ring);
    run.report.rings[0].opcodes.get_mut("recv").expect("two were pushed").bytes = bytes;
    run.fact("not_told_apart", u64::from(run.count));
    run.report.all("enter");
    Ok(())
}

/// Each value once, at its first position.
fn firsts(of: &[usize]) -> Vec<usize> {
    let is_first = |(at, socket): &(usize, &usize)| !of[..*at].contains(socket);
    of.iter().enumerate().filter(is_first).map(|(_, socket)| *socket).collect()
}
