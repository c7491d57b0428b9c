//! The probes: BPF programs on tracepoints, and on functions where the kernel allows it. `bpf/` holds the kernel half, `record.h`
//! what crosses, and here stand what can load ([`support`], [`function`]; each is tried in [`survey`]), the names of kernel
//! addresses (`symbols`), and one watched span ([`watch`]) with what it yields ([`observed`]). Samples of what the CPUs run
//! ([`profile`], [`sampled`]) are an object of their own, and so are what tells the kernel's own numbers of processes ([`numbers`]),
//! what sees rings made, for runs that are not watched ([`created`]), what records a program's I/O for a replay ([`capture`]), and what reads threads' and rings' state without a probe ([`snapshot`]).
//!
//! Other people's programs: [`rings`] holds what is counted by ring and opcode (`overflow`: whose the completions are that find no
//! room); requests followed whole cross one by one, each with its file ([`files`]).
//!
//! Aggregate mode: nothing crosses per event. [`recording`] takes out the deciding events themselves, beside it. What each
//! number means is in `docs/counters.md`.
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
