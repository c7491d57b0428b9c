//! Reads the kernel's state of a process's threads, rings, sockets and cgroup with a task iterator. No probe is
//! attached, and the process is not affected.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::Duration;

use libbpf_rs::libbpf_sys::{self, BPF_TRACE_ITER, bpf_iter_link_info, bpf_link_create_opts};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, ProgramMut};

use super::snapshot_skel::{SnapshotSkelBuilder, types};
use super::support;
use crate::opcode::opcode;
use crate::raw::{read, text};
use crate::symbols::Symbols;
use iotrail_base::error::Result;
use iotrail_host::clock;
use iotrail_path::sleep;
use iotrail_schema::account::Reason;

const _: () = assert!(size_of::<types::snapshot_thread>() == 296);
const _: () = assert!(size_of::<types::snapshot_ring>() == 72);
const _: () = assert!(size_of::<types::snapshot_request>() == 64);
const _: () = assert!(size_of::<types::snapshot_depth>() == 48);
const _: () = assert!(size_of::<types::snapshot_socket>() == 24);
const _: () = assert!(size_of::<types::snapshot_queue>() == 48);
const _: () = assert!(size_of::<types::snapshot_process>() == 40);
const _: () = assert!(size_of::<types::survey_thread>() == 40);

/// Value of `frames` if the stack was already read in the same sleep.
const SAME_SLEEP: u16 = 0xffff;

/// Bit of __state, from include/linux/sched.h.
const UNINTERRUPTIBLE: u32 = 0x2;
const NOLOAD: u32 = 0x400;

/// Data to read in addition to the rings' heads and tails and the threads' counters: `enum reading` of the program.
#[derive(Debug, Clone, Copy)]
pub enum Reading {
    Brief,
    /// Stacks of sleeping threads, each once per sleep.
    Sleeps,
    /// All stacks, requests and lists.
    Deep,
}

/// One reading of several processes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// CPU time that the reading took.
    pub spent: Duration,
    pub threads: Vec<Thread>,
    /// Each socket once.
    pub rings: Vec<Ring>,
    pub sockets: Vec<HeldSocket>,
    pub queues: Vec<SocketQueue>,
    pub processes: Vec<Process>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thread {
    pub tid: u32,
    pub tgid: u32,
    pub comm: String,
    pub asleep: bool,
    /// In an uninterruptible sleep (for a device or a lock), which counts in the load average.
    pub is_uninterruptible: bool,
    /// Number of the current system call; `None` for SQPOLL threads, workers, and threads outside a call.
    pub call: Option<u32>,
    pub arguments: [u64; 5],
    /// Time of its last switch-out; `None` if it is not asleep.
    pub asleep_ns: Option<u64>,
    /// Has pending io_uring task work.
    pub has_task_work: bool,
    pub is_kernels: bool,
    /// Kernel address of the ring that it entered last.
    pub last_ring: u64,
    /// Kernel stack, innermost address first; empty if not requested, or already read in this sleep.
    pub stack: Vec<u64>,
    /// The stack was already read in this sleep.
    pub is_same_sleep: bool,
    /// Context switches since its creation.
    pub switches: u64,
    /// Voluntary context switches since its creation.
    pub sleeps: u64,
    /// Time of its creation, CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// CPU time since its creation.
    pub ran_ns: u64,
    /// Time waiting for a CPU; 0 if not counted.
    pub runnable_ns: u64,
    /// Minor page faults since its creation.
    pub faults: u64,
    /// Sleeps for I/O, so that its CPU counts as iowait.
    pub in_iowait: bool,
    /// Kernel address of the epoll in which it sleeps (epoll_wait(2)).
    pub waits_on: u64,
    /// Inode of the peer of the AF_UNIX socket in its call's first argument; 0: none.
    pub peer_inode: u64,
}

