//! Aggregates samples of threads, rings and sockets to the record. Pure.

use std::collections::{BTreeMap, BTreeSet};

use iotrail_path::delivery::{IO_URING_ENTER, syscall_name};
use iotrail_probe::snapshot::{self, Depth, Queue, Request, Ring, Snapshot, SocketQueue, Thread};
use iotrail_schema::setup_flag;
use iotrail_schema::state::{
    ArmedRequests, CgroupState, Moment, NagleState, RingNow, RingState, SendBuffer, SocketDrops, StateRecord,
    StateSource, ThreadNow, Unread, UnreadSocket,
};

use crate::rings::SQPOLL;

pub(crate) const DEFER_TASKRUN: u32 = linux_raw_sys::io_uring::IORING_SETUP_DEFER_TASKRUN;
const COOP_TASKRUN: u32 = linux_raw_sys::io_uring::IORING_SETUP_COOP_TASKRUN;
const NEED_WAKEUP: u32 = linux_raw_sys::io_uring::IORING_SQ_NEED_WAKEUP;
const GETEVENTS: u64 = linux_raw_sys::io_uring::IORING_ENTER_GETEVENTS as u64;
/// Flag of a wait whose argument may contain a timeout.
const EXT_ARG: u64 = linux_raw_sys::io_uring::IORING_ENTER_EXT_ARG as u64;
const EXT_ARG_REG: u64 = linux_raw_sys::io_uring::IORING_ENTER_EXT_ARG_REG as u64;

/// Maximum number of listed threads.
const THREADS: usize = 16;

/// Maximum number of listed rings.
const RINGS: usize = 64;

/// Maximum number of individually counted sockets.
const SOCKETS: usize = 1024;

/// Number of threads and processes above which exited ones are summed.
const REMEMBERED: usize = 16_384;

/// Sums over all samples.
#[derive(Debug, Default)]
pub struct Sums {
    samples: u64,
    first_ns: u64,
    last_ns: u64,
    cost_ns: u64,
    /// By kernel address.
    rings: BTreeMap<u64, RingSum>,
    nagle: Option<NagleState>,
    /// Number of samples and maximum bytes, by process and descriptor.
    sockets: BTreeMap<(u32, u32), (u64, u32)>,
    cgroup: Option<CgroupState>,
    /// By process and descriptor.
    unread: BTreeMap<(u32, u32), UnreadSum>,
    /// By kernel address of the file: the count before the trace, and the last sample.
    drops: BTreeMap<u64, (u32, SocketQueue)>,
    send_buffers: BTreeMap<u64, SendBuffer>,
    /// By thread: minor page faults before the trace, and at the last sample.
    faults: BTreeMap<u32, (u64, u64)>,
    faults_of_exited: u64,
    /// Processes of earlier samples: their new sockets and threads belong to the trace.
    processes: BTreeSet<u32>,
    /// Processes whose rings have at most timeouts in flight, in the last deep sample.
    unarmed: BTreeSet<u32>,
    /// Throttled time of the process's cgroup at the first and the last sample.
    quota_ns: BTreeMap<u32, (u64, u64)>,
    most_quota_of_exited_ns: u64,
    /// Requests whose file only requests keep open, in the last deep sample; by address and user data.
    held: BTreeSet<(u64, u64)>,
    /// Armed requests by address and user data, with the time of their first sample.
    met_ns: BTreeMap<(u64, u64), u64>,
    /// The last deep sample in which a thread existed.
    last: Option<Snapshot>,
}

#[derive(Debug)]
struct RingSum {
    state: RingState,
    /// SQEs consumed, completions posted, and the time of their last change.
    progress: (u32, u32, u64),
    /// Time since which task work is pending, and the completions posted at that time.
    unrun_since: Option<(u64, u32)>,
}

/// A socket with unread data.
#[derive(Debug, Default)]
struct UnreadSum {
    bytes: u32,
    /// Time since which this much data is unread.
    since_ns: u64,
    /// Number of its last sample.
    sample: u64,
    /// The longest such time during which a thread slept, and that thread's sleep so far.
    longest: Option<UnreadSocket>,
    asleep_ns: u64,
}

/// Threads that use a ring, in one sample.
pub(crate) struct Users<'s>(pub Vec<&'s Thread>);

