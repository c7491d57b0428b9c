//! The main loop: enter, handle completions, queue requests; accepting, pausing, and shutdown.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use linux_raw_sys::io_uring as sys;

use super::area::Area;
use super::cannot_enter;
use super::entry::{self, Word};
use super::exchange::Exchange;
use super::output::Output;
use super::peer::{Peer, Receiving};
use super::provided::Provided;
use super::queue::{Cqe, Queue};
use crate::options::{Accept, Receive};
use crate::server::seat::Seat;
use iotrail_base::error::{Error, Result};
use iotrail_schema::net_record::bump;

/// Maximum number of entries queued for one completion.
const ENTRIES_EACH: u32 = 8;
/// Pause after an accept that failed for lack of descriptors.
static PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// A connection that is silent for this long gives up its own buffer.
static SILENCE: libc::timespec = libc::timespec { tv_sec: 1, tv_nsec: 0 };
/// Delay before an incomplete sweep continues.
static SOON: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// If the direct descriptor table is full, the kernel accepts and then closes a connection. Below this number of free
/// entries, one connection is accepted at a time, and none without an entry.
const FEW_PLACES: u32 = 256;
/// Minimum number of freed buffers for returning memory to the system.
const MANY_INPUTS: usize = 256;
/// Maximum time for the kernel to end all requests.
const END: Duration = Duration::from_millis(500);

pub struct Server<'a> {
    seat: &'a Seat<'a>,
    exchange: Exchange<'a>,
    peers: Vec<Option<Peer>>,
    free: Vec<u32>,
    /// Free entries of the direct descriptor table.
    places: Option<u32>,
    accepting: bool,
    /// Pending timeouts: one ends the pause, one starts a sweep.
    paused: bool,
    sweeping: bool,
    /// Index at which a sweep continues; 0 for the start.
    swept: usize,
}

impl<'a> Server<'a> {
    pub fn new(
        seat: &'a Seat<'a>,
        queue: Queue<'a>,
        provided: Option<Provided>,
        area: Option<Area>,
        places: Option<u32>,
    ) -> Self {
        let spec = &seat.shared.spec;
        let exchange = Exchange {
            queue,
            provided,
            area,
            output: Output::new(),
            counts: seat.counts(),
            receive: spec.options.receive,
            direct: spec.register_files,
            zero_copy: spec.options.zero_copy.map_or(usize::MAX, |bytes| bytes.0 as usize),
            input_bytes: spec.buffer_bytes,
            inputs: 0,
            inputs_freed: 0,
            spare: vec![],
            scratch: vec![],
            follow: vec![],
        };
        Self {
            seat,
            exchange,
            peers: vec![],
            free: vec![],
            places,
            accepting: false,
            paused: false,
            sweeping: false,
            swept: 0,
        }
    }

    /// Starts to accept, and reports this.
    pub fn begin(&mut self, granted: Vec<String>) -> Result<()> {
        let (sqe, _) = self.exchange.queue.push(Word::Stop);
        entry::poll_in(sqe, self.seat.stop_fd().as_raw_fd());
        self.accept();
        self.exchange.queue.enter(0, None).map_err(cannot_enter)?;
        self.seat.serves(granted);
        Ok(())
    }

