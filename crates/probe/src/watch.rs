//! One watched span: load the programs that the subject needs, attach, zero, read.

mod costly;
mod counters;
mod tables;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, ProgramMut};

use costly::Costly;
use counters::unreadable;
use tables::entries;

use super::choice::Window;
use super::cost::{Account, Cost};
use super::counted::{Counted, Past, RawRing};
use super::files::LastName;
use super::numbers::Own;
use super::observed::{self, Observed, Raw};
use super::overflow;
use super::posix_aio::{self, Libraries};
use super::recording::{Capacity, Recorder, Recording};
use super::rings::{Chosen, EndedSqThread, FollowLoss, Reaped};
use super::skel::{IotrailSkel, IotrailSkelBuilder, types};
use super::subject::{Interface, Subject, Who};
use super::support::{self, Facts, Plan};
use super::symbols::Symbols;
use super::trails::{Trails, Words};
use iotrail_base::error::{Error, Result};
use iotrail_host::irq::Interrupts;
use iotrail_host::pid_namespace::own_number_in_proc;
use iotrail_path::entry;
use iotrail_path::memory::Unregistered;
use iotrail_path::reaped::Stay;
use iotrail_schema::measurement::Warning;

// `record.h`'s sizes, as the programs were compiled with them.
const _: () = assert!(size_of::<types::cpu_slot>() == 3328);
const _: () = assert!(size_of::<types::delivery_key>() == 32);
const _: () = assert!(size_of::<types::return_key>() == 16);
const _: () = assert!(size_of::<types::ipi_key>() == 24);
const _: () = assert!(size_of::<types::irq_count>() == 32);
const _: () = assert!(size_of::<types::thread_state>() == 112);
const _: () = assert!(size_of::<types::op_count>() == 96);
const _: () = assert!(size_of::<types::ring_count>() == 48);
const _: () = assert!(size_of::<types::ring_thread>() == 24);
const _: () = assert!(size_of::<types::ring_info>() == 64);
const _: () = assert!(size_of::<types::process_info>() == 64);
const _: () = assert!(size_of::<types::ended>() == 40);
const _: () = assert!(size_of::<types::sq_ended>() == 48);
const _: () = assert!(size_of::<types::reaped>() == 56);
const _: () = assert!(size_of::<types::stay>() == 64);
const _: () = assert!(size_of::<types::lying_queue>() == 104 + 64 * 32);
const _: () = assert!(size_of::<types::trail>() == 280);
const _: () = assert!(size_of::<types::file_name>() == 96);

/// `IOTRAIL_MAX_CPUS`.
const MAX_CPUS: usize = 1024;

/// Rings and contexts that have a number of their own at one time; the rest are counted by process.
const RINGS_MAX: u32 = 16384;

/// Entries of the hashes by ring. They take memory for what is in them alone, but for 16 bytes each of `COUNTS_MAX`.
const COUNTS_MAX: u32 = 65536;

/// The first rings keep their number whatever comes later: what was told of one is told of it again.
const FIRST: u32 = 64;

/// `AIO_REQUESTS_MAX`.
const AIO_REQUESTS_MAX: u32 = 65536;

/// `LYING_QUEUES`.
const LYING_QUEUES: u32 = 256;

/// `BUCKETS * WAYS`: requests that can be followed at one time.
const TRAILS_MAX: u32 = 4096 * 8;

/// Files whose names were handed over and are not again.
const FILES_NAMED: u32 = 4096;

/// It costs whoever makes system calls, since it is on the entry of one of them.
const AWAITED: &str = "aio_submits";
/// What tells of native aio being submitted where that one does not: all of it where there is none, and what comes by calls of
/// the 32-bit table. It costs on every system call.
const ENTERED: &str = "aio_submits_entered";

/// Whether one of these is to be attached now; any other is. `own`: native aio's own tracepoint is there. `as_i386`: calls of the
/// 32-bit table were seen.
fn aio_is_due(name: &str, awaited: bool, own: bool, as_i386: bool) -> bool {
    match name {
        AWAITED => !awaited,
        ENTERED => as_i386 || (!awaited && !own),
        _ => true,
    }
}