impl<'s> Users<'s> {
    /// Threads that last entered this ring, or all threads of the process if there are none.
    pub fn of(ring: &Ring, sample: &'s Snapshot) -> Self {
        let of_process = || of_process(sample, ring.tgid);
        let entered = |t: &&Thread| t.last_ring == ring.address || ring.submitter == Some(t.tid);
        let users: Vec<&Thread> = of_process().filter(entered).collect();
        Users(if users.is_empty() { of_process().collect() } else { users })
    }

    /// Submits: a thread that only waits passes to_submit 0, or has submitted its requests before.
    pub fn submit(&self) -> bool {
        self.0.iter().any(|t| t.call == Some(IO_URING_ENTER) && t.arguments[1] > 0)
    }

    pub fn wait(&self) -> bool {
        self.0.iter().any(|t| waits(t))
    }

    pub fn sleep(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|t| t.asleep)
    }

    /// If all of them sleep in io_uring_enter(2) for more completions than the CQ has: the longest sleep, the number of
    /// completions that it waits for, and whether it may have a timeout.
    pub fn starved(&self, ring: &Ring) -> Option<(u64, u64, bool)> {
        let wanted = |t: &Thread| t.arguments[2].min(ring.cq_entries.into());
        let is_limited = |t: &Thread| t.arguments[3] & (EXT_ARG | EXT_ARG_REG) != 0;
        let starves = |t: &Thread| t.asleep && waits(t) && wanted(t) > ring.unreaped.into();
        let all = self.0.iter().copied().all(starves);
        self.0.iter().filter(|_| all).filter_map(|t| Some((t.asleep_ns?, wanted(t), is_limited(t)))).max()
    }

    /// The thread that has to run pending task work; `None` if none is pending or the thread is about to run it.
    pub fn runner(&self, ring: &Ring) -> Option<u32> {
        match ring.setup_flags {
            flags if flags & DEFER_TASKRUN != 0 => {
                (ring.has_task_work && !self.wait()).then(|| ring.submitter.or(self.0.first().map(|t| t.tid))).flatten()
            }
            flags if flags & COOP_TASKRUN != 0 => self.0.iter().find(|t| t.has_task_work && !t.asleep).map(|t| t.tid),
            _ => None,
        }
    }
}

/// Whether the thread is in io_uring_enter(2) with IORING_ENTER_GETEVENTS.
pub(crate) fn waits(t: &Thread) -> bool {
    t.call == Some(IO_URING_ENTER) && t.arguments[3] & GETEVENTS != 0
}

pub(crate) fn needs_wakeup(ring: &Ring) -> bool {
    ring.unsubmitted > 0 && ring.sq_thread_asleep && ring.sq_flags & NEED_WAKEUP != 0
}

fn of_process(sample: &Snapshot, tgid: u32) -> impl Iterator<Item = &Thread> {
    sample.threads.iter().filter(move |t| t.tgid == tgid && !t.is_kernels)
}

fn flags(ring: &Ring) -> Vec<String> {
    setup_flag::names(ring.setup_flags, Some(ring.cq_entries))
}

/// Requests of the ring whose file has no other reference.
fn held(depth: &Depth) -> impl Iterator<Item = &Request> {
    let mut holders: BTreeMap<u64, u64> = BTreeMap::new();
    for request in depth.requests.iter().filter(|r| !r.is_fixed) {
        *holders.entry(request.file).or_default() += 1;
    }
    depth.requests.iter().filter(move |r| !r.is_fixed && r.references == holders.get(&r.file).copied())
}

