//! The probes: BPF programs on tracepoints, and on functions if the kernel allows it. `bpf/` contains the kernel half, and `record.h`
//! the shared layout. Here: checks of what can be loaded ([`support`], [`function`]; [`survey`] tries each), the names of kernel
//! addresses (`symbols`), and one traced span ([`watch`]) with its results ([`observed`]). CPU samples
//! ([`profile`], [`sampled`]) are a separate object. So are the lists of process IDs ([`numbers`]),
//! the creation of rings, for runs without a trace ([`created`]), the capture of a program's I/O for a replay ([`capture`]), and the state of threads and rings without a probe ([`snapshot`]).
//!
//! Other programs: [`rings`] has the counts by ring and opcode (`overflow` attributes completions that found the queue full);
//! traced requests arrive one by one, each with its file ([`files`]).
//!
//! Aggregate mode: no data is passed per event. [`recording`] additionally records the deciding events. The meaning of each
//! number is in `docs/counters.md`.
//!
//! It uses `iotrail-base`, `iotrail-schema`, `iotrail-host`, `iotrail-stats`, `iotrail-path`.

mod account;
mod calls;
pub mod callsites;
pub mod capture;
mod carrier;
pub mod choice;
pub mod cost;
mod counted;
pub mod created;
pub mod files;
pub mod function;
pub mod numbers;
pub mod observed;
mod opcode;
mod overflow;
pub mod pace;
mod past;
mod posix_aio;
pub mod profile;
mod raw;
pub mod recording;
pub mod rings;
pub mod role;
pub mod sampled;
pub mod sampled_events;
pub mod sampling;
pub mod snapshot;
pub mod subject;
pub mod support;
pub mod survey;
mod symbols;
mod trails;
pub mod watch;

pub(crate) mod skel {
    #![allow(clippy::all, dead_code, non_camel_case_types, non_snake_case, unused)]
    include!(concat!(env!("OUT_DIR"), "/iotrail.skel.rs"));
}

pub(crate) mod capture_skel {
    #![allow(clippy::all, dead_code, non_camel_case_types, non_snake_case, unused)]
    include!(concat!(env!("OUT_DIR"), "/capture.skel.rs"));
}

pub(crate) mod created_skel {
    #![allow(clippy::all, dead_code, non_camel_case_types, non_snake_case, unused)]
    include!(concat!(env!("OUT_DIR"), "/created.skel.rs"));
}

pub(crate) mod numbers_skel {
    #![allow(clippy::all, dead_code, non_camel_case_types, non_snake_case, unused)]
    include!(concat!(env!("OUT_DIR"), "/numbers.skel.rs"));
}

pub(crate) mod profile_skel {
    #![allow(clippy::all, dead_code, non_camel_case_types, non_snake_case, unused)]
    include!(concat!(env!("OUT_DIR"), "/profile.skel.rs"));
}

pub(crate) mod snapshot_skel {
    #![allow(clippy::all, dead_code, non_camel_case_types, non_snake_case, unused)]
    include!(concat!(env!("OUT_DIR"), "/snapshot.skel.rs"));
}
