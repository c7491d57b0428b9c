//! Loads and attaches the programs that the subject needs.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;

use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};

use super::account::WALK;
use super::aio::{AWAITED, aio_is_due};
use super::attached::{ObjectSlot, Watch, Windowed, attach};
use super::errors::{load_error, refused};
use super::layout::{
    AIO_REQUESTS_MAX, COUNTS_MAX, CQ_BACKLOGS, FILES_NAMED, MANY, MAX_CPUS, RINGS_MAX, SITE_CLASSES, SITES,
    STACKS_KNOWN, TRAILS_MAX,
};
use crate::calls;
use crate::callsites;
use crate::choice::Window;
use crate::function::{same_as, sees_ipis_sent};
use crate::numbers::KernelIds;
use crate::past::Past;
use crate::posix_aio::{self, Libraries};
use crate::recording::{Capacity, Recorder};
use crate::skel::{IotrailSkel, IotrailSkelBuilder, OpenIotrailMaps, OpenIotrailSkel, types};
use crate::subject::{Follow, Interface, Scope, Subject};
use crate::support::{self, Facts, Plan};
use crate::symbols::{IRQ_REGS, PER_CPU_OFFSETS, Symbols};
use crate::trails::RequestTraces;
use iotrail_base::error::Result;
use iotrail_host::pid_namespace::own_number_in_proc;
use iotrail_path::entry;

/// The first rings keep their own number, so that their record continues.
const FIRST: u32 = 64;

/// Kernel work function that tears a ring down.
const EXIT_WORK: &str = "io_ring_exit_work";

impl<'room> Watch<'room> {
    /// Loads and attaches the programs. Errors name the missing kernel feature or privilege.
    pub fn open(room: &'room mut ObjectSlot, subject: Subject) -> Result<Self> {
        Self::open_with(room, subject, None)
    }

    /// Like [`open`](Self::open), and records the events that decide the delivery paths of io_uring completions.
    /// [Drain](Self::drain) them before the ring buffer is full, and [take](Self::recording) them at the end.
    pub fn open_recording(room: &'room mut ObjectSlot, subject: Subject, capacity: Capacity) -> Result<Self> {
        Self::open_with(room, subject, Some(capacity))
    }

    fn open_with(room: &'room mut ObjectSlot, subject: Subject, recording: Option<Capacity>) -> Result<Self> {
        support::quiet();
        let plan = support::plan(Facts::of_this_kernel(), &subject.interface.roles(subject.follow.is_some()))
            .map_err(|why| refused(why, "`iotrail check` lists what this kernel has"))?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(|e| refused(e.to_string(), "report this"))?;
        if cpus > MAX_CPUS {
            return Err(refused(format!("{cpus} CPUs exceed the supported maximum of {}", MAX_CPUS), "report this"));
        }
        let symbols = Symbols::of_this_kernel();
        let own = KernelIds::of_this_thread()?;
        let one = match subject.who {
            Scope::Process { tgid, unwatched_tid } => Some((tgid, unwatched_tid)),
            Scope::OtherThreads => Some((own.tgid, own.tid)),
            Scope::Followed | Scope::Everyone => None,
        };
        let mut open = IotrailSkelBuilder::default().open(room.0.insert(MaybeUninit::uninit())).map_err(load_error)?;
        let constants = open.maps.rodata_data.as_deref_mut().expect("the object has constants");
        if let Some((tgid, unwatched_tid)) = one {
            constants.watched_tgid = tgid;
            constants.unwatched_tid = unwatched_tid;
        }
        constants.recording = recording.is_some();
        tell_asked(constants, &subject, &plan);
        tell_kernel(constants, symbols, &plan);
        for (nr, kind) in constants.wait_kinds.iter_mut().enumerate() {
            *kind = calls::kind_of(nr as u32);
        }
        if let Some(follow) = subject.follow {
            tell_choice(constants, follow, symbols);
            constants.everyone = subject.who == Scope::Everyone;
            constants.own_tgid = own.tgid;
            // iotrail's own load reaps completions at known times.
            constants.reaps_asked = subject.interface == Interface::Any;
            size(&mut open.maps, follow)?;
        }
        if let Some(capacity) = recording {
            open.maps.events.set_max_entries(capacity.ring_bytes).map_err(load_error)?;
        }
        choose_programs(&mut open, &plan, subject.follow.is_some())?;
        let mut skel = open.load().map_err(load_error)?;
        let links = attach_all(&mut skel, &plan, subject.aio_awaited)?;
        let recorder =
            recording.map(|c| Recorder::open(&skel.maps.events, c.events)).transpose().map_err(load_error)?;
        let trails =
            subject.follow.map(|_| RequestTraces::open(&skel.maps.trails_out)).transpose().map_err(load_error)?;
        let mut watch = Watch {
            trails,
            skel,
            links,
            aio_awaited: subject.aio_awaited,
            aio_as_i386: false,
            posix_aio: Libraries::default(),
            windows: None,
            light: None,
            plan,
            subject,
            symbols,
            before: None,
            misses_before: BTreeMap::new(),
            recorder,
            account: None,
            costly: None,
            account_spans: 0,
            call_windows: Windowed::default(),
            cpus,
            exit_work_known: address(symbols, EXIT_WORK) != 0,
            past: Past::default(),
            native_aio: false,
            gone: 0,
            known_rings: 0,
            idle: BTreeSet::new(),
            told_below: FIRST,
        };
        // A command begins with iotrail's own libc mapped, and most programs use the same one.
        if let Some(us) = own_number_in_proc() {
            watch.attach_to_library(us);
        }
        if let (Some((tgid, _)), Some(_)) = (one, watch.subject.follow) {
            let in_proc = if watch.subject.who == Scope::OtherThreads { own_number_in_proc() } else { Some(tgid) };
            watch.follow(tgid, in_proc, false)?;
        }
        Ok(watch)
    }
}