impl Sums {
    pub fn take(&mut self, sample: &Snapshot) {
        if sample.threads.is_empty() {
            return;
        }
        if self.samples == 0 {
            self.first_ns = sample.at_ns;
        }
        self.samples += 1;
        self.last_ns = sample.at_ns;
        self.cost_ns += sample.spent.as_nanos() as u64;
        sample.rings.iter().for_each(|ring| self.ring(ring, sample));
        self.sockets(sample);
        for socket in &sample.queues {
            self.queue(socket, sample);
        }
        self.faults(sample);
        self.processes.extend(sample.processes.iter().map(|p| p.tgid));
        self.cgroup(sample);
        if self.faults.len() + self.processes.len() > REMEMBERED {
            self.sum_exited(sample);
        }
        if sample.rings.iter().any(|ring| ring.depth.is_some()) || sample.threads.iter().any(|t| !t.stack.is_empty()) {
            let requests = || sample.rings.iter().filter_map(|r| r.depth.as_ref()).flat_map(|d| &d.requests);
            let met = requests().map(|r| {
                let key = (r.address, r.user_data);
                (key, self.met_ns.get(&key).copied().unwrap_or(sample.at_ns))
            });
            self.met_ns = met.collect();
            let depths = sample.rings.iter().filter_map(|r| r.depth.as_ref());
            self.held = depths.flat_map(held).map(|r| (r.address, r.user_data)).collect();
            let is_idle = |r: &Ring| {
                let has_none = |d: &Depth| d.armed == 0 && d.in_flight.is_none_or(|n| n <= d.timeouts);
                r.depth.as_ref().is_some_and(has_none) && r.unsubmitted == 0 && !r.has_task_work && r.unreaped == 0
            };
            let of = |tgid: u32| sample.rings.iter().filter(move |r| r.tgid == tgid);
            let tgids = sample.rings.iter().map(|r| r.tgid);
            self.unarmed = tgids.filter(|tgid| of(*tgid).all(is_idle)).collect();
            self.last = Some(sample.clone());
        }
    }

    fn ring(&mut self, ring: &Ring, sample: &Snapshot) {
        if self.rings.len() >= RINGS && !self.rings.contains_key(&ring.address) {
            return;
        }
        let now = sample.at_ns;
        let sum = self.rings.entry(ring.address).or_insert_with(|| RingSum {
            state: RingState { tgid: ring.tgid, fd: ring.fd, flags: flags(ring), ..RingState::default() },
            progress: (ring.taken, ring.posted, now),
            unrun_since: None,
        });
        let users = Users::of(ring, sample);
        let s = &mut sum.state;
        s.samples += 1;
        s.fd = s.fd.or(ring.fd);
        s.unreaped += u64::from(ring.unreaped > 0 && users.sleep() && !users.wait());
        match users.runner(ring) {
            Some(tid) => {
                s.unrun += 1;
                s.unrun_asleep += u64::from(users.sleep());
                s.runner = Some(tid);
                let since = sum.unrun_since.filter(|(_, posted)| *posted == ring.posted).unwrap_or((now, ring.posted));
                s.unrun_longest_ns = s.unrun_longest_ns.max(now - since.0);
                sum.unrun_since = Some(since);
            }
            None => sum.unrun_since = None,
        }
        let submits = ring.setup_flags & SQPOLL == 0 && users.submit();
        s.unsubmitted += u64::from(ring.unsubmitted > 0 && !submits);
        s.need_wakeup += u64::from(needs_wakeup(ring));
        s.overflowed += u64::from(ring.has_overflowed);
        if let Some(depth) = &ring.depth {
            s.most_overflowed = s.most_overflowed.max(Some(depth.overflow_list.into()));
            // A program that closes files before its requests complete is in this state only briefly.
            let twice: Vec<&Request> = held(depth).filter(|r| self.held.contains(&(r.address, r.user_data))).collect();
            s.most_held = s.most_held.max(Some(twice.len() as u64));
            s.held_opcode = s.held_opcode.take().or(twice.first().map(|r| r.opcode.clone()));
            let none =
                depth.in_flight == Some(0) && sum.progress.2 < now && !ring.has_overflowed && !ring.has_task_work;
            let idle = none && ring.unsubmitted == 0 && ring.setup_flags & SQPOLL == 0 && depth.timeouts == 0;
            let starved = users.starved(ring).filter(|_| idle);
            (s.starved_ns, s.starved_for, s.starved_limited) = starved.unwrap_or_default();
            let left = depth.soonest_ns.map(|ns| ns as i64 - now as i64);
            s.least_timeout_ns = [s.least_timeout_ns, left].into_iter().flatten().min();
        }
        if (sum.progress.0, sum.progress.1) != (ring.taken, ring.posted) {
            sum.progress = (ring.taken, ring.posted, now);
        }
    }