/// Where the loaded object stands; it must outlive the [`Watch`].
#[derive(Default)]
pub struct Room(Option<MaybeUninit<OpenObject>>);

/// Attached programs. Dropping it detaches them.
pub struct Watch<'room> {
    skel: IotrailSkel<'room>,
    links: Vec<(&'static str, Link)>,
    /// [`AWAITED`] is not attached yet.
    aio_awaited: bool,
    aio_as_i386: bool,
    posix_aio: Libraries,
    /// Where it is watched by windows.
    windows: Option<windows::Windows>,
    plan: Plan,
    subject: Subject,
    symbols: Option<&'static Symbols>,
    before: Option<Interrupts>,
    trails: Option<Trails>,
    misses_before: BTreeMap<&'static str, u64>,
    recorder: Option<Recorder>,
    account: Option<Account>,
    costly: Option<Costly>,
    /// Slots that are in use: possible CPUs.
    cpus: usize,
    /// The end of a ring can be told from other work of the kernel's.
    exit_work_known: bool,
    past: Past,
    /// A context of native aio was among what went.
    native_aio: bool,
    /// Rings and processes that had gone when the maps were swept last,
    gone: u32,
    /// and what was left.
    known_rings: u32,
    /// Of these, those that no CPU and no thread had anything of.
    idle: BTreeSet<u32>,
    /// Rings with a lower number were told one by one, and are until they are forgotten.
    told_below: u32,
}

impl<'room> Watch<'room> {
    /// Loads and attaches. Errors say what the kernel or the privileges don't allow.
    pub fn open(room: &'room mut Room, subject: Subject) -> Result<Self> {
        Self::open_with(room, subject, None)
    }

    /// As [`open`](Self::open), and records the events that decide the vehicles of io_uring's completions: to be
    /// [drained](Self::drain) before the ring buffer is full, and [taken](Self::recording) at the end.
    pub fn open_recording(room: &'room mut Room, subject: Subject, capacity: Capacity) -> Result<Self> {
        Self::open_with(room, subject, Some(capacity))
    }

