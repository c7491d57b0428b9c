//! Tries each program separately on this kernel: it loads, the kernel lacks its feature, or the kernel refuses it.

use std::mem::MaybeUninit;

use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};

use super::function::{self, FUNCTIONS};
use super::profile_skel::ProfileSkelBuilder;
use super::skel::{IotrailSkelBuilder, OpenIotrailSkel};
use super::support::{Facts, Program, quiet, refusal};

/// The programs that sample the CPU (`--profile`), a separate object: name, purpose, and information lost without them.
const SAMPLING: [(&str, &str, &str); 3] = [
    ("profile_sample", "CPU samples", "CPU profiles (--profile)"),
    ("profile_idle", "samples of idle CPUs", "CPU profiles sampled by time"),
    ("profile_timers", "timers of the sampler itself", "CPU profiles sampled by time"),
];

/// Result of trying one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramCheck {
    pub name: &'static str,
    pub purpose: &'static str,
    pub state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Loads,
    /// `refused`: the kernel has the feature but does not load the program.
    Missing {
        refused: bool,
        why: String,
        lost: &'static str,
        restore: String,
    },
}

/// Loads and unloads each program for this kernel separately: about 20 ms per program.
pub fn survey() -> Vec<ProgramCheck> {
    quiet();
    let facts = Facts::of_this_kernel();
    let missing = |p: &Program, why: String, restore: &str| ProgramCheck {
        name: p.name,
        purpose: p.purpose,
        state: State::Missing { refused: false, why, lost: p.lost, restore: restore.into() },
    };
    facts
        .programs()
        .map(|p| {
            let Some(tracepoints) = &facts.tracepoints else {
                return missing(p, "no readable BTF".into(), "a kernel built with CONFIG_DEBUG_INFO_BTF");
            };
            if !tracepoints.contains(p.tracepoint) {
                let (what, restore) = match (p.tracepoint, p.since) {
                    ("aio_read", _) => ("library with", "a build of iotrail that uses glibc".into()),
                    (_, Some(v)) => ("tracepoint", format!("Linux {v} or later")),
                    (_, None) => ("tracepoint", "a kernel with this tracepoint".into()),
                };
                return missing(p, format!("no {what} {}", p.tracepoint), &restore);
            }
            tried(p.name, p.purpose, p.lost, try_load::<IotrailSkelBuilder>(p.name, None, follows))
        })
        .chain(
            FUNCTIONS.iter().filter(|f| facts.fits_function(f) && !facts.is_too_old(f)).map(|f| try_function(facts, f)),
        )
        .chain(SAMPLING.map(|(name, purpose, lost)| {
            tried(name, purpose, lost, try_load::<ProfileSkelBuilder>(name, None, |_| ()))
        }))
        .collect()
}

/// Tries a function program.
fn try_function(facts: &Facts, f: &'static function::Program) -> ProgramCheck {
    let missing = |why: String, restore: &str| {
        let state = State::Missing { refused: false, why, lost: f.lost, restore: restore.into() };
        ProgramCheck { name: f.name, purpose: f.purpose, state }
    };
    if !f.functions.iter().any(|name| facts.functions.contains(name)) {
        return missing(format!("no function {}", f.functions.join(" or ")), "a kernel with this function");
    }
    let Some(chosen) = facts.way.and_then(|way| function::chosen(f, &facts.functions, way)) else {
        let restore = "a kernel that allows fentry or kprobes to root: `iotrail lab` boots one";
        return missing("the kernel does not allow probing functions".into(), restore);
    };
    tried(f.name, f.purpose, f.lost, try_load::<IotrailSkelBuilder>(chosen.program, Some(&chosen), follows))
}

fn tried(name: &'static str, purpose: &'static str, lost: &'static str, how: libbpf_rs::Result<()>) -> ProgramCheck {
    let state = how.map_or_else(
        |e| {
            let (why, restore) = refusal(&e);
            State::Missing { refused: true, why, lost, restore: restore.into() }
        },
        |()| State::Loads,
    );
    ProgramCheck { name, purpose, state }
}

/// Configures the object as for `trace`: programs that trace requests are larger than those that only count, and may
/// exceed a verifier limit.
fn follows(open: &mut OpenIotrailSkel<'_>) {
    open.maps.rodata_data.as_deref_mut().expect("the object has constants").following = true;
}

/// Loads one program of an object.
fn try_load<S: Default + for<'o> SkelBuilder<'o>>(
    name: &str,
    function: Option<&function::Chosen>,
    prepare: impl for<'o> Fn(&mut <S as SkelBuilder<'o>>::Output),
) -> libbpf_rs::Result<()> {
    let mut room = MaybeUninit::<OpenObject>::uninit();
    let mut open = S::default().open(&mut room)?;
    prepare(&mut open);
    for mut program in open.open_object_mut().progs_mut() {
        let chosen = program.name() == name;
        program.set_autoload(chosen);
        if let Some(function) = function.filter(|_| chosen) {
            function.aim(&mut program)?;
        }
    }
    open.load().map(drop)
}
