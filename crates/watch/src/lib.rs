//! Traces other programs: the subject of a trace, the data of /proc in addition to the probes, and the record made from
//! both.
//!
//! | module | responsible for |
//! |---|---|
//! | [`subject`] | a command, processes, or all processes: validated before anything is loaded |
//! | `command` | a command that waits until the probes are attached |
//! | `end` | the end of a process |
//! | [`guardian`] | ends all processes of a command, even if iotrail is killed |
//! | [`namespace`] | process IDs of the initial PID namespace |
//! | `left` | processes that a command leaves behind |
//! | `rings` | the ring behind a file descriptor |
//! | `processes` | CPU time, helper threads, children: sampled |
//! | `quota` | CPU quotas that throttled the processes |
//! | `files` | names of the files of traced requests |
//! | `callsites` | user stacks: positions of their functions in files, and their names |
//! | `summary` | counts and traced requests → the record; pure |
//! | `threads` | threads that submit to a ring, and threads that wait for its completions; pure |
//! | `frames` | the frames of a recording's file |
//! | [`recording`] | traced requests in a file: written as they arrive, read again |
//! | [`replay_recording`] | events for replay in a file, the same way |
//! | [`capture`] | the writer of a recording for replay |
//! | [`recorder`] | keeps traced requests: in a file, or only the slowest |
//! | `sampler` | samples of their CPU time |
//! | `state` | state that the kernel keeps of threads, rings and sockets anyway, sampled |
//! | [`session`] | one traced span from its start to its end |
//! | [`windows`] | when the probes are attached, if not all the time; pure |
//! | `light` | whether a trace costs too much, and its windows then; pure |
//! | [`metrics`] | counts so far, for scrapes |
//! | [`monitor`] | samples without probes within a budget, and stalls |
//! | `rates` | counts at two times and the requests traced in between → rates; pure |
//! | [`live`] | a traced span whose rates are reported during it |
//!
//! It uses `iotrail-base`, `iotrail-schema`, `iotrail-host`, `iotrail-stats`, `iotrail-path`, `iotrail-answer`, `iotrail-probe`.

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