    fn open_with(room: &'room mut Room, subject: Subject, recording: Option<Capacity>) -> Result<Self> {
        support::quiet();
        let plan = support::plan(Facts::of_this_kernel(), &subject.interface.roles(subject.follow.is_some()))
            .map_err(|why| refused(why, "`iotrail check` lists what this kernel has"))?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(|e| refused(e.to_string(), "report this"))?;
        if cpus > MAX_CPUS {
            return Err(refused(format!("{cpus} CPUs are more than the {} it keeps", MAX_CPUS), "report this"));
        }
        let symbols = Symbols::of_this_kernel();
        let own = Own::of_this_thread()?;
        let one = match subject.who {
            Who::Process { tgid, unwatched_tid } => Some((tgid, unwatched_tid)),
            Who::OtherThreads => Some((own.tgid, own.tid)),
            Who::Followed | Who::Everyone => None,
        };
        let mut open = IotrailSkelBuilder::default().open(room.0.insert(MaybeUninit::uninit())).map_err(load_error)?;
        let constants = open.maps.rodata_data.as_deref_mut().expect("the object has constants");
        if let Some((tgid, unwatched_tid)) = one {
            constants.watched_tgid = tgid;
            constants.unwatched_tid = unwatched_tid;
        }
        constants.recording = recording.is_some();
        constants.aio_by_number = !plan.attach.contains(&AWAITED);
        constants.spans_timed = subject.spans_timed;
        constants.poster_asked =
            recording.is_some() || matches!(subject.interface, Interface::IoUring { iopoll: true });
        // 0 where it isn't there: never equal to a callback, so nothing is mistaken for it.
        let address = |name| symbols.and_then(|s| s.address(name)).unwrap_or_default();
        constants.aio_complete_address = address("aio_complete_rw");
        constants.blkdev_end_io_async_address = address("blkdev_bio_end_io_async");
        constants.blkdev_end_io_address = address("blkdev_bio_end_io");
        constants.preemptible = Facts::of_this_kernel().preemptible;
        let sender = plan.functions.iter().find(|f| f.program.starts_with("interrupt_resched_sent"));
        constants.resched_sender = sender.map(|f| address(f.function)).unwrap_or_default();
        constants.io_complete_address = address("io_complete_rw");
        constants.io_complete_polled_address = address("io_complete_rw_iopoll");
        constants.iomap_end_io_address = address("iomap_dio_bio_end_io");
        constants.nvme_end_io_address = address("nvme_uring_cmd_end_io");
        constants.wakes_address = address("sched_ttwu_pending");
        constants.any_wakeup =
            matches!(subject.interface, Interface::OwnCalls | Interface::HelperCalls | Interface::Readiness);
        constants.kick_is_probed = plan.functions.iter().any(|f| f.program.starts_with("kick_asked"));
        let extents = entry::KICK_SITES.iter().filter_map(|name| symbols?.extent(name));
        for (site, (start, bytes)) in constants.kick_sites.iter_mut().zip(extents) {
            (site.start, site.bytes) = (start, bytes);
        }
        if let Some(follow) = subject.follow {
            constants.following = true;
            constants.everyone = subject.who == Who::Everyone;
            constants.own_tgid = own.tgid;
            constants.one_in = follow.choice.one_in.max(1);
            let window = Window::of(iotrail_host::clock::tick_hz());
            constants.adaptive = follow.choice.adaptive;
            (constants.window_jiffies, constants.whole_max) = (window.jiffies, window.requests);
            constants.trails_crowded = u64::from(follow.ring_bytes / 2);
            constants.rings_max = RINGS_MAX;
            // Without them the plan says what is missing.
            constants.drain_active_flag = Facts::of_this_kernel().drain_active_flag.unwrap_or(0) as u32;
            constants.multishot_flags = Facts::of_this_kernel().multishot_flags.unwrap_or(0);
            constants.skip_links_flag = Facts::of_this_kernel().skip_links_flag.unwrap_or(0);
            constants.ring_exit_work = address("io_ring_exit_work");
            open.maps.ring_numbers.set_max_entries(COUNTS_MAX).map_err(load_error)?;
            // With room for one of each process's others.
            open.maps.ring_infos.set_max_entries(2 * RINGS_MAX).map_err(load_error)?;
            open.maps.ring_counts.set_max_entries(2 * RINGS_MAX).map_err(load_error)?;
            open.maps.op_counts.set_max_entries(COUNTS_MAX).map_err(load_error)?;
            open.maps.ring_threads.set_max_entries(RINGS_MAX).map_err(load_error)?;
            open.maps.trails.set_max_entries(TRAILS_MAX).map_err(load_error)?;
            open.maps.files_named.set_max_entries(FILES_NAMED).map_err(load_error)?;
            // Of a load of our own it is known.
            constants.reaps_asked = subject.interface == Interface::Any;
            open.maps.lying_queues.set_max_entries(LYING_QUEUES).map_err(load_error)?;
            open.maps.aio_requests.set_max_entries(AIO_REQUESTS_MAX).map_err(load_error)?;
            open.maps.trails_out.set_max_entries(follow.ring_bytes).map_err(load_error)?;
        }
        if let Some(capacity) = recording {
            open.maps.events.set_max_entries(capacity.ring_bytes).map_err(load_error)?;
        }
        for mut program in open.open_object_mut().progs_mut() {
            let wanted = plan.attach.iter().any(|name| program.name() == *name);
            program.set_autoload(wanted);
            if let Some(function) = plan.functions.iter().find(|f| program.name() == f.program) {
                function.aim(&mut program).map_err(load_error)?;
            }
        }
        let mut skel = open.load().map_err(load_error)?;
        let mut links = vec![];
        for program in skel.object_mut().progs_mut() {
            let name = plan.attach.iter().find(|name| program.name() == **name);
            let now = |name: &&str| {
                !posix_aio::is(&program) && aio_is_due(name, subject.aio_awaited, plan.attach.contains(&AWAITED), false)
            };
            if let Some(name) = name.filter(|name| now(name)) {
                links.push((*name, attach(&program, &plan)?));
            }
        }
        let recorder =
            recording.map(|c| Recorder::open(&skel.maps.events, c.events)).transpose().map_err(load_error)?;
        let trails = subject.follow.map(|_| Trails::open(&skel.maps.trails_out)).transpose().map_err(load_error)?;
        let mut watch = Watch {
            trails,
            skel,
            links,
            aio_awaited: subject.aio_awaited,
            aio_as_i386: false,
            posix_aio: Libraries::default(),
            windows: None,
            plan,
            subject,
            symbols,
            before: None,
            misses_before: BTreeMap::new(),
            recorder,
            account: None,
            costly: None,
            cpus,
            exit_work_known: address("io_ring_exit_work") != 0,
            past: Past::default(),
            native_aio: false,
            gone: 0,
            known_rings: 0,
            idle: BTreeSet::new(),
            told_below: FIRST,
        };
        // A command begins with our library, and most programs have the same.
        if let Some(us) = own_number_in_proc() {
            watch.attach_to_library(us);
        }
        if let (Some((tgid, _)), Some(_)) = (one, watch.subject.follow) {
            let in_proc = if watch.subject.who == Who::OtherThreads { own_number_in_proc() } else { Some(tgid) };
            watch.follow(tgid, in_proc, false)?;
        }
        Ok(watch)
    }

