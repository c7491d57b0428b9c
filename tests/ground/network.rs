//! Sockets and pipes: requests that wait until their file is ready, multishot, provided buffers, zero copy.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, ensure};
use io_uring::{opcode, squeue, types};

use crate::cores;
use crate::load::{Memory, groups};
use crate::ring::{DEFER, Ring};
use crate::run::{Run, Scenario, Unsupported};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "sockets",
        about: "recv on 8 empty UNIX sockets, then send into each: half inline, half carried by that io_uring_enter",
        finding: None,
        allowed: &["delivered_out_of_order", "reordered"],
        count: 8_000,
        run: sockets,
    },
    Scenario {
        name: "pipes",
        about: "no flags, a read on an empty pipe, then write(2) into it: the way out of write carries",
        finding: None,
        allowed: &[],
        count: 4_000,
        run: pipes,
    },
    Scenario {
        name: "unix_echo",
        about: "DEFER_TASKRUN, a byte to a thread on the other CPU and back, waited for in io_uring_enter",
        finding: None,
        allowed: &[],
        count: 4_000,
        run: unix_echo,
    },
    Scenario {
        name: "multishot_recv",
        about: "one multishot recv with a ring of buffers, 8 messages at a time, ended by its peer",
        finding: None,
        allowed: &[],
        count: 8_000,
        run: multishot_recv,
    },
    Scenario {
        name: "provided_buffers",
        about: "reads of a socket into provided buffers, which each message fills by a quarter: none is short",
        finding: None,
        allowed: &[],
        count: 8_000,
        run: provided_buffers,
    },
    Scenario {
        name: "zero_copy",
        about: "SEND_ZC over TCP on the loopback device: one completion and one notification each",
        finding: None,
        allowed: &[],
        count: 1_000,
        run: zero_copy,
    },
    Scenario {
        name: "zero_copy_refused",
        about: "SENDMSG_ZC of an invalid message: each fails in its preparation, and its notification follows",
        finding: Some("bad_buffers"),
        allowed: &[],
        count: 1_000,
        run: zero_copy_refused,
    },
    Scenario {
        name: "buffers_exhausted",
        about: "12 messages for 8 provided buffers, again and again: every third recv ends with ENOBUFS",
        finding: Some("buffers_exhausted"),
        allowed: &["errors"],
        count: 1_200,
        run: buffers_exhausted,
    },
];

pub const MESSAGE: usize = 64;

fn sockets(run: &mut Run) -> Result<()> {
    const PAIRS: u32 = 8;
    run.pin_if_asked()?;
    let pairs: Vec<(OwnedFd, OwnedFd)> = (0..PAIRS).map(|_| socketpair(libc::SOCK_STREAM)).collect::<Result<_>>()?;
    let mut memory = vec![0u8; MESSAGE * PAIRS as usize];
    let message = [7u8; MESSAGE];
    let mut ring = Ring::open(2 * PAIRS, &DEFER)?;
    run.start()?;
    groups(run.count / 2, PAIRS, |group| {
        for ((ours, _), buffer) in pairs.iter().zip(memory.chunks_mut(MESSAGE)).take(group as usize) {
            let recv = opcode::Recv::new(types::Fd(ours.as_raw_fd()), buffer.as_mut_ptr(), MESSAGE as u32);
            ring.push(recv.build(), MESSAGE as u32);
        }
        ring.submit()?;
        for (_, theirs) in pairs.iter().take(group as usize) {
            let send = opcode::Send::new(types::Fd(theirs.as_raw_fd()), message.as_ptr(), MESSAGE as u32);
            ring.push(send.build(), MESSAGE as u32);
        }
        ring.enter(group, 2 * group)?;
        ring.wait(2 * group)
    })?;
    run.finish(ring);
    let half = u64::from(run.count / 2);
    run.report.exactly("inline", half);
    run.report.exactly("enter", half);
    run.report.exactly("enter:ready", half);
    Ok(())
}

fn pipes(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let (reader, writer) = pipe()?;
    let mut buffer = [0u8; MESSAGE];
    let mut ring = Ring::open(1, &[])?;
    run.start()?;
    let mut by_worker = false;
    groups(run.count, 1, |_| {
        if by_worker {
            return Ok(());
        }
        let read = opcode::Read::new(types::Fd(reader.as_raw_fd()), buffer.as_mut_ptr(), MESSAGE as u32);
        // A pipe has no offset.
        ring.push(read.offset(u64::MAX).build(), MESSAGE as u32);
        ring.submit()?;
        write_all(writer.as_raw_fd(), &[7; MESSAGE])?;
        if ring.reap() == 0 {
            by_worker = true;
            ring.wait(1)?;
        }
        Ok(())
    })?;
    run.finish(ring);
    if by_worker {
        // Before 6.4, pipes do not support non-blocking reads.
        return Err(Unsupported("io_uring hands reads of pipes to io-wq here".into()).into());
    }
    run.report.all("syscall_exit");
    run.report.all("syscall_exit:write");
    Ok(())
}

