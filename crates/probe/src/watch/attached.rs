//! What a watch consists of.

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

/// Where the loaded object stands; it must outlive the [`Watch`].
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
    /// Where it is watched by windows.
    pub(super) windows: Option<Windows>,
    /// It became one by windows, since it cost too much.
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
    /// The end of a ring can be told from other work of the kernel's.
    pub(super) exit_work_known: bool,
    pub(super) past: Past,
    /// A context of native aio was among what went.
    pub(super) native_aio: bool,
    /// Rings and processes that had gone when the maps were swept last,
    pub(super) gone: u32,
    /// and what was left.
    pub(super) known_rings: u32,
    /// Of these, those that no CPU and no thread had anything of.
    pub(super) idle: BTreeSet<u32>,
    /// Rings with a lower number were told one by one, and are until they are forgotten.
    pub(super) told_below: u32,
}

impl Watch<'_> {
    /// What the programs count, but for what is in hashes. They may be writing to it: see [`peek`](crate::raw::peek).
    pub(super) fn bss(&self) -> &types::bss {
        self.skel.maps.bss_data.as_deref().expect("the object has counters")
    }

    pub(super) fn bss_mut(&mut self) -> &mut types::bss {
        self.skel.maps.bss_data.as_deref_mut().expect("the object has counters")
    }
}

/// As its section says, or to the function that the plan chose.
pub(super) fn attach(program: &ProgramMut<'_>, plan: &Plan) -> Result<Link> {
    let function = plan.functions.iter().find(|f| program.name() == f.program);
    function.map_or_else(|| program.attach(), |f| f.attach(program)).map_err(load_error)
}

/// Calls by number in windows, of all programs or of those that cost much.
#[derive(Default)]
pub(super) struct Windowed {
    pub(super) windows: Vec<CallWindow>,
    /// When the one that is open began, completions then, and the counts of [`calls::reported`](crate::calls::reported).
    pub(super) opened: Option<(u64, u64, Vec<u64>)>,
}

/// What is kept of the programs that cost much while they come and go.
pub(super) struct Costly {
    pub(super) pace: Pace,
    /// The counts when the accounted time began; `None`: between two windows of all programs.
    pub(super) began: Option<Sums>,
    /// The counts when they were attached last; `None`: they are detached.
    pub(super) opened: Option<(Sums, Span)>,
    pub(super) events: SampledEvents,
}

/// For how long they are attached.
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

/// What a trace keeps that became one by windows.
#[derive(Default)]
pub(super) struct Light {
    /// What was counted while all programs stayed attached,
    pub(super) whole: Raw,
    /// and what had been counted before they stayed last; `None`: there are windows now.
    pub(super) since: Option<Raw>,
    /// The counts when all programs were attached last.
    pub(super) opened: Sums,
    pub(super) events: SampledEvents,
    pub(super) counts: WindowCounts,
    /// The rings' counters were read to the end.
    pub(super) posted_is_all: bool,
}

/// What the windows that are over have left.
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
