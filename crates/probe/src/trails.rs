//! Decodes traced requests from the programs' records.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use linux_raw_sys::io_uring::{IORING_CQE_F_MORE, IORING_CQE_F_NOTIF};

use super::callsites::{self, SiteAction, SiteSum, Sites, UserStack};
use super::carrier;
use super::counted;
use super::files::{self, LastName};
use super::opcode::opcode;
use super::raw::text;
use super::rings::{EndedSqThread, Process, Reaped};
use super::skel::types;
use super::symbols::Symbols;
use crate::raw::read;
use iotrail_base::error::{Error, Result};
use iotrail_host::irq::Interrupts;
use iotrail_path::division::ReapedStamps;
use iotrail_path::memory::Unregistered;
use iotrail_path::reaped::CqResidence;
use iotrail_schema::opcode::{self, MAY_FORCE_WORKER};
use iotrail_schema::trail::{Before, Course, Link, Meanwhile, Punt, RequestTrace, Stamp, Wake};
use iotrail_schema::waker::Line;

const UNREGISTERED: usize = size_of::<types::unregistered>();
const REAPED: usize = size_of::<types::reaped>();
const ENDED: usize = size_of::<types::ended>();
const SQ_ENDED: usize = size_of::<types::sq_ended>();
const STAY: usize = size_of::<types::stay>();
const FILE_NAME: usize = size_of::<types::file_name>();
const USER_STACK: usize = size_of::<types::user_stack>();
const _: () = assert!(UNREGISTERED < ENDED && ENDED < SQ_ENDED && SQ_ENDED < STAY);
const _: () =
    assert!(STAY < REAPED && REAPED < FILE_NAME && FILE_NAME < USER_STACK && USER_STACK < size_of::<types::trail>());

/// The reader's side of the ring buffer.
pub(super) struct RequestTraces {
    ring: RingBuffer<'static>,
    records: Rc<RefCell<Records>>,
    /// Some of the requests that the kernel ended with their ring.
    abandoned: RefCell<Vec<types::trail>>,
    /// Their total number.
    all_abandoned: Cell<u64>,
    /// Requests whose completion found the CQ full.
    overflowed: RefCell<Vec<RequestTrace>>,
    /// Call-site sums of the traced requests, by stack and opcode.
    sites: RefCell<BTreeMap<(u64, u16), SiteSum>>,
}

/// The records read so far.
#[derive(Default)]
struct Records {
    arrived: VecDeque<types::trail>,
    reaped: Vec<types::reaped>,
    unregistered: Vec<types::unregistered>,
    ended: Ended,
    sq_ended: Vec<types::sq_ended>,
    file_names: Vec<types::file_name>,
    stays: Vec<types::stay>,
    user_stacks: Vec<UserStack>,
}

impl Records {
    /// The record's size identifies its kind.
    fn take(&mut self, record: &[u8]) {
        match record.len() {
            REAPED => self.reaped.push(read(record)),
            ENDED => self.ended.take(read(record)),
            UNREGISTERED => self.unregistered.push(read(record)),
            SQ_ENDED => self.sq_ended.push(read(record)),
            FILE_NAME => self.file_names.push(read(record)),
            USER_STACK => self.user_stacks.push(UserStack::of(&read(record))),
            STAY => self.stays.push(read(record)),
            _ => self.arrived.push_back(read(record)),
        }
    }
}

/// Maximum number of records in memory: a busy program refills the ring buffer while it is read.
const BATCH: usize = 1024;

/// Maximum number of kept abandoned requests.
const ABANDONED: usize = 4096;

/// Names of exited processes, and the number of those without a kept name.
#[derive(Default)]
struct Ended {
    named: BTreeMap<u32, types::ended>,
    more: u64,
}

/// Maximum number of kept names.
const NAMED: usize = 4096;

impl Ended {
    fn take(&mut self, process: types::ended) {
        if self.named.len() < NAMED || self.named.contains_key(&process.tgid) {
            // If a PID is reused, the earlier process's name is lost.
            self.more += u64::from(self.named.insert(process.tgid, process).is_some());
        } else {
            self.more += 1;
        }
    }
}

