//! Completion-based engine: one io_uring_enter per iteration submits receives and sends, and waits for more.
//!
//! | file | responsible for |
//! |---|---|
//! | `queue` | both queues of the ring, and entering the kernel |
//! | `entry` | contents of the submission entries |
//! | `provided` | buffers that the kernel selects from |
//! | `area` | pages for zero-copy receive |
//! | `output` | memory of sends |
//! | `peer` | requests in flight of a connection |
//! | `exchange` | actions after the completions of a connection |
//! | `serve` | the loop; accepting |
//!
//! All requests that a connection receives in one iteration are answered with a single send. It sends as much as the
//! socket accepts during submission (MSG_DONTWAIT), and posts a completion only if data remains
//! (IOSQE_CQE_SKIP_SUCCESS). So it neither ends the wait in the same system call nor keeps memory busy. The remaining
//! data gets memory of its own and a send that waits. A connection has at most one send in flight: completions of sends
//! are handled before all others.

mod area;
mod entry;
mod exchange;
mod output;
mod peer;
mod provided;
mod queue;
mod serve;
#[cfg(test)]
mod tests;

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use linux_raw_sys::io_uring as sys;

use super::connection::without_delay;
use super::seat::Seat;
use super::spec::{SQ_ENTRIES, ServerSpec};
use crate::descriptors;
use crate::options::Receive;
use area::Area;
use entry::Word;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_host::kernel;
use iotrail_load::engine::io_uring::flags::Flag;
use iotrail_load::engine::io_uring::refusal::Words;
use iotrail_load::engine::io_uring::ring::{Handle, Ring, Waits};
use iotrail_load::engine::io_uring::{self, Config};
use provided::Provided;
use queue::Queue;

const WORDS: Words = Words {
    without_rings: "use --engine epoll",
    fewer_rings: "use fewer --server-threads",
    smaller_ring: "use a smaller cqsize",
};

/// Serves until the seat's server is stopped.
pub fn serve(seat: &Seat<'_>) -> Result<()> {
    let spec = &seat.shared.spec;
    let options = &spec.options;
    let config = Config {
        setup: spec.setup.clone(),
        sq_entries: SQ_ENTRIES,
        sq_cpu: options.sq_cpu,
        sq_idle_ms: options.sq_idle,
        waits: Waits {
            min_us: options.min_wait.map_or(0, |span| span.0.as_micros() as u32),
            no_iowait: options.no_iowait,
            registered: spec.register_waits,
        },
        big_entries: if options.receive == Receive::Zcrx { sys::IORING_SETUP_CQE32 } else { 0 },
        ..Config::default()
    };
    let ring = io_uring::open_ring(&config, &WORDS)?;
    let granted = io_uring::granted(&config, &ring);
    let sqpoll = spec.setup.has(Flag::Sqpoll);
    if sqpoll && let Some(tid) = io_uring::sq_thread::of(ring.fd()) {
        seat.shared.sq_tids[seat.number].store(tid, Ordering::Relaxed);
    }
    if ring.params.features & sys::IORING_FEAT_CQE_SKIP == 0 {
        let what = format!(
            "this kernel ({}) cannot suppress completions of successful requests, which requires Linux 5.17 or later",
            release()
        );
        return Err(Error::machine(what, "use --engine epoll"));
    }
    let handle = match spec.register_ring {
        true => Handle::by_index(&ring).or_machine(
            "cannot register the ring with its thread (requires Linux 5.18)",
            "remove ring from --register",
        )?,
        false => Handle::by_descriptor(&ring),
    };
    let places = if spec.register_files { Some(register_files(&ring)?) } else { None };
    if let Some(napi) = options.napi {
        register_napi(&ring, napi.0.as_micros())?;
    }
    let provided = match options.receive {
        Receive::Single | Receive::Zcrx => None,
        _ => Some(register_buffers(&ring, spec)?),
    };
    let is_unix = seat.listener.local_addr().is_ok_and(|at| at.is_unix());
    let area = match options.receive {
        Receive::Zcrx if is_unix => {
            let remedy = "use another --receive, or serve at a TCP address";
            return Err(Error::input("a UNIX socket has no zero-copy receives", remedy));
        }
        Receive::Zcrx => Some(Area::register(&ring, options.buffers).or_machine(
            format_args!(
                "cannot register a zero-copy receive queue without a network device (requires Linux 7.1; this is {})",
                release()
            ),
            "use --receive multishot",
        )?),
        _ => None,
    };
    // A request that waits for a connection or for buffer space has to wait in the kernel, but on old kernels
    // O_NONBLOCK makes it fail.
    let listening = |e| Error::machine("cannot make the listening socket blocking", "report this").because(e);
    seat.listener.set_nonblocking(false).map_err(listening)?;
    // Accepted connections inherit this, including direct descriptors.
    without_delay(&seat.listener);
    let mut queue = Queue::new(ring, handle, sqpoll, config.waits, seat.counts());
    if options.zero_copy.is_some() {
        if is_unix {
            let remedy = "omit --zero-copy, or serve at a TCP address";
            return Err(Error::input("a UNIX socket has no zero-copy sends", remedy));
        }
        probe_zero_copy(&mut queue, seat)?;
    }
    let mut server = serve::Server::new(seat, queue, provided, area, places);
    let ended = server.begin(granted).and_then(|()| server.run());
    server.end();
    ended
}