/// A thread on the machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SurveyedThread {
    pub tid: u32,
    pub tgid: u32,
    /// CPU on which it last ran.
    pub cpu: u32,
    /// Uses io_uring, or its process uses native aio.
    pub is_asynchronous: bool,
    pub is_kernels: bool,
    /// CPU time since its creation.
    pub ran_ns: u64,
    pub comm: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ring {
    /// Kernel address of the ring.
    pub address: u64,
    pub tgid: u32,
    pub fd: Option<u32>,
    pub setup_flags: u32,
    pub sq_flags: u32,
    pub cq_entries: u32,
    /// SQEs consumed and completions posted by the kernel, mod 2³².
    pub taken: u32,
    pub posted: u32,
    /// Completions that the program has not reaped.
    pub unreaped: u32,
    /// SQEs that the program has queued and the kernel has not consumed.
    pub unsubmitted: u32,
    /// With DEFER_TASKRUN, task work is pending for its thread.
    pub has_task_work: bool,
    /// The overflow list is not empty.
    pub has_overflowed: bool,
    /// The only thread that may submit to the ring.
    pub submitter: Option<u32>,
    pub sq_thread: Option<u32>,
    pub sq_thread_asleep: bool,
    /// `None` if the reading was not deep.
    pub depth: Option<Depth>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Depth {
    /// Requests in flight if the ring makes no progress; `None` if this kernel does not count them.
    pub in_flight: Option<u32>,
    /// Completions in the overflow list.
    pub overflow_list: u32,
    /// Requests that wait for their file to become ready.
    pub armed: u32,
    /// The first of the armed requests.
    pub requests: Vec<Request>,
    pub timeouts: u32,
    /// Earliest timeout in CLOCK_MONOTONIC; `None` if no timeout uses this clock.
    pub soonest_ns: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    pub address: u64,
    pub user_data: u64,
    pub opcode: String,
    pub fd: i32,
    /// Kernel address of the file.
    pub file: u64,
    /// Reference count of the file; `None` if unknown.
    pub references: Option<u64>,
    pub is_fixed: bool,
}

/// A TCP socket whose last, short segment waits for an acknowledgement (Nagle's algorithm).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldSocket {
    pub tgid: u32,
    pub fd: u32,
    pub unsent: u32,
    pub unacknowledged: u32,
}

/// A socket queue that is or was full, or whose entries wait for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketQueue {
    pub tgid: u32,
    pub fd: u32,
    pub queue: Queue,
    /// Bytes, connections or datagrams.
    pub amount: u32,
    /// Bytes of its buffer, or connections.
    pub limit: u32,
    pub listens: bool,
    /// The program set the size of the buffer.
    pub is_set: bool,
    /// EPOLLONESHOT has disabled its events.
    pub is_disarmed: bool,
    /// Kernel address of its epoll; 0 if it is in none.
    pub epoll: u64,
    /// Kernel address of its file.
    pub file: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Bytes that a read left, and that EPOLLET does not report; without an epoll, or disarmed: all bytes.
    Unread,
    /// Connections of a listening socket in an epoll with EPOLLET or EPOLLONESHOT, or in none.
    Unaccepted,
    /// Datagrams or connections that were dropped since the socket's creation.
    Dropped,
    /// A sender waits for space in a send buffer whose size the program set, although all its bytes are sent.
    Full,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Process {
    pub tgid: u32,
    pub tcp_sockets: u32,
    /// Bios of its cgroup throttled by blk-throttle (io.max).
    pub throttled_bios: u32,
    /// Total time for which its cgroup's CPU quota throttled it, summed over CPUs.
    pub quota_ns: u64,
    /// CPU time of its exited threads.
    pub exited_ns: u64,
}

/// Reads the state. Each process needs one descriptor.
#[derive(Debug)]
pub struct Reader {
    program: OwnedFd,
    /// By PID in iotrail's namespace.
    links: BTreeMap<u32, OwnedFd>,
    /// Passes the kind of the next reading to the program.
    next_reading: MapHandle,
    /// Iterator over all threads on the machine.
    survey: OwnedFd,
    bytes: Vec<u8>,
}

