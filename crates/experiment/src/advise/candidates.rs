//! The configurations that a search compares, each with its adoption effort and the code or command to adopt it. The
//! machine and the program determine later which of them are valid.

use toml::{Table, Value};

use iotrail_replay::change;
use iotrail_replay::program::Program;
use iotrail_schema::search_record::{Candidate, Effort};
use iotrail_schema::setup_flag;
use iotrail_supervise::change::AS_IS;

/// Ring setup flags, all of which may be combined.
pub(super) const RINGS: [&str; 4] = ["coop_taskrun,taskrun_flag", "single_issuer", DEFER, "sqpoll"];

pub(super) const DEFER: &str = "defer_taskrun,single_issuer";

/// Name of the current configuration.
pub const NOW: &str = AS_IS;

/// A candidate with its arm's options.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposed {
    pub candidate: Candidate,
    pub options: Table,
}

/// CPUs to run on: `irq` or `non-irq`, with their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub name: &'static str,
    pub cpus: Vec<u32>,
}

/// A single change of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Move {
    pub name: String,
    pub effort: Effort,
    pub how: Vec<String>,
    pub options: Table,
}

/// Candidates for a user's program: its rings and its CPUs.
pub fn of_program(placements: &[Placement]) -> Vec<Proposed> {
    let rings = RINGS.map(|ring| ring_move(ring, &[]));
    let last = iotrail_host::cpu::online().ok().and_then(|cpus| cpus.last().copied());
    let bound = last.filter(|cpu| *cpu > 0).map(|cpu| ring_move("sqpoll", &[("sq-cpu", cpu)]));
    let rings: Vec<Move> = rings.into_iter().chain(bound).collect();
    product(&rings, &placed(placements))
}

/// Candidates for a recorded program: rings, batches, registrations, interface and CPUs. A replay has no SQPOLL thread.
pub fn of_replay(program: &Program, placements: &[Placement]) -> Vec<Proposed> {
    let overlapped = "keep 16 requests in flight. An upper bound: a recording does not show which requests depend on another request's data";
    let one_to_one = "replace each call with a request: io_uring_submit_and_wait(ring, 1)";
    let moves = match program.is_synchronous() {
        true => vec![
            of_engine("io_uring", 1, one_to_one),
            of_engine("io_uring", 16, overlapped),
            of_engine("libaio", 16, overlapped),
        ],
        false => {
            let mut moves: Vec<Move> =
                RINGS.iter().filter(|ring| !ring.contains("sqpoll")).map(|ring| ring_move(ring, &[])).collect();
            let batch = i64::from((change::depth(program) / 2).min(16));
            let how = format!("submit {batch} requests per io_uring_enter, and wait for the same number");
            moves.extend((batch > 1).then(|| one(&format!("batch {batch}"), Effort::Lines, &how, "batch", batch)));
            let (files, buffers) = (program.observed.registered_files, program.observed.registered_buffers);
            moves.extend((!(files && buffers)).then(register));
            moves
        }
    };
    product(&moves, &placed(placements))
}

fn of_engine(engine: &str, depth: u32, how: &str) -> Move {
    let mut m = one(&format!("engine {engine} · depth {depth}"), Effort::Redesign, how, "engine", engine);
    m.options.insert("depth".into(), Value::from(i64::from(depth)));
    m
}

pub(super) fn register() -> Move {
    let how = "io_uring_register_files and io_uring_register_buffers once; then IOSQE_FIXED_FILE and READ_FIXED or WRITE_FIXED";
    one("register files,buffers", Effort::Lines, how, "register", "files,buffers")
}

pub(super) fn one(name: &str, effort: Effort, how: &str, option: &str, value: impl Into<Value>) -> Move {
    let options = [(option.to_owned(), value.into())].into_iter().collect();
    Move { name: name.into(), effort, how: vec![how.into()], options }
}

pub(super) fn placed(placements: &[Placement]) -> Vec<Move> {
    let of = |p: &Placement| {
        let cpus: Vec<String> = p.cpus.iter().map(u32::to_string).collect();
        let how = format!("taskset -c {} COMMAND", cpus.join(","));
        one(&format!("cpus {}", p.name), Effort::Setting, &how, "cpus", p.name)
    };
    placements.iter().map(of).collect()
}

pub(super) fn ring_move(flags: &str, values: &[(&str, u32)]) -> Move {
    let mut options: Table = [("ring".to_owned(), Value::from(flags))].into_iter().collect();
    options.extend(values.iter().map(|(name, value)| ((*name).to_owned(), Value::from(i64::from(*value)))));
    let with: String = values.iter().map(|(name, value)| format!(" {name} {value}")).collect();
    Move { name: format!("{flags}{with}"), effort: Effort::Flag, how: code(flags, values), options }
}

