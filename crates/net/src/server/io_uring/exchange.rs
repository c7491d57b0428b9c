//! A connection's receives, answers and sends: which requests are queued after each of its completions.

use std::sync::atomic::{AtomicU64, Ordering};

use linux_raw_sys::io_uring as sys;

use super::area::Area;
use super::entry::{self, Word};
use super::output::{MOVABLE, Output, Piece};
use super::peer::{End, Peer, Receiving, Sending};
use super::provided::Provided;
use super::queue::{Cqe, Queue};
use crate::options::Receive;
use iotrail_schema::net_record::{LiveCounts, bump};

/// Buffers of ended connections, kept for new ones.
const SPARE_INPUTS: usize = 64;

pub struct Exchange<'a> {
    pub queue: Queue<'a>,
    pub provided: Option<Provided>,
    pub area: Option<Area>,
    pub output: Output,
    pub counts: &'a LiveCounts,
    pub receive: Receive,
    /// Descriptors are indices of the direct descriptor table.
    pub direct: bool,
    /// Minimum size for zero-copy sends.
    pub zero_copy: usize,
    /// For `single`: buffer size; below, buffers in use and spare ones.
    pub input_bytes: usize,
    pub inputs: usize,
    /// Number of buffers freed since the last sweep.
    pub inputs_freed: usize,
    pub spare: Vec<Box<[u8]>>,
    /// Answers that cannot be sent yet, before they move to their connection.
    pub scratch: Vec<u8>,
    /// Connections that continue once their immediate send is settled.
    pub follow: Vec<u32>,
}

/// Corrects a counted send that transferred less.
fn take_back(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_sub(by), Ordering::Relaxed);
}

