//! Puts measurements into words. Pure: numbers in, sentences out; each sentence follows from the numbers.
//!
//! Depends on `iotrail-base`, `iotrail-schema`, `iotrail-stats`, `iotrail-path`.

pub mod across;
pub mod budget;
pub mod callsites;
pub mod command;
pub mod comparable;
pub mod compare;
pub mod conclude;
pub mod delivered;
pub mod diagnose;
pub mod drift;
pub mod expectation;
pub mod explain;
pub mod figure;
pub mod fleet;
pub mod group;
pub mod histogram;
pub mod history;
pub mod per_io;
pub mod reproduce;
pub mod search;
pub mod spread;
pub mod stall;
pub mod summary;
pub mod table;
pub mod timeline;
pub mod timelines;
pub mod trace_comparison;
pub mod traced;
pub mod unit;
pub mod verdicts;
pub mod warnings;