impl RequestTraces {
    pub(super) fn open(map: &dyn MapCore) -> libbpf_rs::Result<Self> {
        let records = Rc::new(RefCell::new(Records::default()));
        let read = Rc::clone(&records);
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |record| {
            read.borrow_mut().take(record);
            0
        })?;
        Ok(RequestTraces {
            ring: builder.build()?,
            records,
            abandoned: RefCell::default(),
            all_abandoned: Cell::default(),
            overflowed: RefCell::default(),
            sites: RefCell::default(),
        })
    }

    /// Takes the last requests of a trace, which completed without a later run.
    pub(super) fn leave(&self, waiting: Vec<types::trail>) {
        self.records.borrow_mut().arrived.extend(waiting.into_iter().map(|mut trail| {
            if trail.carrier != types::carrier::BY_SQPOLL {
                trail.carrier = types::carrier::BY_SUBMISSION;
            }
            trail
        }));
    }

    /// Reads a batch of records from the ring buffer. Returns whether there may be more.
    pub(super) fn read_batch(&self) -> Result<bool> {
        Ok(self.consume_at_most(BATCH)? == BATCH)
    }

    /// Passes the requests read so far to `each`, in order of arrival.
    pub(super) fn take(&self, words: &Words<'_>, each: &mut dyn FnMut(RequestTrace)) {
        loop {
            let Some(raw) = self.records.borrow_mut().arrived.pop_front() else { return };
            if raw.carrier == types::carrier::BY_TEARDOWN {
                self.abandon(raw);
                continue;
            }
            if raw.carrier == types::carrier::BY_OVERFLOW {
                self.overflowed.borrow_mut().push(words.trail(&raw));
                continue;
            }
            let more = raw.cqe_flags & IORING_CQE_F_MORE != 0;
            callsites::add_request(&mut self.sites.borrow_mut(), &raw, more);
            each(words.trail(&raw));
        }
    }

    fn abandon(&self, trail: types::trail) {
        self.all_abandoned.update(|n| n + 1);
        let mut abandoned = self.abandoned.borrow_mut();
        if abandoned.len() < ABANDONED {
            abandoned.push(trail);
        }
    }

    /// Requests that the kernel ended with their ring: some of them, and their number.
    pub(super) fn abandoned(&self) -> Result<(Vec<types::trail>, u64)> {
        self.consume()?;
        self.records.borrow_mut().arrived.retain(|raw| {
            let is_abandoned = raw.carrier == types::carrier::BY_TEARDOWN;
            if is_abandoned {
                self.abandon(*raw);
            }
            !is_abandoned
        });
        Ok((self.abandoned.borrow().clone(), self.all_abandoned.get()))
    }

    fn consume(&self) -> Result<()> {
        self.consume_at_most(usize::MAX >> 1).map(drop)
    }

    /// Returns the number of records read.
    fn consume_at_most(&self, most: usize) -> Result<usize> {
        let read = self.ring.consume_raw_n(most);
        usize::try_from(read).map_err(|_| {
            let cause = std::io::Error::from_raw_os_error(-read);
            Error::machine("cannot read the traced requests", "report this").because(cause)
        })
    }

    /// The traced processes that have exited so far, and the number of those without a name.
    pub(super) fn ended(&self) -> Result<(Vec<Process>, u64)> {
        self.consume()?;
        let ended = &self.records.borrow().ended;
        let named = ended.named.values();
        let named = named.map(|e| Process { tgid: e.tgid, comm: text(&e.comm), executed_ns: e.executed_ns });
        Ok((named.collect(), ended.more))
    }

    /// Takes the records of one kind.
    fn taken<T>(&self, of: fn(&mut Records) -> &mut Vec<T>) -> Vec<T> {
        std::mem::take(of(&mut self.records.borrow_mut()))
    }

    /// SQPOLL threads in the records read since the last call.
    pub(super) fn take_ended_sq_threads(&self) -> Vec<EndedSqThread> {
        let of = |e: types::sq_ended| EndedSqThread {
            tgid: e.tgid,
            tid: e.tid,
            started_ns: e.started_ns,
            ended_ns: e.ended_ns,
            ran_ns: e.ran_ns,
            sleeps: e.sleeps,
        };
        self.taken(|records| &mut records.sq_ended).into_iter().map(of).collect()
    }

    /// Requests whose completion found the CQ full, as far as [`take`](Self::take) has read them.
    pub(super) fn take_overflowed(&self) -> Vec<RequestTrace> {
        self.overflowed.take()
    }

    /// Rings whose buffers were unregistered since the last call.
    pub(super) fn take_unregistered(&self) -> Vec<Unregistered> {
        let of = |raw: types::unregistered| Unregistered { ring: raw.ring, ns: raw.ns };
        self.taken(|records| &mut records.unregistered).into_iter().map(of).collect()
    }

    /// File names in the records read since the last call.
    pub(super) fn take_file_names(&self) -> Vec<LastName> {
        self.taken(|records| &mut records.file_names).iter().map(files::last_name).collect()
    }

    /// User stacks in the records read since the last call.
    pub(super) fn take_user_stacks(&self) -> Vec<UserStack> {
        self.taken(|records| &mut records.user_stacks)
    }

    /// Call-site sums of the requests passed on so far.
    pub(super) fn sites(&self) -> Sites {
        let of = |(&(stack, number), sum): (&(u64, u16), &SiteSum)| {
            ((stack, SiteAction::Submits(opcode(number.into()))), *sum)
        };
        self.sites.borrow().iter().map(of).collect()
    }

    /// Completions sampled in the CQ, from the records read since the last call.
    pub(super) fn take_stays(&self) -> impl Iterator<Item = CqResidence> {
        self.taken(|records| &mut records.stays).into_iter().map(|raw| CqResidence {
            ring: (raw.ring != counted::OTHERS).then_some(raw.ring),
            posted_ns: raw.posted_ns,
            not_yet_ns: raw.not_yet_ns,
            gone_ns: (raw.gone_ns != 0).then_some(raw.gone_ns),
            due_ns: (raw.due_ns != 0).then_some(raw.due_ns),
            starved_ns: raw.starved_ns,
            weight: raw.weight,
            depth: raw.depth,
            deepest: raw.deepest,
            cq_entries: raw.cq_entries,
        })
    }

    /// Completions still in the queue when counting ended.
    pub(super) fn leave_backlog(&self, queue: &types::cq_backlog) {
        let entries =
            (0..queue.count).map(|i| &queue.entries[(queue.first.wrapping_add(i) as usize) % queue.entries.len()]);
        self.records.borrow_mut().stays.extend(entries.map(|l| {
            // As in backlog_leaves (reap.h).
            let past = |end: u32| (end.wrapping_sub(l.end) as i32) > 0;
            types::stay {
                posted_ns: l.posted_ns,
                not_yet_ns: l.posted_ns.max(queue.looked_ns),
                gone_ns: 0,
                starved_ns: queue.starved_ns.wrapping_sub(l.starved_ns),
                due_ns: match () {
                    () if queue.wanted != 0 && past(queue.wanted_end) => 0,
                    () if past(queue.due_end) => l.posted_ns.max(queue.due_ns),
                    () => l.posted_ns,
                },
                ring: l.ring,
                weight: l.weight,
                depth: l.depth,
                deepest: queue.deepest,
                cq_entries: queue.cq_entries,
                pad: 0,
            }
        }));
    }

    /// Requests of contexts in the records read since the last call.
    pub(super) fn take_reaped(&self, each: &mut dyn FnMut(Reaped)) {
        for raw in self.taken(|records| &mut records.reaped) {
            each(Reaped {
                context: raw.ring,
                tgid: raw.tgid,
                opcode: opcode(raw.opcode),
                submitted_ns: raw.submitted_ns,
                reaped_ns: raw.reaped_ns,
                seen: ReapedStamps {
                    allocated_ns: seen(raw.allocated_ns),
                    issued_ns: seen(raw.issued_ns),
                    ready_ns: seen(raw.ready_ns),
                    ended_ns: seen(raw.ended_ns),
                    inlined: raw.inlined != 0,
                },
                weight: raw.weight,
                fd: raw.fd,
                result: raw.result,
            });
        }
    }
}