    /// Looks into the library in which a process has POSIX AIO, if that one is not looked into yet.
    fn attach_to_library(&mut self, tgid: u32) {
        if !self.plan.attach.contains(&posix_aio::EACH) {
            return;
        }
        let programs = &self.skel.progs;
        let at_once = self.plan.attach.contains(&posix_aio::AT_ONCE).then_some(&programs.posix_aio_called);
        if self.posix_aio.attach(at_once, &programs.posix_aio_called_each, tgid).is_err() {
            self.plan.missing.push((posix_aio::EACH, "requests of POSIX AIO"));
        }
    }

    /// One for each program that was wanted and is not there.
    pub fn missing(&self) -> Vec<Warning> {
        let warning = |(name, lost): &(&str, &str)| {
            let (why, remedy) = support::missing_why(name);
            Warning::new("probe_missing", format!("{why}: {lost} unknown"), remedy)
        };
        let mut warnings: Vec<Warning> = self.plan.missing.iter().map(warning).collect();
        // Two programs may stand for one thing.
        warnings.dedup();
        warnings
    }

    /// Forgets all that was counted so far. Exact when the watched threads stand still. Where requests are followed, nothing
    /// has been counted yet: counting begins here, once.
    pub fn begin(&mut self) -> Result<()> {
        if self.subject.follow.is_some() {
            self.misses_before = self.recursion_misses()?;
            self.account_begins()?;
            self.before = iotrail_host::irq::snapshot().ok();
            self.skel.maps.bss_data.as_deref_mut().expect("the object has counters").counting = 1;
            return Ok(());
        }
        // Else what a thread that is just going to sleep has not counted yet would go from a place that is still to be emptied to one
        // that has been.
        self.freeze();
        for map in [
            &self.skel.maps.threads,
            &self.skel.maps.deliveries,
            &self.skel.maps.irqs,
            &self.skel.maps.returns,
            &self.skel.maps.ipis,
        ] {
            tables::clear(map)?;
        }
        let bss = self.skel.maps.bss_data.as_deref_mut().expect("the object has counters");
        for slot in &mut bss.slots {
            // What stands now on the CPU stays; the counts go.
            *slot = types::cpu_slot {
                current: slot.current,
                tid: slot.tid,
                watched_here: slot.watched_here,
                in_irq: slot.in_irq,
                last_irq: slot.last_irq,
                in_vector: slot.in_vector,
                in_softirq: slot.in_softirq,
                raisers: slot.raisers,
                raiser: slot.raiser,
                handlers: slot.handlers,
                ..types::cpu_slot::default()
            };
        }
        bss.frozen = 0;
        if let Some(recorder) = &self.recorder {
            recorder.restart()?;
        }
        self.misses_before = self.recursion_misses()?;
        self.before = iotrail_host::irq::snapshot().ok();
        Ok(())
    }

    /// The kernel is to measure what the programs cost; before [`begin`](Self::begin).
    pub fn count_cost(&mut self) -> Result<()> {
        self.account = Some(Account::open()?);
        Ok(())
    }