impl Exchange<'_> {
    /// Handles a completed receive. Returns false if the kernel does not support this kind of receive.
    #[inline]
    pub fn received(&mut self, at: u32, peer: &mut Peer, cqe: Cqe) -> bool {
        if !cqe.more() {
            peer.receiving = Receiving::No;
        }
        let bytes = cqe.result.max(0) as usize;
        if bytes > 0 {
            bump(&self.counts.receives, 1);
            bump(&self.counts.bytes_in, bytes as u64);
            peer.spoke = true;
        }
        if let Some(id) = cqe.buffer() {
            self.take_provided(at, peer, id, bytes);
        } else if bytes > 0
            && let Some(mut area) = self.area.take()
        {
            self.answer(at, peer, area.bytes(cqe.at, bytes));
            area.give_back(cqe.at, bytes);
            self.area = Some(area);
        } else if bytes > 0
            && let Some(input) = peer.input.take()
        {
            self.answer(at, peer, &input[..bytes]);
            peer.input = Some(input);
        }
        match -cqe.result {
            0 => peer.end = peer.end.or(Some(End::NoMore)),
            ..0 => {}
            errno if self.lacks_buffers(errno) => bump(&self.counts.buffers_exhausted, 1),
            libc::ECANCELED => self.drop_input(peer),
            libc::EINTR | libc::EAGAIN => {}
            libc::EINVAL => return false,
            _ => peer.end = Some(peer.end.filter(|e| *e == End::Garbage).unwrap_or(End::Reset)),
        }
        true
    }

    /// Whether a receive failed for lack of a buffer, which this iteration has returned.
    pub fn lacks_buffers(&self, errno: i32) -> bool {
        errno == if self.area.is_some() { libc::ENOMEM } else { libc::ENOBUFS }
    }

    /// Answers the provided buffers, starting at `id`, and returns them.
    fn take_provided(&mut self, at: u32, peer: &mut Peer, mut id: u16, bytes: usize) {
        let Some(mut provided) = self.provided.take() else { return };
        let mut left = bytes;
        loop {
            let n = left.min(provided.size());
            if n > 0 {
                self.answer(at, peer, provided.bytes(id, n));
            }
            left -= n;
            let next = provided.next(id);
            provided.give_back(id);
            if left == 0 {
                break;
            }
            id = next;
        }
        self.provided = Some(provided);
    }

    /// Answers `input` after the held input: with a new send, or after the one in flight.
    #[inline]
    fn answer(&mut self, at: u32, peer: &mut Peer, input: &[u8]) {
        if peer.end == Some(End::Garbage) || peer.end == Some(End::Reset) {
            return;
        }
        self.notice_settled(peer);
        // A small send that has not been submitted can be extended; others must not be modified.
        let (begins, had, entry) = match peer.sending {
            None => (self.output.end(), 0, None),
            Some(Sending::AtOnce(piece, number))
                if piece.len as usize <= MOVABLE && !peer.has_more() && self.queue.queued(number).is_some() =>
            {
                (self.output.move_to_end(piece), piece.len as usize, Some(number))
            }
            Some(_) => {
                self.scratch.clear();
                match peer.connection.answer(input, &mut self.scratch) {
                    Ok(requests) => bump(&self.counts.requests, u64::from(requests)),
                    Err(_) => peer.end = Some(End::Garbage),
                }
                peer.connection.keep(&self.scratch);
                return;
            }
        };
        let block = self.output.block();
        match peer.connection.answer(input, block) {
            Ok(requests) => bump(&self.counts.requests, u64::from(requests)),
            Err(_) => {
                block.truncate(begins + had);
                peer.end = Some(End::Garbage);
            }
        }
        if block.len() == begins {
            return;
        }
        let piece = self.output.piece_from(begins);
        match entry {
            None => self.send(at, peer, piece),
            Some(number) => {
                bump(&self.counts.bytes_out, piece.len as u64 - had as u64);
                self.output.lend(piece.slot, number);
                let bytes = self.output.bytes(piece).as_ptr();
                if let Some(sqe) = self.queue.queued(number) {
                    sqe.__bindgen_anon_2.addr = bytes as u64;
                    sqe.len = piece.len;
                }
                peer.sending = Some(Sending::AtOnce(piece, number));
            }
        }
    }

    /// Completes an immediate send once it is settled: without a known failure, it has sent everything.
    #[inline]
    fn notice_settled(&self, peer: &mut Peer) {
        if let Some(Sending::AtOnce(_, number)) = peer.sending
            && number < self.queue.settled
        {
            peer.sending = None;
        }
    }

    /// Sends the new data in the block.
    #[inline]
    fn send(&mut self, at: u32, peer: &mut Peer, piece: Piece) {
        if piece.len as usize >= self.zero_copy {
            self.output.hold(piece.slot);
            return self.send_waiting(at, peer, piece, true);
        }
        let bytes = self.output.bytes(piece).as_ptr();
        let (sqe, number) = self.queue.push(Word::SendAtOnce(at));
        entry::send_at_once(sqe, peer.fd, bytes, piece.len);
        if self.direct {
            entry::direct(sqe);
        }
        self.output.lend(piece.slot, number);
        peer.sending = Some(Sending::AtOnce(piece, number));
        self.count_send(piece);
    }

    /// Sends the pending data.
    fn send_waiting(&mut self, at: u32, peer: &mut Peer, piece: Piece, zero_copy: bool) {
        let bytes = self.output.bytes(piece).as_ptr();
        let (sqe, _) = self.queue.push(Word::Send(at, piece.slot));
        entry::send(sqe, peer.fd, bytes, piece.len, zero_copy);
        if self.direct {
            entry::direct(sqe);
        }
        peer.sending = Some(Sending::Waiting { piece, zero_copy });
        bump(&self.counts.zero_copy_sends, u64::from(zero_copy));
        self.count_send(piece);
    }

    /// Counted when queued, so that a quiet server's counts are complete; corrected if the data is not sent.
    #[inline]
    fn count_send(&self, piece: Piece) {
        bump(&self.counts.sends, 1);
        bump(&self.counts.bytes_out, u64::from(piece.len));
    }

    /// The kernel no longer needs the memory of a zero-copy send.
    pub fn notified(&mut self, slot: u32, cqe: Cqe) {
        let copied = cqe.result as u32 & sys::IORING_NOTIF_USAGE_ZC_COPIED != 0;
        bump(&self.counts.zero_copy_copied, u64::from(copied));
        self.output.release(slot);
    }

    /// Handles the completion of a send. For an immediate send, it means a failure or a partial send.
    #[inline]
    pub fn sent(&mut self, at: u32, peer: &mut Peer, cqe: Cqe) {
        let (piece, zero_copy, held) = match peer.sending.take() {
            Some(Sending::Waiting { piece, zero_copy }) => (piece, zero_copy, true),
            Some(Sending::AtOnce(piece, _)) => (piece, false, false),
            None => return,
        };
        if (cqe.result.max(0) as u32) < piece.len {
            self.sent_less(at, peer, piece, zero_copy, cqe.result);
        }
        // Otherwise, the notification that follows releases it.
        if held && !cqe.more() {
            self.output.release(piece.slot);
        }
    }

    #[cold]
    fn sent_less(&mut self, at: u32, peer: &mut Peer, piece: Piece, mut zero_copy: bool, result: i32) {
        let taken = result.max(0) as u32;
        take_back(&self.counts.bytes_out, u64::from(piece.len - taken));
        if result >= 0 {
            bump(&self.counts.short_sends, 1);
        } else {
            take_back(&self.counts.sends, 1);
            take_back(&self.counts.zero_copy_sends, u64::from(zero_copy));
        }
        match -result {
            ..=0 | libc::EAGAIN | libc::EINTR => {}
            // Pages of zero-copy sends count towards the locked-memory limit.
            libc::ENOMEM | libc::ENOBUFS if zero_copy => zero_copy = false,
            _ => peer.end = Some(peer.end.filter(|e| *e == End::Garbage).unwrap_or(End::Reset)),
        }
        if peer.end.is_none_or(|e| e == End::NoMore) {
            let rest = self.output.rest(piece, taken, zero_copy);
            self.send_waiting(at, peer, rest, zero_copy);
        }
    }

    /// Queues the next requests. `readable`: more data is available. Returns true if the connection is closed.
    #[inline]
    pub fn settle(&mut self, at: u32, peer: &mut Peer, readable: bool) -> bool {
        self.notice_settled(peer);
        while peer.sending.is_none() && peer.has_more() && peer.end.is_none_or(|e| e == End::NoMore) {
            if peer.connection.waiting() > 0 {
                let unsent = std::mem::take(&mut peer.connection.unsent);
                let piece = self.output.adopt(unsent);
                self.send_waiting(at, peer, piece, piece.len as usize >= self.zero_copy);
            } else {
                self.answer(at, peer, &[]);
            }
        }
        let ended = match peer.end {
            Some(end) => self.finish(at, peer, end),
            None => {
                if peer.connection.is_held() {
                    // Its requests are not read until it has received some answers.
                    if peer.receiving == Receiving::Armed && self.is_multishot() {
                        self.cancel_receive(at, peer);
                    }
                } else if peer.receiving == Receiving::No && !matches!(peer.sending, Some(Sending::Waiting { .. })) {
                    self.receive(at, peer, readable);
                }
                false
            }
        };
        if !peer.follows && matches!(peer.sending, Some(Sending::AtOnce(..))) && (peer.end.is_some() || peer.has_more())
        {
            peer.follows = true;
            self.follow.push(at);
        }
        ended
    }

    fn is_multishot(&self) -> bool {
        matches!(self.receive, Receive::Multishot | Receive::Bundle | Receive::Zcrx)
    }

    fn receive(&mut self, at: u32, peer: &mut Peer, readable: bool) {
        if self.receive == Receive::Single && peer.input.is_none() {
            if !readable {
                let (sqe, _) = self.queue.push(Word::Poll(at));
                entry::poll_in(sqe, peer.fd);
                if self.direct {
                    entry::direct(sqe);
                }
                peer.receiving = Receiving::Polling;
                return;
            }
            peer.input = Some(self.spare.pop().unwrap_or_else(|| vec![0; self.input_bytes].into_boxed_slice()));
            self.inputs += 1;
        }
        // Without available data, an immediate attempt would fail.
        let mut flags = if readable { 0 } else { sys::IORING_RECVSEND_POLL_FIRST };
        let (into, bytes) = match (self.receive, &mut peer.input) {
            (Receive::Single, Some(input)) => (input.as_mut_ptr(), input.len()),
            (Receive::Provided, _) => (std::ptr::null_mut(), self.provided.as_ref().map_or(0, Provided::size)),
            _ => (std::ptr::null_mut(), 0),
        };
        if self.is_multishot() {
            flags |= sys::IORING_RECV_MULTISHOT;
        }
        if self.receive == Receive::Bundle {
            flags |= sys::IORING_RECVSEND_BUNDLE;
        }
        let (sqe, _) = self.queue.push(Word::Receive(at));
        match &self.area {
            Some(area) => entry::receive_into_area(sqe, peer.fd, area.queue, flags),
            None => entry::receive(sqe, peer.fd, into, bytes, flags),
        }
        if self.direct {
            entry::direct(sqe);
        }
        peer.receiving = Receiving::Armed;
    }

    pub fn cancel_receive(&mut self, at: u32, peer: &mut Peer) {
        let of = if peer.receiving == Receiving::Polling { Word::Poll(at) } else { Word::Receive(at) };
        entry::cancel(self.queue.push(Word::Ignored).0, of);
        peer.receiving = Receiving::Cancelled;
    }

    /// Closes the connection once nothing is in flight and all possible answers are sent.
    fn finish(&mut self, at: u32, peer: &mut Peer, end: End) -> bool {
        if matches!(peer.receiving, Receiving::Armed | Receiving::Polling) {
            self.cancel_receive(at, peer);
        }
        if end != End::NoMore
            && !peer.send_cancelled
            && let Some(Sending::Waiting { piece, .. }) = peer.sending
        {
            entry::cancel(self.queue.push(Word::Ignored).0, Word::Send(at, piece.slot));
            peer.send_cancelled = true;
        }
        if peer.receiving != Receiving::No || peer.sending.is_some() {
            return false;
        }
        entry::close(self.queue.push(Word::Ignored).0, peer.fd, self.direct);
        self.drop_input(peer);
        let how = match end {
            End::NoMore if peer.connection.is_midway() => &self.counts.cut_off,
            End::NoMore => &self.counts.closed,
            End::Reset => &self.counts.reset,
            End::Garbage => &self.counts.garbage,
        };
        bump(how, 1);
        true
    }

    fn drop_input(&mut self, peer: &mut Peer) {
        if let Some(input) = peer.input.take() {
            self.inputs -= 1;
            match self.spare.len() < SPARE_INPUTS {
                true => self.spare.push(input),
                false => self.inputs_freed += 1,
            }
        }
    }
}