    fn sockets(&mut self, sample: &Snapshot) {
        if sample.processes.is_empty() {
            return;
        }
        let sum = self.nagle.get_or_insert_default();
        sum.sockets = sum.sockets.max(sample.processes.iter().map(|p| u64::from(p.tcp_sockets)).sum());
        sum.held += u64::from(!sample.sockets.is_empty());
        sum.corked += u64::from(sample.sockets.iter().any(|socket| socket.unacknowledged == 0));
        // Only threads of the same process: threads of another process may continue.
        let asleep = |tgid| of_process(sample, tgid).all(|t| t.asleep);
        sum.held_asleep += u64::from(sample.sockets.iter().any(|socket| asleep(socket.tgid)));
        for socket in &sample.sockets {
            let key = (socket.tgid, socket.fd);
            if self.sockets.len() < SOCKETS || self.sockets.contains_key(&key) {
                let (samples, bytes) = self.sockets.entry(key).or_default();
                (*samples, *bytes) = (*samples + 1, (*bytes).max(socket.unsent));
            }
        }
    }

    fn queue(&mut self, socket: &SocketQueue, sample: &Snapshot) {
        match socket.queue {
            Queue::Unread | Queue::Unaccepted => self.unread(socket, sample),
            Queue::Dropped if self.drops.len() < SOCKETS || self.drops.contains_key(&socket.file) => {
                let before = if self.processes.contains(&socket.tgid) { 0 } else { socket.amount };
                self.drops.entry(socket.file).or_insert((before, *socket)).1 = *socket;
            }
            Queue::Full if self.send_buffers.len() < SOCKETS || self.send_buffers.contains_key(&socket.file) => {
                let (tgid, fd) = (socket.tgid, socket.fd);
                let new = SendBuffer { tgid, fd, bytes: socket.limit.into(), samples: 0, asleep: 0 };
                let sum = self.send_buffers.entry(socket.file).or_insert(new);
                sum.samples += 1;
                sum.asleep += u64::from(of_process(sample, tgid).all(|t| t.asleep));
            }
            Queue::Dropped | Queue::Full => {}
        }
    }

    fn unread(&mut self, socket: &SocketQueue, sample: &Snapshot) {
        let key = (socket.tgid, socket.fd);
        if self.unread.len() >= SOCKETS && !self.unread.contains_key(&key) {
            return;
        }
        let sum = self.unread.entry(key).or_default();
        let because = match socket.queue {
            _ if socket.is_disarmed => Unread::Disarmed,
            Queue::Unaccepted if socket.epoll == 0 => Unread::NotAccepting,
            Queue::Unaccepted => Unread::Unaccepted,
            _ if socket.epoll == 0 => Unread::NotArmed,
            _ => Unread::Partly,
        };
        // Connections are taken one at a time, and others arrive.
        let is_whole = matches!(because, Unread::NotArmed | Unread::Disarmed);
        let is_read = socket.amount < sum.bytes || socket.amount > sum.bytes && !is_whole;
        if sum.since_ns == 0 || is_read && !socket.listens || sum.sample + 1 != self.samples {
            sum.since_ns = sample.at_ns;
        }
        sum.bytes = socket.amount;
        sum.sample = self.samples;
        let waits = |t: &&Thread| match because {
            Unread::NotArmed => waits(t) && self.unarmed.contains(&socket.tgid),
            Unread::NotAccepting => waits(t),
            _ => t.waits_on == socket.epoll && t.call.is_some_and(|call| syscall_name(call).starts_with("epoll_")),
        };
        // Another thread of the process may be about to read it.
        let all_wait = of_process(sample, socket.tgid).all(|t| t.asleep && !t.is_uninterruptible);
        let for_ns = sample.at_ns - sum.since_ns;
        if let Some(thread) = of_process(sample, socket.tgid).find(waits).filter(|_| all_wait)
            && sum.longest.as_ref().is_none_or(|longest| for_ns >= longest.for_ns)
        {
            sum.asleep_ns = thread.asleep_ns.unwrap_or(0);
            sum.longest = Some(UnreadSocket {
                because,
                tgid: key.0,
                fd: key.1,
                bytes: socket.amount.into(),
                backlog: socket.listens.then_some(socket.limit.into()),
                for_ns,
                at_end: false,
                tid: thread.tid,
                comm: thread.comm.clone(),
            });
        }
    }