    fn account_begins(&mut self) -> Result<()> {
        let runs = if self.account.is_some() { self.runs()? } else { Default::default() };
        if let Some(account) = &mut self.account {
            account.before = runs;
        }
        Ok(())
    }

    /// What each program has cost since [`begin`](Self::begin), the dearest first; `None`: it was not to be counted.
    pub fn costs(&self) -> Result<Option<Vec<Cost>>> {
        let Some(account) = &self.account else { return Ok(None) };
        let mut costs: Vec<Cost> = self.runs()?.into_iter().map(|(name, now)| account.cost(name, now)).collect();
        costs.sort_by_key(|cost| (std::cmp::Reverse(cost.spent_ns), cost.program));
        Ok(Some(costs))
    }

    /// What the programs keep of threads stays where it is: with the CPU where the thread runs, or by the thread. Those that are under way
    /// come to their end.
    fn freeze(&mut self) {
        self.skel.maps.bss_data.as_deref_mut().expect("the object has counters").frozen = 1;
        std::thread::sleep(std::time::Duration::from_millis(2));
    }

    /// What was counted since [`begin`](Self::begin). Exact when the watched threads stand still.
    pub fn end(&mut self) -> Result<Observed> {
        if let Some(windows) = &self.windows {
            let undecided = windows.undecided.clone();
            let (skipped, overflowed) = (windows.skipped, windows.overflowed);
            let (unfinished, unreaped) = (windows.unfinished, windows.unreaped);
            let mut raw = self.counters()?;
            (raw.skipped, raw.overflowed) = (skipped, overflowed);
            (raw.unfinished, raw.unreaped) = (unfinished, unreaped);
            self.add_segments(&mut raw, &undecided, |counted, n| counted.undecided += n);
            raw.rings = std::mem::take(&mut self.past).told(raw.rings);
            return Ok(self.observed(&raw, self.interrupts().as_ref()));
        }
        if self.subject.follow.is_some() {
            self.skel.maps.bss_data.as_deref_mut().expect("the object has counters").counting = 0;
        }
        self.freeze();
        let interrupts = self.interrupts();
        let mut raw = self.counters()?;
        let mut pending = vec![];
        for (_, state) in entries::<u32, types::thread_state>(&self.skel.maps.threads)? {
            raw.parked += state.pending;
            pending.extend(state.segments);
        }
        if let Some(trails) = &self.trails {
            let (completed, mut open) = self.kept()?;
            // Those that were in flight when their ring went.
            let (abandoned, all) = trails.abandoned()?;
            raw.unfinished = all - abandoned.len() as u64;
            open.extend(abandoned);
            raw.overflowed = self.without_overflowed(&mut open)?;
            raw.skipped = open.iter().filter(|trail| trail.skips != 0).count() as u64;
            raw.unfinished += open.len() as u64 - raw.skipped;
            let aio = self.open_aio()?;
            raw.unfinished += aio.unfinished;
            raw.unreaped = aio.unreaped;
            raw.open = open.into_iter().filter(|trail| trail.skips == 0).collect();
            trails.leave(completed);
            for (_, queue) in entries::<u32, types::lying_queue>(&self.skel.maps.lying_queues)? {
                trails.leave_lying(&queue);
            }
        }
        if self.subject.follow.is_some() {
            // What is still pending when all stands still came without a run: inline.
            for slot in &mut raw.slots {
                pending.extend(std::mem::take(&mut slot.segments));
                slot.pending = 0;
            }
            raw.parked = 0;
            self.add_segments(&mut raw, &pending, |counted, n| counted.ring.inlined += n);
            if observed::lost(&raw, &self.subject) == 0 {
                // Of a ring that was made in this span everything was seen.
                let whole = |ring: &&mut RawRing| {
                    let is_ring = ring.info.interface == types::interface::INTERFACE_IO_URING;
                    is_ring && !ring.is_others() && ring.info.found == 0
                };
                raw.rings.iter_mut().filter(whole).for_each(|ring| overflow::name(&mut ring.counted));
            }
            raw.rings = std::mem::take(&mut self.past).told(raw.rings);
        }
        Ok(self.observed(&raw, interrupts.as_ref()))
    }