/// Address of a kernel function; 0 if unknown, which equals no callback.
fn address(symbols: Option<&Symbols>, name: &str) -> u64 {
    symbols.and_then(|s| s.address(name)).unwrap_or_default()
}

/// Configures the scope of the trace.
fn tell_asked(constants: &mut types::rodata, subject: &Subject, plan: &Plan) {
    constants.aio_by_number = !plan.attach.contains(&AWAITED);
    constants.spans_timed = subject.spans_timed;
    constants.poster_asked = constants.recording || matches!(subject.interface, Interface::IoUring { iopoll: true });
    constants.any_wakeup =
        matches!(subject.interface, Interface::OwnCalls | Interface::HelperCalls | Interface::Readiness);
}

/// Configures the programs for this kernel.
fn tell_kernel(constants: &mut types::rodata, symbols: Option<&Symbols>, plan: &Plan) {
    let address = |name| address(symbols, name);
    constants.aio_complete_address = address("aio_complete_rw");
    constants.blkdev_end_io_async_address = address("blkdev_bio_end_io_async");
    constants.blkdev_end_io_address = address("blkdev_bio_end_io");
    constants.preemptible = Facts::of_this_kernel().preemptible;
    let sender = plan.functions.iter().find(|f| sees_ipis_sent(f.program));
    constants.resched_sender = sender.map(|f| address(f.function)).unwrap_or_default();
    constants.io_complete_address = address("io_complete_rw");
    constants.io_complete_polled_address = address("io_complete_rw_iopoll");
    constants.iomap_end_io_address = address("iomap_dio_bio_end_io");
    constants.nvme_end_io_address = address("nvme_uring_cmd_end_io");
    constants.wakes_address = address("sched_ttwu_pending");
    constants.kick_is_probed = plan.functions.iter().any(|f| same_as(f.program) == "kick_asked");
    let data = |name| symbols.and_then(|s| s.data(name)).unwrap_or_default();
    (constants.irq_regs_address, constants.per_cpu_offsets_address) = (data(IRQ_REGS), data(PER_CPU_OFFSETS));
    let extents = |names: &[&str]| names.iter().map(|name| symbols?.extent(name)).collect::<Vec<_>>();
    for (site, (start, bytes)) in constants.kick_sites.iter_mut().zip(extents(&entry::KICK_SITES).into_iter().flatten())
    {
        (site.start, site.bytes) = (start, bytes);
    }
    // Indices follow the list in the BPF program.
    let places = constants.entry_functions.len();
    assert!(entry::FUNCTIONS.is_empty() || entry::FUNCTIONS.len() == places, "{places} functions are known by number");
    let entries = constants.entry_functions.iter_mut().zip(extents(entry::FUNCTIONS));
    for (function, extent) in entries.chain(constants.ipi_senders.iter_mut().zip(extents(entry::IPI_SENDERS))) {
        (function.start, function.bytes) = extent.unwrap_or_default();
    }
}

