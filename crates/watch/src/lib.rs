//! Traces other programs: resolves the subject of a trace, reads /proc in addition to the probes, and builds the record
//! from both.
//!
//! | module | responsible for |
//! |---|---|
//! | [`subject`] | a command, processes, or all processes: validated before anything is loaded |
//! | `command` | a command that waits until the probes are attached |
//! | `end` | the exit of a process |
//! | [`guardian`] | ends all processes of a command, even if iotrail is killed |
//! | [`namespace`] | process IDs of the initial PID namespace |
//! | `left` | processes that a command leaves running |
//! | `rings` | the ring behind a file descriptor |
//! | `processes` | samples of CPU time, io_uring kernel threads and children |
//! | `quota` | CPU quotas that throttled the processes |
//! | `files` | names of the files of traced requests |
//! | `callsites` | locates and names the functions of user stacks |
//! | `summary` | counts and traced requests → the record; pure |
//! | `threads` | threads that submit to a ring, and threads that wait for its completions; pure |
//! | `frames` | the frames of a recording file |
//! | [`recording`] | writes traced requests to a file as they arrive, and reads them |
//! | [`replay_recording`] | the same for events for replay |
//! | [`capture`] | the writer of a recording for replay |
//! | [`recorder`] | keeps traced requests in a file, or only the slowest in memory |
//! | `sampler` | CPU samples of the traced processes |
//! | `state` | samples of kernel state of threads, rings and sockets |
//! | [`session`] | one trace from start to end |
//! | [`windows`] | schedules the windows of a trace; pure |
//! | `light` | decides whether a trace costs too much and needs windows; pure |
//! | [`metrics`] | counts so far, for scrapes |
//! | [`monitor`] | samples without probes within a budget, and detects stalls |
//! | `rates` | counts at two times and the requests traced in between → rates; pure |
//! | [`live`] | a trace that reports rates while it runs |
//!
//! Uses `iotrail-base`, `iotrail-schema`, `iotrail-host`, `iotrail-stats`, `iotrail-path`, `iotrail-answer` and
//! `iotrail-probe`.

mod allowed;
mod callsites;
pub mod capture;
pub mod command;
pub mod end;
mod files;
mod frames;
pub mod guardian;
mod iowait;
mod left;
mod light;
pub mod live;
pub mod metrics;
pub mod monitor;
pub mod namespace;
mod processes;
mod quota;
mod rates;
pub mod recorder;
pub mod recording;
pub mod replay_recording;
mod rings;
mod sampler;
pub mod session;
mod state;
pub mod subject;
mod summary;
mod threads;
pub mod windows;
