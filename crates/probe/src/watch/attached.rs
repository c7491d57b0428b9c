//! The parts of a watch.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;

use libbpf_rs::{Link, OpenObject, ProgramMut};

use super::errors::load_error;
use crate::calls::CallWindow;
use crate::cost::Account;
use crate::observed::Raw;
use crate::observed::window_counts::WindowCounts;
use crate::pace::Pace;
use crate::past::Past;
use crate::posix_aio::Libraries;
use crate::recording::Recorder;
use crate::sampled_events::{SampledEvents, Sums};
use crate::skel::{IotrailSkel, types};
use crate::subject::Subject;
use crate::support::Plan;
use crate::symbols::Symbols;
use crate::trails::RequestTraces;
use iotrail_base::error::Result;
use iotrail_host::irq::Interrupts;

/// Memory of the loaded object; it must outlive the [`Watch`].
#[derive(Default)]
pub struct ObjectSlot(pub(super) Option<MaybeUninit<OpenObject>>);

/// Attached programs. Dropping it detaches them.
pub struct Watch<'room> {
    pub(super) skel: IotrailSkel<'room>,
    pub(super) links: Vec<(&'static str, Link)>,
    /// [`AWAITED`](super::aio::AWAITED) has not been attached yet.
    pub(super) aio_awaited: bool,
    pub(super) aio_as_i386: bool,
    pub(super) posix_aio: Libraries,
    /// `None` unless the trace consists of windows.
    pub(super) windows: Option<Windows>,
    /// The trace switched to windows because of its cost.
    pub(super) light: Option<Light>,
    pub(super) plan: Plan,
    pub(super) subject: Subject,
    pub(super) symbols: Option<&'static Symbols>,
    pub(super) before: Option<Interrupts>,
    pub(super) trails: Option<RequestTraces>,
    pub(super) misses_before: BTreeMap<&'static str, u64>,
    pub(super) recorder: Option<Recorder>,
    pub(super) account: Option<Account>,
    pub(super) costly: Option<Costly>,
    /// Number of accounted spans so far.
    pub(super) account_spans: u32,
    pub(super) call_windows: Windowed,
    /// Number of slots in use: one per possible CPU.
    pub(super) cpus: usize,
    /// Whether ring teardown can be distinguished from other kernel work.
    pub(super) exit_work_known: bool,
    pub(super) past: Past,
    /// A swept ring was a native aio context.
    pub(super) native_aio: bool,
    /// Number of closed rings and exited processes at the last sweep.
    pub(super) gone: u32,
    /// Number of rings left by the last sweep.
    pub(super) known_rings: u32,
    /// Closed rings for which no CPU or thread held counts at the last sweep.
    pub(super) idle: BTreeSet<u32>,
    /// Rings below this number have their own record until they are swept.
    pub(super) told_below: u32,
}

impl Watch<'_> {
    /// The programs' counters, except those in hashes. Programs may be writing them: see [`peek`](crate::raw::peek).
    pub(super) fn bss(&self) -> &types::bss {
        self.skel.maps.bss_data.as_deref().expect("the object has counters")
    }

    pub(super) fn bss_mut(&mut self) -> &mut types::bss {
        self.skel.maps.bss_data.as_deref_mut().expect("the object has counters")
    }
}

/// Attaches a program as its section says, or to the function that the plan chose.
pub(super) fn attach(program: &ProgramMut<'_>, plan: &Plan) -> Result<Link> {
    let function = plan.functions.iter().find(|f| program.name() == f.program);
    function.map_or_else(|| program.attach(), |f| f.attach(program)).map_err(load_error)
}

/// System calls by number in windows, of all programs or of the costly ones.
#[derive(Default)]
pub(super) struct Windowed {
    pub(super) windows: Vec<CallWindow>,
    /// The open window: its start, completions at that time, and the counts of
    /// [`calls::reported`](crate::calls::reported).
    pub(super) opened: Option<(u64, u64, Vec<u64>)>,
}

/// Attachment state of the costly programs.
pub(super) struct Costly {
    pub(super) pace: Pace,
    /// Counts at the start of the accounted time; `None` between two windows of all programs.
    pub(super) began: Option<Sums>,
    /// Counts when they were last attached; `None` while detached.
    pub(super) opened: Option<(Sums, Span)>,
    pub(super) events: SampledEvents,
}

/// Kind of the time for which they are attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    Whole,
    Window,
}

impl Costly {
    /// All programs were attached: everything is observed until [`end`](Self::end).
    pub(super) fn begin(&mut self, now: Sums, span: Span) {
        (self.began, self.opened) = (Some(now), Some((now, span)));
    }

    /// All programs are about to be detached.
    pub(super) fn end(&mut self, now: Sums) {
        self.end_span(now);
        if let Some(began) = self.began.take() {
            self.events.all.add(&now.since(&began));
        }
    }

    pub(super) fn end_span(&mut self, now: Sums) {
        match self.opened.take() {
            Some((opened, Span::Whole)) => self.events.whole(now.since(&opened)),
            Some((opened, Span::Window)) => self.events.window(now.since(&opened)),
            None => {}
        }
    }
}

/// State of a trace that switched to windows.
#[derive(Default)]
pub(super) struct Light {
    /// Counts of the completely traced time.
    pub(super) whole: Raw,
    /// Counts before the current completely traced time; `None` while windows are used.
    pub(super) since: Option<Raw>,
    /// Counts when all programs were last attached.
    pub(super) opened: Sums,
    pub(super) events: SampledEvents,
    pub(super) counts: WindowCounts,
    /// The rings' counters were read up to the end.
    pub(super) posted_is_all: bool,
    /// Time from the last reading of those counters to the end.
    pub(super) unread_ns: u64,
}

/// Sums over the closed windows.
#[derive(Default)]
pub(super) struct Windows {
    pub(super) undecided: Vec<types::segment>,
    pub(super) skipped: u64,
    pub(super) unfinished: u64,
    pub(super) unreaped: u64,
    pub(super) overflowed: u64,
    /// Counts of /proc/interrupts in the windows; `None` if unreadable.
    pub(super) interrupts: Option<Interrupts>,
    pub(super) opened: Option<Interrupts>,
}
