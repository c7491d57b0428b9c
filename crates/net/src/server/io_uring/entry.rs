//! Contents of submission entries, and the user data that identifies completions.

use linux_raw_sys::io_uring as sys;
use sys::io_uring_op::*;
use sys::io_uring_sqe;

use super::provided::GROUP;

/// The request that a completion belongs to, as packed into `user_data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Ignored,
    Stop,
    Accept,
    /// Timeout after which accepting resumes.
    Resume,
    /// Timeout for finding silent connections.
    Sweep,
    Poll(u32),
    Receive(u32),
    /// Connection and output slot.
    Send(u32, u32),
    /// A send that completes during submission, without a completion entry; an entry means a failure or a partial send.
    SendAtOnce(u32),
}

impl Word {
    /// Kind in 8 bits, output slot in 24 bits, connection in 32 bits.
    #[inline]
    pub fn pack(self) -> u64 {
        match self {
            Word::Ignored => 0,
            Word::Stop => 1,
            Word::Accept => 2,
            Word::Resume => 3,
            Word::Sweep => 4,
            Word::Poll(peer) => 5 | u64::from(peer) << 32,
            Word::Receive(peer) => 6 | u64::from(peer) << 32,
            Word::Send(peer, slot) => {
                debug_assert!(slot < 1 << 24);
                7 | u64::from(slot) << 8 | u64::from(peer) << 32
            }
            Word::SendAtOnce(peer) => 8 | u64::from(peer) << 32,
        }
    }

    #[inline]
    pub fn unpack(word: u64) -> Self {
        let peer = (word >> 32) as u32;
        match word as u8 {
            1 => Word::Stop,
            2 => Word::Accept,
            3 => Word::Resume,
            4 => Word::Sweep,
            5 => Word::Poll(peer),
            6 => Word::Receive(peer),
            7 => Word::Send(peer, word as u32 >> 8),
            8 => Word::SendAtOnce(peer),
            _ => Word::Ignored,
        }
    }

    /// Whether a completion follows in any case.
    #[inline]
    pub fn completes(self) -> bool {
        !matches!(self, Word::SendAtOnce(_))
    }

    #[inline]
    pub fn is_send(self) -> bool {
        matches!(self, Word::Send(..) | Word::SendAtOnce(_))
    }
}

/// Marks the descriptor as an index of the direct descriptor table.
#[inline]
pub fn direct(sqe: &mut io_uring_sqe) {
    sqe.flags |= 1 << sys::io_uring_sqe_flags_bit::IOSQE_FIXED_FILE_BIT as u8;
}

/// `at` is written to until the receive completes; if null, a provided buffer is used.
#[inline]
pub fn receive(sqe: &mut io_uring_sqe, fd: i32, at: *mut u8, bytes: usize, flags: u32) {
    sqe.opcode = IORING_OP_RECV as u8;
    sqe.fd = fd;
    sqe.ioprio = flags as u16;
    sqe.__bindgen_anon_2.addr = at as u64;
    sqe.len = bytes as u32;
    if at.is_null() {
        sqe.flags |= 1 << sys::io_uring_sqe_flags_bit::IOSQE_BUFFER_SELECT_BIT as u8;
        sqe.__bindgen_anon_4.buf_group = GROUP;
    }
}

#[inline]
pub fn receive_into_area(sqe: &mut io_uring_sqe, fd: i32, queue: u32, flags: u32) {
    sqe.opcode = IORING_OP_RECV_ZC as u8;
    sqe.fd = fd;
    sqe.ioprio = flags as u16;
    sqe.__bindgen_anon_5.zcrx_ifq_idx = queue;
}

/// Completes once everything is sent. `at` is read until then; by a zero-copy send, until its notification.
#[inline]
pub fn send(sqe: &mut io_uring_sqe, fd: i32, at: *const u8, bytes: u32, zero_copy: bool) {
    sqe.opcode = IORING_OP_SEND as u8;
    if zero_copy {
        sqe.opcode = IORING_OP_SEND_ZC as u8;
        sqe.ioprio = sys::IORING_SEND_ZC_REPORT_USAGE as u16;
    }
    sqe.fd = fd;
    sqe.__bindgen_anon_2.addr = at as u64;
    sqe.len = bytes;
    sqe.__bindgen_anon_3.msg_flags = libc::MSG_WAITALL as u32;
}

/// Sends as much as the socket accepts during submission, and posts a completion only if data remains. `at` is read
/// until then.
#[inline]
pub fn send_at_once(sqe: &mut io_uring_sqe, fd: i32, at: *const u8, bytes: u32) {
    send(sqe, fd, at, bytes, false);
    // MSG_WAITALL turns a partial send into a failure, which posts a completion.
    sqe.__bindgen_anon_3.msg_flags = (libc::MSG_WAITALL | libc::MSG_DONTWAIT) as u32;
    sqe.flags |= 1 << sys::io_uring_sqe_flags_bit::IOSQE_CQE_SKIP_SUCCESS_BIT as u8;
}

pub fn accept(sqe: &mut io_uring_sqe, fd: i32, multishot: bool, direct: bool) {
    sqe.opcode = IORING_OP_ACCEPT as u8;
    sqe.fd = fd;
    sqe.ioprio = if multishot { sys::IORING_ACCEPT_MULTISHOT as u16 } else { 0 };
    if direct {
        sqe.__bindgen_anon_5.file_index = sys::IORING_FILE_INDEX_ALLOC as u32;
    } else {
        sqe.__bindgen_anon_3.accept_flags = libc::SOCK_CLOEXEC as u32;
    }
}

pub fn poll_in(sqe: &mut io_uring_sqe, fd: i32) {
    sqe.opcode = IORING_OP_POLL_ADD as u8;
    sqe.fd = fd;
    sqe.__bindgen_anon_3.poll32_events = libc::POLLIN as u32;
}

pub fn close(sqe: &mut io_uring_sqe, fd: i32, direct: bool) {
    sqe.opcode = IORING_OP_CLOSE as u8;
    if direct {
        sqe.__bindgen_anon_5.file_index = fd as u32 + 1;
    } else {
        sqe.fd = fd;
    }
}

pub fn cancel(sqe: &mut io_uring_sqe, of: Word) {
    sqe.opcode = IORING_OP_ASYNC_CANCEL as u8;
    sqe.fd = -1;
    sqe.__bindgen_anon_2.addr = of.pack();
}

/// Cancels all requests of the ring (5.19).
pub fn cancel_all(sqe: &mut io_uring_sqe) {
    sqe.opcode = IORING_OP_ASYNC_CANCEL as u8;
    sqe.fd = -1;
    sqe.__bindgen_anon_3.cancel_flags = sys::IORING_ASYNC_CANCEL_ANY | sys::IORING_ASYNC_CANCEL_ALL;
}

pub fn timeout(sqe: &mut io_uring_sqe, after: &'static libc::timespec) {
    sqe.opcode = IORING_OP_TIMEOUT as u8;
    sqe.fd = -1;
    sqe.__bindgen_anon_2.addr = std::ptr::from_ref(after) as u64;
    sqe.len = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_words_round_trip_through_packing() {
        for word in [
            Word::Ignored,
            Word::Stop,
            Word::Accept,
            Word::Resume,
            Word::Sweep,
            Word::Poll(u32::MAX),
            Word::Receive(7),
            Word::Send(u32::MAX, (1 << 24) - 1),
            Word::SendAtOnce(9),
        ] {
            assert_eq!(Word::unpack(word.pack()), word);
        }
    }
}
