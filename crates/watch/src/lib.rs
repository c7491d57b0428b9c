//! Other people's programs: what is asked to be watched, what /proc says of it beside the probes, and the record that the two
//! make together.
//!
//! | module | responsible for |
//! |---|---|
//! | [`subject`] | a command, processes, or everyone: validated before anything is loaded |
//! | `command` | a command that stands still until the probes are there |
//! | `end` | the end of a process |
//! | [`guardian`] | what ends all processes of a command, iotrail's own death included |
//! | [`namespace`] | the numbers by which the kernel itself knows processes |
//! | `left` | what a command has left running when it ended |
//! | `rings` | which file descriptor is which ring |
//! | `processes` | CPU time, helper threads, children: sampled |
//! | `quota` | CPU quotas that held them back |
//! | `files` | names of the files that followed requests go to |
//! | `callsites` | user stacks: where their functions are in files, and their names |
//! | `summary` | counts and followed requests → the record; pure |
//! | `threads` | who submits to a ring, and who waits for its completions; pure |
//! | `frames` | the frames of a recording's file |
//! | [`recording`] | followed requests in a file: written while they come, read again |
//! | [`replay_recording`] | events for replay in a file, the same way |
//! | [`capture`] | a recording for replay while it is made |
//! | [`recorder`] | what is kept of followed requests: a file, or the slowest |
//! | `sampler` | samples of their CPU time |
//! | `state` | what the kernel keeps of threads, rings and sockets anyway, sampled |
//! | [`session`] | one watched span from its beginning to its end |
//! | [`windows`] | when the probes are attached, where they are not all the time; pure |
//! | `light` | whether a watch costs too much, and by which windows it goes on then; pure |
//! | [`metrics`] | counts so far, for those who scrape them |
//! | [`monitor`] | samples without probes within a budget, and stalls |
//! | `rates` | counts at two moments and what was followed between → rates; pure |
//! | [`live`] | a watched span of which rates are told while it lasts |
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
