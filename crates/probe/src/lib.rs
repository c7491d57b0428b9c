//! The probes: BPF programs on tracepoints, and on kernel functions if the kernel allows it. `bpf/` contains the kernel
//! side, and `record.h` the shared layout. This crate checks which programs can be loaded ([`support`], [`function`];
//! [`survey`] tries each), resolves kernel addresses (`symbols`), and runs a trace ([`watch`]) with its results
//! ([`observed`]). Separate objects are used for CPU samples ([`profile`], [`sampled`]), process IDs ([`numbers`]), the
//! creation of rings in runs without a trace ([`created`]), the capture of a program's I/O for replay ([`capture`]),
//! and the state of threads and rings without probes ([`snapshot`]).
//!
//! For other programs, [`rings`] has the counts by ring and opcode (`overflow` attributes completions that found the CQ
//! full). Traced requests arrive one by one, each with its file ([`files`]).
//!
//! Aggregation passes no data per event. [`recording`] additionally records the events that decide delivery paths.
//! `docs/counters.md` defines each number.
//!
//! Uses `iotrail-base`, `iotrail-schema`, `iotrail-host`, `iotrail-stats` and `iotrail-path`.

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