/// Registers an empty direct descriptor table, as large as the limit on open files allows; returns its size.
fn register_files(ring: &Ring) -> Result<u32> {
    // Each entry takes 8 bytes in the kernel.
    const MOST: u64 = 1 << 16;
    let nr = descriptors::raise()?.min(MOST) as u32;
    let what = sys::io_uring_rsrc_register { nr, flags: sys::IORING_RSRC_REGISTER_SPARSE, resv2: 0, data: 0, tags: 0 };
    // SAFETY: one live structure; a sparse table refers to no other memory. The count is the structure's size.
    let done = unsafe {
        let op = sys::io_uring_register_op::IORING_REGISTER_FILES2;
        ring.register(op, (&raw const what).cast(), size_of_val(&what) as u32)
    };
    done.map(|()| nr).or_machine(
        format_args!("cannot register a table of {nr} direct descriptors (requires Linux 5.19)"),
        "remove files from --register",
    )
}

fn register_napi(ring: &Ring, us: u128) -> Result<()> {
    let mut what = sys::io_uring_napi {
        busy_poll_to: u32::try_from(us).unwrap_or(u32::MAX),
        prefer_busy_poll: 0,
        opcode: sys::io_uring_napi_op::IO_URING_NAPI_REGISTER_OP as u8,
        pad: [0; 2],
        op_param: sys::io_uring_napi_tracking_strategy::IO_URING_NAPI_TRACKING_DYNAMIC as u32,
        resv: 0,
    };
    // SAFETY: one live structure, which the kernel reads, and fills with the previous values.
    let done = unsafe { ring.register(sys::io_uring_register_op::IORING_REGISTER_NAPI, (&raw mut what).cast(), 1) };
    done.or_machine(
        format_args!(
            "this kernel ({}) does not support busy polling with io_uring, which requires Linux 6.9 or later",
            release()
        ),
        "omit --napi",
    )
}

fn register_buffers(ring: &Ring, spec: &ServerSpec) -> Result<Provided> {
    if spec.options.receive == Receive::Bundle && ring.params.features & sys::IORING_FEAT_RECVSEND_BUNDLE == 0 {
        return Err(Error::machine(
            format!("this kernel ({}) does not support receive bundles, which require Linux 6.10 or later", release()),
            "use --receive multishot",
        ));
    }
    Provided::register(ring, spec.options.buffers as usize, spec.buffer_bytes).or_machine(
        format_args!(
            "cannot provide {} buffers of {} bytes (requires Linux 5.19)",
            spec.options.buffers, spec.buffer_bytes
        ),
        "use fewer --buffers, a smaller --buffer-size, or --receive single",
    )
}

/// Tries a zero-copy send on a descriptor that is not a socket: a kernel that supports it reports that, an older kernel
/// rejects the request.
fn probe_zero_copy(queue: &mut Queue<'_>, seat: &Seat<'_>) -> Result<()> {
    let (sqe, _) = queue.push(Word::Ignored);
    entry::send(sqe, seat.stop_fd().as_raw_fd(), std::ptr::null(), 0, true);
    let mut result = None;
    while result.is_none() || queue.outstanding > 0 {
        queue.enter(1, None).map_err(cannot_enter)?;
        while queue.pop_send().is_some() {}
        while let Some(cqe) = queue.pop() {
            result.get_or_insert(cqe.result);
        }
    }
    match result {
        Some(r) if r == -libc::EINVAL || r == -libc::EOPNOTSUPP => Err(Error::machine(
            format!(
                "this kernel ({}) does not report whether zero-copy sends were copied, which requires Linux 6.2 or later",
                release()
            ),
            "omit --zero-copy",
        )),
        _ => Ok(()),
    }
}

fn cannot_enter(e: std::io::Error) -> Error {
    match e.raw_os_error() {
        Some(libc::ENOMEM | libc::EBADR) => {
            Error::machine("the kernel dropped completions because it was out of memory", "free memory")
        }
        _ => Error::machine("cannot wait for completions", "report this").because(e),
    }
}

fn release() -> String {
    kernel::release().unwrap_or_else(|| "release unknown".into())
}