    fn faults(&mut self, sample: &Snapshot) {
        for t in sample.threads.iter().filter(|t| !t.is_kernels) {
            let before = if self.processes.contains(&t.tgid) { 0 } else { t.faults };
            self.faults.entry(t.tid).or_insert((before, 0)).1 = t.faults;
        }
    }

    fn sum_exited(&mut self, sample: &Snapshot) {
        let threads: BTreeSet<u32> = sample.threads.iter().map(|t| t.tid).collect();
        self.processes = sample.processes.iter().map(|p| p.tgid).collect();
        let Sums { faults, faults_of_exited, quota_ns, most_quota_of_exited_ns, processes, .. } = self;
        faults.retain(|tid, (first, last)| {
            let lives = threads.contains(tid);
            *faults_of_exited += if lives { 0 } else { last.saturating_sub(*first) };
            lives
        });
        quota_ns.retain(|tgid, (first, last)| {
            *most_quota_of_exited_ns = (*most_quota_of_exited_ns).max(last.saturating_sub(*first));
            processes.contains(tgid)
        });
    }

    /// Sockets with unread data, longest time first.
    fn unread_sockets(&self) -> impl Iterator<Item = (UnreadSocket, u64)> {
        let of = |sum: &UnreadSum| {
            let of = UnreadSocket { at_end: sum.sample == self.samples, ..sum.longest.clone()? };
            Some((of, sum.asleep_ns))
        };
        let mut all: Vec<(UnreadSocket, u64)> = self.unread.values().filter_map(of).collect();
        all.sort_by_key(|(of, _)| std::cmp::Reverse(of.for_ns));
        all.into_iter()
    }

    fn most_drops(&self) -> Option<SocketDrops> {
        let of = |(before, last): &(u32, SocketQueue)| SocketDrops {
            tgid: last.tgid,
            fd: last.fd,
            dropped: last.amount.saturating_sub(*before).into(),
            listens: last.listens,
            limit: last.limit.into(),
            is_set: last.is_set,
        };
        self.drops.values().map(of).max_by_key(|of| of.dropped).filter(|of| of.dropped > 0)
    }

    fn cgroup(&mut self, sample: &Snapshot) {
        for process in &sample.processes {
            let first = self.quota_ns.get(&process.tgid).map_or(process.quota_ns, |(first, _)| *first);
            self.quota_ns.insert(process.tgid, (first, process.quota_ns));
        }
        let Some(bios) = sample.processes.iter().map(|p| u64::from(p.throttled_bios)).max() else { return };
        let sum = self.cgroup.get_or_insert(CgroupState { throttled: 0, most_bios: 0, quota_ns: 0 });
        sum.throttled += u64::from(bios > 0);
        sum.most_bios = sum.most_bios.max(bios);
    }

    pub fn record(&self, start: Option<Moment>, with_end: bool) -> StateRecord {
        let spans = self.samples.checked_sub(1).filter(|n| *n > 0);
        let most = self.sockets.iter().max_by_key(|(_, (samples, _))| *samples);
        let nagle = self.nagle.map(|sum| match most {
            Some(((tgid, fd), (samples, bytes))) => {
                NagleState { tgid: Some(*tgid), fd: Some(*fd), fd_held: *samples, unsent_bytes: (*bytes).into(), ..sum }
            }
            None => sum,
        });
        // Processes in one cgroup are throttled for the same time.
        let quota_ns = self.quota_ns.values().map(|(first, last)| last.saturating_sub(*first));
        let quota_ns = quota_ns.chain([self.most_quota_of_exited_ns]).max().unwrap_or(0);
        StateRecord {
            source: StateSource::Iterators,
            samples: self.samples,
            every_ns: spans.map(|n| (self.last_ns - self.first_ns) / n),
            cost_ns: self.cost_ns,
            rings: self.rings.values().map(|sum| sum.state.clone()).collect(),
            nagle,
            unread: self.unread_sockets().next().map(|(of, _)| of),
            drops: self.most_drops(),
            send_buffer: self.send_buffers.values().max_by_key(|sum| sum.samples).copied(),
            faults: self.faults.values().map(|(first, last)| last.saturating_sub(*first)).sum::<u64>()
                + self.faults_of_exited,
            cgroup: self.cgroup.map(|sum| CgroupState { quota_ns, ..sum }),
            memory: None,
            stuck: None,
            waits: vec![],
            start,
            end: if with_end { self.moment() } else { None },
        }
    }

