//! Call sites. User stacks are located in files as they arrive, while their process lives, and named at the end.
//!
//! | module | responsible for |
//! |---|---|
//! | `maps` | the file mapped at an address of a process |
//! | `names` | the functions at positions in files |
//! | `perf_map` | the functions of generated code |
//! | `library` | functions that make calls for others; pure |

mod library;
mod maps;
mod names;
mod perf_map;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use self::maps::{Mappings, Module, Place};
use self::names::Names;
use self::perf_map::PerfMaps;
use crate::namespace::Numbers;
use iotrail_probe::callsites::{SiteAction as Seen, Sites, UserStack};
use iotrail_schema::stacks::{Frame, SiteAction, SiteUse, StackGap, StackGapCode, StackRecord, Stacks};

/// Maximum number of stacks in the record, those with the most samples.
const LISTED: usize = 1024;

/// A user stack and the locations of its addresses.
#[derive(Debug)]
struct Located {
    tgid: u32,
    comm: String,
    frames: Vec<Place>,
    callers: Vec<Place>,
    /// Whether the process's memory map was readable.
    is_mapped: bool,
}

/// User stacks of one trace.
#[derive(Debug)]
pub(crate) struct CallSites {
    numbers: Rc<Numbers>,
    mappings: HashMap<u32, Mappings>,
    modules: Vec<Rc<Module>>,
    stacks: BTreeMap<u64, Located>,
}

impl CallSites {
    pub fn new(numbers: Rc<Numbers>) -> Self {
        CallSites { numbers, mappings: HashMap::new(), modules: vec![], stacks: BTreeMap::new() }
    }

    /// Locates new stacks immediately, because an exited process has no memory map.
    pub fn met(&mut self, stacks: Vec<UserStack>) {
        let mut current: Vec<u32> = vec![];
        for stack in stacks {
            if !current.contains(&stack.tgid) {
                current.push(stack.tgid);
                let read = self.numbers.in_proc(stack.tgid).and_then(|pid| Mappings::read(pid, &mut self.modules));
                if let Some(read) = read {
                    self.mappings.insert(stack.tgid, read);
                }
            }
            let mappings = self.mappings.get(&stack.tgid);
            let place = |address: u64| mappings.map_or(Place::Unmapped, |of| of.place(address));
            let located = Located {
                tgid: stack.tgid,
                comm: stack.comm,
                frames: stack.frames.iter().map(|address| place(*address)).collect(),
                callers: stack.callers.iter().map(|address| place(*address)).collect(),
                is_mapped: mappings.is_some(),
            };
            self.stacks.insert(stack.hash, located);
        }
    }

    /// The record, with function names.
    pub fn record(self, sites: Sites) -> Stacks {
        let mut by_stack: BTreeMap<u64, Vec<SiteUse>> = BTreeMap::new();
        for ((stack, action), sum) in sites {
            let (action, name) = match action {
                Seen::Sleeps(name) => (SiteAction::Sleeps, name),
                Seen::Calls(name) => (SiteAction::Calls, name),
                Seen::Runs(name) => (SiteAction::Runs, name),
                Seen::Submits(name) => (SiteAction::Submits, name),
            };
            let (samples, count, ns) = (sum.samples, sum.count, sum.ns);
            let (errors, punts) = (sum.errors, sum.punts);
            by_stack.entry(stack).or_default().push(SiteUse { action, name, samples, count, ns, errors, punts });
        }
        let mut all: Vec<(u64, Vec<SiteUse>)> = by_stack.into_iter().collect();
        all.sort_by_key(|(stack, uses)| (std::cmp::Reverse(samples(uses)), *stack));
        all.truncate(LISTED);
        let mut record = Builder { perf_maps: PerfMaps::new(Rc::clone(&self.numbers)), ..Builder::default() };
        for (hash, uses) in all {
            match self.stacks.get(&hash) {
                Some(located) => record.add(located, uses),
                None if hash == 0 => record.nameless("kernel threads", StackGapCode::KernelThread, uses),
                None => record.nameless("", StackGapCode::Lost, uses),
            }
        }
        record.finish()
    }
}

fn samples(uses: &[SiteUse]) -> u64 {
    uses.iter().map(|of| of.samples).sum()
}

/// The record under construction.
#[derive(Default)]
struct Builder {
    names: Names,
    perf_maps: PerfMaps,
    frames: Vec<Frame>,
    numbers: HashMap<Frame, u32>,
    stacks: BTreeMap<(String, Vec<u32>), Vec<SiteUse>>,
    gaps: BTreeMap<(StackGapCode, String), u64>,
}