/// The flags in C and for the `io-uring` crate, the required kernel, and the requirements on the program.
fn code(flags: &str, values: &[(&str, u32)]) -> Vec<String> {
    let known: Vec<_> = flags.split(',').filter_map(setup_flag::find).collect();
    let c: Vec<String> = known.iter().map(|f| format!("IORING_SETUP_{}", f.name.to_uppercase())).collect();
    let value = |name: &str| values.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
    let (bound, idle) = (value("sq-cpu"), value("sq-idle"));
    let affine = if bound.is_some() { " | IORING_SETUP_SQ_AFF" } else { "" };
    let since = known.iter().map(|f| f.since).max().unwrap_or_default();
    let builder = |name: &str| match name {
        "sqpoll" => format!(" .setup_sqpoll({})", idle.unwrap_or(2000)),
        name => format!(" .setup_{name}()"),
    };
    let mut rust: String = known.iter().map(|f| builder(f.name)).collect();
    rust.extend(bound.map(|cpu| format!(" .setup_sqpoll_cpu({cpu})")));
    let fields = [("sq_thread_cpu", bound), ("sq_thread_idle", idle)];
    let fields: Vec<String> = fields.iter().filter_map(|(name, x)| Some(format!("{name} = {}", (*x)?))).collect();
    let with = if fields.is_empty() { String::new() } else { format!(" with {}", fields.join(", ")) };
    [
        format!("C, liburing: {}{affine}{with}; Linux {}.{} or later", c.join(" | "), since.0, since.1),
        format!("Rust, io-uring: IoUring::builder(){rust} .build(ENTRIES)"),
    ]
    .into_iter()
    .chain(known.iter().filter_map(|f| asks(f.name)).map(str::to_owned))
    .collect()
}

/// The change that a flag requires in the program; `None` if it requires none.
fn asks(flag: &str) -> Option<&'static str> {
    match flag {
        "taskrun_flag" => Some(
            "if the program polls the ring in user mode: enter the kernel when IORING_SQ_TASKRUN is set, as io_uring_peek_cqe does",
        ),
        "defer_taskrun" => {
            Some("wait with io_uring_enter, or call io_uring_get_events; otherwise no completion is delivered")
        }
        "sqpoll" => {
            Some("enter with IORING_ENTER_SQ_WAKEUP when IORING_SQ_NEED_WAKEUP is set, as io_uring_submit does")
        }
        _ => None,
    }
}

/// The current configuration, each single change, and each pair of changes from both lists.
pub(super) fn product(rings: &[Move], places: &[Move]) -> Vec<Proposed> {
    let mut all = vec![joined(&[])];
    all.extend(places.iter().map(|p| joined(&[p])));
    for ring in rings {
        all.push(joined(&[ring]));
        all.extend(places.iter().map(|p| joined(&[ring, p])));
    }
    all
}

pub(super) fn joined(moves: &[&Move]) -> Proposed {
    let names: Vec<&str> = moves.iter().map(|m| m.name.as_str()).collect();
    let name = if names.is_empty() { NOW.to_owned() } else { names.join(" · ") };
    Proposed {
        candidate: Candidate {
            name,
            effort: moves.iter().map(|m| m.effort).max().unwrap_or(Effort::None),
            how: moves.iter().flat_map(|m| m.how.clone()).collect(),
        },
        options: moves.iter().flat_map(|m| m.options.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[Proposed]) -> Vec<&str> {
        all.iter().map(|p| p.candidate.name.as_str()).collect()
    }

    fn irq() -> Vec<Placement> {
        vec![Placement { name: "irq", cpus: vec![1] }, Placement { name: "non-irq", cpus: vec![0] }]
    }

    #[test]
    fn each_ring_is_tried_on_each_placement_and_the_current_one_comes_first() {
        let all = of_program(&irq());
        let names = names(&all);
        assert_eq!(names[..4], ["as-is", "cpus irq", "cpus non-irq", "coop_taskrun,taskrun_flag"]);
        assert!(names.contains(&"defer_taskrun,single_issuer · cpus irq") && all.len().is_multiple_of(3), "{names:?}");
        assert!(all.iter().all(|p| names.iter().filter(|n| **n == p.candidate.name).count() == 1), "{names:?}");
        assert_eq!(all[0].candidate.effort, Effort::None);
        assert_eq!((all[1].candidate.effort, &all[1].candidate.how[0][..]), (Effort::Setting, "taskset -c 1 COMMAND"));
    }

    #[test]
    fn recommended_ring_flags_are_shown_as_c_and_rust_code() {
        let how = code("defer_taskrun,single_issuer", &[]);
        assert_eq!(
            how,
            [
                "C, liburing: IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER; Linux 6.1 or later",
                "Rust, io-uring: IoUring::builder() .setup_defer_taskrun() .setup_single_issuer() .build(ENTRIES)",
                asks("defer_taskrun").unwrap(),
            ]
        );
        assert!(code("sqpoll", &[("sq-cpu", 1)])[1].contains(" .setup_sqpoll(2000) .setup_sqpoll_cpu(1) .build"));
        let both = code("sqpoll", &[("sq-cpu", 1), ("sq-idle", 10)]);
        assert_eq!(
            both[0],
            "C, liburing: IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF with sq_thread_cpu = 1, sq_thread_idle = 10; Linux 5.1 or later"
        );
        assert!(both[1].contains(" .setup_sqpoll(10) .setup_sqpoll_cpu(1) .build"), "{}", both[1]);
    }
}