fn unix_echo(run: &mut Run) -> Result<()> {
    let allowed = cores::allowed()?;
    let &[here, .., there] = &allowed[..] else {
        return Err(Unsupported("there is one CPU only".into()).into());
    };
    run.pin(here)?;
    let (near, far) = UnixStream::pair()?;
    let echo = std::thread::spawn(move || -> Result<()> {
        cores::pin(there)?;
        let mut byte = [0];
        while (&far).read(&mut byte)? > 0 {
            (&far).write_all(&byte)?;
        }
        Ok(())
    });
    let mut ring = Ring::open(4, &DEFER)?;
    let mut byte = [1u8; 2];
    run.start()?;
    for _ in 0..run.count / 2 {
        let fd = types::Fd(near.as_raw_fd());
        ring.push(opcode::Send::new(fd, byte.as_ptr(), 1).build(), 1);
        ring.push(opcode::Recv::new(fd, byte[1..].as_mut_ptr(), 1).build(), 1);
        ring.enter(2, 2)?;
        ring.wait(2)?;
    }
    drop(near);
    echo.join().expect("the other thread does not panic")?;
    run.finish(ring);
    // If the other thread was faster, the recv finds its byte immediately.
    let half = u64::from(run.count / 2);
    run.report.between("inline", half, 2 * half);
    run.report.between("enter", 0, half);
    Ok(())
}

fn multishot_recv(run: &mut Run) -> Result<()> {
    const GROUP: u16 = 1;
    run.pin_if_asked()?;
    let (ours, theirs) = socketpair(libc::SOCK_SEQPACKET)?;
    // The completion queue holds the messages of two groups: it must not overflow, which would end the request.
    let mut ring = Ring::open(8, &DEFER)?;
    let mut buffers = Buffers::register(&ring, GROUP, 16)?;
    (0..16).for_each(|buffer| buffers.give(buffer));
    run.start()?;
    ring.push(opcode::RecvMulti::new(types::Fd(ours.as_raw_fd()), GROUP).build(), 0);
    ring.submit()?;
    let mut bytes = 0;
    groups(run.count, 8, |group| {
        for _ in 0..group {
            write_all(theirs.as_raw_fd(), &[7; MESSAGE])?;
        }
        ring.enter(0, group)?;
        let mut done = 0;
        while done < group {
            done += ring.reap_each(|cqe| {
                bytes += cqe.result.max(0) as u64;
                if let Some(buffer) = io_uring::cqueue::buffer_select(cqe.flags) {
                    buffers.give(buffer);
                }
            });
            if done < group {
                ring.enter(0, group - done)?;
            }
        }
        Ok(())
    })?;
    drop(theirs);
    ring.wait(1)?;
    run.finish(ring);
    run.report.rings[0].opcodes.get_mut("recv").expect("one was pushed").bytes = bytes;
    run.report.all("enter");
    Ok(())
}

fn provided_buffers(run: &mut Run) -> Result<()> {
    const GROUP: u16 = 1;
    const PART: usize = MESSAGE / 4;
    run.pin_if_asked()?;
    let (ours, theirs) = socketpair(libc::SOCK_SEQPACKET)?;
    let mut ring = Ring::open(8, &DEFER)?;
    let mut buffers = Buffers::register(&ring, GROUP, 8)?;
    (0..8).for_each(|buffer| buffers.give(buffer));
    run.start()?;
    groups(run.count, 8, |group| {
        for _ in 0..group {
            write_all(theirs.as_raw_fd(), &[7; PART])?;
            let read = opcode::Read::new(types::Fd(ours.as_raw_fd()), std::ptr::null_mut(), MESSAGE as u32);
            let entry = read.offset(u64::MAX).buf_group(GROUP).build().flags(squeue::Flags::BUFFER_SELECT);
            ring.push(entry, PART as u32);
        }
        ring.enter(group, group)?;
        ring.reap_each(|cqe| {
            io_uring::cqueue::buffer_select(cqe.flags).into_iter().for_each(|buffer| buffers.give(buffer));
        });
        Ok(())
    })?;
    run.finish(ring);
    run.report.all("inline");
    Ok(())
}

fn buffers_exhausted(run: &mut Run) -> Result<()> {
    const GROUP: u16 = 1;
    run.pin_if_asked()?;
    let (ours, theirs) = socketpair(libc::SOCK_SEQPACKET)?;
    let mut ring = Ring::open(16, &DEFER)?;
    let mut buffers = Buffers::register(&ring, GROUP, 8)?;
    (0..8).for_each(|buffer| buffers.give(buffer));
    run.start()?;
    groups(run.count, 12, |group| {
        for _ in 0..group {
            write_all(theirs.as_raw_fd(), &[7; MESSAGE])?;
        }
        for _ in 0..group {
            let recv = opcode::Recv::new(types::Fd(ours.as_raw_fd()), std::ptr::null_mut(), MESSAGE as u32);
            let entry = recv.buf_group(GROUP).build().flags(squeue::Flags::BUFFER_SELECT);
            ring.push(entry, MESSAGE as u32);
        }
        ring.enter(group, group)?;
        let mut unread = 0;
        ring.reap_each(|cqe| match io_uring::cqueue::buffer_select(cqe.flags) {
            Some(buffer) => buffers.give(buffer),
            None => unread += 1,
        });
        (0..unread).try_for_each(|_| read_all(ours.as_raw_fd(), &mut [0; MESSAGE]))
    })?;
    run.finish(ring);
    run.report.all("inline");
    Ok(())
}

