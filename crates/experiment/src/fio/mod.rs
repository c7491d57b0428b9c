//! fio's job files: what of one is a load that `bench` can make, and what is not (docs/formats.md).
//!
//! | file | responsible for |
//! |---|---|
//! | `job` | the text: sections, comments, values with fio's units |
//! | `map`, `engine` | one job's options → `bench`'s; its engine and what that asks the kernel for |
//! | `passed_over` | options that need no counterpart |
//!
//! What fio does by default and without saying is part of its load: buffered I/O, a depth of 1, ring flags that were not asked
//! for. The import says so and asks for the same.

mod engine;
mod job;
mod map;
mod passed_over;

use serde::Deserialize;

use iotrail_base::error::{Error, Result};
use iotrail_load::options::LoadOptions;

/// A job, as far as it can be had.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// `bench`'s options by name, without the dashes in front.
    pub options: toml::Table,
    /// Line and text of each option that is not in the load, with the reason.
    pub unmapped: Vec<(usize, String)>,
    /// What is in the load though the file does not say it, and what differs though it does.
    pub notes: Vec<String>,
}

/// Reads the one job of a file; `origin` is the file's name in messages.
///
/// Errors (input, with the line): no job or several, an `include`, a variable, an engine or an access pattern that there is
/// no counterpart of, a value that is none.
pub fn import(text: &str, origin: &str) -> Result<Imported> {
    let job = job::read(text).map_err(|at| refuse(origin, &at))?;
    let imported = map::map(job).map_err(|at| refuse(origin, &at))?;
    // What the mapping makes is checked as what a user writes.
    LoadOptions::deserialize(toml::Value::Table(imported.options.clone()))
        .map_err(|e| refuse(origin, &Fault { line: None, what: e.message().to_owned() }))?;
    Ok(imported)
}

/// What is wrong, and where.
#[derive(Debug, PartialEq)]
struct Fault {
    line: Option<usize>,
    what: String,
}

impl Fault {
    fn line(line: usize, what: impl Into<String>) -> Self {
        Self { line: Some(line), what: what.into() }
    }
}

fn refuse(origin: &str, at: &Fault) -> Error {
    let line = at.line.map_or_else(String::new, |n| format!(":{n}"));
    Error::input(
        format!("{origin}{line}: {}", at.what),
        "docs/formats.md says what of a fio job can be had; `iotrail trace -- fio JOB` watches fio itself",
    )
}

#[cfg(test)]
mod tests;