    /// What was counted since [`begin`](Self::begin) up to now; counting goes on. Completions whose vehicle is not decided yet
    /// are not among the vehicles, and unfinished requests are not counted. A count may be a moment older than another.
    pub fn look(&mut self) -> Result<Observed> {
        self.looked().map(|(observed, _)| observed)
    }

    /// As [`look`](Self::look); rings that are no more are told of this once, as far as they were told before or are few. What the others
    /// have counted is told once, and does not grow.
    pub fn turn(&mut self) -> Result<Observed> {
        let (observed, among_others) = self.looked()?;
        for (number, counted) in among_others {
            self.past.tell(number, &counted);
        }
        self.past.forget();
        let bss = self.skel.maps.bss_data.as_deref().expect("the object has counters");
        // SAFETY: live and aligned. Whoever was told has a lower number.
        self.told_below = unsafe { std::ptr::read_volatile(&bss.rings_made) };
        Ok(observed)
    }

    fn looked(&mut self) -> Result<(Observed, Vec<(u32, Counted)>)> {
        self.sweep(true)?;
        let interrupts = self.interrupts();
        let mut raw = self.counters()?;
        for slot in &mut raw.slots {
            slot.pending = 0;
            slot.segments = Default::default();
        }
        Ok((self.observed(&raw, interrupts.as_ref()), raw.among_others))
    }

    /// The rings that are told among the others from now on: those that came after this was asked last.
    pub fn folded(&mut self) -> Vec<u32> {
        self.past.folded()
    }

    /// Adds completions of which no more than the ring is known.
    fn add_segments(&self, raw: &mut Raw, segments: &[types::segment], to: fn(&mut Counted, u64)) {
        let mut by_ring: BTreeMap<u32, u64> = BTreeMap::new();
        for s in segments.iter().filter(|s| s.count > 0) {
            *by_ring.entry(s.ring).or_default() += u64::from(s.count);
        }
        for (number, n) in by_ring {
            match raw.rings.iter_mut().find(|r| r.number == number && !r.is_others()) {
                Some(ring) => to(&mut ring.counted, n),
                None => {
                    let mut late = Counted::default();
                    to(&mut late, n);
                    raw.rings.push(self.past.as_late(number, late));
                }
            }
        }
    }

    /// /proc's counts since [`begin`](Self::begin), or in the windows.
    fn interrupts(&self) -> Option<Interrupts> {
        if let Some(windows) = &self.windows {
            return windows.interrupts.clone();
        }
        Some(iotrail_host::irq::snapshot().ok()?.since(self.before.as_ref()?))
    }

    fn observed(&self, raw: &Raw, interrupts: Option<&Interrupts>) -> Observed {
        observed::observe(raw, &self.subject, &self.plan, self.symbols, interrupts)
    }

    /// Takes recorded events out of the ring buffer, to make room in it.
    pub fn drain(&self) -> Result<()> {
        self.recorder.iter().try_for_each(Recorder::drain)
    }

