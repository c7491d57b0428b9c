//! iotrail follows asynchronous I/O on Linux from submission to the moment the application has its result.
//!
//! Imports point one way, from what decides to what is decided on:
//!
//! ```text
//! cli → experiment, watch, lab, scrape → load, net, probe → engine → host, path, stats
//!          ↘ answer, store, report, export → run_record, comparison, trace_record, top_record, recorded → measurement → path, stats
//! ```
//!
//! | module | responsible for |
//! |---|---|
//! | [`cli`] | one file per command: arguments → one call → one printer |
//! | [`experiment`] | a TOML file or a built-in name → plan of cells → schedule; one watched cell |
//! | [`engine`] | one file per I/O interface behind one contract |
//! | [`load`] | what drives an engine: options, workers, offsets, pace, phases, neighbours |
//! | [`lab`] | a virtual machine with a chosen kernel and NVMe drives; a command in it, its results brought back |
//! | [`net`] | the network load: a server, its engines, and a sender that checks every answer |
//! | [`probe`] | BPF programs: which can load, attach, reset, drain |
//! | [`path`] | what a completion's records mean: stages, vehicles; pure, no I/O |
//! | [`host`] | facts of this machine: CPUs, interrupts, block devices, kernel; settings that are changed and put back |
//! | [`stats`] | histograms, quantiles, shares, intervals; pure numbers |
//! | [`answer`] | what measurements mean, in words; pure |
//! | [`store`] | one SQLite file: runs, cells, measurements |
//! | [`report`] | measurements → text on a terminal, and HTML pages |
//! | [`measurement`] | the central noun: what one load, watched, yields; the JSON schema |
//! | [`run_record`] | a run of an experiment and its cells; the JSON schema |
//! | [`comparison`] | what is said of two sides that were measured; the JSON schema |
//! | [`net_record`] | the network's side of a measurement; part of its JSON schema |
//! | [`trace_record`] | what watching a program yields; the JSON schema |
//! | [`top_record`] | what a watched program does a second, once an interval; the JSON schema |
//! | [`metrics_record`] | what a scrape tells of a watch that goes on |
//! | [`scrape`] | an HTTP server that answers scrapes, and nothing else |
//! | [`watch`] | other people's programs: their rings, followed requests, recordings |
//! | [`recorded`] | what a recording holds; its schema |
//! | [`export`] | runs, recordings and samples for other programs, one file per format |
//! | [`plain`] | text from outside as a terminal may show it; lines on standard error |
//! | [`folders`] | where the store, the journal and the lab's cache are |
//! | [`error`] | what a user is told, and the exit status |

pub mod answer;
pub mod cli;
pub mod comparison;
pub mod engine;
pub mod error;
pub mod experiment;
pub mod export;
pub mod folders;
pub mod host;
pub mod lab;
pub mod load;
pub mod measurement;
pub mod metrics_record;
pub mod net;
pub mod net_record;
pub mod output;
pub mod path;
pub mod plain;
pub mod probe;
pub mod recorded;
pub mod report;
pub mod run_record;
pub mod scrape;
pub mod stats;
pub mod store;
pub mod top_record;
pub mod trace_record;
pub mod watch;