impl Reader {
    /// Loads the iterators. The verifier takes about 65 ms.
    pub fn open() -> Result<Self> {
        support::quiet();
        let failed = |e| support::refused("cannot read the state of rings and threads", e);
        let mut object = MaybeUninit::uninit();
        let open = SnapshotSkelBuilder::default().open(&mut object).map_err(failed)?;
        let skel = open.load().map_err(failed)?;
        let program =
            |p: &ProgramMut<'_>| p.as_fd().try_clone_to_owned().map_err(|e| failed(libbpf_rs::Error::from(e)));
        let survey = link(&program(&skel.progs.survey)?, None).map_err(|e| failed(e.into()))?;
        let own = link(&program(&skel.progs.snapshot_own)?, Some(std::process::id())).map_err(|e| failed(e.into()))?;
        let mut reader = Reader {
            program: program(&skel.progs.snapshot)?,
            links: BTreeMap::new(),
            next_reading: MapHandle::try_from(&skel.maps.next_reading).map_err(failed)?,
            survey,
            bytes: vec![],
        };
        for (kind, operations) in reader.operations(&own).into_iter().enumerate() {
            let key = (kind as u32).to_ne_bytes();
            skel.maps.operations.update(&key, &operations.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        }
        Ok(reader)
    }

    /// f_op addresses of rings and sockets; 0 if this process may not create them.
    fn operations(&mut self, own: &OwnedFd) -> [u64; 2] {
        let mut parameters = [0u64; 15];
        // SAFETY: the parameters are as long as struct io_uring_params (120 bytes) and all zero.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
        // SAFETY: a new descriptor; nothing else owns it.
        let ring = (ring >= 0).then(|| unsafe { OwnedFd::from_raw_fd(ring as i32) });
        let socket = TcpListener::bind("127.0.0.1:0").ok();
        self.bytes.clear();
        if collect(own, &mut self.bytes).is_err() {
            return [0; 2];
        }
        let files = self.bytes.chunks_exact(size_of::<types::own_file>()).map(read::<types::own_file>);
        let files: Vec<types::own_file> = files.collect();
        let of = |fd: Option<i32>| {
            let fd = fd?;
            files.iter().find(|f| f.fd == fd as u64).map(|f| f.operations)
        };
        [of(ring.map(|r| r.as_raw_fd())), of(socket.map(|s| s.as_raw_fd()))].map(Option::unwrap_or_default)
    }

    /// Reads the processes with these PIDs in iotrail's namespace.
    pub fn read(&mut self, processes: &[(u32, Reading)]) -> Snapshot {
        let began = clock::of_this_thread();
        self.bytes.clear();
        for (pid, reading) in processes {
            let kind = (*reading as u32).to_ne_bytes();
            if self.next_reading.update(&0u32.to_ne_bytes(), &kind, MapFlags::ANY).is_err() {
                continue;
            }
            let link = match self.links.entry(*pid) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => match link(&self.program, Some(*pid)) {
                    Ok(link) => new.insert(link),
                    // It has exited.
                    Err(_) => continue,
                },
            };
            let before = self.bytes.len();
            if collect(link, &mut self.bytes).is_err() {
                self.bytes.truncate(before);
            }
        }
        let mut snapshot = Snapshot { at_ns: clock::monotonic_ns(), ..parse(&self.bytes) };
        snapshot.spent = clock::of_this_thread().saturating_sub(began);
        snapshot
    }

    /// Stops reading all other processes.
    pub fn keep(&mut self, processes: impl Fn(u32) -> bool) {
        self.links.retain(|pid, _| processes(*pid));
    }

    /// Reads all threads on the machine, with IDs of the initial namespace.
    pub fn survey(&mut self) -> std::io::Result<Vec<SurveyedThread>> {
        self.bytes.clear();
        collect(&self.survey, &mut self.bytes)?;
        let threads = self.bytes.chunks_exact(size_of::<types::survey_thread>()).map(read::<types::survey_thread>);
        let threads = threads.map(|t| SurveyedThread {
            tid: t.tid,
            tgid: t.tgid,
            cpu: t.cpu,
            is_asynchronous: t.asynchronous != 0,
            is_kernels: t.kernels != 0,
            ran_ns: t.ran_ns,
            comm: text(&t.comm),
        });
        Ok(threads.collect())
    }
}