fn zero_copy(run: &mut Run) -> Result<()> {
    const BYTES: usize = 16 << 10;
    run.pin_if_asked()?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("listening on the loopback device")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    sender.set_nodelay(true)?;
    let (mut receiver, _) = listener.accept()?;
    let message = vec![7u8; BYTES];
    let mut received = vec![0u8; BYTES];
    let mut ring = Ring::open(1, &DEFER)?;
    run.start()?;
    groups(run.count, 1, |_| {
        let send = opcode::SendZc::new(types::Fd(sender.as_raw_fd()), message.as_ptr(), BYTES as u32);
        ring.push(send.build(), BYTES as u32);
        ring.submit()?;
        // The send completes before this thread blocks for its data; the notification arrives when the receiver has
        // received it.
        let sent = ring.wait(1)?;
        receiver.read_exact(&mut received)?;
        ring.wait(2 - sent)
    })?;
    run.finish(ring);
    let sent = u64::from(run.count);
    run.report.exactly("inline", sent);
    run.report.exactly("enter", sent);
    Ok(())
}

fn zero_copy_refused(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("listening on the loopback device")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let mut ring = Ring::open(1, &DEFER)?;
    run.start()?;
    groups(run.count, 1, |_| {
        ring.push(opcode::SendMsgZc::new(types::Fd(sender.as_raw_fd()), std::ptr::null()).build(), 0);
        ring.submit()?;
        ring.wait(2)
    })?;
    run.finish(ring);
    let sent = u64::from(run.count);
    run.report.exactly("inline", sent);
    run.report.exactly("enter", sent);
    Ok(())
}

/// A ring of provided buffers for one message each.
pub struct Buffers {
    entries: Memory,
    messages: Vec<u8>,
    count: u16,
    bytes: usize,
    tail: u16,
}

impl Buffers {
    pub fn register(ring: &Ring, group: u16, count: u16) -> Result<Buffers> {
        Buffers::with(ring, group, count, MESSAGE, 0).context("registering a ring of buffers")
    }

    pub fn with(ring: &Ring, group: u16, count: u16, bytes: usize, flags: u16) -> Result<Buffers> {
        let entries = Memory::new(1)?;
        entries.touch_all();
        // SAFETY: the entries live as long as the ring, because `Buffers` is dropped after the last request that uses
        // them.
        unsafe { ring.uring.submitter().register_buf_ring_with_flags(entries.page(0) as u64, count, group, flags) }?;
        Ok(Buffers { entries, messages: vec![0; bytes * usize::from(count)], count, bytes, tail: 0 })
    }

    /// Returns a buffer to the kernel.
    pub fn give(&mut self, buffer: u16) {
        let base = self.entries.page(0).cast::<types::BufRingEntry>();
        self.rewind(self.tail, buffer);
        // SAFETY: the slot is within the page, and the kernel reads it only once the tail has passed it.
        unsafe {
            (*base.add(usize::from(self.tail % self.count))).set_bid(buffer);
            self.tail = self.tail.wrapping_add(1);
            (*types::BufRingEntry::tail(base).cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }
}

impl Buffers {
    /// Resets the entry at `place` to the buffer's first byte, as when the buffer is provided.
    pub fn rewind(&mut self, place: u16, buffer: u16) {
        let base = self.entries.page(0).cast::<types::BufRingEntry>();
        // SAFETY: within the page, with nothing in flight.
        let entry = unsafe { &mut *base.add(usize::from(place % self.count)) };
        entry.set_addr(self.messages[self.bytes * usize::from(buffer)..].as_mut_ptr() as u64);
        entry.set_len(self.bytes as u32);
    }
}

pub fn socketpair(kind: libc::c_int) -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the call returns two descriptors, which this process then owns.
    unsafe {
        ensure!(libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) == 0, std::io::Error::last_os_error());
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// The read and write ends.
pub fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the call returns two descriptors, which this process then owns.
    unsafe {
        ensure!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) == 0, std::io::Error::last_os_error());
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

pub fn write_all(fd: RawFd, bytes: &[u8]) -> Result<()> {
    // SAFETY: the bytes are only read during the call.
    let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    ensure!(written == bytes.len() as isize, "write: {}", std::io::Error::last_os_error());
    Ok(())
}

pub fn read_all(fd: RawFd, bytes: &mut [u8]) -> Result<()> {
    // SAFETY: the bytes are only written during the call.
    let read = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) };
    ensure!(read == bytes.len() as isize, "read: {}", std::io::Error::last_os_error());
    Ok(())
}