    /// The last deep state.
    pub fn moment(&self) -> Option<Moment> {
        let last = self.last.as_ref()?;
        let of_rings = last.rings.iter().filter_map(|r| self.rings.get(&r.address));
        // A ring that was sampled once shows no progress or lack of it.
        let still = |sum: &RingSum| (sum.state.samples > 1).then(|| last.at_ns.saturating_sub(sum.progress.2));
        let still_ns = of_rings.map(still).min().flatten();
        let mut threads: Vec<&Thread> = last.threads.iter().filter(|t| !t.is_kernels).collect();
        threads.sort_by_key(|t| (t.call != Some(IO_URING_ENTER), t.tid));
        Some(Moment {
            still_ns,
            more_threads: threads.len().saturating_sub(THREADS) as u64,
            threads: threads.into_iter().take(THREADS).map(thread_now).collect(),
            rings: last.rings.iter().map(|ring| self.ring_now(ring, last)).collect(),
            // An event would have woken the thread.
            unread: self
                .unread_sockets()
                .filter(|(of, _)| of.at_end)
                .map(|(of, asleep_ns)| match of.because {
                    Unread::NotArmed | Unread::NotAccepting => of,
                    _ => UnreadSocket { for_ns: of.for_ns.max(asleep_ns), ..of },
                })
                .take(THREADS)
                .collect(),
        })
    }

    fn ring_now(&self, ring: &Ring, sample: &Snapshot) -> RingNow {
        let users = Users::of(ring, sample);
        let runner = users.runner(ring);
        let depth = ring.depth.as_ref();
        let progress_ns = self.rings.get(&ring.address).map_or(sample.at_ns, |sum| sum.progress.2);
        let stands = progress_ns < sample.at_ns;
        // All requests submitted by a ring's only thread are older than the thread's sleep.
        let asleep_ns = match users.0.as_slice() {
            [only] if waits(only) && ring.setup_flags & SQPOLL == 0 => only.asleep_ns,
            _ => None,
        };
        RingNow {
            tgid: ring.tgid,
            fd: ring.fd,
            flags: Some(flags(ring)),
            in_flight: depth.and_then(|d| d.in_flight).filter(|_| stands).map(u64::from),
            unreaped: ring.unreaped.into(),
            unsubmitted: ring.unsubmitted.into(),
            need_wakeup: needs_wakeup(ring),
            unrun: Some(runner.is_some()),
            runner,
            overflowed: depth.map(|d| d.overflow_list.into()),
            armed: depth.map(|d| self.armed(ring, d, sample.at_ns, asleep_ns)).unwrap_or_default(),
            timeouts: depth.map(|d| d.timeouts.into()),
            soonest_timeout_ns: depth.and_then(|d| d.soonest_ns).map(|ns| ns as i64 - sample.at_ns as i64),
        }
    }

    fn armed(&self, ring: &Ring, depth: &Depth, now: u64, asleep_ns: Option<u64>) -> Vec<ArmedRequests> {
        let mut all: BTreeMap<&str, ArmedRequests> = BTreeMap::new();
        let held: Vec<u64> = held(depth).map(|r| r.address).collect();
        for r in &depth.requests {
            let of = all.entry(&r.opcode).or_insert_with(|| ArmedRequests {
                opcode: r.opcode.clone(),
                requests: 0,
                held: r.references.map(|_| 0),
                // Once the request is ready, the kernel stores its result in the same field.
                fd: (!r.is_fixed && !ring.has_task_work).then_some(r.fd),
                user_data: Some(format!("{:#x}", r.user_data)),
                at_least_ns: asleep_ns,
            });
            of.requests += 1;
            of.held = of.held.map(|n| n + u64::from(held.contains(&r.address)));
            let met = self.met_ns.get(&(r.address, r.user_data)).map(|met| now - met).filter(|ns| *ns > 0);
            of.at_least_ns = of.at_least_ns.max(met);
        }
        let mut all: Vec<ArmedRequests> = all.into_values().collect();
        // Sockets that were not counted individually.
        let more = u64::from(depth.armed).saturating_sub(depth.requests.len() as u64);
        match all.as_mut_slice() {
            [only] => only.requests += more,
            _ if more > 0 => {
                let (fd, user_data, at_least_ns) = (None, None, None);
                all.push(ArmedRequests {
                    opcode: "any".into(),
                    requests: more,
                    held: None,
                    fd,
                    user_data,
                    at_least_ns,
                });
            }
            _ => {}
        }
        all.sort_by_key(|of| std::cmp::Reverse(of.requests));
        all
    }
}