/// `None`: all threads on the machine.
fn link(program: &OwnedFd, pid: Option<u32>) -> std::io::Result<OwnedFd> {
    let mut info = bpf_iter_link_info::default();
    info.task.pid = pid.unwrap_or(0);
    let mut options = bpf_link_create_opts { sz: size_of::<bpf_link_create_opts>() as _, ..Default::default() };
    options.iter_info = &mut info;
    options.iter_info_len = size_of::<bpf_iter_link_info>() as u32;
    // SAFETY: the program is loaded, and the options outlive the call.
    let link = unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), 0, BPF_TRACE_ITER, &options) };
    if link < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a new descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// All output of one run of the iterator.
fn collect(link: &OwnedFd, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    // SAFETY: the link is open.
    let iterator = unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) };
    if iterator < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a new descriptor; nothing else owns it.
    let mut file = unsafe { File::from_raw_fd(iterator) };
    let mut part = [0; 32 << 10];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(()),
            n => bytes.extend_from_slice(&part[..n]),
        }
    }
}

fn parse(mut bytes: &[u8]) -> Snapshot {
    let mut s = Snapshot::default();
    let mut requests: BTreeMap<u64, Vec<Request>> = BTreeMap::new();
    while bytes.len() >= 4 {
        let kind = types::snapshot_kind(read(bytes));
        let length = match kind {
            types::snapshot_kind::SNAPSHOT_THREAD => size_of::<types::snapshot_thread>(),
            types::snapshot_kind::SNAPSHOT_RING => size_of::<types::snapshot_ring>(),
            types::snapshot_kind::SNAPSHOT_REQUEST => size_of::<types::snapshot_request>(),
            types::snapshot_kind::SNAPSHOT_DEPTH => size_of::<types::snapshot_depth>(),
            types::snapshot_kind::SNAPSHOT_SOCKET => size_of::<types::snapshot_socket>(),
            types::snapshot_kind::SNAPSHOT_QUEUE => size_of::<types::snapshot_queue>(),
            _ => size_of::<types::snapshot_process>(),
        };
        let Some((record, rest)) = bytes.split_at_checked(length) else { break };
        bytes = rest;
        match kind {
            types::snapshot_kind::SNAPSHOT_THREAD => s.threads.push(thread(read(record))),
            types::snapshot_kind::SNAPSHOT_RING => take_ring(&mut s.rings, read(record)),
            types::snapshot_kind::SNAPSHOT_REQUEST => {
                let r: types::snapshot_request = read(record);
                requests.entry(r.ring).or_default().push(request(&r));
            }
            types::snapshot_kind::SNAPSHOT_DEPTH => {
                let d: types::snapshot_depth = read(record);
                let requests = requests.remove(&d.ring).unwrap_or_default();
                if let Some(ring) = s.rings.iter_mut().find(|r| r.address == d.ring) {
                    ring.depth = Some(depth(&d, requests));
                }
            }
            types::snapshot_kind::SNAPSHOT_SOCKET => {
                let k: types::snapshot_socket = read(record);
                let held = HeldSocket { tgid: k.tgid, fd: k.fd, unsent: k.unsent, unacknowledged: k.unacknowledged };
                s.sockets.push(held);
            }
            types::snapshot_kind::SNAPSHOT_QUEUE => s.queues.push(socket_queue(&read(record))),
            _ => {
                let p: types::snapshot_process = read(record);
                if s.processes.iter().all(|known| known.tgid != p.tgid) {
                    s.processes.push(Process {
                        tgid: p.tgid,
                        tcp_sockets: p.tcp_sockets,
                        throttled_bios: p.throttled_bios,
                        quota_ns: p.quota_ns,
                        exited_ns: p.exited_ns,
                    });
                }
            }
        }
    }
    s
}