/// Converts numbers to names.
pub(super) struct Words<'a> {
    pub symbols: Option<&'a Symbols>,
    pub interrupts: Option<&'a Interrupts>,
}

fn seen(ns: u64) -> Option<u64> {
    (ns != 0).then_some(ns)
}

pub(super) fn course(of: types::course) -> Course {
    match of {
        types::course::COURSE_BLOCK => Course::Block,
        types::course::COURSE_POLL => Course::Poll,
        _ => Course::Direct,
    }
}

impl Words<'_> {
    fn trail(&self, raw: &types::trail) -> RequestTrace {
        use types::{meanwhile as m, punt as p};
        let stamp = |ns: u64, cpu: u16| (ns != 0).then_some(Stamp { ns, cpu: cpu.into() });
        let marked = |mark: types::trail_mark| raw.marks.0 & mark.0 != 0;
        let line = |irq: u32| Line { irq, name: self.interrupts.and_then(|i| carrier::handler(i, irq)) };
        let key = types::delivery_key {
            carrier: raw.carrier,
            nr: raw.nr,
            entry: raw.entry,
            waker: raw.waker,
            waker_nr: raw.waker_nr,
            waker_cpu: raw.waker_cpu,
            ring: raw.ring,
        };
        let opcode = opcode(raw.opcode.into());
        let (vehicle, detail) = carrier::carrier(&key, self.symbols, &line).vehicle();
        let comm = || text(&raw.meanwhile_comm);
        let meanwhile = match raw.meanwhile {
            m::MEANWHILE_RUNNING => Some(Meanwhile::Running { cpu: raw.meanwhile_cpu }),
            m::MEANWHILE_RUNNABLE => {
                Some(Meanwhile::Runnable { cpu: raw.meanwhile_cpu, tid: raw.meanwhile_tid, comm: comm() })
            }
            m::MEANWHILE_SLEEPING => {
                Some(Meanwhile::Sleeping { cpu: raw.meanwhile_cpu, tid: raw.meanwhile_tid, comm: comm() })
            }
            _ => None,
        };
        // A wake-up before that time does not belong to this completion.
        let to_deliver_ns = raw.ready_ns.max(raw.ended_ns);
        let woken_for_it = raw.woken_ns >= to_deliver_ns && to_deliver_ns != 0 && raw.woken_ns <= raw.posted_ns;
        let wake = (woken_for_it && matches!(meanwhile, Some(Meanwhile::Sleeping { .. } | Meanwhile::Runnable { .. })))
            .then(|| Wake {
                woken: Stamp { ns: raw.woken_ns, cpu: raw.woken_by_cpu },
                by: carrier::waker(raw.woken_by, raw.woken_by_nr, raw.woken_by_cpu, &line),
                running: stamp(raw.running_ns, raw.posted_cpu).filter(|s| s.ns >= raw.woken_ns),
            });
        RequestTrace {
            ring: (raw.ring != counted::OTHERS).then_some(raw.ring),
            tgid: raw.tgid,
            tid: raw.tid,
            weight: raw.weight,
            user_data: raw.user_data,
            file: files::seen(raw),
            descriptor: files::descriptor(raw, &opcode),
            asked_bytes: (raw.asked_bytes != 0).then_some(raw.asked_bytes.into()),
            offset: u64::try_from(raw.offset).ok(),
            buffer: (raw.buffer != 0).then_some(raw.buffer),
            result: raw.result,
            more: raw.cqe_flags & IORING_CQE_F_MORE != 0,
            notification: raw.cqe_flags & IORING_CQE_F_NOTIF != 0,
            enter_batch: (raw.enter_batch != 0).then_some(raw.enter_batch),
            punted: match raw.punt {
                p::PUNT_ASKED if !opcode::is(&opcode, MAY_FORCE_WORKER) => Some(Punt::Asked),
                p::PUNT_DRAINED if !opcode::is(&opcode, MAY_FORCE_WORKER) => Some(Punt::Drained),
                p::PUNT_ASKED | p::PUNT_WOULD_BLOCK | p::PUNT_DRAINED => Some(Punt::WouldBlock),
                _ => None,
            },
            opcode,
            submitted: Stamp { ns: raw.submitted_ns, cpu: raw.submitted_cpu.into() },
            issued: stamp(raw.issued_ns, raw.issued_cpu),
            ready: stamp(raw.ready_ns, raw.ready_cpu),
            ended: stamp(raw.ended_ns, raw.ended_cpu),
            queued: stamp(raw.queued_ns, raw.queued_cpu),
            posted: Stamp { ns: raw.posted_ns, cpu: raw.posted_cpu.into() },
            before: Before {
                link: match () {
                    () if marked(types::trail_mark::TRAIL_LINKED) => Some(Link::Linked),
                    () if marked(types::trail_mark::TRAIL_HEAD) => Some(Link::Head),
                    () => None,
                },
                punted_ns: seen(raw.punted_ns),
                worker_ns: seen(raw.worker_ns),
                bio_ns: seen(raw.bio_ns),
                throttled: marked(types::trail_mark::TRAIL_THROTTLED),
                waits_for_page: marked(types::trail_mark::TRAIL_WAITS_FOR_PAGE),
                allocated_ns: seen(raw.allocated_ns),
            },
            partly_observed: marked(types::trail_mark::TRAIL_PARTLY_OBSERVED),
            course: course(raw.course),
            block_requests: raw.block_requests,
            vehicle,
            detail,
            run_items: (raw.run_items != 0).then_some(raw.run_items),
            meanwhile,
            wake,
            on_cpu: stamp(raw.running_ns, raw.posted_cpu).filter(|s| s.ns <= raw.posted_ns),
            switches_meanwhile: (raw.switches != u32::MAX && to_deliver_ns != 0).then_some(raw.switches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcode_names_match_the_kernel_headers() {
        // include/uapi/linux/io_uring.h
        for (number, name) in
            [(0, "nop"), (4, "read_fixed"), (22, "read"), (47, "send_zc"), (58, "recv_zc"), (64, "uring_cmd128")]
        {
            assert_eq!(opcode(number), name);
        }
        assert_eq!(opcode(crate::opcode::OPCODE_NONE), "unknown");
        assert_eq!((opcode(250).as_str(), opcode(126).as_str()), ("op_250", "invalid"));
        // include/uapi/linux/aio_abi.h, aio.h
        for (number, name) in [(96, "pread"), (99, "fdsync"), (104, "pwritev"), (105, "aio_op_9"), (113, "aio_write")] {
            assert_eq!(opcode(number), name);
        }
    }
}