fn thread_now(t: &Thread) -> ThreadNow {
    ThreadNow {
        tid: t.tid,
        tgid: t.tgid,
        comm: t.comm.clone(),
        syscall: t.call.filter(|_| t.asleep).map(syscall_name),
        reason: snapshot::reason(&t.stack),
        asleep_ns: t.asleep_ns.filter(|_| t.asleep),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_probe::snapshot::Process;

    const MS: u64 = 1_000_000;

    fn socket(queue: Queue, amount: u32) -> SocketQueue {
        let listens = queue == Queue::Unaccepted;
        SocketQueue {
            tgid: 7,
            fd: 5,
            queue,
            amount,
            limit: 64,
            listens,
            is_set: true,
            is_disarmed: false,
            epoll: 0xe,
            file: 0xf,
        }
    }

    /// One sample per 100 ms of a process whose only thread sleeps in epoll_wait(2).
    fn taken(samples: &[&[SocketQueue]]) -> StateRecord {
        let call = (0..512).find(|nr| syscall_name(*nr) == "epoll_wait");
        let thread = Thread { tid: 7, tgid: 7, asleep: true, call, waits_on: 0xe, ..Thread::default() };
        let mut sums = Sums::default();
        for (i, queues) in samples.iter().enumerate() {
            let thread = Thread { faults: 100 * i as u64 + 50, ..thread.clone() };
            sums.take(&Snapshot {
                at_ns: (i as u64 + 1) * 100 * MS,
                threads: vec![thread],
                processes: vec![Process { tgid: 7, ..Process::default() }],
                queues: queues.to_vec(),
                ..Snapshot::default()
            });
        }
        sums.record(None, false)
    }

    #[test]
    fn connections_wait_while_the_accept_queue_is_not_empty() {
        let of = |n| socket(Queue::Unaccepted, n);
        let unread = taken(&[&[], &[of(19)], &[of(18)], &[of(19)]]).unread.unwrap();
        let expected = (Unread::Unaccepted, 19, Some(64), 200 * MS, true);
        assert_eq!((unread.because, unread.bytes, unread.backlog, unread.for_ns, unread.at_end), expected);
        let emptied = taken(&[&[of(1)], &[], &[of(1)], &[]]).unread.unwrap();
        assert_eq!((emptied.for_ns, emptied.at_end), (0, false));
    }

    #[test]
    fn drops_and_faults_before_the_first_sample_of_a_process_are_not_of_the_trace() {
        let of = |n| socket(Queue::Dropped, n);
        let old = taken(&[&[of(40)], &[of(40)], &[of(43)]]);
        assert_eq!((old.drops.map(|of| of.dropped), old.faults), (Some(3), 200));
        assert_eq!(taken(&[&[of(40)], &[of(40)]]).drops, None);
        assert_eq!(taken(&[&[], &[of(40)]]).drops.map(|of| of.dropped), Some(40), "a new socket");
    }

    #[test]
    fn exited_threads_are_summed_and_forgotten_beyond_a_number() {
        let mut sums = Sums::default();
        let mut take = |at_ns, tids: std::ops::Range<u32>, faults| {
            let threads = tids.map(|tid| Thread { tid, tgid: 7, faults, ..Thread::default() }).collect();
            let processes = vec![Process { tgid: 7, ..Process::default() }];
            sums.take(&Snapshot { at_ns, threads, processes, ..Snapshot::default() });
            (sums.faults.len(), sums.record(None, false).faults)
        };
        let many = REMEMBERED as u32;
        assert_eq!(take(1, 0..1, 5), (1, 0), "faults before the first sample do not count");
        assert_eq!(take(2, 0..many, 7), (REMEMBERED, 2 + 7 * u64::from(many - 1)));
        assert_eq!(take(3, many..many + 10, 1), (10, 12 + 7 * u64::from(many - 1)));
    }
}