fn thread(t: types::snapshot_thread) -> Thread {
    Thread {
        tid: t.tid,
        tgid: t.tgid,
        comm: text(&t.comm),
        asleep: t.state != 0,
        is_uninterruptible: t.state & UNINTERRUPTIBLE != 0 && t.state & NOLOAD == 0,
        call: u32::try_from(t.call).ok(),
        arguments: t.arguments,
        asleep_ns: (t.asleep_ns != 0).then_some(t.asleep_ns),
        has_task_work: t.task_work != 0,
        is_kernels: t.kernels != 0,
        last_ring: t.last_ring,
        stack: if t.frames == SAME_SLEEP {
            vec![]
        } else {
            t.stack[..usize::from(t.frames).min(t.stack.len())].to_vec()
        },
        is_same_sleep: t.frames == SAME_SLEEP,
        switches: t.switches,
        sleeps: t.sleeps,
        started_ns: t.started_ns,
        ran_ns: t.ran_ns,
        runnable_ns: t.runnable_ns,
        in_iowait: t.iowait != 0,
        faults: t.faults,
        waits_on: t.waits_on,
        peer_inode: t.peer_inode,
    }
}

fn request(r: &types::snapshot_request) -> Request {
    Request {
        address: r.request,
        user_data: r.user_data,
        opcode: opcode(r.opcode),
        fd: r.fd,
        file: r.file,
        references: u64::try_from(r.references).ok().filter(|n| *n > 0),
        is_fixed: r.fixed != 0,
    }
}

fn socket_queue(q: &types::snapshot_queue) -> SocketQueue {
    let queue = match types::socket_queue(q.queue) {
        types::socket_queue::QUEUE_UNREAD => Queue::Unread,
        types::socket_queue::QUEUE_UNACCEPTED => Queue::Unaccepted,
        types::socket_queue::QUEUE_DROPPED => Queue::Dropped,
        _ => Queue::Full,
    };
    SocketQueue {
        tgid: q.tgid,
        fd: q.fd,
        queue,
        amount: q.amount,
        limit: q.limit,
        listens: q.listens != 0,
        is_set: q.is_set != 0,
        is_disarmed: q.is_disarmed != 0,
        epoll: q.epoll,
        file: q.file,
    }
}

fn depth(d: &types::snapshot_depth, requests: Vec<Request>) -> Depth {
    Depth {
        in_flight: (d.allocated_known != 0).then(|| d.allocated.saturating_sub(d.free)),
        overflow_list: d.overflow_list,
        armed: d.armed,
        requests,
        timeouts: d.timeouts,
        soonest_ns: (d.soonest_ns != 0).then_some(d.soonest_ns),
    }
}

/// A ring is found through its descriptor and through each thread that entered it, so duplicates are dropped.
fn take_ring(rings: &mut Vec<Ring>, r: types::snapshot_ring) {
    let fd = u32::try_from(r.fd).ok();
    if let Some(known) = rings.iter_mut().find(|known| known.address == r.ring) {
        known.fd = known.fd.or(fd);
        return;
    }
    let nonzero = |n: u32| (n != 0).then_some(n);
    // Both indices change concurrently, and the program may write any value.
    let within = |ahead: u32, behind: u32, entries: u32| Some(ahead.wrapping_sub(behind)).filter(|n| *n <= entries);
    rings.push(Ring {
        address: r.ring,
        tgid: r.tgid,
        fd,
        setup_flags: r.setup_flags,
        sq_flags: r.sq_flags,
        cq_entries: r.cq_entries,
        taken: r.sq_taken,
        posted: r.cq_tail,
        unreaped: within(r.cq_tail, r.cq_head, r.cq_entries).unwrap_or(0),
        unsubmitted: within(r.sq_tail, r.sq_taken, r.sq_entries).unwrap_or(0),
        has_task_work: r.task_work != 0,
        has_overflowed: r.overflowed != 0,
        submitter: nonzero(r.submitter),
        sq_thread: nonzero(r.sq_thread),
        sq_thread_asleep: r.sq_state != 0,
        depth: None,
    });
}

/// Why a thread sleeps, from its kernel stack (innermost address first); `None` if the stack is empty or symbols are
/// hidden.
pub fn reason(stack: &[u64]) -> Option<Reason> {
    sleep::reason(&functions(stack))
}

/// Functions on a kernel stack, innermost first; empty if symbols are hidden.
pub fn functions(stack: &[u64]) -> Vec<&'static str> {
    let symbols = Symbols::of_this_kernel();
    stack.iter().filter_map(|address| symbols?.caller(*address)).collect()
}