impl Builder {
    fn gap(&mut self, code: StackGapCode, module: &str, uses: &[SiteUse]) {
        *self.gaps.entry((code, module.to_owned())).or_default() += samples(uses);
    }

    fn nameless(&mut self, comm: &str, code: StackGapCode, uses: Vec<SiteUse>) {
        self.gap(code, comm, &uses);
        merge(self.stacks.entry((comm.to_owned(), vec![])).or_default(), uses);
    }

    fn add(&mut self, located: &Located, uses: Vec<SiteUse>) {
        if !located.is_mapped {
            return self.nameless(&located.comm, StackGapCode::Ended, uses);
        }
        let mut frames: Vec<Frame> = vec![];
        let mut has_generated = false;
        for (i, place) in located.frames.iter().enumerate() {
            match place {
                Place::File { module, offset } => {
                    let named = self.names.at(module, *offset);
                    let is_stub = i == 0 && named.is_stub();
                    frames.extend(named.frames);
                    if is_stub {
                        frames.extend(self.callers(&located.callers));
                    }
                }
                Place::Generated(address) => {
                    let function = self.perf_maps.function(located.tgid, *address);
                    has_generated |= function.is_none();
                    let place = (None, None, None);
                    frames.push(frame(function, place, *address, false));
                }
                Place::Unmapped => break,
            }
        }
        if has_generated {
            self.gap(StackGapCode::NoPerfMap, &located.comm, &uses);
        }
        let site = site(&frames).map(|i| frames[i].clone());
        if let Some(Frame { function: None, module: Some(module), .. }) = &site {
            self.gap(StackGapCode::Stripped, &module.clone(), &uses);
        }
        if located.frames.len() < library::WHOLE_FRAMES
            && let Some(Frame { module: Some(module), .. }) =
                frames.last().filter(|last| !library::begins_thread(last.module.as_deref(), last.function.as_deref()))
        {
            self.gap(StackGapCode::NoFramePointers, &module.clone(), &uses);
        }
        let numbers = frames.into_iter().map(|frame| self.number(frame)).collect();
        merge(self.stacks.entry((located.comm.clone(), numbers)).or_default(), uses);
    }

    /// Callers of system-call stubs, up to the first function that is not a stub.
    fn callers(&mut self, callers: &[Place]) -> Vec<Frame> {
        let mut frames = vec![];
        for caller in callers {
            let Place::File { module, offset } = caller else { continue };
            let named = self.names.at(module, *offset);
            let is_stub = named.is_stub();
            frames.extend(named.frames);
            if !is_stub {
                break;
            }
        }
        frames
    }

    fn number(&mut self, frame: Frame) -> u32 {
        let next = self.frames.len() as u32;
        let number = *self.numbers.entry(frame.clone()).or_insert(next);
        if number == next {
            self.frames.push(frame);
        }
        number
    }

    fn finish(self) -> Stacks {
        let mut stacks: Vec<StackRecord> = vec![];
        for ((comm, frames), uses) in self.stacks {
            let of_stack: Vec<Frame> = frames.iter().map(|number| self.frames[*number as usize].clone()).collect();
            let site = site(&of_stack).map(|i| frames[i]);
            stacks.push(StackRecord { comm, frames, site, uses });
        }
        stacks.sort_by_key(|stack| std::cmp::Reverse(samples(&stack.uses)));
        let gap = |((code, module), samples)| StackGap { code, module, samples };
        let mut gaps: Vec<StackGap> = self.gaps.into_iter().map(gap).collect();
        gaps.sort_by_key(|gap| std::cmp::Reverse(gap.samples));
        Stacks { frames: self.frames, stacks, gaps }
    }
}

fn frame(
    function: Option<String>,
    (file, line, module): (Option<String>, Option<u32>, Option<String>),
    offset: u64,
    inlined: bool,
) -> Frame {
    let library = library::is(module.as_deref(), function.as_deref());
    Frame { function, file, line, module, offset, inlined, library }
}

/// Index of the innermost frame outside libraries.
fn site(frames: &[Frame]) -> Option<usize> {
    frames.iter().position(|frame| !frame.library)
}

fn merge(into: &mut Vec<SiteUse>, uses: Vec<SiteUse>) {
    for of in uses {
        match into.iter_mut().find(|known| known.action == of.action && known.name == of.name) {
            Some(known) => {
                known.samples += of.samples;
                known.count += of.count;
                known.ns += of.ns;
                known.errors += of.errors;
                known.punts += of.punts;
            }
            None => into.push(of),
        }
    }
}