    /// Adds a process to the watched ones, for [`Who::Followed`]. Its children from now on are watched too. `in_proc`: its number in
    /// /proc; `None`: /proc does not show it, and what it tells has to be waited for.
    /// `whole`: nothing that it does was before; what it has used is told when it ends.
    pub fn follow(&mut self, tgid: u32, in_proc: Option<u32>, whole: bool) -> Result<()> {
        if let Some(number) = in_proc {
            self.attach_to_library(number);
        }
        if self.aio_awaited && in_proc.is_none_or(iotrail_host::aio::has_context) {
            self.attach_awaited()?;
        }
        let mut info = types::process_info { whole: whole.into(), ..Default::default() };
        // It may be gone already; its name is not needed for anything else.
        let comm = in_proc.and_then(|n| std::fs::read(format!("/proc/{n}/comm")).ok()).unwrap_or_default();
        for (to, from) in info.comm.iter_mut().take(15).zip(comm.iter().take_while(|b| **b != b'\n')) {
            *to = *from as i8;
        }
        // SAFETY: a process_info is 64 plain bytes.
        let value: [u8; 64] = unsafe { std::mem::transmute(info) };
        self.skel
            .maps
            .followed
            .update(&tgid.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(|e| Error::machine(format!("process {tgid} cannot be followed"), "report this").because(e))
    }

    /// The followed processes that have not ended, by the kernel's numbers.
    pub fn followed(&self) -> Result<BTreeSet<u32>> {
        let living = entries::<u32, types::process_info>(&self.skel.maps.followed)?;
        Ok(living.into_iter().map(|(tgid, _)| tgid).collect())
    }

    /// CPU time, user and system, of the processes that have ended and were watched from their beginning, whoever waited for them;
    /// `None`: where everyone is watched, nobody is.
    pub fn ended_cpu_ns(&self) -> Option<(u64, u64)> {
        if self.subject.who == Who::Everyone {
            return None;
        }
        let bss = self.skel.maps.bss_data.as_deref().expect("the object has counters");
        // SAFETY: live and aligned; a program may be adding to it, and the next look sees it.
        let read = |at: &u64| unsafe { std::ptr::read_volatile(at) };
        Some(shared_out(read(&bss.gone_ran_ns), read(&bss.gone_user_ns), read(&bss.gone_system_ns)))
    }

    /// CPU time of the io-wq workers of watched processes that have ended, each from its beginning.
    pub fn ended_workers_ns(&self) -> u64 {
        let bss = self.skel.maps.bss_data.as_deref().expect("the object has counters");
        // SAFETY: as above.
        unsafe { std::ptr::read_volatile(&bss.gone_workers_ns) }
    }

    /// To be called now and then: what waits for a use of native aio is attached when there is one. A few requests may have been
    /// submitted by then; they are counted.
    pub fn attach_if_used(&mut self) -> Result<()> {
        let bss = self.skel.maps.bss_data.as_deref().expect("the object has counters");
        // SAFETY: live and aligned; a program may be writing, and the next look sees it.
        let used = unsafe { std::ptr::read_volatile(&bss.aio_used) };
        // SAFETY: as above.
        let as_i386 = unsafe { std::ptr::read_volatile(&bss.aio_used_as_i386) };
        if self.aio_awaited && used != 0 {
            self.attach_awaited()?;
        }
        if as_i386 != 0 && !self.aio_as_i386 {
            self.aio_as_i386 = true;
            // Where it stands in for the other, it is attached already.
            if self.plan.attach.contains(&AWAITED) {
                return self.attach_late(ENTERED);
            }
        }
        Ok(())
    }

    fn attach_awaited(&mut self) -> Result<()> {
        self.aio_awaited = false;
        self.attach_late(if self.plan.attach.contains(&AWAITED) { AWAITED } else { ENTERED })
    }

    fn attach_late(&mut self, name: &'static str) -> Result<()> {
        // Between two windows nothing is attached: the next one does it.
        let counting = self.skel.maps.bss_data.as_deref().expect("the object has counters").counting;
        if self.windows.is_some() && counting == 0 {
            return Ok(());
        }
        if !self.plan.attach.contains(&name) {
            return Ok(());
        }
        let programs = &self.skel.progs;
        let program = if name == AWAITED { &programs.aio_submits } else { &programs.aio_submits_entered };
        self.links.push((name, program.attach().map_err(load_error)?));
        Ok(())
    }

    /// Hands over the requests that were followed to their end since the last call.
    pub fn trails(&mut self, each: &mut dyn FnMut(iotrail_schema::trail::Trail)) -> Result<()> {
        let Some(trails) = &self.trails else { return Ok(()) };
        let words = Words { symbols: self.symbols, interrupts: self.before.as_ref() };
        trails.take(&words, each)?;
        self.sweep(false)
    }

    /// The rings' buffers that were unregistered since the last call: those that the requests handed over next may have come across are
    /// among them.
    pub fn unregistered(&mut self) -> Result<Vec<Unregistered>> {
        self.trails.as_ref().map_or(Ok(vec![]), Trails::take_unregistered)
    }

    /// Requests whose completion found the queue full, as far as [`trails`](Self::trails) has met with them: when they had it, and by
    /// what, is not known.
    pub fn overflowed(&mut self) -> Vec<iotrail_schema::trail::Trail> {
        self.trails.as_ref().map_or(vec![], Trails::take_overflowed)
    }

    /// The same of requests of native and POSIX AIO, as far as [`trails`](Self::trails) has met with them.
    pub fn reaped(&mut self, each: &mut dyn FnMut(Reaped)) {
        if let Some(trails) = &self.trails {
            trails.take_reaped(each);
        }
    }

    /// The same of completions that were looked at in the completion queue.
    pub fn stays(&mut self, each: &mut dyn FnMut(Stay)) {
        if let Some(trails) = &self.trails {
            trails.take_stays().for_each(each);
        }
    }

    /// Completions that could not be looked at there.
    pub fn stays_lost(&self) -> u64 {
        let bss = self.skel.maps.bss_data.as_deref().expect("the object has counters");
        // SAFETY: live and aligned; programs may be writing, and a count that is a moment old is as good.
        unsafe { std::ptr::read_volatile(&bss.stays_lost) }.iter().sum()
    }

    /// The same of submission-queue threads that have ended: /proc has them no more.
    pub fn ended_sq_threads(&mut self) -> Vec<EndedSqThread> {
        self.trails.as_ref().map_or(vec![], Trails::take_ended_sq_threads)
    }

    /// The last parts of the names of files that requests went to, each once.
    pub fn file_names(&mut self) -> Vec<LastName> {
        self.trails.as_ref().map_or(vec![], Trails::take_file_names)
    }

    /// What has become of the chosen requests up to now: a sum over counters in shared memory, no system call. What is
    /// unfinished is known at the end only, and 0 here; so are `sampled_from` and `came_later`.
    pub fn follow_loss(&self) -> FollowLoss {
        let slots = &self.skel.maps.bss_data.as_deref().expect("the object has counters").slots;
        // SAFETY: live and aligned; programs may be writing, and a count that is a moment old is as good.
        let sum =
            |of: fn(&types::cpu_slot) -> &u64| slots.iter().map(|s| unsafe { std::ptr::read_volatile(of(s)) }).sum();
        FollowLoss {
            no_room: sum(|s| &s.no_room),
            ring_buffer_full: sum(|s| &s.trails_lost),
            no_completion: sum(|s| &s.no_completion),
            skipped: sum(|s| &s.skipped),
            unfinished: 0,
            unreaped: 0,
            chosen: Chosen::default(),
            shared: slots.iter().map(|s| u64::from(unsafe { std::ptr::read_volatile(&s.shared) })).sum(),
            sampled_from: 0,
            came_later: 0,
        }
    }

    /// Takes out what was recorded since [`begin`](Self::begin), once; `None` unless it was opened to record.
    pub fn recording(&mut self) -> Result<Option<Recording>> {
        let Some(recorder) = &self.recorder else { return Ok(None) };
        let bss = self.skel.maps.bss_data.as_deref().expect("the object has counters");
        let lost = bss.slots.iter().map(|slot| slot.record_lost).sum();
        recorder.take(lost, self.symbols, iotrail_host::irq::snapshot().ok().as_ref()).map(Some)
    }
}

/// As the kernel shares out what a process ran (cputime_adjust): the sum is exact, the parts are what the ticks say; without one, all of it
/// is the user's.
fn shared_out(ran_ns: u64, user_ns: u64, system_ns: u64) -> (u64, u64) {
    let ticks = u128::from(user_ns) + u128::from(system_ns);
    let system = (u128::from(ran_ns) * u128::from(system_ns)).checked_div(ticks).unwrap_or(0) as u64;
    (ran_ns - system, system)
}

/// As its section says, or to the function that the plan chose.
fn attach(program: &ProgramMut<'_>, plan: &Plan) -> Result<Link> {
    let function = plan.functions.iter().find(|f| program.name() == f.program);
    function.map_or_else(|| program.attach(), |f| f.attach(program)).map_err(load_error)
}

fn refused(why: String, remedy: &str) -> Error {
    Error::machine(format!("the probes cannot be loaded: {why}"), remedy)
}

fn load_error(e: libbpf_rs::Error) -> Error {
    let (why, remedy) = support::refusal(&e);
    refused(why, remedy).because(e)
}
