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
    /// [`AWAITED`](super::aio::AWAITED) is not attached yet.
    pub(super) aio_awaited: bool,
    pub(super) aio_as_i386: bool,
    pub(super) posix_aio: Libraries,
    /// If it is traced in windows.
    pub(super) windows: Option<Windows>,
    /// It switched to windows because it cost too much.
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
    /// Spans of the threads' account so far.
    pub(super) account_spans: u32,
    pub(super) call_windows: Windowed,
    /// Slots that are in use: possible CPUs.
    pub(super) cpus: usize,
    /// Whether the end of a ring can be distinguished from other kernel work.
    pub(super) exit_work_known: bool,
    pub(super) past: Past,
    /// A removed ring was a context of native aio.
    pub(super) native_aio: bool,
    /// Closed rings and exited processes at the last sweep,
    pub(super) gone: u32,
    /// and the rings left then.
    pub(super) known_rings: u32,
    /// Of these, rings of which no CPU and no thread had unsent counts.
    pub(super) idle: BTreeSet<u32>,
    /// Rings with a lower number had their own record, and keep it until they are removed.
    pub(super) told_below: u32,
}

impl Watch<'_> {
    /// The programs' counts, except those in hashes. Programs may be writing: see [`peek`](crate::raw::peek).
    pub(super) fn bss(&self) -> &types::bss {
        self.skel.maps.bss_data.as_deref().expect("the object has counters")
    }

    pub(super) fn bss_mut(&mut self) -> &mut types::bss {
        self.skel.maps.bss_data.as_deref_mut().expect("the object has counters")
    }
}

/// By its section, or to the function that the plan chose.
pub(super) fn attach(program: &ProgramMut<'_>, plan: &Plan) -> Result<Link> {
    let function = plan.functions.iter().find(|f| program.name() == f.program);
    function.map_or_else(|| program.attach(), |f| f.attach(program)).map_err(load_error)
}

/// Calls by number in windows, of all programs or of the costly ones.
#[derive(Default)]
pub(super) struct Windowed {
    pub(super) windows: Vec<CallWindow>,
    /// Start of the open window, completions then, and the counts of [`calls::reported`](crate::calls::reported).
    pub(super) opened: Option<(u64, u64, Vec<u64>)>,
}

/// State of the costly programs while they are attached and detached.
pub(super) struct Costly {
    pub(super) pace: Pace,
    /// The counts at the start of the accounted time; `None`: between two windows of all programs.
    pub(super) began: Option<Sums>,
    /// The counts when they were last attached; `None`: detached.
    pub(super) opened: Option<(Sums, Span)>,
    pub(super) events: SampledEvents,
}

/// Time for which they were attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    Whole,
    Window,
}

impl Costly {
    /// All programs are attached: nothing is missed until [`end`](Self::end).
    pub(super) fn begin(&mut self, now: Sums, span: Span) {
        (self.began, self.opened) = (Some(now), Some((now, span)));
    }

    /// All programs are detached.
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
    /// Counts of the time in which all programs stayed attached,
    pub(super) whole: Raw,
    /// and the counts before that time; `None`: there are windows now.
    pub(super) since: Option<Raw>,
    /// The counts when all programs were last attached.
    pub(super) opened: Sums,
    pub(super) events: SampledEvents,
    pub(super) counts: WindowCounts,
    /// The rings' counters were read to the end.
    pub(super) posted_is_all: bool,
}

/// Sums of the closed windows.
#[derive(Default)]
pub(super) struct Windows {
    pub(super) undecided: Vec<types::segment>,
    pub(super) skipped: u64,
    pub(super) unfinished: u64,
    pub(super) unreaped: u64,
    pub(super) overflowed: u64,
    /// /proc's counts in them; `None`: not readable.
    pub(super) interrupts: Option<Interrupts>,
    pub(super) opened: Option<Interrupts>,
}