    pub fn run(&mut self) -> Result<()> {
        let options = &self.seat.shared.spec.options;
        let timeout = options
            .wait_timeout
            .filter(|_| options.wait_for > 1)
            .map(|t| libc::timespec { tv_sec: t.0.as_secs() as libc::time_t, tv_nsec: t.0.subsec_nanos().into() });
        // A minimum wait ends with the first completion.
        let ends_idle = options.min_wait.is_some();
        let counts = self.exchange.counts;
        let mut idle = true;
        while !self.seat.is_stopping() {
            let x = &mut self.exchange;
            if let Some(provided) = &x.provided {
                provided.publish();
            }
            if let Some(area) = &x.area {
                let flushed = area.publish(&x.queue.ring).map_err(cannot_enter)?;
                bump(&counts.syscalls, u64::from(flushed));
            }
            // After an unsuccessful wait, the next one waits for any completion.
            let (wait_for, timeout) = if idle && !ends_idle { (1, None) } else { (options.wait_for, timeout.as_ref()) };
            let min = if x.queue.has_more() || !x.follow.is_empty() { 0 } else { wait_for };
            x.queue.enter(min, timeout).map_err(cannot_enter)?;
            bump(&counts.loops, 1);
            let completions = self.look()?;
            bump(&counts.completions, completions);
            idle = completions == 0 && min > 0;
            if completions == 0 && (self.exchange.queue.left() > 0 || !self.exchange.follow.is_empty()) {
                // The SQPOLL thread has not consumed the queued entries yet.
                bump(&counts.syscalls, 1);
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Handles available completions as long as the queue has free entries; returns their number.
    fn look(&mut self) -> Result<u64> {
        let mut completions = 0;
        loop {
            if self.exchange.queue.room() < ENTRIES_EACH {
                return Ok(completions);
            }
            let Some(cqe) = self.exchange.queue.pop_send() else { break };
            completions += 1;
            self.sent(cqe);
        }
        self.exchange.output.settle(self.exchange.queue.settled);
        for at in std::mem::take(&mut self.exchange.follow) {
            // Connections that do not fit continue later.
            let has_room = self.exchange.queue.room() >= ENTRIES_EACH;
            let Some(peer) = &mut self.peers[at as usize] else { continue };
            peer.follows = false;
            match has_room {
                true => self.settle(at, false),
                false => {
                    peer.follows = true;
                    self.exchange.follow.push(at);
                }
            }
        }
        while self.exchange.queue.room() >= ENTRIES_EACH
            && let Some(cqe) = self.exchange.queue.pop()
        {
            completions += 1;
            self.completed(cqe)?;
        }
        Ok(completions)
    }

    fn sent(&mut self, cqe: Cqe) {
        match cqe.word {
            Word::Send(_, slot) if cqe.flags & sys::IORING_CQE_F_NOTIF != 0 => self.exchange.notified(slot, cqe),
            Word::Send(at, _) | Word::SendAtOnce(at) => {
                let Some(peer) = &mut self.peers[at as usize] else { return };
                self.exchange.sent(at, peer, cqe);
                self.settle(at, false);
            }
            _ => {}
        }
    }

    #[inline]
    fn completed(&mut self, cqe: Cqe) -> Result<()> {
        match cqe.word {
            Word::Receive(at) => {
                let Some(peer) = &mut self.peers[at as usize] else { return Ok(()) };
                if !self.exchange.received(at, peer, cqe) {
                    let receive = self.seat.shared.spec.options.receive;
                    let what = format!("this kernel rejects {receive} receives");
                    return Err(Error::machine(
                        what,
                        "use --receive single, or a newer kernel (multishot requires Linux 6.0)",
                    ));
                }
                let readable =
                    cqe.flags & sys::IORING_CQE_F_SOCK_NONEMPTY != 0 || self.exchange.lacks_buffers(-cqe.result);
                self.settle(at, readable);
            }
            Word::Poll(at) => {
                let Some(peer) = &mut self.peers[at as usize] else { return Ok(()) };
                peer.receiving = Receiving::No;
                self.settle(at, cqe.result != -libc::ECANCELED);
                self.sweep_later();
            }
            Word::Accept => self.accepted(cqe)?,
            Word::Resume => {
                self.paused = false;
                self.accept();
            }
            Word::Sweep => {
                self.sweeping = false;
                self.sweep();
            }
            Word::Stop | Word::Ignored | Word::Send(..) | Word::SendAtOnce(_) => {}
        }
        Ok(())
    }

    #[inline]
    fn settle(&mut self, at: u32, readable: bool) {
        let place = &mut self.peers[at as usize];
        if let Some(peer) = place
            && self.exchange.settle(at, peer, readable)
        {
            *place = None;
            self.free.push(at);
            if !self.accepting && !self.paused {
                self.accept();
            }
        }
    }

    /// Free entries of the direct descriptor table.
    fn places_left(&self) -> u32 {
        self.places.map_or(u32::MAX, |all| all.saturating_sub((self.peers.len() - self.free.len()) as u32))
    }

    fn accept(&mut self) {
        let left = self.places_left();
        if left == 0 {
            return;
        }
        let multishot = self.seat.shared.spec.options.accept == Accept::Multishot && left > FEW_PLACES;
        let (sqe, _) = self.exchange.queue.push(Word::Accept);
        entry::accept(sqe, self.seat.listener.as_raw_fd(), multishot, self.exchange.direct);
        self.accepting = true;
    }

    fn accepted(&mut self, cqe: Cqe) -> Result<()> {
        let counts = self.exchange.counts;
        self.accepting = cqe.more();
        match -cqe.result {
            ..=0 => {
                bump(&counts.accepted, 1);
                let at = self.free.pop().unwrap_or_else(|| {
                    self.peers.push(None);
                    self.peers.len() as u32 - 1
                });
                self.peers[at as usize] = Some(Peer::new(cqe.result));
                self.settle(at, false);
                if self.accepting && self.places_left() == FEW_PLACES {
                    entry::cancel(self.exchange.queue.push(Word::Ignored).0, Word::Accept);
                }
            }
            libc::EINTR | libc::ECONNABORTED | libc::EAGAIN | libc::ECANCELED => {}
            libc::EINVAL => {
                let accept = self.seat.shared.spec.options.accept;
                let what = format!("this kernel rejects {accept} accepts");
                return Err(Error::machine(
                    what,
                    "use --accept single without --register files, or Linux 5.19 or later",
                ));
            }
            // Out of descriptors or memory: waiting connections are accepted after others have closed.
            _ => {
                bump(&counts.accept_failures, 1);
                if !self.paused && !self.accepting {
                    self.paused = true;
                    entry::timeout(self.exchange.queue.push(Word::Resume).0, &PAUSE);
                }
            }
        }
        if !self.accepting && !self.paused {
            self.accept();
        }
        Ok(())
    }

    fn sweep_later(&mut self) {
        if self.exchange.inputs + self.exchange.inputs_freed > 0 && !self.sweeping {
            self.sweeping = true;
            let after = if self.swept > 0 { &SOON } else { &SILENCE };
            entry::timeout(self.exchange.queue.push(Word::Sweep).0, after);
        }
    }

    /// Connections that were silent since the last sweep give up their buffers while waiting.
    fn sweep(&mut self) {
        debug_assert!(self.exchange.receive == Receive::Single);
        if self.swept == 0 && std::mem::take(&mut self.exchange.inputs_freed) > MANY_INPUTS {
            // SAFETY: returns unused memory to the system, which the allocator would keep.
            unsafe { libc::malloc_trim(0) };
        }
        let from = std::mem::take(&mut self.swept);
        for (at, peer) in self.peers.iter_mut().enumerate().skip(from) {
            if self.exchange.queue.room() <= ENTRIES_EACH {
                self.swept = at;
                break;
            }
            let Some(peer) = peer else { continue };
            let spoke = std::mem::take(&mut peer.spoke);
            if !spoke && peer.receiving == Receiving::Armed && peer.end.is_none() {
                self.exchange.cancel_receive(at as u32, peer);
            }
        }
        self.sweep_later();
    }

    /// Cancels all requests in flight, and closes all descriptors. Leaks memory that the kernel may still use.
    pub fn end(mut self) {
        let until = Instant::now() + END;
        let step = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let x = &mut self.exchange;
        let mut asked = false;
        while x.queue.outstanding > 0 && Instant::now() < until {
            if !asked && x.queue.room() > 0 {
                entry::cancel_all(x.queue.push(Word::Ignored).0);
                asked = true;
            }
            if x.queue.enter(1, Some(&step)).is_err() {
                break;
            }
            while x.queue.pop_send().is_some() {}
            while let Some(cqe) = x.queue.pop() {
                if cqe.word == Word::Accept && cqe.result >= 0 && !x.direct {
                    close(cqe.result);
                }
            }
        }
        if !self.exchange.direct {
            self.peers.iter().flatten().for_each(|peer| close(peer.fd));
        }
        if self.exchange.queue.outstanding > 0 {
            if let Some(provided) = self.exchange.provided.take() {
                provided.leak();
            }
            if let Some(area) = self.exchange.area.take() {
                area.leak();
            }
            self.exchange.output.leak();
            std::mem::forget(self.peers);
        }
    }
}

fn close(fd: i32) {
    // SAFETY: a descriptor that the kernel gave to this server and that is no longer used.
    unsafe { rustix::io::close(fd) };
}