/// Configures request selection and the kernel facts that tracing needs.
fn tell_choice(constants: &mut types::rodata, follow: Follow, symbols: Option<&Symbols>) {
    constants.following = true;
    constants.one_in = follow.choice.one_in.max(1);
    let window = Window::of(iotrail_host::clock::tick_hz());
    constants.adaptive = follow.choice.adaptive;
    (constants.window_jiffies, constants.whole_max) = (window.jiffies, window.requests);
    constants.trails_crowded = u64::from(follow.ring_bytes / 2);
    constants.rings_max = RINGS_MAX;
    constants.stacks_wanted = follow.stacks;
    let tick_hz = iotrail_host::clock::tick_hz().filter(|_| follow.stacks);
    constants.site_tick_ns = tick_hz.map_or(0, |hz| 1_000_000_000 / hz);
    constants.stack_window_jiffies = callsites::window_jiffies(iotrail_host::clock::tick_hz());
    constants.ring_exit_work = address(symbols, EXIT_WORK);
    // If the flags are unknown, the plan names the missing feature.
    let facts = Facts::of_this_kernel();
    constants.drain_active_flag = facts.drain_active_flag.unwrap_or(0) as u32;
    constants.multishot_flags = facts.multishot_flags.unwrap_or(0);
    constants.skip_links_flag = facts.skip_links_flag.unwrap_or(0);
}

/// Sizes the maps of ring counts and traced requests, which are minimal otherwise.
fn size(maps: &mut OpenIotrailMaps<'_>, follow: Follow) -> Result<()> {
    for (map, entries) in [
        (&mut maps.ring_numbers, COUNTS_MAX),
        // Includes an entry for the other rings of each process.
        (&mut maps.ring_infos, 2 * RINGS_MAX),
        (&mut maps.ring_counts, 2 * RINGS_MAX),
        (&mut maps.op_counts, COUNTS_MAX),
        (&mut maps.ring_threads, RINGS_MAX),
        (&mut maps.trails, TRAILS_MAX),
        (&mut maps.many, MANY),
        (&mut maps.files_named, FILES_NAMED),
        (&mut maps.cq_backlogs, CQ_BACKLOGS),
        (&mut maps.aio_requests, AIO_REQUESTS_MAX),
        (&mut maps.trails_out, follow.ring_bytes),
        (&mut maps.site_classes, if follow.stacks { SITE_CLASSES } else { 1 }),
        (&mut maps.stacks_known, if follow.stacks { STACKS_KNOWN } else { 1 }),
        (&mut maps.sites, if follow.stacks { SITES } else { 1 }),
    ] {
        map.set_max_entries(entries).map_err(load_error)?;
    }
    // A single call submits many requests, so one program run inserts many entries.
    if Facts::of_this_kernel().realtime {
        maps.aio_requests.set_map_flags(0).map_err(load_error)?;
    }
    Ok(())
}

/// Enables exactly the programs in the plan.
fn choose_programs(open: &mut OpenIotrailSkel<'_>, plan: &Plan, following: bool) -> Result<()> {
    for mut program in open.open_object_mut().progs_mut() {
        let wanted = plan.attach.iter().any(|name| program.name() == *name) || (following && program.name() == WALK);
        program.set_autoload(wanted);
        if let Some(function) = plan.functions.iter().find(|f| program.name() == f.program) {
            function.aim(&mut program).map_err(load_error)?;
        }
    }
    Ok(())
}

fn attach_all(skel: &mut IotrailSkel<'_>, plan: &Plan, aio_awaited: bool) -> Result<Vec<(&'static str, Link)>> {
    let mut links = vec![];
    for program in skel.object_mut().progs_mut() {
        let name = plan.attach.iter().find(|name| program.name() == **name);
        let now = |name: &&str| {
            !posix_aio::is(&program) && aio_is_due(name, aio_awaited, plan.attach.contains(&AWAITED), false)
        };
        if let Some(name) = name.filter(|name| now(name)) {
            links.push((*name, attach(&program, plan)?));
        }
    }
    Ok(links)
}
